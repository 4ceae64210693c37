"""The journeys of real clients against the demo's real processes.

python journeys/run.py --binary target/debug/skerry --work target/journeys [--aws2 /usr/bin/aws] [--rounds N] [NAME..]

Names: aws1 aws2 s3cmd boto refusals islands locality circuits burnt lost areas members followed nodes live moved replaced full crash again histories anomalies bench. Every journey has a demo of its own.
"""

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

import anomalies
import journey_bench
import journey_boto
import journey_circuits
import journey_cli
import journey_copies
import journey_crash
import journey_followed
import journey_full
import journey_histories
import journey_islands
import journey_live
import journey_lost
import journey_members
import journey_nodes
import journey_replaced
from checks import Checks
from clients import installed
from islands import Demo


def journeys(checks, options):
    """Name to what it does with a demo and a directory."""
    aws1 = installed("aws")
    table = {
        "aws1": lambda demo, work: journey_cli.aws(checks, demo, work, aws1, "aws1"),
        "s3cmd": lambda demo, work: journey_cli.s3cmd(checks, demo, work, installed("s3cmd")),
        "boto": lambda demo, work: journey_boto.operations(checks, demo),
        "refusals": lambda demo, work: journey_boto.refusals(checks, demo),
        "islands": lambda demo, work: journey_islands.cut_and_heal(checks, demo),
        "locality": lambda demo, work: journey_islands.locality(checks, demo),
        "circuits": lambda demo, work: journey_circuits.apart(checks, demo),
        "burnt": lambda demo, work: journey_copies.burnt(checks, demo),
        "areas": lambda demo, work: journey_copies.areas(checks, demo),
        "lost": lambda demo, work: journey_lost.lost(checks, demo),
        "members": lambda demo, work: journey_members.leaves(checks, demo),
        "followed": lambda demo, work: journey_followed.followed(checks, demo),
        "nodes": lambda demo, work: journey_nodes.several(checks, demo.binary, work),
        "live": lambda demo, work: journey_live.live(checks, demo),
        "moved": lambda demo, work: journey_live.moved(checks, demo),
        "replaced": lambda demo, work: journey_replaced.replaced(checks, demo.binary, work),
        "full": lambda demo, work: journey_full.full(checks, demo.binary, work),
        "crash": lambda demo, work: journey_crash.killed_in_turn(checks, demo, options.rounds),
        "again": lambda demo, work: journey_crash.started_again(checks, demo),
        "histories": lambda demo, work: journey_histories.races(checks, demo, work),
        "anomalies": lambda demo, work: anomalies.show(checks, demo),
        "bench": lambda demo, work: journey_bench.load(checks, demo, work),
    }
    if options.aws2:
        table["aws2"] = lambda demo, work: journey_cli.aws(checks, demo, work, [options.aws2], "aws2")
    return table


def main():
    parser = argparse.ArgumentParser(description="journeys of real clients")
    parser.add_argument("--binary", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--aws2")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--keep", action="store_true", help="keep the directories")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    checks = Checks()
    table = journeys(checks, options)
    unknown = [name for name in options.names if name not in table and name != "aws2"]
    if unknown:
        parser.error(f"no journey {', '.join(unknown)}; there are {', '.join(table)}")
    names = options.names or list(table)
    if not options.aws2 and ("aws2" in names or not options.names):
        checks.skip("aws2", "awscli v2 is not at /usr/bin/aws; apt install awscli")
    options.work.mkdir(parents=True, exist_ok=True)
    for name in [name for name in names if name in table]:
        run_one(checks, options, name, table[name])
    sys.exit(0 if checks.close() else 1)


def run_one(checks, options, name, journey):
    """One journey in a directory of its own; what breaks outside its checks is a failed check too."""
    directory = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=options.work))
    demo = Demo(options.binary.resolve(), directory / "demo")
    failed = checks.failed
    with checks.check(f"{name}: starts and stops cleanly"):
        try:
            demo.start()
            journey(demo, directory)
        except SystemExit as error:
            raise RuntimeError(str(error)) from error
        finally:
            code = demo.stop()
        if code != 0:
            raise RuntimeError(f"the demo ended with {code}: {''.join(demo.errors)}")
    if checks.failed == failed and not options.keep:
        shutil.rmtree(directory, ignore_errors=True)
    else:
        print(f"     kept {directory}", flush=True)
    if checks.failed != failed:
        checks.broken.append(name)


if __name__ == "__main__":
    main()
