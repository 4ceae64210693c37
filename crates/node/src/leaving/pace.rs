//! How often a site that is about to leave a bucket tries.
//!
//! Each try asks every linked member what it has, whole vectors over links that may be metered. Before: [`super`], after each try.
//! Invariants: while a try ends as the one before, the next is later by a part of the time that it has been so, up to a bound; a link, or
//! what is said in the system bucket, ends every pause.

use std::collections::BTreeSet;
use std::time::Duration;

use skerry_base::{Instant, SiteId, Vector};

use super::Note;
use crate::site::Site;

/// What waits for this part of the time that nothing came nearer ends so much later at most.
const SHARE: u32 = 4;
/// The longest pause: what it waits for is a member that takes the last records, or comes back, which is told by its link.
const AT_MOST: Duration = Duration::from_secs(30);

/// What else may let a try end otherwise: who is linked, what the system bucket says, and who belongs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct News(BTreeSet<SiteId>, u64, u64);

impl News {
    pub(super) fn of(site: &Site) -> Self {
        let changes = &site.changes;
        Self(site.boxes.linked().into_iter().collect(), changes.system_count(), changes.belonging_count())
    }
}

/// How a try ended: what it waits for, and how far everything was handed over.
pub(super) type Ended = (Option<Note>, Vector);

/// When the next try of a bucket is due.
#[derive(Debug)]
pub(super) struct Pace {
    news: News,
    ended: Ended,
    since: Instant,
    due: Instant,
}

impl Pace {
    /// A try began with this news and has ended now.
    pub(super) fn after(before: Option<Self>, news: News, ended: Ended, now: Instant) -> Self {
        let same = before.filter(|before| before.news == news && before.ended == ended);
        let since = same.map_or(now, |same| same.since);
        Self { news, ended, since, due: now.after((now.since(since) / SHARE).min(AT_MOST)) }
    }

    pub(super) fn is_due(&self, news: &News, now: Instant) -> bool {
        now >= self.due || self.news != *news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leave_that_waits_for_the_same_tries_ever_more_seldom() {
        let news = News(BTreeSet::new(), 1, 1);
        let note = |reason: &str| Some(Note { reason: reason.into(), ..Note::default() });
        let of = |reason: &str| (note(reason), Vector::new());
        let at = |half: u64| Instant::default().after(Duration::from_millis(500 * half));
        let (mut pace, mut tries): (Option<Pace>, u32) = (None, 0);
        let mut run = |from: u64, to: u64, news: &News| {
            let before = tries;
            for now in (from..to).map(at) {
                if pace.as_ref().is_none_or(|pace| pace.is_due(news, now)) {
                    tries += 1;
                    pace = Some(Pace::after(pace.take(), news.clone(), of("silent"), now));
                }
            }
            tries - before
        };
        let first = run(0, 40, &news);
        assert!((8..20).contains(&first), "{first} in 20 s, of 40");
        let hour = run(40, 7240, &news);
        assert!((100..140).contains(&hour), "{hour} in an hour, of 7,200");
        let linked = News(BTreeSet::from([SiteId([1; 16])]), 1, 1);
        assert_eq!(run(7240, 7241, &linked), 1, "a link");
        assert_eq!(run(7241, 7242, &linked), 1, "and at once again: it may have begun to take something");
        let pace = Pace::after(pace, linked.clone(), of("behind"), at(9000));
        assert!(pace.is_due(&linked, at(9000)), "something came nearer");
    }
}
