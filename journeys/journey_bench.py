"""The load generator against a demo: its lines, its files, its exit codes; what it wrote can be read by others."""

import csv
import json
import re
import threading
import time

from checks import equal, expect
from clients import boto

HEADER = (
    "DATE TIME NUM_FILES SIZE_FILES TIME_CREATE_BUCKET TIME_OBJECTS_UPLOAD TIME_OBJECTS_LIST TIME_OBJECTS_DOWNLOAD "
    "TIME_ERASE_OBJECTS TIME_ERASE_BUCKET TIME_SUM BANDWIDTH_OBJECTS_UPLOAD BANDWIDTH_OBJECTS_DOWNLOAD"
)
LINE = re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d (\d+) (\d+)( (0|\d+\.\d{3})){9}$")


def load(checks, demo, work):
    client = boto(demo, 1)

    with checks.check("bench six: lines as ossperf writes them, serial and parallel, nothing left behind"):
        results = work / "results.csv"
        for mode in ([], ["--parallel"]):
            demo.run("bench", "six", "-n", "5", "-s", "512,1MiB", "-o", str(results), "-b", "six-journey", *mode)
        lines = results.read_text().splitlines()
        equal(lines[0], HEADER, "heading")
        equal([LINE.match(line) and LINE.match(line).groups()[:2] for line in lines[1:]], [("5", "512"), ("5", "1048576")] * 2, "lines")
        expect("six-journey" not in [row["Name"] for row in client.list_buckets()["Buckets"]], "the bucket is still there")

    with checks.check("bench six: a bucket that is there is refused and stays"):
        client.create_bucket(Bucket="precious")
        client.put_object(Bucket="precious", Key="kept", Body=b"kept")
        demo.run("bench", "six", "-b", "precious", codes=(5,))
        equal(client.get_object(Bucket="precious", Key="kept")["Body"].read(), b"kept", "the object")

    with checks.check("bench mixed: every operation has its line, bytes are verified, the files are whole"):
        samples, plot = work / "samples.csv", work / "plot.svg"
        text = demo.run(
            "bench", "mixed", "--json", "-n", "30", "-s", "1kB..50kB", "--mix", "put=2,get=5,head=1,list=1,delete=1",
            "--operations", "400", "--order", "zipf", "--csv", str(samples), "--plot", str(plot),
        )
        document = json.loads(text)
        equal((document["kind"], document["failures"]), ("bench", []), "document")
        rows = list(csv.DictReader(samples.open()))
        equal(sum(row["phase"] == "mixed" for row in rows), 400, "lines")
        equal(sum(row["summary"]["count"] for row in document["phases"] if row["phase"] == "mixed"), 400, "operations")
        expect(plot.read_text().startswith("<svg"), "no picture")

    with checks.check("bench mixed: an object that others changed is a wrong one, exit 4 with the rest counted"):
        common = ["-n", "10", "-s", "2kB", "-b", "spoilt", "--mix", "get=1", "--order", "once"]
        demo.run("bench", "mixed", *common, "--keep")
        body = bytearray(client.get_object(Bucket="spoilt", Key="key-0003")["Body"].read())
        body[1000] ^= 1
        client.put_object(Bucket="spoilt", Key="key-0003", Body=bytes(body))
        document = json.loads(demo.run("bench", "mixed", "--json", *common, "--no-load", codes=(4,)))
        equal([(one["code"], one["count"]) for one in document["failures"]], [("wrong-bytes", 1)], "failures")
        equal(document["phases"][0]["summary"]["count"], 9, "good ones")

    with checks.check("bench mixed: at a fixed rate every operation that was due is counted, whatever happens meanwhile"):
        found = {}
        common = ["-n", "20", "-s", "1kB", "-b", "taken", "--mix", "get=1"]

        def measure():
            rate = ["--rate", "100", "--duration", "4s", "-t", "8", "--no-load"]
            found.update(json.loads(demo.run("bench", "mixed", "--json", *common, *rate, codes=(4,))))

        demo.run("bench", "mixed", *common, "--operations", "1", "--keep")
        thread = threading.Thread(target=measure)
        thread.start()
        time.sleep(1.5)  # the check holds whenever the deletion comes
        client.delete_object(Bucket="taken", Key="key-0007")
        thread.join(60)
        expect(not thread.is_alive() and found, "the load did not end well")
        summary = found["phases"][0]["summary"]
        equal(summary["count"] + summary["failures"], 400, "operations that were due")
        equal(set(summary["failure_codes"]), {"404 NoSuchKey"}, "codes")

    with checks.check("bench: who cannot be reached is exit 3, a wrong option 2"):
        demo.run("bench", "six", "--endpoint", "http://127.0.0.1:1", "--access-key", "a", "--secret-key", "b", codes=(3,))
        demo.run("bench", "mixed", "-s", "1XB", codes=(2,))
