"""The six steps of the P-S experiments against one site in a control group: 128 MiB of memory and half a processor, unless told else.

python journeys/small.py --binary target/release/skerry --work target/small [--memory-mb 128] [--cpu 0.5] [--trials 5]

Create a bucket, upload, list, download and erase ten objects, erase the bucket: 512 B to 8 MiB, doubling, one after the other and all at
once, a connection for each as a process for each has there, every body compared (`skerry bench six --sweep`). The client is outside of the
group. Prints what each step gave, what the group saw and how many checks held; ends with 1 if one did not, with 2 where the machine makes
no such groups. Figures are of this machine's disk and processor: a group bounds how much there is of them, not how slow they are.
"""

import argparse
import csv
import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import beside
import crowd
from checks import Checks, equal, expect, wait_for
from groups import Groups, Refused

STEPS = ["create bucket", "upload", "list", "download", "erase objects", "erase bucket"]
SIZES, OBJECTS = 15, 10
OF_A_RUN = 3 + 3 * OBJECTS
MODES = {"one after the other": [], "all at once": ["--parallel"]}


class Site(crowd.Site):
    """At ports of its own, so that no other site answers for it."""

    def start(self):
        with socket.create_server(("127.0.0.1", 0)) as first, socket.create_server(("127.0.0.1", 0)) as second:
            s3, peer = (f"127.0.0.1:{held.getsockname()[1]}" for held in (first, second))
        site, self.endpoint = str(self.directory / "site"), f"http://{s3}"
        self.run("init", "--dir", site, "--root", str(self.directory / "root"))
        self.spawn("server", site, SKERRY_S3_LISTEN=s3, SKERRY_PEER_LISTEN=peer, SKERRY_ACCESS_KEY=beside.KEY,
                   SKERRY_SECRET_KEY=beside.SECRET)


def six(options, site, mode):
    """All runs of one mode: the operations as `skerry bench` noted them, and how it ended."""
    file = options.work / f"{mode.replace(' ', '-')}.csv"
    command = [str(options.binary), "bench", "six", "--sweep", "--trials", str(options.trials), "--number", str(OBJECTS),
               "--endpoint", site.endpoint, "--access-key", beside.KEY, "--secret-key", beside.SECRET, "--timeout", "60s",
               "--connections", "new", "--verify", "md5", "--csv", str(file), *MODES[mode]]
    ended = subprocess.run(command, capture_output=True, text=True, env=os.environ, check=False)
    expect(file.is_file(), f"the client ended with {ended.returncode}: {ended.stderr[-500:]}")
    with open(file, newline="") as lines:
        return list(csv.DictReader(lines)), ended


def figures(operations, step):
    """Of one step: how many, how many failed, a second, and milliseconds (p50, p99, at most)."""
    mine = [operation for operation in operations if operation["phase"] == step]
    spans = {}
    for operation in mine:
        begin = int(operation["start_ns"])
        first, last = spans.get(operation["trial"], (begin, begin))
        spans[operation["trial"]] = min(first, begin), max(last, begin + int(operation["total_ns"]))
    seconds = sum(last - first for first, last in spans.values()) / 1e9
    times = sorted(int(operation["total_ns"]) / 1e6 for operation in mine) or [0.0]
    at = lambda share: times[min(len(times) - 1, int(len(times) * share))]
    failed = [operation for operation in mine if operation["failure"]]
    return len(mine), len(failed), len(mine) / max(seconds, 1e-9), at(0.5), at(0.99), times[-1]


def table(modes):
    print("| step | how | operations | failed | a second | p50, ms | p99, ms | at most, ms |\n|---|---|---|---|---|---|---|---|")
    for step in STEPS:
        for mode, operations in modes.items():
            count, failed, rate, *times = figures(operations, step)
            print(f"| {step} | {mode} | {count} | {failed} | {rate:.0f} | " + " | ".join(f"{time:.1f}" for time in times) + " |", flush=True)


def divided(site):
    """What the site took for the memory there is."""
    found = re.search(r"memory divided memory=(\d+)", (site.directory / "log").read_text())
    return int(found[1]) if found else None


def complaints(site):
    """Lines of the log that a person would have to look at."""
    lines = (site.directory / "log").read_text().splitlines()
    return [line for line in lines if " ERROR " in line or "panicked" in line]


def play(options, site, checks):
    modes = {}
    with checks.check("the site divides the memory of its group"):
        equal(wait_for("the log to say it", lambda: divided(site), 10), options.memory_mb << 20, "memory")
    for mode in MODES:
        with checks.check(f"the six steps, {mode}: nothing failed"):
            operations, ended = six(options, site, mode)
            modes[mode] = operations
            failures = sorted({operation["failure"] for operation in operations if operation["failure"]})
            equal(failures, [], "failures")
            equal(len(operations), SIZES * OF_A_RUN * options.trials, "operations")
            equal(ended.returncode, 0, "exit code of the client: " + ended.stderr[-500:])
    with checks.check("the same process answers afterwards, and says nothing of errors"):
        expect(site.process.poll() is None, f"it ended with {site.process.poll()}")
        expect(site.answers(), "it does not answer")
        equal(complaints(site), [], "lines of the log")
    table(modes)
    seen = site.groups.figures()
    with checks.check("the kernel killed nothing in the group"):
        equal(seen.get("killed", 0), 0, "killed")
    if site.process.poll() is not None:
        return
    now, most, threads = site.memory()
    peak = "not told" if seen["peak"] is None else f"{seen['peak']:.1f} MiB"
    print(f"resident {now:.1f} MiB, at most {most:.1f}, {threads} threads; the group at most {peak} with the page cache, {seen.get('at its limit', 0)} "
          f"times at its limit; {site.usage()[0]:.1f} s of CPU, threads held back for {seen.get('held back', 0.0):.1f} s together")
    with checks.check("it stops when told"):
        site.process.terminate()
        equal(site.process.wait(30), 0, "exit code")


def main():
    parser = argparse.ArgumentParser(description="the P-S cycle on a small machine")
    parser.add_argument("--binary", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--memory-mb", type=int, default=128)
    parser.add_argument("--cpu", type=float, default=0.5)
    parser.add_argument("--trials", type=int, default=5)
    options = parser.parse_args()
    options.binary, options.work = options.binary.absolute(), options.work.absolute()
    shutil.rmtree(options.work, ignore_errors=True)
    directory = options.work / "site"
    directory.mkdir(parents=True)
    try:
        groups = Groups(options.memory_mb << 20, options.cpu)
    except Refused as error:
        print(f"not run: {error}", file=sys.stderr)
        sys.exit(2)
    site, checks = Site(str(options.binary), directory), Checks()
    site.groups = groups
    try:
        site.start()
        wait_for("the site to answer", site.answers, 60, 0.01)
        play(options, site, checks)
    finally:
        site.stop()
        groups.remove()
        shutil.rmtree(options.work, ignore_errors=True)
    sys.exit(0 if checks.close() else 1)


if __name__ == "__main__":
    main()
