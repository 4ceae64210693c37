//! When a flush of the index that failed is tried again.
//!
//! Why: each write asks whether something is to be flushed, and a try writes megabytes before it fails where the disk is full. Invariant: who
//! asks for a flush by name (the collector, a stop) is not held back by this.

use std::sync::{Mutex, PoisonError};

use skerry_base::Instant;

/// After the first that failed; twice as long after each.
const FIRST_MS: u64 = 250;
/// Doubled so often: after 8 s it is tried again, and goes through where there is room by then.
const DOUBLED: u32 = 5;

/// When the next is due; at once unless the last one failed.
#[derive(Default)]
pub(super) struct Retry(Mutex<Option<Instant>>);

impl Retry {
    /// So many failed in a row, the last one now; or one went through.
    pub(super) fn tried(&self, failed: u32, now: Instant) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) =
            (failed > 0).then(|| Instant(now.0.saturating_add(pause(failed) * 1_000_000)));
    }

    pub(super) fn is_due(&self, now: impl FnOnce() -> Instant) -> bool {
        let until = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        until.is_none_or(|until| now() >= until)
    }
}

fn pause(failed: u32) -> u64 {
    FIRST_MS << failed.saturating_sub(1).min(DOUBLED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_doubles_and_ends_with_what_goes_through() {
        let retry = Retry::default();
        let due = |ms: u64| retry.is_due(|| Instant(ms * 1_000_000));
        assert!(due(0));
        retry.tried(1, Instant(0));
        assert!(!due(249) && due(250));
        for (failed, ms) in [(2, 500), (4, 2_000), (6, 8_000), (u32::MAX, 8_000)] {
            retry.tried(failed, Instant(1_000_000_000));
            assert!(!due(1_000 + ms - 1) && due(1_000 + ms), "{failed} failed");
        }
        retry.tried(0, Instant(1_000_000_000));
        assert!(due(0));
    }
}
