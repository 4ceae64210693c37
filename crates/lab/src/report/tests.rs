//! A small result from end to end: what its report must contain, in which order, and what must not get through.
#![expect(clippy::expect_used, clippy::panic, reason = "tests")]

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use super::readings::Book;
use crate::result::{
    Cell, Durability, Event, LabResult, Machine, OK, PaperRow, Phase, ProcessUse, Summary, Traffic, VERSION,
};

/// Fails unless the text is XML: every element closed, every entity known.
pub(super) fn well_formed(text: &str) {
    let mut reader = quick_xml::Reader::from_str(text);
    reader.config_mut().check_end_names = true;
    let mut depth = 0_i64;
    loop {
        match reader.read_event() {
            Ok(quick_xml::events::Event::Eof) => break,
            Ok(quick_xml::events::Event::Start(element)) => {
                depth += 1;
                let broken = element.attributes().find_map(Result::err);
                assert!(broken.is_none(), "{broken:?} in {element:?}");
            }
            Ok(quick_xml::events::Event::End(_)) => depth -= 1,
            Ok(_) => {}
            Err(error) => panic!("not well-formed at byte {}: {error}", reader.error_position()),
        }
    }
    assert_eq!(depth, 0, "elements stay open");
}

/// Writes the operations of a phase: times grow by `step` from `first`, seconds; the last one fails if asked.
pub(crate) fn write_csv(directory: &Path, name: &str, (first, step): (f64, f64), fails: bool) {
    let mut text = String::from(
        "phase,trial,client,worker,warm_up,operation,bucket,key,bytes,start_ns,wait_ns,connect_ns,first_byte_ns,total_ns,failure\n",
    );
    for number in 0..40 {
        let took = ((first + step * f64::from(number)) * 1e9) as u64;
        let failure = if fails && number == 39 { "503 <SlowDown>" } else { "" };
        let start = u64::from(number as u32) * 25_000_000;
        let _ =
            writeln!(text, "p,{},1,0,0,put,b,k{number},1000,{start},0,0,0,{took},{failure}", 1 + number % 2);
    }
    fs::write(directory.join(name), text).expect("csv");
}

pub(crate) fn phase(name: &str, csv: &str, median: f64) -> Phase {
    let summary = Summary {
        count: 40,
        bytes: 40_000,
        p50: median,
        mean: median,
        p95: median * 2.0,
        p99: median * 2.0,
        ..Summary::default()
    };
    Phase {
        name: name.into(),
        seconds: 1.0,
        operations: 40,
        trials: vec![Summary { mean: median, count: 20, ..Summary::default() }; 2],
        summary,
        csv: csv.into(),
        traffic: Traffic {
            bytes: vec![vec![9, 1000], vec![3000, 9]],
            packets: vec![vec![1, 1], vec![1, 1]],
            hosts: BTreeMap::new(),
        },
        processes: vec![ProcessUse {
            host: "site-1-1".into(),
            name: "skerry".into(),
            cpu_seconds: 0.5,
            peak_rss_bytes: 20_000_000,
            written_bytes: 48_000,
        }],
        ..Phase::default()
    }
}

pub(crate) fn cell(labels: &[(&str, &str)], phases: Vec<Phase>) -> Cell {
    Cell {
        labels: labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        status: OK.into(),
        sites: vec!["site-1".into(), "<b>site-2".into()],
        rtt_ms: vec![vec![0.5, 100.0], vec![100.0, 0.5]],
        durability: durability(),
        phases,
        ..Cell::default()
    }
}

fn durability() -> Durability {
    Durability { acknowledged: "site".into(), copies: 1, synced: true, ..Durability::default() }
}

pub(crate) fn result(cells: Vec<Cell>) -> LabResult {
    LabResult {
        version: VERSION,
        scenario: "F-S1".into(),
        title: "Local <script>alert(1)</script> write".into(),
        paper: "Confais".into(),
        paper_figures: vec!["Table 2a".into()],
        system: "skerry".into(),
        system_version: "skerry 0.1.0".into(),
        scale: "small".into(),
        started: "2026-11-22T01:00:00Z".into(),
        seconds: 12.0,
        commit: "abc".into(),
        binary_blake3: "ff".into(),
        machine: Machine { cpu: "CPU".into(), cores: 2, ..Machine::default() },
        seed: 1,
        topology: "version = 1\n".into(),
        command: "skerry-lab run F-S1".into(),
        durability: durability(),
        cannot_reproduce: vec!["16 cores".into()],
        status: OK.into(),
        warnings: vec!["load | 3".into()],
        cells,
        paper_rows: Vec::new(),
    }
}

/// A number of a paper: the operation of this rank.
pub(crate) fn order_row(phase: &str, rank: usize) -> PaperRow {
    PaperRow {
        value: 1.0,
        unit: "s".into(),
        statistic: format!("order:{rank}"),
        phase: phase.into(),
        better: "less".into(),
        ..PaperRow::default()
    }
}

fn sample(directory: &Path) -> LabResult {
    write_csv(directory, "1w.csv", (0.010, 0.001), false);
    write_csv(directory, "1r.csv", (0.005, 0.0), false);
    write_csv(directory, "11w.csv", (0.020, 0.001), true);
    write_csv(directory, "11r.csv", (0.005, 0.01), false);
    let mut cut = phase("write", "11w.csv", 0.039);
    cut.failures = 1;
    cut.failure_texts = BTreeMap::from([("503 <SlowDown>".to_owned(), 1)]);
    cut.events = vec![
        Event { at_seconds: 0.2, what: "cut site-2".into() },
        Event { at_seconds: 0.5, what: "heal site-2".into() },
    ];
    let mut missing = cell(&[("sites", "12"), ("objects", "40")], Vec::new());
    missing.status = "needs edges: not yet".into();
    let few = vec![phase("write", "1w.csv", 0.029), phase("read", "1r.csv", 0.005)];
    let many = vec![cut, phase("read", "11r.csv", 0.2)];
    result(vec![
        cell(&[("sites", "11"), ("objects", "40")], many),
        cell(&[("sites", "2"), ("objects", "40")], few),
        missing,
    ])
}

#[test]
fn the_whole_report_in_its_order() {
    let directory = tempfile::tempdir().expect("a directory");
    let result = sample(directory.path());
    super::write(directory.path(), &result).expect("written");
    let markdown = fs::read_to_string(directory.path().join("report.md")).expect("report.md");
    let order = [
        "# F-S1: Local &lt;script&gt;",
        "> **Note:** load \\| 3",
        "## Shape",
        "| write, sites 2 → 11 |",
        "## Figures",
        "timeline-1.svg",
        "over-parameter.svg",
        "boxes.svg",
        "ordered.svg",
        "distribution.svg",
        "between-sites.svg",
        "traffic.svg",
        "map.svg",
        "## Numbers",
        "## Not measured",
        "needs edges: not yet",
        "## Failures",
        "503 &lt;SlowDown&gt;",
        "scope site: 1 copy, synced to the medium",
        "## What this cannot reproduce",
        "16 cores",
        "skerry-lab run F-S1",
    ];
    let mut rest = markdown.as_str();
    for piece in order {
        let at =
            rest.find(piece).unwrap_or_else(|| panic!("{piece:?} is missing or too early in\n{markdown}"));
        rest = &rest[at + piece.len()..];
    }
    for plot in fs::read_dir(directory.path().join("plots")).expect("plots") {
        well_formed(&fs::read_to_string(plot.expect("entry").path()).expect("svg"));
    }
}

#[test]
fn the_page_is_whole_and_loads_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let result = sample(directory.path());
    super::write(directory.path(), &result).expect("written");
    let page = fs::read_to_string(directory.path().join("report.html")).expect("report.html");
    well_formed(&page);
    assert!(!page.contains("<script") && !page.contains("<b>"), "markup of a label came through");
    let loads = ["src=", "href=", "url(", "@import"];
    assert!(loads.iter().all(|word| !page.contains(word)), "the page must stand alone");
    assert!(page.contains("class=\"cut\"") && page.contains("prefers-color-scheme:dark"));
    super::write(directory.path(), &result).expect("written again");
    let again = fs::read_to_string(directory.path().join("report.html")).expect("report.html");
    assert!(page == again, "the same result gives the same bytes");
}

#[test]
fn cells_are_ordered_and_grouped_by_what_was_swept() {
    let directory = tempfile::tempdir().expect("a directory");
    let result = sample(directory.path());
    let book = Book::open(directory.path(), &result);
    assert_eq!(book.axis.as_deref(), Some("sites"));
    assert_eq!(book.others, Vec::<String>::new());
    let order: Vec<&str> =
        book.readings.iter().map(|reading| reading.cell.labels["sites"].as_str()).collect();
    assert_eq!(order, ["2", "11"], "by number, and without what was not measured");
    assert_eq!(book.constants().get("objects"), Some(&"40"));
    let write = book.readings[1].phase("write").expect("write");
    assert_eq!(write.times().len(), 39, "what failed has no time");
    assert_eq!(write.by_trial().len(), 2);
}

#[test]
fn without_single_operations_the_report_says_so() {
    let directory = tempfile::tempdir().expect("a directory");
    let result = result(vec![cell(&[("sites", "2")], vec![phase("write", "gone.csv", 0.03)])]);
    super::write(directory.path(), &result).expect("written");
    let markdown = fs::read_to_string(directory.path().join("report.md")).expect("report.md");
    assert!(markdown.contains("gone.csv") && markdown.contains("left out"), "{markdown}");
    assert!(markdown.contains("30 ms"), "the summary is there all the same: {markdown}");
}
