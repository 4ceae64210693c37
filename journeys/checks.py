"""Counting checks: one line per check, `ok …` or `FAIL …`, and the closing lines `failed journeys: …`, `N passed, N failed`."""

import time
import traceback
from contextlib import contextmanager


class Wrong(Exception):
    """A check did not hold; the message says what was seen."""


def expect(condition, seen):
    """Fails the check around it unless the condition holds."""
    if not condition:
        raise Wrong(seen() if callable(seen) else str(seen))


def equal(found, wanted, what="value"):
    """Fails the check around it unless the two are equal."""
    expect(found == wanted, lambda: f"{what}: found {short(found)}, wanted {short(wanted)}")


def short(value, limit=300):
    text = repr(value)
    return text if len(text) <= limit else text[:limit] + "…"


def wait_for(what, probe, seconds=30.0, every=0.05):
    """Polls until the probe gives something true, and gives that back; never longer than `seconds`."""
    deadline = time.monotonic() + seconds
    last = None
    while True:
        try:
            last = probe()
            if last:
                return last
        except SystemExit:
            raise
        except Exception as error:  # a client may raise anything while it is not yet so
            last = error
        if time.monotonic() > deadline:
            raise Wrong(f"waited {seconds:.0f} s for {what}; last: {short(last)}")
        time.sleep(every)


class Checks:
    """What a run came to."""

    def __init__(self):
        self.passed = 0
        self.failed = 0
        self.skipped = 0
        self.broken = []  # the journeys that have failed checks

    @contextmanager
    def check(self, name):
        """One check: whatever goes wrong inside fails it, and the run goes on."""
        begin = time.monotonic()
        try:
            yield
        except Exception as error:  # a client may raise anything
            self.failed += 1
            where = "" if isinstance(error, Wrong) else "\n" + traceback.format_exc(limit=4)
            print(f"FAIL {name}: {type(error).__name__}: {str(error)[:1500]}{where}", flush=True)
        else:
            self.passed += 1
            print(f"ok   {name} ({time.monotonic() - begin:.1f} s)", flush=True)

    def skip(self, name, reason):
        self.skipped += 1
        print(f"skip {name}: {reason}", flush=True)

    def close(self):
        """The closing line, and which journeys have failed checks; true if nothing failed."""
        if self.broken:
            print(f"failed journeys: {' '.join(self.broken)}", flush=True)
        print(f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped", flush=True)
        return self.failed == 0 and self.passed > 0
