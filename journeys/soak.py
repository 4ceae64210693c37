"""Three sites under a steady mixture for hours, cut and healed all the while: does memory stay flat, and does everything stay right?

python journeys/soak.py --binary target/release/skerry --work target/soak [--minutes 60] [--rate 20] [--keys 400]

One client at each site writes, overwrites, deletes, lists, reads what another site's client wrote and now and then uploads in parts, at a
bounded rate over a bounded number of keys, so that what lives stays the same in size. Each body says itself which it is and carries its
sum: a read that is not one of the bodies ever written under its key is wrong. Every five minutes one site is cut off for one. Each minute
the memory of each process is read. Ends with 1 if a body was wrong, an operation failed other than by a refusal that names what is out of
reach, the sites differ in the end, or own memory in the last quarter is more than a tenth and 4 MiB above that of the second. Prints Markdown.
"""

import argparse
import hashlib
import random
import shutil
import statistics
import threading
import time
from collections import Counter
from pathlib import Path

from botocore.exceptions import ClientError

from checks import Wrong, expect, wait_for
from clients import boto
from islands import Demo
from journey_islands import snapshot

BUCKET = "soak"
SIZES = [0, 300, 4 << 10, 30 << 10, 100 << 10, 1 << 20, 5 << 20]
WEIGHTS = [1, 8, 20, 10, 6, 3, 0.3]
PART = 5 << 20
# A cut may make these of a read; nothing may make them of a write.
OUT_OF_REACH = {"Unreachable", "HomeUnreachable", "ServiceUnavailable"}


def body_of(key, turn, size):
    """Bytes that say which they are."""
    name = f"{key} {turn} {size} ".encode()
    rest = random.Random(f"{key} {turn}").randbytes(max(0, size - len(name) - 32))
    return hashlib.sha256(name + rest).digest() + name + rest


def is_whole(key, body):
    return hashlib.sha256(body[32:]).digest() == body[:32] and body[32:].startswith(f"{key} ".encode())


class Client(threading.Thread):
    """The client of one site."""

    def __init__(self, demo, number, options, until):
        super().__init__(daemon=True)
        self.number, self.options, self.until = number, options, until
        self.s3, self.chance = boto(demo, number), random.Random(number)
        self.done, self.refused, self.wrong, self.turn = Counter(), Counter(), [], 0

    def run(self):
        kinds = [self.put, self.get, self.delete, self.list, self.parts]
        pause = len(SITES) / self.options.rate
        while time.monotonic() < self.until and not self.wrong:
            kind = self.chance.choices(kinds, [40, 45, 8, 3, 0.3])[0]
            begin = time.monotonic()
            try:
                kind()
                self.done[kind.__name__] += 1
            except ClientError as error:
                self.judge(kind, error.response["Error"])
            except Exception as error:  # a connection that broke: nothing here breaks any
                self.wrong.append(f"site {self.number}, {kind.__name__}: {error!r}")
            time.sleep(max(0.0, pause - (time.monotonic() - begin)))

    def judge(self, kind, error):
        if kind == self.get and error["Code"] in OUT_OF_REACH:
            self.refused[error["Code"]] += 1
        elif not (kind == self.get and error["Code"] == "NoSuchKey"):
            self.wrong.append(f"site {self.number}, {kind.__name__}: {error}")

    def key(self, number):
        return f"{number}/{self.chance.randrange(self.options.keys)}"

    def put(self):
        key, self.turn = self.key(self.number), self.turn + 1
        size = self.chance.choices(SIZES, WEIGHTS)[0]
        self.s3.put_object(Bucket=BUCKET, Key=key, Body=body_of(key, self.turn, size))

    def get(self):
        key = self.key(self.chance.choice(SITES))
        body = self.s3.get_object(Bucket=BUCKET, Key=key)["Body"].read()
        if not is_whole(key, body):
            self.wrong.append(f"site {self.number}: {key} has bytes that nobody wrote")

    def delete(self):
        self.s3.delete_object(Bucket=BUCKET, Key=self.key(self.number))

    def list(self):
        self.s3.list_objects_v2(Bucket=BUCKET, Prefix=f"{self.chance.choice(SITES)}/")

    def parts(self):
        key, self.turn = self.key(self.number), self.turn + 1
        body = body_of(key, self.turn, PART + 1000)
        where = {"Bucket": BUCKET, "Key": key}
        upload = where | {"UploadId": self.s3.create_multipart_upload(**where)["UploadId"]}
        pieces = enumerate((body[:PART], body[PART:]), 1)
        tags = [{"PartNumber": n, "ETag": self.s3.upload_part(**upload, PartNumber=n, Body=piece)["ETag"]} for n, piece in pieces]
        self.s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": tags})


SITES = (1, 2, 3)


def bytes_of(file):
    try:
        return file.stat().st_blocks * 512 if file.is_file() else 0
    except FileNotFoundError:  # segments go while this looks
        return 0


def sample(demo, number):
    """Own and resident memory in MiB, threads, open files, MiB on disk."""
    of = Path(f"/proc/{demo.site(number).pid}")
    fields = dict(line.split(":", 1) for line in (of / "status").read_text().splitlines())
    mib = lambda name: int(fields[name].split()[0]) / 1024
    disk = sum(map(bytes_of, (demo.directory / demo.site(number).name / "data").rglob("*"))) / 2**20
    return mib("RssAnon"), mib("VmRSS"), int(fields["Threads"]), len(list((of / "fd").iterdir())), disk


def play(demo, options):
    """The clients, the cuts and a sample a minute."""
    begin = time.monotonic()
    until = begin + options.minutes * 60
    clients = [Client(demo, number, options, until) for number in SITES]
    for client in clients:
        client.start()
    samples, cut = {number: [] for number in SITES}, None
    for minute in range(1, options.minutes + 1):
        time.sleep(max(0.0, begin + minute * 60 - time.monotonic()))
        for number in SITES:
            samples[number].append(sample(demo, number))
        if cut:
            demo.heal(cut)
            cut = None
        elif minute % 5 == 3 and minute < options.minutes - 2:
            cut = SITES[minute // 5 % 3]
            demo.cut(cut)
        if any(client.wrong for client in clients):
            break
    for client in clients:
        client.join(300)
    return clients, samples


def quarter(values, which):
    size = max(1, len(values) // 4)
    return values[which * size : (which + 1) * size] or values[-1:]


def show(clients, samples):
    """Means of each quarter; what grew."""
    print("| site | quarter | own memory, MiB | resident, MiB | at most | threads | files open | on disk, MiB |\n|---|---|---|---|---|---|---|---|")
    grew = []
    for number, rows in samples.items():
        for which in range(4):
            part = list(zip(*quarter(rows, which), strict=True))
            mean = [statistics.mean(column) for column in part]
            print(f"| {number} | {which + 1} | {mean[0]:.1f} | {mean[1]:.1f} | {max(part[1]):.1f} | {max(part[2])} | {max(part[3])} | {mean[4]:.0f} |")
        early, late = (statistics.mean(row[0] for row in quarter(rows, which)) for which in (1, 3))
        if late > early * 1.1 + 4:
            grew.append(f"site {number} grew from {early:.1f} to {late:.1f} MiB of its own")
    done = sum((client.done for client in clients), Counter())
    refused = sum((client.refused for client in clients), Counter())
    print(f"\noperations {dict(done)}; reads refused while a site was cut off {dict(refused)}", flush=True)
    return grew


def main():
    parser = argparse.ArgumentParser(description="a long soak")
    parser.add_argument("--binary", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--minutes", type=int, default=60)
    parser.add_argument("--rate", type=float, default=20, help="operations a second, all sites together")
    parser.add_argument("--keys", type=int, default=400, help="of each site")
    options = parser.parse_args()
    directory = options.work.absolute() / "demo"
    shutil.rmtree(directory, ignore_errors=True)
    directory.parent.mkdir(parents=True, exist_ok=True)
    try:
        with Demo(options.binary.resolve(), directory) as demo:
            boto(demo, 1).create_bucket(Bucket=BUCKET)
            for number in SITES:
                wait_for("the bucket", lambda n=number: boto(demo, n).head_bucket(Bucket=BUCKET))
            clients, samples = play(demo, options)
            wrong = [word for client in clients for word in client.wrong] + show(clients, samples)
            wait_for("the same listing everywhere", lambda: len({str(snapshot(client.s3, BUCKET)) for client in clients}) == 1, 120, 1)
        expect(not wrong, "; ".join(wrong))
    except Wrong as error:
        raise SystemExit(f"soak: {error}") from error
    finally:
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()
