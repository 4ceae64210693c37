//! Copies too many: what this site notes of its own, and what it answers who wants to let go of one.
//!
//! Before: `workers/trim.rs`, here and at others. What decides is [`Trim`] at who lets go and [`Placement::spare`] at who
//! counts on it; here they meet the disk. Invariants: a question about what a site holds or is to hold is known here until
//! its answer is in the book, and whoever is asked that way is counted on meanwhile; what is counted on no more is written
//! down so before it is answered; what is said to be held here was on this disk, and not marked, when it was said.
//!
//! [`Placement::spare`]: skerry_federation::placement::Placement::spare

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use skerry_base::{BucketId, Dot, Instant, Origin, SiteId};
use skerry_federation::placement::trim::{Copy, Input, Output, Trim};
use skerry_federation::placement::{Demand, Spans, Stake, limits};
use skerry_gateway::service::{ErrorKind, Outcome, ServiceError, SurplusStatus};

use super::look::Looker;
use super::wanted::rules;
use super::{Copies, Dirty, Rules, State, claims};
use crate::paths::bucket::Bucket;
use crate::paths::{refusal, scope};
use crate::peers::message::{Response, Spare, Spared};
use crate::site::{Site, entry};

/// Versions of one question: those of a round of any release to come.
const ASKED: u64 = 4 * limits::TRIMMED_AT_ONCE as u64;
/// Who wants to let go waits so long for an answer of its own that is on its way.
const ANSWERED: Duration = Duration::from_secs(5);
/// While others take what is held here page by page nothing is marked: each mark would have them begin anew.
const PAGED: Duration = Duration::from_secs(30);

/// So long after letting go of something a site does not say of anything of that bucket that it has it not: who asks all
/// may have asked the one that took it before it did. Longer than such a question may take.
const PARTING: Duration = Duration::from_secs(12);

/// What is being asked and will be noted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Question {
    /// What a site holds.
    Holdings(SiteId),
    /// Whether somebody takes a version.
    Hold(Dot),
}

/// A question under way, until this is dropped.
pub(crate) struct Asking {
    copies: Arc<Copies>,
    of: (BucketId, Question),
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.end();
        self.copies.answered.notify_waiters();
    }
}

impl Asking {
    fn end(&self) {
        let mut state = self.copies.state();
        if let Some(count) = state.trimming.asking.get_mut(&self.of) {
            *count -= 1;
            if *count == 0 {
                state.trimming.asking.remove(&self.of);
                if let (bucket, Question::Holdings(site)) = self.of {
                    state.trimming.outrun.remove(&(bucket, site));
                }
            }
        }
    }
}

/// Copies too many of a bucket at this site, as the last look found them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Surplus {
    /// Versions.
    pub(crate) versions: u64,
    /// Their bytes.
    pub(crate) bytes: u64,
    /// Why they are still here.
    pub(crate) reason: String,
}

/// What was let go of since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Released {
    /// Versions.
    pub(crate) versions: u64,
    /// Their bytes.
    pub(crate) bytes: u64,
}

/// What is noted of it.
pub(super) struct Trimming {
    pub(super) machine: Trim,
    asking: BTreeMap<(BucketId, Question), usize>,
    /// Who left a bucket while it is asked what it holds of it: its answer may be older.
    outrun: BTreeSet<(BucketId, SiteId)>,
    surplus: BTreeMap<BucketId, Surplus>,
    released: Released,
    /// Buckets of which too little is known of who holds what.
    hurry: BTreeSet<BucketId>,
    /// When others took the last page but one of what is held here.
    paged: BTreeMap<BucketId, Instant>,
    /// When something was let go of last; none while it is.
    parted: BTreeMap<BucketId, Option<Instant>>,
}

impl Trimming {
    pub(super) fn new(me: SiteId) -> Self {
        Self {
            machine: Trim::new(me),
            asking: BTreeMap::new(),
            outrun: BTreeSet::new(),
            surplus: BTreeMap::new(),
            released: Released::default(),
            hurry: BTreeSet::new(),
            paged: BTreeMap::new(),
            parted: BTreeMap::new(),
        }
    }

    /// A site has left a bucket.
    pub(super) fn left(&mut self, bucket: BucketId, site: SiteId) {
        if self.asking.contains_key(&(bucket, Question::Holdings(site))) {
            self.outrun.insert((bucket, site));
        }
    }

    /// Whether it has while it is being asked.
    pub(super) fn is_outrun(&self, bucket: BucketId, site: SiteId) -> bool {
        self.outrun.contains(&(bucket, site))
    }

    pub(super) fn forget(&mut self, bucket: BucketId) {
        self.surplus.remove(&bucket);
        self.hurry.remove(&bucket);
        self.paged.remove(&bucket);
        self.parted.remove(&bucket);
    }
}

impl Copies {
    /// A question begins.
    pub(crate) fn asking(self: &Arc<Self>, bucket: BucketId, question: Question) -> Asking {
        let of = (bucket, question);
        *self.state().trimming.asking.entry(of).or_default() += 1;
        Asking { copies: self.clone(), of }
    }

    /// Whether others are being asked to hold a version, for a write that may count on this site.
    pub(crate) fn is_asked(&self, bucket: BucketId, dot: Dot) -> bool {
        self.state().trimming.asking.contains_key(&(bucket, Question::Hold(dot)))
    }

    /// Waits until no question what a site holds is under way, for a moment.
    async fn until_answered(&self, bucket: BucketId, site: SiteId) {
        let of = (bucket, Question::Holdings(site));
        let wait = async {
            loop {
                let answered = self.answered.notified();
                if !self.state().trimming.asking.contains_key(&of) {
                    return;
                }
                answered.await;
            }
        };
        tokio::time::timeout(ANSWERED, wait).await.ok();
    }

    /// Tells the machine that decides what goes.
    pub(crate) fn trim(&self, input: Input, now: Instant) -> Vec<Output> {
        let mut out = Vec::new();
        self.state().trimming.machine.handle(input, now, &mut out);
        out
    }

    /// How often what this site said it holds has ceased to be so because it let go of some.
    pub(super) fn marks(&self, bucket: BucketId) -> u64 {
        self.state().trimming.machine.word(bucket)
    }

    /// What is about to be let go: it is not said to be held.
    pub(crate) fn marked(&self, bucket: BucketId) -> Vec<Dot> {
        self.state().trimming.machine.marked(bucket).collect()
    }

    /// Somebody wants a version held here; false if it is just being let go.
    pub(crate) fn wanted(&self, bucket: BucketId, dot: Dot) -> bool {
        self.state().trimming.machine.wanted(bucket, dot)
    }

    /// Whether a version that is held here is to be kept, going by who is known to hold it and counts; none if it has not
    /// all the copies yet that are asked for.
    pub(crate) fn keeps(
        &self,
        bucket: BucketId,
        demand: &Demand,
        copy: &Copy,
        sites: &BTreeSet<SiteId>,
    ) -> Option<bool> {
        let state = self.state();
        let holders = state.machine.holders(bucket, copy.dot).filter(|holder| sites.contains(holder));
        state.trimming.machine.keeps(demand, copy, holders)
    }

    /// A page of what is held here was taken, and there are more.
    pub(crate) fn note_paged(&self, bucket: BucketId, now: Instant) {
        self.state().trimming.paged.insert(bucket, now);
    }

    /// Whether somebody is taking what is held here, page by page.
    pub(crate) fn is_paged(&self, bucket: BucketId, now: Instant) -> bool {
        let state = self.state();
        state.trimming.paged.get(&bucket).is_some_and(|last| now < last.after(PAGED))
    }

    /// Something of a bucket is being let go of, or was.
    pub(crate) fn note_parting(&self, bucket: BucketId, ended: Option<Instant>) {
        self.state().trimming.parted.insert(bucket, ended);
    }

    /// Whether something of a bucket is being let go of, or was a moment ago: who looks for it may have missed it at those
    /// that took it.
    pub(crate) fn is_parting(&self, bucket: BucketId, now: Instant) -> bool {
        let state = self.state();
        state.trimming.parted.get(&bucket).is_some_and(|ended| ended.is_none_or(|at| now < at.after(PARTING)))
    }

    /// Too little is known of who holds what of a bucket: it is to be asked for.
    pub(crate) fn hurry(&self, bucket: BucketId) {
        self.state().trimming.hurry.insert(bucket);
    }

    /// Buckets of which that is so.
    pub(crate) fn take_hurries(&self) -> BTreeSet<BucketId> {
        std::mem::take(&mut self.state().trimming.hurry)
    }

    /// Takes note of what a look found.
    pub(crate) fn set_surplus(&self, bucket: BucketId, surplus: Option<Surplus>) {
        let all = &mut self.state().trimming.surplus;
        match surplus {
            Some(surplus) => all.insert(bucket, surplus),
            None => all.remove(&bucket),
        };
    }

    /// Copies too many, by bucket.
    pub(crate) fn surplus(&self) -> BTreeMap<BucketId, Surplus> {
        self.state().trimming.surplus.clone()
    }

    /// These were let go of.
    pub(crate) fn note_released(&self, versions: u64, bytes: u64) {
        let released = &mut self.state().trimming.released;
        released.versions += versions;
        released.bytes += bytes;
    }

    /// What was let go of since the start.
    pub(crate) fn released(&self) -> Released {
        self.state().trimming.released
    }

    /// A site is counted on no more for these, but for those that are answered.
    fn spare(
        &self,
        (bucket, rules): (BucketId, &Rules),
        site: SiteId,
        stakes: BTreeMap<Dot, Stake>,
    ) -> Spans {
        let mut state = self.state();
        let stands = state.is_covered_by(bucket, rules);
        let State { machine, trimming, changes, dirty, covered, doubts, .. } = &mut *state;
        if trimming.asking.contains_key(&(bucket, Question::Holdings(site))) {
            return stakes.into_keys().collect();
        }
        let is_asked = |dot: &Dot| trimming.asking.contains_key(&(bucket, Question::Hold(*dot)));
        let (asked, free): (Vec<_>, Vec<_>) = stakes.into_iter().partition(|(dot, _)| is_asked(dot));
        let mut keeps = machine.spare(bucket, site, &rules.demand, free);
        asked.into_iter().for_each(|(dot, _)| keeps.insert(dot));
        // What had its copies under other rules may have fewer when these hold again.
        if !stands {
            covered.remove(&bucket);
            *doubts.entry(bucket).or_default() += 1;
        }
        *changes += 1;
        dirty.insert((bucket, site));
        keeps
    }
}

/// Writes down what others are known to hold. One at a time, so that what is older is not written last.
pub(crate) async fn write_down(site: &Site, dirty: Dirty) -> Outcome<()> {
    let answered = {
        let _turn = site.copies.writing.lock().await;
        let entries: Vec<_> = site.copies.entries(&dirty).iter().map(entry).collect();
        if entries.is_empty() {
            return Ok(());
        }
        let (answer, answered) = tokio::sync::oneshot::channel();
        site.store.submit(
            move |_| Ok::<_, ServiceError>(((), entries)),
            move |result| {
                answer.send(result).ok();
            },
        );
        answered
    };
    match answered.await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => {
            site.copies.put_back(dirty);
            Err(refusal::commit(error))
        }
        Err(_) => Err(refusal::stopping()),
    }
}

/// What this site says of its copies too many.
pub(crate) fn status(site: &Site) -> SurplusStatus {
    let (all, released) = (site.copies.surplus(), site.copies.released());
    SurplusStatus {
        versions: all.values().map(|surplus| surplus.versions).sum(),
        bytes: all.values().map(|surplus| surplus.bytes).sum(),
        // That of the largest stands for all.
        reason: all
            .into_values()
            .max_by_key(|surplus| surplus.bytes)
            .map(|most| most.reason)
            .unwrap_or_default(),
        released_versions: released.versions,
        released_bytes: released.bytes,
    }
}

/// The same of one bucket; what was let go of is known of all together.
pub(crate) fn status_of(site: &Site, bucket: BucketId) -> SurplusStatus {
    let found = site.copies.surplus().remove(&bucket).unwrap_or_default();
    let Surplus { versions, bytes, reason } = found;
    SurplusStatus { versions, bytes, reason, ..SurplusStatus::default() }
}

fn dots(spans: &Spans) -> Outcome<Vec<Dot>> {
    let refuse = || ServiceError::new(ErrorKind::InvalidRequest, "too many versions in one question");
    let lengths = spans.iter().map(|(_, first, last)| (last - first).saturating_add(1));
    if lengths.fold(0u64, u64::saturating_add) > ASKED {
        return Err(refuse());
    }
    let each = |(origin, first, last): (Origin, u64, u64)| (first..=last).map(move |seq| Dot { origin, seq });
    Ok(spans.iter().flat_map(each).collect())
}

/// Answers a site that wants to let go of its copies of these.
pub(crate) async fn answer(site: &Arc<Site>, from: SiteId, asked: Spare) -> Outcome<Response> {
    let spans = Spans::decode(&asked.versions)
        .map_err(|error| ServiceError::new(ErrorKind::InvalidRequest, error.to_string()))?;
    let dots = dots(&spans)?;
    let id = asked.bucket;
    let bucket = site.claim_of(id).await?;
    let Some(bucket) = bucket.filter(|_| site.is_member(id)) else {
        // Who keeps no records keeps no book.
        return Ok(spared(&Spans::default(), &Spans::default()));
    };
    // Both look for copies too many at the same moment, and ask each other what they hold.
    site.copies.until_answered(id, from).await;
    let stakes = look(site, &bucket, &dots).await?;
    let by = rules(site, &bucket);
    let keeps = if scope::level(&bucket) > asked.copies || by.is_unread {
        spans
    } else {
        let wanted: BTreeSet<Dot> =
            stakes.iter().filter(|(_, stake)| stake.mine).map(|(dot, _)| *dot).collect();
        let keeps = site.copies.spare((id, &by), from, stakes);
        if wanted.iter().any(|dot| keeps.contains(*dot)) {
            // Others may hold them of whom that is not known here.
            site.copies.hurry(id);
        }
        write_down(site, ([(id, from)].into(), [id].into())).await?;
        keeps
    };
    let life = claims::word(site, id);
    site.settle_lazy().await?;
    // It may be gone, and marked no more, once the disk was looked at.
    let marked = site.copies.marked(id);
    let stakes = look(site, &bucket, &dots).await?;
    let mut holds: Spans = stakes.into_iter().filter(|(_, stake)| stake.here).map(|(dot, _)| dot).collect();
    marked.into_iter().chain(site.copies.marked(id)).for_each(|dot| holds.remove(dot));
    // What was marked and let go while the disk was looked at is not known here; who goes is nobody's reason to let go.
    let goes = site.leaving.note(id).is_some() || !site.is_member(id) || site.duties.own().leaves();
    if goes || claims::word(site, id) != life {
        holds = Spans::default();
    }
    Ok(spared(&holds, &keeps))
}

fn spared(holds: &Spans, keeps: &Spans) -> Response {
    Response::Spared(Box::new(Spared { holds: holds.encode().into(), keeps: keeps.encode().into() }))
}

/// What this site has to do with these.
async fn look(site: &Arc<Site>, bucket: &Bucket, dots: &[Dot]) -> Outcome<BTreeMap<Dot, Stake>> {
    let (here, id, rules, dots) = (site.clone(), bucket.id, rules(site, bucket), dots.to_vec());
    let look = move || {
        let looker = Looker { store: &here.store, copies: &here.copies, bucket: id, rules: &rules };
        looker.stakes(&dots)
    };
    tokio::task::spawn_blocking(look).await.map_err(refusal::task)?
}

/// A version that is here, as the machine sees it.
pub(crate) fn copy_of(bucket: &Bucket, record: &skerry_model::Record) -> Copy {
    Copy { dot: record.dot, writer: record.site, copies: scope::kept_at(bucket, record) }
}
