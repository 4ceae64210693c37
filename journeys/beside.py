"""One store beside others on this machine: the same operations by the same client, in turn.

python journeys/beside.py --binary target/release/skerry --garage PATH --minio PATH --weed PATH --work target/beside [--rounds N] [--seconds N]
                          [--multipart] [--only WORDS] [--before PATH] [--bare PATH]

Each round starts every system anew on an empty directory, one at a time, and runs all cells against it; the figures are medians over the
rounds. `garage-sync` is Garage told to sync, so that durable stands beside durable. CPU and memory are those of the server's process,
bytes written those that the kernel counts for it. `--before` has another build of Skerry run in turn with the others; `--only "PUT 10,GET 10"` leaves
out all cells that do not begin so. `--bare` has the floor beside them: hyper, MD5 and plain files (`cargo build --release -p skerry-bench --example bare`). The client (`skerry bench`) shares the machine. Prints Markdown tables.
"""

import argparse
import contextlib
import json
import os
import shutil
import statistics
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import boto3
from botocore.config import Config

from checks import Wrong, wait_for

KEY, SECRET = "GK0123456789abcdef01234567", "0123456789abcdef" * 4
MIB = 1 << 20
PART, PARTS = 16 * MIB, 16
# Name, mix, size, objects, bucket, threads. Reads ask for what the writes before them left.
CELLS = [
    ("PUT 4 KiB", "put", "4KiB", 2000, "small", 1),
    ("PUT 4 KiB", "put", "4KiB", 2000, "small", 16),
    ("GET 4 KiB", "get", "4KiB", 2000, "small", 1),
    ("GET 4 KiB", "get", "4KiB", 2000, "small", 16),
    ("HEAD", "head", "4KiB", 2000, "small", 16),
    ("PUT 64 KiB", "put", "64KiB", 1000, "middle", 1),
    ("PUT 64 KiB", "put", "64KiB", 1000, "middle", 16),
    ("GET 64 KiB", "get", "64KiB", 1000, "middle", 16),
    ("PUT 1 MiB", "put", "1MiB", 100, "large", 1),
    ("PUT 1 MiB", "put", "1MiB", 100, "large", 16),
    ("GET 1 MiB", "get", "1MiB", 100, "large", 16),
    ("PUT 10 MiB", "put", "10MiB", 20, "larger", 16),
    ("GET 10 MiB", "get", "10MiB", 20, "larger", 16),
    ("create 1 KiB", "put", "1KiB", 1_000_000, "many", 16),
    ("LIST of 1000", "list", "4KiB", 2000, "small", 4),
    ("DELETE", "delete", "4KiB", 2000, "small", 16),
]


class System:
    """A server under test: how it is started, and what its process took."""

    region = "us-east-1"
    lacks = ()  # what it has no answer for: beginnings of cells

    def __init__(self, binary, directory):
        self.binary, self.directory, self.process = binary, directory, None

    def run(self, *arguments, **environment):
        return subprocess.run([self.binary, *arguments], check=True, capture_output=True, text=True,
                              env=os.environ | environment).stdout.strip()

    def spawn(self, *arguments, **environment):
        log = open(self.directory / "log", "w")
        self.process = subprocess.Popen([self.binary, *arguments], stdout=log, stderr=log, env=os.environ | environment)

    def answers(self):
        try:
            urllib.request.urlopen(self.endpoint, timeout=2)
        except urllib.error.HTTPError as error:
            # Of a site that opens its index still, or whatever else is not ready.
            return error.code != 503
        except OSError:
            return False
        return True

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(15)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def usage(self):
        """CPU seconds and bytes written to the device so far."""
        of = f"/proc/{self.process.pid}"
        fields = Path(f"{of}/stat").read_text().rsplit(")", 1)[1].split()
        io = dict(line.split(": ") for line in Path(f"{of}/io").read_text().splitlines())
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"), int(io["write_bytes"])

    def memory(self):
        """Resident now and at most, MiB, and threads."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        status = dict(line.split(":", 1) for line in lines)
        kib = lambda name: int(status[name].split()[0]) / 1024
        return kib("VmRSS"), kib("VmHWM"), int(status["Threads"])


class Skerry(System):
    endpoint = "http://127.0.0.1:17600"
    settings = {}

    def start(self):
        site = str(self.directory / "site")
        self.run("init", "--dir", site, "--root", str(self.directory / "root"))
        self.spawn("server", site, SKERRY_S3_LISTEN="127.0.0.1:17600", SKERRY_PEER_LISTEN="127.0.0.1:17601",
                   SKERRY_ACCESS_KEY=KEY, SKERRY_SECRET_KEY=SECRET, **self.settings)


class Minio(System):
    endpoint = "http://127.0.0.1:17610"

    def start(self):
        self.spawn("server", "--address", "127.0.0.1:17610", str(self.directory / "drive"), MINIO_ROOT_USER=KEY,
                   MINIO_ROOT_PASSWORD=SECRET, MINIO_UPDATE="off", MINIO_CALLHOME_ENABLE="off", MINIO_BROWSER="off",
                   MINIO_CI_CD="1")

    def answers(self):
        """At first it says to everything that it is not initialised."""
        try:
            client(self).list_buckets()
        except Exception:
            return False
        return True


class Garage(System):
    endpoint = "http://127.0.0.1:17620"
    region = "garage"
    sync = "false"

    def start(self):
        file = self.directory / "garage.toml"
        file.write_text(f"""
metadata_dir = "{self.directory}/meta"
data_dir = "{self.directory}/data"
db_engine = "lmdb"
metadata_fsync = {self.sync}
data_fsync = {self.sync}
replication_factor = 1
rpc_secret = "{'5c' * 32}"
rpc_bind_addr = "127.0.0.1:17621"
rpc_public_addr = "127.0.0.1:17621"
[s3_api]
api_bind_addr = "127.0.0.1:17620"
s3_region = "garage"
""")
        self.spawn("-c", str(file), "server")
        tell = lambda *words: self.run("-c", str(file), *words)

        def knows_itself():
            try:
                return tell("node", "id", "-q").split("@")[0]
            except subprocess.CalledProcessError:
                return None

        node = wait_for("garage to say who it is", knows_itself, 30)
        place = ["layout", "assign", "-z", "here", "-c", "100G", node]
        wait_for("garage to take its place", lambda: self.tries(tell, *place), 30)
        tell("layout", "apply", "--version", "1")
        tell("key", "import", "--yes", "-n", "bench", KEY, SECRET)
        tell("key", "allow", "--create-bucket", KEY)

    @staticmethod
    def tries(tell, *words):
        try:
            tell(*words)
        except subprocess.CalledProcessError:
            return False
        return True


class GarageSync(Garage):
    sync = "true"


class Weed(System):
    """SeaweedFS: master, volume server, filer and S3 in one process; it does not sync what it acknowledges."""

    endpoint = "http://127.0.0.1:17630"
    ports = {"master": 17631, "volume": 17632, "filer": 17633}

    def start(self):
        may = {"name": "bench", "credentials": [{"accessKey": KEY, "secretKey": SECRET}], "actions": ["Admin", "Read", "List", "Tagging", "Write"]}
        (self.directory / "s3.json").write_text(json.dumps({"identities": [may]}))
        drive = self.directory / "drive"
        drive.mkdir()
        ports = [word for name, port in self.ports.items() for word in (f"-{name}.port={port}", f"-{name}.port.grpc={port + 10}")]
        self.spawn("server", f"-dir={drive}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-master.telemetry=false", "-master.volumeSizeLimitMB=1024",
                   "-volume.max=200", "-volume.preStopSeconds=0", "-s3", f"-s3.config={self.directory}/s3.json", "-s3.port=17630",
                   "-s3.port.grpc=17640", "-s3.port.iceberg=0", "-s3.port.lance=0", *ports)
        wait_for("SeaweedFS to take a write", self.takes_a_write, 120, 0.05)

    def takes_a_write(self):
        """It answers long before it has volumes."""
        s3 = client(self)
        with contextlib.suppress(Exception):  # it may be there from the try before
            s3.create_bucket(Bucket="ready")
        try:
            s3.put_object(Bucket="ready", Key="ready", Body=b"ready")
        except Exception:  # whatever it says meanwhile
            return False
        return True


class Bare(System):
    """What HTTP, a hash and a plain file for each body take: no store at all."""

    endpoint = "http://127.0.0.1:17650"
    lacks = ("LIST", "DELETE", "multipart")

    def start(self):
        files = self.directory / "files"
        files.mkdir()
        self.spawn("127.0.0.1:17650", str(files))


def client(system):
    """A client of a system, that does not try again."""
    return boto3.client("s3", endpoint_url=system.endpoint, aws_access_key_id=KEY, aws_secret_access_key=SECRET, region_name=system.region,
                        config=Config(s3={"addressing_style": "path"}, signature_version="s3v4", retries={"total_max_attempts": 1}))


def bench(options, system, cell):
    """One cell: operations a second, median and 99th of a hundred in ms, and what failed."""
    _, mix, size, objects, bucket, threads = cell
    if mix in ("get", "head", "list"):
        # What is read must be there: the puts before it drew their keys at random.
        fill = ["--order", "once", "--operations", str(objects), "--mix", "put=1"]
        load(options, system, [*fill, "--no-load"], size, objects, bucket, 16)
    before = system.usage()
    end = ["--operations", str(objects)] if mix == "delete" else ["--duration", f"{round(options.seconds * 1000)}ms"]
    order = ["--order", "once"] if mix == "delete" else ["--order", "sequential"] if bucket == "many" else []
    figures = load(options, system, ["--mix", f"{mix}=1", "--no-load", *end, *order], size, objects, bucket, threads)
    after = system.usage()
    measured = figures["phases"][0]["summary"]
    count = max(measured["count"], 1)
    return {
        "ops": measured["operations_per_s"], "p50": measured["p50"] * 1000, "p99": measured["p99"] * 1000,
        "cpu": (after[0] - before[0]) * 1000 / count, "failed": measured["failures"],
        "written": (after[1] - before[1]) / count,
    }


def load(options, system, arguments, size, objects, bucket, threads):
    # Another seed each time: a store that keeps equal bytes once has nothing to find.
    options.seed += 1
    asked = [str(options.binary), "bench", "mixed", "--seed", str(options.seed), "--endpoint", system.endpoint, "--access-key", KEY, "--secret-key", SECRET,
             "--region", system.region, "-s", size, "-n", str(objects), "-b", bucket, "-t", str(threads), "-k", "--json",
             "--verify", "length", *arguments]
    ran = subprocess.run(asked, capture_output=True, text=True)
    if ran.returncode not in (0, 4):
        raise Wrong(f"{asked}: {ran.stderr}")
    return json.loads(ran.stdout)


def multipart(options, system):
    """256 MiB in 16 parts, four at a time, up; then down by one GET: MiB/s and CPU ms/MiB of each."""
    s3 = client(system)
    s3.create_bucket(Bucket="parts")
    bodies = [options.work / f"part-{number}" for number in range(PARTS)]
    for body in bodies:
        body.write_bytes(os.urandom(PART))
    upload = s3.create_multipart_upload(Bucket="parts", Key="whole")["UploadId"]
    where = {"Bucket": "parts", "Key": "whole"}
    urls = [s3.generate_presigned_url("upload_part", where | {"UploadId": upload, "PartNumber": number})
            for number in range(1, PARTS + 1)]

    def curl(*arguments):
        return subprocess.run(["curl", "-sSf", *arguments], check=True, capture_output=True, text=True).stdout

    def put(url, body):
        heads = curl("-T", str(body), "-D", "-", "-o", "/dev/null", "-H", "Expect:", url)
        return next(line.split(":", 1)[1].strip() for line in heads.splitlines() if line.lower().startswith("etag"))

    results = {}
    before, begin = system.usage(), time.monotonic()
    with ThreadPoolExecutor(4) as at_once:
        tags = list(at_once.map(put, urls, bodies))
    parts = [{"PartNumber": number, "ETag": tag} for number, tag in enumerate(tags, 1)]
    s3.complete_multipart_upload(**where, UploadId=upload, MultipartUpload={"Parts": parts})
    results["multipart up"] = took(system, before, begin)
    before, begin = system.usage(), time.monotonic()
    curl("-o", "/dev/null", s3.generate_presigned_url("get_object", where))
    results["multipart down"] = took(system, before, begin)
    return results


def took(system, before, begin):
    seconds, after = time.monotonic() - begin, system.usage()
    return {"ops": PARTS * PART / MIB / seconds, "p50": None, "p99": None, "failed": 0,
            "cpu": (after[0] - before[0]) * 1000, "written": after[1] - before[1]}


def sync_floor(directory):
    """Median of 200 appends of 4 KiB, each with fdatasync, in ms."""
    took_ms = []
    with tempfile.TemporaryFile(dir=directory) as file:
        for _ in range(200):
            begin = time.monotonic()
            os.write(file.fileno(), b"s" * 4096)
            os.fdatasync(file.fileno())
            took_ms.append((time.monotonic() - begin) * 1000)
    return statistics.median(took_ms)


def play(options, name, kind, binary):
    """One system, from an empty directory through all cells."""
    directory = options.work / name
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    system = kind(str(binary), directory)
    begin = time.monotonic()
    try:
        system.start()
        wait_for(f"{name} to answer", system.answers, 60, 0.005)
        results = {"start": time.monotonic() - begin, "idle": system.memory()}
        for cell in CELLS if not options.multipart else ():
            if not cell[0].startswith(options.only) or cell[0].startswith(system.lacks):
                continue
            os.sync()
            results[cell[0], cell[5]] = bench(options, system, cell)
        parts = ("multipart".startswith(options.only) or options.multipart) and "multipart" not in system.lacks
        for what, figures in multipart(options, system).items() if parts else ():
            results[what, 4 if what.endswith("up") else 1] = figures
        results["end"] = system.memory()
        return results
    finally:
        system.stop()
        shutil.rmtree(directory, ignore_errors=True)


def show(names, all_results):
    def median(name, of):
        values = [of(results) for results in all_results[name]]
        return statistics.median(values) if None not in values else None

    head = "| operation, at once | " + " | ".join(names) + " |"
    line = "|---" * (len(names) + 1) + "|"
    cells = [key for key in all_results[names[0]][0] if isinstance(key, tuple)]
    for title, field, form in [("Operations a second (MiB/s for multipart)", "ops", "{:.0f}"), ("Median, ms", "p50", "{:.2f}"),
                               ("99 of 100 within, ms", "p99", "{:.1f}"), ("CPU of the server, ms an operation", "cpu", "{:.2f}"),
                               ("Bytes written an operation, by the kernel's count", "written", "{:.0f}"),
                               ("Failed operations", "failed", "{:.0f}")]:
        print(f"\n{title}\n\n{head}\n{line}")
        for cell in cells:
            values = [median(name, lambda results: results.get(cell, {}).get(field)) for name in names]
            shown = ["-" if value is None else form.format(value) for value in values]
            print(f"| {cell[0]}, {cell[1]} | " + " | ".join(shown) + " |")
    print(f"\nStart and memory\n\n{head.replace('operation, at once', 'what')}\n{line}")
    rows = [("start to the first answer, s", lambda r: r["start"], "{:.2f}"), ("resident at rest, MiB", lambda r: r["idle"][0], "{:.0f}"),
            ("most over the whole table, MiB", lambda r: r["end"][1], "{:.0f}"), ("threads at the end", lambda r: r["end"][2], "{:.0f}")]
    for what, of, form in rows:
        print(f"| {what} | " + " | ".join(form.format(median(name, of)) for name in names) + " |")


def main():
    parser = argparse.ArgumentParser(description="one store beside others")
    parser.add_argument("--binary", type=Path, required=True)
    parser.add_argument("--garage", type=Path)
    parser.add_argument("--minio", type=Path)
    parser.add_argument("--weed", type=Path, help="SeaweedFS")
    parser.add_argument("--bare", type=Path, help="the floor: the example `bare` of the bench")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--multipart", action="store_true", help="only the upload in parts")
    parser.add_argument("--only", default="", help="cells that begin with one of these words, with commas between them")
    parser.add_argument("--before", type=Path, help="another build of Skerry")
    options = parser.parse_args()
    options.binary, options.only = options.binary.absolute(), tuple(options.only.split(","))
    options.work.mkdir(parents=True, exist_ok=True)
    options.work, options.seed = options.work.absolute(), 0
    systems = {"skerry": (Skerry, options.binary)}
    if options.before:
        systems["before"] = (Skerry, options.before.absolute())
    if options.minio:
        systems["minio"] = (Minio, options.minio)
    if options.garage:
        systems |= {"garage": (Garage, options.garage), "garage-sync": (GarageSync, options.garage)}
    if options.weed:
        systems["seaweedfs"] = (Weed, options.weed)
    if options.bare:
        systems["bare"] = (Bare, options.bare.absolute())
    all_results, floors, loads = {name: [] for name in systems}, [], []
    for number in range(options.rounds):
        for name, (kind, binary) in systems.items():
            floors.append(sync_floor(options.work))
            loads.append(os.getloadavg()[0])
            all_results[name].append(play(options, name, kind, binary))
            print(f"  round {number + 1}: {name}", flush=True)
    print(f"\none fdatasync: {min(floors):.2f} to {max(floors):.2f} ms; load {min(loads):.1f} to {max(loads):.1f}")
    show(list(systems), all_results)


if __name__ == "__main__":
    main()
