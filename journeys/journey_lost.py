"""A site is declared lost: what it alone had is listed and answered honestly, and it comes back with its disk."""

import json
import shutil

from botocore.exceptions import ClientError

from checks import equal, expect, wait_for
from clients import boto, content
from journey_copies import info
from journey_islands import snapshot


def lines(text):
    return [json.loads(line) for line in text.splitlines() if line.strip()]


def refusal(call, **request):
    """The code, the message and the header of a read that is refused."""
    try:
        call(**request)
    except ClientError as error:
        answer = error.response
        headers = answer["ResponseMetadata"]["HTTPHeaders"]
        return answer["Error"]["Code"], answer["Error"].get("Message", ""), headers.get("x-skerry-lost")
    raise AssertionError("it was answered")


def declared(demo, verb, *options, at=1, name="site-3"):
    return lines(demo.run("site", verb, name, "--json", "--site", demo.site(at).name, *options))


def lost(checks, demo):
    bucket = "lost"
    sites = {number: boto(demo, number) for number in (1, 2, 3)}
    one, two, three = sites[1], sites[2], sites[3]
    one.create_bucket(Bucket=bucket)
    demo.one_copy(bucket)
    one.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    old, new, alone = (content(40_000, seed) for seed in ("old", "new", "alone"))
    one.put_object(Bucket=bucket, Key="both", Body=old)
    for number in (2, 3):
        wait_for("the bucket", lambda n=number: sites[n].get_object(Bucket=bucket, Key="both"))
    wait_for("versioning", lambda: three.get_bucket_versioning(Bucket=bucket).get("Status") == "Enabled")
    version = three.put_object(Bucket=bucket, Key="both", Body=new)["VersionId"]
    three.put_object(Bucket=bucket, Key="alone", Body=alone)
    for client in (one, two):
        wait_for("the records of site 3", lambda c=client: "alone" in snapshot(c, bucket))
        wait_for("its version", lambda c=client: c.head_object(Bucket=bucket, Key="both")["VersionId"] == version)

    with checks.check("lost: a dry run lists what only site 3 has, and says nothing to anybody"):
        found = declared(demo, "declare-lost", "--dry-run")
        summary = found[0]
        equal((summary["kind"], summary["versions"], summary["bytes"]), ("loss-summary", 2, 80_000), "summary")
        listed = {(row["bucket"], row["key"], row["bytes"]) for row in found if row["kind"] == "lost-version"}
        equal(listed, {(bucket, "both", 40_000), (bucket, "alone", 40_000)}, "versions")
        equal(found[-1]["kind"], "dry-run", "the last line")
        equal(demo.status(1)["peers"][-1]["lost_ms"], None, "status")

    with checks.check("lost: while site 3 is away and not declared lost, its objects are 409 and not 404"):
        demo.kill(3)
        wait_for("409", lambda: refusal(one.get_object, Bucket=bucket, Key="alone")[0] == "Unreachable")
        demo.run("site", "declare-lost", "site-3", "--site", demo.site(1).name, codes=(5,))

    with checks.check("lost: declared at site 1, every site shows the older version and says so, or 404 with the reason"):
        said = declared(demo, "declare-lost", "-y")
        equal([row["kind"] for row in said], ["loss-summary", "loss", "lost-version", "lost-version"], "answer")
        equal((said[1]["lost"], said[1]["count"]), (True, 1), "state")
        for number in (1, 2):
            client = sites[number]
            wait_for("404", lambda c=client: refusal(c.get_object, Bucket=bucket, Key="alone")[0] == "NoSuchKey")
            code, message, header = refusal(client.get_object, Bucket=bucket, Key="alone")
            expect("site-3 (declared lost at 20" in message and header.endswith("Z"), f"{message} {header}")
            read = client.get_object(Bucket=bucket, Key="both")
            equal(read["Body"].read(), old, "the older version")
            header = read["ResponseMetadata"]["HTTPHeaders"]["x-skerry-lost"]
            expect(header.startswith(f"version={version}; site=site-3; declared=20"), header)
            equal(client.head_object(Bucket=bucket, Key="both")["ETag"], read["ETag"], "HEAD")
            equal(refusal(client.get_object, Bucket=bucket, Key="both", VersionId=version)[0], "NoSuchVersion", "by name")
            equal(sorted(snapshot(client, bucket)), ["alone", "both"], "LIST")
            peer = next(peer for peer in demo.status(number, codes=(0, 4))["peers"] if peer["name"] == "site-3")
            equal((peer["state"], peer["lost_ms"] is not None), ("lost", True), "status")
        wait_for("the metrics", lambda: demo.site(1).metric("skerry_lost_sites") == 1, 30)
        equal(demo.site(1).metric("skerry_gone_sites"), 0, "nobody was expelled")
        wait_for("the reads", lambda: demo.site(1).metric("skerry_lost_reads_total", answer="older") > 0, 30)
        equal(declared(demo, "declare-lost", "-y", "--brief")[-1]["count"], 1, "said once")

    with checks.check("lost: site 3 is there again with its disk: it takes the word back, and everything is read"):
        demo.restart(3)
        for number in (1, 2, 3):
            wait_for("it is found", lambda n=number: not state(demo, n)["lost"], 60)
        for client in (one, two):
            wait_for("the link", lambda c=client: c.get_object(Bucket=bucket, Key="alone")["Body"].read() == alone, 30)
        # Site 2 may have had the other one of site 1, and have no link with site 3 yet.
        read = wait_for("the link of site 2", lambda: two.get_object(Bucket=bucket, Key="both"), 30)
        equal((read["Body"].read(), read["VersionId"]), (new, version), "the real version")
        expect("x-skerry-lost" not in read["ResponseMetadata"]["HTTPHeaders"], "it is the version that was asked for")
        equal(state(demo, 1)["count"], 2, "what was said is not forgotten")


    rotten(checks, demo, one, three)


def rot(directory, name):
    """A frame of the journal rots in which this stands, and the index is lost."""
    for segment in sorted((directory / "data/journal").iterdir(), reverse=True):
        content = segment.read_bytes()
        at = content.rfind(name)
        if at >= 0:
            segment.write_bytes(content[:at] + bytes(byte ^ 0xFF for byte in name) + content[at + len(name):])
            shutil.rmtree(directory / "data/index")
            return
    raise AssertionError(f"{name} is not in the journal")


def rotten(checks, demo, one, three):
    """A damaged site goes on without one that was declared lost, and hears it when it is back after all."""
    bucket = "rots"
    one.create_bucket(Bucket=bucket)
    for key in ("first", "which-rots", "later"):
        one.put_object(Bucket=bucket, Key=key, Body=content(100, key))
    wait_for("the bucket at site 3", lambda: "later" in snapshot(three, bucket))
    demo.run("bucket", "join", bucket, "--site", demo.site(3).name)
    wait_for("the records at site 3", lambda: info(demo, bucket, 3)["standing"] == "member")
    demo.kill(3)
    demo.kill(1)
    rot(demo.directory / demo.site(1).name, b"which-rots")
    demo.restart(1)
    with checks.check("lost: a site whose journal rotted goes on without one that is declared lost"):
        expect(demo.status(1, codes=(0, 4))["anew"] is not None, "it waits for all others")
        declared(demo, "declare-lost", "-y", at=2)
        wait_for("it is whole", lambda: demo.status(1, codes=(0, 4)).get("anew") is None, 60)
    with checks.check("lost: once that one is back it starts itself anew, with the same process id, and hears it"):
        site, log = demo.site(1), demo.directory / demo.site(1).name / "skerry.log"
        starts = log.read_text(errors="replace").count("store opened")
        demo.restart(3)
        wait_for("it has started anew", lambda: log.read_text(errors="replace").count("store opened") > starts, 60)
        wait_for("it is ready", lambda: site.process.poll() is None and site.ready(), 30)
        wait_for("it has all", lambda: demo.status(1, codes=(0, 4)).get("anew") is None, 60)
        equal(sorted(snapshot(one, bucket)), ["first", "later", "which-rots"], "LIST")
        equal(one.get_object(Bucket=bucket, Key="which-rots")["Body"].read(), content(100, "which-rots"), "its body")


def state(demo, number):
    """What a site knows of site 3: from the act that changes nothing."""
    peers = demo.status(number, codes=(0, 4))["peers"]
    if number == 3:
        return {"lost": False}
    peer = next(peer for peer in peers if peer["name"] == "site-3")
    if peer["lost_ms"] is not None:
        return {"lost": True}
    return declared(demo, "declare-found", at=number)[0]
