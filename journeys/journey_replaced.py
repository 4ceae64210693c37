"""A site of three is killed for good and its disk wiped; a new machine takes its place, and a copy of the old disk is refused."""

import json
import shutil

from botocore.exceptions import ClientError

from checks import equal, expect, wait_for
from clients import arrived, boto, content
from islands import Site, free_ports
from journey_live import refused
from journey_nodes import Nodes

NAMES = ("lisbon", "bergen", "tromso", "spare")
LOST = 3
NEW = 4


class Sites(Nodes):
    """Sites of one machine each, from nothing."""

    def __init__(self, binary, directory):
        self.binary, self.directory, self.sites = str(binary), directory, []
        port = free_ports(len(NAMES))
        for number, name in enumerate(NAMES):
            (directory / name).mkdir()
            text = f'[s3]\nlisten = "127.0.0.1:{port + number}"\n[peer]\nlisten = "127.0.0.1:{port + 100 + number}"\n'
            (directory / name / "skerry.toml").write_text(text)
            self.sites.append(Site(number + 1, name, f"http://127.0.0.1:{port + number}", None))

    def form(self):
        self.run("init", "--name", NAMES[0], "--root", str(self.directory / "root"))
        self.start(1)
        for number in (2, 3):
            self.admit(number)
        key = json.loads(self.run("key", "create", "journey", "--json"))
        self.access_key, self.secret_key = key["id"], key["secret"]

    def admit(self, number):
        self.run("join", json.loads(self.run("invite", self.site(number).name, "--json"))["token"], at=number)
        self.start(number)

    def show(self, target, at):
        return json.loads(self.run("site", "show", target, "--json", at=at))

    def peers(self, at):
        return json.loads(self.run("status", "--json", at=at))["sites"][0]["status"]["peers"]


def replaced(checks, binary, work):
    directory = work / "replaced"
    directory.mkdir()
    sites = Sites(binary, directory)
    try:
        play(checks, sites)
    finally:
        sites.stop()


def locked(client):
    """Whether the lock is there; 412: a try before was decided, and not answered."""
    try:
        return client.put_object(Bucket="photos", Key="lock", Body=b"3", IfNoneMatch="*")
    except ClientError as error:
        if error.response["ResponseMetadata"]["HTTPStatusCode"] != 412:
            raise
        return True


def play(checks, sites):
    bodies = {f"{number:03}": content(200 if number % 3 else 300_000, f"replaced {number}") for number in range(30)}
    with checks.check("replaced: three sites, a bucket of two copies whose home is the third"):
        sites.form()
        lost, near = boto(sites, LOST), boto(sites, 2)
        wait_for("the access key to be heard", lambda: lost.list_buckets() and near.list_buckets(), 60)
        sites.run("bucket", "create", "photos", "--copies", "2", at=LOST)
        for key, body in bodies.items():
            lost.put_object(Bucket="photos", Key=key, Body=body)
        wait_for("the home to be named", lambda: locked(lost), 60)
        wait_for("the bucket to be known", lambda: near.head_bucket(Bucket="photos"), 60)
        arrived(near, "photos", "lock")
        info = lambda: json.loads(sites.run("bucket", "info", "photos", "--json", at=LOST))
        wait_for("copies elsewhere", lambda: info()["unprotected_bytes"] == 0, 60)
        old = sites.show("tromso", 1)["site"]

    with checks.check("replaced: the third is killed for good, its disk wiped; a new machine takes its place"):
        sites.kill(LOST)
        shutil.copytree(directory := sites.directory / "tromso", sites.directory / "stolen")
        shutil.rmtree(directory)
        sites.admit(NEW)
        wait_for("its links", lambda: sum(row["state"] == "alive" for row in sites.peers(NEW)) == 2, 60)
        said = json.loads(sites.run("site", "replace", "tromso", "--by", "spare", "--yes", "--json"))
        equal((said["site"]["state"], said["by"]["name"], said["name_kept"]), ("replaced", "tromso", ""), "what is said")
        # Killed in the middle, it goes on.
        sites.kill(NEW)
        sites.start(NEW)
        wait_for("it to be done", lambda: sites.show(old, NEW)["recovery"]["done"], 90)
        shown = sites.show(old, NEW)["recovery"]
        equal((shown["buckets_complete"], shown["lost"], shown["waits_for"]), (shown["buckets"], [], []), "how far it is")

    with checks.check("replaced: everything is read at the new one, which decides conditions"):
        new = boto(sites, NEW)
        for key, body in bodies.items():
            expect(new.get_object(Bucket="photos", Key=key)["Body"].read() == body, f"{key} differs")
        wait_for("the home", lambda: sites.show(old, NEW)["recovery"]["homes_wait"] == "", 60)
        status, _ = refused(new.put_object, Bucket="photos", Key="lock", Body=b"4", IfNoneMatch="*")
        equal(status, 412, "what the old one decided holds")
        new.put_object(Bucket="photos", Key="second", Body=b"4", IfNoneMatch="*")
        home = json.loads(sites.run("bucket", "info", "photos", "--json", at=NEW))["home"]
        equal(home, "tromso", "the home, by the name that was taken over")

    with checks.check("replaced: the old machine, started from a copy of its disk, is refused"):
        (sites.directory / "stolen").rename(sites.directory / "tromso")
        sites.start(LOST)
        stolen = {"Bucket": "photos", "Key": "stolen", "Body": b"x"}
        wait_for("it to hear that it was replaced", lambda: refused(boto(sites, LOST).put_object, **stolen)[0] == 409)
        boto(sites, 1).put_object(Bucket="photos", Key="after", Body=b"x")
        arrived(new, "photos", "after")
        equal([row["name"] for row in sites.peers(LOST) if row["state"] == "alive"], [], "links of the old one")
        equal(sites.show(old, 1)["link"], "refused", "its link at the first")
        keys = [row["Key"] for row in new.list_objects_v2(Bucket="photos")["Contents"]]
        expect("stolen" not in keys, f"what the old one wrote afterwards is there: {keys}")
