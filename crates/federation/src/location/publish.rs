//! Telling landmarks of which buckets this site is a member.
//!
//! Per landmark one publication is on its way at a time; it is repeated until acknowledged. The acknowledgement
//! carries the digest of what the landmark holds, so that a reconnection costs one empty publication when
//! nothing was lost, and everything is said again when something was.
//!
//! Invariants: versions rise; `acked` of a landmark never exceeds the version of the last change.

use std::collections::BTreeMap;
use std::ops::Bound;

use skerry_base::{BucketId, Instant, SiteId};

use super::table::term;
use crate::context::Context;
use crate::limits;
use crate::message::{Membership, Message, Publish};

/// What is being said to a landmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Saying {
    /// Only the digest: maybe it still knows.
    Digest,
    /// Everything; the next piece starts after this bucket.
    All(Option<BucketId>),
    /// What changed since `acked`.
    News,
    /// That it is no landmark of this site any more.
    Farewell,
}

#[derive(Debug)]
struct OnTheWay {
    ticket: u64,
    digest: u64,
    /// The version up to which everything is said once this is acknowledged.
    covers: u64,
    /// The version of `digest`.
    version: u64,
    /// Where the next piece of everything starts, if there is one.
    next: Option<BucketId>,
    due: Instant,
}

#[derive(Debug)]
struct Landmark {
    saying: Saying,
    acked: u64,
    /// The version when the first piece of everything was said.
    began: u64,
    on_the_way: Option<OnTheWay>,
    tries: u8,
    /// Nothing is said before: it keeps holding something else than was said.
    rest: Option<Instant>,
}

impl Landmark {
    const fn new() -> Self {
        Self { saying: Saying::Digest, acked: 0, began: 0, on_the_way: None, tries: 0, rest: None }
    }
}

/// This site's memberships and what each landmark knows of them.
#[derive(Debug)]
pub(super) struct Publisher {
    life: u64,
    version: u64,
    digest: u64,
    mine: BTreeMap<BucketId, (u64, bool)>,
    landmarks: BTreeMap<SiteId, Landmark>,
}

impl Publisher {
    pub(super) const fn new(life: u64) -> Self {
        Self { life, version: 0, digest: 0, mine: BTreeMap::new(), landmarks: BTreeMap::new() }
    }

    pub(super) fn is_member(&self, bucket: BucketId) -> bool {
        self.mine.get(&bucket).is_some_and(|(_, member)| *member)
    }

    pub(super) fn set(&mut self, bucket: BucketId, member: bool) {
        if self.is_member(bucket) == member {
            return;
        }
        self.version += 1;
        self.mine.insert(bucket, (self.version, member));
        self.digest = match member {
            true => self.digest.wrapping_add(term(bucket)),
            false => self.digest.wrapping_sub(term(bucket)),
        };
    }

    /// A new connection: the other side may have restarted.
    pub(super) fn link_up(&mut self, site: SiteId, cx: &Context<'_>) {
        self.landmarks.remove(&site);
        if cx.peers.tells(site) {
            self.landmarks.insert(site, Landmark::new());
        }
    }

    /// Who is told may be others now.
    pub(super) fn turned(&mut self, cx: &Context<'_>) {
        cx.peers.in_reach().for_each(|site| self.weigh(site, cx));
    }

    /// Whether a site that can be reached is told may have changed.
    pub(super) fn weigh(&mut self, site: SiteId, cx: &Context<'_>) {
        if !cx.peers.is_reachable(site) {
            return;
        }
        let said = self.landmarks.get(&site).map(|landmark| landmark.saying == Saying::Farewell);
        match (said, cx.peers.tells(site)) {
            (None | Some(true), true) => {
                self.landmarks.insert(site, Landmark::new());
            }
            (Some(false), false) if cx.peers.understands(site) => {
                let leaving = Landmark { saying: Saying::Farewell, ..Landmark::new() };
                self.landmarks.insert(site, leaving);
            }
            (Some(false), false) => {
                self.landmarks.remove(&site);
            }
            (None, false) | (Some(false), true) | (Some(true), false) => {}
        }
    }

    /// Of which buckets this site is a member.
    pub(super) fn mine(&self) -> impl Iterator<Item = BucketId> {
        self.mine.iter().filter(|(_, (_, member))| *member).map(|(bucket, _)| *bucket)
    }

    /// Sites that are told, and how many of them have said that they hold everything.
    pub(super) fn told(&self) -> (usize, usize) {
        let knows = |landmark: &&Landmark| landmark.saying == Saying::News && landmark.acked == self.version;
        (self.landmarks.len(), self.landmarks.values().filter(knows).count())
    }

    pub(super) fn link_down(&mut self, site: SiteId) {
        self.landmarks.remove(&site);
    }

    pub(super) fn next_wake(&self) -> Option<Instant> {
        let due = |landmark: &Landmark| landmark.on_the_way.as_ref().map(|on| on.due).or(landmark.rest);
        self.landmarks.values().filter_map(due).min()
    }

    /// Says what is not said yet to everybody who is not being told something.
    pub(super) fn sync(&mut self, cx: &mut Context<'_>) {
        let sites: Vec<SiteId> = self.landmarks.keys().copied().collect();
        for site in sites {
            self.say(site, cx);
        }
        let version = self.version;
        cx.hold(self.landmarks.values().all(|landmark| landmark.acked <= version), "said more than there is");
    }

    /// Repeats what was not acknowledged in time.
    pub(super) fn tick(&mut self, cx: &mut Context<'_>) {
        let late = |landmark: &Landmark| landmark.on_the_way.as_ref().is_some_and(|on| on.due <= cx.now);
        let sites: Vec<SiteId> =
            self.landmarks.iter().filter(|(_, landmark)| late(landmark)).map(|(site, _)| *site).collect();
        let over = |landmark: &Landmark| {
            landmark.saying == Saying::Farewell && landmark.tries + 1 >= limits::FAREWELLS && late(landmark)
        };
        self.landmarks.retain(|_, landmark| !over(landmark));
        for site in sites {
            if let Some(landmark) = self.landmarks.get_mut(&site) {
                landmark.tries = landmark.tries.saturating_add(1);
                landmark.on_the_way = None;
            }
            self.say(site, cx);
        }
        let rested = |landmark: &Landmark| landmark.rest.is_some_and(|at| at <= cx.now);
        let sites: Vec<SiteId> =
            self.landmarks.iter().filter(|(_, landmark)| rested(landmark)).map(|(site, _)| *site).collect();
        for site in sites {
            self.say(site, cx);
        }
    }

    pub(super) fn acknowledged(&mut self, from: SiteId, ticket: u64, digest: u64, cx: &mut Context<'_>) {
        let Some(landmark) = self.landmarks.get_mut(&from) else { return cx.stale() };
        let Some(said) = landmark.on_the_way.take_if(|on| on.ticket == ticket) else { return cx.stale() };
        if landmark.saying == Saying::Farewell {
            self.landmarks.remove(&from);
            return;
        }
        match (said.next, said.digest == digest) {
            (Some(next), _) => landmark.saying = Saying::All(Some(next)),
            (None, true) => {
                (landmark.acked, landmark.saying, landmark.tries) = (said.covers, Saying::News, 0);
            }
            (None, false) if said.covers < said.version && landmark.saying != Saying::Digest => {
                (landmark.acked, landmark.saying) = (said.covers, Saying::News);
            }
            // It holds something else: from the beginning, slower each time.
            (None, false) => {
                if landmark.saying != Saying::Digest {
                    landmark.rest = Some(cx.backoff(limits::PUBLISH_AGAIN, landmark.tries));
                    landmark.tries = landmark.tries.saturating_add(1);
                }
                landmark.saying = Saying::All(None);
            }
        }
        self.say(from, cx);
    }

    fn say(&mut self, site: SiteId, cx: &mut Context<'_>) {
        let (version, life, digest) = (self.version, self.life, self.digest);
        let Some(landmark) = self.landmarks.get_mut(&site) else { return };
        let said = landmark.saying == Saying::News && landmark.acked == version;
        let rests = landmark.rest.is_some_and(|at| at > cx.now);
        if landmark.on_the_way.is_some() || said || rests || !cx.peers.is_reachable(site) {
            return;
        }
        landmark.rest = None;
        if landmark.saying == Saying::Farewell {
            let ticket = cx.ticket().0;
            let due = cx.backoff(limits::PUBLISH_AGAIN, landmark.tries).after(cx.peers.rtt(site) * 2);
            landmark.on_the_way =
                Some(OnTheWay { ticket, digest: 0, covers: 0, version: 0, next: None, due });
            if cx.peers.understands(site) {
                cx.send(site, Message::Withdraw { ticket });
            }
            return;
        }
        if !matches!(landmark.saying, Saying::All(Some(_))) {
            landmark.began = version;
        }
        let (changes, next, covers) = match landmark.saying {
            Saying::Digest | Saying::Farewell => (Vec::new(), None, version),
            Saying::All(after) => {
                let (changes, next) = piece(&self.mine, after, 0);
                (changes, next, landmark.began)
            }
            Saying::News => {
                let (changes, next) = piece(&self.mine, None, landmark.acked);
                (changes, next, version)
            }
        };
        let ticket = cx.ticket().0;
        let again = cx.backoff(limits::PUBLISH_AGAIN, landmark.tries);
        let due = again.after(cx.peers.rtt(site) * 2);
        // A piece that is not the last leaves the digest open, whatever it is.
        landmark.on_the_way = Some(OnTheWay { ticket, digest, covers, version, next, due });
        cx.send(site, Message::Publish(Publish { ticket, life, changes, digest }));
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
        .take(limits::ENTRIES_PER_MESSAGE)
        .map(|(bucket, (version, member))| Membership { bucket: *bucket, version: *version, member: *member })
        .collect();
    let next = entries.next().and_then(|_| changes.last().map(|last| last.bucket));
    (changes, next)
}
