//! What a landmark has heard: which site is a member of which bucket.
//!
//! Every entry is a register of its publisher: in one life the highest version is true. A new life makes all
//! earlier entries stale: they still count as members (most are) until the digest says that the new life has
//! said everything.
//!
//! Lives rise with each start, but a disk that burned or was set back counts anew, below what is known here or
//! once more the same. So the first word on a new connection is believed, whatever its life; entries of before
//! that it does not confirm are stale.
//!
//! Invariants: the index by bucket is exactly what the entries of all publishers say; at most
//! [`limits::BUCKETS`] entries per publisher and [`limits::HOLDERS`] members per bucket.

use std::collections::{BTreeMap, BTreeSet};

use skerry_base::{BucketId, SiteId};

use crate::context::Context;
use crate::message::Publish;
use crate::{Output, limits};

/// A site became or is no longer a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) site: SiteId,
    pub(crate) bucket: BucketId,
    pub(crate) member: bool,
}

impl Change {
    pub(super) const fn output(&self) -> Output {
        Output::MemberOf { site: self.site, bucket: self.bucket, member: self.member }
    }
}

/// Order-free digest of a set of buckets: the sum of their hashes.
pub(super) fn term(bucket: BucketId) -> u64 {
    let hash = blake3::hash(&bucket.0);
    hash.as_bytes().iter().take(8).fold(0, |sum, byte| (sum << 8) | u64::from(*byte))
}

#[derive(Debug, Default)]
struct Heard {
    life: u64,
    entries: BTreeMap<BucketId, (u64, bool)>,
    /// Memberships that an earlier life published, or that were seen without being published.
    stale: BTreeSet<BucketId>,
    digest: u64,
    complete: bool,
    /// Nothing was published on this connection yet.
    fresh: bool,
}

impl Heard {
    fn is_member(&self, bucket: BucketId) -> bool {
        match self.entries.get(&bucket) {
            Some((_, member)) => *member,
            None => self.stale.contains(&bucket),
        }
    }

    fn new_life(&mut self, life: u64) {
        let old = core::mem::take(&mut self.entries);
        self.stale.extend(old.into_iter().filter(|(_, (_, member))| *member).map(|(bucket, _)| bucket));
        (self.life, self.digest, self.complete) = (life, 0, false);
    }

    /// Whether a publication of this life counts; what is held makes room for another life.
    fn begin(&mut self, life: u64, first: bool) -> bool {
        if life < self.life && !first {
            // A straggler; or a life that was set back, heard of before its connection: then it says it again.
            self.fresh = true;
            return false;
        }
        if life != self.life {
            self.new_life(life);
        } else if first {
            self.entries.values_mut().for_each(|(version, _)| *version = 0);
        }
        true
    }

    /// Whether there is room for so many entries more: what was left longest ago makes it. No word of before comes after
    /// thousands of later ones on the same connection, and on another nothing is believed that is not said again.
    fn makes_room(&mut self, more: usize) -> bool {
        let most = (2 * limits::BUCKETS).saturating_sub(more);
        if self.entries.len() > most {
            let mut left: Vec<(u64, BucketId)> = self.left().collect();
            left.sort_unstable();
            // Half of them, so that this is not done with each publication.
            left.truncate((left.len() / 2).max(self.entries.len() - most));
            for (_, bucket) in left {
                self.entries.remove(&bucket);
            }
        }
        self.entries.len() <= most
    }

    fn left(&self) -> impl Iterator<Item = (u64, BucketId)> + '_ {
        self.entries
            .iter()
            .filter(|(_, (_, member))| !member)
            .map(|(bucket, (version, _))| (*version, *bucket))
    }

    fn set(&mut self, bucket: BucketId, version: u64, member: bool) {
        let old = self.entries.get(&bucket).copied();
        if old.is_some_and(|(known, _)| known >= version) {
            return;
        }
        let was = old.is_some_and(|(_, was)| was);
        self.entries.insert(bucket, (version, member));
        self.stale.remove(&bucket);
        match (was, member) {
            (false, true) => self.digest = self.digest.wrapping_add(term(bucket)),
            (true, false) => self.digest = self.digest.wrapping_sub(term(bucket)),
            _ => {}
        }
    }
}

/// The table of a landmark.
#[derive(Debug, Default)]
pub(super) struct Holders {
    heard: BTreeMap<SiteId, Heard>,
    index: BTreeMap<BucketId, BTreeSet<SiteId>>,
    /// Published memberships that their site has denied since: the denial may be older than the publication.
    denied: BTreeSet<(SiteId, BucketId)>,
}

impl Holders {
    pub(super) fn of(&self, bucket: BucketId) -> BTreeSet<SiteId> {
        self.index.get(&bucket).cloned().unwrap_or_default()
    }

    pub(super) fn buckets_of(&self, site: SiteId) -> Vec<BucketId> {
        self.index.iter().filter(|(_, sites)| sites.contains(&site)).map(|(bucket, _)| *bucket).collect()
    }

    /// A connection: its other end may be in a life that counts anew.
    pub(super) fn link_up(&mut self, site: SiteId) {
        self.heard.entry(site).and_modify(|heard| heard.fresh = true);
    }

    /// Takes a publication; none if it is more than allowed: then it is not known any more where its site is a member.
    pub(super) fn take(&mut self, from: SiteId, publish: Publish) -> Option<Vec<Change>> {
        let heard = self.heard.entry(from).or_default();
        if !heard.makes_room(publish.changes.len()) {
            heard.complete = false;
            return None;
        }
        let first = core::mem::take(&mut heard.fresh);
        if !heard.begin(publish.life, first) {
            return Some(Vec::new());
        }
        let mut touched: BTreeSet<BucketId> = BTreeSet::new();
        for change in publish.changes {
            heard.set(change.bucket, change.version, change.member);
            self.denied.remove(&(from, change.bucket));
            touched.insert(change.bucket);
        }
        if first && heard.digest != publish.digest {
            heard.new_life(publish.life);
        }
        heard.complete = heard.digest == publish.digest;
        if heard.complete {
            touched.append(&mut heard.stale);
        }
        Some(self.reindex(from, touched))
    }

    /// A site that was met as a member though its publication has not come.
    pub(super) fn hint(&mut self, site: SiteId, bucket: BucketId) -> Vec<Change> {
        let heard = self.heard.entry(site).or_default();
        if !heard.is_member(bucket) && heard.stale.len() < limits::BUCKETS {
            heard.entries.remove(&bucket);
            heard.stale.insert(bucket);
        }
        self.reindex(site, [bucket].into())
    }

    /// A site that is no member after all. If its publication said so the digests differ from now on, and the
    /// next greeting brings the whole again.
    pub(super) fn refute(&mut self, site: SiteId, bucket: BucketId) -> Vec<Change> {
        let Some(heard) = self.heard.get_mut(&site) else { return Vec::new() };
        heard.stale.remove(&bucket);
        if let Some((_, true)) = heard.entries.remove(&bucket) {
            heard.digest = heard.digest.wrapping_sub(term(bucket));
            if self.denied.len() < limits::BUCKETS {
                self.denied.insert((site, bucket));
            }
        }
        self.reindex(site, [bucket].into())
    }

    /// Whether a site published a membership and denied it afterwards.
    pub(super) fn has_denied(&self, site: SiteId, bucket: BucketId) -> bool {
        self.denied.contains(&(site, bucket))
    }

    /// A publisher tells this site no more. What concerns buckets that are followed here is still taken for true, until
    /// somebody says otherwise.
    pub(super) fn withdrawn(&mut self, site: SiteId, followed: impl Fn(BucketId) -> bool) -> Vec<Change> {
        let Some(heard) = self.heard.get_mut(&site) else { return Vec::new() };
        heard.new_life(heard.life);
        let (kept, left) =
            core::mem::take(&mut heard.stale).into_iter().partition(|bucket| followed(*bucket));
        heard.stale = kept;
        self.reindex(site, left)
    }

    pub(super) fn forget(&mut self, site: SiteId) -> Vec<Change> {
        let Some(heard) = self.heard.remove(&site) else { return Vec::new() };
        self.denied.retain(|(of, _)| *of != site);
        let buckets = heard.entries.into_keys().chain(heard.stale).collect();
        self.reindex(site, buckets)
    }

    /// What is held for a publisher in this life of it.
    pub(super) fn digest(&self, site: SiteId, life: u64) -> u64 {
        self.heard.get(&site).filter(|heard| heard.life == life).map_or(0, |heard| heard.digest)
    }

    /// Whether a publisher has said everything, and not this.
    pub(super) fn is_surely_no_member(&self, site: SiteId, bucket: BucketId) -> bool {
        self.heard.get(&site).is_some_and(|heard| heard.complete && !heard.is_member(bucket))
    }

    /// Sites that have not said everything since this machine's start, there or not.
    pub(super) fn unheard(&self, roster: &BTreeSet<SiteId>) -> Vec<SiteId> {
        // Both in order of site: a landmark of many looks at each step.
        let mut heard =
            self.heard.iter().filter(|(_, heard)| heard.complete).map(|(site, _)| *site).peekable();
        let mut said = |site: &SiteId| {
            while heard.next_if(|passed| passed < site).is_some() {}
            heard.next_if_eq(site).is_some()
        };
        roster.iter().copied().filter(|site| !said(site)).collect()
    }

    /// Sites that tell this one what they hold: the cluster of this landmark.
    pub(super) fn cluster(&self) -> impl Iterator<Item = SiteId> {
        self.heard.iter().filter(|(_, heard)| heard.complete).map(|(site, _)| *site)
    }

    /// Memberships held of all sites.
    pub(super) fn entries(&self) -> usize {
        self.heard.values().map(|heard| heard.entries.len() + heard.stale.len()).sum()
    }

    /// Whether every site that can be reached has said everything since this machine's start.
    pub(super) fn complete(&self, cx: &Context<'_>) -> bool {
        let said = |site: &SiteId| self.heard.get(site).is_some_and(|heard| heard.complete);
        cx.peers.all_reachable().iter().all(said)
    }

    fn reindex(&mut self, site: SiteId, buckets: BTreeSet<BucketId>) -> Vec<Change> {
        let heard = self.heard.get(&site);
        let mut changes = Vec::new();
        for bucket in buckets {
            let member = heard.is_some_and(|heard| heard.is_member(bucket));
            let sites = self.index.entry(bucket).or_default();
            let changed = match member {
                true => sites.len() < limits::HOLDERS && sites.insert(site),
                false => sites.remove(&site),
            };
            if sites.is_empty() {
                self.index.remove(&bucket);
            }
            if changed {
                changes.push(Change { site, bucket, member });
            }
        }
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Membership;

    const SITE: SiteId = SiteId([1; 16]);
    const BUCKET: BucketId = BucketId([5; 16]);

    fn publish(life: u64, version: u64, member: bool) -> Publish {
        let digest = if member { term(BUCKET) } else { 0 };
        Publish { ticket: 1, life, changes: vec![Membership { bucket: BUCKET, version, member }], digest }
    }

    fn heard() -> Holders {
        let mut holders = Holders::default();
        holders.take(SITE, publish(7, 9, true));
        holders
    }

    #[test]
    fn a_straggler_of_an_earlier_life_counts_for_nothing() {
        let mut holders = heard();
        holders.take(SITE, publish(3, 1, false));
        assert!(holders.of(BUCKET).contains(&SITE));
    }

    #[test]
    fn a_lower_life_is_believed_on_a_new_connection_or_when_it_insists() {
        let mut holders = heard();
        holders.link_up(SITE);
        holders.take(SITE, publish(1, 1, false));
        assert!(holders.of(BUCKET).is_empty());
        // A shell may tell of the connection after the first word on it.
        let mut holders = heard();
        holders.take(SITE, publish(1, 1, false));
        holders.take(SITE, publish(1, 1, false));
        assert!(holders.of(BUCKET).is_empty());
    }

    #[test]
    fn the_same_life_once_more_counts_its_versions_anew() {
        let mut holders = heard();
        holders.take(SITE, publish(7, 2, false));
        assert!(holders.of(BUCKET).contains(&SITE), "older within a connection");
        holders.link_up(SITE);
        holders.take(SITE, publish(7, 2, false));
        assert!(holders.of(BUCKET).is_empty());
    }

    fn numbered(n: usize) -> BucketId {
        let mut id = [0; 16];
        id[..8].copy_from_slice(&(n as u64).to_be_bytes());
        BucketId(id)
    }

    /// A site joins and leaves more buckets in one life than anybody may be a member of.
    #[test]
    fn buckets_that_were_left_make_room_for_others() {
        let mut holders = heard();
        let mut version = 9;
        let mut say = |holders: &mut Holders, buckets: std::ops::Range<usize>, member: bool| {
            let changes = buckets.map(|n| {
                version += 1;
                Membership { bucket: numbered(n), version, member }
            });
            let changes: Vec<Membership> = changes.collect();
            let digest = changes.iter().filter(|change| change.member).map(|change| term(change.bucket));
            let digest = digest.fold(term(BUCKET), u64::wrapping_add);
            holders.take(SITE, Publish { ticket: 3, life: 7, changes, digest })
        };
        for from in (0..4 * limits::BUCKETS).step_by(1024) {
            for member in [true, false] {
                assert!(say(&mut holders, from..from + 1024, member).is_some(), "{from}");
            }
            assert!(holders.entries() <= 2 * limits::BUCKETS);
        }
        assert!(say(&mut holders, 0..9, true).is_some());
        assert!(holders.of(BUCKET).contains(&SITE) && holders.of(numbered(8)).contains(&SITE));
        assert!(holders.of(numbered(9)).is_empty() && holders.is_surely_no_member(SITE, numbered(9)));
        // Who is a member of more than anybody may be is not believed to have said all.
        let all = 2 * limits::BUCKETS;
        for from in (9..all - 1).step_by(1024) {
            say(&mut holders, from..(from + 1024).min(all - 1), true);
        }
        assert!(say(&mut holders, all..all + 9, true).is_none());
        assert!(!holders.is_surely_no_member(SITE, numbered(all + 3)));
    }

    #[test]
    fn what_the_first_word_does_not_confirm_is_forgotten_once_all_is_said() {
        let mut holders = heard();
        holders.link_up(SITE);
        let nothing = |digest| Publish { ticket: 2, life: 7, changes: vec![], digest };
        holders.take(SITE, nothing(0));
        assert!(holders.of(BUCKET).is_empty(), "all is said: nothing");
        let mut holders = heard();
        holders.link_up(SITE);
        holders.take(SITE, nothing(17));
        assert!(holders.of(BUCKET).contains(&SITE), "most are still members");
        assert!(!holders.is_surely_no_member(SITE, BUCKET));
        assert_eq!(holders.digest(SITE, 7), 0, "so that all is said again");
        holders.take(SITE, nothing(0));
        assert!(holders.is_surely_no_member(SITE, BUCKET));
    }
}
