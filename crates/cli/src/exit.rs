//! Exit codes and failures: the one place that says what a code means. Scripts rely on it; never reuse one.

use std::process::ExitCode;

/// What a run came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    /// Done.
    Done = 0,
    /// It did not work; the message says why.
    Failed = 1,
    /// The command line, or the configuration it names, is wrong.
    Usage = 2,
    /// Nobody answered in time.
    Unreachable = 3,
    /// Some sites did it, some did not; or some operations of a load.
    Partial = 4,
    /// It was understood and refused, or names what is not known where it was asked.
    Refused = 5,
}

impl Exit {
    /// All of them, for the reference.
    pub(crate) const ALL: [Self; 6] =
        [Self::Done, Self::Failed, Self::Usage, Self::Unreachable, Self::Partial, Self::Refused];

    /// The word for it in JSON.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Usage => "usage",
            Self::Unreachable => "unreachable",
            Self::Partial => "partial",
            Self::Refused => "refused",
        }
    }

    /// One line for the reference.
    pub(crate) const fn meaning(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "it did not work; the message says why",
            Self::Usage => "the command line, or the configuration it names, is wrong",
            Self::Unreachable => "nobody answered in time",
            Self::Partial => "some sites did it, some did not; or, of many operations, some failed",
            Self::Refused => {
                "understood and refused: not allowed, not confirmed, in use, in conflict, or about a site, bucket or key that is not known there"
            }
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Why a verb ended without its result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    /// The code.
    pub(crate) exit: Exit,
    /// What happened and what to do, for a person.
    pub(crate) message: String,
}

impl Failure {
    /// It did not work.
    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self { exit: Exit::Failed, message: message.into() }
    }

    /// The command line or configuration is wrong.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self { exit: Exit::Usage, message: message.into() }
    }

    /// Nobody answered.
    pub(crate) fn unreachable(message: impl Into<String>) -> Self {
        Self { exit: Exit::Unreachable, message: message.into() }
    }

    /// Understood and refused.
    pub(crate) fn refused(message: impl Into<String>) -> Self {
        Self { exit: Exit::Refused, message: message.into() }
    }
}

/// What verbs return.
pub(crate) type Outcome<T = Exit> = Result<T, Failure>;
