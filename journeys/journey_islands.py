"""Cut and heal: an island goes on, and afterwards all say the same without an operator."""

import json
import time

from checks import equal, expect, wait_for
from clients import arrived, boto, content, sha256
from journey_boto import code_of


def snapshot(client, bucket):
    """Every key with its ETag, as a site serves it."""
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket)
    return {row["Key"]: row["ETag"] for page in pages for row in page.get("Contents", [])}


def bodies(client, bucket):
    return {key: sha256(client.get_object(Bucket=bucket, Key=key)["Body"].read()) for key in snapshot(client, bucket)}


def cut_and_heal(checks, demo):
    bucket = "islands"
    sites = {number: boto(demo, number) for number in (1, 2, 3)}
    one, three = sites[1], sites[3]
    one.create_bucket(Bucket=bucket)
    one.put_object(Bucket=bucket, Key="before", Body=b"before")
    for number in (2, 3):
        wait_for(f"the bucket at site {number}", lambda n=number: "before" in snapshot(sites[n], bucket))
        equal(sites[number].get_object(Bucket=bucket, Key="before")["Body"].read(), b"before", "before")

    with checks.check("islands: a cut site answers its clients: write, read, list, delete, buckets, multipart"):
        demo.cut(3)
        expect(demo.status(3)["cut"], "status does not say that it is cut")
        work_alone(three, bucket, "three")
        three.create_bucket(Bucket="made-on-an-island")
        expect("made-on-an-island" in [row["Name"] for row in three.list_buckets()["Buckets"]], "not listed")

    with checks.check("islands: the others go on meanwhile, and nothing crosses the cut"):
        work_alone(one, bucket, "one")
        wait_for("site 2 to hear of site 1", lambda: "one/kept" in snapshot(sites[2], bucket))
        expect("one/kept" not in snapshot(three, bucket), "a record crossed the cut")
        expect("three/kept" not in snapshot(one, bucket), "a record crossed the cut")

    with checks.check("islands: both sides write the same keys"):
        for number in range(5):
            one.put_object(Bucket=bucket, Key=f"both/{number}", Body=f"one {number}".encode())
            three.put_object(Bucket=bucket, Key=f"both/{number}", Body=f"three {number}".encode())
        one.delete_object(Bucket=bucket, Key="before")
        three.put_object(Bucket=bucket, Key="before", Body=b"rewritten on the island")

    with checks.check("islands: after the heal all sites list and serve the same, without an operator"):
        begin = time.monotonic()
        demo.heal(3)

        def same():
            all_three = [snapshot(sites[number], bucket) for number in (1, 2, 3)]
            return all_three[0] == all_three[1] == all_three[2] and "three/kept" in all_three[0] and all_three[0]

        keys = wait_for("the same listing everywhere", same, 60)
        print(f"     converged {time.monotonic() - begin:.2f} s after the heal: {len(keys)} keys", flush=True)
        # Records may come by way of another before the link stands with who has the body.
        peers = lambda n: [peer["state"] for peer in demo.status(n)["peers"]]
        wait_for("all links", lambda: all(peers(n) == ["alive"] * 2 for n in (1, 2, 3)), 60)
        equal(bodies(sites[1], bucket), bodies(sites[2], bucket), "bodies at 1 and 2")
        equal(bodies(sites[1], bucket), bodies(sites[3], bucket), "bodies at 1 and 3")
        expect("before" in keys, "the write that the delete had not seen is gone")
        expect("one/deleted" not in keys and "three/deleted" not in keys, "a delete came back")
        wait_for("the island's bucket at site 1",
                 lambda: "made-on-an-island" in [row["Name"] for row in one.list_buckets()["Buckets"]])

    with checks.check("islands: the losers are listed as conflicts and can be read"):
        def listed():
            found = json.loads(demo.run("conflicts", "list", "--json", "--bucket", bucket))["conflicts"]
            rows = [row["conflict"] for row in found if row["conflict"]["key"].startswith("both/")]
            return len(rows) >= 5 and rows

        rows = wait_for("the conflicts", listed)
        equal(sorted({row["key"] for row in rows}), [f"both/{n}" for n in range(5)], "keys in conflict")
        for row in rows:
            winner = one.get_object(Bucket=bucket, Key=row["key"])["Body"].read()
            loser = one.get_object(Bucket=bucket, Key=row["key"], VersionId=row["version_id"])["Body"].read()
            number = row["key"][-1]
            equal({winner, loser}, {f"one {number}".encode(), f"three {number}".encode()}, row["key"])

    with checks.check("islands: an operator ends a conflict, and nothing is erased that was not confirmed"):
        row = next(row for row in rows if row["key"] == "both/1")
        act = ("conflicts", "resolve", bucket, "both/1", "--site", demo.site(1).name)
        said = demo.run(*act, "--dry-run")
        expect(row["version_id"] in said and "is erased for ever" in said, said)
        demo.run(*act, codes=(5,))
        loser = one.get_object(Bucket=bucket, Key="both/1", VersionId=row["version_id"])["Body"].read()
        demo.run(*act, "--keep", row["version_id"], "--yes")
        equal(one.get_object(Bucket=bucket, Key="both/1")["Body"].read(), loser, "what was chosen")
        expect("both/1" not in demo.run("conflicts", "list", "--site", demo.site(1).name), "it is listed still")

    with checks.check("islands: a write after the heal ends the conflict for its key"):
        one.put_object(Bucket=bucket, Key="both/0", Body=b"settled")
        for number in (2, 3):
            wait_for(f"the new value at {number}",
                     lambda n=number: sites[n].get_object(Bucket=bucket, Key="both/0")["Body"].read() == b"settled")


def work_alone(client, bucket, name):
    """The journey of an island: everything S3 that needs nobody else."""
    client.put_object(Bucket=bucket, Key=f"{name}/kept", Body=name.encode(), Metadata={"by": name})
    client.put_object(Bucket=bucket, Key=f"{name}/deleted", Body=b"x")
    client.delete_object(Bucket=bucket, Key=f"{name}/deleted")
    got = client.get_object(Bucket=bucket, Key=f"{name}/kept")
    equal((got["Body"].read(), got["Metadata"]), (name.encode(), {"by": name}), "own write")
    equal(code_of(client.get_object, Bucket=bucket, Key=f"{name}/deleted")[0], "NoSuchKey", "own delete")
    client.copy_object(Bucket=bucket, Key=f"{name}/copy", CopySource={"Bucket": bucket, "Key": f"{name}/kept"})
    upload = client.create_multipart_upload(Bucket=bucket, Key=f"{name}/multi")["UploadId"]
    body = [content(5 << 20, name), b"tail"]
    parts = [
        {"PartNumber": n, "ETag": client.upload_part(Bucket=bucket, Key=f"{name}/multi", UploadId=upload, PartNumber=n, Body=b)["ETag"]}
        for n, b in enumerate(body, start=1)
    ]
    client.complete_multipart_upload(Bucket=bucket, Key=f"{name}/multi", UploadId=upload, MultipartUpload={"Parts": parts})
    equal(sha256(client.get_object(Bucket=bucket, Key=f"{name}/multi")["Body"].read()), sha256(b"".join(body)), "multipart")


def locality(checks, demo):
    """Data follow use: the second read is local, and a local read needs nobody."""
    bucket = "locality"
    one, two = boto(demo, 1), boto(demo, 2)
    one.create_bucket(Bucket=bucket)
    demo.one_copy(bucket)
    body = content(24 << 20, "locality")
    one.put_object(Bucket=bucket, Key="large", Body=body)

    with checks.check("locality: the second read at site 2 moves 0 payload bytes between sites"):
        arrived(two, bucket, "large")
        begin = demo.site(2).wan("payload")
        equal(sha256(two.get_object(Bucket=bucket, Key="large")["Body"].read()), sha256(body), "first read")
        first = demo.site(2).wan("payload")
        expect(first - begin >= len(body), f"the first read moved {first - begin:.0f} bytes for {len(body)}")
        expect(first - begin < 1.3 * len(body), f"payload crossed more than once: {first - begin:.0f} bytes")
        equal(sha256(two.get_object(Bucket=bucket, Key="large")["Body"].read()), sha256(body), "second read")
        equal(demo.site(2).wan("payload") - first, 0, "payload bytes of the second read")

    with checks.check("locality: a cut site serves what it has read"):
        demo.cut(2)
        equal(sha256(two.get_object(Bucket=bucket, Key="large")["Body"].read()), sha256(body), "read while cut")
        demo.heal(2)

    with checks.check("locality: a local read takes what it takes with the other two sites stopped"):
        one.put_object(Bucket=bucket, Key="local", Body=content(4096, "local"))
        reads(one, bucket, 50)  # warm
        running = reads(one, bucket, 200)
        demo.terminate(2)
        demo.terminate(3)
        stopped = reads(one, bucket, 200)
        print(f"     GET of 4 KiB, p50: others running {running * 1e3:.2f} ms, stopped {stopped * 1e3:.2f} ms", flush=True)
        expect(stopped < 2 * running + 0.005, f"{stopped * 1e3:.2f} ms against {running * 1e3:.2f} ms")
        one.put_object(Bucket=bucket, Key="written alone", Body=b"x")
        demo.restart(2)
        demo.restart(3)
        wait_for("site 2 to catch up", lambda: "written alone" in snapshot(two, bucket), 60)


def reads(client, bucket, count):
    """The median seconds of a small read."""
    times = []
    for _ in range(count):
        begin = time.perf_counter()
        client.get_object(Bucket=bucket, Key="local")["Body"].read()
        times.append(time.perf_counter() - begin)
    return sorted(times)[count // 2]
