//! The safety net: digests of vectors, told now and then to the members listened to.
//!
//! News can be lost; a check finds out. It costs 24 bytes per bucket, all buckets of one moment in one message,
//! and no answer when nothing differs. The pause doubles from 15 s to 5 min while nothing happens.

use std::collections::BTreeMap;

use skerry_base::{BucketId, Instant, SiteId, Vector};

use super::bucket::Bucket;
use super::known::STALE;
use super::{Feed, digest};
use crate::context::Context;
use crate::limits;
use crate::message::Message;

impl Feed {
    /// Checks the buckets whose time has come, one message per site.
    pub(super) fn check_due(&mut self, due: &[BucketId], cx: &mut Context<'_>) {
        let mut plan: BTreeMap<SiteId, Vec<BucketId>> = BTreeMap::new();
        let draw = if due.is_empty() { 0.0 } else { cx.draw() };
        for id in due {
            let Some(bucket) = self.buckets.get_mut(id) else { continue };
            bucket.scheduled_at = None;
            if bucket.check_at.is_none_or(|at| at > cx.now) {
                continue;
            }
            let listened = bucket.listened(draw, cx);
            listened.into_iter().for_each(|site| plan.entry(site).or_default().push(*id));
            if let Some(mine) = cx.vector(*id) {
                // At rest what differs need not be kept for each site.
                bucket.settle(&mine, if bucket.check_every > limits::CHECK_MIN { 0 } else { STALE });
            }
            bucket.check_at = Some(on_the_grid(cx.now.after(bucket.check_every), self.phase));
            bucket.check_every = (bucket.check_every * 2).min(cx.peers.check_max());
        }
        for (site, mut buckets) in plan {
            self.check(site, &buckets, true, cx);
            // Who does not take what is told (it is full) is told the same again: not always of the same buckets.
            let first = ((draw * buckets.len() as f64) as usize).min(buckets.len());
            buckets.rotate_left(first);
            let mut told = 0;
            for id in buckets {
                // The next check tells the rest: who was told says the same, and is not told again.
                if told > limits::ORIGINS_TOLD {
                    break;
                }
                told += self.tell_loose(id, site, cx);
            }
        }
    }

    /// Tells a site the digests of some buckets.
    pub(super) fn check(&mut self, site: SiteId, buckets: &[BucketId], listen: bool, cx: &mut Context<'_>) {
        for piece in buckets.chunks(limits::ENTRIES_PER_MESSAGE) {
            let mut entries = Vec::with_capacity(piece.len());
            for id in piece {
                if let Some(vector) = cx.vector(*id) {
                    entries.push((*id, digest(&vector)));
                }
            }
            if !entries.is_empty() {
                cx.send(site, Message::Check { listen, entries });
            }
        }
    }

    /// Answers the digests of another: by all we have, where it differs.
    pub(crate) fn checked(
        &mut self,
        from: SiteId,
        listen: bool,
        entries: &[(BucketId, u64)],
        cx: &mut Context<'_>,
    ) {
        let (mut same, mut told, mut loose) = (Vec::new(), 0, 0);
        for (id, theirs) in entries {
            let id = *id;
            // The next check brings the rest: by then what was told is equal.
            if told > limits::ORIGINS_TOLD {
                break;
            }
            if !self.has_joined(id) {
                cx.send(from, Message::NotMember { bucket: id });
                continue;
            }
            let Some(vector) = cx.vector(id) else { continue };
            let equal = digest(&vector) == *theirs;
            if listen {
                self.listen(id, from, None, cx);
            }
            if let Some(bucket) = self.buckets.get_mut(&id) {
                bucket.checked(from, &vector, (listen, equal));
            }
            if equal {
                same.push(id);
            } else {
                told += vector.len();
                cx.send(from, Message::News { bucket: id, vector: Vector::clone(&vector) });
            }
            if loose <= limits::ORIGINS_TOLD {
                loose += self.tell_loose(id, from, cx);
            }
        }
        if !listen && !same.is_empty() && self.hearing.answers(from, cx.now) {
            self.check(from, &same, false, cx);
        }
    }
}

/// In a large federation.
impl Feed {
    /// A member tells what it has of what everybody follows. If that was all, as who is checked and differs says, it may lack what is
    /// here, and among many nobody else may ever check this site: few links are drawn for that at their other ends. So it hears in
    /// turn what it lacks, and news from then on, as if it had checked as well. Not if that is more than it told: then it told a
    /// part, or has hardly begun, and asks for itself.
    pub(super) fn tell_in_turn(&mut self, from: SiteId, id: BucketId, theirs: &Vector, cx: &mut Context<'_>) {
        let is_asked =
            |bucket: &Bucket| bucket.listeners.get(&from).is_some_and(|listener| listener.until > cx.now);
        let is_told = self.buckets.get(&id).is_none_or(is_asked);
        if is_told || !cx.peers.is_crowded() || !self.is_everybodys(id, cx) {
            return;
        }
        let most = theirs.len();
        // Who tells a few of a thousand lacks more of them than it told, whatever these are.
        let Some(mine) = cx.vector(id).filter(|mine| mine.len() <= 2 * most) else { return };
        let Some(bucket) = self.buckets.get(&id) else { return };
        let known = bucket.sources.get(&from).map(|source| source.vector.lacks(&bucket.floor.mine(&mine)));
        if known.is_some_and(|lacking| (1..=most).contains(&lacking.len())) {
            self.listen(id, from, Some(theirs), cx);
            self.plan_news(id, cx);
        }
    }
}

impl Bucket {
    /// A site said whether it has all that this one has; what it lacks it is told now.
    fn checked(&mut self, from: SiteId, vector: &Vector, (listen, equal): (bool, bool)) {
        let all = self.all(vector);
        if equal {
            self.source(from);
        }
        let Self { floor, sources, most, listeners, .. } = self;
        // Said by nobody else at rest: who follows us has it all by now.
        if equal && let Some(source) = sources.get_mut(&from) {
            source.vector.merge_known(floor, &all);
            most.raise(vector);
        }
        match listeners.get_mut(&from) {
            Some(listener) if !equal => listener.told = all,
            Some(listener) if listen => listener.told.merge_known(floor, &all),
            _ => {}
        }
    }
}

/// The next common moment of all checks of this site, so that they share messages.
fn on_the_grid(at: Instant, phase: u64) -> Instant {
    let step = limits::CHECK_MIN.as_nanos() as u64;
    Instant((at.0.saturating_sub(phase)).div_ceil(step).saturating_mul(step).saturating_add(phase))
}
