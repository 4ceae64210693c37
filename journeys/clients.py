"""The clients: boto3 sessions, and the command lines of awscli and s3cmd as processes."""

import hashlib
import os
import random
import subprocess
import sys
from pathlib import Path

import boto3
from botocore.config import Config

from checks import expect, wait_for

REGION = "us-east-1"


def boto(demo, number, keys=None, **options):
    """A boto3 client of a site, by the demo's access key or another one and its secret. It does not retry: what fails is to be seen."""
    access_key, secret_key = keys or (demo.access_key, demo.secret_key)
    settings = {
        "retries": {"total_max_attempts": 1},
        "signature_version": "s3v4",  # else boto3 presigns in a way that is refused since 2020
        "s3": {"addressing_style": "path"},
        "connect_timeout": 10,
        "read_timeout": 120,
        "max_pool_connections": 32,
    }
    settings.update(options)
    return boto3.client(
        "s3",
        endpoint_url=demo.site(number).endpoint,
        region_name=REGION,
        aws_access_key_id=access_key,
        aws_secret_access_key=secret_key,
        config=Config(**settings),
    )


def arrived(client, bucket, key):
    """Waits until a site has heard of an object: records travel by themselves, a moment after the write."""
    wait_for(f"{bucket}/{key}", lambda: client.head_object(Bucket=bucket, Key=key), 30)


def read_with_token(client, token, **request):
    """A read that is at least as new as the write that answered this token."""

    def add(request, **_):
        request.headers.add_header("x-skerry-token", token)

    client.meta.events.register_first("before-sign.s3.GetObject", add)
    try:
        return client.get_object(**request)["Body"].read()
    finally:
        client.meta.events.unregister("before-sign.s3.GetObject", add)


class Aws:
    """awscli, version 1 or 2, at a site."""

    def __init__(self, program, demo, work):
        self.program, self.demo, self.work = program, demo, Path(work)

    def __call__(self, number, *arguments, codes=(0,), timeout=600):
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.work),
            "LANG": "C.UTF-8",
            "AWS_ACCESS_KEY_ID": self.demo.access_key,
            "AWS_SECRET_ACCESS_KEY": self.demo.secret_key,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_CONFIG_FILE": str(self.config()),
            "AWS_MAX_ATTEMPTS": "1",
            "AWS_PAGER": "",
            "AWS_EC2_METADATA_DISABLED": "true",
        }
        command = [*self.program, "--endpoint-url", self.demo.site(number).endpoint, *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=timeout)
        said = f"{done.stdout[-600:]}{done.stderr[-1200:]}"
        expect(done.returncode in codes, f"aws {' '.join(map(str, arguments))}: exit {done.returncode}: {said}")
        return done.stdout


    def config(self):
        """Version 1 presigns as S3 did before 2014 unless it is told."""
        path = self.work / "aws-config"
        path.write_text("[default]\ns3 =\n    signature_version = s3v4\n")
        return path


class S3cmd:
    """s3cmd at a site."""

    def __init__(self, program, demo, work):
        self.program, self.demo, self.work = program, demo, Path(work)

    def __call__(self, number, *arguments, codes=(0,), timeout=600):
        host = self.demo.site(number).endpoint.removeprefix("http://")
        config = self.work / f"s3cfg-{number}"
        config.write_text(
            f"[default]\naccess_key = {self.demo.access_key}\nsecret_key = {self.demo.secret_key}\n"
            f"host_base = {host}\nhost_bucket = {host}\nuse_https = False\nbucket_location = {REGION}\n"
        )
        command = [*self.program, "--config", str(config), "--no-progress", *map(str, arguments)]
        environment = {**os.environ, "LANG": "C.UTF-8"}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=timeout)
        said = f"{done.stdout[-600:]}{done.stderr[-1200:]}"
        expect(done.returncode in codes, f"s3cmd {' '.join(map(str, arguments))}: exit {done.returncode}: {said}")
        return done.stdout


def installed(name):
    """A program of the environment this runs in."""
    return [sys.executable, str(Path(sys.executable).parent / name)]


def content(size, seed):
    """Bytes that no one else has, the same for a seed."""
    return random.Random(seed).randbytes(size)


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def sha256_of(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def tree_sums(directory):
    """Relative path to checksum of every file below a directory."""
    directory = Path(directory)
    return {
        str(path.relative_to(directory)): sha256_of(path) for path in sorted(directory.rglob("*")) if path.is_file()
    }


def make_tree(directory, seed=1):
    """A tree with what trees have: depth, empty files, spaces, unicode, many small files, a large one."""
    directory = Path(directory)
    chance = random.Random(seed)
    for number in range(120):
        path = directory / f"part-{number % 7}" / f"deep-{number % 3}" / f"file {number:03}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(chance.randbytes(chance.choice([1, 10, 4096, 40_000])))
    for name in ("empty", "straße/Ünïcödé.txt", "雪/☃ snow.bin", "a+b=c & d.txt", "percent%20literal"):
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"" if name == "empty" else chance.randbytes(2000))
    (directory / "large.bin").write_bytes(chance.randbytes(20 << 20))
    return tree_sums(directory)
