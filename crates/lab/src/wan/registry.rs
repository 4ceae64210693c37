//! What a run has made, written down where `skerry-lab clean` finds it after a crash.
//!
//! One directory per run: `lab` (number and start time of the lab's process), `processes` (one line each),
//! `paths` (files to remove). Networks need no line: they vanish with the lab's process. A guard, a second
//! process, cleans at once when the lab dies; `clean` is for the day when both were killed.
//!
//! Invariant: a run whose lab still lives is not touched by anyone but itself.

use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::sys;

/// Ended processes are waited for so long.
const END_WITHIN: Duration = Duration::from_secs(5);
/// Looks for processes before giving up, and looks that must find none.
const SWEEPS_MAX: u32 = 100;
const SWEEPS_QUIET: u32 = 3;
const BETWEEN_SWEEPS: Duration = Duration::from_millis(5);
const RUNS_MAX: u32 = 1000;

/// One run's directory; what the run made goes when it is dropped.
#[derive(Debug)]
pub(crate) struct Run {
    id: String,
    directory: PathBuf,
    /// What `/proc/<process>/ns/net` of a process in one of its hosts points to; true as long as the run lasts.
    networks: Vec<PathBuf>,
}

/// What was removed.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Cleaned {
    /// Runs whose lab was dead.
    pub runs: u32,
    /// Processes that were ended.
    pub processes: u32,
    /// Files and directories that were removed.
    pub paths: u32,
    /// What could not be removed.
    pub failures: Vec<String>,
}

impl Run {
    /// Begins a run of this process.
    pub(crate) fn begin() -> io::Result<Self> {
        let process = std::process::id();
        let started = sys::start_time(process).ok_or_else(|| io::Error::other("/proc is not readable"))?;
        let mut error = io::Error::other("no place for the lab's register");
        for base in bases() {
            for number in 0..RUNS_MAX {
                let id = format!("{process}-{started}-{number}");
                let directory = base.join(&id);
                match fs::create_dir_all(&base).and_then(|()| fs::create_dir(&directory)) {
                    Ok(()) => {
                        fs::write(directory.join("processes"), "")?;
                        fs::write(directory.join("paths"), "")?;
                        return Ok(Self { id, directory, networks: Vec::new() });
                    }
                    Err(failure) if failure.kind() == io::ErrorKind::AlreadyExists => {}
                    Err(failure) => {
                        error = io::Error::new(failure.kind(), format!("{}: {failure}", base.display()));
                        break;
                    }
                }
            }
        }
        Err(error)
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Whoever is in one of these namespaces is of this run. They must outlive it.
    pub(crate) fn set_networks(&mut self, networks: Vec<PathBuf>) {
        self.networks = networks;
    }

    /// A file or directory that goes with the run.
    pub(crate) fn own(&self, path: &Path) -> io::Result<()> {
        append(&self.directory.join("paths"), &std::path::absolute(path)?.to_string_lossy())
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let mut cleaned = Cleaned::default();
        end(&self.directory, &self.id, &self.networks, &mut cleaned);
        for failure in cleaned.failures {
            eprintln!("skerry-lab: {failure}");
        }
    }
}

/// Where runs are registered: the first that can be written.
fn bases() -> Vec<PathBuf> {
    let mut bases = vec![PathBuf::from("/run/skerry-lab")];
    bases.extend(
        std::env::var_os("XDG_RUNTIME_DIR").map(|directory| Path::new(&directory).join("skerry-lab")),
    );
    bases.push(std::env::temp_dir().join(format!("skerry-lab-{}", outer_user())));
    bases
}

/// The user outside of a user namespace.
fn outer_user() -> u32 {
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let mapped = map.split_whitespace().nth(1).and_then(|word| word.parse().ok());
    match mapped {
        Some(0) | None => rustix::process::geteuid().as_raw(),
        Some(user) => user,
    }
}

/// Registers the calling process; fails if the run is over.
pub(crate) fn enlist(run: &Path, host: &str, program: &str) -> io::Result<()> {
    let process = std::process::id();
    let started = sys::start_time(process).ok_or_else(|| io::Error::other("/proc is not readable"))?;
    append(&run.join("processes"), &format!("{process} {started} {host} {program}"))
}

/// One line in one write, to a file that must be there.
fn append(path: &Path, line: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().append(true).open(path)?;
    file.write_all(format!("{}\n", line.replace('\n', " ")).as_bytes())
}

/// Waits until the lab is gone, then removes what its run left.
pub(crate) fn guard(run: &Path) -> io::Result<()> {
    let mut rest = Vec::new();
    io::stdin().lock().read_to_end(&mut rest)?;
    let id = run.file_name().unwrap_or_default().to_string_lossy().into_owned();
    // The pipe closes a moment before the lab's process is gone. A run that ended well has no directory any more.
    let until = Instant::now() + END_WITHIN;
    while run.exists() && Instant::now() < until {
        if !is_alive(&id) {
            end(run, &id, &[], &mut Cleaned::default());
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

/// Removes what dead runs left. Living ones are not touched.
pub fn clean() -> Cleaned {
    let mut cleaned = Cleaned::default();
    for base in bases() {
        let Ok(entries) = fs::read_dir(&base) else { continue };
        for directory in entries.filter_map(|entry| Some(entry.ok()?.path())) {
            let id = directory.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if !is_alive(&id) {
                cleaned.runs += 1;
                end(&directory, &id, &[], &mut cleaned);
            }
        }
        // Only an empty one goes.
        let _ = fs::remove_dir(&base);
    }
    sweep(|run| !is_alive(run), &[], &mut cleaned);
    cleaned
}

/// Whether the lab of a run still lives, by the run's name.
fn is_alive(id: &str) -> bool {
    let mut parts = id.split('-').map(str::parse::<u64>);
    let (Some(Ok(process)), Some(Ok(started))) = (parts.next(), parts.next()) else { return false };
    u32::try_from(process).is_ok_and(|process| sys::start_time(process) == Some(started))
}

/// Ends a run's processes, removes its files, then its directory.
fn end(directory: &Path, id: &str, networks: &[PathBuf], cleaned: &mut Cleaned) {
    let listed = fs::read_to_string(directory.join("processes")).unwrap_or_default();
    let paths = fs::read_to_string(directory.join("paths")).unwrap_or_default();
    // Nobody can enlist any more.
    let _ = fs::remove_file(directory.join("processes"));
    end_processes(listed.lines().filter_map(process_of), cleaned);
    sweep(|run| run == id, networks, cleaned);
    for path in paths.lines().map(Path::new) {
        remove(path, cleaned);
    }
    if let Err(error) = fs::remove_dir_all(directory)
        && error.kind() != io::ErrorKind::NotFound
    {
        cleaned.failures.push(format!("{}: {error}", directory.display()));
    }
    if let Some(base) = directory.parent() {
        let _ = fs::remove_dir(base);
    }
}

/// Ends who carries the mark of such a run or is in its networks, and who was born meanwhile, until nobody is left.
fn sweep(is_theirs: impl Fn(&str) -> bool, networks: &[PathBuf], cleaned: &mut Cleaned) {
    let mut quiet = 0;
    for _ in 0..SWEEPS_MAX {
        let marked = sys::marked().into_iter().filter(|(_, _, run)| is_theirs(run));
        let mut found: Vec<_> = marked.map(|(process, started, _)| (process, started)).collect();
        found.extend(sys::inside(networks));
        // A process that is becoming another program shows no mark for a moment: without networks look again.
        quiet = if found.is_empty() { quiet + 1 } else { 0 };
        if quiet > 0 && !networks.is_empty() || quiet == SWEEPS_QUIET {
            return;
        }
        end_processes(found.into_iter(), cleaned);
        std::thread::sleep(BETWEEN_SWEEPS);
    }
}

fn process_of(line: &str) -> Option<(u32, u64)> {
    let mut words = line.split(' ');
    Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?))
}

fn end_processes(processes: impl Iterator<Item = (u32, u64)>, cleaned: &mut Cleaned) {
    let ended: Vec<_> = processes.filter(|(process, started)| sys::kill_if(*process, *started)).collect();
    cleaned.processes += ended.len() as u32;
    if !sys::await_end(&ended, END_WITHIN) {
        cleaned.failures.push("processes of the run did not end within 5 s".into());
    }
}

fn remove(path: &Path, cleaned: &mut Cleaned) {
    let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    match removed {
        Ok(()) => cleaned.paths += 1,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => cleaned.failures.push(format!("{}: {error}", path.display())),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::sync::{Mutex, MutexGuard, PoisonError};

    use super::*;

    /// One at a time: to clean is to end what any dead run has left on this machine, so that of the other test too.
    fn cleaning() -> MutexGuard<'static, ()> {
        static ONE: Mutex<()> = Mutex::new(());
        ONE.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[test]
    fn a_run_is_alive_as_long_as_its_lab() {
        let own = std::process::id();
        let started = sys::start_time(own).unwrap();
        assert!(is_alive(&format!("{own}-{started}-0")));
        assert!(!is_alive(&format!("{own}-{}-0", started + 1)));
        assert!(!is_alive("nonsense") && !is_alive(""));
    }

    #[test]
    fn a_run_takes_its_files_with_it() {
        let _alone = cleaning();
        let run = Run::begin().unwrap();
        let directory = run.directory().to_owned();
        let file = std::env::temp_dir().join(format!("skerry-lab-test-{}", run.id()));
        fs::write(&file, "x").unwrap();
        run.own(&file).unwrap();
        clean();
        assert!(directory.exists() && file.exists(), "a living run is not touched");
        drop(run);
        assert!(!directory.exists() && !file.exists());
        assert!(enlist(&directory, "a-1", "late").is_err());
    }

    #[test]
    fn clean_finishes_what_a_dead_lab_and_a_dead_guard_left() {
        let _alone = cleaning();
        // No process has this number, so the run's lab is dead.
        let id = format!("{}-{}-0", u32::MAX, std::process::id());
        let living = Run::begin().unwrap();
        let directory = living.directory().with_file_name(&id);
        fs::create_dir(&directory).unwrap();
        let file = std::env::temp_dir().join(format!("skerry-lab-test-{id}"));
        fs::write(&file, "x").unwrap();
        let sleep = || std::process::Command::new("sleep").arg("300").env(sys::MARK, &id).spawn().unwrap();
        let (mut listed, mut marked) = (sleep(), sleep());
        let started = sys::start_time(listed.id()).unwrap();
        fs::write(directory.join("processes"), format!("{} {started} a-1 sleep\n", listed.id())).unwrap();
        fs::write(directory.join("paths"), format!("{}\n", file.display())).unwrap();
        let cleaned = clean();
        assert!(!directory.exists() && !file.exists());
        assert!(cleaned.failures.is_empty(), "{:?}", cleaned.failures);
        assert!(!listed.wait().unwrap().success() && !marked.wait().unwrap().success());
        assert!(living.directory().exists());
    }
}
