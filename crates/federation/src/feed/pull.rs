//! Asking for records and taking them.
//!
//! A pull asks for a few batches in a row, so that a long link is full while the store syncs. Batches are taken
//! in order; each starts where the one before ended. The next pull starts when the last batch is here, not when
//! it is durable: its cursor is the vector plus what is on its way to the store. A refusal of the store breaks
//! the chain: what is behind it is refused as well (by its `base`), and pulling starts again from the vector.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};

use skerry_base::{BucketId, SiteId, Vector, limits as bounds};

use super::bucket::{Bucket, Pending, Running};
use super::choose::Choice;
use super::known::{Known, STALE};
use super::{Feed, Wish};
use crate::context::Context;
use crate::message::{Batch, Message, Pull, Refusal};
use crate::{Apply, FeedItem, Output, Report, Ticket, limits};

/// Why a pull failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Failure {
    Silent,
    Busy,
    NotMember,
    Senseless,
}

impl Failure {
    const fn words(self) -> &'static str {
        match self {
            Self::Silent => "silence",
            Self::Busy => "busy",
            Self::NotMember => "not a member",
            Self::Senseless => "senseless",
        }
    }

    /// Whether a pull of another bucket would hardly have fared better.
    const fn is_of_site(self) -> bool {
        matches!(self, Self::Silent | Self::Busy)
    }
}

impl Feed {
    /// Starts what can be started for this bucket, and puts it on the agenda.
    pub(super) fn proceed(&mut self, id: BucketId, cx: &mut Context<'_>) {
        self.start_pull(id, cx);
        self.reschedule(id);
    }

    fn start_pull(&mut self, id: BucketId, cx: &mut Context<'_>) {
        let Some(bucket) = self.buckets.get_mut(&id) else { return };
        bucket.retry_at = None;
        bucket.hold = bucket.hold.filter(|until| *until > cx.now);
        if bucket.pull.is_some() || is_full(&bucket.pending) || bucket.broken || bucket.hold.is_some() {
            return;
        }
        let knows = |bucket: &Bucket| bucket.sources.values().any(|source| !source.vector.is_empty());
        if bucket.asks.is_empty() && !knows(bucket) {
            return;
        }
        let Some(stored) = cx.vector(id) else {
            bucket.hold = Some(cx.now.after(limits::BACKOFF_MIN));
            return;
        };
        let mut mine = Cow::Borrowed(&*stored);
        if !bucket.handed.is_empty() {
            mine.to_mut().merge(&bucket.handed);
        }
        match bucket.choose(&mine, (&self.sites, &self.spent), cx) {
            Choice::Nobody => {}
            Choice::Behind(site) => self.sites.wait(site, id),
            Choice::Later(at) => bucket.retry_at = Some(at),
            Choice::Ask(_) if self.pulls >= limits::PULLS_AT_ONCE || self.applies.is_full() => {
                self.queue.push(id);
            }
            // A round is with one source: what another one sent is taken first.
            Choice::Ask(source) if bucket.pending.back().is_some_and(|pending| pending.source != source) => {}
            Choice::Ask(source) => {
                let life = bucket.source(source).life;
                let Some(seen) = life.map_or(Some(Vector::new()), |life| cx.read(cx.replica.seen(id, life)))
                else {
                    bucket.hold = Some(cx.now.after(limits::BACKOFF_MIN));
                    return;
                };
                let mut mine = mine.into_owned();
                mine.merge(&seen);
                bucket.settle(&stored, STALE);
                self.pulls += 1;
                let asked = ask(id, bucket, source, (mine, self.sites.share(source)), cx);
                self.sites.began(source, asked);
            }
        }
    }

    /// Lets waiting buckets pull, oldest first: those that wait for any source, then those that wait for a certain one.
    pub(super) fn start_queued(&mut self, cx: &mut Context<'_>) {
        while self.pulls < limits::PULLS_AT_ONCE && !self.applies.is_full() {
            let Some(id) = self.queue.pop().or_else(|| self.sites.next(cx.now)) else { return };
            self.proceed(id, cx);
        }
    }

    /// The pull of this bucket is over, for better or worse.
    pub(super) fn end_pull(&mut self, id: BucketId, cx: &mut Context<'_>) -> Option<Running> {
        let pull = self.buckets.get_mut(&id)?.pull.take()?;
        self.pulls = self.pulls.saturating_sub(1);
        self.sites.ended(pull.source, pull.asked);
        self.start_queued(cx);
        Some(pull)
    }

    /// Gives a pull up and its source a pause.
    pub(super) fn fail_pull(&mut self, id: BucketId, why: Failure, cx: &mut Context<'_>) {
        let source = self.buckets.get(&id).and_then(|bucket| Some(bucket.pull.as_ref()?.source));
        // Before others begin that wait for the same source.
        if let Some(source) = source.filter(|_| why.is_of_site())
            && let Some(tries) = self.sites.tries(source, cx.now)
        {
            let is_spent = why == Failure::Busy && cx.peers.is_payer(source);
            let most = if is_spent { limits::SPENT_MAX } else { limits::BACKOFF_MAX };
            let until = cx.backoff_to(limits::BACKOFF_MIN, tries, most);
            self.sites.failed(source, until);
        }
        let Some(pull) = self.end_pull(id, cx) else { return };
        cx.stats.pulls_failed += 1;
        let reason = why.words();
        cx.out.push(Output::Report(Report::PullFailed { bucket: id, source: pull.source, reason }));
        if let Some(bucket) = self.buckets.get_mut(&id) {
            let source = bucket.source(pull.source);
            source.window = (source.window / 4).max(limits::BATCH_BYTES_MIN);
            bucket.failed(pull.source, cx);
            // Somebody waits for the end of this source's feed, news or not.
            if bucket.settling == Some(pull.source) || bucket.compare_with == Some(pull.source) {
                bucket.ask(pull.source, true);
            }
            if bucket.doubtful {
                self.look_for_doubt(id, cx);
            }
        }
        self.proceed(id, cx);
    }

    /// Silence for too long.
    pub(super) fn time_out(&mut self, id: BucketId, cx: &mut Context<'_>) {
        let late = |bucket: &Bucket| bucket.pull.as_ref().is_some_and(|pull| pull.deadline <= cx.now);
        if self.buckets.get(&id).is_some_and(late) {
            self.fail_pull(id, Failure::Silent, cx);
        }
        self.look_elsewhere(id, cx);
        let slow = |bucket: &Bucket| {
            let deadline = bucket.gathering.as_ref().and_then(|gathering| gathering.deadline);
            deadline.is_some_and(|at| at <= cx.now)
        };
        if let Some(bucket) = self.buckets.get_mut(&id).filter(|bucket| slow(bucket)) {
            // The next check begins anew.
            bucket.gathering = None;
        }
    }

    /// Nothing has come of a pull for a while, nor of any other from that source: it is given up if another is known to have what is
    /// lacked. Not for one that failed lately: two that are slow would be given up for each other for ever. Nor where a link is
    /// paid for, over which the same would come twice; a node of the same site gives bodies along, which others do not.
    fn look_elsewhere(&mut self, id: BucketId, cx: &mut Context<'_>) {
        let Some(bucket) = self.buckets.get_mut(&id) else { return };
        let Some(pull) = bucket.pull.as_mut().filter(|pull| pull.patience.is_some_and(|at| at <= cx.now))
        else {
            return;
        };
        pull.patience = Some(cx.now.after(limits::PULL_PATIENCE));
        let (source, mut mine) = (pull.source, pull.base.clone());
        let must = pull.whole || bucket.settling == Some(source) || bucket.compare_with == Some(source);
        let is_paid =
            |site: SiteId, cx: &Context<'_>| cx.peers.is_payer(site) || cx.peers.pays_for(site).is_some();
        let patience = limits::PULL_PATIENCE + cx.peers.rtt(source) * 4;
        let gives = self.sites.gave_within(source, patience, cx.now);
        if must || gives || is_paid(source, cx) || !bucket.pending.is_empty() {
            return;
        }
        // Fresh records came beside the pull.
        let Some(stored) = cx.vector(id) else { return };
        mine.merge(&stored);
        let mut but = self.spent.clone();
        but.insert(source);
        // Whoever is chosen now is then asked.
        let Choice::Ask(other) = bucket.choose(&mine, (&self.sites, &but), cx) else { return };
        let is_well = bucket.source(other).tries == 0 && self.sites.tries(other, cx.now) == Some(0);
        if is_well && !is_paid(other, cx) && bucket.ahead(&mine).contains(&other) {
            self.fail_pull(id, Failure::Silent, cx);
        }
    }

    pub(crate) fn refused(
        &mut self,
        from: SiteId,
        ticket: u64,
        id: BucketId,
        why: Refusal,
        cx: &mut Context<'_>,
    ) {
        if !self.is_pulling(id, from, ticket) {
            return cx.stale();
        }
        let failure = match why {
            Refusal::NotMember => Failure::NotMember,
            Refusal::Busy => Failure::Busy,
        };
        if let Some(bucket) = self.buckets.get_mut(&id) {
            // Nothing is known to be there any more; news will say so if there is.
            bucket.source(from).vector = Known::default();
            bucket.ask(from, why == Refusal::Busy);
        }
        self.fail_pull(id, failure, cx);
    }

    fn is_pulling(&self, id: BucketId, from: SiteId, ticket: u64) -> bool {
        let pull = self.buckets.get(&id).and_then(|bucket| bucket.pull.as_ref());
        pull.is_some_and(|pull| pull.ticket == ticket && pull.source == from)
    }

    pub(crate) fn batch(&mut self, from: SiteId, batch: Batch, cx: &mut Context<'_>) {
        let id = batch.bucket;
        if batch.ticket == Batch::FRESH {
            return self.pushed(from, batch, cx);
        }
        if !self.is_pulling(id, from, batch.ticket) {
            return cx.stale();
        }
        let Some(pull) = self.buckets.get_mut(&id).and_then(|bucket| bucket.pull.as_mut()) else { return };
        // However few were asked for: a release before takes the mark in their number for a larger one. One that came
        // before says nothing new: the pull waits no longer for it.
        let is_repeated = batch.index < pull.next || pull.early.contains_key(&batch.index);
        if is_repeated || batch.index >= limits::BATCHES_PER_PULL {
            return cx.stale();
        }
        pull.deadline = cx.now.after(limits::PULL_TIMEOUT + cx.peers.rtt(from) * 4);
        pull.patience = None;
        pull.received += batch.items.iter().map(|item| item.len() as u64).sum::<u64>();
        pull.early.insert(batch.index, batch);
        if self.sites.gave(from, cx.now) {
            self.recovered(from, cx);
        }
        while let Some(next) = self.next_in_order(id) {
            if !self.take(id, next, cx) {
                break;
            }
        }
        self.proceed(id, cx);
    }

    /// A site that was silent, or had too much to do, gives records again: of all buckets.
    pub(super) fn recovered(&mut self, site: SiteId, cx: &mut Context<'_>) {
        for id in self.shared(site) {
            let source = self.buckets.get_mut(&id).and_then(|bucket| bucket.sources.get_mut(&site));
            if source.is_some_and(|source| source.until.take().is_some()) {
                self.proceed(id, cx);
            }
        }
        self.start_queued(cx);
    }

    fn next_in_order(&mut self, id: BucketId) -> Option<Batch> {
        let pull = self.buckets.get_mut(&id)?.pull.as_mut()?;
        pull.early.remove(&pull.next)
    }

    /// Takes the next batch in order; answers whether the pull goes on.
    fn take(&mut self, id: BucketId, batch: Batch, cx: &mut Context<'_>) -> bool {
        let Some(bucket) = self.buckets.get_mut(&id) else { return false };
        let Some(pull) = bucket.pull.as_mut() else { return false };
        let from = pull.source;
        if !pull.whole && batch.items.iter().any(FeedItem::is_whole) {
            cx.refuse(from, "a body too long for a feed");
            self.fail_pull(id, Failure::Senseless, cx);
            return false;
        }
        if forges(id, &batch, cx) {
            cx.refuse(from, "records of this site that it has not written");
            self.fail_pull(id, Failure::Senseless, cx);
            return false;
        }
        let mut upto = pull.base.clone();
        upto.merge(&batch.upto);
        let fits = |item: &crate::FeedItem| !pull.base.covers(item.dot);
        let progress = upto != pull.base;
        let empty_end = batch.end && batch.items.is_empty();
        if !batch.items.iter().all(fits) || !(progress || empty_end) {
            cx.refuse(from, "a batch that does not continue the feed");
            self.fail_pull(id, Failure::Senseless, cx);
            return false;
        }
        // An end that brings nothing still ends the round that earlier batches began.
        let vector = if progress { None } else { cx.vector(id) };
        let ends = empty_end && vector.is_none_or(|vector| !vector.includes(&upto));
        let base = core::mem::replace(&mut pull.base, upto);
        pull.next += 1;
        let again = pull.again || !pull.base.includes(&pull.told);
        let (last, end) = (batch.last, batch.end);
        note_source(bucket, from, &batch, again);
        if progress || ends {
            let apply = hand_over(id, bucket, batch, Start { from, base, again }, cx);
            self.applies.insert(apply.ticket, id, &apply.items);
            cx.out.push(Output::Apply(apply));
        } else if end && !again {
            if bucket.pending.is_empty() {
                self.caught_up(id, from, cx);
            } else if let Some(pending) = bucket.pending.back_mut() {
                (pending.source, pending.end) = (from, true);
            }
        }
        if last && let Some(pull) = self.end_pull(id, cx) {
            self.learn_window(id, &pull, cx);
        }
        !last
    }

    fn learn_window(&mut self, id: BucketId, pull: &Running, cx: &Context<'_>) {
        if let Some(bucket) = self.buckets.get_mut(&id) {
            let source = bucket.source(pull.source);
            source.window = pull.next_window(source.window, cx.now);
        }
    }

    /// The store's answer to a batch; answers whether the ticket was one of the feed's.
    pub(crate) fn applied(&mut self, ticket: Ticket, ok: bool, cx: &mut Context<'_>) -> bool {
        let Some(id) = self.applies.remove(ticket) else { return self.kept(ticket, ok, cx) };
        let Some(bucket) = self.buckets.get_mut(&id) else { return true };
        let index = bucket.pending.iter().position(|pending| pending.ticket == ticket);
        let done = index.and_then(|index| bucket.pending.remove(index));
        if let Some(done) = &done {
            bucket.took(done.source, ok, cx);
        }
        if !ok {
            cx.stats.applies_refused += 1;
            bucket.broken = true;
            self.end_pull(id, cx);
        }
        let Some(bucket) = self.buckets.get_mut(&id) else { return true };
        if bucket.pending.is_empty() {
            bucket.handed = Vector::new();
            if core::mem::take(&mut bucket.broken) {
                bucket.hold = Some(cx.backoff(limits::BACKOFF_MIN, 0));
            }
        }
        if ok {
            self.news(id, cx);
            if let Some(fresh) = done.as_ref().filter(|done| done.fresh && !done.end) {
                self.told_all(id, fresh.source, cx);
            }
            if let Some(done) = done.filter(|done| done.end) {
                self.caught_up(id, done.source, cx);
            }
        }
        self.proceed(id, cx);
        // Others may have waited for room.
        self.start_queued(cx);
        true
    }

    /// The source has nothing more, and all of it is durable here.
    fn caught_up(&mut self, id: BucketId, source: SiteId, cx: &mut Context<'_>) {
        cx.out.push(Output::Report(Report::CaughtUp { bucket: id, source }));
        let doubt = cx.read(cx.replica.doubt(id)).unwrap_or_default();
        let Some(bucket) = self.buckets.get_mut(&id) else { return };
        bucket.doubtful = !doubt.is_empty();
        let life = bucket.sources.get(&source).and_then(|source| source.life);
        if bucket.settling == Some(source) {
            bucket.settling = None;
            self.wishes.push(Wish::Settle(id, (source, life)));
            return;
        }
        let asked = bucket.compare_with == Some(source);
        let clean = bucket.sources.get(&source).is_some_and(|source| !source.doubtful);
        // Who was compared and has not settled the doubt is not compared again at each word of it.
        let rests = bucket.doubt_at.is_some_and(|at| at > cx.now);
        let worth = (clean && !rests) || !bucket.compared.contains(&source);
        if bucket.comparing.is_none() && (asked || (bucket.doubtful && worth)) {
            (bucket.comparing, bucket.void) = (Some(source), false);
            bucket.compare_with = bucket.compare_with.filter(|with| *with != source);
            self.wishes.push(Wish::Compare(id, (source, life), bucket.compared.clone()));
        } else if bucket.doubtful && bucket.comparing.is_none() && !rests {
            bucket.doubt_at = Some(cx.backoff(limits::BACKOFF_MIN, bucket.doubt_tries));
            bucket.doubt_tries = bucket.doubt_tries.saturating_add(1);
        }
    }
}

/// Whether what waits for the store leaves no room for a whole pull.
pub(super) fn is_full(pending: &VecDeque<Pending>) -> bool {
    pending.len() + usize::from(limits::BATCHES_PER_PULL) > limits::BATCHES_UNAPPLIED
}

/// Sends a pull for what the link to the source is worth, no more than `share`; answers how many bytes it may bring.
fn ask(
    id: BucketId,
    bucket: &mut Bucket,
    source: SiteId,
    (mine, share): (Vector, u32),
    cx: &mut Context<'_>,
) -> u32 {
    let ticket = cx.ticket().0;
    bucket.ask(source, false);
    let known = bucket.source(source);
    let (most, window) = (u32::from(limits::BATCHES_PER_PULL), known.window.min(share));
    let max_bytes = (window / most).clamp(limits::BATCH_BYTES_MIN, bounds::FEED_BATCH_BYTES as u32);
    let batches = (window / max_bytes).clamp(1, most);
    let asked = batches * max_bytes;
    let whole = cx.peers.is_fellow(source);
    let marks = if whole { Pull::AHEAD | Pull::WHOLE } else { Pull::AHEAD };
    let pull = Pull { ticket, bucket: id, seen: mine.clone(), max_bytes, batches: batches as u8 | marks };
    let way = cx.peers.rtt(source) * 4;
    let deadline = cx.now.after(limits::PULL_TIMEOUT + way);
    let patience = Some(cx.now.after(limits::PULL_PATIENCE + way));
    bucket.pull = Some(Running {
        ticket,
        source,
        base: mine,
        next: 0,
        early: BTreeMap::new(),
        deadline,
        patience,
        started: cx.now,
        whole,
        asked,
        received: 0,
        told: Vector::new(),
        again: false,
    });
    cx.stats.pulls += 1;
    cx.send(source, Message::Pull(pull));
    asked
}

/// Whether a batch speaks of more of this store's present life than it has lived: whoever believed it would give dots twice, or
/// none any more. What others have of it came from here, and only after it was durable.
pub(super) fn forges(id: BucketId, batch: &Batch, cx: &mut Context<'_>) -> bool {
    let own = cx.replica.origin(id);
    let vectors = [&batch.upto, &batch.vector, &batch.horizon, &batch.doubt];
    let told = vectors.into_iter().map(|vector| vector.get(own));
    let items = batch.items.iter().filter(|item| item.dot.origin == own).map(|item| item.dot.seq);
    let most = told.chain(items).max().unwrap_or(0);
    most > 0 && cx.vector(id).is_none_or(|mine| most > mine.get(own))
}

/// What must be remembered as doubtful with this batch: the source dropped tombstones that we never saw, and we
/// have (or take from others before we reach its end) what they killed; or the source is in doubt itself.
///
/// Of the former no more than the tombstones themselves: all members had seen them and what they killed before any was
/// dropped, so whoever covers them can settle it. What else the source has may burn with it, and then nobody could. And
/// nothing, if this site has seen all of it and is not in doubt: it holds nothing that those tombstones killed.
fn doubt_of(batch: &Batch, base: &Vector, clean: Option<&Vector>) -> Vector {
    let is_seen = clean.is_some_and(|mine| mine.includes(&batch.doubt));
    let mut doubt = if is_seen { Vector::new() } else { batch.doubt.clone() };
    if !base.includes(&batch.horizon) {
        doubt.merge(&batch.horizon);
    }
    doubt
}

/// Remembers what the source has. Its end is all it has (whatever was believed before), unless it told news
/// meanwhile.
fn note_source(bucket: &mut Bucket, from: SiteId, batch: &Batch, again: bool) {
    let reached = bucket.pull.as_ref().map(|pull| pull.base.clone()).unwrap_or_default();
    let source = bucket.source(from);
    (source.life, source.tries, source.until) = (Some(batch.source), 0, None);
    source.doubtful = !batch.doubt.is_empty();
    if batch.end {
        bucket.ask(from, again);
    }
    let Bucket { floor, sources, most, .. } = bucket;
    let Some(source) = sources.get_mut(&from) else { return };
    if batch.end && !again && !source.vector.is_within(&floor.mine(&reached)) {
        source.vector = Known::default();
    }
    for seen in [&batch.vector, &batch.upto] {
        source.vector.merge(floor, seen);
        most.raise(seen);
    }
}

/// Whether a doubt is more than what is doubted here already. What a tombstone that was passed over may have killed is covered
/// by what its source had (`passed`): records beyond that, as those that are written meanwhile, put nothing in doubt that was
/// compared.
fn grows(
    id: BucketId,
    doubt: &Vector,
    (items, passed): (&[FeedItem], &Vector),
    cx: &mut Context<'_>,
) -> bool {
    let Some(stored) = cx.read(cx.replica.doubt(id)) else { return true };
    !stored.includes(doubt) || items.iter().any(|item| stored.covers(item.dot) || passed.covers(item.dot))
}

/// Where a batch starts.
struct Start {
    from: SiteId,
    base: Vector,
    again: bool,
}

fn hand_over(id: BucketId, bucket: &mut Bucket, batch: Batch, start: Start, cx: &mut Context<'_>) -> Apply {
    let ticket = cx.ticket();
    let Start { from, base, again } = start;
    let mine = if bucket.doubtful { None } else { cx.vector(id) };
    let clean = mine.filter(|_| cx.read(cx.replica.doubt(id)).is_some_and(|doubt| doubt.is_empty()));
    let doubt = doubt_of(&batch, &base, clean.as_deref());
    let upto = batch.upto.beyond(&base);
    cx.stats.items_in += batch.items.len() as u64;
    bucket.handed.merge(&upto);
    if !doubt.is_empty() {
        bucket.doubtful = true;
        bucket.passes(from, &batch);
        if grows(id, &doubt, (&batch.items, &bucket.passed), cx) {
            bucket.compared.clear();
            bucket.void = bucket.comparing.is_some();
        }
    }
    bucket.pending.push_back(Pending { ticket, source: from, end: batch.end && !again, fresh: false });
    bucket.rest(cx.now);
    let (source, more) = (batch.source, !batch.end);
    Apply {
        ticket,
        from,
        source,
        more,
        bucket: id,
        base,
        items: batch.items,
        upto,
        horizon: batch.horizon,
        doubt,
    }
}
