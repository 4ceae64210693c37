//! Scenarios of the papers at small scale, against real processes of the product on the emulated network.
//!
//! Facts that hold on any machine are asserted, not speeds. Without root and without user namespaces a test says so
//! and is skipped.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use skerry_bench::sample::{Sample, read_csv};
use skerry_lab::result::{Cell, LabResult, Phase};

const LAB: &str = env!("CARGO_BIN_EXE_skerry-lab");

/// One run at a time: they measure, and the machine is small.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The product: the one that the tests of the workspace have built (`cargo xtask test` names it), or built by the same cargo,
/// which takes minutes: alone it has other features of the libraries, so they are built as well.
fn product() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        if let Some(binary) = std::env::var_os("SKERRY_TESTED_BINARY").map(PathBuf::from) {
            assert!(binary.is_file(), "SKERRY_TESTED_BINARY: no {}", binary.display());
            return binary;
        }
        let status =
            Command::new(env!("CARGO")).args(["build", "--package", "skerry-cli", "--locked"]).status();
        assert!(status.unwrap().success(), "the product does not build");
        let binary = Path::new(LAB).ancestors().nth(2).unwrap().join("debug/skerry");
        assert!(binary.is_file(), "no {}", binary.display());
        binary
    })
}

fn lab(out: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(LAB);
    command.arg("run").args(arguments).arg("--out").arg(out).env("SKERRY_BINARY", product());
    command
}

/// Whether this machine cannot run the lab at all.
fn is_skipped(output: &Output) -> bool {
    let said = String::from_utf8_lossy(&output.stderr);
    let skipped = !output.status.success() && said.contains("needs root or an unprivileged user namespace");
    if skipped {
        // Past the harness, which hides what passed tests print.
        let line = format!("SKIPPED: {}\n", said.trim());
        std::io::stderr().write_all(line.as_bytes()).unwrap();
    }
    skipped
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

/// Processes that still carry the mark of a run whose files lie in this directory.
fn left_over(out: &Path) -> Vec<String> {
    let out = out.to_str().unwrap().to_owned();
    let lines = entries(Path::new("/proc")).into_iter().filter_map(|process| {
        let line = fs::read(process.join("cmdline")).ok()?;
        Some(String::from_utf8_lossy(&line).replace('\0', " "))
    });
    lines.filter(|line| line.contains(&out)).collect()
}

/// Plays a scenario; none if this machine cannot.
fn played(scenario: &str) -> Option<(LabResult, tempfile::TempDir, PathBuf)> {
    played_as(&[scenario], "ok")
}

/// The same with options and another status.
fn played_as(arguments: &[&str], status: &str) -> Option<(LabResult, tempfile::TempDir, PathBuf)> {
    let out = tempfile::tempdir().unwrap();
    let output = lab(out.path(), arguments).output().unwrap();
    if is_skipped(&output) {
        return None;
    }
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let directory = entries(out.path()).into_iter().next().unwrap();
    let result = LabResult::read(&directory).unwrap();
    assert_eq!((result.version, result.status.as_str()), (1, status));
    let product = blake3::hash(&fs::read(product()).unwrap()).to_hex().to_string();
    assert_eq!(result.binary_blake3, if status == "ok" { product } else { String::new() });
    assert!(!result.commit.is_empty() && !result.machine.kernel.is_empty() && result.machine.cores > 0);
    assert!(directory.join("report.html").is_file() && directory.join("report.md").is_file());
    assert!(!directory.join("work").exists(), "data of the systems stayed");
    assert_eq!(left_over(out.path()), Vec::<String>::new());
    Some((result, out, directory))
}

fn phase<'a>(cell: &'a Cell, name: &str) -> &'a Phase {
    cell.phases.iter().find(|phase| phase.name == name).unwrap()
}

fn samples(directory: &Path, phase: &Phase) -> Vec<Sample> {
    let samples = read_csv(fs::File::open(directory.join(&phase.csv)).unwrap()).unwrap();
    assert_eq!(samples.len() as u64, phase.operations);
    samples
}

fn bytes(cell: &Cell) -> u64 {
    let size: skerry_scenario::workload_size::ObjectSize = cell.labels["size"].parse().unwrap();
    size.0
}

/// F-S4: what every site does for itself is not the others' business.
#[test]
fn local_work_hardly_crosses_between_sites() {
    let _alone = alone();
    let Some((result, _out, directory)) = played("F-S4") else { return };
    assert_eq!(result.cells.len(), 2);
    for cell in &result.cells {
        let stored = 10 * bytes(cell) * 3;
        for name in ["write", "read"] {
            let phase = phase(cell, name);
            assert_eq!((phase.operations, phase.failures), (30, 0), "{name}: {:?}", phase.failure_texts);
            assert_eq!(phase.summary.bytes, stored);
            let crossed = phase.traffic.between_sites();
            assert!(crossed * 50 < stored, "{name}: {crossed} of {stored} bytes crossed between sites");
            // Within the sites all of it passed, and was read by clients that looked at every byte.
            let within: u64 = (0..3).map(|site| phase.traffic.bytes[site][site]).sum();
            assert!(within > stored, "{name}: {within} bytes within sites");
            assert!(samples(&directory, phase).iter().all(|sample| sample.bytes == bytes(cell)));
        }
    }
}

/// F-S7: what was read once from another site is here.
#[test]
fn a_second_read_is_local() {
    let _alone = alone();
    let Some((result, _out, directory)) = played("F-S7") else { return };
    for cell in &result.cells {
        let payload = 10 * bytes(cell) * 2;
        let crossed = |name: &str| phase(cell, name).traffic.bytes[0][1];
        for phase in &cell.phases {
            assert_eq!(
                (phase.operations, phase.failures),
                (20, 0),
                "{}: {:?}",
                phase.name,
                phase.failure_texts
            );
        }
        let first = crossed("read");
        assert!(first >= payload, "{first} bytes for {payload} bytes of objects");
        assert!(
            first * 10 < payload * 11,
            "{first} bytes: {payload} bytes of objects crossed more than once"
        );
        let second = phase(cell, "read2").traffic.between_sites();
        assert!(second < bytes(cell) / 10, "the second read moved {second} bytes between sites");
        let fastest =
            |name: &str| samples(&directory, phase(cell, name)).iter().map(|s| s.total_ns).min().unwrap();
        // The access of 20 ms twice (connect, ask) and the links of 100 ms are below every time.
        assert!(fastest("read2") > 39_000_000 && fastest("read") > 139_000_000);
        assert!(fastest("read2") < fastest("read"));
        assert_eq!((cell.durability.acknowledged.as_str(), cell.durability.copies), ("site", 1));
    }
}

/// X-S1: every pair is sorted by its own round-trip time; a write that waits for three sites waits for them.
#[test]
fn pairs_are_sorted_by_their_own_round_trip_time() {
    let _alone = alone();
    let Some((result, _out, directory)) = played("X-S1") else { return };
    for scope in ["site", "sites=3"] {
        let cells = result.cells.iter().filter(|cell| cell.labels["scope"] == scope);
        let mut pairs: BTreeMap<String, u64> = BTreeMap::new();
        for cell in cells {
            let reads = phase(cell, "read");
            assert_eq!((cell.status.as_str(), reads.failures), ("ok", 0), "{:?}", reads.failure_texts);
            assert_eq!(phase(cell, "write").operations, reads.operations);
            pairs.insert(cell.labels["rtt_ms"].clone(), reads.operations);
            // Nothing written at one site is read at another before light gets there: half a round trip.
            let low: u64 = cell.labels["rtt_ms"].split(['-', '+']).next().unwrap().parse().unwrap_or(0);
            let both = fastest(&directory, phase(cell, "write+read"));
            assert!(both >= low * 500_000, "{both} ns for a pair in {}", cell.labels["rtt_ms"]);
        }
        assert_eq!(pairs.remove("all"), Some(30), "{scope}");
        assert_eq!(pairs.values().sum::<u64>(), 30);
        assert!(pairs.len() >= 4, "{pairs:?}");
    }
    let strong = result.cells.iter().find(|cell| cell.labels["scope"] == "sites=3").unwrap();
    assert_eq!((strong.durability.acknowledged.as_str(), strong.durability.copies), ("sites=3", 3));
    // The nearest two others of any site are at least so far away.
    let second = |row: &Vec<f64>| {
        let mut row = row.clone();
        row.sort_by(f64::total_cmp);
        row[2]
    };
    let nearest = strong.rtt_ms.iter().map(second).fold(f64::MAX, f64::min);
    let writes = fastest(&directory, phase(strong, "write")) as f64 / 1e6;
    assert!(
        writes >= nearest,
        "a write for three sites after {writes} ms; the second nearest is at {nearest} ms"
    );
}

fn fastest(directory: &Path, phase: &Phase) -> u64 {
    samples(directory, phase).iter().map(|sample| sample.total_ns).min().unwrap()
}

/// P-S3: a machine limited in memory, processor and link does all six steps.
#[test]
fn a_small_machine_does_the_six_steps() {
    let _alone = alone();
    let Some((result, _out, _)) = played("P-S3") else { return };
    assert_eq!(result.cells.len(), 4);
    let refused = result.warnings.iter().any(|warning| warning.contains(" limit: "));
    assert!(refused || result.cells.iter().all(|cell| cell.limits.len() == 1), "{:?}", result.warnings);
    for limit in result.cells.iter().flat_map(|cell| &cell.limits).filter(|_| !refused) {
        let page = 4096;
        assert!(limit.memory_bytes.abs_diff(1_000_000_000) < page && limit.memory_peak_bytes > 0);
        assert!(limit.memory_peak_bytes <= limit.memory_bytes, "{limit:?}");
        assert!((limit.cpu_share - 0.5).abs() < 0.001, "{limit:?}");
    }
    for cell in &result.cells {
        let names: Vec<&str> = cell.phases.iter().map(|phase| phase.name.as_str()).collect();
        assert_eq!(names, ["create-bucket", "upload", "list", "download", "erase-objects", "erase-bucket"]);
        for phase in &cell.phases {
            assert_eq!(phase.failures, 0, "{}: {:?}", phase.name, phase.failure_texts);
            assert_eq!(phase.processes.len(), 1);
            let process = &phase.processes[0];
            assert!(process.peak_rss_bytes > 1_000_000 && process.peak_rss_bytes < 128_000_000);
        }
        for name in ["upload", "download"] {
            let rate = phase(cell, name).summary.throughput_bytes_per_s * 8.0 / 1e6;
            assert!(rate < 94.0, "{name}: {rate} Mbit/s over a link of 94");
        }
        let upload = phase(cell, "upload");
        // Whether memory was limited is visible only if the machine lets us; then nothing is said.
        assert!(upload.processes[0].written_bytes >= upload.summary.bytes);
    }
}

const TWO_SITES: &str = r#"version = 1
id = "T-1"
title = "two sites"
publication = "none"
figures = ["none"]
cannot_reproduce = ["nothing"]

[setting]
sites = 2
access_rtt_ms = 20
core_rtt_ms = 40
objects = 60
threads = 1
size = "4KiB"
connections = "keep"
timeout_s = 60

[[phase]]
name = "write"
operation = "put"
clients = ["site-1"]
events = [{ at = "200ms", cut = "site-2" }, { at = "700ms", heal = "site-2" }]

[scale.small]
[scale.paper]
"#;

fn scenario(directory: &Path, text: &str) -> String {
    let path = directory.join("scenario.toml");
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

/// A cut in the middle of a phase is in the result, and writes at an island go on.
#[test]
fn a_cut_shows_in_the_result() {
    let _alone = alone();
    let files = tempfile::tempdir().unwrap();
    let Some((result, _out, directory)) = played(&scenario(files.path(), TWO_SITES)) else { return };
    let write = phase(&result.cells[0], "write");
    assert_eq!((write.operations, write.failures), (60, 0));
    let events: Vec<&str> = write.events.iter().map(|event| event.what.as_str()).collect();
    assert_eq!(events, ["cut site-2", "heal site-2"]);
    assert!(write.events[0].at_seconds >= 0.2 && write.events[1].at_seconds >= 0.7);
    let during = samples(&directory, write).into_iter().filter(|sample| {
        let at = sample.start_ns as f64 / 1e9;
        at > write.events[0].at_seconds && at < write.events[1].at_seconds
    });
    assert!(during.count() > 5, "no write during the cut");
    let report = fs::read_to_string(directory.join("report.html")).unwrap();
    assert!(report.contains("cut site-2"), "the report does not show the cut");
}

const SITES_OF_TWO: &str = r#"version = 1
id = "T-2"
title = "two sites of two nodes"
publication = "none"
figures = ["none"]
cannot_reproduce = ["nothing"]

[setting]
sites = 2
nodes = 2
core_rtt_ms = 40
objects = 16
threads = 4
size = "256kB"
connections = "new"
timeout_s = 60
settle_s = 5

[[phase]]
name = "write"
operation = "put"
clients = ["site-1"]

[[phase]]
name = "read"
operation = "get"
clients = ["site-1"]

[[phase]]
name = "far"
operation = "get"
clients = ["site-2"]
objects_of = "site-1"

[[phase]]
name = "far2"
operation = "get"
clients = ["site-2"]
objects_of = "site-1"

[scale.small]
[scale.paper]
"#;

/// Any node of a site is asked: it has what was written through the other, and what was fetched by it costs the core
/// nothing again.
#[test]
fn a_site_of_two_nodes_answers_as_one() {
    let _alone = alone();
    let files = tempfile::tempdir().unwrap();
    let Some((result, _out, _directory)) = played(&scenario(files.path(), SITES_OF_TWO)) else { return };
    let cell = &result.cells[0];
    assert_eq!((cell.durability.acknowledged.as_str(), cell.durability.copies), ("site", 2));
    assert_eq!(cell.labels["nodes"], "2");
    for phase in &cell.phases {
        assert_eq!((phase.operations, phase.failures), (16, 0), "{}: {:?}", phase.name, phase.failure_texts);
    }
    let payload = 16 * bytes(cell);
    let crossed = |name: &str| phase(cell, name).traffic.between_sites();
    // From the client in and from node to node, or more.
    let within = phase(cell, "write").traffic.bytes[0][0];
    assert!(within > 2 * payload, "{within} bytes within the site for {payload} bytes of objects");
    assert!(crossed("read") * 50 < payload, "{} bytes crossed for local reads", crossed("read"));
    assert!(crossed("far") >= payload && crossed("far") * 10 < payload * 11, "{} bytes", crossed("far"));
    assert!(crossed("far2") * 50 < payload, "{} bytes crossed again", crossed("far2"));
}

const APART: &str = r#"version = 1
id = "T-3"
title = "two sites that write apart"
publication = "none"
figures = ["none"]
cannot_reproduce = ["nothing"]

[setting]
sites = 2
core_rtt_ms = 40
core_rate_mbit = 20
objects = 60
threads = 8
size = "200B"
connections = "keep"
timeout_s = 60

[[phase]]
name = "meet"
operation = "put"
set = "meet"
objects = 2

[[phase]]
name = "met"
operation = "converge"
set = "meet"
objects = 2

[[phase]]
name = "write"
operation = "put"
events = [{ at = "0ms", cut = "site-1" }]

[[phase]]
name = "caught-up"
operation = "converge"
events = [{ at = "500ms", heal = "site-1" }]

[[phase]]
name = "meanwhile"
operation = "put"
set = "meanwhile"
objects = 5
rate_per_s = 40
beside = "caught-up"
again = true

[scale.small]
[scale.paper]
"#;

/// What both sites wrote while apart is listed at both after the heal, and that moment is what the step took; what goes on
/// beside it ends with it.
#[test]
fn a_step_waits_until_both_sites_list_the_same() {
    let _alone = alone();
    let files = tempfile::tempdir().unwrap();
    let Some((result, _out, directory)) = played(&scenario(files.path(), APART)) else { return };
    let cell = &result.cells[0];
    for name in ["met", "caught-up"] {
        assert_eq!((phase(cell, name).operations, phase(cell, name).failures), (2, 0), "{name}");
    }
    let caught_up = phase(cell, "caught-up");
    // Nothing crosses before the heal.
    assert!(caught_up.events[0].at_seconds >= 0.5 && fastest(&directory, caught_up) > 520_000_000);
    assert_eq!(caught_up.events[1].what, skerry_lab::result::FLOWING);
    let write = phase(cell, "write");
    assert_eq!((write.operations, write.failures), (120, 0), "{:?}", write.failure_texts);
    // Each of 60 bodies of 200 bytes, each way.
    let crossed = &caught_up.traffic.bytes;
    assert!(crossed[0][1] > 60 * 200 && crossed[1][0] > 60 * 200, "{crossed:?}");
    let meanwhile = phase(cell, "meanwhile");
    assert_eq!(meanwhile.failures, 0, "{:?}", meanwhile.failure_texts);
    let begun = samples(&directory, meanwhile).iter().map(|sample| sample.start_ns).max().unwrap();
    assert!(
        meanwhile.operations > 20,
        "{} operations, of five objects again and again",
        meanwhile.operations
    );
    assert!(begun < (caught_up.seconds * 1e9) as u64 + 1_500_000_000, "it goes on after {begun} ns");
    assert!(meanwhile.traffic.bytes.is_empty(), "what crosses counts once");
}

/// What never comes together ends the run, with what is lacking.
#[test]
fn sites_that_stay_apart_end_the_run() {
    let _alone = alone();
    let (files, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let apart = APART
        .replace("events = [{ at = \"500ms\", heal = \"site-1\" }]\n", "")
        .replace("timeout_s = 60", "timeout_s = 8");
    let Some(said) = failed(out.path(), &[&scenario(files.path(), &apart)]) else { return };
    assert!(said.contains("phase caught-up: no answer after 8 s from site-1-client-1"), "{said}");
    assert!(said.contains("0 keys are shown, 1 are there"), "{said}");
}

const FLOODED: &str = r#"version = 1
id = "T-4"
title = "a site beside one that is flooded"
publication = "none"
figures = ["none"]
cannot_reproduce = ["nothing"]

[setting]
sites = 3
bucket_per_site = true
cpu_share = 0.3
own_processor = "site-2"
limits = "must"
core_rtt_ms = 10
core_rate_mbit = 40
objects = 60
threads = 2
size = "4KiB"
connections = "keep"
timeout_s = 60
settle_s = 5

[[phase]]
name = "fill"
operation = "put"
clients = ["site-1"]
set = "large"
objects = 40
size = "1MiB"

[[phase]]
name = "write"
operation = "put"
clients = ["site-2"]
rate_per_s = 20

[[phase]]
name = "flood"
operation = "get"
clients = ["site-3"]
objects_of = "site-1"
set = "large"
objects = 40
size = "1MiB"
beside = "write"

[scale.small]
[scale.paper]
"#;

/// What site 3 reads at site 1 does not pass by site 2; site 2's own work goes on at its rate, within its share.
#[test]
fn a_flood_between_two_sites_is_not_the_third_ones() {
    let _alone = alone();
    let files = tempfile::tempdir().unwrap();
    let out = tempfile::tempdir().unwrap();
    let file = scenario(files.path(), FLOODED);
    let output = lab(out.path(), &[&file]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let is_refused = ["this machine refuses it: no cpu limit", "it takes two processors"]
        .iter()
        .any(|why| said.contains(why));
    if is_skipped(&output) || is_refused {
        return;
    }
    assert!(output.status.success(), "{said}");
    let directory = entries(out.path()).into_iter().next().unwrap();
    let result = LabResult::read(&directory).unwrap();
    let cell = &result.cells[0];
    assert_eq!(cell.limits.len(), 3);
    assert!(cell.limits.iter().all(|limit| (limit.cpu_share - 0.3).abs() < 0.001), "{:?}", cell.limits);
    let write = phase(cell, "write");
    assert_eq!((write.operations, write.failures), (60, 0), "{:?}", write.failure_texts);
    assert!(write.seconds >= 2.9, "60 at 20 a second took {} s", write.seconds);
    let flood = phase(cell, "flood");
    assert_eq!(flood.failures, 0, "{:?}", flood.failure_texts);
    assert!(flood.operations >= 2 && flood.operations <= 40, "{}", flood.operations);
    let bytes = &write.traffic.bytes;
    let aside = bytes[1][0] + bytes[0][1] + bytes[1][2] + bytes[2][1];
    assert!(bytes[0][2] > 1 << 20, "no flood: {bytes:?}");
    assert!(aside * 100 < bytes[0][2], "{aside} bytes at the third site: {bytes:?}");
}

/// Waits for a child with a bound.
fn ended(mut child: Child) -> Output {
    let by = Instant::now() + Duration::from_secs(120);
    while child.try_wait().unwrap().is_none() {
        assert!(Instant::now() < by, "the lab does not end");
        std::thread::sleep(Duration::from_millis(20));
    }
    child.wait_with_output().unwrap()
}

/// A failed run: exit code 1, what it said, and nothing left.
fn failed(out: &Path, arguments: &[&str]) -> Option<String> {
    let child = lab(out, arguments).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let output = ended(child);
    if is_skipped(&output) {
        return None;
    }
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(entries(out), Vec::<PathBuf>::new(), "files stayed");
    assert_eq!(left_over(out), Vec::<String>::new(), "processes stayed");
    Some(String::from_utf8_lossy(&output.stderr).into_owned())
}

/// What nothing here can do yet is said exactly so, measures nothing and costs nothing.
#[test]
fn a_scenario_that_needs_edges_says_so() {
    let _alone = alone();
    let Some((result, _out, directory)) = played_as(&["E-S1"], "needs edges: not yet") else { return };
    assert!(result.cells.is_empty() && result.seconds < 10.0);
    let report = fs::read_to_string(directory.join("report.md")).unwrap();
    assert!(report.contains("Not measured: needs edges: not yet"), "{report}");
}

/// A foreign matrix takes the place of the scenario's sites, and is what readers feel.
#[test]
fn a_foreign_matrix_is_played() {
    let _alone = alone();
    let files = tempfile::tempdir().unwrap();
    let matrix = files.path().join("matrix.txt");
    fs::write(&matrix, "# three sites\n0 20 60\n20 0 50\n60, 50, 0\n").unwrap();
    let calm: String = TWO_SITES
        .lines()
        .filter(|line| !line.starts_with("events"))
        .fold(String::new(), |text, line| text + line + "\n");
    let read = "\n[[phase]]\nname = \"read\"\noperation = \"get\"\nclients = [\"site-3\"]\nobjects_of = \"site-1\"\n";
    let text = calm
        .replace("objects = 60", "objects = 5")
        .replace("\n[scale.small]", &format!("{read}\n[scale.small]"));
    let arguments = [&scenario(files.path(), &text), "--matrix", matrix.to_str().unwrap()];
    let Some((result, _out, directory)) = played_as(&arguments, "ok") else { return };
    let cell = &result.cells[0];
    assert_eq!((cell.labels["topology"].as_str(), cell.labels["sites"].as_str()), ("matrix", "3"));
    assert!(!cell.labels.contains_key("core_rtt_ms"), "{:?}", cell.labels);
    assert_eq!((cell.rtt_ms[0][2], cell.rtt_ms[2][1]), (60.0, 50.0));
    assert_eq!(phase(cell, "read").failures, 0);
    // The access of 20 ms and the link of 60 ms are below every read of what lies there.
    assert!(fastest(&directory, phase(cell, "read")) > 79_000_000);
    assert!(result.command.contains("--matrix "), "{}", result.command);
}

/// Ctrl-C goes to the whole foreground group of a terminal, clients included.
#[test]
fn an_interrupted_run_says_so_and_leaves_nothing() {
    let _alone = alone();
    let (files, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let long = scenario(files.path(), &TWO_SITES.replace("objects = 60", "objects = 20000"));
    let mut command = lab(out.path(), &[&long]);
    let mut child = command.process_group(0).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let group = format!("-{}", child.id());
    let mut said = String::new();
    for line in BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok) {
        if line.ends_with(" write") {
            assert!(Command::new("kill").args(["-INT", "--", &group]).status().unwrap().success());
        }
        said += &format!("{line}\n");
    }
    let output = Output { stderr: said.clone().into_bytes(), ..ended(child) };
    if is_skipped(&output) {
        return;
    }
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.trim().ends_with("T-1: interrupted"), "{said}");
    assert_eq!(entries(out.path()), Vec::<PathBuf>::new(), "files stayed");
    assert_eq!(left_over(out.path()), Vec::<String>::new(), "processes stayed");
}

/// What nobody has seen work is a warning of its results and their reports.
#[test]
fn an_untested_system_is_a_warning_of_the_result() {
    let _alone = alone();
    let files = tempfile::tempdir().unwrap();
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("systems/skerry.toml");
    let system = fs::read_to_string(own).unwrap();
    let path = files.path().join("skerry.toml");
    fs::write(&path, system.replace("kind = \"s3\"", "kind = \"s3\"\nuntested = \"nobody saw this work\""))
        .unwrap();
    let small = TWO_SITES.replace("objects = 60", "objects = 2");
    let arguments = [&scenario(files.path(), &small), "--system", path.to_str().unwrap()];
    let Some((result, _out, directory)) = played_as(&arguments, "ok") else { return };
    assert!(result.warnings.iter().any(|warning| warning == "nobody saw this work"), "{:?}", result.warnings);
    let report = fs::read_to_string(directory.join("report.md")).unwrap();
    assert!(report.contains("**Note:** nobody saw this work"), "{report}");
}

/// A server that dies in the middle ends the run with its last words.
#[test]
fn a_process_that_dies_ends_the_run_with_its_log() {
    let _alone = alone();
    let (files, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let long = TWO_SITES.replace("objects = 60", "objects = 20000").replace("site-2", "site-1");
    let system =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("systems/skerry.toml")).unwrap();
    let dying = r#"["{shell}", "-c", "timeout 15 '{skerry}' server --stop-with-stdin '{data}'; echo the disk is on fire; exit 7"]"#;
    let normal = r#"["{skerry}", "server", "--stop-with-stdin", "{data}"]"#;
    assert!(system.contains(normal));
    let system = system.replace(normal, dying).replace("[programs]", "[programs]\nshell = [\"sh\"]");
    let path = files.path().join("skerry.toml");
    fs::write(&path, system).unwrap();
    let arguments = [&scenario(files.path(), &long), "--system", path.to_str().unwrap()];
    let Some(said) = failed(out.path(), &arguments) else { return };
    assert!(said.contains("ended by itself") && said.contains("the disk is on fire"), "{said}");
}

/// A phase that does not end ends the run.
#[test]
fn a_phase_that_hangs_ends_the_run() {
    let _alone = alone();
    let (files, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let hanging =
        TWO_SITES.replace("objects = 60", "objects = 20000").replace("timeout_s = 60", "timeout_s = 2");
    let Some(said) = failed(out.path(), &[&scenario(files.path(), &hanging)]) else { return };
    assert!(said.contains("phase write: no answer after 2 s from site-1-client-1"), "{said}");
}

/// A mistake in a file costs no run: it is told with its line.
#[test]
fn a_bad_scenario_is_refused_with_its_line() {
    let (files, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let bad = TWO_SITES.replace("core_rtt_ms = 40", "core_rtt = 40");
    let output = lab(out.path(), &[&scenario(files.path(), &bad)]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("scenario.toml:11: ") && said.contains("core_rtt"), "{said}");
}
