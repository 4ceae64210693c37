//! The one place where the node reads clocks.
//!
//! Invariants: [`Clock::now`] never falls; what the wall says may be wrong and is only ever used through a
//! hybrid clock or for spans that an operator set.

use std::time::{Instant as Std, SystemTime, UNIX_EPOCH};

use skerry_base::{Instant, WallTime};

/// systemd-timesyncd makes this file when the clock is right. Without it nobody vouches for the clock.
const SYNCHRONISED: &str = "/run/systemd/timesync/synchronized";

/// Monotonic since it was made, and the wall.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    start: Std,
}

impl Default for Clock {
    fn default() -> Self {
        Self { start: Std::now() }
    }
}

impl Clock {
    /// Monotonic nanoseconds since this clock was made.
    pub fn now(&self) -> Instant {
        Instant(u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// What the wall clock says.
    pub fn wall(&self) -> WallTime {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        WallTime(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }

    /// Whether the system says that the wall clock was synchronised since boot.
    pub fn is_synchronised(&self) -> bool {
        crate::trust::files::exists(std::path::Path::new(SYNCHRONISED))
    }
}
