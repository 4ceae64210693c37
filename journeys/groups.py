"""Control groups that make a process as small as a small machine: memory and share of a processor, version 1 or 2 of the kernel's.

They are made as root, named after this process, and go with the last process in them. What the machine refuses is said: nothing else is
the same. A limit of the address space (`RLIMIT_AS`) counts what is mapped and not what is used, and leaves out the page cache; stopping and
continuing a process from outside pauses it for longer than a scheduler would.
"""

import os
from pathlib import Path

from checks import wait_for

ROOT = Path("/sys/fs/cgroup")
PERIOD = 100_000


class Refused(Exception):
    """The machine has no such groups, or makes none for us."""


class Group:
    """One folder of the tree."""

    def __init__(self, place, values):
        self.place = place
        try:
            place.mkdir()
            for file, value in values.items():
                (place / file).write_text(str(value))
        except OSError as error:
            if place.is_dir():
                place.rmdir()
            raise Refused(f"{place} was refused ({error}): run as root, where groups may be made") from error

    def lines(self, file):
        """Names and numbers of a file of such."""
        path = self.place / file
        pairs = [line.split() for line in path.read_text().splitlines()] if path.is_file() else []
        return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2}

    def number(self, file):
        path = self.place / file
        return int(path.read_text()) if path.is_file() else None


class Groups:
    """Bytes of memory and a share of a processor, each if named."""

    def __init__(self, memory=None, cpu=None, root=ROOT):
        name, quota = f"skerry-{os.getpid()}", int((cpu or 0) * PERIOD)
        self.two = (root / "cgroup.controllers").is_file()
        self.memory = self.cpu = None
        try:
            if self.two:
                named = [kind for kind, wanted in (("memory", memory), ("cpu", cpu)) if wanted]
                self.hand_down(root, named)
                values = {"memory.max": memory} if memory else {}
                group = Group(root / name, values | ({"cpu.max": f"{quota} {PERIOD}"} if cpu else {})) if named else None
                self.memory, self.cpu = group if memory else None, group if cpu else None
            else:
                if memory:
                    self.memory = Group(root / "memory" / name, {"memory.limit_in_bytes": memory})
                if cpu:
                    self.cpu = Group(root / "cpu" / name, {"cpu.cfs_period_us": PERIOD, "cpu.cfs_quota_us": quota})
        except Refused:
            self.remove()
            raise

    @staticmethod
    def hand_down(root, kinds):
        """In version 2 a group has what the one above hands down."""
        try:
            (root / "cgroup.subtree_control").write_text(" ".join(f"+{kind}" for kind in kinds))
        except OSError as error:
            raise Refused(f"{root} hands down no {' and '.join(kinds)} ({error}): run as root") from error

    def each(self):
        return {group.place: group for group in (self.memory, self.cpu) if group}.values()

    def take(self, pid):
        for group in self.each():
            (group.place / "cgroup.procs").write_text(str(pid))

    def figures(self):
        """MiB at most with the page cache, how often it was at its limit, what the kernel killed for it, seconds held back."""
        found = {}
        if self.memory:
            peak = self.memory.number("memory.peak" if self.two else "memory.max_usage_in_bytes")
            events = self.memory.lines("memory.events" if self.two else "memory.oom_control")
            found["peak"] = peak / (1 << 20) if peak is not None else None
            found["at its limit"] = events.get("max") if self.two else self.memory.number("memory.failcnt")
            found["killed"] = events.get("oom_kill", 0)
        if self.cpu:
            stat = self.cpu.lines("cpu.stat")
            found["held back"] = stat["throttled_usec"] / 1e6 if self.two else stat["throttled_time"] / 1e9
        return found

    def remove(self):
        for group in self.each():
            wait_for("the group to be empty", lambda: not (group.place / "cgroup.procs").read_text(), 20)
            group.place.rmdir()
