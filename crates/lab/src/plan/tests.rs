//! Scenario files: what is understood, and how the rest is refused.
#![expect(clippy::unwrap_used, reason = "tests")]

use super::network::{Matrix, topology};
use super::{Scale, Scenario, places};

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
