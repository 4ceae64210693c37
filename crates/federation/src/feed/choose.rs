//! Whom to ask.
//!
//! A source's vector tells what it can give: who is known to have more comes first, the nearest of them, one
//! that is not in doubt before one that is. Sites in backoff and without a link are passed over.

use std::collections::BTreeSet;

use skerry_base::{Instant, SiteId, Vector};

use super::bucket::Bucket;
use super::sites::{Sites, Turn};
use crate::context::Context;
use crate::limits;

/// Whom to ask now; else when there will be somebody again.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Choice {
    Ask(SiteId),
    /// When a pull from this one has ended.
    Behind(SiteId),
    Later(Instant),
    Nobody,
}

impl Bucket {
    /// The source of the next pull, for who has (or will have) `mine`. From those that are `spent` nothing may come.
    pub(super) fn choose(
        &mut self,
        mine: &Vector,
        (sites, spent): (&Sites, &BTreeSet<SiteId>),
        cx: &Context<'_>,
    ) -> Choice {
        let ahead = self.ahead(mine);
        // In whatever order: who is best is ranked below, and mostly there is nobody.
        let fits =
            |site: &SiteId| self.members.contains(site) && !spent.contains(site) && cx.peers.is_linked(*site);
        let useful: Vec<SiteId> = self.asks.union(&ahead).copied().filter(fits).collect();
        let turn = |site: &SiteId| {
            let until = self.sources.get(site).and_then(|source| source.until);
            match until.filter(|until| *until > cx.now) {
                Some(until) => Turn::Later(until),
                None => sites.turn(*site, cx.now),
            }
        };
        let rank = |site: &SiteId| {
            let doubtful = self.sources.get(site).is_some_and(|source| source.doubtful);
            (self.settling != Some(*site), doubtful, !ahead.contains(site), cx.peers.distance(*site))
        };
        let best = |wanted: Turn| useful.iter().copied().filter(|site| turn(site) == wanted).min_by_key(rank);
        // Another node of this site gives the bodies along with what it wrote; from elsewhere the bare records would be known first.
        // Not if it failed lately, or is in doubt: whoever else can give something is asked then.
        let is_well = |site: &SiteId| {
            sites.tries(*site, cx.now) == Some(0)
                && !self.sources.get(site).is_some_and(|source| source.doubtful)
        };
        let writes_here = |site: &SiteId| {
            cx.peers.is_fellow(*site) && ahead.contains(site) && self.settling.is_none() && is_well(site)
        };
        if let Some(site) = best(Turn::Behind).filter(writes_here)
            && !best(Turn::Now).is_some_and(|site| cx.peers.is_fellow(site))
        {
            return Choice::Behind(site);
        }
        if let Some(site) = best(Turn::Now) {
            return Choice::Ask(site);
        }
        if let Some(site) = best(Turn::Behind) {
            return Choice::Behind(site);
        }
        let later = |site: &SiteId| match turn(site) {
            Turn::Later(until) => Some(until),
            Turn::Now | Turn::Behind => None,
        };
        useful.iter().filter_map(later).min().map_or(Choice::Nobody, Choice::Later)
    }

    /// The members that are listened to: the nearest with a link, and one of all others that can be asked, drawn anew with each round of checks, so that
    /// no cluster of near sites keeps its news to itself.
    /// `draw` in 0..1 is the same for all buckets of a round, so that their checks share messages.
    pub(super) fn listened(&self, draw: f64, cx: &Context<'_>) -> Vec<SiteId> {
        let (mut near, mut far) = (Vec::new(), Vec::new());
        for site in cx.peers.reachable(self.members.iter().copied()) {
            let is_near = near.len() < limits::SOURCES - 1 && cx.peers.is_linked(site);
            if is_near { near.push(site) } else { far.push(site) }
        }
        let index = (far.len() as f64 * draw) as usize;
        near.extend(far.get(index));
        near
    }
}
