"""kill -9 of each site in turn during uploads: what was acknowledged is there and correct."""

import hashlib
import threading
from concurrent.futures import ThreadPoolExecutor

from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError

from checks import equal, expect, wait_for
from clients import boto, content, sha256

SIZES = (100, 20_000, 40_000, 1_200_000)
ERRORS = (ClientError, BotoCoreError, HTTPClientError, OSError)


class Uploads:
    """Writers at one site that note what was acknowledged, until told to stop."""

    def __init__(self, demo, number, bucket, label):
        self.client = boto(demo, number, read_timeout=20)
        self.bucket, self.label = bucket, f"{label}/site-{number}"
        self.acknowledged = {}
        self.failed = 0
        self.wrong = []
        self.lock = threading.Lock()
        self.done = threading.Event()
        self.threads = [threading.Thread(target=self.write, args=(n,), daemon=True) for n in range(3)]
        for thread in self.threads:
            thread.start()

    def write(self, writer):
        count = 0
        while not self.done.is_set():
            count += 1
            key = f"{self.label}/{writer}/{count}"
            body = content(SIZES[count % len(SIZES)], key)
            try:
                put = self.client.put_object(Bucket=self.bucket, Key=key, Body=body)
            except ERRORS:
                self.failed += 1
                self.done.wait(0.05)
                continue
            if put["ETag"].strip('"') != hashlib.md5(body).hexdigest():
                self.wrong.append(f"{key}: ETag {put['ETag']}")
            with self.lock:
                self.acknowledged[key] = sha256(body)

    def count(self):
        with self.lock:
            return len(self.acknowledged)

    def stop(self):
        self.done.set()
        for thread in self.threads:
            thread.join(60)
        return dict(self.acknowledged)


def verify(client, bucket, acknowledged):
    """Reads everything back; gives what is missing or wrong."""

    def one(item):
        key, wanted = item
        try:
            found = sha256(client.get_object(Bucket=bucket, Key=key)["Body"].read())
        except ERRORS as error:
            return f"{key}: {error}"
        return None if found == wanted else f"{key}: other bytes"

    with ThreadPoolExecutor(8) as pool:
        return [wrong for wrong in pool.map(one, acknowledged.items()) if wrong]


def killed_in_turn(checks, demo, rounds):
    """Each round kills each site once while all three are written to."""
    bucket = "crash"
    boto(demo, 1).create_bucket(Bucket=bucket)
    for number in (2, 3):
        client = boto(demo, number)
        wait_for(f"the bucket at {number}", lambda c=client: bucket in [b["Name"] for b in c.list_buckets()["Buckets"]])
    everything = {}
    for turn in range(1, rounds + 1):
        for victim in (1, 2, 3):
            with checks.check(f"crash: round {turn}: site {victim} killed during uploads, nothing acknowledged is lost"):
                everything |= one_kill(demo, bucket, f"{turn}-{victim}", victim)
    with checks.check("crash: everything acknowledged in all rounds is readable at every site"):
        for number in (1, 2, 3):
            # The last that was killed is back since a moment: its links may not stand, nor all feeds have come.
            wait_for(f"all of it at site {number}", lambda n=number: verify(boto(demo, n), bucket, everything) == [], 60)
        print(f"     {len(everything)} objects in {3 * rounds} kills", flush=True)


def one_kill(demo, bucket, label, victim):
    writers = {number: Uploads(demo, number, bucket, label) for number in (1, 2, 3)}
    try:
        wait_for("uploads in flight at every site", lambda: min(w.count() for w in writers.values()) >= 8, 60)
        demo.kill(victim)
        before = {number: writer.count() for number, writer in writers.items() if number != victim}
        wait_for("the others to go on", lambda: all(writers[n].count() > c + 3 for n, c in before.items()), 60)
        back = writers[victim].count()
        demo.restart(victim)
        wait_for("the killed site to take writes again", lambda: writers[victim].count() > back + 3, 60)
    finally:
        acknowledged = {number: writer.stop() for number, writer in writers.items()}
    for number, objects in acknowledged.items():
        equal(writers[number].wrong, [], f"answers of site {number}")
        wrong = verify(boto(demo, number), bucket, objects)
        expect(not wrong, f"site {number}: {len(wrong)} of {len(objects)}: {wrong[:3]}")
    return {key: value for objects in acknowledged.values() for key, value in objects.items()}


def started_again(checks, demo):
    """Ctrl-C and start: everything is found."""
    bucket = "again"
    one = boto(demo, 1)
    one.create_bucket(Bucket=bucket)
    objects = {}
    for size in (0, 10, 50_000, 3_000_000):
        body = content(size, f"again {size}")
        one.put_object(Bucket=bucket, Key=f"{size}", Body=body)
        objects[f"{size}"] = sha256(body)
    with checks.check("again: the demo stops cleanly and finds everything when started on the same directory"):
        key = demo.access_key
        equal(demo.stop(), 0, "exit code")
        demo.start()
        equal(demo.access_key, key, "access key")
        equal(verify(one, bucket, objects), [], "at site 1")
        # A site is ready before its links stand; what lies at site 1 is found once they do.
        wait_for("all of it at site 2", lambda: verify(boto(demo, 2), bucket, objects) == [])
