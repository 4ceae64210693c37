//! What goes wrong below, in the words of S3.
//!
//! Invariant: 5xx only for what passes by itself within seconds or is our own fault; everything else is a
//! 4xx that says what to do, because S3 clients retry 5xx several times.

use skerry_gateway::service::{ErrorKind, Outcome, Reason, ServiceError};
use skerry_model::record::Versioning;
use skerry_storage::{CommitError, StorageError};

/// The disk could not.
pub(crate) fn storage(error: StorageError) -> ServiceError {
    let reason = match error {
        StorageError::Busy => Some(Reason::Commits),
        StorageError::Behind => Some(Reason::Memtables),
        StorageError::Lacking { .. } => Some(Reason::System),
        _ => None,
    };
    let kind = match error {
        StorageError::Full => ErrorKind::StorageFull,
        StorageError::Busy | StorageError::Behind | StorageError::Lacking { .. } => ErrorKind::SlowDown,
        StorageError::Closed => ErrorKind::Unavailable,
        StorageError::TooLarge { .. } => ErrorKind::EntityTooLarge,
        _ => ErrorKind::Internal,
    };
    if kind == ErrorKind::Internal {
        tracing::error!(%error, "the store failed");
    }
    let refused = ServiceError::new(kind, error.to_string());
    match reason {
        Some(reason) => refused.because(reason),
        None => refused,
    }
}

/// A commit was refused or failed.
pub(crate) fn commit(error: CommitError<ServiceError>) -> ServiceError {
    match error {
        CommitError::Refused(refused) => refused,
        CommitError::Storage(error) => storage(error),
    }
}

/// A task of ours ended early: it panicked, or the server is stopping.
pub(crate) fn task(error: tokio::task::JoinError) -> ServiceError {
    if error.is_panic() {
        tracing::error!(%error, "a task panicked");
        return ServiceError::new(ErrorKind::Internal, "a task of the server failed; see its log");
    }
    stopping()
}

/// The server is stopping.
pub(crate) fn stopping() -> ServiceError {
    ServiceError::new(ErrorKind::Unavailable, "the server is stopping; try again shortly")
}

/// The server is stopping, and nobody is left to say what became of a write.
pub(crate) fn unanswered() -> ServiceError {
    let message = "the server is stopping, and whether this was written is not known; try again shortly: where versions are \
                   kept that may write one more, look first (HEAD)";
    ServiceError::new(ErrorKind::Unavailable, message)
}

/// What may be done about a write that is kept and did not get as far as it asked for.
pub(crate) const fn kept(versioning: Versioning) -> &'static str {
    match versioning {
        Versioning::Enabled => {
            "it is the newest version (HEAD shows it): as this bucket keeps versions, a PUT that is repeated tries for the scope \
             again and writes one more"
        }
        Versioning::Off | Versioning::Suspended => {
            "a PUT that is repeated without a condition within five minutes tries for the scope again and is no second write"
        }
    }
}

/// What may be done about a write of which it is not known whether it happened.
pub(crate) const fn in_doubt(versioning: Versioning, is_conditional: bool) -> &'static str {
    match (versioning, is_conditional) {
        (_, true) => {
            "look first (HEAD) whether it did: a condition that is repeated finds its own write, and does not hold of it"
        }
        (Versioning::Enabled, false) => {
            "look first (HEAD) whether it did: as this bucket keeps versions, a repeat would write one more"
        }
        (Versioning::Off | Versioning::Suspended, false) => {
            "repeat it: within five minutes that is no second write"
        }
    }
}

/// What was asked for may exist where nobody can be reached.
pub(crate) fn unreachable(message: impl Into<String>) -> ServiceError {
    ServiceError::new(ErrorKind::Unreachable, message)
}

/// Why what is below a prefix cannot be told.
pub(crate) fn untold(error: skerry_model::space::SpaceError) -> ServiceError {
    use skerry_model::space::SpaceError;
    match error {
        SpaceError::TooManyVersions(_) | SpaceError::TooManyLoose => {
            ServiceError::new(ErrorKind::InvalidRequest, error.to_string())
        }
        error => crate::site::unreadable(error),
    }
}

/// The site left the bucket while it was asked.
pub(crate) fn just_left() -> ServiceError {
    ServiceError::new(ErrorKind::Unreachable, "this site has just left the bucket; ask another, or try again")
}

/// The same refusal in another site's words.
pub(crate) fn relayed(code: &str, message: String) -> ServiceError {
    let kind = ErrorKind::ALL.iter().copied().find(|kind| kind.code() == code);
    ServiceError::new(kind.unwrap_or(ErrorKind::Internal), message).because(Reason::AnotherSite)
}

/// Another site sent what this release cannot read.
pub(crate) fn malformed(error: impl ToString) -> ServiceError {
    ServiceError::new(
        ErrorKind::Internal,
        format!("another site's answer is unreadable: {}", error.to_string()),
    )
}

/// A site starts on a full disk, too: what it could not write down then it tries again later, or at its next start.
pub(crate) fn unless_full(what: &str, written: Outcome<()>) -> Outcome<()> {
    match written {
        Err(error) if error.kind() == ErrorKind::StorageFull => {
            tracing::warn!(what, %error, "was not written down, because the disk is full");
            Ok(())
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeat_is_called_harmless_only_where_it_is() {
        let states = [Versioning::Off, Versioning::Suspended, Versioning::Enabled];
        assert_eq!(states.map(|state| kept(state).contains("no second write")), [true, true, false]);
        assert_eq!(
            states.map(|state| in_doubt(state, false).contains("no second write")),
            [true, true, false]
        );
        for text in [kept(Versioning::Enabled), in_doubt(Versioning::Enabled, false)] {
            assert!(text.contains("HEAD") && text.contains("one more"), "{text}");
        }
        // It would find its own write and be told that somebody else was faster.
        assert!(states.iter().all(|state| in_doubt(*state, true).starts_with("look first (HEAD)")));
    }
}
