//! Good files mean what they say; bad ones are refused with the line.

#![expect(clippy::unwrap_used, reason = "tests")]

use super::*;
use crate::clock::millis;

const GOOD: &str = r#"
version = 1
name = "two islands"
[[site]]
name = "oslo"
clock = { offset_ms = -5000, drift_ppm = 40 }
[[site]]
name = "bergen"
[matrix]
rtt_ms = [[0, 12.5], [14, 0]]
[link]
jitter_ms = 2
rate_mbit = 8
[[pair]]
from = "oslo"
to = "bergen"
loss = 0.02
one_way = true
"#;

#[test]
fn a_good_file_means_what_it_says() {
    let topology = Topology::parse("t.toml", GOOD).unwrap();
    assert_eq!(topology.name, "two islands");
    assert_eq!(topology.site("bergen"), Some(1));
    assert_eq!(topology.sites[0].clock, WallClock { offset_ms: -5000, drift_ppm: 40 });
    let (there, back) = (topology.links[0][1], topology.links[1][0]);
    assert_eq!(there.delay, Duration::from_micros(6250));
    assert_eq!(back.delay, millis(7));
    assert_eq!((there.loss, back.loss), (Ppm::percent(2), Ppm::NEVER));
    assert_eq!((there.jitter, there.rate), (millis(2), 1_000_000));
    assert_eq!(topology.links[0][0], Link::default());
}

#[test]
fn machines_are_read_and_default_to_one_of_each() {
    let plain = Topology::parse("t.toml", GOOD).unwrap();
    assert_eq!((plain.sites[0].hosts, plain.sites[0].clients), (1, 1));
    assert_eq!((plain.site_lan, plain.access), (Attachment::default(), Attachment::default()));
    let text = GOOD.replace("name = \"bergen\"", "name = \"bergen\"\nhosts = 3\nclients = 0")
        + "[site_lan]\nrtt_ms = 0.5\nrate_mbit = 1000\n[access]\nrtt_ms = 20\n[host]\nmemory_mb = 1024\ncpu_share = 0.5\n";
    let topology = Topology::parse("t.toml", &text).unwrap();
    assert_eq!((topology.sites[1].hosts, topology.sites[1].clients), (3, 0));
    assert_eq!(topology.site_lan.rtt, Duration::from_micros(500));
    assert_eq!((topology.access.rtt, topology.access.rate), (millis(20), 125_000_000));
    assert_eq!(topology.host, Machine { memory_mb: Some(1024), cpu_share: Some(0.5), rate: 0 });
}

#[test]
fn mistakes_about_machines_are_refused_with_their_line() {
    refused("name = \"bergen\"", "name = \"bergen\"\nhosts = 65", 9, "at most 64");
    refused("[link]", "[host]\nmemory_mb = 1\n[link]", 12, "at least 16");
    refused("[link]", "[access]\nrtt_ms = -1\n[link]", 12, "from 0");
    refused("[link]", "[site_lan]\nrtt = 1\n[link]", 12, "unknown field");
    refused("[link]", "[host]\ncpu_share = 0\n[link]", 12, "processors");
}

fn refused(from: &str, to: &str, line: usize, reason: &str) {
    let text = GOOD.replace(from, to);
    assert_ne!(text, GOOD, "the mistake was not made");
    let refusal = Topology::parse("t.toml", &text).unwrap_err();
    assert_eq!(refusal.line, line, "{refusal}");
    assert!(refusal.reason.contains(reason), "{refusal}");
}

#[test]
fn what_is_held_back_is_held_as_long_as_said() {
    let held = |words: &str| {
        let text = GOOD.replace("jitter_ms = 2", words);
        Topology::parse("t.toml", &text).unwrap().links[0][1].hold
    };
    assert_eq!(held("jitter_ms = 2"), Duration::ZERO);
    assert_eq!(held("reorder = 0.1"), Duration::from_secs(1));
    assert_eq!(held("reorder = 0.1\nhold_ms = 20"), millis(20));
}

#[test]
fn mistakes_are_refused_with_their_line() {
    refused("version = 1", "version = 2", 2, "version 1");
    refused("loss = 0.02", "loss = 2", 17, "share from 0 to 1");
    refused("loss = 0.02", "los = 0.02", 17, "unknown field");
    refused("to = \"bergen\"", "to = \"bergn\"", 16, "no site is called");
    refused("name = \"bergen\"", "name = \"oslo\"", 8, "used twice");
    refused("[14, 0]", "[14]", 10, "1 columns for 2 sites");
    refused(", [14, 0]]", "]", 10, "1 rows for 2 sites");
    refused("rtt_ms = [[0, 12.5]", "rtt_ms = [[0, -1]", 10, "from 0");
    refused("rate_mbit = 8", "rate_mbit = 0", 13, "above 0");
    refused("jitter_ms = 2", "jitter_ms = \"x\"", 12, "invalid type");
    refused("[link]", "[link", 11, "");
}

#[test]
fn the_example_is_good() {
    let topology = Topology::parse("example", include_str!("../examples/three-islands.toml")).unwrap();
    assert_eq!(topology.sites.len(), 3);
    assert_eq!(topology.links[0][2].loss, Ppm::percent(3));
}
