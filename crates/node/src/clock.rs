//! The one place where the node reads clocks.
//!
//! Invariants: [`Clock::now`] never falls; what the wall says may be wrong and is only ever used through a
//! hybrid clock or for spans that an operator set.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Instant as Std, SystemTime, UNIX_EPOCH};

use skerry_base::time::Expiry;
use skerry_base::{Instant, WallTime};

/// Where systemd-timesyncd runs, and the file it makes once the clock is right.
const TIMESYNC: &str = "/run/systemd/timesync";
const SYNCHRONISED: &str = "/run/systemd/timesync/synchronized";
/// 2026-01-01 in milliseconds: a clock before our own making is wrong.
const EARLIEST: u64 = 1_767_225_600_000;

/// Monotonic since it was made, and the wall.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    start: Std,
}

impl Default for Clock {
    #[expect(clippy::disallowed_methods, reason = "this is the place that reads the clocks")]
    fn default() -> Self {
        Self { start: Std::now() }
    }
}

impl Clock {
    /// Monotonic nanoseconds since this clock was made.
    pub fn now(&self) -> Instant {
        Instant(u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// Nanoseconds since this machine was booted, the time it slept included: what promises to other nodes are counted by.
    pub fn since_boot(&self) -> Instant {
        #[cfg(target_os = "linux")]
        let clock = rustix::time::ClockId::Boottime;
        #[cfg(not(target_os = "linux"))]
        let clock = rustix::time::ClockId::Monotonic;
        let time = rustix::time::clock_gettime(clock);
        let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
        let nanos = u64::try_from(time.tv_nsec).unwrap_or_default();
        Instant(seconds.saturating_mul(1_000_000_000).saturating_add(nanos))
    }

    /// What the wall clock says.
    #[expect(clippy::disallowed_methods, reason = "this is the place that reads the clocks")]
    pub fn wall(&self) -> WallTime {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        WallTime(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }

    /// Whether the wall clock may be believed: not when it is earlier than this program, nor while the system's
    /// own time service says that it is not synchronised yet. Where there is no such service, whoever else
    /// keeps the clock (chrony, a host) is believed.
    pub fn is_trusted(&self) -> bool {
        let exists = |path| crate::trust::files::exists(std::path::Path::new(path)).unwrap_or(false);
        self.wall().0 >= EARLIEST && (exists(SYNCHRONISED) || !exists(TIMESYNC))
    }
}

/// A clock whose trust is looked up once a second at most: the system keeps it in files, and every request wants to know.
#[derive(Debug)]
pub(crate) struct Watched {
    clock: Clock,
    /// The second of the last look and, in the lowest bit, what it found; none yet.
    looked: AtomicU64,
    expiry: Mutex<Expiry>,
}

impl Watched {
    pub(crate) const fn new(clock: Clock) -> Self {
        Self { clock, looked: AtomicU64::new(u64::MAX), expiry: Mutex::new(Expiry::new()) }
    }

    /// What the wall clock says, and whether it may be believed.
    pub(crate) fn read(&self) -> (WallTime, bool) {
        let second = self.clock.now().0 / 1_000_000_000;
        let looked = self.looked.load(Ordering::Relaxed);
        let is_trusted = if looked >> 1 == second {
            looked & 1 == 1
        } else {
            let found = self.clock.is_trusted();
            self.looked.store((second << 1) | u64::from(found), Ordering::Relaxed);
            found
        };
        (self.clock.wall(), is_trusted)
    }

    /// What may be taken for the present where something expires ([`Expiry`]). The time that a machine slept counts: its wall
    /// goes on meanwhile, which is no jump.
    pub(crate) fn present(&self) -> Option<WallTime> {
        let (wall, is_trusted) = self.read();
        let mut expiry = self.expiry.lock().unwrap_or_else(PoisonError::into_inner);
        expiry.present(wall, self.clock.since_boot(), is_trusted)
    }
}
