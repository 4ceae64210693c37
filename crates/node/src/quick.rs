//! Whether the index answers from memory, so that a look-up may be made on the runtime's own thread.
//!
//! Why: handing a look-up of some microseconds to another thread and back costs more than the look-up itself. But where
//! the index waits for a disk, a thread of the runtime must not. So look-ups are made in place as long as they are
//! quick; after a slow one the next are made where waiting is allowed. Invariant: at most one look-up in
//! [`REST`] makes a thread of the runtime wait.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Longer than this is slow: no memory takes that long.
const SLOW: Duration = Duration::from_millis(2);
/// Look-ups after a slow one that are made elsewhere.
const REST: u32 = 256;

/// How quick the last look-ups were.
#[derive(Debug, Default)]
pub(crate) struct Quick(AtomicU32);

impl Quick {
    /// Whether the next one may be made in place.
    pub(crate) fn allows(&self) -> bool {
        let resting = self.0.load(Ordering::Relaxed);
        // Two at once may count as one; it only rests a little longer.
        self.0.store(resting.saturating_sub(1), Ordering::Relaxed);
        resting == 0
    }

    /// How long one took.
    pub(crate) fn took(&self, time: Duration) {
        if time > SLOW {
            self.0.store(REST, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_slow_one_the_next_are_made_elsewhere() {
        let quick = Quick::default();
        assert!(quick.allows());
        quick.took(SLOW);
        assert!(quick.allows());
        quick.took(SLOW + Duration::from_nanos(1));
        assert!((0..REST).all(|_| !quick.allows()));
        assert!(quick.allows());
    }
}
