"""A site that follows only what lies below a prefix: alone, through kill -9, with writes of both kinds, and back."""

import json
from concurrent.futures import ThreadPoolExecutor

from checks import equal, expect, wait_for
from clients import boto
from journey_live import refused

BUCKET = "followed"
PREFIX = "album/"
KEYS = 2000
BELOW = 200
# How the command line ends when the site refused.
REFUSED = (5,)


def info(demo, number):
    return json.loads(demo.run("bucket", "info", BUCKET, "--json", "--site", demo.site(number).name))


def prefix(demo, number=3):
    """What the site says of the prefix; none if it follows none."""
    return next(iter(info(demo, number)["prefixes"]), None)


def follow(demo, *words):
    return demo.run("bucket", "join", BUCKET, "--prefix", PREFIX, *words, "--site", demo.site(3).name)


def current(demo):
    wait_for("the prefix to be current", lambda: prefix(demo)["state"] == "current", 60)


def received(demo, number):
    """Bytes that came over links, of whatever kind."""
    return demo.site(number).metric("skerry_wan_bytes_total", direction="received")


def listed(client, below=PREFIX):
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=below)
    return sorted(row["Key"] for page in pages for row in page.get("Contents", []))


def followed(checks, demo):
    """Site 1 writes, site 2 is a whole member, site 3 follows a tenth."""
    clients = {number: boto(demo, number) for number in (1, 2, 3)}
    bodies = {f"{PREFIX}{n:04}.jpg": f"picture {n}".encode() for n in range(BELOW)}
    others = [f"bulk/{n:05}.dat" for n in range(KEYS - BELOW)]

    with checks.check("followed: one key in ten is taken for far fewer bytes than the whole, and it is said what a write will do"):
        # Copies would make members of the others.
        demo.run("bucket", "create", BUCKET, "--copies", "1", "--site", demo.site(1).name)
        put = lambda key: clients[1].put_object(Bucket=BUCKET, Key=key, Body=bodies.get(key, key.encode()))
        with ThreadPoolExecutor(16) as pool:
            list(pool.map(put, [*bodies, *others]))
        for number in (2, 3):
            wait_for("the bucket to be known", lambda n=number: clients[n].head_bucket(Bucket=BUCKET), 60)
        before = received(demo, 3)
        said = follow(demo)
        expect("first write to the bucket makes the site a member of all of it" in said, said)
        current(demo)
        part = received(demo, 3) - before
        before = received(demo, 2)
        demo.run("bucket", "join", BUCKET, "--site", demo.site(2).name)
        wait_for("site 2 to be a member", lambda: info(demo, 2)["standing"] == "member", 60)
        wait_for("all of it", lambda: info(demo, 2)["objects"] == KEYS, 60)
        whole = received(demo, 2) - before
        print(f"     {part:.0f} bytes for {BELOW} of {KEYS} keys, {whole:.0f} for all at a member", flush=True)
        expect(part * 4 < whole, f"{part:.0f} bytes for a tenth, {whole:.0f} for all")
        shown = info(demo, 3)
        equal((shown["standing"], shown["prefixes"][0]["records"]), ("none", BELOW), "what site 3 is and has")
        expect(demo.site(3).name not in info(demo, 1)["members"], "it is counted as a member")
        expect('below "album/"' in demo.run("bucket", "list", "--site", demo.site(3).name), "the list does not say so")

    with checks.check("followed: with all others stopped it is read and listed, also after kill -9; what lies outside is refused"):
        demo.run("bucket", "pin", BUCKET, "--prefix", PREFIX, "--site", demo.site(3).name)
        pins = lambda: json.loads(demo.run("bucket", "pins", "--json", "--site", demo.site(3).name))["pins"]
        wait_for("the payload", lambda: any(pin["complete"] and pin["objects"] == BELOW for pin in pins()), 60)
        demo.terminate(1)
        demo.terminate(2)
        for again in (False, True):
            equal(listed(clients[3]), sorted(bodies), "keys below the prefix")
            for key in list(bodies)[:: BELOW // 10]:
                expect(clients[3].get_object(Bucket=BUCKET, Key=key)["Body"].read() == bodies[key], key)
            for call, status, what in (
                (lambda **more: clients[3].get_object(Bucket=BUCKET, Key=f"{PREFIX}none", **more), 404, "nothing below it"),
                (lambda **more: clients[3].get_object(Bucket=BUCKET, Key=others[0], **more), 409, "a key outside"),
                (lambda **more: clients[3].list_objects_v2(Bucket=BUCKET, **more), 409, "a listing of all"),
            ):
                equal(refused(call)[0], status, what)
            if not again:
                demo.kill(3)
                demo.restart(3)
        demo.restart(1)
        demo.restart(2)

    with checks.check("followed: what is new, overwritten and deleted arrives, also what happened while it was killed"):
        current(demo)
        new, old, gone, late = (f"{PREFIX}{name}" for name in ("new", "0000.jpg", "0001.jpg", "0002.jpg"))
        clients[1].put_object(Bucket=BUCKET, Key=new, Body=b"new")
        clients[2].put_object(Bucket=BUCKET, Key=old, Body=b"another")
        clients[1].delete_object(Bucket=BUCKET, Key=gone)
        bodies |= {new: b"new", old: b"another"}
        del bodies[gone]
        wait_for("all of it", lambda: listed(clients[3]) == sorted(bodies))
        wait_for("the other body", lambda: clients[3].get_object(Bucket=BUCKET, Key=old)["Body"].read() == b"another")
        demo.kill(3)
        clients[1].delete_object(Bucket=BUCKET, Key=late)
        del bodies[late]
        demo.restart(3)
        wait_for("the delete", lambda: listed(clients[3]) == sorted(bodies), 60)
        equal(refused(clients[3].get_object, Bucket=BUCKET, Key=late)[0], 404, "what was deleted")

    with checks.check("followed: what is refused or changes nothing makes no member"):
        current(demo)
        # 409 until the link with the home is back, after the kill.
        unless = {"Bucket": BUCKET, "Key": old, "Body": b"x" * 100_000, "IfNoneMatch": "*"}
        wait_for("the home's no", lambda: refused(clients[3].put_object, **unless)[0] == 412)
        clients[3].delete_object(Bucket=BUCKET, Key=f"{PREFIX}none")
        equal(info(demo, 3)["standing"], "none", "standing")

    with checks.check("followed: --writes through writes at a member, and refuses on an island"):
        follow(demo, "--writes", "through")
        through = f"{PREFIX}through"
        clients[3].put_object(Bucket=BUCKET, Key=through, Body=b"through")
        equal(clients[3].get_object(Bucket=BUCKET, Key=through)["Body"].read(), b"through", "at once where it was written")
        bodies[through] = b"through"
        for number in (1, 2):
            wait_for("it elsewhere", lambda n=number: clients[n].head_object(Bucket=BUCKET, Key=through))
        demo.cut(3)
        status, message = refused(clients[3].put_object, Bucket=BUCKET, Key=f"{PREFIX}no", Body=b"no")
        equal(status, 409, "on an island")
        expect("--writes join" in message, message)
        equal(info(demo, 3)["standing"], "none", "standing")

    with checks.check("followed: --writes join accepts on an island, says which write made it a member, and comes back"):
        follow(demo, "--writes", "join")
        island = f"{PREFIX}island"
        clients[3].put_object(Bucket=BUCKET, Key=island, Body=b"island")
        bodies[island] = b"island"
        expect(island in prefix(demo)["reason"] and "whole bucket" in prefix(demo)["reason"], prefix(demo)["reason"])
        log = (demo.directory / demo.site(3).name / "skerry.log").read_text(errors="replace")
        expect("followed_prefix_joined" in log, "the log does not say it")
        demo.heal(3)
        wait_for("it elsewhere", lambda: clients[1].head_object(Bucket=BUCKET, Key=island))
        wait_for("all of it here", lambda: info(demo, 3)["standing"] == "member", 60)
        demo.run("bucket", "leave", BUCKET, "--site", demo.site(3).name, timeout=120)
        current(demo)
        equal(listed(clients[3]), sorted(bodies), "keys below the prefix")
        wait_for("the rest to go", lambda: info(demo, 3)["objects"] == len(bodies), 60)
        equal(info(demo, 1)["conflicts"], 0, "conflicts")

    with checks.check("followed: it ends, and nothing is left"):
        at = ("--prefix", PREFIX, "--site", demo.site(3).name)
        # Not while something is pinned.
        demo.run("bucket", "leave", BUCKET, *at, codes=REFUSED)
        demo.run("bucket", "unpin", BUCKET, *at)
        demo.run("bucket", "leave", BUCKET, *at)
        wait_for("it to be over", lambda: prefix(demo) is None and info(demo, 3)["objects"] == 0, 60)
        equal(listed(clients[3]), sorted(bodies), "asked for elsewhere")
