//! Asking in turn who has seen what, while somebody waits for that: a delete is forgotten when all members of its bucket have it.
//!
//! Why here: at rest only who is checked learns, and of each member that draws it. A bucket of n members takes n·ln n draws until
//! one has heard all, days among hundreds, and what was heard is in memory only: a site that starts anew more often never does.
//! Before: the shell says which buckets, and up to where. After: a check of those, to one site at a time, whom one that has the
//! same answers by the same. Invariants: one such check in [`limits::HEAR_PAUSE`], however many buckets and members there are;
//! each member is asked once in a round of them at most, and ever more seldom while it lacks what it is asked for; who was sent one is answered none for a while, so that no two go on by
//! themselves; who is known to have that much is not asked.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use skerry_base::{BucketId, Instant, SiteId, Vector};

use super::Feed;
use crate::context::Context;
use crate::limits;

/// Members that are looked at in one step until one is found that is to be asked: each look goes through all buckets waited for.
const LOOKED: usize = 16;

/// Longer than a round of a thousand members takes, with the rest before it.
const ROUND_MOST: Duration = Duration::from_secs(8 * 3600);

/// What is to be heard, and of whom.
#[derive(Debug, Default)]
pub(super) struct Hearing {
    /// Buckets, and what their members shall have said to have seen.
    goals: BTreeMap<BucketId, Vector>,
    /// Who is still to be asked in this round.
    line: VecDeque<SiteId>,
    /// When the next one is asked, or the next round begins.
    at: Option<Instant>,
    /// No round begins before.
    rests: Instant,
    /// Who was asked, until when it is not asked again, and for how long that is: who lacks it for long, as on a full disk, answers
    /// by all that it has each time.
    asked: BTreeMap<SiteId, (Instant, Duration)>,
    /// Who was sent such a check, and until when it is answered none: what it says meanwhile answers that.
    told: BTreeMap<SiteId, Instant>,
}

impl Hearing {
    pub(super) const fn next_wake(&self) -> Option<Instant> {
        self.at
    }

    pub(super) fn forget(&mut self, bucket: BucketId) {
        self.goals.remove(&bucket);
    }

    /// Whether it may be asked once more; then it rests for twice as long as the last time. Who was not asked for much longer than it
    /// had to rest had what it was asked for last.
    fn may_ask(&mut self, site: SiteId, now: Instant) -> bool {
        let last = self.asked.get(&site).copied();
        if last.is_some_and(|(until, _)| until > now) {
            return false;
        }
        let last = last.filter(|(until, rest)| now.since(*until) <= (*rest).max(ROUND_MOST));
        let rest = last.map_or(limits::HEAR_AGAIN / 2, |(_, rest)| (rest * 2).min(limits::HEAR_SELDOM));
        self.asked.insert(site, (now.after(rest), rest));
        true
    }

    /// A check without a wish to hear news found the same on both sides: whether that is to be said.
    pub(super) fn answers(&mut self, site: SiteId, now: Instant) -> bool {
        let is_new = self.told.get(&site).is_none_or(|until| *until <= now);
        if is_new {
            self.told.insert(site, now.after(limits::HEAR_ANSWER));
        }
        is_new
    }
}

impl Feed {
    /// Somebody waits for all members to have said that they have so much of a bucket.
    pub(crate) fn hear(&mut self, id: BucketId, upto: Vector, cx: &Context<'_>) {
        let hearing = &mut self.hearing;
        let is_room = hearing.goals.len() < limits::ENTRIES_PER_MESSAGE || hearing.goals.contains_key(&id);
        if self.buckets.contains_key(&id) && is_room {
            hearing.goals.insert(id, upto);
            let soonest = cx.now.after(limits::HEAR_PAUSE).max(hearing.rests);
            hearing.at = hearing.at.or(Some(soonest));
        }
    }

    /// Asks the next one, if it is time.
    pub(super) fn hear_due(&mut self, cx: &mut Context<'_>) {
        if self.hearing.at.is_none_or(|at| at > cx.now) {
            return;
        }
        if self.hearing.line.is_empty() {
            self.hearing.line = self.members_from_anyone_on(cx);
        }
        for _ in 0..LOOKED {
            let Some(site) = self.hearing.line.pop_front() else { break };
            let buckets = self.unheard_of(site, cx);
            if buckets.is_empty() {
                self.hearing.asked.remove(&site);
            } else if !self.spent.contains(&site) && self.hearing.may_ask(site, cx.now) {
                self.hearing.told.insert(site, cx.now.after(limits::HEAR_ANSWER));
                self.check(site, &buckets, false, cx);
                break;
            }
        }
        let hearing = &mut self.hearing;
        hearing.at = Some(cx.now.after(limits::HEAR_PAUSE)).filter(|_| !hearing.line.is_empty());
        if hearing.line.is_empty() {
            // Whoever still waits says so again.
            (hearing.goals, hearing.rests) = (BTreeMap::new(), cx.now.after(limits::HEAR_AGAIN));
            hearing.told.retain(|_, until| *until > cx.now);
        }
    }

    /// Who may be asked in a round, from anyone on: others that begin at the same time shall not ask the same one.
    fn members_from_anyone_on(&self, cx: &mut Context<'_>) -> VecDeque<SiteId> {
        let members = |id| self.buckets.get(id).map(|bucket| &bucket.members);
        let all: BTreeSet<SiteId> =
            self.hearing.goals.keys().filter_map(members).flatten().copied().collect();
        let mut all = VecDeque::from_iter(all);
        all.rotate_left(cx.pick(all.len()));
        all
    }

    /// Buckets of which a site that can be asked is not known to have so much.
    fn unheard_of(&self, site: SiteId, cx: &Context<'_>) -> Vec<BucketId> {
        let lacks = |(id, upto): &(&BucketId, &Vector)| {
            let Some(bucket) = self.buckets.get(id).filter(|bucket| bucket.members.contains(&site)) else {
                return false;
            };
            let known = bucket.sources.get(&site);
            known.is_none_or(|source| !source.vector.includes(&bucket.floor, upto))
        };
        let goals = self.hearing.goals.iter().filter(|_| cx.peers.is_reachable(site));
        goals.filter(lacks).map(|(id, _)| *id).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_lacks_it_for_long_is_asked_ever_more_seldom() {
        let (mut hearing, mut now, site) = (Hearing::default(), Instant::default(), SiteId([1; 16]));
        let hour = Duration::from_secs(3600);
        let mut asked = 0;
        for _ in 0..24 * 30 {
            asked += u32::from(hearing.may_ask(site, now));
            now = now.after(hour);
        }
        // Of 720 rounds: after 1, 1, 2, 4, 8 and 16 hours, then daily.
        assert_eq!(asked, 6 + 29);
        assert!(hearing.may_ask(SiteId([2; 16]), now), "each by itself");
        // One that has what it is asked for each day is asked for the next day's as soon as ever.
        let daily = SiteId([3; 16]);
        for _ in 0..30 {
            assert!(hearing.may_ask(daily, now));
            assert_eq!(hearing.asked[&daily].1, limits::HEAR_AGAIN / 2);
            now = now.after(hour * 24);
        }
    }
}
