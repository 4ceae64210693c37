//! What the lab asks of the system: a world of its own without a way out, and processes that it can end again.
//!
//! Invariants: after [`isolate`] the lab and all that it starts live where no device leads outside; a process is
//! ended only if it is certainly one of ours: number and start time agree, or it carries the mark of a dead run.

use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use nix::sched::{CloneFlags, unshare};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, pidfd_send_signal};

use crate::wan::registry;

/// First argument of a process that is about to enter a host.
pub(crate) const ENTER: &str = "__enter";
/// First argument of the process that cleans up when the lab is gone.
pub(crate) const GUARD: &str = "__guard";
/// Variable that every process in a host carries.
pub(crate) const MARK: &str = "SKERRY_LAB_RUN";

/// Why the lab can not have a world of its own.
#[derive(Debug, thiserror::Error)]
pub enum IsolationError {
    /// Neither root nor a user namespace.
    #[error(
        "the lab needs root or an unprivileged user namespace, and has neither ({0}); as root: run it as root; \
         else allow user namespaces (sysctl user.max_user_namespaces above 0, and where they exist \
         kernel.unprivileged_userns_clone=1, kernel.apparmor_restrict_unprivileged_userns=0)"
    )]
    NoNamespaces(io::Error),
    /// Namespaces, but no TUN devices.
    #[error("the lab can not open /dev/net/tun ({0}): load the module tun and give this user read and write")]
    NoTun(io::Error),
    /// Something else.
    #[error("the lab can not prepare its namespace: {0}")]
    Other(#[from] io::Error),
}

/// Moves this process into a network namespace that has loopback only, and into a user namespace if it is not
/// root. Call it first in `main`: threads that run already stay where they are.
pub fn isolate() -> Result<(), IsolationError> {
    let user = rustix::process::geteuid().as_raw();
    let group = rustix::process::getegid().as_raw();
    if unshare(CloneFlags::CLONE_NEWNET).is_err() {
        let both = CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNET;
        unshare(both).map_err(|error| IsolationError::NoNamespaces(error.into()))?;
        fs::write("/proc/self/setgroups", "deny")?;
        fs::write("/proc/self/uid_map", format!("0 {user} 1")).map_err(IsolationError::NoNamespaces)?;
        fs::write("/proc/self/gid_map", format!("0 {group} 1")).map_err(IsolationError::NoNamespaces)?;
    }
    fs::OpenOptions::new().read(true).write(true).open("/dev/net/tun").map_err(IsolationError::NoTun)?;
    crate::wan::loopback_up()?;
    Ok(())
}

/// Whether the calling thread is where nothing but loopback exists.
pub fn is_isolated() -> bool {
    let devices = fs::read_to_string("/proc/thread-self/net/dev").unwrap_or_default();
    let mut names = devices.lines().skip(2).filter_map(|line| line.split(':').next());
    !devices.is_empty() && names.all(|name| name.trim() == "lo")
}

/// The lab starts itself again to enter a host or to guard a run; `main` asks this before anything else.
/// Nothing comes back if this process was started to enter a host.
pub fn enter_if_asked() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    let word = arguments.next()?;
    let given: Vec<_> = arguments.collect();
    let paths: Vec<&Path> = given.iter().map(Path::new).collect();
    let ending = if word == GUARD {
        let [run] = paths.as_slice() else { return Some(usage()) };
        registry::guard(run)
    } else if word == ENTER {
        let [namespace, run, host, program, rest @ ..] = paths.as_slice() else { return Some(usage()) };
        enter(namespace, run, host, Command::new(program).args(rest))
    } else {
        return None;
    };
    Some(ending.map_or_else(
        |error| {
            eprintln!("skerry-lab: {error}");
            ExitCode::from(126)
        },
        |()| ExitCode::SUCCESS,
    ))
}

fn usage() -> ExitCode {
    eprintln!("skerry-lab: {ENTER} and {GUARD} are for the lab itself");
    ExitCode::from(2)
}

/// Enters a host's network, registers, becomes the program.
fn enter(namespace: &Path, run: &Path, host: &Path, program: &mut Command) -> io::Result<()> {
    let name = program.get_program().to_string_lossy().into_owned();
    let about = |what: &str| {
        let what = what.to_owned();
        move |error: io::Error| io::Error::new(error.kind(), format!("{}: {what}: {error}", host.display()))
    };
    let namespace = fs::File::open(namespace).map_err(about("its network is gone"))?;
    crate::wan::enter(&namespace).map_err(about("can not enter its network"))?;
    registry::enlist(run, &host.to_string_lossy(), &name).map_err(about("its run is over"))?;
    drop(namespace);
    Err(about(&format!("can not start {name}"))(program.exec()))
}

/// Ends a process group that [`crate::wan::Wan::command`] started, by the number of its first process.
pub fn kill_group(process: u32) {
    if let Some(group) = i32::try_from(process).ok().and_then(Pid::from_raw) {
        // It may have ended by itself.
        let _ = kill_process_group(group, Signal::KILL);
    }
}

/// When a process started, in ticks since boot; none if there is none or it is a zombie.
pub fn start_time(process: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let (_, after_name) = text.rsplit_once(") ")?;
    let mut fields = after_name.split(' ');
    if fields.next()? == "Z" {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

/// Ends a process and its group if it is the one that started then; whether it was.
pub(crate) fn kill_if(process: u32, started: u64) -> bool {
    let Some(pid) = i32::try_from(process).ok().and_then(Pid::from_raw) else { return false };
    // The descriptor holds this process, so the number can not become another's between the look and the kill.
    let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else { return false };
    if start_time(process) != Some(started) {
        return false;
    }
    let _ = kill_process_group(pid, Signal::KILL);
    pidfd_send_signal(&handle, Signal::KILL).is_ok()
}

/// Processes that carry a mark: number, start time, run. One that is just becoming another program shows none.
pub(crate) fn marked() -> Vec<(u32, u64, String)> {
    let prefix = format!("{MARK}=");
    let mark_of = |process: u32| {
        let environment = fs::read(format!("/proc/{process}/environ")).ok()?;
        let mut variables = environment.split(|byte| *byte == 0);
        let mark = variables.find_map(|variable| variable.strip_prefix(prefix.as_bytes()))?;
        Some((process, start_time(process)?, String::from_utf8_lossy(mark).into_owned()))
    };
    processes().into_iter().filter_map(mark_of).collect()
}

/// Processes whose first thread is in one of these network namespaces: number, start time.
pub(crate) fn inside(networks: &[PathBuf]) -> Vec<(u32, u64)> {
    let is_inside = |process: &u32| {
        fs::read_link(format!("/proc/{process}/ns/net")).is_ok_and(|network| networks.contains(&network))
    };
    processes()
        .into_iter()
        .filter(is_inside)
        .filter_map(|process| Some((process, start_time(process)?)))
        .collect()
}

fn processes() -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// Waits until all of them are gone, at most so long; whether they are.
pub(crate) fn await_end(processes: &[(u32, u64)], at_most: Duration) -> bool {
    let until = Instant::now() + at_most;
    loop {
        if processes.iter().all(|(process, started)| start_time(*process) != Some(*started)) {
            return true;
        }
        if Instant::now() > until {
            return false;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_a_start_time_until_it_ends() {
        let own = std::process::id();
        assert_eq!(start_time(own), start_time(own));
        assert!(start_time(own).is_some_and(|ticks| ticks > 0));
        assert_eq!(start_time(u32::MAX), None);
    }

    #[test]
    fn nobody_is_ended_who_started_at_another_time() {
        let own = std::process::id();
        let started = start_time(own).unwrap_or_default();
        assert!(!kill_if(own, started + 1));
        assert!(!kill_if(u32::MAX, 1));
        assert!(!kill_if(0, 0));
    }
}
