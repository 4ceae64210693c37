//! Small words that both targets use to say what came of an operation.

use std::time::Instant;

use skerry_bench::body::Checker;
use skerry_bench::plan::Verify;
use skerry_bench::target::{Ask, Done, Failure, WRONG_BYTES, WRONG_LENGTH};

/// What a failed exchange is called when the system itself said nothing.
pub(super) const BROKEN: &str = "broken";
/// What is counted when a system has no such operation.
pub(super) const UNSUPPORTED: &str = "unsupported";

/// An operation that the system has no word for.
pub(super) fn unsupported(what: &str) -> Failure {
    Failure::new(UNSUPPORTED, format!("{what} is nothing this system knows"))
}

/// The exchange broke off.
pub(super) fn broken(error: impl std::fmt::Display) -> Failure {
    Failure::new(BROKEN, error.to_string())
}

/// Nothing had to be done.
pub(super) fn nothing() -> Done {
    Done::default()
}

/// Nanoseconds since a moment.
pub(super) fn since(begin: Instant) -> u64 {
    u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// Whether a read brought what was written.
pub(super) fn judge(ask: &Ask, checker: &Checker) -> Option<Failure> {
    let wrong_length = || {
        let story = format!("{} bytes for {} of {}", checker.seen(), ask.key, ask.body.length);
        (checker.seen() != ask.body.length).then(|| Failure::new(WRONG_LENGTH, story))
    };
    match ask.verify {
        Verify::None => None,
        Verify::Length => wrong_length(),
        Verify::Bytes | Verify::Md5 => wrong_length().or_else(|| {
            let at = checker.wrong()?;
            Some(Failure::new(WRONG_BYTES, format!("{} is wrong from byte {at} on", ask.key)))
        }),
    }
}
