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

use crate::site::{Site, unreadable};
use crate::tasks::rest;

/// Between two looks.
const TURN: Duration = Duration::from_secs(1);
/// It stays aside for so long without one of its homes passing on: whoever takes them over tries again within seconds.
const PATIENCE: Duration = Duration::from_secs(30);
/// Then it stays in the view for so long: who could not take them over was not whole itself, maybe.
const PAUSE: Duration = Duration::from_secs(600);

/// Whether it stands aside, from one look to the next.
#[derive(Debug, Default)]
pub(crate) struct Aside {
    /// How many homes are left, and since when.
    left: Option<(usize, Instant)>,
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
        let homes = homes(site).await?;
        let is_aside = self.turn(homes, site.nodes.goes_on_without_me(site.clock.since_boot()), now);
        site.nodes.stand_aside(is_aside);
        Ok(())
    }

    fn turn(&mut self, homes: usize, goes_on: bool, now: Instant) -> bool {
        if homes == 0 {
            self.left = None;
            return false;
        }
        // What is left of its patience stays: a view that goes on only now and then is not to be left each time.
        if !goes_on {
            return false;
        }
        let (left, since) = self.left.get_or_insert((homes, now));
        // More of them are some that it had forgotten: others pass meanwhile.
        if homes != *left {
            (*left, *since) = (homes, now);
        }
        let is_over = now.since(*since) > PATIENCE;
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
    use super::*;

    #[test]
    fn it_stands_aside_while_homes_pass_and_no_longer() {
        let at = |seconds: u64| Instant::default().after(Duration::from_secs(seconds));
        let mut aside = Aside::default();
        assert!(!aside.turn(0, true, at(0)), "no home of its own");
        assert!(!aside.turn(2, false, at(0)), "the view would not go on");
        assert!(aside.turn(2, true, at(40)));
        assert!(aside.turn(2, true, at(70)));
        assert!(aside.turn(1, true, at(71)), "one has passed");
        assert!(aside.turn(1, true, at(101)));
        assert!(!aside.turn(0, true, at(102)), "all have");
        assert!(aside.turn(1, true, at(110)), "a home that it had forgotten");
        assert!(!aside.turn(1, true, at(141)), "nobody takes it over");
        assert_eq!(aside.until, Some(at(741)), "and then again");
        assert!(aside.turn(1, true, at(741)) && !aside.turn(1, false, at(760)));
        assert!(!aside.turn(1, true, at(772)), "a view that comes and goes does not begin it anew");
    }
}
