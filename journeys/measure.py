"""The figures: a real tree and a file of 1 GiB up and down, memory, start-up, local reads, convergence.

python journeys/measure.py --binary target/release/skerry --work target/journeys
Prints a Markdown table; `--quick` takes smaller sizes, to try the script itself.
"""

import argparse
import json
import os
import shutil
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from checks import Wrong, expect, wait_for
from clients import Aws, boto, content, installed, sha256_of, tree_sums
from islands import Demo
from journey_islands import snapshot

MIB, GIB = 1 << 20, 1 << 30


class Table:
    """Rows as they come, so that a run that breaks has shown what it had."""

    def __init__(self):
        self.rows = []

    def row(self, what, figure):
        self.rows.append((what, figure))
        print(f"  {what}: {figure}", flush=True)

    def show(self):
        print("\n| what | figure |\n|---|---|")
        for what, figure in self.rows:
            print(f"| {what} | {figure} |")


def mib(size):
    return f"{size / MIB:.1f} MiB"


def registry_tree(target, limit):
    """A copy of the sources of the project's own dependencies, from cargo's cache: a tree as people have them."""
    home = Path(os.environ.get("CARGO_HOME", Path.home() / ".cargo"))
    sources = next((home / "registry" / "src").iterdir())
    metadata = subprocess.run(
        ["cargo", "metadata", "--format-version", "1", "--locked", "--offline",
         "--filter-platform", "x86_64-unknown-linux-gnu"],
        capture_output=True, text=True, check=True, cwd=Path(__file__).parent.parent,
    )
    names = sorted({f"{p['name']}-{p['version']}" for p in json.loads(metadata.stdout)["packages"] if p["source"]})
    taken = 0
    for name in names:
        if (sources / name).is_dir() and taken < limit:
            shutil.copytree(sources / name, target / name, symlinks=False)
            taken += sum(len(files) for _, _, files in os.walk(target / name))
    return taken


def large_file(path, size):
    with open(path, "wb") as file:
        for block in range(size // (16 * MIB)):
            file.write(content(16 * MIB, f"large {block}"))


def tree_up_and_down(table, demo, work, options):
    run = Aws(installed("aws"), demo, work)
    tree = work / "tree"
    tree.mkdir()
    files = registry_tree(tree, 300 if options.quick else 10**9)
    size = (64 * MIB) if options.quick else GIB
    large_file(tree / "large.bin", size)
    total = sum(path.stat().st_size for path in tree.rglob("*") if path.is_file())
    table.row("tree", f"{files + 1} files, {mib(total)}, the largest {mib(size)}")
    sums = tree_sums(tree)
    run(1, "s3", "mb", "s3://tree")
    demo.one_copy("tree")
    begin = time.monotonic()
    run(1, "s3", "sync", tree, "s3://tree", "--only-show-errors", timeout=7200)
    took = time.monotonic() - begin
    table.row("aws s3 sync up to site 1", f"{took:.1f} s, {mib(total / took)}/s, {files / took:.0f} files/s")
    two = boto(demo, 2)
    begin = time.monotonic()
    wait_for("all records at site 2", lambda: len(snapshot(two, "tree")) == len(sums), 600, every=0.2)
    table.row("all records at site 2 after", f"{time.monotonic() - begin:.2f} s")
    for turn in ("first", "second"):
        before = demo.site(2).wan("payload")
        begin = time.monotonic()
        run(2, "s3", "sync", "s3://tree", work / f"back-{turn}", "--only-show-errors", timeout=7200)
        took = time.monotonic() - begin
        moved = demo.site(2).wan("payload") - before
        table.row(f"{turn} sync down from site 2", f"{took:.1f} s, {mib(total / took)}/s; payload between sites {moved:.0f} bytes")
        expect(tree_sums(work / f"back-{turn}") == sums, f"the {turn} download differs")
        shutil.rmtree(work / f"back-{turn}")
    table.row("checksums of all files, both downloads", "identical")
    for kind in ("payload", "record", "control"):
        table.row(f"skerry_wan_bytes_total kind={kind} at site 2", f"{demo.site(2).wan(kind):.0f}")
    shutil.rmtree(tree)


def memory_of(demo, number, done, samples):
    while not done.is_set():
        samples.append(demo.memory(number)[0])
        done.wait(0.2)


def big_multipart(table, demo, work, options):
    size = (256 * MIB) if options.quick else 5 * GIB
    path = work / "five.bin"
    large_file(path, size)
    samples, done = [], threading.Event()
    watch = threading.Thread(target=memory_of, args=(demo, 1, done, samples))
    watch.start()
    begin = time.monotonic()
    try:
        run = Aws(installed("aws"), demo, work)
        run(1, "s3", "mb", "s3://five")
        demo.one_copy("five")
        run(1, "s3", "cp", path, "s3://five/five.bin", "--only-show-errors", timeout=7200)
    finally:
        took = time.monotonic() - begin
        done.set()
        watch.join()
    table.row(f"multipart upload of {mib(size)}", f"{took:.1f} s, {mib(size / took)}/s")
    table.row("memory of site 1 meanwhile", f"most {mib(max(samples))}, at the end {mib(samples[-1])} (RSS)")
    wanted = sha256_of(path)
    path.unlink()
    before = demo.memory(2)[1]
    Aws(installed("aws"), demo, work)(2, "s3", "cp", "s3://five/five.bin", path, "--only-show-errors", timeout=7200)
    expect(sha256_of(path) == wanted, "the large object differs at site 2")
    table.row("download at site 2", f"identical; its highest memory {mib(before)} before, {mib(demo.memory(2)[1])} after (RSS)")
    path.unlink()


def idle(table, demo, seconds):
    """After a rest: what a site takes when nobody asks, and what it says to the others."""
    start = [demo.site(1).wan(kind) for kind in ("payload", "record", "control")]
    begin = time.monotonic()
    deadline = threading.Event()
    deadline.wait(seconds)
    took = time.monotonic() - begin
    said = sum(demo.site(1).wan(kind) for kind in ("payload", "record", "control")) - sum(start)
    for number in (1, 2, 3):
        rss, _, threads = demo.memory(number)
        table.row(f"site {number} idle for {took:.0f} s", f"{mib(rss)} RSS, {threads} threads")
    table.row("site 1 to and from all others at rest", f"{said / took:.0f} bytes/s")


def cut_and_heal(table, demo):
    one, three = boto(demo, 1), boto(demo, 3)
    one.create_bucket(Bucket="heal")
    one.put_object(Bucket="heal", Key="first", Body=b"x")
    wait_for("the bucket at site 3", lambda: "first" in snapshot(three, "heal"))
    three.get_object(Bucket="heal", Key="first")["Body"].read()
    demo.cut(3)
    for number in range(500):
        one.put_object(Bucket="heal", Key=f"one/{number}", Body=b"1")
        three.put_object(Bucket="heal", Key=f"three/{number}", Body=b"3")
        if number < 50:
            one.put_object(Bucket="heal", Key=f"both/{number}", Body=b"1")
            three.put_object(Bucket="heal", Key=f"both/{number}", Body=b"3")
    begin = time.monotonic()
    demo.heal(3)
    wait_for("the same listing", lambda: len(snapshot(one, "heal")) == 1051 and snapshot(one, "heal") == snapshot(three, "heal"), 120)
    found = json.loads(demo.run("conflicts", "list", "--json", "--bucket", "heal"))["conflicts"]
    table.row("heal to the same listing, 1,051 keys, 50 written on both sides", f"{time.monotonic() - begin:.2f} s, {len(found)} conflicts listed")


def local_reads(table, demo):
    one = boto(demo, 1)
    one.create_bucket(Bucket="local")
    one.put_object(Bucket="local", Key="local", Body=content(4096, "local"))
    get = lambda: median_of(one)
    get()
    running = get()
    demo.terminate(2)
    demo.terminate(3)
    stopped = get()
    table.row("GET of 4 KiB at site 1, p50", f"others running {running:.2f} ms, stopped {stopped:.2f} ms")
    demo.restart(2)
    demo.restart(3)


def median_of(client):
    times = []
    for _ in range(500):
        begin = time.perf_counter()
        client.get_object(Bucket="local", Key="local")["Body"].read()
        times.append(time.perf_counter() - begin)
    return sorted(times)[250] * 1e3


def main():
    parser = argparse.ArgumentParser(description="figures of a release build")
    parser.add_argument("--binary", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--idle", type=float, default=60)
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix="measure-", dir=options.work))
    table = Table()
    demo = Demo(options.binary.resolve(), work / "demo")
    try:
        begin = time.monotonic()
        demo.start()
        table.row("demo, new directory: command to all three sites ready", f"{(time.monotonic() - begin) * 1e3:.0f} ms")
        idle(table, demo, options.idle)
        local_reads(table, demo)
        cut_and_heal(table, demo)
        tree_up_and_down(table, demo, work, options)
        big_multipart(table, demo, work, options)
        expect(demo.stop() == 0, "the demo did not stop cleanly")
        begin = time.monotonic()
        demo.start()
        table.row("demo, started again on that directory", f"{(time.monotonic() - begin) * 1e3:.0f} ms")
        demo.kill(1)
        begin = time.monotonic()
        demo.restart(1)
        table.row("one site, kill -9 to the first ready answer of the next start", f"{(time.monotonic() - begin) * 1e3:.0f} ms")
        idle(table, demo, options.idle)
    except Wrong as error:
        table.row("BROKEN OFF", str(error))
        raise SystemExit(1) from error
    finally:
        demo.stop()
        table.show()
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    main()
