"""Two sites that cannot reach each other: everything works by way of the third, and it is said when nothing can."""

import json
import subprocess

from botocore.exceptions import ClientError

from checks import equal, expect, wait_for
from clients import boto, content, sha256
from journey_boto import code_of
from journey_islands import snapshot


def peer(demo, number, other):
    return next(row for row in demo.status(number)["peers"] if row["name"] == demo.site(other).name)


def apart(checks, demo):
    bucket = "circuits"
    sites = {number: boto(demo, number) for number in (1, 2, 3)}
    one, two, three = sites[1], sites[2], sites[3]
    one.create_bucket(Bucket=bucket)
    demo.one_copy(bucket)
    body = content(5 << 20, "only at one")

    with checks.check("circuits: sites 1 and 3 are kept apart and linked by way of site 2"):
        demo.cut(1, other=3)
        wait_for("a way round", lambda: peer(demo, 3, 1)["via"] == demo.site(2).name, 60)
        wait_for("the other end", lambda: peer(demo, 1, 3)["via"] == demo.site(2).name, 60)
        equal((peer(demo, 3, 2)["via"], peer(demo, 3, 1)["hops"]), (None, 1), "courses")
        expect("via " + demo.site(2).name in demo.run("status", "--site", demo.site(3).name), "status does not say so")
        wait_for("the metric", lambda: demo.site(2).metric("skerry_carried_links") == 1, 30)

    with checks.check("circuits: site 3 reads, writes, lists and deletes what site 1 has; site 2 follows nothing of it"):
        one.put_object(Bucket=bucket, Key="large", Body=body)
        one.put_object(Bucket=bucket, Key="small", Body=b"small")
        equal(three.get_object(Bucket=bucket, Key="small")["Body"].read(), b"small", "small")
        sent = demo.site(1).wan("payload")
        equal(sha256(three.get_object(Bucket=bucket, Key="large")["Body"].read()), sha256(body), "large")
        equal(sha256(two.get_object(Bucket=bucket, Key="large")["Body"].read()), sha256(body), "large in between")
        crossed = demo.site(1).wan("payload") - sent
        expect(len(body) <= crossed < 1.5 * len(body), f"{crossed} bytes left site 1 for two readers")
        three.put_object(Bucket=bucket, Key="from three", Body=b"three")
        wait_for("the write at site 1", lambda: "from three" in snapshot(one, bucket), 30)
        three.delete_object(Bucket=bucket, Key="small")
        wait_for("the delete at site 1", lambda: "small" not in snapshot(one, bucket), 30)
        equal(snapshot(three, bucket), snapshot(one, bucket), "listings")

    with checks.check("circuits: conditions are decided at the home, and a write reaches all three sites"):
        three.put_object(Bucket=bucket, Key="lock", Body=b"three", IfNoneMatch="*")
        equal(code_of(lambda: three.put_object(Bucket=bucket, Key="lock", Body=b"x", IfNoneMatch="*"))[0], "PreconditionFailed", "the loser")
        demo.run("bucket", "set", bucket, "--ack-scope", "sites=3")
        three.put_object(Bucket=bucket, Key="at all", Body=content(100_000, "at all"))
        demo.run("bucket", "set", bucket, "--ack-scope", "site")
        upload = three.create_multipart_upload(Bucket=bucket, Key="parts")["UploadId"]
        part = one.upload_part(Bucket=bucket, Key="parts", UploadId=upload, PartNumber=1, Body=body)
        parts = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
        one.complete_multipart_upload(Bucket=bucket, Key="parts", UploadId=upload, MultipartUpload=parts)
        equal(sha256(three.get_object(Bucket=bucket, Key="parts")["Body"].read()), sha256(body), "parts")

    with checks.check("circuits: without the one in between the refusal says what was tried"):
        one.put_object(Bucket=bucket, Key="late", Body=content(300_000, "late"))
        wait_for("its record", lambda: "late" in snapshot(three, bucket), 30)
        demo.kill(2)
        wait_for("the link to go", lambda: peer(demo, 3, 1)["state"] != "alive", 60)
        equal(code_of(lambda: three.put_object(Bucket=bucket, Key="k", Body=b"x", IfNoneMatch="*"))[0], "HomeUnreachable", "home")
        try:
            three.get_object(Bucket=bucket, Key="late")
            expect(False, "read without a way")
        except ClientError as error:
            expect("no link to it" in str(error), str(error))

    with checks.check("circuits: it comes back, and so does the way"):
        demo.restart(2)
        wait_for("a way round", lambda: peer(demo, 3, 1)["via"] == demo.site(2).name, 60)
        equal(sha256(three.get_object(Bucket=bucket, Key="late")["Body"].read()), sha256(content(300_000, "late")), "late")

    with checks.check("circuits: healed they are linked directly, and nothing is carried any more"):
        demo.heal(1, other=3)
        wait_for("a direct link", lambda: peer(demo, 3, 1)["state"] == "alive" and peer(demo, 3, 1)["via"] is None, 60)
        wait_for("the metric", lambda: demo.site(2).metric("skerry_carried_links") == 0, 30)
        equal(snapshot(three, bucket), snapshot(one, bucket), "listings")

    with checks.check("circuits: a cut from a site that is not there is refused"):
        command = [demo.binary, "link", "cut", demo.site(1).name, "--from", "nowhere", "--dir", str(demo.directory)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        expect(done.returncode != 0 and "nowhere" in done.stdout + done.stderr, done.stdout + done.stderr)
        state = json.loads(demo.run("link", "heal", demo.site(1).name, "--json"))
        equal(state["apart"], [], "apart")
