"""A site leaves a bucket through a cut and under load, nothing is lost, and it comes back."""

import json
import threading

from checks import equal, expect, wait_for
from clients import boto, content, sha256


def membership(demo, bucket, number):
    return json.loads(demo.run("bucket", "info", bucket, "--json", "--site", demo.site(number).name))


def standing(demo, bucket, number):
    return membership(demo, bucket, number)["standing"]


def leaves(checks, demo):
    """Site 2 writes what only it has, leaves, and others have all of it."""
    bucket = "members"
    clients = {number: boto(demo, number) for number in (1, 2, 3)}
    names = {number: demo.site(number).name for number in (1, 2, 3)}
    clients[1].create_bucket(Bucket=bucket)
    demo.one_copy(bucket)
    bodies = {f"small/{n}": content(n * 97, f"small {n}") for n in range(40)}
    bodies |= {f"large/{n}": content(2 << 20, f"large {n}") for n in range(4)}

    with checks.check("members: a home and an only member are refused with what to do"):
        expect("bucket home members --to" in refused(demo, "leave", bucket, names[1]), "the home")

    with checks.check("members: a site that leaves while cut off says why it stays, and serves on"):
        demo.run("bucket", "join", bucket, "--site", names[2])
        wait_for("site 2 to be a member", lambda: standing(demo, bucket, 2) == "member", 60)
        demo.cut(2)
        for key, body in bodies.items():
            clients[2].put_object(Bucket=bucket, Key=key, Body=body)
        demo.run("bucket", "leave", bucket, "--no-wait", "--site", names[2])
        wait_for("a reason", lambda: reason(demo, bucket, names[2]), 60)
        expect(clients[2].get_object(Bucket=bucket, Key="large/0")["Body"].read() == bodies["large/0"], "served")

    with checks.check("members: healed it hands over what only it had, under load, and leaves"):
        written, stop = {}, threading.Event()

        def load():
            number = 0
            while not stop.is_set():
                key, body = f"load/{number}", content(5000, f"load {number}")
                clients[1].put_object(Bucket=bucket, Key=key, Body=body)
                written[key] = body
                number += 1

        writer = threading.Thread(target=load, daemon=True)
        writer.start()
        demo.heal(2)
        demo.run("bucket", "leave", bucket, "--site", names[2], timeout=120)
        equal(standing(demo, bucket, 2), "none", "standing")
        stop.set()
        writer.join(30)
        bodies |= written
        wait_for("it to be counted no more", lambda: names[2] not in membership(demo, bucket, 1)["members"], 60)
        wait_for("its records to go", lambda: membership(demo, bucket, 2)["objects"] == 0, 60)

    with checks.check("members: without it everything is at the others, and it reads as one that is no member"):
        for key in ("small/7", "large/3", "load/0"):
            got = clients[2].get_object(Bucket=bucket, Key=key)["Body"].read()
            expect(sha256(got) == sha256(bodies[key]), f"{key} at site 2")
        equal(standing(demo, bucket, 2), "none", "a read makes no member")
        demo.cut(2)
        for key, body in bodies.items():
            got = clients[1].get_object(Bucket=bucket, Key=key)["Body"].read()
            expect(sha256(got) == sha256(body), f"{key} at site 1")
        demo.heal(2)

    with checks.check("members: it joins again and has everything"):
        demo.run("bucket", "join", bucket, "--site", names[2])
        wait_for("site 2 to be a member", lambda: standing(demo, bucket, 2) == "member", 60)
        wait_for("all objects", lambda: membership(demo, bucket, 2)["objects"] == len(bodies), 60)
        equal(membership(demo, bucket, 1)["conflicts"], 0, "conflicts")

    with checks.check("members: what is pinned at site 3 is there when it is cut off"):
        demo.run("bucket", "pin", bucket, "--prefix", "large/", "--site", names[3])
        wait_for("the pin", lambda: complete(demo, names[3], "large/"), 120)
        demo.run("bucket", "prefetch", bucket, "--prefix", "small/", "--site", names[3], timeout=120)
        demo.cut(3)
        for key in ("large/0", "large/3", "small/39"):
            expect(clients[3].get_object(Bucket=bucket, Key=key)["Body"].read() == bodies[key], key)
        pinned = lambda: demo.site(3).metric("skerry_cache_pinned_bytes")
        wait_for("the metric", lambda: pinned() >= 4 * (2 << 20), 30)
        demo.heal(3)
        demo.run("bucket", "unpin", bucket, "--prefix", "large/", "--site", names[3])


def complete(demo, name, prefix):
    pins = json.loads(demo.run("bucket", "pins", "--json", "--site", name))["pins"]
    return any(pin["prefix"] == prefix and pin["complete"] for pin in pins)


def refused(demo, verb, bucket, name):
    """What the command line says of a refusal."""
    import subprocess

    command = [demo.binary, "bucket", verb, bucket, "--site", name, "--dir", str(demo.directory)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    expect(done.returncode != 0, f"{verb} was not refused: {done.stdout}")
    return done.stdout + done.stderr


def reason(demo, bucket, name):
    return "leaves" in demo.run("bucket", "leave", bucket, "--no-wait", "--site", name)
