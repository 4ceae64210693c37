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
        equal(info(demo, bucket)["copies"], 2, "copies that nobody asked for")
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


def areas(checks, demo):
    """Copies where areas ask for them; then the bucket moves, and moves back, while it is read and written."""
    bucket = "areas"
    sites = {number: boto(demo, number) for number in (1, 2, 3)}
    names = {number: demo.site(number).name for number in sites}
    sites[1].create_bucket(Bucket=bucket)
    bodies = {f"k/{n}": content((200 << 10) + n, f"area {n}") for n in range(12)}

    def lacking():
        return {area["area"]: area for area in info(demo, bucket)["areas"]}

    def read_all(number):
        for key, body in bodies.items():
            got = sites[number].get_object(Bucket=bucket, Key=key)["Body"].read()
            expect(sha256(got) == sha256(body), f"{key} differs at {names[number]}")

    with checks.check("areas: two copies in an area of two sites, named at one of them and heard everywhere"):
        for number, area in ((1, "oslo"), (2, "bergen"), (3, "bergen")):
            demo.run("site", "area", names[number], area, "--site", names[1])
        demo.run("bucket", "set", bucket, "--copies", "2 in bergen", "--site", names[1])
        for key, body in bodies.items():
            sites[1].put_object(Bucket=bucket, Key=key, Body=body)
        begin = time.monotonic()
        wait_for("bergen to have all", lambda: lacking()["bergen"]["lacking_versions"] == 0, 60)
        print(f"     {len(bodies)} objects twice in bergen {time.monotonic() - begin:.2f} s after the last write", flush=True)
        wait_for("the metric", lambda: not demo.site(1).metric("skerry_area_lacking_bytes", bucket=bucket, area="bergen"), 30)

    with checks.check("areas: an area that lost a site says so, and nothing is refused"):
        demo.run("site", "area", names[3], "--none", "--site", names[2])
        wait_for("one site of two", lambda: lacking()["bergen"]["sites"] == 1, 30)
        note = demo.run("status", "--site", names[1])
        sites[1].put_object(Bucket=bucket, Key="k/more", Body=b"more" * 20000)
        bodies["k/more"] = b"more" * 20000
        expect(isinstance(note, str), "status answers")
        demo.run("site", "area", names[3], "bergen", "--site", names[1])
        wait_for("bergen to have all again", lambda: lacking()["bergen"]["sites"] == 2 and lacking()["bergen"]["lacking_versions"] == 0, 60)

    with checks.check("areas: the bucket moves to bergen while it is read and written, and back"):
        for area, outside in (("bergen", (1,)), ("oslo", (2, 3))):
            demo.run("bucket", "set", bucket, "--copies", "1" if area == "oslo" else "2", "--site", names[1])
            demo.run("bucket", "set", bucket, "--lives-in", area, "--site", names[1])
            begin, rounds, written = time.monotonic(), 0, {}
            total = sum(len(body) for body in bodies.values())

            def gone():
                return all(demo.status(number)["surplus"]["versions"] == 0 for number in outside) and all(
                    demo.status(number)["surplus"]["released_bytes"] >= total for number in outside
                )

            while not gone():
                expect(time.monotonic() - begin < 150, f"not moved to {area}")
                for number in sites:
                    read_all(number)
                    # What is written elsewhere goes on being too many there for a moment: it ends so that the end can be seen.
                    if time.monotonic() - begin < 5:
                        key, body = f"during/{area}/{number}/{rounds}", content(70000, f"{area} {number} {rounds}")
                        sites[number].put_object(Bucket=bucket, Key=key, Body=body)
                        written[key] = body
                rounds += 1
                time.sleep(0.2)
            took = time.monotonic() - begin
            print(f"     moved to {area} in {took:.1f} s, {rounds * 3 * len(bodies)} reads, {len(written)} writes meanwhile", flush=True)
            bodies |= written
            for number in sites:
                read_all(number)
