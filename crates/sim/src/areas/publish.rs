//! Telling landmarks what this site holds: nearest first, again on change, deleted on leave.
//!
//! A landmark that is met is greeted with the digest of everything; if it holds something else it is told all, in
//! pieces of one datagram each. Later it is told what changed. What is not acknowledged is said again, slower each
//! time, and does not keep farther landmarks waiting. A landmark that is none any more is told so.
//!
//! Invariants: versions rise; a landmark's `acked` never exceeds the version; one publication per landmark and at
//! most [`limits::TELL`] in all are on their way, but for those that are late.

use core::ops::Bound;
use core::time::Duration;
use std::collections::BTreeMap;

use skerry_base::{BucketId, Instant, SiteId};
use skerry_federation::areas::Landmark;

use super::landmark::term;
use super::limits;
use super::message::{Membership, Message, Publish};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Saying {
    /// Only the digest: maybe it still knows.
    Digest,
    /// Everything; the next piece starts after this bucket.
    All(Option<BucketId>),
    /// What changed since `acked`; the next piece starts after this bucket.
    News(Option<BucketId>),
    /// That it is no landmark any more.
    Farewell,
}

#[derive(Debug, Clone, Copy)]
struct OnTheWay {
    ticket: u64,
    digest: u64,
    next: Option<BucketId>,
    due: Instant,
}

#[derive(Debug)]
struct Told {
    distance: Duration,
    saying: Saying,
    acked: u64,
    /// The version when the first piece was said.
    began: u64,
    on_the_way: Option<OnTheWay>,
    tries: u8,
    rest: Option<Instant>,
}

impl Told {
    const fn met(distance: Duration) -> Self {
        Self { distance, saying: Saying::Digest, acked: 0, began: 0, on_the_way: None, tries: 0, rest: None }
    }

    fn wants(&self, version: u64, now: Instant) -> bool {
        let said = matches!(self.saying, Saying::News(None)) && self.acked == version;
        self.on_the_way.is_none() && !said && self.rest.is_none_or(|at| at <= now)
    }
}

/// What this site holds and what each landmark knows of it.
#[derive(Debug)]
pub struct Publisher {
    life: u64,
    version: u64,
    digest: u64,
    tickets: u64,
    mine: BTreeMap<BucketId, (u64, bool)>,
    told: BTreeMap<SiteId, Told>,
}

impl Publisher {
    /// Holds nothing. `life` rises with every start.
    pub const fn new(life: u64) -> Self {
        Self { life, version: 0, digest: 0, tickets: 0, mine: BTreeMap::new(), told: BTreeMap::new() }
    }

    /// Whether this site holds a bucket.
    pub fn holds(&self, bucket: BucketId) -> bool {
        self.mine.get(&bucket).is_some_and(|(_, member)| *member)
    }

    /// Begins or ends to hold a bucket; false if that would be too many.
    pub fn set(&mut self, bucket: BucketId, member: bool) -> bool {
        if self.holds(bucket) == member {
            return true;
        }
        if self.mine.len() >= limits::BUCKETS && !self.mine.contains_key(&bucket) {
            return false;
        }
        self.version += 1;
        self.mine.insert(bucket, (self.version, member));
        self.digest = match member {
            true => self.digest.wrapping_add(term(bucket)),
            false => self.digest.wrapping_sub(term(bucket)),
        };
        true
    }

    /// Who the landmarks are now. Who is none any more is told so, unless it is `gone`.
    pub fn landmarks(&mut self, landmarks: &[Landmark], gone: impl Fn(SiteId) -> bool) {
        let distances: BTreeMap<SiteId, Duration> =
            landmarks.iter().map(|landmark| (landmark.site, landmark.distance)).collect();
        for (site, distance) in &distances {
            let told = self.told.entry(*site).or_insert_with(|| Told::met(*distance));
            told.distance = *distance;
            if told.saying == Saying::Farewell {
                *told = Told::met(*distance);
            }
        }
        self.told.retain(|site, _| !gone(*site));
        let left = self.told.iter_mut().filter(|(site, _)| !distances.contains_key(site));
        for (_, told) in left.filter(|(_, told)| told.saying != Saying::Farewell) {
            *told = Told { saying: Saying::Farewell, ..Told::met(told.distance) };
        }
    }

    /// A landmark that restarted may have forgotten everything.
    pub fn greet(&mut self, site: SiteId) {
        if let Some(told) = self.told.get_mut(&site).filter(|told| told.saying != Saying::Farewell) {
            *told = Told::met(told.distance);
        }
    }

    /// When [`Self::tell`] has something to do.
    pub fn next_wake(&self) -> Option<Instant> {
        let due = |told: &Told| told.on_the_way.map(|on| on.due).or(told.rest);
        self.told.values().filter_map(due).min()
    }

    /// Says what is to be said now, nearest first.
    pub fn tell(&mut self, now: Instant) -> Vec<(SiteId, Message)> {
        self.give_up(now);
        let version = self.version;
        let on_time = |told: &&Told| told.on_the_way.is_some() && told.tries == 0;
        let busy = self.told.values().filter(on_time).count();
        let mut wanting: Vec<(Duration, SiteId)> = self
            .told
            .iter()
            .filter(|(_, told)| told.wants(version, now))
            .map(|(site, told)| (told.distance, *site))
            .collect();
        wanting.sort_unstable();
        wanting.truncate(limits::TELL.saturating_sub(busy));
        wanting.into_iter().filter_map(|(_, site)| Some((site, self.say(site, now)?))).collect()
    }

    /// What was not acknowledged in time is said again later.
    fn give_up(&mut self, now: Instant) {
        for told in self.told.values_mut() {
            if told.on_the_way.is_some_and(|on| on.due <= now) {
                told.on_the_way = None;
                told.tries = told.tries.saturating_add(1);
            }
        }
        let over = |told: &Told| told.saying == Saying::Farewell && told.tries >= limits::WITHDRAW_TRIES;
        self.told.retain(|_, told| !over(told));
    }

    fn say(&mut self, site: SiteId, now: Instant) -> Option<Message> {
        let told = self.told.get_mut(&site)?;
        told.rest = None;
        if matches!(told.saying, Saying::Digest | Saying::All(None) | Saying::News(None) | Saying::Farewell) {
            told.began = self.version;
        }
        let (changes, next) = match told.saying {
            Saying::Digest | Saying::Farewell => (Vec::new(), None),
            Saying::All(after) => piece(&self.mine, after, 0),
            Saying::News(after) => piece(&self.mine, after, told.acked),
        };
        self.tickets += 1;
        let again = limits::TELL_AGAIN.saturating_mul(1 << told.tries.min(16)).min(limits::TELL_AGAIN_MAX);
        let due = now.after(again + told.distance * 2);
        told.on_the_way = Some(OnTheWay { ticket: self.tickets, digest: self.digest, next, due });
        let withdraw = told.saying == Saying::Farewell;
        let (ticket, life, digest) = (self.tickets, self.life, self.digest);
        Some(Message::Publish(Publish { ticket, life, changes, digest, withdraw }))
    }

    /// A landmark says what it holds now.
    pub fn acknowledged(&mut self, from: SiteId, ticket: u64, digest: u64, now: Instant) {
        let version = self.version;
        let Some(told) = self.told.get_mut(&from) else { return };
        let Some(said) = told.on_the_way.take_if(|on| on.ticket == ticket) else { return };
        if told.saying == Saying::Farewell {
            self.told.remove(&from);
            return;
        }
        let right = said.digest == digest;
        // The digest is of the moment of saying: a piece said later than the first may carry newer entries.
        told.saying = match (told.saying, said.next) {
            (Saying::All(_), Some(next)) => Saying::All(Some(next)),
            (Saying::News(_), Some(next)) => Saying::News(Some(next)),
            (Saying::Digest, _) if !right => Saying::All(None),
            (_, None) if !right && told.began == version => {
                told.rest = Some(now.after(limits::TELL_AGAIN.saturating_mul(1 << told.tries.min(6))));
                told.tries = told.tries.saturating_add(1);
                Saying::All(None)
            }
            _ => {
                (told.acked, told.tries) = (told.began, 0);
                Saying::News(None)
            }
        };
    }

    /// Landmarks that know everything.
    pub fn settled(&self) -> usize {
        let knows = |told: &&Told| told.saying == Saying::News(None) && told.acked == self.version;
        self.told.values().filter(knows).count()
    }

    /// Landmarks that are told.
    pub fn count(&self) -> usize {
        self.told.len()
    }
}

/// Up to a message full of memberships changed after `acked`, in order of bucket; and where to go on.
fn piece(
    mine: &BTreeMap<BucketId, (u64, bool)>,
    after: Option<BucketId>,
    acked: u64,
) -> (Vec<Membership>, Option<BucketId>) {
    let start = after.map_or(Bound::Unbounded, Bound::Excluded);
    let mut entries = mine.range((start, Bound::Unbounded)).filter(|(_, (version, _))| *version > acked);
    let changes: Vec<Membership> = entries
        .by_ref()
        .take(limits::ENTRIES)
        .map(|(bucket, (version, member))| Membership { bucket: *bucket, version: *version, member: *member })
        .collect();
    let next = entries.next().and_then(|_| changes.last().map(|last| last.bucket));
    (changes, next)
}
