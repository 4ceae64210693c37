"""What a page of LIST costs in a large bucket with folders, and across keys that were deleted.

python journeys/gaps.py --binary target/release/skerry --work target/gaps [--folders 1000] [--keys 1000] [--deleted 300000] [--samples 40] [--rest 60]

One site. A bucket of `folders` times `keys` objects is listed with Delimiter=/ (first page, a page from the middle, one folder), beside a bucket of
as many folders with one object each. Then `deleted` keys that lie next to each other go, between 500 living ones before and 500 behind, in a bucket without
versioning and in one with it: the page of 1000 that goes across is asked for before, right after, after the site is started again, and after
`rest` seconds more, beside a bucket that never had anything between. Whole answers over one kept connection; medians. Prints Markdown.
"""

import argparse
import http.client
import re
import shutil
import signal
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import beside
import many_keys
from checks import expect, wait_for

EDGE = 500
PLAIN, VERSIONED, NEVER, FOLDERS, FEW = "gap", "gap-versioned", "gap-never", "folders", "folders-few"
ENTRY = re.compile("<(?:Contents|Version|DeleteMarker|CommonPrefixes)>")


class Pages:
    """Pages over one connection, timed to their last byte."""

    def __init__(self, site, samples):
        self.s3, self.samples, self.host = beside.client(site), samples, site.endpoint.removeprefix("http://")

    def page(self, kind, **asked):
        """Milliseconds and body of one page."""
        path = self.s3.generate_presigned_url(kind, Params=asked, ExpiresIn=3600).split(self.host, 1)[1]
        begin = time.monotonic()
        self.connection.request("GET", path)
        answer = self.connection.getresponse()
        body = answer.read()
        taken = (time.monotonic() - begin) * 1000
        expect(answer.status == 200, f"{asked}: {answer.status} {body[:300]}")
        return taken, body.decode()

    def listed(self, kind, wanted, **asked):
        """Milliseconds of the pages that it takes until so many entries were seen, and how many pages that were: one that passes over too much ends early."""
        sum_of, found, pages = 0.0, 0, 0
        while found < wanted:
            taken, body = self.page(kind, **asked)
            sum_of, pages, found = sum_of + taken, pages + 1, found + len(ENTRY.findall(body))
            marker = lambda name: re.search(f"<{name}>([^<]*)<", body).group(1)
            expect(found >= wanted or marker("IsTruncated") == "true", f"{kind} {asked}: {found} entries, wanted {wanted}: {body[:300]}")
            if found < wanted and kind == "list_object_versions":
                asked |= {"KeyMarker": marker("NextKeyMarker"), "VersionIdMarker": marker("NextVersionIdMarker")}
            elif found < wanted:
                asked |= {"ContinuationToken": marker("NextContinuationToken")}
        expect(found == wanted, f"{kind} {asked}: {found} entries, wanted {wanted}")
        return sum_of, pages

    def measure(self, kind, wanted, **asked):
        """Median and first milliseconds, and how many pages; `wanted` keys, versions or folders in all."""
        self.connection = http.client.HTTPConnection(self.host, timeout=300)
        first, pages = self.listed(kind, wanted, **asked)
        many = 1 if first > 2000 else self.samples
        return statistics.median([self.listed(kind, wanted, **asked)[0] for _ in range(many)]), first, pages


def create(options, site, bucket, count, folders=0):
    begin, more = time.monotonic(), ["--folders", str(folders)] if folders else []
    figures = beside.load(options, site, ["--mix", "put=1", "--order", "sequential", "--operations", str(count), "--no-load", *more], "16B", count, bucket, 32)
    summary = figures["phases"][0]["summary"]
    expect(summary["failures"] == 0, f"{summary['failures']} creates failed")
    print(f"{bucket}: {count:,} keys made in {time.monotonic() - begin:.0f} s, {summary['operations_per_s']:.0f}/s", flush=True)


def edges(pages, bucket):
    """Living keys before and behind all others."""
    with ThreadPoolExecutor(8) as pool:
        names = [f"{edge}-{number:03}" for edge in ("a", "z") for number in range(EDGE)]
        list(pool.map(lambda name: pages.s3.put_object(Bucket=bucket, Key=name, Body=b"edge"), names))


def delete(options, site, bucket):
    """All but the edges."""
    begin = time.monotonic()
    asked = ["--mix", "delete=1", "--order", "sequential", "--operations", str(options.deleted), "--no-load"]
    summary = beside.load(options, site, asked, "16B", options.deleted, bucket, 32)["phases"][0]["summary"]
    expect(summary["failures"] == 0, f"{summary['failures']} deletes failed")
    print(f"{bucket}: {options.deleted:,} keys deleted in {time.monotonic() - begin:.0f} s, {summary['operations_per_s']:.0f}/s", flush=True)


def folded(options, pages):
    """Rows of the first table."""
    middle = sorted(f"folder-{number}/" for number in range(options.folders))[options.folders // 2 - 1]
    behind = options.folders - options.folders // 2
    rows = {"first page of all folders": {}, "from the middle on": {"StartAfter": middle}, "the same, 100 entries": {"StartAfter": middle, "MaxKeys": 100}}
    for name, asked in rows.items():
        wanted = min(asked.get("MaxKeys", 1000), behind if "StartAfter" in asked else options.folders)
        yield name, *(pages.measure("list_objects_v2", wanted, Bucket=bucket, Delimiter="/", **asked) for bucket in (FOLDERS, FEW))
    inside = min(1000, options.keys)
    yield "one folder, keys", pages.measure("list_objects_v2", inside, Bucket=FOLDERS, Prefix=middle, Delimiter="/"), None
    yield "no delimiter, keys", pages.measure("list_objects_v2", 1000, Bucket=FOLDERS), None
    versions = {"KeyMarker": middle}
    yield "ListObjectVersions, from the middle on", *(
        pages.measure("list_object_versions", min(1000, behind), Bucket=bucket, Delimiter="/", **versions) for bucket in (FOLDERS, FEW))


# What is asked for across the gap: bucket, request, entries, options.
CELLS = [
    (PLAIN, "list_objects_v2", 2 * EDGE, {}),
    (PLAIN, "list_objects_v2", 2, {"Delimiter": "-", "MaxKeys": 2}),
    (PLAIN, "list_object_versions", 2 * EDGE, {}),
    (VERSIONED, "list_objects_v2", 2 * EDGE, {}),
    (VERSIONED, "list_objects_v2", 2, {"Delimiter": "-", "MaxKeys": 2}),
]


def across(pages, when):
    """A row of the second table: what lies across the gap, and how many times what it takes in a bucket that never had one."""
    cells = []
    for bucket, kind, wanted, more in CELLS:
        never = pages.measure(kind, wanted, Bucket=NEVER, **more)[0]
        p50, first, count = pages.measure(kind, wanted, Bucket=bucket, **more)
        cells.append(f"{p50:.1f} ({first:.1f}){f' in {count} pages' if count > 1 else ''}; {never:.1f}; {p50 / never:.2f}")
    # Of a versioned bucket what went is listed: markers and versions, from where they begin.
    p50, first, _ = pages.measure("list_object_versions", 1000, Bucket=VERSIONED, KeyMarker="a-499")
    print(f"| {when} | " + " | ".join([*cells, f"{p50:.1f} ({first:.1f})"]) + " |", flush=True)


def main():
    parser = argparse.ArgumentParser(description="LIST with folders and across deleted keys")
    parser.add_argument("--binary", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--folders", type=int, default=1000)
    parser.add_argument("--keys", type=int, default=1000)
    parser.add_argument("--deleted", type=int, default=300_000)
    parser.add_argument("--samples", type=int, default=40)
    parser.add_argument("--rest", type=float, default=60)
    parser.add_argument("--keep", action="store_true", help="leave the site's directory, to go on by hand")
    options = parser.parse_args()
    options.binary, options.seed = options.binary.absolute(), 0
    directory = options.work.absolute() / "gaps"
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    site = beside.Skerry(str(options.binary), directory)
    try:
        site.start()
        wait_for("the site to answer", site.answers, 60, 0.005)
        run(options, site)
    finally:
        site.stop()
        if not options.keep:
            shutil.rmtree(directory, ignore_errors=True)


def folders(options, pages, when):
    print(f"\n| Delimiter=/, {when} | p50 ms (first) | one object in each folder | ratio |\n|---|---|---|---|")
    for name, large, few in folded(options, pages):
        beside_it = f"{few[0]:.1f} | {large[0] / few[0]:.2f}" if few else "|"
        print(f"| {name} | {large[0]:.1f} ({large[1]:.1f}) | {beside_it} |", flush=True)


def run(options, site):
    pages = Pages(site, options.samples)
    for bucket in (PLAIN, VERSIONED, NEVER, FOLDERS, FEW, "starts"):
        pages.s3.create_bucket(Bucket=bucket)
    pages.s3.put_bucket_versioning(Bucket=VERSIONED, VersioningConfiguration={"Status": "Enabled"})
    create(options, site, FEW, options.folders, options.folders)
    create(options, site, FOLDERS, options.folders * options.keys, options.folders)
    folders(options, pages, "just made")
    for bucket in (PLAIN, VERSIONED, NEVER):
        edges(pages, bucket)
    for bucket in (PLAIN, VERSIONED):
        create(options, site, bucket, options.deleted)
    for bucket in (PLAIN, VERSIONED):
        delete(options, site, bucket)
    print(f"\n| page across {options.deleted:,} deleted keys: p50 (first) ms; never any; ratio | LIST | LIST Delimiter=- | versions | versioned, LIST | versioned, LIST Delimiter=- | its markers |\n|---|---|---|---|---|---|---|")
    across(pages, "right after")
    many_keys.end(site, signal.SIGTERM)
    many_keys.start(site, "starts")
    pages = Pages(site, options.samples)
    across(pages, "started again")
    time.sleep(options.rest)
    across(pages, f"{options.rest:.0f} s later")
    folders(options, pages, "started again")


if __name__ == "__main__":
    main()
