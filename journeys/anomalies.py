"""What can surprise you, made to happen: every anomaly of docs/consistency.md as a runnable example.

python journeys/anomalies.py --binary target/release/skerry [NAME..]

Each starts from three joined sites, tells what it does, and checks that the outcome is the documented one.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

from botocore.exceptions import ClientError

from checks import Checks, equal, expect, wait_for
from clients import boto, content
from islands import Demo
from journey_islands import snapshot


def read(client, bucket, key, **more):
    return client.get_object(Bucket=bucket, Key=key, **more)["Body"].read()


def shared(demo, bucket, keys):
    """A bucket with these keys, known and read at all three sites."""
    clients = {number: boto(demo, number) for number in (1, 2, 3)}
    clients[1].create_bucket(Bucket=bucket)
    for key in keys:
        clients[1].put_object(Bucket=bucket, Key=key, Body=b"old")
    for client in clients.values():
        wait_for("the keys everywhere", lambda c=client: set(keys) <= set(snapshot(c, bucket)))
        for key in keys:
            equal(read(client, bucket, key), b"old", key)
    return clients


def concurrent_writes(demo):
    sites = shared(demo, "concurrent-writes", ["key"])
    demo.cut(3)
    sites[1].put_object(Bucket="concurrent-writes", Key="key", Body=b"from one")
    sites[3].put_object(Bucket="concurrent-writes", Key="key", Body=b"from three")
    demo.heal(3)

    def agreed():
        seen = {read(sites[n], "concurrent-writes", "key") for n in (1, 2, 3)}
        return len(seen) == 1 and seen != {b"old"} and seen.pop()

    winner = wait_for("one winner everywhere", agreed)
    loser = ({b"from one", b"from three"} - {winner}).pop()

    def listed():
        return json.loads(demo.run("conflicts", "list", "--json", "--bucket", "concurrent-writes"))["conflicts"]

    row = wait_for("the conflict", listed)[0]["conflict"]
    for number in (1, 2, 3):
        kept = wait_for("the loser", lambda n=number: read(sites[n], "concurrent-writes", "key", VersionId=row["version_id"]))
        equal(kept, loser, f"the loser at site {number}")


def delete_against_write(demo):
    sites = shared(demo, "delete-against-write", ["key"])
    demo.cut(3)
    sites[1].delete_object(Bucket="delete-against-write", Key="key")
    sites[3].put_object(Bucket="delete-against-write", Key="key", Body=b"new")
    demo.heal(3)
    for number in (1, 2, 3):
        wait_for("the new content", lambda n=number: snapshot(sites[n], "delete-against-write") and read(sites[n], "delete-against-write", "key") == b"new")


def stale_read(demo):
    sites = shared(demo, "stale-read", ["key"])
    demo.cut(2)
    sites[1].put_object(Bucket="stale-read", Key="key", Body=b"new")
    equal(read(sites[2], "stale-read", "key"), b"old", "while cut")
    demo.heal(2)
    wait_for("the new content", lambda: read(sites[2], "stale-read", "key") == b"new")


def stale_list(demo):
    sites = shared(demo, "stale-list", ["old"])
    demo.cut(2)
    sites[1].put_object(Bucket="stale-list", Key="new", Body=b"new")
    equal(set(snapshot(sites[2], "stale-list")), {"old"}, "while cut")
    demo.heal(2)
    wait_for("the new key", lambda: set(snapshot(sites[2], "stale-list")) == {"old", "new"})


def unreachable_payload(demo):
    sites = shared(demo, "unreachable-payload", ["key"])
    demo.one_copy("unreachable-payload")
    body = content(3 << 20, "unreachable")
    sites[1].put_object(Bucket="unreachable-payload", Key="large", Body=body)
    wait_for("the record at site 2", lambda: "large" in snapshot(sites[2], "unreachable-payload"))
    demo.cut(2)
    try:
        read(sites[2], "unreachable-payload", "large")
    except ClientError as error:
        equal(error.response["ResponseMetadata"]["HTTPStatusCode"], 409, "status")
        expect("site-1" in error.response["Error"]["Message"] or "reach" in error.response["Error"]["Message"], error.response["Error"])
        print("     " + error.response["Error"]["Code"] + ": " + error.response["Error"]["Message"], flush=True)
    else:
        expect(False, "payload that is not here was served")
    demo.heal(2)
    wait_for("the payload", lambda: reachable(sites[2], body))


def reachable(client, body):
    try:
        return read(client, "unreachable-payload", "large") == body
    except ClientError:
        return False


def bucket_twice(demo):
    sites = {number: boto(demo, number) for number in (1, 2, 3)}
    demo.cut(3)
    for number in (1, 3):
        sites[number].create_bucket(Bucket="bucket-twice")
        sites[number].put_object(Bucket="bucket-twice", Key=f"from {number}", Body=b"x")
    demo.heal(3)
    for number in (1, 3):
        wait_for("both objects", lambda n=number: set(snapshot(sites[n], "bucket-twice")) == {"from 1", "from 3"})


def deleted_bucket_returns(demo):
    sites = {number: boto(demo, number) for number in (1, 2, 3)}
    bucket = "deleted-bucket-returns"
    sites[1].create_bucket(Bucket=bucket)
    wait_for("the bucket at site 3", lambda: bucket in names(sites[3]))
    snapshot(sites[3], bucket)
    demo.cut(3)
    sites[1].delete_bucket(Bucket=bucket)
    sites[3].put_object(Bucket=bucket, Key="key", Body=b"not lost")
    demo.heal(3)
    for number in (1, 3):
        wait_for("the bucket and its object", lambda n=number: bucket in names(sites[n]) and "key" in snapshot(sites[n], bucket))
        wait_for("the object", lambda n=number: read(sites[n], bucket, "key") == b"not lost")


def names(client):
    return [row["Name"] for row in client.list_buckets()["Buckets"]]


ANOMALIES = {
    "concurrent-writes": concurrent_writes,
    "delete-against-write": delete_against_write,
    "stale-read": stale_read,
    "stale-list": stale_list,
    "unreachable-payload": unreachable_payload,
    "bucket-twice": bucket_twice,
    "deleted-bucket-returns": deleted_bucket_returns,
}


def show(checks, demo, chosen=None):
    for name in chosen or ANOMALIES:
        with checks.check(f"anomaly: {name}"):
            ANOMALIES[name](demo)


def main():
    parser = argparse.ArgumentParser(description="every anomaly of docs/consistency.md")
    parser.add_argument("--binary", type=Path, default=Path("target/release/skerry"))
    parser.add_argument("names", nargs="*", choices=[[], *ANOMALIES], metavar="NAME")
    options = parser.parse_args()
    checks = Checks()
    with tempfile.TemporaryDirectory(prefix="skerry-anomalies-") as directory:
        with Demo(options.binary.resolve(), Path(directory) / "demo") as demo:
            show(checks, demo, options.names)
    sys.exit(0 if checks.close() else 1)


if __name__ == "__main__":
    main()
