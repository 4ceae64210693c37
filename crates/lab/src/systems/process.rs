//! One process of a system: started in a group of its own, watched, stopped by its id.
//!
//! Invariants: standard output and error go to its log; dropping it ends the whole group and waits for it, so
//! that nothing outlives a run; a signal goes only to a group whose leader we started and have not yet reaped.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use super::usage;

/// How often a process that is to end is looked at.
const POLL: Duration = Duration::from_millis(10);
/// What a group has after SIGKILL before it is left to the kernel.
const KILLED: Duration = Duration::from_secs(5);

/// A running process.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) pid: u32,
    pub(super) log: PathBuf,
    child: Child,
    ended: Option<ExitStatus>,
}

impl Process {
    /// Starts a command; what it says is appended to the log.
    pub(super) fn start(mut command: Command, log: &Path, hold_stdin: bool) -> io::Result<Self> {
        use std::os::unix::process::CommandExt;
        let out = OpenOptions::new().create(true).append(true).open(log)?;
        let beside = out.try_clone()?;
        let stdin = if hold_stdin { Stdio::piped() } else { Stdio::null() };
        let child = command.stdin(stdin).stdout(out).stderr(beside).process_group(0).spawn()?;
        Ok(Self { pid: child.id(), log: log.to_path_buf(), child, ended: None })
    }

    /// Runs a command to its end; what it prints goes to `out`, what it complains of to `log`.
    pub(super) fn run(mut command: Command, out: &Path, log: &Path, within: Duration) -> io::Result<Ran> {
        use std::os::unix::process::CommandExt;
        let said = OpenOptions::new().create(true).append(true).open(log)?;
        let command = command.stdin(Stdio::null()).stdout(File::create(out)?).stderr(said).process_group(0);
        let child = command.spawn()?;
        let mut process = Self { pid: child.id(), log: log.to_path_buf(), child, ended: None };
        Ok(match process.wait(Instant::now() + within) {
            Some(status) => Ran::Ended(status),
            None => Ran::TooLong,
        })
    }

    /// How it ended, if it has.
    pub(super) fn ended(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().ok().flatten();
        }
        self.ended
    }

    /// Waits for its end, but not beyond a moment.
    pub(super) fn wait(&mut self, by: Instant) -> Option<ExitStatus> {
        loop {
            if let Some(status) = self.ended() {
                return Some(status);
            }
            if Instant::now() >= by {
                return None;
            }
            std::thread::sleep(POLL);
        }
    }

    /// Asks the group to stop.
    pub(super) fn tell(&mut self) {
        drop(self.child.stdin.take());
        self.signal(Signal::TERM);
    }

    /// Ends the group.
    pub(super) fn kill(&mut self) {
        self.signal(Signal::KILL);
        self.wait(Instant::now() + KILLED);
    }

    fn signal(&mut self, signal: Signal) {
        // Until the leader is reaped nobody else can have its id; afterwards only members of its group keep it.
        let ours = self.ended().is_none() || !usage::members(&[self.pid]).is_empty();
        if let Some(group) = i32::try_from(self.pid).ok().and_then(Pid::from_raw).filter(|_| ours) {
            // It may have ended in between.
            let _ = kill_process_group(group, signal);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// How a command went.
#[derive(Debug)]
pub(super) enum Ran {
    /// It ended.
    Ended(ExitStatus),
    /// It did not end in time and was ended.
    TooLong,
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn dropping_a_process_ends_its_children_too() {
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("log");
        let process = Process::start(shell("sleep 300 & sleep 300 & echo up; wait"), &log, false).unwrap();
        let group = process.pid;
        let by = Instant::now() + Duration::from_secs(10);
        while std::fs::read_to_string(&log).unwrap() != "up\n" {
            assert!(Instant::now() < by, "no word within 10 s");
            std::thread::yield_now();
        }
        assert_eq!(usage::members(&[group]).len(), 3);
        drop(process);
        while !usage::members(&[group]).is_empty() {
            assert!(Instant::now() < by, "children outlive their leader");
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_command_that_hangs_is_ended() {
        let directory = tempfile::tempdir().unwrap();
        let (out, log) = (directory.path().join("out"), directory.path().join("log"));
        let ran =
            Process::run(shell("echo some; sleep 300"), &out, &log, Duration::from_millis(100)).unwrap();
        assert!(matches!(ran, Ran::TooLong));
        let ran = Process::run(shell("echo all; exit 3"), &out, &log, Duration::from_secs(10)).unwrap();
        assert!(matches!(ran, Ran::Ended(status) if status.code() == Some(3)));
        assert_eq!(std::fs::read_to_string(&out).unwrap(), "all\n");
    }
}
