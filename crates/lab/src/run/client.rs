//! A client process inside a client host, as the runner holds it.
//!
//! Invariant: dropping it ends the process.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::thread;

use super::error::RunError;
use super::ground::Ground;
use super::talk::{Ask, STOP, Said};
use crate::systems::{Machine, log_tail};

/// Lines of a client that may wait to be read.
const LINES: usize = 64;

/// Which client it is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    /// From 1 over all.
    pub(super) number: u64,
    /// From 0 within its site.
    pub(super) rank: usize,
    /// From 0 within its host.
    pub(super) slot: usize,
}

/// A client.
#[derive(Debug)]
pub(super) struct Client {
    /// From 1 over all.
    pub(super) number: u64,
    /// From 0 within its site.
    pub(super) rank: usize,
    /// Its host.
    pub(super) host: String,
    /// The number of its site.
    pub(super) site: usize,
    /// 0 for the work of steps by themselves, from 1 for that of steps beside them.
    pub(super) slot: usize,
    child: Child,
    stdin: Option<ChildStdin>,
    said: Receiver<String>,
    log: PathBuf,
}

impl Client {
    /// Starts one.
    pub(super) fn start(
        ground: &dyn Ground,
        machine: &Machine,
        Place { number, rank, slot }: Place,
        logs: &Path,
    ) -> Result<Self, RunError> {
        let what = format!("client on {}", machine.host);
        let beside = if slot == 0 { String::new() } else { format!("-{slot}") };
        let log = logs.join(format!("{}-client{beside}.log", machine.host));
        let errors = File::create(&log).map_err(RunError::machine(log.display()))?;
        let program = std::env::current_exe().map_err(RunError::machine(&what))?;
        let mut command = ground.command(&machine.host, &program).map_err(RunError::machine(&what))?;
        command.arg("client").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(errors);
        let mut child = command.spawn().map_err(RunError::machine(&what))?;
        let stdin = child.stdin.take();
        let (line, said) = sync_channel(LINES);
        if let Some(stdout) = child.stdout.take() {
            thread::spawn(move || {
                for text in BufReader::new(stdout).lines().map_while(Result::ok) {
                    if line.send(text).is_err() {
                        break;
                    }
                }
            });
        }
        let (host, site) = (machine.host.clone(), machine.site);
        Ok(Self { number, rank, host, site, slot, child, stdin, said, log })
    }

    /// Gives it work.
    pub(super) fn ask(&mut self, ask: &Ask) -> Result<(), RunError> {
        let text = serde_json::to_string(ask).map_err(|error| self.wrong(error.to_string()))?;
        self.tell(&text)
    }

    /// Asks it to begin no further operation of what it is at.
    pub(super) fn stop(&mut self) -> Result<(), RunError> {
        self.tell(STOP)
    }

    /// Its process.
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Where its log lies.
    pub(super) fn logs(&self) -> &Path {
        self.log.parent().unwrap_or(&self.log)
    }

    fn tell(&mut self, text: &str) -> Result<(), RunError> {
        let Some(stdin) = &mut self.stdin else { return Err(self.wrong("it takes no work".into())) };
        let sent = writeln!(stdin, "{text}").and_then(|()| stdin.flush());
        sent.map_err(|error| self.wrong(error.to_string()))
    }

    /// What it said since the last time; none if nothing.
    pub(super) fn said(&mut self) -> Result<Option<Said>, RunError> {
        match self.said.try_recv() {
            Ok(text) => {
                let said = serde_json::from_str(&text);
                said.map(Some).map_err(|error| self.wrong(format!("it said {text:?}: {error}")))
            }
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => {
                let status =
                    self.child.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
                Err(self.wrong(format!("it ended by itself ({status})")))
            }
        }
    }

    /// An error of this client, with the end of its log.
    pub(super) fn wrong(&self, reason: String) -> RunError {
        let (host, log) = (self.host.clone(), self.log.clone());
        RunError::Client { host, reason, tail: log_tail(&log), log }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // With its input it loses its reason to live; what hangs is killed. Errors mean that it has gone already.
        self.stdin = None;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
