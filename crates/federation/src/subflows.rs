//! How many connections a link has beside its own: where more is under way on it than a kernel holds of one.
//!
//! Why here: it decides what sites open to each other. What was sent and not yet confirmed lies in the sender's kernel, 4 MiB at
//! most as systems come, so that one connection carries no more than that in a round trip, however fast the line. Pure: what
//! crossed, the round trip and the time come in, a number comes out.
//!
//! Invariants: nothing stands beside a link that is short, slow or at rest; what stands goes when nobody has used any of it for
//! [`REST`], and not while somebody does.

use core::time::Duration;

use skerry_base::Instant;

/// Connections beside the link's own at most: with it 13 MB under way, a line of a gigabit and 100 ms.
pub const MOST: usize = 3;
/// What is under way for each connection that a link is to have: half of what a kernel holds of one, so that there is another
/// before one is full.
pub const SHARE: u64 = 1536 << 10;
/// So long nobody uses any, and they go.
pub const REST: Duration = Duration::from_secs(30);
/// What crossed in less time says little.
const SPAN: Duration = Duration::from_millis(200);

/// What one link wants beside it.
#[derive(Debug, Clone, Default)]
pub struct Subflows {
    /// When it was looked at last, and what had been sent and received by then.
    seen: Option<(Instant, [u64; 2])>,
    wanted: usize,
    used: Instant,
}

impl Subflows {
    /// How many are wanted now. `crossed`: bytes sent and received so far, over all connections; `share`: [`SHARE`], but in tests.
    pub fn look(
        &mut self,
        crossed: [u64; 2],
        rtt: Duration,
        is_used: bool,
        (now, share): (Instant, u64),
    ) -> usize {
        let (since, before) = *self.seen.get_or_insert((now, crossed));
        let span = now.since(since);
        if span < SPAN {
            return self.wanted;
        }
        self.seen = Some((now, crossed));
        let busier = crossed.iter().zip(before).map(|(now, before)| now.saturating_sub(before)).max();
        let a_round_trip = u128::from(busier.unwrap_or_default()) * rtt.as_nanos() / span.as_nanos();
        let full = usize::try_from(a_round_trip / u128::from(share.max(1))).unwrap_or(MOST).min(MOST);
        if is_used || full > self.wanted {
            self.used = now;
        }
        let rests = now.since(self.used) >= REST;
        self.wanted = if rests { full } else { self.wanted.max(full) };
        self.wanted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAR: Duration = Duration::from_millis(100);

    /// A link that is looked at each second.
    struct Link {
        subflows: Subflows,
        crossed: [u64; 2],
        seconds: u64,
    }

    impl Link {
        fn new() -> Self {
            let mut link = Self { subflows: Subflows::default(), crossed: [0, 0], seconds: 0 };
            assert_eq!(link.second([0, 0], FAR, false), 0);
            link
        }

        fn second(&mut self, bytes: [u64; 2], rtt: Duration, is_used: bool) -> usize {
            self.seconds += 1;
            self.crossed = [self.crossed[0] + bytes[0], self.crossed[1] + bytes[1]];
            let now = Instant(self.seconds * 1_000_000_000);
            self.subflows.look(self.crossed, rtt, is_used, (now, SHARE))
        }
    }

    #[test]
    fn what_one_connection_carries_in_a_round_trip_asks_for_more_of_them() {
        let mut link = Link::new();
        assert_eq!(link.second([10 << 20, 0], FAR, false), 0, "a megabyte under way");
        assert_eq!(link.second([0, 33 << 20], FAR, false), 2, "as much as a kernel holds: of what came, too");
        assert_eq!(link.second([90 << 20, 0], FAR, true), MOST);
        assert_eq!(link.second([900 << 20, 0], FAR, true), MOST, "never more");
    }

    #[test]
    fn a_short_link_needs_one_however_much_crosses() {
        let mut link = Link::new();
        assert_eq!(link.second([1 << 30, 1 << 30], Duration::from_micros(500), true), 0);
    }

    #[test]
    fn they_stay_while_they_are_used_and_go_after_a_rest() {
        let mut link = Link::new();
        assert_eq!(link.second([50 << 20, 0], FAR, false), 3);
        for _ in 0..100 {
            assert_eq!(link.second([100, 0], FAR, true), 3, "slow, and somebody waits for it");
        }
        let stood = (0..100).take_while(|_| link.second([100, 0], FAR, false) == 3).count();
        assert_eq!(stood as u64, REST.as_secs() - 1);
        assert_eq!(link.second([50 << 20, 0], FAR, false), 3, "and come again");
    }

    #[test]
    fn clocks_and_counters_that_do_not_move_say_nothing() {
        let mut subflows = Subflows::default();
        for _ in 0..3 {
            assert_eq!(subflows.look([u64::MAX, 0], FAR, false, (Instant(7), SHARE)), 0);
        }
        assert_eq!(subflows.look([0, 0], FAR, false, (Instant(u64::MAX), 0)), 0);
    }
}
