//! The journeys of real clients: Python scripts in `journeys/`, run in a virtual environment under `target/`
//! against the demo's real processes.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{prerequisites, run};

/// What the journeys came to.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
    /// The journeys that these checks are of.
    pub(crate) of: Vec<String>,
    /// One reason each.
    pub(crate) skipped: Vec<String>,
}

/// Which binary the journeys drive.
#[derive(PartialEq, Eq)]
pub(crate) enum Binary {
    /// The one that the tests of the workspace have just built.
    Tested,
    /// One built now.
    Built,
}

/// The product as the tests of the workspace build it.
pub(crate) fn tested() -> PathBuf {
    run::target().join("debug/skerry")
}

/// Runs the journeys; arguments go to `journeys/run.py`.
pub(crate) fn run(arguments: &[String], binary: Binary) -> Result<Tally, String> {
    let mut tally = Tally::default();
    let python = match environment() {
        Ok(python) => python,
        Err(reason) => {
            tally.skipped.push(format!("client journeys: {reason}"));
            return Ok(tally);
        }
    };
    if binary == Binary::Built {
        run::show(&mut run::cargo(&["build", "--locked", "--package", "skerry-cli"]))?;
    }
    let mut command = script(&python, "run.py", &tested());
    if let Some(aws) = prerequisites::aws_v2() {
        command.args(["--aws2", aws]);
    }
    let mut closed = false;
    let succeeded = run::watch(command.args(arguments), |line| closed |= note(&mut tally, line))?;
    if !closed || (!succeeded && tally.failed == 0) {
        tally.failed += 1;
    }
    Ok(tally)
}

/// Reads `skip WHAT: reason`, `failed journeys: NAME…` and the closing line; says whether this was the latter.
fn note(tally: &mut Tally, line: &str) -> bool {
    if let Some(reason) = line.strip_prefix("skip ") {
        tally.skipped.push(reason.to_owned());
    }
    if let Some(names) = line.strip_prefix("failed journeys: ") {
        tally.of = names.split(' ').map(str::to_owned).collect();
    }
    let Some((passed, failed)) = closing(line) else { return false };
    tally.passed = passed;
    tally.failed = failed;
    true
}

/// `N passed, M failed` and what may follow.
fn closing(line: &str) -> Option<(usize, usize)> {
    let mut parts = line.split(", ");
    let passed = parts.next()?.strip_suffix(" passed")?.parse().ok()?;
    let failed = parts.next()?.strip_suffix(" failed")?.parse().ok()?;
    Some((passed, failed))
}

/// The verb.
pub(crate) fn command(arguments: &[String]) -> Result<(), String> {
    prerequisites::check()?;
    let arguments: Vec<String> = arguments.iter().filter(|argument| *argument != "--").cloned().collect();
    let tally = run(&arguments, Binary::Built)?;
    for reason in &tally.skipped {
        println!("skipped: {reason}");
    }
    if tally.failed == 0 { Ok(()) } else { Err(format!("{} checks of the journeys failed", tally.failed)) }
}

/// `cargo xtask measure`: the figures, of a release build.
pub(crate) fn measure(arguments: &[String]) -> Result<(), String> {
    prerequisites::check()?;
    let python = environment()?;
    run::show(&mut run::cargo(&["build", "--release", "--locked", "--package", "skerry-cli"]))?;
    let arguments: Vec<&String> = arguments.iter().filter(|argument| *argument != "--").collect();
    run::show(script(&python, "measure.py", &run::target().join("release/skerry")).args(arguments))
}

/// Journeys against a binary of another kind of machine, whose shared objects lie below `libraries`.
pub(crate) fn emulated(names: &[String], binary: &Path, libraries: &str) -> Result<(), String> {
    prerequisites::check()?;
    let python = environment()?;
    run::show(script(&python, "run.py", binary).args(names).env("QEMU_LD_PREFIX", libraries))
}

fn script(python: &Path, name: &str, binary: &Path) -> Command {
    let mut command = Command::new(python);
    command.arg(run::root().join("journeys").join(name)).arg("--binary").arg(binary);
    command
        .arg("--work")
        .arg(run::target().join("journeys"))
        .env("PYTHONUNBUFFERED", "1")
        .current_dir(run::root());
    command
}

/// The Python of an environment that holds what `journeys/requirements.txt` asks for; made once, and again
/// when the file changes.
fn environment() -> Result<PathBuf, String> {
    let directory = run::target().join("journeys/venv");
    let (python, stamp) = (directory.join("bin/python"), directory.join("requirements.txt"));
    let list = run::root().join("journeys/requirements.txt");
    let wanted = std::fs::read_to_string(&list).map_err(|error| format!("{}: {error}", list.display()))?;
    if std::fs::read_to_string(&stamp).is_ok_and(|found| found == wanted) {
        return Ok(python);
    }
    println!("making {}", directory.display());
    run::show(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&directory))
        .map_err(|reason| format!("{reason}; apt install python3 python3-venv"))?;
    let quiet = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement"];
    run::show(Command::new(&python).args(quiet).arg(&list))?;
    std::fs::write(&stamp, wanted).map_err(|error| format!("{}: {error}", stamp.display()))?;
    Ok(python)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closing_line_is_read() {
        let mut tally = Tally::default();
        assert!(!note(&mut tally, "ok   aws1 buckets"));
        assert!(!note(&mut tally, "skip aws2: not installed"));
        assert!(!note(&mut tally, "failed journeys: nodes again"));
        assert_eq!(tally.of, ["nodes", "again"]);
        assert!(note(&mut tally, "12 passed, 3 failed, 1 skipped"));
        assert_eq!((tally.passed, tally.failed), (12, 3));
        assert_eq!(tally.skipped, ["aws2: not installed"]);
    }
}
