"""A site that is full, by what it was given and by another program: what was acknowledged is there, and room comes back.

Twice: on a disk of its own, a tmpfs in a user namespace (no root is needed, and nothing outside sees it), and below `storage.capacity`.
"""

import json
import os
import shutil
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from botocore.exceptions import ClientError

from checks import Wrong, equal, expect, wait_for
from clients import boto, content, sha256
from islands import Site, free_ports, stop_process
from journey_crash import verify
from journey_nodes import Nodes

BUCKET = "full"
ROOM = 192 << 20
SMALL, LARGE, PART = 9_000, 3_000_000, 5 << 20
SETTINGS = '[storage]\njournal_segment = "4 MiB"\npayload_segment = "16 MiB"\n'
# Of what is free the site leaves 32 MiB for its index, and three segments of the journal; the rest is to be had.
HELD = ROOM - (32 << 20) - (16 << 20)
# Two turns of the collector, with what a busy machine adds.
SECONDS = 30


def refusing_kernel():
    """Why there is no disk of one's own here; empty if there is."""
    for program in ("unshare", "nsenter"):
        if not shutil.which(program):
            return f"{program} (util-linux) is not installed"
    tried = subprocess.run(["unshare", "-Urm", "mount", "-t", "tmpfs", "none", "/tmp"], capture_output=True, text=True, timeout=60)
    why = tried.stderr.strip() or f"code {tried.returncode}"
    return tried.returncode and f"the kernel lets this user mount nothing in a namespace of its own ({why})"


class Capped(Nodes):
    """One site that may take so much."""

    settings = f'{SETTINGS}capacity = "{ROOM >> 20} MiB"\n'

    def __init__(self, binary, directory):
        self.binary, self.directory = str(binary), directory
        self.sites = [Site(1, "box", None, None)]
        (directory / "box").mkdir(parents=True)
        self.disk = self.mounted()
        port = free_ports(1)
        self.site(1).endpoint = f"http://127.0.0.1:{port}"
        text = f'[s3]\nlisten = "127.0.0.1:{port}"\n[peer]\nlisten = "127.0.0.1:{port + 100}"\n{self.settings}'
        (self.disk / "skerry.toml").write_text(text)

    def mounted(self):
        return self.directory / "box"

    def inside(self, *command):
        """A command as it is to be run where the disk is seen."""
        return list(command)

    def run(self, *arguments, at=1):
        command = self.inside(self.binary, *arguments, "--dir", self.place(at))
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        expect(done.returncode == 0, f"{' '.join(arguments)}: exit {done.returncode}: {done.stdout}{done.stderr}")
        return done.stdout

    def start(self, number=1):
        site, log = self.site(number), self.directory / "box.log"
        with open(log, "ab") as to:
            command = self.inside(self.binary, "server", self.place(number))
            site.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=to, stderr=to)
        site.pid = site.process.pid

        def ready():
            if site.process.poll() is not None:
                raise SystemExit(f"the site ended with {site.process.returncode}: {log.read_text(errors='replace')[-2000:]}")
            return site.ready()

        wait_for("the site to be ready", ready, 60)

    def form(self):
        self.run("init", "--name", "box", "--root", str(self.directory / "root"))
        self.start()
        key = json.loads(self.run("key", "create", "journey", "--json"))
        self.access_key, self.secret_key = key["id"], key["secret"]

    def stop_site(self):
        stop_process(self.site(1).process, 60)

    def status(self):
        return json.loads(self.run("status", "--json"))["sites"][0]["status"]["storage"]


class Boxed(Capped):
    """One site on a disk of its own: whoever asks it by its directory runs where that is mounted."""

    settings = SETTINGS

    def mounted(self):
        place = self.directory / "box"
        mount = f'mount -t tmpfs -o size={ROOM} none "$0" && echo mounted && exec cat'
        command = ["unshare", "-Urm", "sh", "-c", mount, str(place)]
        self.holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        equal(self.holder.stdout.readline(), "mounted\n", "the disk")
        return Path(f"/proc/{self.holder.pid}/root{place}")

    def inside(self, *command):
        return ["nsenter", "-U", "-m", "--preserve-credentials", "-t", str(self.holder.pid), "--", *command]

    def free(self):
        found = os.statvfs(self.disk)
        return found.f_bavail * found.f_frsize

    def stop(self):
        super().stop()
        self.holder.stdin.close()
        self.holder.wait(30)


class Other:
    """Another program, that takes every byte of the disk, and whatever comes free."""

    def __init__(self, disk):
        self.path, self.done, self.took = disk / "other", threading.Event(), threading.Event()
        self.thread = threading.Thread(target=self.take, daemon=True)
        self.thread.start()
        wait_for("the disk to be taken", self.took.is_set, 30)

    def take(self):
        with open(self.path, "wb", buffering=0) as file:
            size = 1 << 20
            while not self.done.is_set():
                try:
                    file.write(bytes(size))
                except OSError:
                    if size > 1:
                        size = max(size >> 4, 1)
                        continue
                    self.took.set()
                    size = 1 << 20
                    self.done.wait(0.02)

    def go(self):
        self.done.set()
        self.thread.join(30)
        self.path.unlink(missing_ok=True)


class Story:
    """What a site was given, and what it acknowledged of that."""

    def __init__(self, box):
        self.box, self.client, self.held, self.gone, self.fills = box, boto(box, 1), {}, set(), 0

    def put(self, key, size):
        body = content(size, key)
        self.client.put_object(Bucket=BUCKET, Key=key, Body=body)
        self.held[key] = sha256(body)

    def fill(self):
        """Puts of each size, four at a time, until each is refused: by 507 and with its reason, never otherwise."""
        self.fills += 1
        for size in (LARGE, SMALL):
            with ThreadPoolExecutor(4) as pool:
                list(pool.map(lambda writer, size=size: self.until_refused(f"{self.fills}/{size}/{writer}", size), range(4)))

    def until_refused(self, label, size):
        for number in range(20_000):
            if said := self.refused(lambda: self.put(f"{label}/{number:05}", size)):
                return said
        raise Wrong(f"{label} was never refused")

    def refused(self, write):
        """Whether a write was; in words that say what can be done."""
        try:
            write()
        except ClientError as error:
            answer = error.response
            equal((answer["ResponseMetadata"]["HTTPStatusCode"], answer["Error"]["Code"]), (507, "InsufficientStorage"), "refusal")
            message = answer["Error"]["Message"]
            expect("the disk is full: writes are refused until space is freed" in message, message)
            return message
        return None

    def delete(self, count, size):
        """Of the newest fill's, each by itself."""
        for key in [key for key in reversed(self.held) if f"/{size}/" in key][:count]:
            self.client.delete_object(Bucket=BUCKET, Key=key)
            del self.held[key]
            self.gone.add(key)

    def room_again(self):
        """Seconds until a large body is taken."""
        begin, number = time.monotonic(), len(self.gone)
        wait_for("a write to be taken", lambda: self.refused(lambda: self.put(f"room/{number}", LARGE)) is None, SECONDS)
        return time.monotonic() - begin

    def look(self):
        """All that was acknowledged is there, byte for byte, and nothing else."""
        wrong = verify(self.client, BUCKET, self.held)
        expect(not wrong, f"{len(wrong)} of {len(self.held)}: {wrong[:3]}")
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, PaginationConfig={"PageSize": 500})
        listed = {row["Key"] for page in pages for row in page.get("Contents", [])}
        equal(sorted(listed - set(self.held)), [], f"listed though never acknowledged, or deleted ({len(listed & self.gone)})")
        equal(sorted(set(self.held) - listed), [], "not listed")
        for key in list(self.gone)[:5]:
            equal(status_of(lambda k=key: self.client.head_object(Bucket=BUCKET, Key=k)), 404, f"HEAD of {key}, deleted")


def status_of(call):
    try:
        return call()["ResponseMetadata"]["HTTPStatusCode"]
    except ClientError as error:
        return error.response["ResponseMetadata"]["HTTPStatusCode"]


def full(checks, binary, work):
    for label, kind in (("capacity", Capped), ("disk", Boxed)):
        if kind is Boxed and (reason := refusing_kernel()):
            checks.skip("full: a disk of its own", reason)
            continue
        box = kind(binary, work / label)
        try:
            story = filled(checks, box, f"full ({label})")
            if kind is Boxed:
                taken_by_another(checks, story, f"full ({label})")
            with checks.check(f"full ({label}): stopped, everything on the disk reads"):
                box.stop_site()
                box.run("check")
                said = (box.directory / "box.log").read_text(errors="replace")
                expect("panicked" not in said and " ERROR " not in said, lambda: [line for line in said.splitlines() if "panicked" in line or " ERROR " in line])
        finally:
            box.stop()


def filled(checks, box, label):
    box.form()
    story = Story(box)
    client = story.client
    with checks.check(f"{label}: bodies and parts are taken until the disk is full, and refused by 507 with the reason"):
        client.create_bucket(Bucket=BUCKET)
        upload = {"Bucket": BUCKET, "Key": "parts"}
        upload["UploadId"] = client.create_multipart_upload(**upload)["UploadId"]
        bodies, etags = [], []

        def put_part(size=PART):
            body = content(size, f"part {len(etags)}")
            etags.append(client.upload_part(**upload, PartNumber=len(etags) + 1, Body=body)["ETag"])
            bodies.append(body)

        put_part()
        story.fill()
        # What the refused ones had written is given back: it may take parts still.
        while not story.refused(put_part):
            pass
        expect(sum(LARGE for key in story.held if f"/{LARGE}/" in key) > HELD * 3 // 4, f"{len(story.held)} objects filled it")

    with checks.check(f"{label}: full, it reads and lists all of it, and status and metrics say so"):
        story.look()
        metric = lambda name: box.site(1).metric(f"skerry_disk_{name}")

        def is_said():
            # What the refused ones had written comes free meanwhile, and is filled.
            story.fill()
            said = (box.status()["full"], " full " in box.run("status"), metric("full"), metric("days_to_full"))
            expect(said == (True, True, 1, 0), said)
            return True

        wait_for("status and metrics to say so", is_said, SECONDS, every=0.5)

    with checks.check(f"{label}: deletes are acknowledged, and what they free is written again"):
        story.delete(12, LARGE)
        story.delete(50, SMALL)
        seconds = story.room_again()
        put_part(LARGE)
        parts = {"Parts": [{"PartNumber": number, "ETag": etag} for number, etag in enumerate(etags, 1)]}
        client.complete_multipart_upload(**upload, MultipartUpload=parts)
        story.held["parts"] = sha256(b"".join(bodies))
        story.look()
        print(f"     {len(story.held)} objects; a write was taken {seconds:.1f} s after the deletes", flush=True)

    with checks.check(f"{label}: filled again and killed, all of it is there and nothing deleted came back"):
        story.fill()
        story.delete(2, LARGE)
        story.delete(100, SMALL)
        box.kill(1)
        box.start()
        story.look()
    return story


def taken_by_another(checks, story, label):
    story.delete(8, LARGE)
    story.room_again()
    other = Other(story.box.disk)
    try:
        beside_another(checks, story, label, other)
    finally:
        other.go()


def beside_another(checks, story, label, other):
    box = story.box
    with checks.check(f"{label}: another program takes it to the last byte: refusals say it, deletes go on, nothing is lost"):
        story.fill()
        # What comes free a moment later is taken as well.
        wait_for("no byte to be free", lambda: box.free() == 0, SECONDS)
        story.delete(5, LARGE)
        story.delete(100, SMALL)
        story.look()

    with checks.check(f"{label}: with not a byte free it is killed, and stopped, and starts with all of it"):
        box.kill(1)
        box.start()
        story.look()
        story.delete(20, SMALL)
        box.stop_site()
        box.start()
        story.look()

    with checks.check(f"{label}: the other's file goes, and writes are taken"):
        other.go()
        seconds = story.room_again()
        wait_for("status", lambda: not box.status()["full"], SECONDS)
        story.look()
        print(f"     {len(story.held)} objects, {len(story.gone)} deleted; a write was taken {seconds:.1f} s after", flush=True)
