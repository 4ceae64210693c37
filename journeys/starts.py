"""How long a site takes from its start to its first answered PUT, on a directory that it had before.

python journeys/starts.py --binary target/release/skerry --work target/starts [--rounds 20] [--objects 1000]

The PUT is signed and synced, and tried every millisecond from the start of the process on; one of the kernel's connections to a port that
nobody listens at costs less than a tenth of that. In each round the site is ended by SIGTERM, started, ended by kill -9 and started again. Prints Markdown.
"""

import argparse
import http.client
import shutil
import signal
import statistics
import time
from pathlib import Path

import beside
from many_keys import end
from checks import expect, wait_for

import boto3
from botocore.config import Config

HOST, PEERS = "127.0.0.1:17650", "127.0.0.1:17651"


def signed(client, key):
    """A PUT that needs no more than to be sent."""
    return client.generate_presigned_url("put_object", Params={"Bucket": "starts", "Key": key}, ExpiresIn=600).split(HOST, 1)[1]


def tries(path):
    """Whether the PUT was answered."""
    connection = http.client.HTTPConnection(HOST, timeout=30)
    try:
        connection.request("PUT", path, body=b"first")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def start(site, path):
    """Milliseconds from the start of the process to the answer."""
    begin = time.monotonic()
    site.spawn("server", str(site.directory / "site"), SKERRY_S3_LISTEN=HOST, SKERRY_PEER_LISTEN=PEERS,
               SKERRY_ACCESS_KEY=beside.KEY, SKERRY_SECRET_KEY=beside.SECRET)
    while not tries(path):
        expect(time.monotonic() - begin < 60 and site.process.poll() is None, "it does not answer")
        time.sleep(0.001)
    return (time.monotonic() - begin) * 1000


def main():
    parser = argparse.ArgumentParser(description="start to the first answered PUT")
    parser.add_argument("--binary", required=True, type=lambda path: str(Path(path).absolute()))
    parser.add_argument("--work", required=True, type=Path)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--objects", type=int, default=1000, help="what is in the directory, of 4 KiB each")
    options = parser.parse_args()
    shutil.rmtree(options.work, ignore_errors=True)
    options.work.mkdir(parents=True)
    site = beside.Skerry(options.binary, options.work)
    site.endpoint = f"http://{HOST}"
    site.run("init", "--dir", str(options.work / "site"), "--root", str(options.work / "root"))
    site.spawn("server", str(options.work / "site"), SKERRY_S3_LISTEN=HOST, SKERRY_PEER_LISTEN=PEERS,
               SKERRY_ACCESS_KEY=beside.KEY, SKERRY_SECRET_KEY=beside.SECRET)
    try:
        wait_for("the site to answer", site.answers, 60, 0.01)
        client = boto3.client("s3", endpoint_url=f"http://{HOST}", aws_access_key_id=beside.KEY, aws_secret_access_key=beside.SECRET,
                              region_name="us-east-1", config=Config(signature_version="s3v4", s3={"addressing_style": "path"}))
        client.create_bucket(Bucket="starts")
        for number in range(options.objects):
            client.put_object(Bucket="starts", Key=f"before/{number}", Body=bytes(4096))
        print("| after | median, ms | least | most |\n|---|---|---|---|")
        figures = {"SIGTERM": [], "kill -9": []}
        for number in range(options.rounds):
            for how, by in (("SIGTERM", signal.SIGTERM), ("kill -9", signal.SIGKILL)):
                path = signed(client, f"{how}-{number}")
                end(site, by)
                figures[how].append(start(site, path))
        for how, took in figures.items():
            print(f"| {how} | {statistics.median(took):.0f} | {min(took):.0f} | {max(took):.0f} |")
    finally:
        site.stop()


if __name__ == "__main__":
    main()
