"""Live operation: a site is frozen, emptied under traffic with kill -9 in the middle, switched off; nothing is lost."""

import json
import re

from botocore.exceptions import ClientError

from checks import Wrong, equal, expect, wait_for
from clients import arrived, boto
from islands import free_ports
from journey_crash import Uploads, verify


def shown(demo, about, at):
    """What the site `at` says of the site `about`."""
    return json.loads(demo.run("site", "show", demo.site(about).name, "--json", "--site", demo.site(at).name))


def refused(call, **arguments):
    """The status and message of a request that must be refused."""
    try:
        call(**arguments)
    except ClientError as error:
        return error.response["ResponseMetadata"]["HTTPStatusCode"], error.response["Error"]["Message"]
    raise Wrong("it was not refused")


def live(checks, demo):
    """Freezes site 2, then empties site 1."""
    bucket = "live"
    sites = {number: boto(demo, number) for number in (1, 2, 3)}
    sites[1].create_bucket(Bucket=bucket)
    sites[1].put_object(Bucket=bucket, Key="first", Body=b"first")

    with checks.check("live: a frozen site answers reads and refuses writes with 409 and the reason, also after kill -9"):
        wait_for("the object at site 2", lambda: sites[2].get_object(Bucket=bucket, Key="first"))
        demo.run("site", "freeze", demo.site(2).name, "--site", demo.site(1).name)
        wait_for("site 2 to answer", lambda: shown(demo, 2, 1)["duty_heard"])
        for again in (False, True):
            status, message = refused(sites[2].put_object, Bucket=bucket, Key="no", Body=b"no")
            equal(status, 409, "status")
            expect("frozen" in message and "site resume" in message, message)
            # Just started it may have no link yet with who has the body.
            wait_for("a read", lambda: sites[2].get_object(Bucket=bucket, Key="first")["Body"].read() == b"first")
            wait_for("site 3 to hear of it", lambda: shown(demo, 2, 3)["duty"] == "frozen")
            if not again:
                demo.kill(2)
                demo.restart(2)
        demo.run("site", "resume", demo.site(2).name, "--site", demo.site(3).name)
        wait_for("site 2 to serve", lambda: shown(demo, 2, 2)["duty"] == "serves")
        sites[2].put_object(Bucket=bucket, Key="yes", Body=b"yes")

    acknowledged = {}
    with checks.check("live: a site that is cut off is never empty, whoever kills it"):
        writers = Uploads(demo, 1, bucket, "before")
        wait_for("writes", lambda: writers.count() > 30)
        acknowledged |= writers.stop()
        demo.cut(1)
        writers = Uploads(demo, 1, bucket, "island")
        wait_for("writes on the island", lambda: writers.count() > 30)
        demo.run("site", "drain", demo.site(1).name, "--site", demo.site(1).name)
        acknowledged |= writers.stop()
        wait_for("what holds it up", lambda: "linked" in shown(demo, 1, 1)["drain"]["waits_for"])
        demo.kill(1)
        demo.restart(1)
        equal(shown(demo, 1, 1)["duty"], "draining", "after kill -9")
        wait_for("what holds it up", lambda: "linked" in shown(demo, 1, 1)["drain"]["waits_for"])

    with checks.check("live: under traffic and with kill -9 in the middle it becomes empty"):
        writers = Uploads(demo, 1, bucket, "handed on")
        elsewhere = Uploads(demo, 2, bucket, "elsewhere")
        demo.heal(1)
        demo.kill(1)
        demo.restart(1)
        wait_for("writes that are handed on", lambda: writers.count() > 10, 60)
        wait_for("site 1 to be empty", lambda: shown(demo, 1, 2)["duty"] == "empty", 120)
        acknowledged |= writers.stop()
        acknowledged |= elsewhere.stop()
        print(f"     {len(acknowledged)} acknowledged writes, {writers.count()} of them handed on while it was emptied", flush=True)
        for number in (2, 3):
            empty = lambda n=number: (shown(demo, 1, n)["duty"], shown(demo, 1, n)["homes"]) == ("empty", [])
            wait_for(f"it to be empty, and no home, at site {number}", empty, 60)

    with checks.check("live: it is switched off, and everything that was acknowledged is at the others"):
        demo.terminate(1)
        for number in (2, 3):
            # What one of them took a moment ago is on its way to the other.
            wait_for(f"all of it at site {number}", lambda n=number: verify(sites[n], bucket, acknowledged) == [], 60)
        sites[3].put_object(Bucket=bucket, Key="lock", Body=b"3", IfNoneMatch="*")
        status, _ = refused(boto(demo, 2).put_object, Bucket=bucket, Key="lock", Body=b"2", IfNoneMatch="*")
        equal(status, 412, "conditions are decided by the new home")


def peer(demo, about, at):
    """How the site `at` sees the site `about`, whatever it is called."""
    found = json.loads(demo.run("site", "list", "--json", "--site", demo.site(at).name))["sites"]
    return next(row for row in found if row["site"] == demo.status(about)["site"])


def moved(checks, demo):
    """Site 3 gets another name and other addresses, and is expelled in the end."""
    bucket = "moved"
    sites = {number: boto(demo, number) for number in (1, 2, 3)}
    sites[1].create_bucket(Bucket=bucket)
    config = demo.directory / demo.site(3).name / "skerry.toml"

    with checks.check("moved: a site is renamed while it is cut off, and called so everywhere once it hears"):
        demo.cut(3)
        demo.run("site", "rename", demo.site(3).name, "bergen", "--site", demo.site(1).name)
        equal(peer(demo, 3, 1)["name"], "bergen", "at site 1")
        demo.heal(3)
        for number in (1, 2, 3):
            wait_for(f"the name at site {number}", lambda n=number: peer(demo, 3, n)["name"] == "bergen")
        equal(demo.status(3)["site_name"], "bergen", "what it calls itself")

    with checks.check("moved: a site that comes back at another address is found, and others dial it there"):
        ports = free_ports(3)
        for step in (1, 2):
            # Twice: the second time while site 2 is cut off, which learns it when its link is back.
            if step == 2:
                demo.cut(2)
            demo.terminate(3)
            text = config.read_text()
            head, section, rest = text.partition("[peer]")
            body, separator, tail = rest.partition("\n[")
            body = re.sub(r"127\.0\.0\.1:\d+", f"127.0.0.1:{ports + step}", body)
            config.write_text(head + section + body + separator + tail)
            demo.restart(3)
            if step == 2:
                demo.heal(2)
            for number in (1, 2):
                wanted = f"127.0.0.1:{ports + step}"
                wait_for(f"the address at site {number}", lambda n=number: peer(demo, 3, n)["addresses"][0] == wanted, 60)
                wait_for(f"the link of site {number}", lambda n=number: peer(demo, 3, n)["link"] == "alive", 60)
        sites[3].put_object(Bucket=bucket, Key="from there", Body=b"x")
        arrived(sites[2], bucket, "from there")

    with checks.check("moved: an expelled site is refused by all, is told so, and takes no writes"):
        demo.run("site", "expel", "bergen", "--yes", "--site", demo.site(2).name)
        for number in (1, 2):
            wait_for(f"site {number} to hear it", lambda n=number: peer(demo, 3, n)["state"] == "expelled")
            equal(peer(demo, 3, number)["link"], "refused", f"the link of site {number}")
        wait_for("its links to be gone", lambda: all(row["state"] != "alive" for row in demo.status(3)["peers"]), 60)
        # Nobody would take what it hands over: it is told so, and does not wait.
        demo.run("bucket", "leave", bucket, "--site", demo.site(3).name, codes=(5,), timeout=30)
        wait_for("it to know", lambda: demo.site(3).metric("skerry_is_gone") == 1, 60)
        for again in (False, True):
            status, message = refused(sites[3].put_object, Bucket=bucket, Key="late", Body=b"x")
            equal(status, 409, "status")
            expect("expelled" in message, message)
            if not again:
                demo.terminate(3)
                demo.restart(3)
        sites[1].put_object(Bucket=bucket, Key="without it", Body=b"x")
        arrived(sites[2], bucket, "without it")
        keys = [row["Key"] for row in sites[2].list_objects_v2(Bucket=bucket)["Contents"]]
        equal(sorted(keys), ["from there", "without it"], "keys at site 2")

    with checks.check("moved: an access key that is made then works at the sites that are left, and it is told which ones the gone one knows"):
        made = json.loads(demo.run("key", "create", "later", "--json", "--site", demo.site(1).name))
        own = boto(demo, 2, (made["id"], made["secret"]))
        wait_for("site 2 to be told the credential key", own.list_buckets)
        wait_for("site 2 to count what it knows", lambda: demo.site(2).metric("skerry_exposed_access_keys") == 1)
        equal(demo.site(2).metric("skerry_unopened_access_keys"), 0, "access keys that it refuses")
        listed = json.loads(demo.run("key", "list", "--json", "--site", demo.site(2).name))["keys"]
        known = {row["id"]: row["known_to"] for row in listed}
        equal(known, {demo.access_key: ["bergen"], made["id"]: []}, "who knows which")
        demo.terminate(2)
        demo.restart(2)
        own.list_buckets()
