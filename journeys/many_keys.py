"""Buckets from a thousand to ten million keys at one site: do PUT, GET and LIST cost the same in each? And what starting, resting and
rebuilding cost with all of them.

python journeys/many_keys.py --binary target/release/skerry --work target/many [--keys 1000,100000,1000000,10000000] [--rounds 3] [--seconds 5]

All buckets lie at one site and are measured in turn, round by round, by the same client with keys drawn at random, so that ratios count on
a busy machine. Bodies of 1 KiB. The site is started again between creating and measuring. Last comes a rebuild of the index from the journal
and payload alone. Ten million keys want some 20 GB of disk. Prints Markdown.
"""

import argparse
import os
import shutil
import signal
import statistics
import time
import urllib.error
import urllib.request
from pathlib import Path

import beside
from checks import expect, wait_for

CELLS = [("PUT", "put"), ("GET", "get"), ("LIST of 1000", "list")]


def start(site, bucket):
    """Starts the site on its directory; seconds to its first answered PUT, into this bucket, and the most it took until then, MiB."""
    url = beside.client(site).generate_presigned_url("put_object", Params={"Bucket": bucket, "Key": "first"}, ExpiresIn=3600)
    begin = time.monotonic()
    site.spawn("server", str(site.directory / "site"), SKERRY_S3_LISTEN="127.0.0.1:17600", SKERRY_PEER_LISTEN="127.0.0.1:17601",
               SKERRY_ACCESS_KEY=beside.KEY, SKERRY_SECRET_KEY=beside.SECRET)
    wait_for("the site to take a PUT", lambda: put(url), 1800, 0.005)
    return time.monotonic() - begin, site.memory()[1]


def put(url):
    """Whether a PUT was answered: not while nobody listens, nor while the site opens its index."""
    try:
        urllib.request.urlopen(urllib.request.Request(url, data=b"first", method="PUT"), timeout=30)
    except urllib.error.HTTPError as error:
        if error.code != 503:
            raise SystemExit(f"{url}: {error.code} {error.read()[:300]}") from error
        return False
    except OSError:
        return False
    return True


def end(site, how):
    site.process.send_signal(how)
    site.process.wait(120)


def create(options, site, keys):
    """A bucket of so many keys, each made once."""
    begin, before = time.monotonic(), site.usage()
    figures = beside.load(options, site, ["--mix", "put=1", "--order", "sequential", "--operations", str(keys), "--no-load"], "1KiB", keys, f"keys-{keys}", 32)
    summary, after = figures["phases"][0]["summary"], site.usage()
    expect(summary["failures"] == 0, f"{summary['failures']} creates failed")
    resident, most, _ = site.memory()
    print(f"{keys:,} created in {time.monotonic() - begin:.0f} s, {summary['operations_per_s']:.0f}/s, p50 {summary['p50'] * 1000:.1f}, p99 "
          f"{summary['p99'] * 1000:.1f} ms, {(after[0] - before[0]) * 1000 / keys:.2f} ms of CPU each; resident {resident:.0f} MiB, at most {most:.0f}", flush=True)


def measure(options, site, keys):
    """p50 and p99 of each kind, ms."""
    figures = {}
    for name, mix in CELLS:
        seconds = ["--duration", f"{round(options.seconds * 1000)}ms", "--warm-up", "500ms"]
        ran = beside.load(options, site, ["--mix", f"{mix}=1", "--no-load", *seconds], "1KiB", keys, f"keys-{keys}", 4)
        summary = ran["phases"][0]["summary"]
        expect(summary["failures"] == 0, f"{name} of {keys}: {summary['failures']} failed")
        figures[name] = (summary["p50"] * 1000, summary["p99"] * 1000)
    return figures


def table(options, rounds):
    print("\n| keys in the bucket | " + " | ".join(f"{name}, p50 / p99 ms" for name, _ in CELLS) + " |\n|---" + "|---" * len(CELLS) + "|")
    for keys in options.keys:
        cells = []
        for name, _ in CELLS:
            p50, p99 = (statistics.median(figures[keys][name][n] for figures in rounds) for n in (0, 1))
            cells.append(f"{p50:.2f} / {p99:.1f}")
        print(f"| {keys:,} | " + " | ".join(cells) + " |")


def forget():
    """Empties the kernel's caches of files, as after a power cut; whether that was allowed (it is to root)."""
    os.sync()
    try:
        Path("/proc/sys/vm/drop_caches").write_text("3")
    except OSError:
        return False
    return True


def restarts(options, site):
    """What a start takes after each way to end, and what stays resident."""
    for name, how, cold in (("SIGTERM", signal.SIGTERM, False), ("kill -9", signal.SIGKILL, False), ("kill -9, nothing cached", signal.SIGKILL, True)):
        # Something that only the journal has, so that there is something to replay.
        beside.load(options, site, ["--mix", "put=1", "--no-load", "--operations", "20000"], "1KiB", options.keys[0], f"keys-{options.keys[0]}", 16)
        end(site, how)
        if cold and not forget():
            print("not allowed to empty the kernel's caches: the next start is one after kill -9 again", flush=True)
            name = "kill -9"
        seconds, most = start(site, f"keys-{options.keys[0]}")
        print(f"start after {name}: {seconds:.2f} s to the first answered PUT, at most {most:.0f} MiB resident", flush=True)
    time.sleep(20)
    print(f"resident 20 s later: {site.memory()[0]:.0f} MiB", flush=True)


def rebuild(options, site):
    """The index is thrown away and made from journal and payload."""
    end(site, signal.SIGTERM)
    (index,) = (site.directory / "site").rglob("index")
    shutil.rmtree(index)
    seconds, most = start(site, f"keys-{options.keys[0]}")
    print(f"rebuild of the index, to the first answered PUT: {seconds:.1f} s, at most {most:.0f} MiB resident", flush=True)


def main():
    parser = argparse.ArgumentParser(description="buckets of many keys")
    parser.add_argument("--binary", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--keys", type=lambda text: [int(word) for word in text.split(",")], default=[1_000, 100_000, 1_000_000, 10_000_000])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--keep", action="store_true", help="leave the site's directory, to go on by hand")
    options = parser.parse_args()
    options.binary, options.seed = options.binary.absolute(), 0
    directory = options.work.absolute() / "many"
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    site = beside.Skerry(str(options.binary), directory)
    try:
        site.start()
        wait_for("the site to answer", site.answers, 60, 0.005)
        for keys in options.keys:
            create(options, site, keys)
        end(site, signal.SIGTERM)
        start(site, f"keys-{options.keys[0]}")
        loads, rounds = [], []
        for _ in range(options.rounds):
            loads.append(os.getloadavg()[0])
            rounds.append({keys: measure(options, site, keys) for keys in options.keys})
        table(options, rounds)
        print(f"\nload {min(loads):.1f} to {max(loads):.1f}")
        restarts(options, site)
        rebuild(options, site)
        print(f"on disk: {sum(f.stat().st_blocks * 512 for f in directory.rglob('*') if f.is_file()) / 2**30:.1f} GiB")
    finally:
        site.stop()
        if not options.keep:
            shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()
