//! The grammar and the exit codes of the true binary; nothing here needs a running site.

use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;

use crate::island::{json, run, skerry, told};

#[test]
fn version_is_printed_for_people_and_scripts() {
    let (code, out, _) = told(&run(&["version"]));
    assert!(code == 0 && out.starts_with(concat!("skerry ", env!("CARGO_PKG_VERSION"))), "{out}");
    let document = json(&["version", "--json"], 0);
    assert_eq!((&document["version"], &document["kind"]), (&1.into(), &"version".into()));
    assert_eq!(document["release"], env!("CARGO_PKG_VERSION"));
    assert!(document["commit"].is_string(), "{document}");
}

#[test]
fn a_wrong_command_line_is_usage() {
    for line in [
        &["frobnicate"][..],
        &[],
        &["link", "cut"],
        &["status", "--timeout", "soon"],
        &["status", "--timeout", "0s"],
        &["demo", "--sites", "0"],
        &["invite", "oslo", "--expires", "0s"],
        &["bucket", "create", "Hey_", "--dry-run"],
        &["server", "one", "--dir", "two"],
        &["invite", "oslo", "--expires", "90d"],
        &["invite", "oslo-2", "--node-of", "oslo", "--seat", "4"],
        &["bucket", "create", "photos", "--copies", "99", "--dry-run"],
        &["bucket", "set", "photos", "--ack-scope", "everywhere", "--dry-run"],
        &["bucket", "set", "photos", "--lives-in", "Oslo", "--dry-run"],
        &["site", "area", "oslo", "each", "--dry-run"],
        &["site", "address", "oslo", "nowhere", "--dry-run"],
        &[
            "link",
            "budget",
            "oslo",
            "--bytes",
            "2GB/month",
            "--reset-day",
            "31",
            "--dry-run",
            "--endpoint",
            "http://127.0.0.1:1",
        ],
    ] {
        let (code, out, err) = told(&run(line));
        assert_eq!(code, 2, "{line:?}: {out}{err}");
        assert!(out.is_empty() && !err.is_empty(), "{line:?}: {out}");
        let (code, out, err) = told(&run(&[line, &["--json"]].concat()));
        let error: serde_json::Value = serde_json::from_str(&err).unwrap();
        assert_eq!((code, &error["kind"], &error["exit"]), (2, &"error".into(), &2.into()), "{line:?}");
        assert!(out.is_empty() && !error["message"].as_str().unwrap().starts_with("error"), "{error}");
        assert!(!error["message"].as_str().unwrap().contains("Usage:"), "{error}");
    }
    assert!(told(&run(&["status", "--help", "--json"])).1.contains("--endpoint"), "help is help");
    assert_eq!(told(&run(&["help"])).0, 0);
}

#[test]
fn nothing_is_no_name_and_refused_in_the_same_words() {
    for line in [
        &["init", "--tls", ""][..],
        &["join", "token", "--tls", " "],
        &["key", "create", ""],
        &["key", "create", "--owner", ""],
        &["bucket", "create", "photos", "--owner", ""],
        &["bucket", "set", "photos", "--lives-in", ""],
        &["bucket", "set", "photos", "--residency", "oslo,"],
        &["bucket", "home", "photos", "--to", ""],
        &["site", "freeze", ""],
        &["site", "area", "oslo", ""],
        &["site", "replace", "oslo", "--by", ""],
        &["link", "cut", "oslo", "--from", ""],
    ] {
        let (code, out, err) = told(&run(line));
        assert!(code == 2 && err.contains("it is empty: say what is meant"), "{line:?}: {code}: {out}{err}");
    }
}

#[test]
fn a_token_that_begins_with_a_hyphen_is_a_token() {
    let nobody = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
    let endpoint = format!("http://{nobody}");
    let (code, _, err) = told(&run(&["status", "--endpoint", &endpoint, "--token", "-eAbc"]));
    assert_eq!(code, 3, "there is nobody to ask: {err}");
}

#[test]
fn the_written_references_are_those_of_this_binary() {
    for page in ["cli", "configuration"] {
        let path = format!("{}/../../docs/{page}.md", env!("CARGO_MANIFEST_DIR"));
        let written = std::fs::read_to_string(&path).unwrap_or_default();
        let (_, printed, _) = told(&run(&["reference", page]));
        assert!(written == printed, "{path} is out of date: run `cargo xtask docs`");
    }
}

#[test]
fn completions_name_the_verbs() {
    for shell in ["bash", "zsh", "fish"] {
        let (code, out, _) = told(&run(&["completions", shell]));
        assert!(code == 0 && out.contains("conflicts"), "{shell}");
    }
}

#[test]
fn nobody_there_is_unreachable() {
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
    let endpoint = format!("http://{free}");
    let (code, _, err) = told(&run(&["bucket", "list", "--endpoint", &endpoint]));
    assert_eq!(code, 3, "{err}");
    assert!(err.contains(&endpoint), "{err}");
    let document = json(&["status", "--json", "--endpoint", &endpoint], 3);
    assert_eq!(document["sites"][0]["answers"], false);
    for verb in [["key", "list"], ["conflicts", "list"]] {
        let (code, out, err) = told(&run(&[&verb[..], &["--json", "--endpoint", &endpoint]].concat()));
        let error: serde_json::Value = serde_json::from_str(&err).unwrap();
        assert_eq!((code, error["kind"].as_str(), error["exit"].as_u64()), (3, Some("error"), Some(3)));
        assert!(out.is_empty(), "what nobody said is not known: {out}");
    }
    let (code, out, _) = told(&run(&["conflicts", "list", "--endpoint", &endpoint]));
    assert!(code == 3 && out.is_empty(), "{out}");
}

#[test]
fn a_token_does_not_cross_a_network_readable_unless_one_says_so() {
    // Named so, this machine is not known to be this one.
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
    let endpoint = format!("http://0.0.0.0:{}", free.port());
    let line = ["bucket", "list", "--endpoint", &endpoint];
    let (code, _, err) = told(&run(&[&line[..], &["--token", "secret"]].concat()));
    assert!(code == 2 && err.contains("--insecure") && !err.contains("secret"), "{err}");
    assert_eq!(told(&run(&[&line[..], &["--token", "secret", "--insecure"]].concat())).0, 3);
    assert_eq!(told(&run(&line)).0, 3, "without a token there is nothing to keep");
}

#[test]
fn a_silent_endpoint_is_given_up_after_the_timeout() {
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let endpoint = format!("http://{}", silent.local_addr().unwrap());
    let (code, _, err) = told(&run(&["bucket", "list", "--endpoint", &endpoint, "--timeout", "200ms"]));
    assert_eq!(code, 3, "{err}");
}

#[test]
fn a_dry_run_says_nothing_of_a_site_that_is_away() {
    for line in [
        &["site", "freeze", "oslo"][..],
        &["site", "expel", "oslo"],
        &["site", "replace", "oslo", "--by", "bergen"],
        &["site", "address", "oslo", "a:1", "b:2"],
        &["bucket", "create", "xxx"],
        &["bucket", "set", "x", "--copies", "2"],
        &["bucket", "join", "x"],
        &["bucket", "unpin", "x"],
        &["bucket", "prefetch", "x"],
        &["key", "create"],
        &["key", "disable", "SKX"],
        &["invite", "oslo"],
        &["conflicts", "resolve", "x", "k"],
        &["scrub", "start"],
        &["link", "cut", "oslo"],
        &["link", "budget", "oslo", "--none"],
    ] {
        let nobody = ["--dry-run", "--endpoint", "http://127.0.0.1:1"];
        let (code, out, err) = told(&run(&[line, &nobody].concat()));
        assert!(code == 3 && out.is_empty(), "{line:?}: {code}: {out}{err}");
    }
}

#[test]
fn a_demo_and_a_site_do_not_share_a_directory() {
    let directory = tempfile::tempdir().unwrap();
    let (site, root) = (directory.path().join("shop"), directory.path().join("root"));
    let (shop, root) = (site.to_str().unwrap(), root.to_str().unwrap());
    assert_eq!(told(&run(&["init", "--dir", shop, "--root", root])).0, 0);
    for more in [&["--dry-run"][..], &[]] {
        let (code, _, err) = told(&run(&[&["demo", "--dir", shop], more].concat()));
        assert!(code == 5 && err.contains("holds a site"), "{code}: {err}");
        let (code, _, err) = told(&run(&[&["init", "--dir", shop, "--root", root], more].concat()));
        assert!(code == 5 && err.contains("holds a site"), "{code}: {err}");
    }
    assert!(!site.join("demo.json").exists());
    let demo = directory.path().join("demo");
    std::fs::create_dir(&demo).unwrap();
    let notes = r#"{"version":1,"port":1,"peer_port":2,"sites":[],"access_key":"","secret_key":""}"#;
    std::fs::write(demo.join("demo.json"), notes).unwrap();
    let (code, _, err) = told(&run(&["init", "--dir", demo.to_str().unwrap(), "--root", "r"]));
    assert!(code == 5 && err.contains("holds a demo"), "{code}: {err}");
    assert!(!demo.join("trust.json").exists());
}

/// Whoever may not look (a forgotten sudo) is not told to make a new federation.
#[test]
fn a_directory_that_cannot_be_read_is_not_taken_for_an_empty_one() {
    let directory = tempfile::tempdir().unwrap();
    // Root may read everything but a link that leads to itself.
    let trust = directory.path().join("trust.json");
    std::os::unix::fs::symlink(&trust, &trust).unwrap();
    let path = directory.path().to_str().unwrap();
    for line in [&["server", path][..], &["status", "--dir", path], &["init", "--dir", path]] {
        let (code, _, err) = told(&run(line));
        assert!(code == 1 && err.contains("cannot read") && !err.contains("skerry init"), "{line:?}: {err}");
    }
    for line in [&["config", "show", "/nonexistent"][..], &["status", "--dir", "/nonexistent"]] {
        let (code, _, err) = told(&run(line));
        assert!(code == 2 && err.contains("no such directory"), "{line:?}: {err}");
    }
}

/// Runs it in a directory, as one does who names none.
fn told_in(directory: &Path, arguments: &[&str]) -> (i32, String, String) {
    told(&skerry(arguments).current_dir(directory).output().unwrap())
}

/// What runs a site and what asks it read one configuration, whether the directory is named or not.
#[test]
fn the_configuration_of_the_default_directory_is_read() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    for line in [&["server"][..], &["check"]] {
        let (code, _, err) = told_in(place, line);
        assert!(
            code == 2 && err.contains("no site in ./skerry") && err.contains("skerry init"),
            "{line:?}: {err}"
        );
    }
    assert_eq!(told_in(place, &["status"]).0, 2);
    assert_eq!(told_in(place, &["init"]).0, 0);
    let port = crate::island::free_port();
    let text = format!("[s3]\nlisten = \"127.0.0.1:{port}\"\n");
    std::fs::write(place.join("skerry/skerry.toml"), text).unwrap();
    for dir in [&[][..], &["skerry"], &["--dir", "skerry"]] {
        let (code, out, err) = told_in(place, &[&["config", "show"], dir].concat());
        assert!(code == 0 && out.contains(&port.to_string()), "{dir:?}: {out}{err}");
        let (code, out, err) = told_in(place, &[&["server", "--dry-run"], dir].concat());
        assert!(code == 0 && out.contains("run the site in skerry"), "{dir:?}: {out}{err}");
    }
    let (_, _, err) = told_in(place, &["key", "list", "--timeout", "200ms"]);
    assert!(err.contains(&port.to_string()), "it is asked where it listens: {err}");
    std::fs::write(place.join("skerry/skerry.toml"), "[s3]\nlissten = \"x\"\n").unwrap();
    for line in [&["server"][..], &["config", "show"], &["config", "ports"]] {
        let (code, _, err) = told_in(place, line);
        assert!(code == 2 && err.contains("lissten"), "{line:?}: {err}");
    }
}

/// What reads a directory reads that of the site that is named.
#[test]
fn a_site_that_is_not_there_is_refused_offline_too() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    assert_eq!(told_in(place, &["init", "--name", "shop"]).0, 0);
    for verb in [&["check"][..], &["du", "--offline"]] {
        let (code, _, err) = told_in(place, &[verb, &["--site", "nope"]].concat());
        assert!(code == 5 && err.contains("has no site nope; there is shop"), "{verb:?}: {code}: {err}");
        // Of a site that was never started there is nothing to read; it is the one that is meant.
        let (_, _, err) = told_in(place, &[verb, &["--site", "shop"]].concat());
        assert!(!err.contains("has no site"), "{verb:?}: {err}");
    }
}

/// What would be refused is no dry run's "would".
#[test]
fn a_dry_run_refuses_a_configuration_that_the_act_refuses() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    for more in [&["--dry-run"][..], &[]] {
        let (code, out, err) = told_in(place, &[&["init", "--listen", "0.0.0.0:7610"], more].concat());
        assert!(code == 2 && out.is_empty() && err.contains("s3.listen"), "{more:?}: {code}: {out}{err}");
    }
    assert!(!place.join("skerry").exists());
}

#[test]
fn a_root_key_is_not_laid_into_the_site() {
    let directory = tempfile::tempdir().unwrap();
    let (code, _, err) = told_in(directory.path(), &["init", "--dir", "y", "--root", "y/root"]);
    assert!(code == 5 && err.contains("belongs on no site"), "{code}: {err}");
    assert!(!directory.path().join("y").exists());
}

#[test]
fn an_unknown_field_is_named_with_its_line() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("skerry.toml");
    std::fs::write(&file, "[s3]\nlisten = \"127.0.0.1:7600\"\nlissten = \"x\"\n").unwrap();
    let path = file.to_str().unwrap();
    for line in [&["config", "show", "--config", path][..], &["server", "--config", path]] {
        let (code, _, err) = told(&run(line));
        assert_eq!(code, 2, "{err}");
        assert!(err.contains("lissten") && err.contains('3'), "{err}");
    }
}

#[test]
fn defaults_and_ports_are_shown() {
    let (code, out, _) = told(&run(&["config", "show", "--defaults"]));
    assert!(code == 0 && out.contains("[s3]") && out.contains("SKERRY_S3_LISTEN"), "{out}");
    let document = json(&["config", "show", "--json"], 0);
    assert_eq!(document["fields"]["s3.listen"]["toml"], "\"127.0.0.1:7600\"");
    // What is left to the machine comes to something here.
    let dirty = &document["fields"]["storage.dirty"];
    assert!(dirty["toml"] == "\"auto\"" && dirty["here"].as_str().is_some_and(|here| here.contains("MiB")));
    let (code, out, _) = told(&run(&["config", "ports"]));
    assert!(code == 0 && out.contains("7700"), "{out}");
}

#[test]
fn a_directory_without_a_site_is_told_what_to_do() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    for line in [&["server", path][..], &["status", "--dir", path]] {
        let (code, _, err) = told(&run(line));
        assert_eq!(code, 2, "{line:?}: {err}");
        assert!(err.contains("skerry init"), "{err}");
    }
}

#[test]
fn a_busy_port_is_named_before_anything_is_made() {
    let port = crate::island::free_port();
    let _taken = TcpListener::bind((Ipv4Addr::LOCALHOST, port + 1)).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let dir = directory.path().join("demo");
    let line = ["demo", "--dir", dir.to_str().unwrap(), "--port", &port.to_string()];
    let (code, _, err) = told(&run(&line));
    assert_eq!(code, 5, "{err}");
    assert!(err.contains(&format!("port {} (S3 of site-2)", port + 1)), "{err}");
    assert!(!dir.exists(), "what is refused leaves nothing behind");
}

#[test]
fn a_dry_demo_makes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let dir = directory.path().join("demo");
    let (code, out, _) = told(&run(&["demo", "--dry-run", "--dir", dir.to_str().unwrap()]));
    assert!(code == 0 && out.contains("run 3 sites in"), "{out}");
    assert!(!dir.exists());
}

/// What a composition makes of variables that are not set.
#[test]
fn a_variable_that_is_set_to_nothing_makes_no_key() {
    let directory = tempfile::tempdir().unwrap();
    let (site, root) = (directory.path().join("site"), directory.path().join("root"));
    let (site, root) = (site.to_str().unwrap(), root.to_str().unwrap());
    assert_eq!(told(&run(&["init", "--dir", site, "--root", root])).0, 0);
    let demo = directory.path().join("demo");
    for line in [&["server", site, "--dry-run"][..], &["demo", "--dry-run", "--dir", demo.to_str().unwrap()]]
    {
        for (key, secret) in [("", ""), ("SKFIRST", ""), ("", "secretsecret"), (" ", "secretsecret")] {
            let mut command = skerry(line);
            command.env("SKERRY_ACCESS_KEY", key).env("SKERRY_SECRET_KEY", secret);
            let (code, out, err) = told(&command.output().unwrap());
            assert_eq!(code, 2, "{line:?} {key:?} {secret:?}: {out}{err}");
            assert!(err.contains("SKERRY_ACCESS_KEY") && !err.contains("secretsecret"), "{err}");
        }
    }
}

#[test]
fn variables_of_others_may_be_of_any_bytes() {
    let latin = std::os::unix::ffi::OsStrExt::from_bytes(b"caf\xe9");
    let latin: &std::ffi::OsStr = latin;
    let (code, out, err) = told(&skerry(&["config", "show"]).env("FOO", latin).output().unwrap());
    assert!(code == 0 && out.contains("[s3]"), "{code}: {err}");
    let (code, _, err) = told(&skerry(&["config", "show"]).env("SKERRY_LOG_LEVEL", latin).output().unwrap());
    assert!(code == 2 && err.contains("SKERRY_LOG_LEVEL"), "{code}: {err}");
}

#[test]
fn what_cannot_be_written_is_a_failure() {
    let full = || std::fs::File::options().write(true).open("/dev/full").unwrap();
    for line in [&["version"][..], &["version", "--json"], &["config", "show"]] {
        let (code, _, err) = told(&skerry(line).stdout(full()).output().unwrap());
        assert!(code == 1 && err.contains("could not write"), "{line:?}: {code}: {err}");
    }
    // A reader that has gone away is none.
    let mut child = skerry(&["config", "show"]).stdout(std::process::Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// A disk that was full, a directory without the right to write: the same again goes on.
#[test]
fn what_was_interrupted_is_taken_up_and_other_keys_are_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let (site, root) = (directory.path().join("site"), directory.path().join("root"));
    let line = ["init", "--dir", site.to_str().unwrap(), "--root", root.to_str().unwrap()];
    // Nobody makes a directory there: the site's keys are there then, and nothing else.
    let nowhere = ["init", "--dir", site.to_str().unwrap(), "--root", "/proc/skerry-root"];
    let (code, _, err) = told(&run(&nowhere));
    assert_eq!(code, 1, "{err}");
    assert!(site.join("node.key").exists() && !site.join("trust.json").exists());
    let (code, _, err) = told(&run(&line));
    assert_eq!(code, 0, "{err}");
    // As one that ended before its last file.
    let key = std::fs::read(root.join("root.key")).unwrap();
    std::fs::remove_file(site.join("trust.json")).unwrap();
    std::fs::remove_file(root.join("admin-2.key")).unwrap();
    let (code, _, err) = told(&run(&line));
    assert_eq!(code, 0, "{err}");
    assert_eq!(std::fs::read(root.join("root.key")).unwrap(), key);
    let spare = std::fs::read(root.join("admin-2.key")).unwrap();
    // Carried away, as one is told to.
    std::fs::remove_file(root.join("root.key")).unwrap();
    let other = directory.path().join("other");
    let (code, _, err) =
        told(&run(&["init", "--dir", other.to_str().unwrap(), "--root", root.to_str().unwrap()]));
    assert!(code == 5 && err.contains("never overwritten"), "{code}: {err}");
    assert_eq!(std::fs::read(root.join("admin-2.key")).unwrap(), spare);
    assert!(!other.exists());
}
