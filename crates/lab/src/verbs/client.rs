//! `skerry-lab client`: carries out asks of the runner from inside a client host.
//!
//! Invariant: it does nothing by itself and ends with its standard input, so that no client outlives its runner.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, BufRead, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use clap::Args;
use skerry_bench::engine;
use skerry_bench::progress::Progress;
use skerry_bench::sample::write_csv;

use super::Ending;
use crate::run::talk::{Ask, STOP, Said};

/// How often it says how far it is.
const PROGRESS: Duration = Duration::from_millis(300);
/// Asks that may wait to be read.
const LINES: usize = 16;

/// Carry out asks (JSON lines) from standard input; the runner starts this inside the client hosts
#[derive(Debug, Args)]
pub struct Client {}

impl Client {
    /// Until standard input ends.
    pub fn run(self) -> Ending {
        let (line, lines) = sync_channel(LINES);
        thread::spawn(move || {
            for text in io::stdin().lock().lines().map_while(Result::ok) {
                if line.send(text).is_err() {
                    break;
                }
            }
        });
        let mut waiting = VecDeque::new();
        while let Some(text) = waiting.pop_front().or_else(|| lines.recv().ok()) {
            if text.trim().is_empty() || text.trim() == STOP {
                continue;
            }
            let last = match serde_json::from_str::<Ask>(&text) {
                Ok(ask) => carry_out(ask, &lines, &mut waiting)?,
                Err(error) => Said::Failed { reason: format!("an ask that nobody understands: {error}") },
            };
            say(&last)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn say(said: &Said) -> Result<(), String> {
    let text = serde_json::to_string(said).map_err(|error| format!("client: {error}"))?;
    let mut out = io::stdout().lock();
    writeln!(out, "{text}").and_then(|()| out.flush()).map_err(|error| format!("client: {error}"))
}

/// Carries out one; what comes meanwhile waits, but for a wish to stop.
fn carry_out(ask: Ask, lines: &Receiver<String>, waiting: &mut VecDeque<String>) -> Result<Said, String> {
    let progress = Arc::new(Progress::default());
    let (done, ended) = sync_channel(1);
    let seen = Arc::clone(&progress);
    let worker = thread::spawn(move || {
        // Nobody listens any more only if this process is about to end.
        let _ = done.send(measured(&ask, &seen));
    });
    let last = loop {
        match ended.recv_timeout(PROGRESS) {
            Ok(last) => break last,
            Err(RecvTimeoutError::Timeout) => {
                for text in lines.try_iter() {
                    if text.trim() == STOP { progress.stop() } else { waiting.push_back(text) }
                }
                let now = progress.read();
                say(&Said::Progress {
                    operations: now.operations,
                    failures: now.failures,
                    bytes: now.bytes,
                })?;
            }
            Err(RecvTimeoutError::Disconnected) => break Said::Failed { reason: "it broke down".into() },
        }
    };
    let _ = worker.join();
    Ok(last)
}

fn measured(ask: &Ask, progress: &Arc<Progress>) -> Said {
    let outcome = ask.target.clone().build().and_then(|target| {
        engine::run_blocking(&ask.plan, target, progress, None).map_err(|error| error.to_string())
    });
    let phase = match outcome.map(|mut outcome| outcome.phases.pop()) {
        Ok(Some(phase)) => phase,
        Ok(None) => return Said::Failed { reason: "an ask without a phase".into() },
        Err(reason) => return Said::Failed { reason },
    };
    let mut csv = Vec::new();
    if let Err(error) = write_csv(&mut csv, &phase.samples) {
        return Said::Failed { reason: error.to_string() };
    }
    let examples: BTreeMap<String, String> =
        phase.examples.iter().map(|(code, story)| (code.to_string(), story.clone())).collect();
    let csv = String::from_utf8_lossy(&csv).into_owned();
    Said::Done { started_wall_ms: phase.started_wall_ms, seconds: phase.seconds, csv, examples }
}
