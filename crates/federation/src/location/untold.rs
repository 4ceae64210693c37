//! Who is there and has not told this landmark what it holds: waited for, and then named.
//!
//! A site tells a landmark within moments of its coming, or of this site's having become one. Some never do: of a release that
//! draws other landmarks, without the records by which the others draw (its disk is full, or it has not heard of this site), or
//! no link leads to it though others hear it. As long as such a one is waited for nobody learns that something is not there.
//! Named, it is asked directly by who can, and named to the client by who cannot.
//!
//! Invariant: whoever is there is waited for [`limits::TELLS`] from when it was first seen not to have told, but for those that
//! are known to draw otherwise; who is not there is waited for by nobody. Who goes and comes back within [`limits::ABSENT`] is not
//! waited for anew: one that comes and goes would keep everybody waiting without end.

use std::collections::BTreeMap;

use skerry_base::{Instant, SiteId};

use crate::context::Context;
use crate::limits;

/// One that has not told.
#[derive(Debug, Clone, Copy)]
struct Wait {
    /// It is waited for until then.
    until: Instant,
    /// Since when it is not there.
    away: Option<Instant>,
}

/// Until when each is waited for.
#[derive(Debug, Default)]
pub(super) struct Untold(BTreeMap<SiteId, Wait>);

impl Untold {
    /// Takes who has not told, and who of them is there; nobody at a site that is not told by everybody.
    pub(super) fn look(&mut self, untold: &[SiteId], is_there: impl Fn(SiteId) -> bool, now: Instant) {
        let before = core::mem::take(&mut self.0);
        for site in untold {
            let known =
                before.get(site).filter(|wait| wait.away.is_none_or(|away| now < away.after(limits::ABSENT)));
            let wait = match (known, is_there(*site)) {
                (None, false) => continue,
                (None, true) => Wait { until: now.after(limits::TELLS), away: None },
                (Some(known), true) => Wait { away: None, ..*known },
                (Some(known), false) => Wait { away: known.away.or(Some(now)), ..*known },
            };
            self.0.insert(*site, wait);
        }
    }

    /// Whether a site that has not told is expected to.
    pub(super) fn waits_for(&self, site: SiteId, cx: &Context<'_>) -> bool {
        cx.peers.view().knows(site) && !cx.peers.draws_otherwise(site) && !self.is_over(site, cx.now)
    }

    /// Whether it was waited for as long as anybody is.
    fn is_over(&self, site: SiteId, now: Instant) -> bool {
        self.0.get(&site).is_some_and(|wait| now >= wait.until)
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;

    const SITE: SiteId = SiteId([3; 16]);

    fn at(seconds: u64) -> Instant {
        Instant(1).after(Duration::from_secs(seconds))
    }

    fn looks(untold: &mut Untold, seconds: u64, there: bool) -> bool {
        untold.look(&[SITE], |_| there, at(seconds));
        untold.is_over(SITE, at(seconds))
    }

    #[test]
    fn who_comes_and_goes_is_not_waited_for_anew() {
        let mut untold = Untold::default();
        for second in 0..600 {
            let is_over = looks(&mut untold, second, second % 40 < 35);
            assert_eq!(is_over, second >= limits::TELLS.as_secs(), "after {second} s");
        }
    }

    #[test]
    fn who_was_away_for_long_or_has_told_is_waited_for_anew() {
        let mut untold = Untold::default();
        assert!(!looks(&mut untold, 0, true));
        assert!(looks(&mut untold, 60, true));
        assert!(looks(&mut untold, 100, false));
        assert!(looks(&mut untold, 219, false), "away for less than two minutes");
        assert!(!looks(&mut untold, 220, true), "away for two");
        assert!(looks(&mut untold, 280, true));
        untold.look(&[], |_| true, at(281));
        assert!(!looks(&mut untold, 282, true), "it had told meanwhile");
        looks(&mut untold, 2000, false);
        looks(&mut untold, 2200, false);
        assert!(untold.0.is_empty(), "nothing is remembered of who stays away");
    }
}
