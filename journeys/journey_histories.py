"""Conditional operations on real processes, while their home is killed and links are cut, as a history for a foreign checker.

What a client sees is written down as the simulator does it (`crates/sim/src/histories.rs`): what was answered, what
certainly did nothing is left out, everything else may have happened at any later time. `crates/sim/linear` judges.
"""

import functools
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
# Answers that say that nothing was written, but for those whose message says that it may have been.
UNSURE = ("may have decided", "may have been decided")
NOTHING = {"HomeUnreachable", "HomeNotNamed", "SlowDown", "Unreachable"}


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

    ACTS = ("get", "put", "put", "delete", "put")

    def __init__(self, demo, number, name, history, done, home=1):
        self.writes = boto(demo, number, read_timeout=20, connect_timeout=2)
        self.reads = boto(demo, home, read_timeout=20, connect_timeout=2)
        self.number, self.name, self.history, self.done = number, name, history, done
        self.known = dict.fromkeys(range(KEYS), "")
        self.turn = 0
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while not self.done.is_set():
            self.turn += 1
            key = (self.turn + self.name) % KEYS
            act = self.ACTS[self.turn % len(self.ACTS)]
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
                answer = self.reads.head_object(Bucket=BUCKET, Key=f"race-{key}")
                self.known[key] = answer["ETag"].strip('"')
                self.saw(operation, begun, self.known[key], answer)
            elif act == "put":
                condition = {"IfMatch": self.known[key]} if self.known[key] else {"IfNoneMatch": "*"}
                operation["new"] = md5(body)
                answer = self.writes.put_object(Bucket=BUCKET, Key=f"race-{key}", Body=body, **condition)
                self.known[key] = operation["new"]
                self.won(operation, begun, answer)
            else:
                answer = self.writes.delete_object(Bucket=BUCKET, Key=f"race-{key}", IfMatch=self.known[key])
                self.known[key] = ""
                self.won(operation, begun, answer)
        except ClientError as error:
            return self.refused(key, operation, begun, error)
        except (BotoCoreError, HTTPClientError, OSError):
            if act != "get":
                self.history.add(operation, begun, "unknown")
            return False
        return True

    def saw(self, operation, begun, found, _answer):
        self.history.add(operation, begun, "read", time.monotonic_ns(), found)

    def won(self, operation, begun, _answer):
        self.history.add(operation, begun, "done", time.monotonic_ns())

    def refused(self, key, operation, begun, error):
        """A refusal says that the condition did not hold, that nothing was written, or neither."""
        ended = time.monotonic_ns()
        status = error.response["ResponseMetadata"]["HTTPStatusCode"]
        code, message = error.response["Error"].get("Code", ""), error.response["Error"].get("Message", "")
        if operation["act"] == "get":
            if status == 404:
                self.known[key] = ""
                self.saw(operation, begun, "", error.response)
            return status == 404
        if status == 412 or code == "NoSuchKey":
            self.history.add(operation, begun, "missed", ended)
            self.one(key, "get")
            return True
        if code not in NOTHING or any(words in message for words in UNSURE):
            self.history.add(operation, begun, "unknown")
        return False


class NodeRacer(Racer):
    """One client of one node of a site: reads and writes there. A read may show what is not answered yet, so it is no operation on a
    register; it must have seen what was answered before it began, if both are the site's."""

    ACTS = ("get", "put", "put", "put")

    def __init__(self, nodes, number, name, history, done):
        self.seen, self.answered = [], []
        super().__init__(nodes, number, name, history, done, home=number)

    def saw(self, operation, begun, found, answer):
        if is_the_sites(answer):
            self.seen.append((operation["key"], begun, found))

    def won(self, operation, begun, answer):
        super().won(operation, begun, answer)
        if is_the_sites(answer):
            self.answered.append((operation["key"], time.monotonic_ns(), operation["new"]))


def is_the_sites(answer):
    return answer["ResponseMetadata"]["HTTPHeaders"].get("x-skerry-scope") == "site"


def stale(history, racers):
    """Reads of the site that had not seen what was answered before, or show what was refused. Nothing is deleted, and each body is
    written once: what a write expected is what it came after."""
    made = (line for line in history.lines if line["act"] == "put" and line["answered"] != "missed")
    after = {line["new"]: line["expected"] for line in made}

    @functools.cache
    def depth(state):
        """How many writes it rests on; none if one of them was refused."""
        way = 0
        while state:
            if state not in after:
                return None
            state, way = after[state], way + 1
        return way

    wrong = []
    for racer in racers:
        for key, begun, found in racer.seen:
            wins = (new for other in racers for k, ended, new in other.answered if k == key and ended < begun)
            due, shown = max((depth(new) for new in wins), default=0), depth(found)
            if shown is None:
                wrong.append(f"{key} at node {racer.number}: {found} was refused")
            elif shown < due:
                wrong.append(f"{key} at node {racer.number}: {found or 'nothing'}, {due - shown} writes behind")
    return wrong


def races_of_nodes(nodes, work, disturb):
    """Six clients of a site's three nodes, while something is done to these."""
    history, done = History(), threading.Event()
    racers = [NodeRacer(nodes, number, name, history, done) for name, number in enumerate((1, 1, 2, 2, 3, 3))]
    try:
        disturb(history)
    finally:
        done.set()
        for racer in racers:
            racer.thread.join(60)
    judge(history, work, ("done", "missed"))
    seen, wrong = sum(len(racer.seen) for racer in racers), stale(history, racers)
    print(f"     {seen} reads in the scope of the site", flush=True)
    expect(seen >= 20, f"only {seen} reads in the scope of the site")
    expect(not wrong, f"{len(wrong)} of {seen} reads were stale: {wrong[:5]}")


def md5(body):
    return hashlib.md5(body).hexdigest()


def has_checker(checks, name):
    if not shutil.which("go"):
        checks.skip(name, "Go is not installed; apt install golang-go")
        return False
    return True


def races(checks, demo, work):
    """Six clients at three sites; the home is killed twice, another site is cut off twice."""
    if not has_checker(checks, "histories"):
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


def judge(history, work, kinds=("done", "missed", "read")):
    recorded, checker = Path(work) / "history.jsonl", (Path(work) / "linear").resolve()
    recorded.write_text("".join(json.dumps(line) + "\n" for line in history.lines))
    built = subprocess.run(["go", "build", "-o", str(checker), "."], cwd=LINEAR, capture_output=True, text=True, timeout=300)
    expect(built.returncode == 0, f"go build: {built.stderr}")
    judged = subprocess.run([str(checker), str(recorded)], capture_output=True, text=True, timeout=300)
    expect(judged.returncode == 0, judged.stdout[-3000:] + judged.stderr)
    print(f"     {judged.stdout.strip()}", flush=True)
    for answered in kinds:
        expect(history.count(answered) >= 20, f"only {history.count(answered)} operations were answered with {answered}")
