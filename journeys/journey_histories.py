"""Conditional operations on real processes, while their home is killed and links are cut, as a history for a foreign checker.

What a client sees is written down as the simulator does it (`crates/sim/src/histories.rs`): what was answered, what
certainly did nothing is left out, everything else may have happened at any later time. `crates/sim/linear` judges.
"""

import hashlib
import json
import shutil
import subprocess
import threading
import time
from pathlib import Path

from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError

from checks import expect, wait_for
from clients import boto

BUCKET = "register"
KEYS = 4
SECONDS = 24
LINEAR = Path(__file__).resolve().parent.parent / "crates" / "sim" / "linear"
# Answers that say that nothing was written; a home that may have decided says so in its message.
NOTHING = {"HomeUnreachable", "HomeNotNamed", "SlowDown", "Unreachable", "ConditionalRequestConflict"}


class History:
    """Operations of all clients, with one clock."""

    def __init__(self):
        self.lines, self.lock = [], threading.Lock()

    def add(self, operation, begun, answered, ended=None, read=""):
        line = {**operation, "answered": answered, "read": read, "begun": begun}
        if ended is not None:
            line["ended"] = ended
        with self.lock:
            self.lines.append(line)

    def count(self, answered):
        with self.lock:
            return sum(line["answered"] == answered for line in self.lines)


class Racer:
    """One client of one site: reads at the home, writes at its own site under what it has read."""

    def __init__(self, demo, number, name, history, done):
        self.writes = boto(demo, number, read_timeout=20, connect_timeout=2)
        self.reads = boto(demo, 1, read_timeout=20, connect_timeout=2)
        self.number, self.name, self.history, self.done = number, name, history, done
        self.known = dict.fromkeys(range(KEYS), "")
        self.turn = 0
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while not self.done.is_set():
            self.turn += 1
            key = (self.turn + self.name) % KEYS
            act = ("get", "put", "put", "delete", "put")[self.turn % 5]
            if act == "delete" and not self.known[key]:
                act = "get"
            if not self.one(key, act):
                self.done.wait(0.05)

    def one(self, key, act):
        """Asks once; says whether there was an answer."""
        operation = {"key": f"race-{key}", "site": self.number, "act": act, "expected": "", "new": ""}
        if act != "get":
            operation["expected"] = self.known[key]
        body = f"{self.name} {self.turn}".encode()
        begun = time.monotonic_ns()
        try:
            if act == "get":
                found = self.reads.head_object(Bucket=BUCKET, Key=f"race-{key}")["ETag"].strip('"')
                self.known[key] = found
                self.history.add(operation, begun, "read", time.monotonic_ns(), found)
            elif act == "put":
                condition = {"IfMatch": self.known[key]} if self.known[key] else {"IfNoneMatch": "*"}
                operation["new"] = md5(body)
                self.writes.put_object(Bucket=BUCKET, Key=f"race-{key}", Body=body, **condition)
                self.known[key] = operation["new"]
                self.history.add(operation, begun, "done", time.monotonic_ns())
            else:
                self.writes.delete_object(Bucket=BUCKET, Key=f"race-{key}", IfMatch=self.known[key])
                self.known[key] = ""
                self.history.add(operation, begun, "done", time.monotonic_ns())
        except ClientError as error:
            return self.refused(key, operation, begun, error)
        except (BotoCoreError, HTTPClientError, OSError):
            if act != "get":
                self.history.add(operation, begun, "unknown")
            return False
        return True

    def refused(self, key, operation, begun, error):
        """A refusal says that the condition did not hold, that nothing was written, or neither."""
        ended = time.monotonic_ns()
        status = error.response["ResponseMetadata"]["HTTPStatusCode"]
        code, message = error.response["Error"].get("Code", ""), error.response["Error"].get("Message", "")
        if operation["act"] == "get":
            if status == 404:
                self.known[key] = ""
                self.history.add(operation, begun, "read", ended, "")
            return status == 404
        if status == 412 or code == "NoSuchKey":
            self.history.add(operation, begun, "missed", ended)
            self.one(key, "get")
            return True
        if code not in NOTHING or "may have decided" in message:
            self.history.add(operation, begun, "unknown")
        return False


def md5(body):
    return hashlib.md5(body).hexdigest()


def races(checks, demo, work):
    """Six clients at three sites; the home is killed twice, another site is cut off twice."""
    if not shutil.which("go"):
        checks.skip("histories", "Go is not installed; apt install golang-go")
        return
    with checks.check("histories: conditional operations through kills of their home and cuts are linearizable, key by key"):
        boto(demo, 1).create_bucket(Bucket=BUCKET)
        for number in (2, 3):
            client = boto(demo, number)
            wait_for(f"the bucket at {number}", lambda c=client: BUCKET in [b["Name"] for b in c.list_buckets()["Buckets"]])
        history, done = History(), threading.Event()
        racers = [Racer(demo, number, name, history, done) for name, number in enumerate((1, 1, 2, 2, 3, 3))]
        try:
            disturb(demo, history)
        finally:
            done.set()
            for racer in racers:
                racer.thread.join(60)
        judge(history, work)


def disturb(demo, history):
    end = time.monotonic() + SECONDS
    for victim in (2, 3):
        before = history.count("done")
        wait_for("operations to be decided", lambda b=before: history.count("done") >= b + 20, 60)
        demo.cut(victim)
        before = history.count("done")
        wait_for("the others to go on", lambda b=before: history.count("done") >= b + 20, 60)
        demo.kill(1)
        demo.restart(1)
        demo.heal(victim)
    before = history.count("done")
    wait_for("operations after all that", lambda: history.count("done") >= before + 20 and time.monotonic() > end, 90)


def judge(history, work):
    recorded, checker = Path(work) / "history.jsonl", (Path(work) / "linear").resolve()
    recorded.write_text("".join(json.dumps(line) + "\n" for line in history.lines))
    built = subprocess.run(["go", "build", "-o", str(checker), "."], cwd=LINEAR, capture_output=True, text=True, timeout=300)
    expect(built.returncode == 0, f"go build: {built.stderr}")
    judged = subprocess.run([str(checker), str(recorded)], capture_output=True, text=True, timeout=300)
    expect(judged.returncode == 0, judged.stdout[-3000:] + judged.stderr)
    print(f"     {judged.stdout.strip()}", flush=True)
    for answered in ("done", "missed", "read"):
        expect(history.count(answered) >= 20, f"only {history.count(answered)} operations were answered with {answered}")
