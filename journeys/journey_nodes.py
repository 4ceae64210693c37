"""A site of three nodes: written through one, read through the others; one is killed, one hangs, one comes back."""

import json
import os
import random
import signal
import subprocess
import threading
import time

from botocore.exceptions import BotoCoreError, ClientError

import journey_histories
from checks import Wrong, equal, expect, wait_for
from clients import boto, content, sha256
from islands import Site, free_ports, stop_process

BUCKET = "rooms"
# The site's own bound is 2 s; a busy machine adds to what a client sees of it, and what it adds at the worst is measured.
STALL = 3.0
# A node that is kept waiting so long is late to the others, and a view goes on without it.
LATE = 0.4


class Nodes:
    """The nodes of one site, each a process of its own, from nothing."""

    def __init__(self, binary, directory, count=3):
        self.binary, self.directory = str(binary), directory
        port = free_ports(count)
        self.sites = []
        for number in range(count):
            name = "lisbon" if number == 0 else f"lisbon-{number + 1}"
            (directory / name).mkdir()
            text = f'[s3]\nlisten = "127.0.0.1:{port + number}"\n[peer]\nlisten = "127.0.0.1:{port + 100 + number}"\n'
            (directory / name / "skerry.toml").write_text(text + f"[site]\nseats = {count}\n")
            self.sites.append(Site(number + 1, name, f"http://127.0.0.1:{port + number}", None))

    def site(self, number):
        return self.sites[number - 1]

    def place(self, number):
        return str(self.directory / self.site(number).name)

    def run(self, *arguments, at=1):
        command = [self.binary, *arguments, "--dir", self.place(at)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        expect(done.returncode == 0, f"{' '.join(arguments)}: exit {done.returncode}: {done.stdout}{done.stderr}")
        return done.stdout

    def taken(self, name, owner, at):
        """That a name is somebody's already, and is given to nobody else."""
        command = [self.binary, "bucket", "create", name, "--unique", "--owner", owner, "--dir", self.place(at)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        expect(done.returncode != 0, f"{name} was given to {owner} at node {at}: {done.stdout}")
        expect("somebody else's" in done.stderr, f"{name} at node {at}: {done.stderr}")

    def start(self, number):
        site = self.site(number)
        with open(self.directory / f"{site.name}.log", "ab") as log:
            command = [self.binary, "server", self.place(number)]
            site.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        site.pid = site.process.pid
        wait_for(f"{site.name} to be ready", site.ready, 60)

    def form(self):
        self.run("init", "--name", "lisbon", "--root", str(self.directory / "root"))
        self.start(1)
        for number in range(2, len(self.sites) + 1):
            line = ("invite", self.site(number).name, "--node-of", "lisbon", "--seat", str(number - 1), "--json")
            self.run("join", json.loads(self.run(*line))["token"], at=number)
            self.start(number)
        key = json.loads(self.run("key", "create", "journey", "--json"))
        self.access_key, self.secret_key = key["id"], key["secret"]
        self.whole()

    def standing(self, number):
        status = json.loads(self.run("status", "--json", at=number))["sites"][0]["status"]["nodes"]
        live = [row["seat"] + 1 for row in status["nodes"] if row["role"] == "live"]
        return status["standing"], live

    def until(self, numbers, live):
        """Until these hold leases of a view in which exactly those are live; gives the seconds."""
        begun = time.monotonic()
        for number in numbers:
            wait_for(f"node {number} with {live}", lambda n=number: self.standing(n) == ("leased", live), 60)
        return time.monotonic() - begun

    def whole(self):
        everybody = list(range(1, len(self.sites) + 1))
        return self.until(everybody, everybody)

    def signal(self, number, name):
        os.kill(self.site(number).pid, getattr(signal, f"SIG{name}"))

    def kill(self, number):
        self.signal(number, "KILL")
        self.site(number).process.wait(30)

    def hang(self, number):
        self.signal(number, "STOP")

    def go_on(self, number):
        self.signal(number, "CONT")

    def home(self, bucket):
        """The number of the node that decides conditions there, as a node that answers says it."""
        for number in range(1, len(self.sites) + 1):
            name = json.loads(self.run("bucket", "info", bucket, "--json", at=number))["home"]
            if name:
                return next(site.number for site in self.sites if site.name == name)
        raise Wrong(f"nobody is the home of {bucket}")

    def stop(self):
        for site in self.sites:
            if site.process:
                if site.process.poll() is None:
                    os.kill(site.pid, signal.SIGCONT)
                stop_process(site.process, 60)


def demanding(nodes, number):
    """A client whose writes ask for scope `site`."""
    client = boto(nodes, number)
    for operation in ("PutObject", "DeleteObject", "CompleteMultipartUpload"):
        add = lambda request, **_: request.headers.add_header("x-skerry-scope", "site")
        client.meta.events.register_first(f"before-sign.s3.{operation}", add)
    return client


def scope(answer):
    return answer["ResponseMetadata"]["HTTPHeaders"].get("x-skerry-scope")


def of_the_site(what, ask, right=lambda answer: True):
    """Asks until the answer is the site's: a view goes on without a node that the machine kept waiting, and such answers say so. Each that
    is the site's must be right."""
    wrong = []

    def asked():
        try:
            answer = ask()
        except ClientError as error:
            answer = error.response
            if answer["ResponseMetadata"]["HTTPStatusCode"] == 404 and scope(answer) == "site":
                wrong.append(str(error))
                return True
            raise
        if scope(answer) != "site":
            return False
        if not right(answer):
            wrong.append(str(answer)[:300])
        return True

    wait_for(f"{what} in scope site", asked, 60)
    equal(wrong, [], what)


class Yardstick:
    """How long the machine keeps a thread waiting that writes and syncs as a node does."""

    def __init__(self, directory):
        self.path, self.longest, self.late = directory / "yardstick", 0.0, []
        self.ends = threading.Event()
        self.thread = threading.Thread(target=self.measure, daemon=True)
        self.thread.start()

    def measure(self):
        with open(self.path, "wb", buffering=0) as file:
            while not self.ends.is_set():
                begun, pause = time.monotonic(), 0.02
                self.ends.wait(pause)
                file.write(bytes(3000))
                os.fsync(file.fileno())
                ended = time.monotonic()
                self.longest = max(self.longest, ended - begun - pause)
                if ended - begun - pause > LATE:
                    self.late.append((begun, ended))

    def end(self):
        self.ends.set()
        self.thread.join(60)
        return self.longest

    def excuses(self, failure):
        """Whether a write found no site because the machine kept a node waiting meanwhile."""
        begun, ended, error = failure
        return "ScopeNotReached" in error and any(begun < to and since < ended for since, to in self.late)


class Writer:
    """Writes one object after the other through a node, and takes the time of each."""

    def __init__(self, client, name):
        self.client, self.name = client, name
        self.written, self.longest, self.failed = {}, 0.0, []
        self.ends = threading.Event()
        self.thread = threading.Thread(target=self.write, daemon=True)
        self.thread.start()

    def write(self):
        number = 0
        while not self.ends.is_set():
            key, body = f"{self.name}/{number:05}", content(3000, f"{self.name} {number}")
            begun = time.monotonic()
            try:
                self.client.put_object(Bucket=BUCKET, Key=key, Body=body)
                self.written[key] = body
            except (ClientError, BotoCoreError) as error:
                self.failed.append((begun, time.monotonic(), f"{key}: {error}"))
            self.longest = max(self.longest, time.monotonic() - begun)
            number += 1

    def end(self):
        self.ends.set()
        self.thread.join(60)
        return self.written


def several(checks, binary, directory):
    """The whole journey."""
    nodes = Nodes(binary, directory)
    try:
        nodes.form()
        through(checks, nodes)
        written = gone(checks, nodes)
        named(checks, nodes)
        decided(checks, nodes)
        judged(checks, nodes, directory)
        back(checks, nodes, written)
    finally:
        nodes.stop()


def through(checks, nodes):
    clients = {number: demanding(nodes, number) for number in (1, 2, 3)}
    clients[1].create_bucket(Bucket=BUCKET)
    with checks.check("nodes: a write of the site is read, listed and deleted through every node at once"):
        for turn in range(30):
            writer, size = turn % 3 + 1, [0, 300, 20_000, 400_000, 3_000_000][turn % 5]
            key, body = f"through/{turn:02}", content(size, f"through {turn}")
            of_the_site(key, lambda: clients[writer].put_object(Bucket=BUCKET, Key=key, Body=body))
            for number, client in clients.items():
                same = lambda got: sha256(got["Body"].read()) == sha256(body)
                of_the_site(f"{key} at node {number}", lambda: client.get_object(Bucket=BUCKET, Key=key), same)
                last = lambda listed: [row["Key"] for row in listed.get("Contents", [])][-1:] == [key]
                of_the_site(f"a list at node {number}", lambda: client.list_objects_v2(Bucket=BUCKET, Prefix="through/"), last)
        clients[2].delete_object(Bucket=BUCKET, Key="through/00")
        for number, client in clients.items():
            try:
                client.head_object(Bucket=BUCKET, Key="through/00")
                expect(False, f"deleted, and still at node {number}")
            except ClientError as error:
                equal(error.response["ResponseMetadata"]["HTTPStatusCode"], 404, "after the delete")


def gone(checks, nodes):
    written = {}
    for what, begin, number in (("killed", "KILL", 3), ("hangs", "STOP", 2)):
        with checks.check(f"nodes: while one {what}, no write of the site fails or waits longer than it may"):
            others = [other for other in (1, 2, 3) if other != number]
            yardstick = Yardstick(nodes.directory)
            writers = [Writer(demanding(nodes, other), f"{what}-{other}") for other in others]
            wait_for("some writes", lambda: all(len(writer.written) > 20 for writer in writers))
            nodes.signal(number, begin)
            took = nodes.until(others, others)
            counts = [len(writer.written) for writer in writers]
            wait_for("more", lambda: all(len(w.written) > c + 20 for w, c in zip(writers, counts)))
            for writer in writers:
                written |= writer.end()
            machine = yardstick.end()
            longest = max(writer.longest for writer in writers)
            print(
                f"     {what}: {sum(counts)} writes and more, the longest {longest:.2f} s (a file {machine:.2f} s), a view after {took:.2f} s"
            )
            for writer in writers:
                equal([failure for failure in writer.failed if not yardstick.excuses(failure)], [], "refused")
                expect(writer.longest < STALL + machine, f"a write took {writer.longest:.2f} s")
            if begin == "STOP":
                nodes.signal(number, "CONT")
            else:
                nodes.site(number).process.wait(30)
                nodes.start(number)
            nodes.whole()
    return written


def named(checks, nodes):
    """The register of names is at the first node so far."""
    with checks.check("nodes: the node that names buckets is killed: new ones have homes, and no name is given twice"):
        nodes.run("bucket", "create", "before", "--unique", "--owner", "ann", at=3)
        nodes.kill(1)
        killed = time.monotonic()
        client = boto(nodes, 2)
        client.create_bucket(Bucket="without")

        def wins():
            try:
                return client.put_object(Bucket="without", Key="key", Body=b"x", IfNoneMatch="*")
            except ClientError as error:
                # 412: a try before was decided, and not answered.
                return error.response["ResponseMetadata"]["HTTPStatusCode"] == 412

        def gives():
            try:
                return nodes.run("bucket", "create", "alone", "--unique", "--owner", "ann", at=3)
            except Wrong as error:
                # A try before was begun, and carried out by the next register.
                return "you own the bucket" in str(error)

        wait_for("a condition in a new bucket", wins, 30)
        homed = time.monotonic() - killed
        wait_for("a name that is nobody else's", gives, 30)
        print(f"     a condition in a new bucket after {homed:.2f} s, a name after {time.monotonic() - killed:.2f} s")
        for name, number in (("before", 2), ("before", 3), ("alone", 2), ("alone", 3)):
            nodes.taken(name, "bob", number)
        nodes.start(1)
        nodes.whole()
        for name in ("before", "without", "alone"):
            home = lambda n: [json.loads(nodes.run("bucket", "info", name, "--json", at=n))[of] for of in ("home", "home_epoch")]
            wait_for(f"all to say the same of {name}", lambda: home(1)[0] and home(1) == home(2) == home(3), 30)
        for name in ("before", "alone"):
            nodes.taken(name, "bob", 1)
        nodes.run("bucket", "create", "after", "--unique", "--owner", "bob", at=1)
        nodes.taken("after", "ann", 2)


class Counter:
    """Appends its name to one object by If-Match through a node, from what it last read there."""

    def __init__(self, client, name):
        self.client, self.name = client, name
        self.won, self.at, self.wrong = [], [], []
        self.ends = threading.Event()
        self.thread = threading.Thread(target=self.count, daemon=True)
        self.thread.start()

    def count(self):
        while not self.ends.is_set():
            try:
                got = self.client.get_object(Bucket=BUCKET, Key="counter")
                body = got["Body"].read().decode() + f" {self.name}-{len(self.won)}-{time.monotonic_ns()}"
                self.client.put_object(Bucket=BUCKET, Key="counter", Body=body.encode(), IfMatch=got["ETag"])
                self.won.append(body)
                self.at.append(time.monotonic())
            except ClientError as error:
                if error.response["ResponseMetadata"]["HTTPStatusCode"] not in (404, 409, 412):
                    self.wrong.append(str(error))
            # As a client does: by chance. Two that pause alike keep step, and the farther one loses every time.
            time.sleep(random.uniform(0, 0.04))

    def end(self):
        self.ends.set()
        self.thread.join(60)


def decided(checks, nodes):
    with checks.check("nodes: the node that is a bucket's home is killed, and conditions are decided by another, each once"):
        plain = {number: boto(nodes, number) for number in (1, 2, 3)}
        plain[1].put_object(Bucket=BUCKET, Key="counter", Body=b"0")
        home = json.loads(nodes.run("bucket", "info", BUCKET, "--json"))["home"]
        number = next(site.number for site in nodes.sites if site.name == home)
        others = [other for other in (1, 2, 3) if other != number]
        counters = [Counter(plain[other], f"{other}") for other in others]
        wait_for("some wins", lambda: all(len(counter.won) > 10 for counter in counters))
        nodes.kill(number)
        killed = time.monotonic()
        wait_for("wins without it", lambda: any(c.at and c.at[-1] > killed + 0.2 for c in counters), 30)
        wait_for("each wins without it", lambda: all(c.at[-1] > killed + 1 for c in counters), 30)
        nodes.start(number)
        nodes.whole()
        for counter in counters:
            counter.end()
            equal(counter.wrong, [], "neither won, nor refused")
        after = [at for counter in counters for at in counter.at if at > killed + 0.1]
        won = " and ".join(str(len(counter.won)) for counter in counters)
        print(f"     {won} wins, the first {min(after) - killed:.2f} s after the kill")
        wins = [body for counter in counters for body in counter.won]
        numbers = [len(body.split()) for body in wins]
        equal(len(set(numbers)), len(numbers), "numbers, each won once")
        last = plain[number].get_object(Bucket=BUCKET, Key="counter")["Body"].read().decode() + " "
        for body in wins:
            expect(last.startswith(body + " "), f"{body} was won, and is not in {last}")
        # The first node may be the one that was away, and hears of it.
        now = lambda n: json.loads(nodes.run("bucket", "info", BUCKET, "--json", at=n))["home"]
        wait_for("the home passed on", lambda: home != now(1) == now(2) == now(3), 30)


def judged(checks, nodes, work):
    if not journey_histories.has_checker(checks, "nodes: histories"):
        return
    said = "nodes: conditions through any node while homes are killed and hang are linearizable, key by key, and no read is stale"
    with checks.check(said):
        boto(nodes, 1).create_bucket(Bucket=journey_histories.BUCKET)
        journey_histories.races_of_nodes(nodes, work, lambda history: disturb(nodes, history))


def disturb(nodes, history):
    """Whoever is the home is killed, comes back, hangs, goes on; the others go on meanwhile."""

    def more(count=20):
        before = history.count("done")
        wait_for("conditions to be decided", lambda: history.count("done") >= before + count, 60)

    for _ in range(2):
        for end, begin in ((nodes.kill, nodes.start), (nodes.hang, nodes.go_on)):
            more()
            home = nodes.home(journey_histories.BUCKET)
            end(home)
            others = [number for number in (1, 2, 3) if number != home]
            nodes.until(others, others)
            more()
            begin(home)
            nodes.whole()
    more()


def back(checks, nodes, written):
    with checks.check("nodes: one that was away has everything, bodies too, before it counts"):
        nodes.kill(2)
        nodes.until([1, 3], [1, 3])
        client = demanding(nodes, 1)
        for number in range(20):
            key, body = f"away/{number:02}", content(number * 40_000, f"away {number}")
            of_the_site(key, lambda: client.put_object(Bucket=BUCKET, Key=key, Body=body))
            written[key] = body
        nodes.start(2)
        took = nodes.whole()
        print(f"     back after {took:.2f} s with {len(written)} objects")
        nodes.kill(1)
        nodes.kill(3)
        alone = boto(nodes, 2)
        for key, body in written.items():
            got = alone.get_object(Bucket=BUCKET, Key=key)
            expect(sha256(got["Body"].read()) == sha256(body), key)
        wait_for("it to know that it is alone", lambda: scope(alone.head_object(Bucket=BUCKET, Key=key)) == "node", 10)
        try:
            demanding(nodes, 2).put_object(Bucket=BUCKET, Key="alone", Body=b"x")
            expect(False, "one of three has written for the site")
        except ClientError as error:
            equal(error.response["Error"]["Code"], "ScopeNotReached", "code")
        equal(scope(alone.put_object(Bucket=BUCKET, Key="own", Body=b"x")), "node", "an island goes on")
