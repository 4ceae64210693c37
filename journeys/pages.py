"""What a written MiB costs the kernel, by where its pages come from: no store in it, only the machine.

python journeys/pages.py --work target/pages [--mib N] [--wait SECONDS]

Each way writes a new file of its own, MiB by MiB, a while after the file before was removed: a host that lends this machine its memory has
taken back by then what lay free. `window N` lets go of all but the last N MiB as it goes, as a site does with payload. CPU is that of the writing thread.
"""

import argparse
import mmap
import os
import time
from pathlib import Path

MIB = 1 << 20
DONT_CACHE = 0x80
WAYS = {"page cache": {}, "page cache, at once after that": {"wait": 0}, "over what is there": {"wait": 0, "twice": True},
        "RWF_DONTCACHE": {"how": DONT_CACHE}, "window 64": {"window": 64}, "O_DIRECT": {"flags": os.O_DIRECT}}


def write(path, count, body, flags=0, how=0, window=0, twice=False, wait=None):
    """CPU ms a MiB, wall ms a MiB, the sync after it in ms; of a window only after it is full."""
    del wait
    file = os.open(path, os.O_RDWR | os.O_CREAT | flags, 0o600)
    os.posix_fallocate(file, 0, count * MIB)
    for _ in range(2 if twice else 1):
        begin, cpu, counted = time.monotonic(), time.thread_time(), count
        for number in range(count):
            os.pwritev(file, [body], number * MIB, how)
            if not window:
                continue
            os.posix_fadvise(file, number * MIB, MIB, os.POSIX_FADV_DONTNEED)
            if number % 16 == 15:
                os.fdatasync(file)
            if number >= window:
                os.posix_fadvise(file, (number - window) * MIB, MIB, os.POSIX_FADV_DONTNEED)
            if number == window:
                begin, cpu, counted = time.monotonic(), time.thread_time(), count - window
        took = [(time.thread_time() - cpu) * 1000 / counted, (time.monotonic() - begin) * 1000 / counted]
    begin = time.monotonic()
    os.fdatasync(file)
    os.close(file)
    path.unlink()
    return *took, (time.monotonic() - begin) * 1000


def main():
    parser = argparse.ArgumentParser(description="what a written MiB costs the kernel")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--mib", type=int, default=512)
    parser.add_argument("--wait", type=float, default=15)
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    body = mmap.mmap(-1, MIB)
    body.write(os.urandom(MIB))
    print("| way | CPU, ms a MiB | wall, ms a MiB | sync after, ms |\n|---|---|---|---|")
    for name, way in WAYS.items():
        time.sleep(way.get("wait", options.wait))
        try:
            cpu, wall, sync = write(options.work / "file", options.mib, body, **way)
            print(f"| {name} | {cpu:.2f} | {wall:.2f} | {sync:.0f} |", flush=True)
        except OSError as error:
            print(f"| {name} | {error} | | |", flush=True)


if __name__ == "__main__":
    main()
