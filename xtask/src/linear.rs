//! `cargo xtask linear`: histories of conditional operations from the simulator, judged by a checker that is not ours
//! (porcupine, in `crates/sim/linear`). It needs Go; without it the whole is skipped, and said so.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::run;

/// Seeds of a run that nobody sized.
const SEEDS: u64 = 200;
/// Seeds that the tests take: of a debug build.
const TESTED: u64 = 60;
/// Seeds in which the mistake must show.
const MISTAKEN: &str = "12";
/// Histories beside the program that it must refuse.
const REFUSED: [&str; 3] = ["twice.jsonl", "stale.jsonl", "missed.jsonl"];

/// What it came to.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) passed: usize,
    pub(crate) failed: Vec<String>,
    pub(crate) skipped: Vec<String>,
}

/// The verb: `cargo xtask linear [SEEDS [FIRST]]`.
pub(crate) fn command(arguments: &[String]) -> Result<(), String> {
    let number = |at: usize, otherwise: u64| {
        let found = arguments.get(at).map(|word| word.parse());
        found.unwrap_or(Ok(otherwise)).map_err(|_| "cargo xtask linear [SEEDS [FIRST]]".to_owned())
    };
    let (seeds, first) = (number(0, SEEDS)?, number(1, 0)?);
    run::show(&mut run::cargo(&["build", "--locked", "--package", "skerry-sim"]))?;
    let tally = judge(seeds, first)?;
    tally.skipped.iter().for_each(|reason| println!("skipped: {reason}"));
    if tally.failed.is_empty() { Ok(()) } else { Err(tally.failed.join("; ")) }
}

/// As many seeds as the tests take, from the simulator that they have built.
pub(crate) fn tested() -> Result<Tally, String> {
    judge(TESTED, 0)
}

fn judge(seeds: u64, first: u64) -> Result<Tally, String> {
    let mut tally = Tally::default();
    let checker = match checker() {
        Ok(checker) => checker,
        Err(reason) => {
            tally.skipped.push(format!("linear: {reason}"));
            return Ok(tally);
        }
    };
    let beside = run::root().join("crates/sim/linear");
    tally.note("a good history is accepted", verdict(&checker, &beside.join("good.jsonl"))? == Some(0));
    for name in REFUSED {
        let refused = verdict(&checker, &beside.join(name))? == Some(1);
        tally.note(&format!("{name} is refused"), refused);
    }
    let mistaken = histories("two-homes", &["--seeds", MISTAKEN, "--start", "1000", "--two-homes"])?;
    tally.note("two homes are found", verdict(&checker, &mistaken)? == Some(1));
    let (count, start) = (seeds.to_string(), first.to_string());
    let recorded = histories("seeds", &["--seeds", &count, "--start", &start])?;
    let status = Command::new(&checker).arg(&recorded).status();
    let status = status.map_err(|error| format!("{}: {error}", checker.display()))?;
    tally.note(&format!("{seeds} seeds from {first} are linearizable, key by key"), status.success());
    Ok(tally)
}

impl Tally {
    fn note(&mut self, what: &str, ok: bool) {
        println!("{} linear: {what}", if ok { "ok  " } else { "FAIL" });
        if ok { self.passed += 1 } else { self.failed.push(format!("linear: {what}")) }
    }
}

fn directory() -> PathBuf {
    run::target().join("linear")
}

/// Builds the checker; Go fetches porcupine once, by the sum that is written down.
fn checker() -> Result<PathBuf, String> {
    let program = directory().join("linear");
    if !run::succeeds(Command::new("go").arg("version")) {
        return Err("Go is not installed; apt install golang-go".into());
    }
    let mut build = Command::new("go");
    build.args(["build", "-o"]).arg(&program).arg(".");
    build.current_dir(run::root().join("crates/sim/linear"));
    run::show(&mut build).map_err(|reason| format!("{reason}: the checker cannot be fetched or built"))?;
    Ok(program)
}

/// What the simulator records with these arguments, as a file.
fn histories(name: &str, arguments: &[&str]) -> Result<PathBuf, String> {
    let path = directory().join(format!("{name}.jsonl"));
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    std::fs::create_dir_all(directory()).map_err(failed)?;
    let file = File::create(&path).map_err(failed)?;
    let simulator = run::target().join("debug/skerry-sim");
    run::show(Command::new(simulator).arg("histories").args(arguments).stdout(file))?;
    Ok(path)
}

/// The checker's exit code on a history; what it prints is dropped.
fn verdict(checker: &Path, history: &Path) -> Result<Option<i32>, String> {
    let status = Command::new(checker).arg(history).stdout(Stdio::null()).status();
    Ok(status.map_err(|error| format!("{}: {error}", checker.display()))?.code())
}
