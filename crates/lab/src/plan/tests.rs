//! Scenario files: what is understood, and how the rest is refused.
#![expect(clippy::unwrap_used, reason = "tests")]

use super::network::{Matrix, topology};
use super::statistic::evaluate;
use super::{Scale, Scenario, places};
use crate::report::tests::{cell, phase, result};
use crate::result::{Event, FLOWING, PaperRow, Phase};

const FILE: &str = r#"version = 1
id = "T-1"
title = "a test"
publication = "none"
figures = ["Table 1"]

[setting]
sites = 3
core_rtt_ms = 100
objects = 10
size = "256KB"

[[phase]]
name = "write"
operation = "put"

[[phase]]
name = "read"
operation = "get"
clients = ["site-2"]
objects_of = "site-1"
events = [{ at = "500ms", cut = "site-3" }, { at = "100ms", heal = "site-3" }]

[scale.small]
trials = 2

[scale.paper]
trials = 10
sweep = [{ size = ["1MB", "10MB"], core_rtt_ms = [100, 200] }, { objects = 1 }]

[[paper]]
figure = "Table 1"
what = "read"
value = 1.5
unit = "s"
statistic = "mean"
phase = "read"
select = { size = "1MB", core_rtt_ms = 100 }
"#;

#[test]
fn a_sweep_combines_lists_and_keeps_networks_together() {
    let scenario = Scenario::parse("t.toml", FILE).unwrap();
    assert_eq!(scenario.cells(Scale::Small).len(), 1);
    let cells = scenario.cells(Scale::Paper);
    let shown: Vec<String> = cells
        .iter()
        .map(|cell| {
            format!("{} {} {}", cell.labels["core_rtt_ms"], cell.labels["size"], cell.labels["objects"])
        })
        .collect();
    assert_eq!(shown, ["100 1MB 10", "100 10MB 10", "200 1MB 10", "200 10MB 10", "100 256kB 1"]);
    assert_eq!(cells[0].setting.trials, Some(10));
    let read = &scenario.phases[1];
    assert_eq!(read.events[0].deed.to_string(), "heal site-3");
    // What a row selects is written as the cells have it.
    assert!(scenario.rows[0].select.iter().all(|(name, value)| cells[0].labels.get(name) == Some(value)));
}

#[test]
fn a_cut_is_of_a_site_or_a_direction_or_both_between_two_and_may_repeat() {
    let events = |events: &str| {
        let old = r#"{ at = "500ms", cut = "site-3" }, { at = "100ms", heal = "site-3" }"#;
        assert!(FILE.contains(old));
        Scenario::parse("t.toml", &FILE.replacen(old, events, 1))
            .map(|scenario| scenario.phases[1].events.clone())
    };
    let flaps = events(
        r#"{ at = "1s", cut = "site-1<>site-2", for = "500ms", every = "2s", times = 2 }, { at = "1200ms", heal = "site-3>site-1" }"#,
    );
    let said: Vec<String> =
        flaps.unwrap().iter().map(|event| format!("{} {}", event.at.as_millis(), event.deed)).collect();
    assert_eq!(
        said,
        [
            "1000 cut site-1<>site-2",
            "1200 heal site-3>site-1",
            "1500 heal site-1<>site-2",
            "3000 cut site-1<>site-2",
            "3500 heal site-1<>site-2",
        ]
    );
    let sites: Vec<String> = (1..=3).map(|number| format!("site-{number}")).collect();
    let ways = |reach: &str| {
        events(&format!(r#"{{ at = "0s", cut = "{reach}" }}"#)).unwrap()[0].deed.reach.ways(&sites)
    };
    assert_eq!(ways("site-2"), [(1, 0), (0, 1), (1, 2), (2, 1)]);
    assert_eq!(ways("site-3>site-1"), [(2, 0)]);
    assert_eq!(ways("site-1<>site-3"), [(0, 2), (2, 0)]);
    for (refused, why) in [
        (r#"{ at = "1s", cut = "site-1", heal = "site-1" }"#, "cuts or heals"),
        (r#"{ at = "1s", cut = "site-1>site-1" }"#, "from one site to another"),
        (r#"{ at = "1s", cut = "site-1", every = "2s", times = 2 }"#, "how long it lasts"),
        (r#"{ at = "1s", cut = "site-1", for = "2s", every = "2s", times = 2 }"#, "less than the time"),
        (r#"{ at = "1s", cut = "site-1", for = "0s" }"#, "less than the time"),
        (r#"{ at = "1s", cut = "site-1", for = "1s", every = "2s", times = 0 }"#, "1 to 1000"),
        (r#"{ at = "1s", cut = "site-1", for = "1s", every = "2s" }"#, "how often"),
        (r#"{ at = "1s", heal = "site-1", for = "1s" }"#, "a heal stays"),
        (r#"{ at = "1s", cut = "site-1", for = "long" }"#, "no time"),
    ] {
        let error = events(refused).unwrap_err().to_string();
        assert!(error.starts_with("t.toml:22: ") && error.contains(why), "{refused}: {error}");
    }
    let elsewhere = FILE.replacen(r#"cut = "site-3""#, r#"cut = "site-1>site-9""#, 1);
    let error = Scenario::parse("t.toml", &elsewhere).unwrap().check_sites(&sites).unwrap_err();
    assert!(error.contains("site-9"), "{error}");
}

#[test]
fn an_error_names_the_line() {
    let cases = [
        ("core_rtt_ms = 100\nobjects", "core_rtt = 100\nobjects", "t.toml:9: "),
        ("objects = 10\n", "objects = \"ten\"\n", "t.toml:10: "),
        ("operation = \"get\"", "operation = \"fetch\"", "t.toml:19: "),
        ("name = \"read\"", "name = \"write\"", "t.toml:18: "),
        ("\"500ms\"", "\"half\"", "t.toml:22: "),
        ("[100, 200]", "[100, \"far\"]", "t.toml:29: "),
        ("[100, 200]", "[100, 1e9]", "t.toml:29: "),
        ("statistic = \"mean\"", "statistic = \"average\"", "t.toml:36: "),
        ("phase = \"read\"", "phase = \"reading\"", "t.toml:37: "),
        ("version = 1", "version = 2", "t.toml:1: "),
        ("trials = 2", "trails = 2", "t.toml:25: "),
    ];
    for (old, new, start) in cases {
        assert!(FILE.contains(old), "{old}");
        let error = Scenario::parse("t.toml", &FILE.replacen(old, new, 1)).unwrap_err().to_string();
        assert!(error.starts_with(start), "{new}: {error}");
    }
}

#[test]
fn a_foreign_matrix_is_square() {
    let matrix = Matrix::parse("m", "# ping\n0 10.5\n10.5, 0\n").unwrap();
    let scenario = Scenario::parse("t.toml", FILE).unwrap();
    let text = topology("T-1", &scenario.cells(Scale::Small)[0].setting, Some(&matrix)).unwrap();
    assert!(text.contains("[0, 10.5],") && text.matches("[[site]]").count() == 2, "{text}");
    assert_eq!(Matrix::parse("m", "0 1\n1\n").unwrap_err(), "m:2: 1 columns in a matrix of 2 rows");
    assert!(Matrix::parse("m", "0 x\n").unwrap_err().starts_with("m:1: "));
}

#[test]
fn every_scenario_of_the_lab_is_understood() {
    let all = places::all("scenarios");
    assert!(all.len() >= 41, "{}", all.len());
    for (name, path) in all {
        let scenario = Scenario::load(&name).unwrap();
        assert_eq!(scenario.id, name, "{}", path.display());
        assert!(!scenario.figures.is_empty() && !scenario.cannot_reproduce.is_empty(), "{name}");
        for scale in [Scale::Small, Scale::Paper] {
            for cell in scenario.cells(scale) {
                let text = topology(&name, &cell.setting, None).unwrap();
                let topology = skerry_scenario::topology::Topology::parse(&name, &text).unwrap();
                let sites: Vec<String> = topology.sites.iter().map(|site| site.name.clone()).collect();
                scenario.check_sites(&sites).unwrap();
            }
        }
    }
}

const BESIDE: &str = r#"version = 1
id = "T-2"
title = "a test"
publication = "none"
figures = ["none"]

[setting]
sites = 2

[[phase]]
name = "write"
operation = "put"
clients = ["site-2"]
set = "some"
objects = 7
rate_per_s = 20

[[phase]]
name = "load"
operation = "get"
size = "4MiB"
beside = "write"

[[phase]]
name = "all"
operation = "converge"
set = "some"
objects = 7

[scale.small]
[scale.paper]
"#;

#[test]
fn a_step_beside_another_and_one_that_waits_know_theirs() {
    let scenario = Scenario::parse("t.toml", BESIDE).unwrap();
    let (write, load, all) = (&scenario.phases[0], &scenario.phases[1], &scenario.phases[2]);
    assert_eq!((write.rate_per_s, write.count, write.set.as_deref()), (Some(20.0), Some(7), Some("some")));
    assert_eq!((load.beside.as_deref(), load.size.map(|size| size.0)), (Some("write"), Some(4 << 20)));
    assert_eq!(all.writers, ["site-2"]);
    let everybody = BESIDE.replace("clients = [\"site-2\"]\n", "");
    assert!(Scenario::parse("t.toml", &everybody).unwrap().phases[2].writers.is_empty(), "all write");
}

#[test]
fn what_stands_beside_nothing_or_waits_for_nothing_is_refused() {
    let cases = [
        ("beside = \"write\"", "beside = \"all\"", "t.toml:22: ", "right before it"),
        ("operation = \"get\"", "operation = \"list\"", "t.toml:22: ", "put, get, head or delete"),
        ("size = \"4MiB\"", "fresh = true", "t.toml:22: ", "without fresh"),
        ("rate_per_s = 20", "again = true", "t.toml:16: ", "would not end"),
        ("rate_per_s = 20", "rate_per_s = 0", "t.toml:16: ", "above 0"),
        ("operation = \"converge\"", "operation = \"converge\"\nrate_per_s = 1", "t.toml:27: ", "is for put"),
        ("objects = 7\nrate", "objects = 0\nrate", "t.toml:15: ", "from 1 to 100000"),
        ("set = \"some\"\nobjects = 7\nrate", "set = \"a b\"\nobjects = 7\nrate", "t.toml:14: ", "letters"),
        ("set = \"some\"\nobjects = 7\n\n", "set = \"other\"\n\n", "t.toml:25: ", "no step before it"),
        ("objects = 7\n\n", "objects = 8\n\n", "t.toml:25: ", "the same objects"),
        ("sites = 2", "sites = 2\ncpu_share = 0", "t.toml:7: ", "cpu_share is from"),
        ("sites = 2", "sites = 2\nlimits = \"must\"", "t.toml:1: ", "memory_mb or cpu_share"),
        ("sites = 2", "sites = 2\nlimits = \"maybe\"", "t.toml:9: ", "maybe"),
    ];
    for (old, new, start, words) in cases {
        assert!(BESIDE.contains(old), "{old}");
        let error = Scenario::parse("t.toml", &BESIDE.replacen(old, new, 1)).unwrap_err().to_string();
        assert!(error.starts_with(start) && error.contains(words), "{new}: {error}");
    }
}

/// Two sites for ten seconds each: what one phase has beyond another, and of a link.
#[test]
fn shares_and_what_was_caused_are_computed_from_the_matrices() {
    let of = |name: &str, to: u64, from: u64, p99: f64| {
        let mut phase = Phase { seconds: 10.0, ..phase(name, "", 0.01) };
        phase.summary.p99 = p99;
        phase.traffic.packets = vec![vec![7, to], vec![from, 7]];
        phase.traffic.bytes = vec![vec![7, 1000 * to], vec![1000 * from, 7]];
        phase
    };
    let mut one = cell(&[], vec![of("rest", 20, 10, 0.01), of("flood", 150, 50, 0.015)]);
    one.sites = vec!["site-1".into(), "site-2".into()];
    // 0.12 Mbit/s: 150,000 bytes in ten seconds.
    one.topology = "version = 1\n[[site]]\nname = \"site-1\"\n[[site]]\nname = \"site-2\"\n[link]\nrtt_ms = 1\nrate_mbit = 0.12\n".into();
    one.phases[1].events = vec![Event { at_seconds: 7.5, what: FLOWING.into() }];
    // At rest it was watched for twice as long.
    one.phases[0].settled_seconds = 10.0;
    let result = result(vec![one]);
    let value = |statistic: &str, phase: &str| {
        let row = PaperRow { statistic: statistic.into(), phase: phase.into(), ..PaperRow::default() };
        evaluate(std::path::Path::new("."), &result, &row).first().map(|value| value.value)
    };
    assert_eq!(value("packets-at:site-2", "rest"), Some(1.5));
    assert_eq!(value("packets-caused:site-2", "flood/rest"), Some(185.0));
    assert_eq!(value("bytes-caused:site-1", "flood/rest"), Some(185_000.0));
    assert_eq!(value("packets-caused:site-9", "flood/rest"), None);
    assert_eq!(value("sent-spread", "flood"), Some(3.0));
    assert_eq!(value("link-use:site-1>site-2", "flood"), Some(100.0));
    assert_eq!(value("link-use:site-1>site-9", "flood"), None);
    assert_eq!(value("link-use-flowing:site-1>site-2", "flood"), Some(400.0));
    assert_eq!((value("until-flowing", "flood"), value("until-flowing", "rest")), (Some(7.5), None));
    assert_eq!(value("inter-site-each", "flood/rest"), Some(5000.0));
    assert_eq!(value("ratio:p99", "flood/rest"), Some(1.5));
    for wrong in ["packets-at", "link-use:site-1", "ratio:p98", "order-ratio:100", "order-ratio:0/1", "p99:x"]
    {
        assert!(super::statistic::Statistic::parse(wrong).is_err(), "{wrong}");
    }
}
