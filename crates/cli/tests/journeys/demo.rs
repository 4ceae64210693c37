//! The demo as a person uses it: started, asked, cut, healed, killed, stopped, started again.

use std::io::Read;
use std::path::Path;
use std::process::Stdio;

use crate::island::{Demo, alive, free_port, run, signal, skerry, told, wait_for};
use serde_json::Value;

fn names(list: &Value) -> Vec<String> {
    list.as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap().to_owned()).collect()
}

fn has_bucket(demo: &Demo, site: &str, name: &str) -> bool {
    names(&demo.json(&["bucket", "list", "--site", site], 0)["buckets"]).iter().any(|found| found == name)
}

#[test]
fn three_sites_see_each_other_and_find_everything_again() {
    let directory = tempfile::tempdir().unwrap();
    let port = free_port();
    let demo = Demo::start(directory.path(), port);
    assert_eq!(names(&demo.ready["sites"]), ["site-1", "site-2", "site-3"]);
    assert_eq!(demo.ready["sites"][1]["endpoint"], format!("http://127.0.0.1:{}", port + 1));
    assert_eq!(demo.event("site-state")["site"], "site-1");
    sees_all(&demo);
    demo.json(&["bucket", "create", "kept", "--site", "site-1"], 0);
    wait_for("the bucket at site 3", || has_bucket(&demo, "site-3", "kept").then_some(()));
    let key = demo.ready["access_key"].clone();
    assert_eq!(demo.stop(), 0, "stops cleanly");

    let demo = Demo::start(directory.path(), port);
    assert_eq!(demo.ready["access_key"], key, "the credentials are those of before");
    for site in ["site-1", "site-2", "site-3"] {
        assert!(has_bucket(&demo, site, "kept"), "{site}");
    }
    assert_eq!(demo.stop(), 0);
}

fn sees_all(demo: &Demo) {
    wait_for("all sites to see each other", || {
        let status = demo.json(&["status"], 0);
        let alive = |site: &Value| {
            let peers = site["status"]["peers"].as_array().unwrap();
            peers.len() == 2 && peers.iter().all(|peer| peer["state"] == "alive")
        };
        status["sites"].as_array().unwrap().iter().all(alive).then_some(())
    });
}

#[test]
fn a_cut_site_goes_on_alone_and_is_healed() {
    let directory = tempfile::tempdir().unwrap();
    let demo = Demo::start(directory.path(), free_port());
    sees_all(&demo);
    assert_eq!(demo.json(&["link", "cut", "site-3"], 0)["cut"], true);
    assert_eq!(demo.json(&["status", "--site", "site-3"], 0)["sites"][0]["status"]["cut"], true);
    demo.json(&["bucket", "create", "mainland", "--site", "site-1"], 0);
    demo.json(&["bucket", "create", "island", "--site", "site-3"], 0);
    wait_for("the bucket at site 2", || has_bucket(&demo, "site-2", "mainland").then_some(()));
    assert!(!has_bucket(&demo, "site-3", "mainland"), "nothing crosses a cut");
    assert_eq!(demo.json(&["link", "heal", "site-3"], 0)["cut"], false);
    wait_for("what was made meanwhile", || {
        (has_bucket(&demo, "site-3", "mainland") && has_bucket(&demo, "site-1", "island")).then_some(())
    });
    assert_eq!(demo.json(&["conflicts", "list"], 0)["conflicts"].as_array().unwrap().len(), 0);
    let (code, _, err) = told(&run(&["link", "cut", "site-9", "--dir", directory.path().to_str().unwrap()]));
    assert!(code == 5 && err.contains("site-1, site-2, site-3") && err.contains("--endpoint"), "{err}");
    assert_eq!(demo.stop(), 0);
}

#[test]
fn what_is_meant_for_one_site_is_done_at_no_other_endpoint() {
    let directory = tempfile::tempdir().unwrap();
    let demo = Demo::start(directory.path(), free_port());
    let endpoint = demo.ready["sites"][1]["endpoint"].as_str().unwrap();
    let token = std::fs::read_to_string(directory.path().join("site-2/admin.token")).unwrap();
    let at = ["--endpoint", endpoint, "--token", token.trim()];
    for line in [
        &["link", "cut", "site-3"][..],
        &["link", "heal", "site-3"],
        &["link", "budget", "site-3", "--bytes", "1GB/month"],
        &["link", "budget", "site-3"],
        &["bucket", "create", "misplaced", "--site", "site-3"],
        &["status", "--site", "site-3"],
        &["conflicts", "list", "--site", "site-3"],
    ] {
        let (code, out, err) = told(&run(&[line, &at].concat()));
        assert!(code == 2 && err.contains("is site-2, not site-3"), "{line:?}: {out}{err}");
    }
    let status = demo.json(&["status", "--site", "site-2"], 0);
    assert_eq!(status["sites"][0]["status"]["cut"], false, "{status}");
    assert!(!has_bucket(&demo, "site-2", "misplaced"));
    assert_eq!(told(&run(&[&["link", "cut", "site-2"], &at[..]].concat())).0, 0);
    assert_eq!(demo.json(&["status", "--site", "site-2"], 0)["sites"][0]["status"]["cut"], true);
    let id = status["sites"][0]["status"]["site"].as_str().unwrap();
    assert_eq!(told(&run(&[&["link", "heal", id], &at[..]].concat())).0, 0, "its id names it as well");
    assert_eq!(demo.stop(), 0);
}

/// Runs a verb at the first site of a demo.
fn at_one(demo: &Demo, line: &[&str]) -> (i32, String, String) {
    let place = ["--dir", demo.directory.to_str().unwrap(), "--site", "site-1"];
    told(&run(&[line, &place].concat()))
}

/// Another site listens where a directory's should.
fn whose_token_is_refused_elsewhere_is_told_so(demo: &Demo) {
    let (one, two) = (demo.directory.join("site-1"), demo.directory.join("site-2"));
    std::fs::copy(one.join("skerry.toml"), two.join("skerry.toml")).unwrap();
    let (code, _, err) = told(&run(&["key", "list", "--dir", two.to_str().unwrap()]));
    assert!(code == 5 && err.contains("another one listen"), "{err}");
    let (code, out, _) = told(&run(&["status", "--dir", two.to_str().unwrap()]));
    assert!(code == 5 && out.contains("refused") && !out.contains("not answering"), "{out}");
}

#[test]
fn a_dry_run_looks_first_and_says_what_follows() {
    let directory = tempfile::tempdir().unwrap();
    let demo = Demo::start(directory.path(), free_port());
    sees_all(&demo);
    demo.json(&["bucket", "create", "photos", "--site", "site-1"], 0);
    let key =
        demo.json(&["key", "list", "--site", "site-1"], 0)["keys"][0]["id"].as_str().unwrap().to_owned();
    for (line, act) in [
        (&["site", "freeze", "site-2"][..], "freeze site-2"),
        (&["site", "address", "site-2", "--clear"], "dial site-2 only where it says itself"),
        (&["site", "rename", "site-2", "oslo"], "rename site-2 to oslo"),
        (&["site", "area", "site-2", "north"], "have site-2 stand in north"),
        (&["site", "declare-found", "site-2"], "declare site-2 found"),
        (&["site", "expel", "site-2"], "expel site-2"),
        (&["bucket", "create", "films"], "make the bucket films"),
        (&["bucket", "set", "photos", "--copies", "2"], "change settings of photos"),
        (
            &["bucket", "join", "photos", "--when", "never"],
            "set when a read makes this site a member of photos: never",
        ),
        (&["bucket", "pin", "photos", "--prefix", "a/"], "pin what lies below \"a/\" in photos"),
        (&["bucket", "home", "photos", "--to", "site-2"], "move the home of photos to site-2"),
        (&["key", "create"], "make an access key"),
        (&["key", "disable", &key], &format!("disable {key}")),
        (&["invite", "oslo"], "invite oslo for 24 h"),
        (&["scrub", "pause"], "pause the scrub"),
        (&["link", "cut", "site-1"], "cut the links of site-1"),
    ] {
        let (code, out, err) = at_one(&demo, &[line, &["--dry-run"]].concat());
        assert_eq!((code, out.trim()), (0, format!("would {act}").as_str()), "{line:?}: {err}");
    }
    // What the act would refuse its dry run refuses.
    let (code, _, err) = at_one(&demo, &["bucket", "leave", "photos", "--dry-run"]);
    assert!(code == 5 && err.contains("site-1 is the home of photos"), "{err}");
    let (_, _, err) = at_one(&demo, &["site", "expel", "site-2", "--dry-run"]);
    assert!(err.contains(&key), "what its disk knows is said before: {err}");
    let (code, _, err) = at_one(&demo, &["site", "expel", "site-2"]);
    assert!(code == 5 && err.contains(&key) && err.contains("--yes"), "and before the question: {err}");
    let (code, _, err) = at_one(&demo, &["key", "disable", &key]);
    assert!(code == 5 && err.contains("--yes"), "{err}");
    // What is not known is one exit code, for the act and for its dry run.
    for line in [
        &["site", "freeze", "nosuch"][..],
        &["site", "show", "nosuch"],
        &["site", "rename", "nosuch", "oslo"],
        &["site", "expel", "nosuch"],
        &["site", "replace", "nosuch", "--by", "site-2"],
        &["site", "replace", "site-2", "--by", "nosuch"],
        &["site", "declare-lost", "nosuch"],
        &["site", "declare-found", "nosuch"],
        &["bucket", "create", "photos"],
        &["bucket", "set", "nosuch", "--copies", "2"],
        &["bucket", "set", "photos", "--residency", "nosuch"],
        &["bucket", "info", "nosuch"],
        &["bucket", "leave", "nosuch"],
        &["bucket", "pin", "nosuch"],
        &["bucket", "home", "nosuch", "--to", "site-2"],
        &["bucket", "home", "photos", "--to", "nosuch"],
        &["key", "disable", "NOSUCH"],
        &["conflicts", "show", "photos", "nosuch"],
        &["conflicts", "resolve", "photos", "nosuch"],
        &["link", "cut", "site-1", "--from", "nosuch"],
        &["invite", "oslo", "--node-of", "nosuch", "--seat", "1"],
    ] {
        for more in [&["--dry-run"][..], &["--yes"]] {
            let (code, out, err) = at_one(&demo, &[line, more].concat());
            assert_eq!(code, 5, "{line:?} {more:?}: {out}{err}");
            assert!(!err.contains("token"), "{line:?}: {err}");
        }
    }
    let (code, _, err) = at_one(&demo, &["invite", "site-2", "--dry-run"]);
    assert!(code == 5 && err.contains("already"), "{err}");
    what_is_understood_and_refused_ends_so(&demo);
    let sites = demo.json(&["site", "list", "--site", "site-1"], 0);
    assert!(sites["sites"].as_array().unwrap().iter().all(|site| site["duty"] == "serves"), "{sites}");
    whose_token_is_refused_elsewhere_is_told_so(&demo);
    assert_eq!(demo.stop(), 0);
}

fn what_is_understood_and_refused_ends_so(demo: &Demo) {
    for line in [
        &["invite", "site-2"][..],
        &["site", "rename", "site-1", "site-2"],
        &["site", "expel", "site-1", "--yes"],
        &["bucket", "set", "photos", "--ack-scope", "sites=9"],
    ] {
        let (code, _, err) = at_one(demo, line);
        assert_eq!(code, 5, "{line:?}: {err}");
    }
}

/// Starts a verb that waits; read to its end with `wait_with_output`.
fn waiting(demo: &Demo, line: &[&str]) -> std::process::Child {
    let place = ["--dir", demo.directory.to_str().unwrap()];
    skerry(&[line, &place].concat()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn ended(mut child: std::process::Child) -> (i32, String, String) {
    wait_for("the verb to end", || child.try_wait().unwrap());
    told(&child.wait_with_output().unwrap())
}

/// Reads until the verb has said what it waits for: from then on the site has been told.
fn has_begun(child: &mut std::process::Child) -> String {
    let stderr = child.stderr.as_mut().unwrap();
    let mut said = Vec::new();
    while said.last() != Some(&b'\n') {
        let mut byte = [0];
        stderr.read_exact(&mut byte).unwrap();
        said.extend(byte);
    }
    String::from_utf8(said).unwrap()
}

#[test]
fn who_waits_for_an_end_that_is_called_off_is_told_so() {
    let directory = tempfile::tempdir().unwrap();
    let demo = Demo::start(directory.path(), free_port());
    sees_all(&demo);
    demo.json(&["bucket", "create", "photos", "--site", "site-1"], 0);
    wait_for("the bucket at site 3", || has_bucket(&demo, "site-3", "photos").then_some(()));
    demo.json(&["bucket", "join", "photos", "--site", "site-3"], 0);
    let bucket = || demo.json(&["bucket", "info", "photos", "--site", "site-3"], 0);
    let is = |bucket: &Value, standing: &str| bucket["standing"] == standing;
    wait_for("site 3 to be a member beside site 1", || {
        let bucket = bucket();
        (is(&bucket, "member") && bucket["members"].as_array()?.len() == 2).then_some(())
    });
    demo.json(&["link", "cut", "site-3"], 0);

    let dir = demo.directory.to_str().unwrap();
    let line = ["bucket", "leave", "photos", "--site", "site-3", "--wait", "500ms", "--dir", dir];
    let (code, out, err) = told(&run(&line));
    assert!(
        code == 4 && err.contains("site-3 leaves photos: ") && err.contains("goes on"),
        "{code}: {out}{err}"
    );
    assert!(!err.contains("photos: ;"), "it says what it waits for: {err}");
    let mut leave = waiting(&demo, &["bucket", "leave", "photos", "--site", "site-3"]);
    // It was about to leave before: what is shown does not tell whether this one has begun.
    assert!(has_begun(&mut leave).contains("site-3 leaves photos: "));
    assert!(is(&bucket(), "leaving"));
    demo.json(&["bucket", "join", "photos", "--site", "site-3"], 0);
    let (code, out, err) = ended(leave);
    assert!(code == 5 && err.contains("is a member of photos"), "{code}: {out}{err}");

    let drain = waiting(&demo, &["site", "drain", "site-3", "--wait", "10m", "--site", "site-1"]);
    let duty = || demo.json(&["site", "show", "site-3", "--site", "site-1"], 0)["duty"].clone();
    wait_for("the word", || (duty() == "draining").then_some(()));
    demo.json(&["site", "resume", "site-3", "--site", "site-1"], 0);
    let (code, out, err) = ended(drain);
    assert!(code == 5 && err.contains("do not switch it off"), "{code}: {out}{err}");
    assert_eq!(demo.stop(), 0);
}

#[test]
fn a_second_demo_on_the_directory_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let demo = Demo::start(directory.path(), free_port());
    let dir = directory.path().to_str().unwrap();
    let (code, _, err) = told(&run(&["demo", "--dir", dir, "--port", &free_port().to_string()]));
    assert!(code == 5 && err.contains("in use"), "{err}");
    let site = directory.path().join("site-1");
    let (code, _, err) = told(&run(&["server", "--config", site.join("skerry.toml").to_str().unwrap()]));
    assert!(code != 0 && !err.is_empty(), "a second server on a site's directory: {err}");
    assert_eq!(demo.stop(), 0);
}

#[test]
fn a_killed_site_is_reported_and_comes_back() {
    let directory = tempfile::tempdir().unwrap();
    let demo = Demo::start(directory.path(), free_port());
    demo.json(&["bucket", "create", "kept", "--site", "site-2"], 0);
    signal(demo.pid(2), "KILL");
    let ended = demo.event("ended");
    assert_eq!(ended["site"], "site-2");
    let status = demo.json(&["status"], 4);
    let answers: Vec<bool> =
        status["sites"].as_array().unwrap().iter().map(|s| s["answers"].as_bool().unwrap()).collect();
    assert_eq!(answers, [true, false, true], "a partial answer");

    let mut server = server(&directory.path().join("site-2"));
    wait_for("site 2", || (run_status(&demo, "site-2") == 0).then_some(()));
    assert!(has_bucket(&demo, "site-2", "kept"));
    signal(server.id(), "TERM");
    assert!(wait_for("the server to end", || server.try_wait().unwrap()).success());
    assert_eq!(demo.stop(), 0);
}

#[test]
fn a_demo_outlives_a_moment_without_any_site_and_ends_when_none_comes_back() {
    let directory = tempfile::tempdir().unwrap();
    let mut demo = Demo::start(directory.path(), free_port());
    for site in 1..=3 {
        signal(demo.pid(site), "KILL");
    }
    for _ in 1..=3 {
        demo.event("ended");
    }
    let mut server = Killed(server(&directory.path().join("site-2")));
    wait_for("site 2", || (run_status(&demo, "site-2") == 0).then_some(()));
    assert!(demo.process.try_wait().unwrap().is_none(), "the demo ended with a site to show");
    server.0.kill().unwrap();
    server.0.wait().unwrap();
    assert_eq!(wait_for("the demo to end", || demo.process.try_wait().unwrap()).code(), Some(1));
}

/// Ends with the test, whatever comes of that.
struct Killed(std::process::Child);

impl Drop for Killed {
    fn drop(&mut self) {
        // It has ended already, or nobody is left to be told.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn server(directory: &Path) -> std::process::Child {
    let config = directory.join("skerry.toml");
    skerry(&["server", "--config", config.to_str().unwrap()])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

fn run_status(demo: &Demo, site: &str) -> i32 {
    told(&run(&["status", "--site", site, "--dir", demo.directory.to_str().unwrap()])).0
}

#[test]
fn sites_end_with_a_demo_that_is_killed() {
    let directory = tempfile::tempdir().unwrap();
    let port = free_port();
    let mut demo = Demo::start(directory.path(), port);
    let sites = [demo.pid(1), demo.pid(2), demo.pid(3)];
    assert!(sites.iter().all(|pid| alive(*pid)));
    demo.process.kill().unwrap();
    demo.process.wait().unwrap();
    wait_for("the sites to end", || sites.iter().all(|pid| !alive(*pid)).then_some(()));
    let again = Demo::start(directory.path(), port);
    assert_eq!(again.stop(), 0);
}

#[test]
fn credentials_can_be_given() {
    let directory = tempfile::tempdir().unwrap();
    let dir = directory.path().join("demo");
    let port = free_port().to_string();
    let arguments = ["demo", "--json", "--timeout", "90s", "--dir", dir.to_str().unwrap(), "--port", &port];
    let half = skerry(&arguments).env("SKERRY_ACCESS_KEY", "MYACCESSKEY").output().unwrap();
    assert_eq!(told(&half).0, 2, "one without the other");
    let mut demo = skerry(&arguments)
        .env("SKERRY_ACCESS_KEY", "MYACCESSKEY")
        .env("SKERRY_SECRET_KEY", "my secret key")
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    wait_for("the key at site 2", || {
        let (code, out, _) =
            told(&run(&["key", "list", "--json", "--site", "site-2", "--dir", dir.to_str()?]));
        (code == 0 && out.contains("MYACCESSKEY")).then_some(())
    });
    signal(demo.id(), "TERM");
    assert!(wait_for("the demo to end", || demo.try_wait().unwrap()).success());
}
