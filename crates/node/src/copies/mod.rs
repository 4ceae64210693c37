//! Copies that count: what this site knows of who holds what, and what of its own nobody else holds.
//!
//! Before: `workers/copies.rs`, which has versions held elsewhere, `paths/scope.rs`, whose holders count as well. The
//! decisions are those of [`Placement`]; here its state meets the disk ([`book`]), the records ([`look`]) and the
//! other sites' own word ([`claims`]).
//!
//! Invariants: what others hold is written down after they said it and believed after a restart only together with
//! the life in which they said it; a bucket's covered vector only covers versions that have as many holders as the
//! bucket asks for under the rules it was found with, or that are dead, or that are another custodian's as long as they
//! are ([`custody`]).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use skerry_base::{BucketId, Dot, Instant, Origin, SiteId, Vector};
use skerry_federation::Together;
use skerry_federation::placement::{Candidate, Input, Output, Placement, Spans};

pub(crate) mod behind;
pub(crate) mod book;
pub(crate) mod claims;
pub(crate) mod custody;
pub(crate) mod handover;
pub(crate) mod lives;
pub(crate) mod look;
pub(crate) mod loss;
pub(crate) mod only;
pub(crate) mod others;
pub(crate) mod surplus;
pub(crate) mod wanted;

use book::{Book, Covered, HeldFile};
use loss::Loss;
pub(crate) use wanted::Rules;

/// What is not written down yet: whose holdings, and which buckets' covered vectors.
pub(crate) type Dirty = (BTreeSet<(BucketId, SiteId)>, BTreeSet<BucketId>);

/// A count of what is unprotected counts as news for so many times as long as it took, and at most for [`OLDEST`], unless it says
/// that nothing is.
const SHARE: u32 = 20;
/// A count is repeated after this long though nothing is known to have changed: disks are found damaged, too.
const OLDEST: Duration = Duration::from_secs(60);

/// What a count of what is unprotected depends on: changes of what is known of holders, records, rules.
pub(crate) type Counting = (u64, Vector, Rules);

/// What such a count found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Count {
    /// Bytes at one place only, of what this site is to see to.
    pub(crate) unprotected: u64,
    /// Of them those that no place is known to have: this site's copy does not read, or whoever may have one was not heard.
    pub(crate) nowhere: u64,
    /// Its records do not read: all that is stored counts.
    pub(crate) is_unread: bool,
    /// What areas lack that this site is to see to, in the order of [`Rules::needs`].
    pub(crate) lacking: Vec<Lacking>,
}

impl Count {
    /// Whether nothing is at risk and no area lacks anything.
    fn is_all_well(&self) -> bool {
        self.unprotected == 0 && self.lacking.iter().all(|lacking| *lacking == Lacking::default())
    }
}

/// Versions that an area lacks copies of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Lacking {
    /// How many.
    pub(crate) versions: u64,
    /// Their bytes.
    pub(crate) bytes: u64,
}

/// The last such count of a bucket.
pub(crate) struct Counted {
    pub(crate) of: Counting,
    pub(crate) found: Count,
    pub(crate) begun: Instant,
    pub(crate) took: Duration,
}

impl Counted {
    fn stands(&self, of: &Counting, now: Instant) -> bool {
        let age = now.since(self.begun);
        let long = self.took.saturating_mul(SHARE).min(OLDEST);
        // A machine is switched off because nothing is at risk: that holds of what was counted, and of nothing that came since.
        let may_lag = age < long && !self.found.is_all_well();
        // By other rules than are asked for it is no answer: an operator who expels a site looks at once what is at risk.
        self.of.2 == of.2 && (may_lag || (self.of == *of && age < OLDEST))
    }
}

/// A running site's knowledge of copies.
pub(crate) struct Copies {
    state: Mutex<State>,
    /// Held while what others hold is handed over to be written down.
    writing: tokio::sync::Mutex<()>,
    /// When a site took some of what it was asked to hold last.
    nearer: Mutex<BTreeMap<SiteId, Instant>>,
    /// A question to another site was answered, or given up.
    answered: tokio::sync::Notify,
    /// Reads of lost versions that got an older one, and that got none.
    lost_reads: [AtomicU64; 2],
    /// Buckets that a test makes unreadable to looks and counts.
    #[cfg(test)]
    pub(crate) unreadable: Mutex<BTreeSet<BucketId>>,
}

struct State {
    me: SiteId,
    machine: Placement,
    lives: BTreeMap<(BucketId, SiteId), Origin>,
    covered: BTreeMap<BucketId, Covered>,
    /// How often what was covered came into doubt: a look that began before is no word for what it found.
    doubts: BTreeMap<BucketId, u64>,
    dirty: BTreeSet<(BucketId, SiteId)>,
    dirty_covered: BTreeSet<BucketId>,
    losses: BTreeMap<SiteId, Loss>,
    leaving: BTreeSet<SiteId>,
    away: BTreeMap<BucketId, BTreeSet<SiteId>>,
    members: BTreeMap<BucketId, BTreeSet<SiteId>>,
    /// Sites that said when they were asked that they take nothing of a bucket.
    refusing: BTreeMap<BucketId, BTreeSet<SiteId>>,
    changes: u64,
    terms: u64,
    counted: BTreeMap<BucketId, Counted>,
    trimming: surplus::Trimming,
}

impl State {
    /// Sites whose copies count no more: lost ones, and those that are about to go.
    fn uncounted(&self) -> BTreeSet<SiteId> {
        let lost = self.losses.iter().filter(|(_, loss)| loss.is_lost).map(|(site, _)| site);
        lost.chain(&self.leaving).copied().collect()
    }

    /// The machine counts by the same ones as the rules, from the moment on in which these hear of them: what is counted does
    /// not wait for the worker's next look.
    fn recount(&mut self) {
        let uncounted = self.uncounted();
        if *self.machine.lost() != uncounted {
            self.changes += 1;
            self.machine.set_lost(uncounted);
        }
    }

    /// Tells the machine; who is to be asked now.
    fn tell(&mut self, input: Input, now: Instant) -> Vec<(BucketId, Dot, SiteId)> {
        let mut out = Vec::new();
        self.changes += u64::from(matches!(&input, Input::Held(..) | Input::Known(..)));
        self.machine.handle(input, now, &mut out);
        let mut asks = Vec::new();
        for output in out {
            match output {
                Output::Ask(bucket, dot, site) => asks.push((bucket, dot, site)),
                Output::Noted(bucket, site) => {
                    self.dirty.insert((bucket, site));
                }
            }
        }
        asks
    }

    /// What had its copies may have fewer.
    fn doubt(&mut self, bucket: BucketId) {
        self.covered.remove(&bucket);
        self.dirty_covered.insert(bucket);
        *self.doubts.entry(bucket).or_default() += 1;
    }
}

impl Copies {
    /// With what was written down.
    pub(crate) fn resume(me: SiteId, book: Book) -> Self {
        let mut machine = Placement::new(me);
        let mut lives = BTreeMap::new();
        for ((bucket, site), (life, spans)) in book.held {
            lives.extend(life.map(|life| ((bucket, site), life)));
            machine.learn(bucket, site, spans);
        }
        let state = State {
            me,
            machine,
            lives,
            covered: book.covered,
            doubts: BTreeMap::new(),
            dirty: BTreeSet::new(),
            dirty_covered: BTreeSet::new(),
            losses: BTreeMap::new(),
            leaving: BTreeSet::new(),
            away: BTreeMap::new(),
            members: BTreeMap::new(),
            refusing: BTreeMap::new(),
            changes: 0,
            terms: 0,
            counted: BTreeMap::new(),
            trimming: surplus::Trimming::new(me),
        };
        Self {
            state: Mutex::new(state),
            writing: Default::default(),
            nearer: Default::default(),
            answered: Default::default(),
            lost_reads: Default::default(),
            #[cfg(test)]
            unreadable: Mutex::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the machine; who is to be asked now.
    pub(crate) fn tell(&self, input: Input, now: Instant) -> Vec<(BucketId, Dot, SiteId)> {
        self.state().tell(input, now)
    }

    /// Tells the machine who could hold copies. Who counts no more it knows already: what the worker heard when it began to
    /// look may be old by now.
    pub(crate) fn tell_sites(
        &self,
        candidates: Vec<Candidate>,
        now: Instant,
    ) -> Vec<(BucketId, Dot, SiteId)> {
        let mut state = self.state();
        let lost = state.uncounted();
        state.tell(Input::Sites(candidates, lost), now)
    }

    /// A site refused a body of this size because it holds as much for others as it is to.
    pub(crate) fn refused_by_cap(&self, site: SiteId, bytes: u64, now: Instant) {
        self.state().machine.refused_by_cap(site, bytes, now);
    }

    /// It took one of this size after all that it was asked for then.
    pub(crate) fn took(&self, site: SiteId, bytes: u64, asked: Instant) {
        self.state().machine.took(site, bytes, asked);
    }

    /// Puts those behind that said so of bodies of this size.
    pub(crate) fn capped_last(&self, sites: &mut [SiteId], bytes: u64, now: Instant) {
        let state = self.state();
        sites.sort_by_key(|site| state.machine.is_capped(*site, bytes, now));
    }

    /// Whether a site said a while ago that it holds as much for others as it is to.
    pub(crate) fn is_capped(&self, other: SiteId, bytes: u64, now: Instant) -> bool {
        self.state().machine.is_capped(other, bytes, now)
    }

    /// A site that holds something for this one has more of it than before.
    pub(crate) fn note_nearer(&self, site: SiteId, now: Instant) {
        self.nearer.lock().unwrap_or_else(PoisonError::into_inner).insert(site, now);
    }

    /// When it was so last.
    pub(crate) fn nearer(&self, site: SiteId) -> Option<Instant> {
        self.nearer.lock().unwrap_or_else(PoisonError::into_inner).get(&site).copied()
    }

    /// Nobody will tell how what was asked has ended.
    pub(crate) fn abandon(&self) {
        self.state().machine.abandon();
    }

    /// Reads the machine.
    pub(crate) fn with<T>(&self, read: impl FnOnce(&Placement) -> T) -> T {
        read(&self.state().machine)
    }

    /// A write that waited for its scope is held by these.
    pub(crate) fn held(&self, bucket: BucketId, dot: Dot, by: impl IntoIterator<Item = SiteId>) {
        let mut state = self.state();
        for site in by {
            if state.machine.learn_one(bucket, dot, site) {
                state.changes += 1;
                state.dirty.insert((bucket, site));
            }
        }
    }

    /// Takes note of who burns together: what is held there is held once.
    pub(crate) fn set_together(&self, together: Together) {
        let mut state = self.state();
        state.changes += u64::from(*state.machine.together() != together);
        state.trimming.machine.set_together(together.clone());
        state.machine.set_together(together);
    }

    /// Sites whose disks are gone: declared lost, expelled or replaced.
    pub(crate) fn lost(&self) -> BTreeSet<SiteId> {
        let state = self.state();
        state.losses.iter().filter(|(_, loss)| loss.is_lost).map(|(site, _)| *site).collect()
    }

    /// Sites whose copies count no more: lost ones, and those that are about to go. What these have can still be read.
    pub(crate) fn uncounted(&self) -> BTreeSet<SiteId> {
        self.state().uncounted()
    }

    /// Takes note of the sites that are about to go; whether that is news.
    pub(crate) fn set_leaving(&self, leaving: BTreeSet<SiteId>) -> bool {
        let mut state = self.state();
        let changed = state.leaving != leaving;
        state.leaving = leaving;
        state.recount();
        changed
    }

    /// Sites that are lost, or were.
    pub(crate) fn losses(&self) -> BTreeMap<SiteId, Loss> {
        self.state().losses.clone()
    }

    /// Takes note of them; whether that is news.
    pub(crate) fn set_losses(&self, losses: BTreeMap<SiteId, Loss>) -> bool {
        let mut state = self.state();
        let changed = state.losses != losses;
        state.losses = losses;
        state.recount();
        changed
    }

    /// A version that nobody has was asked for; whether an older one was shown.
    pub(crate) fn count_lost_read(&self, older: bool) {
        self.lost_reads[usize::from(!older)].fetch_add(1, Ordering::Relaxed);
    }

    /// Since the start: reads that got an older version than the lost one, and reads that got none.
    pub(crate) fn lost_reads(&self) -> [u64; 2] {
        [0, 1].map(|of| self.lost_reads[of].load(Ordering::Relaxed))
    }

    /// The life in which a site said last what it holds of a bucket; none if it never did.
    pub(crate) fn life(&self, bucket: BucketId, site: SiteId) -> Option<Origin> {
        self.state().lives.get(&(bucket, site)).copied()
    }

    /// A site said anew what it holds. `whole`: of the whole bucket, so that what it does not name it does not hold. False if it
    /// left the bucket while it was asked: what it said may be from before.
    pub(crate) fn said(
        &self,
        bucket: BucketId,
        site: SiteId,
        life: Origin,
        spans: Spans,
        whole: bool,
    ) -> bool {
        let mut state = self.state();
        if state.trimming.is_outrun(bucket, site) {
            return false;
        }
        state.changes += 1;
        let before = state.machine.known(bucket, site).cloned().unwrap_or_default();
        let mut now = spans;
        if !whole {
            now.merge(&before);
        } else if !now.includes(&before) {
            // What counted may count no more: everything is looked through again.
            state.doubt(bucket);
        }
        state.machine.learn(bucket, site, now);
        state.lives.insert((bucket, site), life);
        state.dirty.insert((bucket, site));
        true
    }

    /// A site has left a bucket: it holds nothing of it.
    pub(crate) fn left(&self, bucket: BucketId, site: SiteId) {
        let mut state = self.state();
        state.trimming.left(bucket, site);
        state.lives.remove(&(bucket, site));
        let held = state.machine.known(bucket, site).is_some_and(|spans| *spans != Spans::default());
        if held {
            state.changes += 1;
            state.machine.learn(bucket, site, Spans::default());
            state.dirty.insert((bucket, site));
            // What counted counts no more: everything is looked through again.
            state.doubt(bucket);
        }
    }

    /// What is kept here of a bucket was found damaged: what counted may count no more.
    pub(crate) fn hurt(&self, bucket: BucketId) {
        let mut state = self.state();
        state.changes += 1;
        state.doubt(bucket);
    }

    /// Whether a site is surely no member of a bucket.
    pub(crate) fn is_away(&self, bucket: BucketId, site: SiteId) -> bool {
        self.state().away.get(&bucket).is_some_and(|away| away.contains(&site))
    }

    /// Buckets of which something is known, but for these.
    pub(crate) fn beside(&self, live: &BTreeSet<BucketId>) -> BTreeSet<BucketId> {
        let state = self.state();
        let known = state.machine.buckets().into_iter().chain(state.covered.keys().copied());
        known.filter(|bucket| !live.contains(bucket)).collect()
    }

    /// This site has left a bucket, or it was deleted: it looks after none of its copies.
    pub(crate) fn forget(&self, bucket: BucketId) {
        let mut state = self.state();
        state.lives.retain(|(of, _), _| *of != bucket);
        state.machine.forget(bucket);
        state.dirty.retain(|(of, _)| *of != bucket);
        state.doubt(bucket);
        state.dirty_covered.remove(&bucket);
        state.away.remove(&bucket);
        state.members.remove(&bucket);
        state.counted.remove(&bucket);
        state.trimming.forget(bucket);
        state.changes += 1;
    }

    /// Sites that are surely no members of a bucket: what they wrote once is another's to look after. And those that are
    /// known to be members.
    pub(crate) fn set_away(&self, bucket: BucketId, away: BTreeSet<SiteId>, members: BTreeSet<SiteId>) {
        let mut state = self.state();
        let is_news = state.away.get(&bucket) != Some(&away) || state.members.get(&bucket) != Some(&members);
        state.changes += u64::from(is_news);
        state.terms += u64::from(state.away.get(&bucket) != Some(&away));
        state.away.insert(bucket, away);
        state.members.insert(bucket, members);
    }

    /// How often what is known of holders changed.
    pub(crate) fn changes(&self) -> u64 {
        self.state().changes
    }

    /// How often that changed which the rules of some bucket rest on, of what is known here alone.
    pub(crate) fn terms(&self) -> u64 {
        self.state().terms
    }

    /// The last count of what is unprotected, if it still stands.
    pub(crate) fn counted(&self, bucket: BucketId, of: &Counting, now: Instant) -> Option<Count> {
        let state = self.state();
        let counted = state.counted.get(&bucket).filter(|counted| counted.stands(of, now));
        counted.map(|counted| counted.found.clone())
    }

    /// It was counted anew.
    pub(crate) fn set_counted(&self, bucket: BucketId, counted: Counted) {
        self.state().counted.insert(bucket, counted);
    }

    /// Whether a site is known to be a member of a bucket.
    pub(crate) fn follows(&self, bucket: BucketId, site: SiteId) -> bool {
        self.state().members.get(&bucket).is_some_and(|members| members.contains(&site))
    }

    /// Takes note of the sites that take nothing of a bucket.
    pub(crate) fn set_refusing(&self, refusing: BTreeMap<BucketId, BTreeSet<SiteId>>) {
        let mut state = self.state();
        let is_news = state.refusing != refusing;
        state.changes += u64::from(is_news);
        state.terms += u64::from(is_news);
        state.refusing = refusing;
    }

    /// The sites that said when this one asked them that they take nothing of a bucket.
    pub(crate) fn refusing(&self, bucket: BucketId) -> BTreeSet<SiteId> {
        self.state().refusing.get(&bucket).cloned().unwrap_or_default()
    }

    /// The sites that are known to stay out of a bucket.
    pub(crate) fn away(&self, bucket: BucketId) -> BTreeSet<SiteId> {
        self.state().away.get(&bucket).cloned().unwrap_or_default()
    }

    /// Up to where every version has its copies under these rules.
    pub(crate) fn covered(&self, bucket: BucketId, rules: &Rules) -> Vector {
        let state = self.state();
        let stands = state.is_covered_by(bucket, rules);
        state.covered.get(&bucket).filter(|_| stands).map(|file| file.upto.clone()).unwrap_or_default()
    }

    /// How often that came into doubt.
    pub(crate) fn doubts(&self, bucket: BucketId) -> u64 {
        self.state().doubts.get(&bucket).copied().unwrap_or_default()
    }

    /// Looks through all records found so, the last of which began when there were so many doubts and passed over what these
    /// sites wrote, as others look after it. Whether that stands.
    pub(crate) fn set_covered(
        &self,
        (bucket, rules): (BucketId, &Rules),
        upto: Vector,
        mut passed: BTreeSet<SiteId>,
        doubts: u64,
    ) -> bool {
        let mut state = self.state();
        if state.doubts.get(&bucket).copied().unwrap_or_default() != doubts {
            return false;
        }
        let before = state.covered.get(&bucket).filter(|file| file.is_by(rules));
        passed.extend(before.iter().flat_map(|file| &file.passed));
        let file = Covered::new(rules, upto, &passed);
        if state.covered.get(&bucket) != Some(&file) {
            state.covered.insert(bucket, file);
            state.dirty_covered.insert(bucket);
        }
        true
    }

    /// What had its copies under other rules may have fewer when these hold again: that is forgotten before anything is let
    /// go of. Whether there was anything to forget, or what was forgotten is not written down yet.
    pub(crate) fn forget_former(&self, bucket: BucketId, rules: &Rules) -> bool {
        let mut state = self.state();
        match (state.covered.contains_key(&bucket), state.is_covered_by(bucket, rules)) {
            (true, true) => {}
            (true, false) => state.doubt(bucket),
            // A look by those may be under way.
            (false, _) => *state.doubts.entry(bucket).or_default() += 1,
        }
        state.dirty_covered.contains(&bucket)
    }

    /// What is to be written down since this was last asked.
    pub(crate) fn take_dirty(&self) -> Dirty {
        let mut state = self.state();
        (std::mem::take(&mut state.dirty), std::mem::take(&mut state.dirty_covered))
    }

    /// It could not be written down.
    pub(crate) fn put_back(&self, (held, covered): Dirty) {
        let mut state = self.state();
        state.dirty.extend(held);
        state.dirty_covered.extend(covered);
    }

    /// As it is written down.
    pub(crate) fn entries(&self, (held, covered): &Dirty) -> Vec<skerry_model::Entry> {
        let state = self.state();
        let mut entries = Vec::new();
        for &(bucket, site) in held {
            let life = state.lives.get(&(bucket, site)).copied();
            let spans = state.machine.known(bucket, site).map(Spans::encode).unwrap_or_default();
            entries.push(HeldFile { life, spans }.entry(bucket, site));
        }
        entries.extend(covered.iter().map(|bucket| book::covered_entry(*bucket, state.covered.get(bucket))));
        entries
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
