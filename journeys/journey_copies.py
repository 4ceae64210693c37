"""A box burns: once nothing is unprotected, everything is still there at the others."""

import json
import shutil
import time

from checks import equal, expect, wait_for
from clients import boto, content, sha256
from journey_islands import snapshot


def info(demo, bucket, number=1):
    return json.loads(demo.run("bucket", "info", bucket, "--json", "--site", demo.site(number).name))


def burnt(checks, demo):
    """Writes at site 1, which burns when it says that it may."""
    bucket = "burnt"
    sites = {number: boto(demo, number) for number in (1, 2, 3)}
    one = sites[1]
    one.create_bucket(Bucket=bucket)
    bodies = {f"small/{n}": content(n * 97, f"small {n}") for n in range(60)}
    bodies |= {f"large/{n}": content(3 << 20, f"large {n}") for n in range(4)}

    with checks.check("burnt: what only site 1 has is a number, and it falls to 0 by itself"):
        demo.run("bucket", "set", bucket, "--copies", "2", "--site", demo.site(1).name)
        equal(info(demo, bucket)["copies"], 2, "copies")
        demo.cut(1)
        for key, body in bodies.items():
            one.put_object(Bucket=bucket, Key=key, Body=body)
        total = sum(len(body) for body in bodies.values())
        equal(info(demo, bucket)["unprotected_bytes"], total, "unprotected while cut off")
        wait_for("the metric", lambda: demo.site(1).metric("skerry_unprotected_bytes", bucket=bucket) == total, 30)
        equal(demo.status(1)["unprotected_bytes"], total, "status")
        demo.heal(1)
        begin = time.monotonic()
        wait_for("others to hold everything", lambda: info(demo, bucket)["unprotected_bytes"] == 0, 120)
        print(f"     {len(bodies)} objects, {total} bytes: protected {time.monotonic() - begin:.2f} s after the heal", flush=True)
        wait_for("the metric", lambda: demo.site(1).metric("skerry_unprotected_bytes", bucket=bucket) == 0, 30)

    with checks.check("burnt: site 1 is gone with its directory, and everything is readable at the others"):
        for number in (2, 3):
            wait_for(f"all records at site {number}", lambda n=number: len(snapshot(sites[n], bucket)) == len(bodies))
        demo.kill(1)
        shutil.rmtree(demo.directory / demo.site(1).name / "data")
        for number in (2, 3):
            for key, body in bodies.items():
                got = sites[number].get_object(Bucket=bucket, Key=key)["Body"].read()
                expect(sha256(got) == sha256(body), f"{key} differs at site {number}")
