"""awscli (both versions) and s3cmd do what their users do: written at site 1, read at site 2."""

import json
import urllib.request
from pathlib import Path

from checks import equal, expect, wait_for
from clients import Aws, S3cmd, arrived, boto, content, make_tree, sha256_of, tree_sums
from journey_boto import http_code


def bucket_seen(command, number, bucket):
    """Waits until a site knows a bucket that was made at another."""
    wait_for(f"{bucket} at site-{number}", lambda: bucket in command(number, *LISTING[type(command)]), 30)


LISTING = {Aws: ("s3", "ls"), S3cmd: ("ls",)}


def aws(checks, demo, work, program, label):
    """One version of awscli."""
    work = Path(work) / label
    work.mkdir(parents=True)
    run = Aws(program, demo, work)
    bucket = f"{label}-journey"
    two, three = boto(demo, 2), boto(demo, 3)
    url = f"s3://{bucket}"

    with checks.check(f"{label}: a bucket made at site 1 is listed at site 2"):
        run(1, "s3", "mb", url)
        bucket_seen(run, 2, bucket)

    with checks.check(f"{label}: a small file goes up at 1 and comes down at 2"):
        source, target = work / "small.txt", work / "small.back"
        source.write_bytes(content(1234, label))
        run(1, "s3", "cp", source, f"{url}/dir/small.txt")
        arrived(two, bucket, "dir/small.txt")
        run(2, "s3", "cp", f"{url}/dir/small.txt", target)
        equal(sha256_of(target), sha256_of(source), "checksum")

    with checks.check(f"{label}: unicode keys and odd characters are the same at every site"):
        keys = ["straße/Ünïcödé ☃.txt", "雪/a+b=c&d.txt", "with  two spaces", "percent%20literal", "quote'\"<>.txt"]
        for key in keys:
            body = work / "unicode"
            body.write_text(key)
            run(1, "s3", "cp", body, f"{url}/odd/{key}")
        for client, key in ((two, keys[-1]), (three, keys[1])):
            arrived(client, bucket, f"odd/{key}")
        for number, some in ((2, keys), (3, keys[:2])):
            for key in some:
                equal(run(number, "s3", "cp", f"{url}/odd/{key}", "-"), key, f"body of {key!r} at {number}")
        listed = lambda: json.loads(run(2, "s3api", "list-objects-v2", "--bucket", bucket, "--prefix", "odd/"))
        found = wait_for("the listing at site 2", lambda: len(listed().get("Contents", [])) == len(keys) and listed())
        equal(sorted(row["Key"] for row in found["Contents"]), sorted("odd/" + key for key in keys), "keys")

    with checks.check(f"{label}: a multipart upload of 64 MiB comes down identical at site 2"):
        source, target = work / "big.bin", work / "big.back"
        source.write_bytes(content(64 << 20, label + "big"))
        run(1, "s3", "cp", source, f"{url}/big.bin")
        head = json.loads(run(1, "s3api", "head-object", "--bucket", bucket, "--key", "big.bin"))
        expect("-" in head["ETag"], f"not multipart: {head['ETag']}")
        equal(head["ContentLength"], 64 << 20, "length")
        arrived(two, bucket, "big.bin")
        run(2, "s3", "cp", f"{url}/big.bin", target)
        equal(sha256_of(target), sha256_of(source), "checksum")

    with checks.check(f"{label}: a tree synced up at 1 comes down identical at 2"):
        sums = make_tree(work / "tree", seed=7)
        run(1, "s3", "sync", work / "tree", f"{url}/tree")
        listing = lambda: run(2, "s3", "ls", "--recursive", f"{url}/tree/")
        wait_for("all keys at site 2", lambda: len(listing().splitlines()) == len(sums), 60)
        run(2, "s3", "sync", f"{url}/tree", work / "tree-back")
        equal(tree_sums(work / "tree-back"), sums, "checksums")
        again = run(2, "s3", "sync", f"{url}/tree", work / "tree-back")
        equal(again.strip(), "", "a second sync has nothing to do")

    with checks.check(f"{label}: ranges, metadata, content type"):
        body = work / "meta.txt"
        body.write_bytes(b"0123456789")
        run(1, "s3api", "put-object", "--bucket", bucket, "--key", "meta", "--body", body,
            "--metadata", "colour=blue,shape=round", "--content-type", "text/x-test", "--cache-control", "max-age=7")
        arrived(two, bucket, "meta")
        head = json.loads(run(2, "s3api", "head-object", "--bucket", bucket, "--key", "meta"))
        equal(head["Metadata"], {"colour": "blue", "shape": "round"}, "metadata")
        equal((head["ContentType"], head["CacheControl"]), ("text/x-test", "max-age=7"), "headers")
        part = work / "range"
        got = json.loads(run(2, "s3api", "get-object", "--bucket", bucket, "--key", "meta", "--range", "bytes=2-4", part))
        equal((part.read_bytes(), got["ContentRange"]), (b"234", "bytes 2-4/10"), "range")

    with checks.check(f"{label}: a copy within the store has the bytes and the metadata"):
        run(1, "s3api", "copy-object", "--bucket", bucket, "--key", "meta-copy", "--copy-source", f"{bucket}/meta")
        head = json.loads(run(1, "s3api", "head-object", "--bucket", bucket, "--key", "meta-copy"))
        equal(head["Metadata"], {"colour": "blue", "shape": "round"}, "metadata")
        equal(run(1, "s3", "cp", f"{url}/meta-copy", "-"), "0123456789", "bytes")

    with checks.check(f"{label}: a presigned link works without credentials"):
        link = run(1, "s3", "presign", f"{url}/meta").strip()
        equal(urllib.request.urlopen(link, timeout=30).read(), b"0123456789", "bytes")

    with checks.check(f"{label}: versions are kept, a delete hides, an older version is still there"):
        versioned = f"{label}-versions"
        run(1, "s3", "mb", f"s3://{versioned}")
        run(1, "s3api", "put-bucket-versioning", "--bucket", versioned, "--versioning-configuration", "Status=Enabled")
        ids = []
        for text in ("one", "two"):
            body = work / "version"
            body.write_text(text)
            put = json.loads(run(1, "s3api", "put-object", "--bucket", versioned, "--key", "k", "--body", body))
            ids.append(put["VersionId"])
        deleted = json.loads(run(1, "s3api", "delete-object", "--bucket", versioned, "--key", "k"))
        expect(deleted.get("DeleteMarker") is True, f"no delete marker: {deleted}")
        run(1, "s3api", "head-object", "--bucket", versioned, "--key", "k", codes=(254, 255, 1))
        rows = json.loads(run(1, "s3api", "list-object-versions", "--bucket", versioned))
        equal([row["VersionId"] for row in rows["Versions"]], ids[::-1], "versions, newest first")
        equal(len(rows["DeleteMarkers"]), 1, "delete markers")
        target = work / "version-back"
        run(1, "s3api", "get-object", "--bucket", versioned, "--key", "k", "--version-id", ids[0], target)
        equal(target.read_text(), "one", "the first version")

    with checks.check(f"{label}: a move and a recursive delete, then the bucket goes"):
        run(1, "s3", "mv", f"{url}/meta-copy", f"{url}/moved")
        equal(run(1, "s3", "cp", f"{url}/moved", "-"), "0123456789", "moved")
        run(1, "s3", "rm", "--recursive", url)
        equal(run(1, "s3", "ls", "--recursive", url, codes=(0, 1)).strip(), "", "what is left")
        run(1, "s3", "rb", url)
        wait_for("the bucket to be gone at site 2", lambda: bucket not in run(2, "s3", "ls").split(), 30)


def s3cmd(checks, demo, work, program):
    """s3cmd."""
    work = Path(work) / "s3cmd"
    work.mkdir(parents=True)
    run = S3cmd(program, demo, work)
    url = "s3://s3cmd-journey"
    two = boto(demo, 2)

    with checks.check("s3cmd: a bucket made at site 1 is listed at site 2"):
        run(1, "mb", url)
        bucket_seen(run, 2, "s3cmd-journey")

    with checks.check("s3cmd: put at 1, get at 2, unicode and spaces"):
        source, target = work / "small", work / "small.back"
        source.write_bytes(content(5000, "s3cmd"))
        for key in ("plain.txt", "straße ☃.txt", "a b+c.txt"):
            run(1, "put", source, f"{url}/{key}")
            arrived(two, "s3cmd-journey", key)
            run(2, "get", "--force", f"{url}/{key}", target)
            equal(sha256_of(target), sha256_of(source), f"checksum of {key}")

    with checks.check("s3cmd: a multipart upload of 64 MiB comes down identical at site 2"):
        source, target = work / "big.bin", work / "big.back"
        source.write_bytes(content(64 << 20, "s3cmd big"))
        run(1, "put", "--multipart-chunk-size-mb=15", source, f"{url}/big.bin")
        arrived(two, "s3cmd-journey", "big.bin")
        run(2, "get", "--force", f"{url}/big.bin", target)
        equal(sha256_of(target), sha256_of(source), "checksum")

    with checks.check("s3cmd: a tree synced up at 1 comes down identical at 2"):
        sums = make_tree(work / "tree", seed=11)
        run(1, "sync", f"{work}/tree/", f"{url}/tree/")
        wait_for("all keys at site 2", lambda: len(run(2, "ls", "--recursive", f"{url}/tree/").splitlines()) == len(sums), 60)
        (work / "tree-back").mkdir()
        run(2, "sync", f"{url}/tree/", f"{work}/tree-back/")
        equal(tree_sums(work / "tree-back"), sums, "checksums")

    with checks.check("s3cmd: copy, move, info, delete"):
        run(1, "cp", f"{url}/plain.txt", f"{url}/copy.txt")
        run(1, "mv", f"{url}/copy.txt", f"{url}/moved.txt")
        expect("5000" in run(1, "info", f"{url}/moved.txt"), "no size in info")
        # s3cmd knows signed links of version 2 only, which S3 itself gave up: refused by name, not by chance.
        link = run(1, "signurl", f"{url}/moved.txt", "+300").strip()
        equal(http_code(link), (400, "InvalidRequest"), "a link signed by version 2")
        run(1, "del", "--recursive", "--force", url)
        run(1, "rb", url)
