//! A load that somebody stops: it ends, says so, and leaves nothing behind.

use std::process::Stdio;

use serde_json::Value;

use crate::island::{Demo, free_port, signal, skerry, told, wait_for};

fn has_bucket(demo: &Demo, name: &str) -> bool {
    let list = demo.json(&["bucket", "list", "--site", "site-1"], 0);
    list["buckets"].as_array().unwrap().iter().any(|row| row["name"] == name)
}

/// Begins a load on a bucket, stops it once the bucket is there, and answers how it ended.
fn stopped(demo: &Demo, bucket: &str, load: &[&str]) -> (i32, String, String) {
    let place = demo.directory.to_str().unwrap();
    let common = ["bench", "mixed", "-b", bucket, "-s", "1kB", "--json", "--dir", place];
    let mut bench =
        skerry(&[&common, load].concat()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for("the bucket of the load", || has_bucket(demo, bucket).then_some(()));
    signal(bench.id(), "INT");
    wait_for("the load to end", || bench.try_wait().unwrap());
    told(&bench.wait_with_output().unwrap())
}

#[test]
fn a_load_that_is_stopped_says_so_and_leaves_nothing_behind() {
    let directory = tempfile::tempdir().unwrap();
    let demo = Demo::start(directory.path(), free_port());

    let (code, out, err) =
        stopped(&demo, "measuring", &["--no-load", "-n", "5", "--mix", "put=1", "--duration", "600s"]);
    assert_eq!(code, 4, "{out}{err}");
    assert!(err.contains("stopping"), "{err}");
    let document: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(document["stopped"], true, "what was measured until then counts: {out}");
    assert!(!has_bucket(&demo, "measuring"));

    let (code, out, err) = stopped(&demo, "loading", &["-n", "1000000"]);
    assert_eq!(code, 1, "{out}{err}");
    assert!(err.contains("stopped before anything was measured"), "{err}");
    assert!(!has_bucket(&demo, "loading"));
    assert_eq!(demo.stop(), 0);
}
