//! Good files mean what they say, bad ones are refused with the line, draws keep to their bounds.

#![expect(clippy::unwrap_used, reason = "tests")]

use super::*;
use crate::workload_load::Arrival;

const GOOD: &str = r#"version = 1
clients = 4
think_ms = [5, 500]
buckets = 2
versioned = 0.5
[mix]
put = 50
erase = 2
[keys]
count = 100
distribution = "zipf"
folders = 3
[[size]]
bytes = [0, 256]
weight = 10
"#;

#[test]
fn a_good_file_means_what_it_says() {
    let workload = Workload::parse("w.toml", GOOD).unwrap();
    assert_eq!((workload.clients, workload.buckets, workload.keys), (4, 2, 100));
    assert_eq!(workload.think, millis(5)..=millis(500));
    assert_eq!(workload.mix, [50, 0, 0, 0, 2, 0]);
    assert_eq!(workload.sizes, [(0..=256, 10)]);
    let mut draw = Draw::from_seed(1);
    assert!((0..100).all(|_| [Act::Put, Act::Erase].contains(&workload.act(&mut draw))));
    assert!((0..100).all(|_| workload.size(&mut draw) <= 256));
}

#[test]
fn mistakes_are_refused_with_their_line() {
    let refused = |from: &str, to: &str, line: usize, reason: &str| {
        let refusal = Workload::parse("w.toml", &GOOD.replace(from, to)).unwrap_err();
        assert_eq!(refusal.line, line, "{refusal}");
        assert!(refusal.reason.contains(reason), "{refusal}");
    };
    refused("version = 1", "version = 3", 1, "version 1");
    refused("clients = 4", "clients = 0", 2, "from 1");
    refused("[5, 500]", "[500, 5]", 3, "above");
    refused("0.5", "1.5", 5, "share");
    refused("put = 50\nerase = 2", "put = 0", 6, "nothing");
    refused("zipf", "pareto", 11, "unknown variant");
    refused("put = 50", "putt = 50", 7, "unknown field");
    refused("[0, 256]", "[256, 0]", 14, "above");
}

#[test]
fn a_load_section_is_for_those_who_measure() {
    assert_eq!(Workload::parse("w.toml", GOOD).unwrap().load, Load::default());
    let load = "[load]\nthreads = 16\narrival = { spread_ms = 1000 }\nseconds = 60.0\nhead = 5\n";
    let workload = Workload::parse("w.toml", &format!("{GOOD}{load}")).unwrap();
    let expected = Load {
        threads: Some(16),
        arrival: Arrival::Spread(1000),
        seconds: Some(60.0),
        head: 5,
        ..Load::default()
    };
    assert_eq!(workload.load, expected);
    let units = GOOD.replace("[0, 256]", "[\"1kB\", \"1MiB\"]");
    assert_eq!(Workload::parse("w.toml", &units).unwrap().sizes, [(1000..=1_048_576, 10)]);
    for (line, reason) in [
        ("threads = 0", "threads is from 1"),
        ("seconds = -1.0", "seconds is above 0"),
        ("seconds = nan", "seconds is above 0"),
        ("arrival = { per_second = 0.0 }", "per_second"),
        ("operations = 0", "at least 1"),
        ("theta = 0.0", "theta"),
        ("thread = 1", "unknown field"),
    ] {
        let refusal = Workload::parse("w.toml", &format!("{GOOD}[load]\n{line}\n")).unwrap_err();
        assert_eq!(refusal.line, 17, "{refusal}");
        assert!(refusal.reason.contains(reason), "{refusal}");
    }
}

#[test]
fn every_spread_stays_within_the_keys_and_reaches_them() {
    let mut draw = Draw::from_seed(3);
    for spread in [Spread::Uniform, Spread::Zipf, Spread::Hot, Spread::Sequential, Spread::Once] {
        for keys in [1, 2, 7, 30] {
            let workload = Workload { spread, keys, folders: 0, ..Workload::sample(&mut draw) };
            let seen: std::collections::BTreeSet<_> = (0..5000).map(|_| workload.key(&mut draw)).collect();
            assert_eq!(seen.len() as u64, keys, "{spread:?}");
            assert!(seen.last().unwrap() < &format!("key-{keys:04}"));
        }
    }
}

#[test]
fn the_example_is_good() {
    let workload = Workload::parse("example", include_str!("../examples/small-objects.toml")).unwrap();
    assert_eq!(workload.mix, [40, 45, 5, 8, 2, 0]);
}
