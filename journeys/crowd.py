"""Many clients upload large bodies at once: how many fail, how long it takes, and the memory of the site meanwhile.

python journeys/crowd.py --binary target/release/skerry --work target/crowd [--clients 50] [--bytes 280000000] [--memory-mb N] [--cpu SHARE]

Every body differs from every other by its offset in one file of noise, so that none is kept once for two. A small object is read all the
while: its times tell whether bulk and small reads share. `--memory-mb` and `--cpu` put the site into control groups (as root),
which go when the run ends. Each body is read back in part and compared. Ends with 1 if anything failed.
"""

import argparse
import hashlib
import os
import shutil
import socket
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

import boto3
from botocore.config import Config

import beside
from checks import wait_for
from groups import Groups

STEP = 20_011  # no multiple of a block


class Site(beside.Skerry):
    """A site that is put into groups before it begins."""

    groups = None

    def spawn(self, *arguments, **environment):
        log = open(self.directory / "log", "w")
        enter = (lambda: self.groups.take(os.getpid())) if self.groups else None
        self.process = subprocess.Popen([self.binary, *arguments], stdout=log, stderr=log,
                                        env=os.environ | environment, preexec_fn=enter)


def upload(url, noise, size, offset, seconds):
    """One PUT straight from the file; the status of the answer."""
    target = urlsplit(url)
    with socket.create_connection((target.hostname, target.port), timeout=seconds) as to:
        head = f"PUT {target.path}?{target.query} HTTP/1.1\r\nHost: {target.netloc}\r\nContent-Length: {size}\r\nConnection: close\r\n\r\n"
        to.sendall(head.encode())
        with open(noise, "rb") as file:
            first = min(size, noise.stat().st_size - offset)
            to.sendfile(file, offset, first)
            if size > first:
                to.sendfile(file, 0, size - first)
        answer = b""
        while piece := to.recv(4096):
            answer += piece
    return answer.split(b"\r\n", 1)[0].decode(errors="replace")


def client_of(site):
    config = Config(s3={"addressing_style": "path"}, signature_version="s3v4", retries={"max_attempts": 0}, read_timeout=120)
    return boto3.client("s3", endpoint_url=site.endpoint, aws_access_key_id=beside.KEY, aws_secret_access_key=beside.SECRET,
                        region_name=site.region, config=config)


def play(options, site):
    s3 = client_of(site)
    s3.create_bucket(Bucket="crowd")
    s3.put_object(Bucket="crowd", Key="small", Body=b"s" * 4096)
    noise = options.work / "noise"
    with open(noise, "wb") as file:
        for _ in range(options.bytes // (1 << 20) + 1):
            file.write(os.urandom(1 << 20))
    offset = lambda number: number * STEP % noise.stat().st_size
    urls = [s3.generate_presigned_url("put_object", {"Bucket": "crowd", "Key": f"large-{number}"}, ExpiresIn=86_400)
            for number in range(options.clients)]
    answers, over, small, peak_threads = [None] * options.clients, threading.Event(), [], [0]

    def one(number):
        try:
            answers[number] = upload(urls[number], noise, options.bytes, offset(number), options.patience)
        except OSError as error:
            answers[number] = f"broken off: {error}"

    def reads():
        reader = client_of(site)
        while not over.wait(0.05):
            begin = time.monotonic()
            try:
                ok = reader.get_object(Bucket="crowd", Key="small")["Body"].read() == b"s" * 4096
            except Exception as error:
                ok = str(error)
            small.append((time.monotonic() - begin, ok))
            peak_threads[0] = max(peak_threads[0], site.memory()[2])

    begin, before = time.monotonic(), site.usage()
    clients = [threading.Thread(target=one, args=(number,)) for number in range(options.clients)]
    reader = threading.Thread(target=reads)
    for thread in [*clients, reader]:
        thread.start()
    for thread in clients:
        thread.join()
    seconds = time.monotonic() - begin
    over.set()
    reader.join()
    failed = [answer for answer in answers if answer is None or " 200 " not in answer]
    wrong = [number for number in range(options.clients) if answers[number] and " 200 " in answers[number]
             and not same(s3, noise, options.bytes, number, offset(number))]
    cpu = site.usage()[0] - before[0]
    lost = [ok for _, ok in small if ok is not True]
    times = sorted(took * 1000 for took, _ in small)
    total = options.clients * options.bytes
    print(f"{options.clients} uploads of {options.bytes / 1e6:.0f} MB at once: {len(failed)} failed, {len(wrong)} read back wrong, "
          f"{seconds:.1f} s, {total / seconds / (1 << 20):.0f} MiB/s, {cpu / (total / (1 << 20)) * 1000:.2f} ms of CPU a MiB")
    print(f"memory at most {site.memory()[1]:.1f} MiB resident, {peak_threads[0]} threads")
    print(f"{len(small)} reads of 4 KiB meanwhile: {len(lost)} failed, p50 {statistics.median(times):.1f} ms, p99 {times[len(times) * 99 // 100]:.1f} ms, at most {times[-1]:.1f} ms")
    if site.groups and site.groups.memory:
        figures = site.groups.figures()
        print(f"control group: at most {figures['peak']:.1f} MiB with the page cache, {figures['at its limit']} times at its limit")
    for answer in sorted(set(map(str, failed + lost)))[:10]:
        print(f"  {answer}")
    return not failed and not wrong and not lost


def same(s3, noise, size, number, offset):
    """Compares the first and the last 2 MiB of a body and its ETag's form."""
    length = noise.stat().st_size
    with open(noise, "rb") as file:
        for begin in (0, max(0, size - (2 << 20))):
            end = min(size, begin + (2 << 20))
            got = s3.get_object(Bucket="crowd", Key=f"large-{number}", Range=f"bytes={begin}-{end - 1}")["Body"].read()
            wanted = b""
            at = (offset + begin) % length
            while len(wanted) < end - begin:
                file.seek(at)
                piece = file.read(min(end - begin - len(wanted), length - at))
                wanted += piece
                at = 0
            if hashlib.sha256(got).digest() != hashlib.sha256(wanted).digest():
                return False
    return True


def main():
    parser = argparse.ArgumentParser(description="many large uploads at once")
    parser.add_argument("--binary", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--bytes", type=int, default=280_000_000)
    parser.add_argument("--memory-mb", type=int)
    parser.add_argument("--cpu", type=float)
    parser.add_argument("--patience", type=float, default=600, help="seconds a client waits for the site")
    options = parser.parse_args()
    options.work = options.work.absolute()
    shutil.rmtree(options.work, ignore_errors=True)
    directory = options.work / "site"
    directory.mkdir(parents=True)
    site = Site(str(options.binary.absolute()), directory)
    groups = Groups(options.memory_mb and options.memory_mb << 20, options.cpu)
    site.groups = groups
    try:
        site.start()
        wait_for("the site to answer", site.answers, 60, 0.01)
        good = play(options, site)
    finally:
        site.stop()
        groups.remove()
        shutil.rmtree(options.work, ignore_errors=True)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
