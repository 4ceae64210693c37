"""The demo's real processes: started, asked, cut, healed, killed by pid, started again and stopped."""

import json
import os
import random
import re
import signal
import socket
import subprocess
import threading
import urllib.error
import urllib.request
from collections import deque
from pathlib import Path

from checks import Wrong, expect, wait_for

LIVE = "/_skerry/health/live"


def free_ports(sites):
    """A base P such that P.. and P+100.. are free now; away from what other programs like to take."""
    for _ in range(200):
        base = random.randrange(20_000, 30_000)
        try:
            for number in range(sites):
                for port in (base + number, base + 100 + number):
                    with socket.socket() as probe:
                        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                        probe.bind(("127.0.0.1", port))
            return base
        except OSError:
            continue
    raise Wrong("no range of free ports was found")


class Site:
    """One site of a demo."""

    def __init__(self, number, name, endpoint, pid):
        self.number, self.name, self.endpoint, self.pid = number, name, endpoint, pid
        self.process = None  # set when the journey, not the demo, started it

    def get(self, path, timeout=10):
        with urllib.request.urlopen(self.endpoint + path, timeout=timeout) as answer:
            return answer.read()

    def ready(self):
        try:
            # `opening` while its store is being opened.
            return self.get(LIVE, timeout=2).startswith(b"live")
        except (urllib.error.URLError, OSError):
            return False

    def metrics(self):
        """Every sample: (name, labels) to value."""
        samples = {}
        for line in self.get("/_skerry/metrics").decode().splitlines():
            found = re.match(r"^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)", line)
            if found and not line.startswith("#"):
                labels = dict(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', found.group(2) or ""))
                samples[(found.group(1), tuple(sorted(labels.items())))] = float(found.group(3))
        return samples

    def metric(self, name, **labels):
        """The sum over all samples of a name that have these labels."""
        return sum(
            value
            for (found, pairs), value in self.metrics().items()
            if found == name and all((key, wanted) in pairs for key, wanted in labels.items())
        )

    def wan(self, kind):
        return self.metric("skerry_wan_bytes_total", kind=kind)


class Demo:
    """`skerry demo` on a directory."""

    def __init__(self, binary, directory, sites=3, port=None):
        self.binary, self.directory = str(binary), Path(directory)
        self.count = sites
        self.port = port or free_ports(sites)
        self.process = None
        self.events = deque(maxlen=10_000)
        self.sites = []
        self.access_key = self.secret_key = None
        self.startup_ms = None

    def start(self, timeout=90):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("SKERRY_")}
        command = [self.binary, "demo", "--json", "--sites", str(self.count), "--dir", str(self.directory)]
        command += ["--port", str(self.port), "--timeout", f"{timeout}s"]
        self.events.clear()
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        )
        self.errors = deque(maxlen=200)
        for stream, sink in ((self.process.stdout, self.take), (self.process.stderr, self.errors.append)):
            threading.Thread(target=lambda s=stream, k=sink: [k(line) for line in s], daemon=True).start()
        ready = wait_for("the demo to be ready", self.ready_event, timeout + 10, every=0.01)
        self.access_key, self.secret_key = ready["access_key"], ready["secret_key"]
        self.startup_ms = ready["millis"]
        rows = enumerate(ready["sites"], start=1)
        self.sites = [Site(number, row["name"], row["endpoint"], row["pid"]) for number, row in rows]
        return self

    def take(self, line):
        try:
            self.events.append(json.loads(line))
        except ValueError:
            self.errors.append(line)

    def ready_event(self):
        if self.process.poll() is not None:
            raise SystemExit(f"the demo ended with {self.process.returncode}: {''.join(self.errors)}")
        return next((event for event in list(self.events) if event.get("kind") == "ready"), None)

    def stop(self, timeout=60):
        """Ends everything; gives the demo's exit code. The demo first: with no site left it would end by itself, and say so."""
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        for site in self.sites:
            if site.process:
                stop_process(site.process, timeout)
        if self.process:
            try:
                self.process.wait(timeout)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        return self.process.returncode if self.process else None

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.stop()

    def site(self, number):
        return self.sites[number - 1]

    def run(self, *arguments, codes=(0,), timeout=60):
        """The command line on this demo; gives its standard output."""
        command = [self.binary, *arguments, "--dir", str(self.directory)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
        expect(done.returncode in codes, f"{' '.join(arguments)}: exit {done.returncode}: {done.stdout}{done.stderr}")
        return done.stdout

    def one_copy(self, bucket):
        """Payload of the bucket stays where it is written until somebody reads it: what crosses is counted."""
        self.run("bucket", "set", bucket, "--copies", "1", "--site", self.site(1).name)

    def status(self, number, codes=(0,)):
        return json.loads(self.run("status", "--json", "--site", self.site(number).name, codes=codes))["sites"][0]["status"]

    def cut(self, number, other=None):
        """From all others, or from one: those two then have no connection."""
        self.run("link", "cut", self.site(number).name, *self.apart_from(other))

    def heal(self, number, other=None):
        self.run("link", "heal", self.site(number).name, *self.apart_from(other))

    def apart_from(self, other):
        return ["--from", self.site(other).name] if other else []

    def kill(self, number):
        """kill -9, by pid, of a process that this demo started."""
        site = self.site(number)
        os.kill(site.pid, signal.SIGKILL)
        if site.process:
            site.process.wait(30)
        else:
            wait_for(f"{site.name} to be gone", lambda: not alive(site.pid), 30)

    def terminate(self, number):
        site = self.site(number)
        os.kill(site.pid, signal.SIGTERM)
        if site.process:
            site.process.wait(60)
        else:
            wait_for(f"{site.name} to stop", lambda: not alive(site.pid), 60)

    def restart(self, number, timeout=90):
        """Starts a site that is gone, as its operator would; gives the seconds to its first ready answer."""
        site = self.site(number)
        directory = self.directory / site.name
        with open(directory / "skerry.log", "ab") as log:
            site.process = subprocess.Popen(
                [self.binary, "server", "--stop-with-stdin", "--config", str(directory / "skerry.toml")],
                stdin=subprocess.PIPE, stdout=log, stderr=log,
            )
        site.pid = site.process.pid

        def ready():
            if site.process.poll() is not None:
                tail = (directory / "skerry.log").read_text(errors="replace")[-2000:]
                raise SystemExit(f"{site.name} ended with {site.process.returncode}: {tail}")
            return site.ready()

        wait_for(f"{site.name} to be ready again", ready, timeout)

    def memory(self, number):
        """Resident bytes now and at most, and threads, of a site."""
        fields = {}
        for line in Path(f"/proc/{self.site(number).pid}/status").read_text().splitlines():
            name, _, value = line.partition(":")
            fields[name] = value.split()
        return int(fields["VmRSS"][0]) * 1024, int(fields["VmHWM"][0]) * 1024, int(fields["Threads"][0])


def stop_process(process, timeout):
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def alive(pid):
    """Whether a process runs; one that is dead and not yet collected does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return False
    return state not in ("Z", "X")
