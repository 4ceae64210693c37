//! Why a run ended without a result.

use std::path::PathBuf;

use crate::systems::SystemError;

/// What stood in the way; processes come with the end of their logs.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The scenario cannot be played like this.
    #[error("{0}")]
    Plan(String),
    /// The network could not be built or measured.
    #[error("network: {0}")]
    Network(String),
    /// The system did not start, or died.
    #[error(transparent)]
    System(#[from] SystemError),
    /// A client process died or said what nobody understands.
    #[error("client on {host}: {reason}; the end of {}:\n{tail}", log.display())]
    Client {
        /// Its host.
        host: String,
        /// What happened.
        reason: String,
        /// Its log.
        log: PathBuf,
        /// The end of it.
        tail: String,
    },
    /// A site can not have a processor of its own.
    #[error(
        "the scenario gives a site a processor of its own (own_processor), and that is refused here: {0}"
    )]
    Processor(String),
    /// The machine refuses limits without which the scenario means nothing.
    #[error(
        "the scenario needs each host limited (limits = \"must\") and this machine refuses it: {0}. Run it as root where control groups \
         (v1 with cpu and memory below /sys/fs/cgroup, or v2) can be written"
    )]
    Limits(String),
    /// Where the sites' directories are, their limits would measure something else.
    #[error("{0}")]
    Unfit(String),
    /// A phase took too long.
    #[error(
        "phase {phase}: no answer after {seconds} s from {waiting}; logs of the system end with:\n{tail}"
    )]
    Hung {
        /// The phase.
        phase: String,
        /// How long was waited.
        seconds: u64,
        /// The clients that did not answer.
        waiting: String,
        /// Ends of logs.
        tail: String,
    },
    /// Somebody pressed Ctrl-C, or asked the process to end.
    #[error("interrupted")]
    Interrupted,
    /// A file or process of ours.
    #[error("{0}")]
    Machine(String),
}

impl RunError {
    /// Wraps what the machine said about something.
    pub(super) fn machine(what: impl std::fmt::Display) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.to_string();
        move |error| Self::Machine(format!("{what}: {error}"))
    }
}
