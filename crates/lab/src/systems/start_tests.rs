//! Starting toy systems made of shells on loopback hosts.
#![expect(clippy::unwrap_used, reason = "tests")]

use super::*;
use crate::systems::Loopback;

const HEAD: &str = r#"version = 1
name = "toy"
kind = "s3"
endpoint = "http://{address}:9000"
version_of = ["{shell}", "-c", "echo toy 7"]
stop_seconds = 5
[durability]
acknowledged = "node"
copies = 1
synced = true
[programs]
shell = ["/bin/sh"]
[bucket]
create = ["{shell}", "-c", "echo {site} {bucket} >> {dir}/buckets"]
[bucket.settings]
scope = ["{shell}", "-c", "echo {bucket} {value} >> {dir}/buckets"]
"#;

fn system(steps: &str) -> SystemFile {
    SystemFile::parse(Path::new("toy.toml"), &format!("{HEAD}{steps}"), &|_| None).unwrap()
}

fn started(steps: &str, dir: &Path) -> Result<Running, SystemError> {
    start(&system(steps), &Loopback::new(91, 3, 1), dir)
}

#[test]
fn steps_run_where_they_belong_and_values_are_handed_on() {
    let dir = tempfile::tempdir().unwrap();
    let running = started(
        r#"
[[step]]
on = "first"
run = ["{shell}", "-c", "echo root > {dir}/root"]
[[step]]
on = "others"
at_first = true
run = ["{shell}", "-c", "echo '{{\"token\": \"for-{site}\"}}'; pwd > {dir}/at-{site}"]
capture = "token"
capture_json = "/token"
[[step]]
on = "others"
write = "{data}/conf/toy.conf"
text = '''
me {token}
{each}host {address}
{others}peer {site}
'''
[[step]]
start = "server"
run = ["{shell}", "-c", "echo up > {data}/up; exec sleep 300"]
hold_stdin = true
[[step]]
ready = { run = ["{shell}", "-c", "test -s {data}/up"] }
"#,
        dir.path(),
    )
    .unwrap();
    let read = |file: &str| std::fs::read_to_string(dir.path().join(file)).unwrap();
    assert_eq!(
        read("data/site-2-1/conf/toy.conf"),
        "me for-site-2\nhost 127.91.1.1\nhost 127.91.2.1\nhost 127.91.3.1\npeer site-1\npeer site-3\n"
    );
    assert!(read("at-site-3").trim().ends_with("data/site-1-1"), "{}", read("at-site-3"));
    assert_eq!(running.version, "toy 7");
    let urls: Vec<&str> = running.endpoints.iter().map(|endpoint| endpoint.url.as_str()).collect();
    assert_eq!(urls, ["http://127.91.1.1:9000", "http://127.91.2.1:9000", "http://127.91.3.1:9000"]);
    let processes = running.processes();
    assert_eq!(processes.len(), 3);
    assert!(processes.iter().all(|process| process.usage.peak_rss_bytes > 0));
    let scope = BTreeMap::from([("scope".into(), "sites=3".into()), ("shape".into(), "round".into())]);
    assert_eq!(running.bucket(&Loopback::new(91, 3, 1), 1, "b", &scope).unwrap(), ["shape"]);
    assert_eq!(read("buckets"), "site-2 b\nb sites=3\n");
    assert_eq!(running.durability(&scope).copies, 3);
    assert_eq!(running.stop(), Vec::<String>::new());
}

#[test]
fn nodes_are_told_from_the_first_hosts_of_sites_and_all_of_them_serve() {
    let dir = tempfile::tempdir().unwrap();
    let steps = r#"
[[step]]
on = "other-sites"
run = ["{shell}", "-c", "echo {host} of {node_count} >> {dir}/other-sites"]
[[step]]
on = "nodes"
at_once = 1
run = ["{shell}", "-c", "echo {node} of {site} >> {dir}/nodes"]
"#;
    let mut running = start(&system(steps), &Loopback::new(91, 2, 2), dir.path()).unwrap();
    let read = |file: &str| std::fs::read_to_string(dir.path().join(file)).unwrap();
    assert_eq!(read("other-sites"), "site-2-1 of 2\n");
    assert_eq!(read("nodes"), "2 of site-1\n2 of site-2\n");
    let hosts: Vec<&str> = running.endpoints.iter().map(|endpoint| endpoint.host.as_str()).collect();
    assert_eq!(hosts, ["site-1-1", "site-1-2", "site-2-1", "site-2-2"]);
    assert_eq!(running.durability(&BTreeMap::new()).copies, 1);
    running.system.durability.every_node = true;
    assert_eq!(running.durability(&BTreeMap::new()).copies, 2);
}

#[test]
fn a_server_that_is_never_ready_ends_the_start_with_its_log() {
    let dir = tempfile::tempdir().unwrap();
    let error = started(
        r#"
[[step]]
start = "server"
run = ["{shell}", "-c", "echo disk of {site} is missing; exec sleep 300"]
[[step]]
ready = { tcp = "{address}:9" }
seconds = 1
"#,
        dir.path(),
    )
    .unwrap_err()
    .to_string();
    assert!(error.contains("toy: waiting until it is ready on site-1-1: not ready after 1 s"), "{error}");
    assert!(error.contains("disk of site-1 is missing"), "{error}");
}

#[test]
fn a_server_that_dies_is_noticed_before_the_wait_is_over() {
    let dir = tempfile::tempdir().unwrap();
    let begin = Instant::now();
    let error = started(
        r#"
[[step]]
start = "server"
run = ["{shell}", "-c", "echo no licence; exit 7"]
[[step]]
ready = { tcp = "{address}:9" }
seconds = 300
"#,
        dir.path(),
    )
    .unwrap_err();
    assert!(matches!(error, SystemError::Died { .. }), "{error}");
    let error = error.to_string();
    assert!(
        error.contains("server on site-") && error.contains("ended by itself (exit status: 7)"),
        "{error}"
    );
    assert!(error.contains("no licence"), "{error}");
    assert!(begin.elapsed() < Duration::from_secs(60));
}

#[test]
fn a_server_that_dies_later_is_reported_and_a_killed_host_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let mut running = started(
        r#"
[[step]]
start = "server"
run = ["{shell}", "-c", "echo working; while test ! -e {data}/die; do sleep 0.05; done; echo broken; exit 1"]
"#,
        dir.path(),
    )
    .unwrap();
    assert!(running.is_dead().is_none());
    assert_eq!(running.kill("site-3-1"), 1);
    assert!(running.is_dead().is_none());
    std::fs::write(dir.path().join("data/site-2-1/die"), "").unwrap();
    let by = Instant::now() + Duration::from_secs(10);
    let dead = loop {
        if let Some(dead) = running.is_dead() {
            break dead.to_string();
        }
        assert!(Instant::now() < by, "a dead process is not noticed");
        std::thread::yield_now();
    };
    assert!(dead.contains("site-2-1") && dead.contains("broken"), "{dead}");
}

#[test]
fn a_command_that_fails_or_hangs_ends_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let run = |script: &str| {
        let steps =
            format!("[[step]]\nsay = \"set-up\"\nrun = [\"{{shell}}\", \"-c\", \"{script}\"]\nseconds = 1\n");
        started(&steps, dir.path()).unwrap_err().to_string()
    };
    let failed = run("echo bad key >&2; exit 4");
    assert!(failed.contains("toy: set-up on site-1-1: it ended with exit status: 4"), "{failed}");
    assert!(failed.contains("bad key"), "{failed}");
    assert!(run("sleep 300").contains("not done after 1 s"));
}

#[test]
fn a_missing_program_says_where_it_was_looked_for() {
    let text = HEAD.replace("\"/bin/sh\"", "\"/nowhere/sh\", \"no-such-shell\"");
    let text = format!("install = \"get it from its makers\"\n{text}");
    let file = SystemFile::parse(Path::new("toy.toml"), &text, &|_| None).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let error = start(&file, &Loopback::new(91, 1, 1), dir.path()).unwrap_err().to_string();
    assert!(error.contains("tried /nowhere/sh, no-such-shell; get it from its makers"), "{error}");
}
