//! A node that lost part of its journal leaves the homes that it keeps to the other nodes of its site.
//!
//! It decides nothing until all other sites were heard, which may be a month away, and nobody takes over the home of a node that is
//! live. The others have all that was ever answered as decided. So it says that it cannot hold, as one with a full disk does,
//! leaves the view, and comes back once its homes have passed on: by the rules of tenures, none of which knows of this.
//!
//! Before: `anew.rs`, as long as it asks. After: [`super::refusing`]. Invariants: only while so many others are heard that the
//! view goes on without it; only for homes that others may take over; for no longer than something comes of it, and then again after
//! a while.

use std::sync::Arc;
use std::time::Duration;

use skerry_base::kv::View;
use skerry_base::{BucketId, Instant, SiteId};
use skerry_gateway::service::Outcome;
use skerry_model::bucket::{Known, list_buckets};
use skerry_model::space;

use super::refusing::GoesOn;
use crate::site::{Site, unreadable};
use crate::tasks::rest;

/// Between two looks.
const TURN: Duration = Duration::from_secs(1);
/// It stays aside for so long without one of its homes passing on: whoever takes them over tries again within seconds.
const PATIENCE: Duration = Duration::from_secs(30);
/// Then it stays in the view for so long: who could not take them over was not whole itself, maybe.
const PAUSE: Duration = Duration::from_secs(600);

/// Of two that step aside in one moment, which leaves no view without either, the one with the higher seat comes back with its next
/// look; the other one waits for that so long.
const YIELDS: Duration = Duration::from_secs(5);

/// What the number of homes depends on: how often the system bucket and who belongs changed, and how many buckets are not whole.
type Basis = (u64, u64, usize);

/// Whether it stands aside, from one look to the next.
#[derive(Debug, Default)]
pub(crate) struct Aside {
    /// How many homes there were, and what that rested on: all buckets are looked through for it.
    counted: Option<(Basis, usize)>,
    /// When it was looked last, if it stands aside since then.
    looked: Option<Instant>,
    /// Another one stands in the way, since when.
    contended: Option<Instant>,
    /// How many homes are left, and how long it stood aside for as many.
    left: Option<(usize, Duration)>,
    /// Nothing came of it: until when it is left so.
    until: Option<Instant>,
}

impl Aside {
    /// Looks again and again, for ever.
    pub(crate) async fn keep(mut self, site: &Arc<Site>) {
        loop {
            if let Err(error) = self.look(site).await {
                tracing::debug!(%error, "the homes of this node could not be looked through");
            }
            rest(TURN).await;
        }
    }

    async fn look(&mut self, site: &Arc<Site>) -> Outcome<()> {
        let now = site.clock.now();
        if self.until.is_some_and(|until| now < until) || !site.nodes.keep_homes() {
            return Ok(());
        }
        // Before it is looked: what changes meanwhile is looked at again.
        let (changes, anew) = (&site.changes, site.anew.buckets().len());
        let basis = (changes.system_count(), changes.belonging_count(), anew);
        let homes = match self.counted.filter(|(of, _)| *of == basis) {
            Some((_, homes)) => homes,
            None => homes(site).await?,
        };
        self.counted = Some((basis, homes));
        let goes_on = site.nodes.goes_on_without_me(site.clock.since_boot());
        site.nodes.stand_aside(self.turn(homes, goes_on, now));
        Ok(())
    }

    fn turn(&mut self, homes: usize, goes_on: GoesOn, now: Instant) -> bool {
        let before = self.looked.take();
        let is_aside = self.stands(homes, goes_on, (before, now));
        self.looked = is_aside.then_some(now);
        is_aside
    }

    /// `before`: when it was looked last, if it stood aside then.
    fn stands(&mut self, homes: usize, goes_on: GoesOn, (before, now): (Option<Instant>, Instant)) -> bool {
        if goes_on != GoesOn::ButForLater {
            self.contended = None;
        }
        if homes == 0 {
            self.left = None;
            return false;
        }
        // Its patience is for what it stands aside: a view that goes on only now and then is not to be left for long each time, and
        // whoever makes way for another one has its turn later.
        let (left, spent) = self.left.get_or_insert((homes, Duration::ZERO));
        *spent += before.map_or(Duration::ZERO, |before| now.since(before));
        // More of them are some that it had forgotten: others pass meanwhile.
        if homes != *left {
            (*left, *spent) = (homes, Duration::ZERO);
        }
        let spent = *spent;
        match goes_on {
            GoesOn::Yes => {}
            GoesOn::ButForLater if before.is_some() => {
                if now.since(*self.contended.get_or_insert(now)) > YIELDS {
                    return false;
                }
            }
            GoesOn::ButForLater | GoesOn::No => return false,
        }
        let is_over = spent > PATIENCE;
        if is_over {
            (self.left, self.until) = (None, Some(now.after(PAUSE)));
            tracing::warn!(
                homes,
                "the other nodes of this site did not take over all homes of this one, which lost entries"
            );
        }
        !is_over
    }
}

/// How many homes this node keeps in which it may not decide and its fellows could.
async fn homes(site: &Arc<Site>) -> Outcome<usize> {
    let of = site.clone();
    site.read(move |view| {
        let all = space::is_anew(view, of.system).map_err(unreadable)?;
        let mut found = usize::from(all && is_left(view, &of, of.system)?);
        for bucket in list_buckets(view, of.system, None).map_err(unreadable)? {
            let id = bucket.claim.bucket;
            let is_anew = all || space::is_anew(view, id).map_err(unreadable)?;
            found += usize::from(is_anew && is_left(view, &of, id)?);
        }
        Ok(found)
    })
    .await
}

fn is_left(view: &dyn View, site: &Site, bucket: BucketId) -> Outcome<bool> {
    let Some(known) = Known::load(view, site.system, bucket).map_err(unreadable)? else { return Ok(false) };
    let nodes = site.within(bucket).nodes;
    let heir: Option<SiteId> = known.tenure().and_then(|tenure| tenure.heir);
    let is_among_them = heir.is_none_or(|heir| nodes.contains(&heir));
    Ok(known.home.site == site.id && is_among_them && known.is_kept_by_its_site(&nodes))
}

#[cfg(test)]
mod tests {
    use super::GoesOn::{ButForLater, No, Yes};
    use super::*;

    #[test]
    fn it_stands_aside_while_homes_pass_and_no_longer() {
        let at = |seconds: u64| Instant::default().after(Duration::from_secs(seconds));
        let mut aside = Aside::default();
        assert!(!aside.turn(0, Yes, at(0)), "no home of its own");
        assert!(!aside.turn(2, No, at(0)), "the view would not go on");
        assert!(aside.turn(2, Yes, at(40)));
        assert!(aside.turn(2, Yes, at(70)));
        assert!(aside.turn(1, Yes, at(71)), "one has passed");
        assert!(aside.turn(1, Yes, at(101)));
        assert!(!aside.turn(0, Yes, at(102)), "all have");
        assert!(aside.turn(1, Yes, at(110)), "a home that it had forgotten");
        assert!(!aside.turn(1, Yes, at(141)), "nobody takes it over");
        assert_eq!(aside.until, Some(at(741)), "and then again");
        assert!(aside.turn(1, Yes, at(741)) && !aside.turn(1, No, at(760)));
        assert!(aside.turn(1, Yes, at(772)) && aside.turn(1, Yes, at(783)));
        assert!(!aside.turn(1, Yes, at(784)), "a view that comes and goes does not begin it anew");
    }

    /// Which seats stand aside after each look, of a site of three whose first two nodes begin anew and have homes for ever, and look in
    /// the same moment: each knows what the other one said before.
    fn side_by_side(seconds: u64) -> Vec<[bool; 2]> {
        let mut nodes = [Aside::default(), Aside::default()];
        let (mut before, mut all) = ([false; 2], Vec::new());
        for second in 0..seconds {
            let now = Instant::default().after(Duration::from_secs(second));
            let goes_on = [if before[1] { ButForLater } else { Yes }, if before[0] { No } else { Yes }];
            for (at, node) in nodes.iter_mut().enumerate() {
                if node.until.is_none_or(|until| now >= until) {
                    before[at] = node.turn(1, goes_on[at], now);
                }
            }
            all.push(before);
        }
        all
    }

    #[test]
    fn of_two_that_step_aside_at_once_one_does_and_then_the_other() {
        let all = side_by_side(70);
        assert_eq!(all[..2], [[true, true], [true, false]], "the higher seat comes back");
        let of = |which: [bool; 2]| all.iter().filter(|are| **are == which).count() as u64;
        assert!(of([true, false]) >= 25, "and leaves the other one time: {all:?}");
        assert!(of([false, true]) >= 25, "which is over at some time: {all:?}");
        assert_eq!(of([true, true]), 1);
    }

    #[test]
    fn who_is_in_the_way_for_long_is_not_waited_for() {
        let at = |seconds: u64| Instant::default().after(Duration::from_secs(seconds));
        let mut aside = Aside::default();
        assert!(!aside.turn(1, ButForLater, at(0)), "it is in the view, and stays");
        assert!(aside.turn(1, Yes, at(1)));
        assert!(aside.turn(1, ButForLater, at(2)) && aside.turn(1, ButForLater, at(7)));
        assert!(!aside.turn(1, ButForLater, at(8)), "its disk is full, maybe");
        assert!(!aside.turn(1, ButForLater, at(9)));
        assert!(aside.turn(1, Yes, at(10)));
        assert!(!aside.turn(1, No, at(11)));
    }
}
