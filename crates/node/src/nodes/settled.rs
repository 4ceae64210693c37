//! What decisions of a home among the nodes of a site rest on: the view that they are made in, and what is known to be at all
//! of its holders.
//!
//! Before: `paths/tenure.rs`, on the commit thread. Invariants: view and lease are looked at together; what is remembered as
//! settled was durable at all holders of one view; what is remembered is bounded and goes with the view.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::time::Duration;

use skerry_base::{BucketId, Dot, Instant, SiteId};
use skerry_federation::site_view::{Seat, View};
use skerry_model::bucket::Within;

use super::{Nodes, lock};
use crate::site::Site;

/// Versions that are remembered; beyond it they are asked for again.
const REMEMBERED: usize = 4096;
/// How long nothing is decided after a node said that it does not keep the bucket: what it keeps is a matter of settings.
const UNKEPT: Duration = Duration::from_secs(5);

/// Versions that all holders of a view have, and whether with their bodies.
#[derive(Debug, Default)]
pub(super) struct Settled {
    view: u64,
    dots: BTreeMap<(BucketId, Dot), bool>,
    /// Buckets of which they know the home and its tenure.
    said: BTreeSet<BucketId>,
}

/// Buckets that a holder of a view does not keep: which said so when, and how.
pub(super) type Unkept = BTreeMap<BucketId, (u64, Instant, String)>;

impl Settled {
    fn has(&self, view: u64, bucket: BucketId, dot: Dot) -> bool {
        self.view == view && self.dots.contains_key(&(bucket, dot))
    }

    fn is_whole(&self, bucket: BucketId, dot: Dot) -> bool {
        self.dots.get(&(bucket, dot)).copied().unwrap_or_default()
    }

    fn has_said(&self, view: u64, bucket: BucketId) -> bool {
        self.view == view && self.said.contains(&bucket)
    }

    fn say(&mut self, view: u64, bucket: BucketId) {
        self.remember(view, bucket, &[], false);
        if self.said.len() >= REMEMBERED {
            self.said.clear();
        }
        if self.view == view {
            self.said.insert(bucket);
        }
    }

    fn remember(&mut self, view: u64, bucket: BucketId, dots: &[Dot], is_whole: bool) {
        if self.view > view {
            return;
        }
        if self.view < view || self.dots.len() + dots.len() > REMEMBERED {
            *self = Self { view, ..Self::default() };
        }
        for dot in dots.iter().take(REMEMBERED) {
            *self.dots.entry((bucket, *dot)).or_default() |= is_whole;
        }
    }
}

impl Nodes {
    /// Whether the nodes of this site keep its homes among them: where a majority is less than all one of them can be lost.
    pub(crate) fn keep_homes(&self) -> bool {
        self.are_several() && self.all.majority() < self.all.len()
    }

    /// Whether all holders of a view are known to have a version.
    pub(crate) fn has_settled(&self, view: u64, bucket: BucketId, dot: Dot) -> bool {
        lock(&self.settled).has(view, bucket, dot)
    }

    /// The same, with its body, of the view that was heard of last.
    pub(crate) fn has_settled_whole(&self, bucket: BucketId, dot: Dot) -> bool {
        lock(&self.settled).is_whole(bucket, dot)
    }

    /// All holders of a view have these.
    pub(crate) fn remember_settled(&self, view: u64, bucket: BucketId, dots: &[Dot], is_whole: bool) {
        lock(&self.settled).remember(view, bucket, dots, is_whole);
    }

    /// Whether all holders of a view are known to know the home of a bucket and its tenure.
    pub(crate) fn has_said(&self, view: u64, bucket: BucketId) -> bool {
        lock(&self.settled).has_said(view, bucket)
    }

    /// All holders of a view do.
    pub(crate) fn remember_said(&self, view: u64, bucket: BucketId) {
        lock(&self.settled).say(view, bucket);
    }

    /// A holder of a view does not keep a bucket.
    pub(crate) fn remember_unkept(&self, (view, bucket): (u64, BucketId), now: Instant, why: String) {
        let mut unkept = lock(&self.unkept);
        unkept.retain(|_, (of, since, _)| *of == view && now.since(*since) < UNKEPT);
        unkept.insert(bucket, (view, now, why));
    }

    /// Why nothing can be decided in a bucket, as was heard of late.
    pub(crate) fn unkept(&self, bucket: BucketId, now: Instant) -> Option<String> {
        let view = lock(&self.shown).view?.epoch;
        let unkept = lock(&self.unkept);
        let (of, since, why) = unkept.get(&bucket)?;
        (*of == view && now.since(*since) < UNKEPT).then(|| why.clone())
    }

    /// Only one home passes at a time: many may ask for it.
    pub(crate) async fn pass(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.passing.lock().await
    }

    /// The register names one thing after the other: each is judged by all that was named before it.
    pub(crate) async fn naming(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.naming.lock().await
    }

    /// A home came to this node.
    pub(crate) fn took_over(&self) {
        self.taken_over.fetch_add(1, Ordering::Relaxed);
    }

    /// How many homes came to this node since its start.
    pub(crate) fn taken_over(&self) -> u64 {
        self.taken_over.load(Ordering::Relaxed)
    }

    /// The epoch of the view that was heard of last.
    pub(crate) fn epoch(&self) -> Option<u64> {
        lock(&self.shown).view.map(|view| view.epoch)
    }

    /// Follows it.
    pub(crate) fn turning(&self) -> tokio::sync::watch::Receiver<Option<u64>> {
        self.turned.subscribe()
    }
}

impl Site {
    /// The view that a decision about a bucket would be made in. What has to hold when it is made is asked for on the commit
    /// thread.
    pub(crate) fn within(&self, bucket: BucketId) -> Within {
        let (nodes, roster) = (&self.nodes, &self.peers.roster);
        let (view, is_leased, refusing) = {
            let shown = lock(&nodes.shown);
            let is_leased = shown.reads_until.is_some_and(|until| self.clock.since_boot() < until);
            (shown.view, is_leased, shown.refusing)
        };
        let mut members = roster.ever_of(nodes.site);
        members.extend([nodes.site, self.id]);
        let Some(view) = view.filter(|view| view.is_quorate(nodes.all)) else {
            // Who that is without a view is not known: the home is asked.
            let (live, owner) = (members.clone(), self.id);
            return Within { me: self.id, view: 0, reads: false, nodes: members, live, owner };
        };
        let keeps_it = self.is_complete(bucket) && !nodes.has_gap(bucket);
        let filled = view.holders().iter().filter_map(|seat| self.member_in(seat)).count();
        // A seat that nobody fills has nothing: until the view goes on without it nothing is settled either.
        let is_filled = filled == view.holders().len() && view.holders().contains(nodes.me);
        // Who is joining decides nothing, and may be for hours if its disk was emptied: its homes pass on.
        let live: BTreeSet<SiteId> = view.live.iter().filter_map(|seat| self.member_in(seat)).collect();
        let owner = owner(self, &view, bucket);
        // What is decided while a holder cannot hold would be abandoned with the view: the next one is waited for.
        let can_settle = view.holders().and(refusing).is_empty();
        let reads = is_leased && keeps_it && is_filled && can_settle && owner.is_some();
        let owner = owner.unwrap_or(self.id);
        Within { me: self.id, view: view.epoch, reads, nodes: members, live, owner }
    }

    /// The members that hold the site's writes now, as far as this node knows.
    pub(crate) fn holding_members(&self) -> BTreeSet<SiteId> {
        let holders = self.nodes.holders().map(|view| view.holders()).unwrap_or_default();
        holders.iter().filter_map(|seat| self.member_in(seat)).collect()
    }

    fn member_in(&self, seat: Seat) -> Option<SiteId> {
        if seat == self.nodes.me {
            return Some(self.id);
        }
        self.peers.roster.holder(self.nodes.site, seat).map(|(member, _)| member)
    }
}

fn owner(site: &Site, view: &View, bucket: BucketId) -> Option<SiteId> {
    view.owner(bucket).and_then(|seat| site.member_in(seat))
}

#[cfg(test)]
mod tests {
    use skerry_base::{NodeId, Origin};

    use super::*;

    #[test]
    fn what_is_settled_is_forgotten_with_the_view() {
        let bucket = BucketId([1; 16]);
        let dot = |seq| Dot { origin: Origin { node: NodeId([2; 16]), incarnation: 1 }, seq };
        let mut settled = Settled::default();
        settled.remember(3, bucket, &[dot(1)], false);
        settled.remember(3, bucket, &[dot(2)], true);
        assert_eq!((settled.has(3, bucket, dot(1)), settled.has(4, bucket, dot(1))), (true, false));
        assert_eq!((settled.is_whole(bucket, dot(1)), settled.is_whole(bucket, dot(2))), (false, true));
        settled.remember(2, bucket, &[dot(9)], true);
        assert!(!settled.has(2, bucket, dot(9)), "of a former view");
        settled.say(3, bucket);
        assert!(settled.has_said(3, bucket) && settled.has(3, bucket, dot(1)));
        settled.remember(4, bucket, &[dot(3)], false);
        assert!(!settled.has_said(3, bucket) && !settled.has_said(4, bucket));
        assert!(!settled.has(3, bucket, dot(1)) && !settled.is_whole(bucket, dot(2)));
        for seq in 0..2 * REMEMBERED as u64 {
            settled.remember(4, bucket, &[dot(seq)], false);
        }
        assert!(settled.dots.len() <= REMEMBERED);
    }
}
