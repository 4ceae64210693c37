//! Feeds: every member of a bucket pulls from two or three others what its vector does not cover.
//!
//! The cursor is the vector, so it does not matter who serves: records pass from A by B to C when A and C cannot
//! reach each other. [`pull`] asks and takes, [`serve`] tells news and hears who asks, [`answers`] gives
//! batch by batch, [`fresh`] sends small records with the news, [`check`] is the safety net under lost news, [`hear`] asks who has
//! seen what, [`choose`] says whom to ask, [`sites`] who may be asked, [`loose`] is for what no feed can bring, [`bucket`] is the
//! state of one bucket, [`known`] what others have.
//!
//! Invariants: one pull on its way per bucket, [`limits::PULLS_AT_ONCE`] in all; at most
//! [`limits::BATCHES_UNAPPLIED`] batches of a bucket wait for the store; a batch is handed over only if it
//! continues exactly what was handed over before.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use rand::RngExt;
use rand::rngs::StdRng;
use skerry_base::{BucketId, Instant, Origin, SiteId, Vector};

use crate::context::Context;
use crate::location::Change;
use crate::metered;
use crate::reconcile::End;
use crate::{Gaps, Pulls, Replica, Ticket, limits};

mod answers;
mod bucket;
mod check;
mod choose;
mod fresh;
mod hear;
mod known;
mod loose;
mod pull;
mod serve;
mod sites;
mod unapplied;

use answers::Serving;
use bucket::Bucket;
use hear::Hearing;
use known::Known;
use sites::{Line, Sites};
use unapplied::Unapplied;

/// A comparison that the feed asks for: caught up with this site, and in doubt or asked to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Wish {
    /// Start one, with this site in this life; and who was compared with since the doubt last grew.
    Compare(BucketId, (SiteId, Option<Origin>), BTreeSet<SiteId>),
    /// The one that runs found what is dead; all that could replace it has come since, from this life.
    Settle(BucketId, (SiteId, Option<Origin>)),
}

/// The feed machine.
pub(crate) struct Feed {
    buckets: BTreeMap<BucketId, Bucket>,
    /// When each bucket wants to be looked at.
    agenda: BTreeSet<(Instant, BucketId)>,
    applies: Unapplied,
    /// Loose records on their way to the store.
    keeps: BTreeMap<Ticket, BucketId>,
    /// Buckets that would pull if fewer pulls were on their way.
    queue: Line,
    pulls: usize,
    sites: Sites,
    /// Sites to and from which no records may cross now.
    spent: BTreeSet<SiteId>,
    /// Answers of which batches are left, those that have waited longest first.
    serving: VecDeque<Serving>,
    wishes: Vec<Wish>,
    hearing: Hearing,
    /// Buckets of which loose records were gathered when that was last looked at.
    gathering: BTreeSet<BucketId>,
    /// Whether small records may go and come with their news.
    fresh: bool,
    wanted: fresh::Wanted,
    /// Where in the check period this site's checks lie, so that sites do not check in step.
    phase: u64,
}

impl Feed {
    pub(crate) fn new(fresh: bool, rng: &mut StdRng) -> Self {
        Self {
            buckets: BTreeMap::new(),
            agenda: BTreeSet::new(),
            applies: Unapplied::default(),
            keeps: BTreeMap::new(),
            queue: Line::default(),
            pulls: 0,
            sites: Sites::default(),
            spent: BTreeSet::new(),
            serving: VecDeque::new(),
            wishes: Vec::new(),
            hearing: Hearing::default(),
            gathering: BTreeSet::new(),
            fresh,
            wanted: fresh::Wanted::default(),
            phase: rng.random_range(0..limits::CHECK_MIN.as_nanos() as u64),
        }
    }

    pub(crate) fn next_wake(&self) -> Option<Instant> {
        let (due, serves) =
            (self.agenda.first().map(|(at, _)| *at), self.serving.front().map(|serving| serving.at));
        [due, self.sites.next_wake(), self.hearing.next_wake(), serves].into_iter().flatten().min()
    }

    pub(crate) fn take_wishes(&mut self) -> Vec<Wish> {
        core::mem::take(&mut self.wishes)
    }

    pub(crate) fn has_joined(&self, bucket: BucketId) -> bool {
        self.buckets.contains_key(&bucket)
    }

    /// Becomes a member: catch up from the nearest, listen to two more; to all where members are not told of each other.
    /// False if this site is a member of too many.
    pub(crate) fn join(&mut self, id: BucketId, members: BTreeSet<SiteId>, cx: &mut Context<'_>) -> bool {
        if self.buckets.contains_key(&id) {
            return true;
        }
        if self.buckets.len() >= limits::BUCKETS {
            return false;
        }
        let mut bucket = Bucket::new(cx.now);
        bucket.members = members;
        self.buckets.insert(id, bucket);
        self.look_for_doubt(id, cx);
        self.greet(id, cx);
        true
    }

    fn greet(&mut self, id: BucketId, cx: &mut Context<'_>) {
        let Some(bucket) = self.buckets.get_mut(&id) else { return };
        let near = cx.peers.nearest(bucket.members.iter().copied());
        if let Some(nearest) = near.first() {
            bucket.ask(*nearest, true);
        }
        bucket.rest(cx.now);
        let most = if cx.peers.one_level() { limits::SOURCES - 1 } else { limits::HOLDERS };
        let others: Vec<SiteId> = near.into_iter().skip(1).take(most).collect();
        for site in others {
            self.check(site, &[id], true, cx);
        }
        self.proceed(id, cx);
    }

    /// Stops following. Batches on their way to the store are no longer waited for.
    pub(crate) fn leave(&mut self, id: BucketId, cx: &mut Context<'_>) {
        let Some(bucket) = self.buckets.remove(&id) else { return };
        if let Some(pull) = &bucket.pull {
            self.pulls -= 1;
            self.sites.ended(pull.source, pull.asked);
        }
        self.sites.forget(id);
        self.stop_answers(id, cx);
        self.hearing.forget(id);
        self.applies.forget(id);
        self.keeps.retain(|_, of| *of != id);
        self.queue.remove(id);
        self.agenda.retain(|(_, of)| *of != id);
        self.start_queued(cx);
    }

    /// A connection: whatever failed before is forgotten, and both sides tell each other what differs. Of a bucket that everybody
    /// follows, with very many links, some are told: so few that a site that comes back need not read and compare its vector
    /// with each of a thousand, and so many that nothing that differs across a cut is missed when it heals.
    pub(crate) fn link_up(&mut self, site: SiteId, cx: &mut Context<'_>) {
        if !cx.peers.is_linked(site) {
            return;
        }
        self.sites.well(site);
        let shared = self.shared(site);
        for id in &shared {
            if let Some(bucket) = self.buckets.get_mut(id) {
                bucket.meet(site);
                bucket.doubt_at = None;
            }
            self.look_for_doubt(*id, cx);
        }
        let passed = self.is_passed_over(cx);
        let told: Vec<BucketId> =
            shared.iter().copied().filter(|id| !passed || !self.is_everybodys(*id, cx)).collect();
        if !passed || !told.is_empty() {
            self.want_fresh(site, cx);
        }
        self.check(site, &told, true, cx);
        shared.into_iter().for_each(|id| self.proceed(id, cx));
    }

    /// Whether a new link is one of those that are not told of what everybody follows: drawn, by how many there are.
    fn is_passed_over(&self, cx: &mut Context<'_>) -> bool {
        let links = cx.peers.links();
        cx.peers.is_crowded()
            && links > 2 * limits::GREETED
            && cx.draw() * links as f64 >= limits::GREETED as f64
    }

    fn is_everybodys(&self, id: BucketId, cx: &Context<'_>) -> bool {
        self.buckets.get(&id).is_some_and(|bucket| bucket.members.len() >= cx.peers.roster().len())
    }

    pub(crate) fn link_down(&mut self, site: SiteId, cx: &mut Context<'_>) {
        self.wanted.part(site);
        self.sites.part(site);
        self.serving.retain(|serving| serving.to != site);
        for id in self.shared(site) {
            let Some(bucket) = self.buckets.get_mut(&id) else { continue };
            bucket.listeners.remove(&site);
            bucket.part(site);
            if bucket.pull.as_ref().is_some_and(|pull| pull.source == site) {
                self.end_pull(id, cx);
            }
            self.look_for_doubt(id, cx);
            self.proceed(id, cx);
        }
    }

    /// Others became or are no longer members.
    pub(crate) fn members_changed(&mut self, changes: &[Change], cx: &mut Context<'_>) {
        let mut met: BTreeMap<SiteId, Vec<BucketId>> = BTreeMap::new();
        for change in changes {
            let Some(bucket) = self.buckets.get_mut(&change.bucket) else { continue };
            if change.member {
                if bucket.members.insert(change.site) {
                    met.entry(change.site).or_default().push(change.bucket);
                }
            } else {
                bucket.forget(change.site);
                if bucket.pull.as_ref().is_some_and(|pull| pull.source == change.site) {
                    self.end_pull(change.bucket, cx);
                }
            }
        }
        for (site, buckets) in met {
            self.check(site, &buckets, true, cx);
        }
        for change in changes {
            self.look_for_doubt(change.bucket, cx);
            self.proceed(change.bucket, cx);
        }
    }

    /// The metered link of this site has room for records of all sites but these: from others nothing is asked for, and who
    /// asks hears at once that there is none.
    pub(crate) fn spent(&mut self, sites: BTreeSet<SiteId>, cx: &mut Context<'_>) {
        let before = core::mem::replace(&mut self.spent, sites);
        let back: Vec<SiteId> = before.difference(&self.spent).copied().collect();
        for site in back {
            metered::tell(site, cx);
            self.shared(site).into_iter().for_each(|id| self.proceed(id, cx));
        }
    }

    /// A site said anew whether it pays: it does so when it may be asked again for what it had no budget for.
    pub(crate) fn budget_said(&mut self, site: SiteId, cx: &mut Context<'_>) {
        if self.sites.well(site) {
            self.recovered(site, cx);
        }
    }

    /// Compare with one member, whether in doubt or not.
    pub(crate) fn reconcile(&mut self, id: BucketId, with: SiteId, cx: &mut Context<'_>) {
        if let Some(bucket) = self.buckets.get_mut(&id) {
            bucket.compare_with = Some(with);
            bucket.ask(with, true);
            self.proceed(id, cx);
        }
    }

    /// The comparison has found what is dead: pull once more, so that no key is left without its successor.
    pub(crate) fn settle(&mut self, id: BucketId, with: SiteId, cx: &mut Context<'_>) {
        let Some(bucket) = self.buckets.get_mut(&id) else { return };
        bucket.settling = Some(with);
        bucket.ask(with, true);
        // What ends before the next pull starts does not count.
        bucket.pending.iter_mut().for_each(|pending| pending.end = false);
        if let Some(pull) = &mut bucket.pull {
            pull.again = true;
        }
        self.proceed(id, cx);
    }

    /// A comparison ended.
    pub(crate) fn compared(&mut self, id: BucketId, with: SiteId, end: End, cx: &mut Context<'_>) {
        let Some(bucket) = self.buckets.get_mut(&id) else { return };
        bucket.comparing = None;
        bucket.settling = None;
        if end == End::Failed {
            bucket.failed(with, cx);
        }
        // The first comparison with a member leads on to the next member at once; any other waits, and so does one that was
        // cut short: what it did not come to is not compared.
        if end != End::Whole || bucket.void || !bucket.compared.insert(with) {
            bucket.doubt_at = Some(cx.backoff(limits::BACKOFF_MIN, bucket.doubt_tries));
            bucket.doubt_tries = bucket.doubt_tries.saturating_add(1);
        }
        self.look_for_doubt(id, cx);
        self.proceed(id, cx);
    }

    /// In doubt, every source is worth a pull: being caught up with one starts a comparison.
    pub(super) fn look_for_doubt(&mut self, id: BucketId, cx: &mut Context<'_>) {
        let Some(bucket) = self.buckets.get_mut(&id) else { return };
        let Some(doubt) = cx.read(cx.replica.doubt(id)) else {
            bucket.doubt_at = Some(cx.now.after(limits::BACKOFF_MAX));
            return;
        };
        bucket.doubtful = !doubt.is_empty();
        if !bucket.doubtful {
            (bucket.doubt_tries, bucket.doubt_at) = (0, None);
            bucket.passed = Vector::new();
        }
        let rests = bucket.doubt_at.is_some_and(|at| at > cx.now);
        if !rests {
            bucket.doubt_at = None;
        }
        if bucket.doubtful && bucket.comparing.is_none() && !rests {
            for site in cx.peers.nearest(bucket.members.iter().copied()) {
                bucket.ask(site, true);
            }
        }
    }

    /// Does what is due.
    pub(crate) fn tick(&mut self, cx: &mut Context<'_>) {
        let mut due = Vec::new();
        while let Some((_, id)) = self.agenda.first().copied().filter(|(at, _)| *at <= cx.now) {
            self.agenda.pop_first();
            due.push(id);
        }
        self.answer_on(cx);
        self.check_due(&due, cx);
        self.hear_due(cx);
        for id in due {
            self.time_out(id, cx);
            self.tell_due(id, cx);
            let rested = |bucket: &Bucket| bucket.doubt_at.is_some_and(|at| at <= cx.now);
            if self.buckets.get(&id).is_some_and(rested) {
                self.look_for_doubt(id, cx);
            }
            self.proceed(id, cx);
        }
        if self.sites.rested(cx.now) {
            self.start_queued(cx);
        }
        cx.hold(self.pulls <= limits::PULLS_AT_ONCE, "more pulls on their way than may");
        cx.hold(self.pulls == self.sites.running(), "pulls from nobody");
        cx.hold(
            self.applies.len() <= self.buckets.len() * limits::BATCHES_UNAPPLIED,
            "batches without a bucket",
        );
    }

    /// Sources that are known to have records of a bucket that are missing here, and which.
    pub(crate) fn ahead_by(&self, id: BucketId, replica: &dyn Replica) -> Vec<(SiteId, Vector)> {
        let (Some(bucket), Ok(mine)) = (self.buckets.get(&id), replica.vector(id)) else { return Vec::new() };
        let mine = bucket.floor.mine(&mine);
        let ahead = bucket.sources.iter().map(|(site, source)| (*site, source.vector.beyond(&mine)));
        ahead.filter(|(_, beyond)| !beyond.is_empty()).collect()
    }

    /// What a site is known to have of a bucket at least; none if it has not said.
    pub(crate) fn told_by(&self, bucket: BucketId, site: SiteId) -> Option<Vector> {
        let bucket = self.buckets.get(&bucket)?;
        bucket.sources.get(&site).map(|source| source.vector.whole(&bucket.floor))
    }

    /// How far this site and these members of a bucket are behind each other; none for a bucket that is not followed.
    pub(crate) fn gaps(&self, id: BucketId, members: &[SiteId], replica: &dyn Replica) -> Option<Gaps> {
        let (bucket, vector) = (self.buckets.get(&id)?, replica.vector(id).ok()?);
        let (mine, nothing) = (bucket.floor.mine(&vector), Known::default());
        let behind = |site: &SiteId| {
            let known = bucket.sources.get(site).map_or(&nothing, |source| &source.vector);
            let missing = |(origin, seq): (_, u64)| seq.saturating_sub(known.get(&bucket.floor, origin));
            (*site, known.lacks(&mine).iter().map(missing).fold(0, u64::saturating_add))
        };
        let ahead = |(site, source): (&SiteId, &bucket::Source)| {
            let missing = |(origin, seq): (_, u64)| seq.saturating_sub(vector.get(origin));
            (*site, source.vector.beyond(&mine).iter().map(missing).fold(0, u64::saturating_add))
        };
        let missing = bucket.sources.iter().map(ahead).filter(|(_, records)| *records > 0).collect();
        Some(Gaps { bucket: id, missing, unsent: members.iter().map(behind).collect() })
    }

    /// The pulls on their way to a site, as the ledger has them and as the buckets have them; who waits is known to the first alone.
    pub(crate) fn pulls_of(&self, site: SiteId) -> [Pulls; 2] {
        let of =
            |bucket: &Bucket| Some(u64::from(bucket.pull.as_ref().filter(|pull| pull.source == site)?.asked));
        let add = |pulls: Pulls, asked| Pulls { count: pulls.count + 1, bytes: pulls.bytes + asked, ..pulls };
        let ledger = self.sites.pulls(site);
        let waiting = Pulls { waiting: ledger.waiting, ..Pulls::default() };
        [ledger, self.buckets.values().filter_map(of).fold(waiting, add)]
    }

    /// Buckets of which this site and another are members.
    fn shared(&self, site: SiteId) -> Vec<BucketId> {
        self.buckets.iter().filter(|(_, bucket)| bucket.members.contains(&site)).map(|(id, _)| *id).collect()
    }

    /// Puts the bucket on the agenda again after a change. `scheduled` is where it stands now.
    fn reschedule(&mut self, id: BucketId) {
        let Some(bucket) = self.buckets.get_mut(&id) else { return };
        let wake = bucket.next_wake();
        if bucket.scheduled_at != wake {
            if let Some(at) = bucket.scheduled_at {
                self.agenda.remove(&(at, id));
            }
            bucket.scheduled_at = wake;
        }
        self.agenda.extend(wake.map(|at| (at, id)));
    }
}

/// What an entry of a vector takes in what is hashed of it.
const ENTRY_BYTES: usize = 32;

/// Eight bytes that tell whether two vectors are equal.
fn digest(vector: &Vector) -> u64 {
    // In one piece: of many entries several blocks are hashed at once.
    let mut bytes = Vec::with_capacity(vector.len() * ENTRY_BYTES);
    for (origin, seq) in vector.iter() {
        bytes.extend_from_slice(&origin.to_bytes());
        bytes.extend_from_slice(&seq.to_be_bytes());
    }
    head(&blake3::hash(&bytes))
}

/// The first eight bytes.
fn head(hash: &blake3::Hash) -> u64 {
    hash.as_bytes().iter().take(8).fold(0, |sum, byte| (sum << 8) | u64::from(*byte))
}
