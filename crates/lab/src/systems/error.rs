//! Why a system did not start, or does not run any more.
//!
//! Invariant: whatever a process of the system has to do with comes with the end of that process's log.

use std::path::Path;

/// What stood in the way.
#[derive(Debug, thiserror::Error)]
pub enum SystemError {
    /// The file asks for something that is not there.
    #[error("{file}: {reason}")]
    File {
        /// The system file.
        file: String,
        /// What is wrong with it here.
        reason: String,
    },
    /// A program is not installed.
    #[error("{system}: no program {program}: tried {tried}{hint}")]
    NoProgram {
        /// The system.
        system: String,
        /// The program, as the file calls it.
        program: String,
        /// Where it was looked for.
        tried: String,
        /// How to get it.
        hint: String,
    },
    /// A step failed.
    #[error("{system}: {step} on {host}: {reason}{}", tail(log))]
    Step {
        /// The system.
        system: Box<str>,
        /// What was to be done.
        step: Box<str>,
        /// Where.
        host: Box<str>,
        /// What went wrong.
        reason: Box<str>,
        /// The end of what was said.
        log: Box<str>,
    },
    /// A process ended by itself.
    #[error("{system}: {process} on {host} ended by itself ({status}); the end of {}:\n{log}", path.display())]
    Died {
        /// The system.
        system: Box<str>,
        /// What the file calls the process.
        process: Box<str>,
        /// Where it ran.
        host: Box<str>,
        /// How it ended.
        status: Box<str>,
        /// Its log.
        path: Box<Path>,
        /// The end of its log.
        log: Box<str>,
    },
    /// The machine refused something of ours.
    #[error("{what}: {error}")]
    Machine {
        /// What was to be done.
        what: String,
        /// What it said.
        error: std::io::Error,
    },
}

fn tail(log: &str) -> String {
    if log.is_empty() { String::new() } else { format!("; it said:\n{log}") }
}

impl SystemError {
    /// Wraps what the machine said.
    pub(crate) fn machine(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.into();
        move |error| Self::Machine { what, error }
    }
}
