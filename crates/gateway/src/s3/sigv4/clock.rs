//! How far a request's time may be from ours.

use skerry_base::WallTime;

use crate::service::{ErrorKind, Outcome, ServiceError};

/// 15 minutes, as S3 has it.
const SKEW_MS: u64 = 15 * 60 * 1000;

/// What the node's wall clock says and whether it may be believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockReading {
    /// What it says.
    pub now: WallTime,
    /// Whether it was synchronised since boot.
    pub trusted: bool,
}

/// `auth.clock`: what to do while the node's clock is not trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ClockRule {
    /// An island works without a synchronised clock: signatures of any time count, expired links do not.
    #[default]
    Island,
    /// Always within 15 minutes.
    Strict,
}

impl ClockRule {
    /// Whether a request signed at `time` may come now; `expires` of a presigned link in seconds.
    pub(crate) fn check(self, reading: ClockReading, time: WallTime, expires: Option<u64>) -> Outcome<()> {
        let late = reading.now.0.saturating_sub(time.0);
        let early = time.0.saturating_sub(reading.now.0);
        if expires.is_some_and(|seconds| late > seconds.saturating_mul(1000)) {
            return Err(ServiceError::new(ErrorKind::AccessDenied, "Request has expired"));
        }
        let excused = self == Self::Island && !reading.trusted;
        let late = if expires.is_some() { 0 } else { late };
        if !excused && late.max(early) > SKEW_MS {
            return Err(ServiceError::new(
                ErrorKind::RequestTimeTooSkewed,
                "the difference between the request time and the server's time is too large; set your clock",
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_700_000_000_000;
    const MINUTE: u64 = 60_000;

    fn refused(rule: ClockRule, trusted: bool, time: u64, expires: Option<u64>) -> Option<ErrorKind> {
        let reading = ClockReading { now: WallTime(NOW), trusted };
        rule.check(reading, WallTime(time), expires).err().map(|error| error.kind())
    }

    #[test]
    fn fifteen_minutes_either_way() {
        for rule in [ClockRule::Island, ClockRule::Strict] {
            assert_eq!(refused(rule, true, NOW - 15 * MINUTE, None), None);
            for time in [NOW - 15 * MINUTE - 1, NOW + 15 * MINUTE + 1] {
                assert_eq!(refused(rule, true, time, None), Some(ErrorKind::RequestTimeTooSkewed));
            }
        }
    }

    #[test]
    fn an_island_without_a_clock_takes_any_time_unless_strict() {
        let year = 365 * 24 * 60 * MINUTE;
        for time in [NOW - year, NOW + year] {
            assert_eq!(refused(ClockRule::Island, false, time, None), None);
            assert_eq!(refused(ClockRule::Strict, false, time, None), Some(ErrorKind::RequestTimeTooSkewed));
        }
    }

    #[test]
    fn links_end_whatever_the_rule() {
        assert_eq!(refused(ClockRule::Strict, true, NOW - 59 * MINUTE, Some(3600)), None);
        for rule in [ClockRule::Island, ClockRule::Strict] {
            let ended = refused(rule, false, NOW - 61 * MINUTE, Some(3600));
            assert_eq!(ended, Some(ErrorKind::AccessDenied));
        }
        let early = refused(ClockRule::Strict, true, NOW + 20 * MINUTE, Some(3600));
        assert_eq!(early, Some(ErrorKind::RequestTimeTooSkewed));
    }
}
