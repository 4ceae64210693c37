"""Where the memory of a site goes: the cells of beside.py, and after each the peak, what stays and the threads.

python journeys/memory.py --site NAME=BINARY[,VARIABLE=VALUE…] [--site …] --work target/memory [--rounds N] [--seconds N] [--only WORD]

Each round starts every site anew on an empty directory, one at a time, so that two builds (or settings) stand side by side. The peak is
the kernel's (`VmHWM`), which is set back before each cell; the last lines are of the whole run. Medians over the rounds. Prints Markdown.
"""

import argparse
import shutil
import statistics
import time
from pathlib import Path

import beside
from checks import wait_for


class Site(beside.Skerry):
    """A site with variables of its own."""

    def __init__(self, binary, directory, settings):
        super().__init__(binary, directory)
        self.settings = settings

    def status(self):
        of = Path(f"/proc/{self.process.pid}")
        fields = dict(line.split(":", 1) for line in (of / "status").read_text().splitlines())
        mib = lambda name: int(fields[name].split()[0]) / 1024
        peak = mib("VmHWM")
        (of / "clear_refs").write_text("5")  # the peak begins anew
        return {"peak": peak, "rss": mib("VmRSS"), "own": mib("RssAnon"), "file": mib("RssFile"), "threads": int(fields["Threads"])}


def play(options, binary, settings):
    """One site through all cells: what each took and left."""
    directory = options.work / "site"
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    site = Site(str(binary), directory, settings)
    try:
        site.start()
        wait_for("the site to answer", site.answers, 60, 0.005)
        results = {("start", 0): site.status() | {"ops": 0, "cpu": 0, "failed": 0, "p99": 0}}
        for cell in beside.CELLS:
            if options.only and options.only not in cell[0]:
                continue
            figures = beside.bench(options, site, cell)
            results[cell[0], cell[5]] = site.status() | figures
        if not options.only:
            for what, figures in beside.multipart(options, site).items():
                results[what, 4] = site.status() | figures | {"p99": 0}
        time.sleep(options.rest)
        results["at rest after", 0] = site.status() | {"ops": 0, "cpu": 0, "failed": 0, "p99": 0}
        return results
    finally:
        site.stop()
        shutil.rmtree(directory, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description="where the memory of a site goes")
    parser.add_argument("--site", action="append", required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--rest", type=float, default=5)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    options.work, options.seed = options.work.absolute(), 0
    sites = {}
    for site in options.site:
        name, _, rest = site.partition("=")
        binary, *variables = rest.split(",")
        sites[name] = (Path(binary).absolute(), dict(variable.split("=", 1) for variable in variables))
    # The client is the same for all.
    options.binary = next(iter(sites.values()))[0]
    runs = {name: [] for name in sites}
    for _ in range(options.rounds):
        for name, (binary, settings) in sites.items():
            runs[name].append(play(options, binary, settings))
    for name, all_results in runs.items():
        print(f"\n{name}\n\n| after | peak, MiB | resident | of it the program's file | own | threads | operations/s | p99, ms | CPU ms | failed |")
        print("|---" * 10 + "|")
        for cell in all_results[0]:
            median = lambda field: statistics.median(results[cell][field] for results in all_results)
            shown = [f"{median(field):.1f}" for field in ("peak", "rss", "file", "own")] + [f"{median('threads'):.0f}", f"{median('ops'):.0f}", f"{median('p99'):.1f}", f"{median('cpu'):.3f}", f"{median('failed'):.0f}"]
            print(f"| {cell[0]}, {cell[1]} | " + " | ".join(shown) + " |")
        peak = statistics.median(max(results[cell]["peak"] for cell in results) for results in all_results)
        threads = max(max(results[cell]["threads"] for cell in results) for results in all_results)
        print(f"\n{name}: at most {peak:.1f} MiB resident and {threads} threads")


if __name__ == "__main__":
    main()
