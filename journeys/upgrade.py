"""Three sites of an older release, updated to this one site by site while clients go on: does anybody notice, and is anything lost?

python journeys/upgrade.py --old OLD --binary target/release/skerry --work target/upgrade

OLD is the binary of an older release (`git worktree add /tmp/old COMMIT`, and `cargo build --release` there). The older sites are given
objects of all sizes and both ways up, versions, deletes, a conflict and an upload that is not finished. Then each site in turn is
stopped, its binary replaced, and started on the same directory; three writers at each site go on all the while. After each the mixed
federation does what clients do, each thing at each site and seen from each other. In the end everything acknowledged is read at every
site by its sum. Not in CI, which has no older binary.
"""

import argparse
import shutil
from pathlib import Path

from botocore.exceptions import ClientError

from checks import Checks, equal, expect, wait_for
from clients import boto, content, sha256
from islands import Demo
from journey_crash import Uploads, verify
from journey_islands import snapshot

SITES = (1, 2, 3)
SIZES = (0, 200, 300, 5_000, 40_000, 1_200_000, 6_000_000)
PART = 5 << 20
BUCKET, VERSIONED = "carried", "carried-versions"


def everywhere(demo, bucket):
    for number in SITES:
        wait_for(f"{bucket} at site {number}", lambda n=number: boto(demo, n).head_bucket(Bucket=bucket))


def parts(client, bucket, key, body, complete=True):
    """An upload in parts; gives it unfinished if wanted."""
    where = {"Bucket": bucket, "Key": key}
    upload = where | {"UploadId": client.create_multipart_upload(**where)["UploadId"]}
    pieces = enumerate((body[at : at + PART] for at in range(0, len(body), PART)), 1)
    tags = [{"PartNumber": n, "ETag": client.upload_part(**upload, PartNumber=n, Body=piece)["ETag"]} for n, piece in pieces]
    finish = upload | {"MultipartUpload": {"Parts": tags}}
    return client.complete_multipart_upload(**finish) if complete else finish


def before(demo):
    """What the older release is given; what must be there after, and the upload left open."""
    one = boto(demo, 1)
    objects = {}
    for bucket in (BUCKET, VERSIONED):
        one.create_bucket(Bucket=bucket)
        everywhere(demo, bucket)
    one.put_bucket_versioning(Bucket=VERSIONED, VersioningConfiguration={"Status": "Enabled"})
    for number in SITES:
        client = boto(demo, number)
        for size in SIZES:
            key, body = f"old/{number}/{size}", content(size, f"{number} {size}")
            client.put_object(Bucket=BUCKET, Key=key, Body=body, Metadata={"from": str(number)})
            objects[key] = sha256(body)
        key, body = f"old/{number}/parts", content(PART + 70_000, number)
        parts(client, BUCKET, key, body)
        objects[key] = sha256(body)
        client.put_object(Bucket=BUCKET, Key=f"gone/{number}", Body=b"gone")
        client.delete_object(Bucket=BUCKET, Key=f"gone/{number}")
    both_sides(demo)
    body = content(PART + 10, "unfinished")
    objects["old/unfinished"] = sha256(body)
    return objects, parts(boto(demo, 2), BUCKET, "old/unfinished", body, complete=False)


def both_sides(demo):
    """Versions and a delete marker of one key, and a conflict."""
    for turn in range(5):
        boto(demo, 1).put_object(Bucket=VERSIONED, Key="many", Body=content(2_000, turn))
    boto(demo, 1).delete_object(Bucket=VERSIONED, Key="many")
    wait_for("versions at site 3", lambda: len(versions(demo, 3)) == 6)
    demo.cut(3)
    for number in (1, 3):
        boto(demo, number).put_object(Bucket=BUCKET, Key="both", Body=f"of {number}".encode())
    demo.heal(3)
    wait_for("one winner", lambda: len({boto(demo, n).head_object(Bucket=BUCKET, Key="both")["ETag"] for n in SITES}) == 1)
    wait_for("the conflict", lambda: "both" in demo.run("conflicts", "list", "--site", demo.site(2).name))


def versions(demo, number):
    """Identities of all versions and markers."""
    page = boto(demo, number).list_object_versions(Bucket=VERSIONED)
    return sorted((row["Key"], row["VersionId"]) for kind in ("Versions", "DeleteMarkers") for row in page.get(kind, []))


def replace(demo, number, binary):
    """As an operator does it: stop, replace, start."""
    demo.terminate(number)
    demo.binary = binary
    demo.restart(number)


def mixed(demo, label):
    """What clients do, at each site, seen from each other."""
    written = {}
    for number in SITES:
        client = boto(demo, number)
        for size in SIZES[1:]:
            key, body = f"{label}/{number}/{size}", content(size, f"{label} {number} {size}")
            client.put_object(Bucket=BUCKET, Key=key, Body=body)
            written[key] = sha256(body)
        key, body = f"{label}/{number}/parts", content(PART + 1, f"{label} {number}")
        parts(client, BUCKET, key, body)
        written[key] = sha256(body)
    for number in SITES:
        wait_for(f"all of it at site {number}", lambda n=number: verify(boto(demo, n), BUCKET, written) == [], 60, 0.5)
    return written


def conditions(demo, label):
    """One of several that compare with the same state wins, wherever it asks; the others are told."""
    for number in SITES:
        key = f"{label}/condition/{number}"
        tag = boto(demo, number).put_object(Bucket=BUCKET, Key=key, Body=b"first", IfNoneMatch="*")["ETag"]
        won = []
        for other in SITES:
            arrived = lambda n=other: boto(demo, n).head_object(Bucket=BUCKET, Key=key)
            wait_for(f"{key} at site {other}", arrived)
            try:
                boto(demo, other).put_object(Bucket=BUCKET, Key=key, Body=f"{other}".encode(), IfMatch=tag)
                won.append(other)
            except ClientError as error:
                equal(error.response["Error"]["Code"], "PreconditionFailed", f"of site {other}")
        equal(len(won), 1, "winners")


def names(demo, label):
    """Buckets and access keys made at one site hold at all."""
    for number in SITES:
        bucket = f"{label}-of-{number}"
        boto(demo, number).create_bucket(Bucket=bucket)
        everywhere(demo, bucket)
    made = demo.run("key", "create", "--site", demo.site(1).name)
    access = next(word for word in made.split() if word.startswith("SK"))
    for number in SITES:
        wait_for(f"the key at site {number}", lambda n=number: access in demo.run("key", "list", "--site", demo.site(n).name))


def gone(demo):
    """Deletes of before have not come back."""
    for number in SITES:
        listed = boto(demo, number).list_objects_v2(Bucket=BUCKET, Prefix="gone/")
        equal(listed["KeyCount"], 0, f"deleted keys at site {number}")


def step(checks, demo, number, binary, everything):
    """One site is updated while all three are written to."""
    label = f"mixed-{number}"
    writers = {n: Uploads(demo, n, BUCKET, f"live-{number}") for n in SITES}
    with checks.check(f"site {number} is stopped, replaced and started; the others go on, it takes writes again"):
        try:
            wait_for("uploads everywhere", lambda: min(w.count() for w in writers.values()) >= 5, 60)
            counts = {n: w.count() for n, w in writers.items()}
            replace(demo, number, binary)
            wait_for("all go on", lambda: all(w.count() > counts[n] + 5 for n, w in writers.items()), 60)
        finally:
            for writer in writers.values():
                everything |= writer.stop()
        equal([wrong for writer in writers.values() for wrong in writer.wrong], [], "answers")
        equal([writers[n].failed for n in SITES if n != number], [0, 0], "failed at the others")
    with checks.check(f"{label}: bodies of all sizes and in parts, written at each, read at each"):
        everything |= mixed(demo, label)
    with checks.check(f"{label}: conditional writes of all sites"):
        conditions(demo, label)
    with checks.check(f"{label}: new buckets and keys hold at all"):
        names(demo, label)
    with checks.check(f"{label}: deletes stay, versions agree"):
        gone(demo)
        wait_for("the same versions", lambda: len({str(versions(demo, n)) for n in SITES}) == 1)


def run(checks, options, directory):
    old, new = str(options.old.resolve()), str(options.binary.resolve())
    with Demo(old, directory) as demo:
        everything, unfinished = before(demo)
        kept = versions(demo, 1)
        for number in SITES:
            step(checks, demo, number, new, everything)
        with checks.check("an upload begun before is completed after"):
            boto(demo, 2).complete_multipart_upload(**unfinished)
            wait_for("it at site 1", lambda: boto(demo, 1).head_object(Bucket=BUCKET, Key="old/unfinished"))
        with checks.check(f"everything acknowledged ({len(everything)} objects) is at every site, byte for byte"):
            for number in SITES:
                equal(verify(boto(demo, number), BUCKET, everything), [], f"at site {number}")
        with checks.check("versions and the conflict of before are there, listings agree"):
            equal(versions(demo, 3), kept, "versions")
            expect("both" in demo.run("conflicts", "list", "--site", demo.site(3).name), "the conflict is not listed")
            wait_for("the same listing", lambda: len({str(snapshot(boto(demo, n), BUCKET)) for n in SITES}) == 1, 60, 0.5)
        with checks.check("each site's disk is whole by its own check"):
            for number in SITES:
                demo.terminate(number)
                demo.run("check", "--site", demo.site(number).name, timeout=300)


def main():
    parser = argparse.ArgumentParser(description="a rolling update from an older release")
    parser.add_argument("--old", type=Path, required=True)
    parser.add_argument("--binary", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    options = parser.parse_args()
    directory = options.work.absolute() / "demo"
    shutil.rmtree(directory, ignore_errors=True)
    directory.parent.mkdir(parents=True, exist_ok=True)
    checks = Checks()
    try:
        run(checks, options, directory)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    raise SystemExit(0 if checks.close() else 1)


if __name__ == "__main__":
    main()
