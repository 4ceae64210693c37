//! Commits: what the machines and the clients want stored, and the answers once the disk has done it.

use std::sync::{Arc, Mutex};

use skerry_base::kv::View;
use skerry_base::{BucketId, Dot, Instant};
use skerry_federation::{Apply, Fresh, Input, Keep, Ticket};
use skerry_model::space::{self, DotRange, SpaceError};
use skerry_model::{Entry, Record};

use super::{Event, World};
use crate::canary::Canary;
use crate::checkers::Violation;
use crate::checkers::dots::Dots;
use crate::checkers::durability::How;
use crate::checkers::kept;
use crate::history::{History, Outcome, Place};
use crate::ledger::{self, Applied, ApplyRefusal};
use crate::site::{Answer, Asked, Decided, Deciding, Desk, Fates, Underway, Unwritten, Wrote, joined, lock};
use crate::trace::Who;
use skerry_storage::Step;

/// Before, sites still meet and become members.
const MEASURED_FROM: Instant = Instant(20_000_000_000);

/// What proposals tell the checkers.
#[derive(Clone)]
pub(super) struct Notes {
    pub(super) site: usize,
    pub(super) history: Arc<Mutex<History>>,
    pub(super) dots: Arc<Mutex<Dots>>,
    pub(super) found: Arc<Mutex<Vec<Violation>>>,
}

impl Notes {
    /// A record was met: its dot must name it alone.
    pub(super) fn met(&self, record: &Record) {
        let found = lock(&self.dots).met(self.site, record.bucket, record.dot, &record.encode());
        lock(&self.found).extend(found);
    }

    /// A write is stored.
    pub(super) fn written(&self, (place, dot, record): &Decided) {
        lock(&self.history).stored(self.site, place, *dot);
        let found = lock(&self.dots).met(self.site, place.0, *dot, record);
        lock(&self.found).extend(found);
    }

    /// Writes of this commit group that the store has refused by now, for lack of room: what the next proposal
    /// sees lacks them. They never happened, and their dots are free again.
    pub(super) fn refused(&self, view: &dyn View, deciding: &mut Vec<Deciding>) -> Result<(), SpaceError> {
        deciding.retain(|cell| lock(cell).is_some());
        for cell in deciding.iter() {
            let mut cell = lock(cell);
            let Some((place, dot, _)) = cell.as_ref() else { continue };
            if space::vector_entry(view, place.0, dot.origin)? < dot.seq {
                let mut history = lock(&self.history);
                history.undecided(self.site, place, *dot);
                history.never(place, *dot);
                *cell = None;
            }
        }
        Ok(())
    }

    /// A write failed. A store that broke in the middle may have kept it all the same; any other has not, and
    /// the dot may be used again.
    fn failed(&self, (place, dot, record): &Decided, broken: bool) {
        let mut history = lock(&self.history);
        history.undecided(self.site, place, *dot);
        if broken {
            let found = lock(&self.dots).met(self.site, place.0, *dot, record);
            lock(&self.found).extend(found);
        } else {
            history.never(place, *dot);
        }
    }

    /// Notes what a batch will do, from the state before it.
    pub(super) fn batch(
        &self,
        view: &dyn View,
        bucket: BucketId,
        applied: &Applied,
    ) -> Result<Fates, SpaceError> {
        let mut fates = Fates { bucket, gone: applied.dropped.clone(), ..Fates::default() };
        let mut history = lock(&self.history);
        for record in &applied.records {
            self.met(record);
            let place = (record.bucket, record.key.clone());
            if history.write(record.bucket, record.dot).is_none() {
                let what = format!("{place:?} {} was written by nobody", record.dot);
                lock(&self.found).push(Violation::at("dots", self.site, what));
            }
            if is_dead(view, record.bucket, record.dot)? {
                fates.gone.push(record.dot);
            } else {
                history.decided_to_store(self.site, &place, record.dot);
                fates.stored.push((place, record.dot));
            }
        }
        lock(&self.found).extend(kept::check(&history, self.site, bucket, &applied.dropped));
        history.decided_to_drop(self.site, fates.bucket, &fates.gone);
        Ok(fates)
    }

    /// Where a proposal leaves what it does for its end.
    #[expect(clippy::unused_self, reason = "reads like what it belongs to")]
    pub(super) fn undecided(&self) -> Arc<Mutex<Fates>> {
        Arc::default()
    }

    /// Tells the history what became of a batch, and adds the answer for who waits for it.
    pub(super) fn done(&self, fates: Fates, ok: bool, desk: &Mutex<Desk>, mut answer: Answer) {
        if let Answer::Applied { stored, .. } = &mut answer {
            stored.extend(named(&fates));
        }
        let not_gone = self.ended(fates, ok);
        let mut desk = lock(desk);
        desk.not_gone.extend(not_gone);
        desk.answers.push(answer);
    }

    /// Tells the history what became of a commit; which records are not gone that were to go.
    fn ended(&self, fates: Fates, ok: bool) -> Vec<(BucketId, Dot)> {
        let mut history = lock(&self.history);
        for (place, dot) in fates.stored {
            match ok {
                true => history.stored(self.site, &place, dot),
                false => history.undecided(self.site, &place, dot),
            }
        }
        if !ok {
            return fates.gone.into_iter().map(|dot| (fates.bucket, dot)).collect();
        }
        fates.gone.into_iter().for_each(|dot| history.dropped(self.site, fates.bucket, dot));
        Vec::new()
    }

    /// A commit group is durable: so are the steps in it of batches that have not ended.
    fn stepped(&self, desk: &Mutex<Desk>) {
        let underway = std::mem::take(&mut lock(desk).underway);
        for batch in &underway {
            let step = std::mem::take(&mut lock(batch).step);
            lock(batch).stored.extend(named(&step));
            self.ended(step, true);
        }
        // Only their proposals hold those that go on.
        lock(desk).underway.extend(underway.into_iter().filter(|batch| Arc::strong_count(batch) > 1));
    }
}

/// What a commit stores, without the places.
fn named(fates: &Fates) -> impl Iterator<Item = (BucketId, Dot)> {
    fates.stored.iter().map(|(place, dot)| (place.0, *dot))
}

/// Whether the store has heard that a record is dead: covered and not stored.
fn is_dead(view: &dyn View, bucket: BucketId, dot: Dot) -> Result<bool, SpaceError> {
    let next = Dot { seq: dot.seq.saturating_add(1), ..dot };
    let stored = space::dots_in(view, bucket, DotRange { from: dot, to: Some(next) }, 1)?;
    Ok(stored.is_empty() && space::vector_entry(view, bucket, dot.origin)? >= dot.seq)
}

impl World {
    pub(super) fn notes(&self, site: usize) -> Notes {
        let (history, dots) = (Arc::clone(&self.history), Arc::clone(&self.dots));
        Notes { site, history, dots, found: Arc::clone(&self.found) }
    }

    pub(super) fn submit_apply(&mut self, site: usize, mut apply: Apply) {
        self.count("batches");
        if self.environment.canary == Some(Canary::SkippedItem) && apply.items.len() > 1 {
            apply.items.remove(0);
        }
        if self.environment.canary == Some(Canary::NothingAhead) {
            apply.items.retain(|item| apply.upto.covers(item.dot));
        }
        let forget = self.environment.canary == Some(Canary::ForgottenContext);
        let (ticket, bucket) = (apply.ticket, apply.bucket);
        let mut steps = ledger::Steps::of(apply);
        self.submit_records(site, (ticket, bucket), move |view| {
            let (mut applied, more) = steps.step(view)?;
            if forget {
                forget_contexts(&mut applied);
            }
            Ok((applied, more))
        });
    }

    pub(super) fn submit_keep(&mut self, site: usize, keep: Keep) {
        self.count("gatherings");
        self.submit_records(site, (keep.ticket, keep.bucket), move |view| {
            Ok((ledger::keep(view, &keep)?, false))
        });
    }

    pub(super) fn submit_fresh(&mut self, site: usize, fresh: Fresh) {
        self.count("fresh batches");
        let forget = self.environment.canary == Some(Canary::ForgottenContext);
        self.submit_records(site, (fresh.ticket, fresh.bucket), move |view| {
            let mut applied = ledger::fresh(view, &fresh)?;
            if forget {
                forget_contexts(&mut applied);
            }
            Ok((applied, false))
        });
    }

    fn submit_records(
        &mut self,
        site: usize,
        (ticket, bucket): (Ticket, BucketId),
        mut decide: impl FnMut(&dyn View) -> Result<(Applied, bool), ApplyRefusal> + Send + 'static,
    ) {
        let notes = self.notes(site);
        let Some(running) = self.running(site) else { return };
        let (store, desk) = (Arc::clone(&running.store), Arc::clone(&running.desk));
        let batch = Arc::new(Mutex::new(Underway::default()));
        lock(&desk).underway.push(Arc::clone(&batch));
        let (noted, at_end) = (Arc::clone(&batch), notes.clone());
        store.submit_steps(
            move |view| {
                let (applied, more) = decide(view)?;
                lock(&noted).step = notes.batch(view, bucket, &applied)?;
                Ok::<_, ApplyRefusal>(Step { entries: applied.entries, more })
            },
            move |result| {
                let Underway { step, stored } = std::mem::take(&mut *lock(&batch));
                let why = result.err().map(|error| format!("{error:?}")).unwrap_or_default();
                let ok = why.is_empty();
                at_end.done(step, ok, &desk, Answer::Applied { ticket, ok, why, stored });
            },
        );
        self.plan_pump(site);
    }

    pub(super) fn submit_drop(&mut self, site: usize, drop: skerry_federation::Drop) {
        self.count("drops");
        let notes = self.notes(site);
        let Some(running) = self.running(site) else { return };
        let (store, desk) = (Arc::clone(&running.store), Arc::clone(&running.desk));
        let ticket = drop.ticket;
        let (bucket, dots) = (drop.bucket, drop.dots.clone());
        let deciding = notes.clone();
        store.submit_behind(
            move |view| {
                lock(&deciding.history).decided_to_drop(site, bucket, &drop.dots);
                let entries = ledger::drop_dots(view, &drop)?;
                let stored = |entry: &Entry| skerry_storage::Entry::new(entry.encode()).freeing();
                Ok::<_, SpaceError>(((), entries.iter().map(stored).collect()))
            },
            move |result| {
                let why = result.err().map(|error| format!("{error:?}")).unwrap_or_default();
                let ok = why.is_empty();
                let answer = Answer::Applied { ticket, ok, why, stored: Vec::new() };
                notes.done(Fates::drops(bucket, dots), ok, &desk, answer);
            },
        );
        self.plan_pump(site);
    }

    /// The site becomes a member of a bucket; its client asks again. Not while the bucket is let go: what was joined in
    /// that moment would be a membership in memory, and none on disk, of which all is swept.
    pub(super) fn submit_join(&mut self, site: usize, bucket: BucketId) {
        let Some(running) = self.running(site) else { return };
        if running.letting_go.contains(&bucket) {
            return self.count("joins that wait for a leave");
        }
        let (store, desk) = (Arc::clone(&running.store), Arc::clone(&running.desk));
        let entries = joined(bucket);
        let entries = entries.iter().map(|entry| skerry_storage::Entry::new(entry.encode())).collect();
        let joins = Arc::clone(&desk);
        store.submit(
            move |_| {
                lock(&joins).left.remove(&bucket);
                Ok::<_, SpaceError>(((), entries))
            },
            move |result| {
                let answer = if result.is_ok() { Answer::Joined(bucket) } else { Answer::Kept };
                lock(&desk).answers.push(answer);
            },
        );
        self.plan_pump(site);
    }

    pub(super) fn running(&self, site: usize) -> Option<&crate::site::Running> {
        self.sites.get(site).and_then(|place| place.running.as_ref())
    }

    pub(super) fn plan_pump(&mut self, site: usize) {
        let now = self.queue.now();
        let Some(place) = self.sites.get_mut(site) else { return };
        let boot = place.boot;
        let Some(running) = place.running.as_mut().filter(|running| !running.pump_planned) else { return };
        running.pump_planned = true;
        self.queue.plan(now.max(running.busy_until), Event::Pump { site, boot });
    }

    pub(super) fn pump(&mut self, site: usize, boot: u64) {
        let now = self.queue.now();
        let Some(place) = self.sites.get_mut(site).filter(|place| place.boot == boot) else { return };
        let (wall, disk) = (place.wall.read(now), place.disk.clone());
        let Some(running) = place.running.as_mut() else { return };
        running.pump_planned = false;
        lock(&running.desk).wall = wall;
        let carried_out = running.store.pump();
        let notes =
            Notes { site, history: self.history.clone(), dots: self.dots.clone(), found: self.found.clone() };
        notes.stepped(&running.desk);
        let answers = std::mem::take(&mut lock(&running.desk).answers);
        let at = now.after(disk.take_busy());
        running.busy_until = at;
        let failed = std::mem::take(&mut lock(&running.desk).failed);
        let not_gone = std::mem::take(&mut lock(&running.desk).not_gone);
        // Also when nobody waits for the answer that failed: what a torn commit held may be there after all.
        let stopped = running.store.usage().poisoned.is_some();
        let poisoned = answers.iter().any(Answer::failed) && stopped;
        self.count("commits");
        self.tell(Who::Site(site), format_args!("commits {carried_out}, until {}", at.0));
        let broken = stopped || disk.is_dead();
        failed.iter().for_each(|decided| self.notes(site).failed(decided, broken));
        for (bucket, dot) in not_gone.into_iter().filter(|_| !broken) {
            lock(&self.history).kept(site, bucket, dot);
        }
        for answer in answers {
            self.queue.plan(at, Event::Answer { site, boot, answer });
        }
        if carried_out > 0 {
            self.plan_pump(site);
        }
        self.mourn(site, poisoned);
    }

    pub(super) fn answer(&mut self, site: usize, boot: u64, answer: Answer) {
        if self.sites.get(site).is_none_or(|place| place.boot != boot) {
            return;
        }
        match answer {
            Answer::Wrote { asked, result: Ok(Wrote::Again(place, dot)) } => {
                self.answer_again(site, asked, place, dot);
            }
            Answer::Wrote { asked, result } => {
                self.answer_client(site, asked, result);
                self.reread_payers(site);
            }
            Answer::Holds { id, ok, settled } => self.holds(site, id, (ok, settled)),
            Answer::Applied { ticket, ok, why, stored } => {
                self.arrived(site, ok, &stored);
                if !ok {
                    self.tell(Who::Site(site), format_args!("does not apply {ticket:?}: {why}"));
                }
                self.input(site, Input::Applied { ticket, ok });
                self.reread_payers(site);
            }
            Answer::Joined(bucket) => {
                let running = self.sites.get_mut(site).and_then(|place| place.running.as_mut());
                // Asked for before the bucket was let go, and a member already: that is decided by who lets go.
                let Some(running) = running.filter(|running| !running.letting_go.contains(&bucket)) else {
                    return;
                };
                running.members.insert(bucket);
                lock(&self.history).joined(site, bucket);
                self.tell(Who::Site(site), format_args!("becomes a member of {bucket}"));
                self.input(site, Input::Join { bucket });
            }
            Answer::Left { bucket, ok } => self.has_left(site, bucket, ok),
            Answer::Swept { bucket, more } => self.has_swept(site, bucket, more),
            Answer::Whole(bucket) => self.is_whole(site, bucket),
            Answer::Kept => {}
        }
    }

    /// The same object was there already; its body is durable here before anybody is told so.
    fn answer_again(&mut self, site: usize, asked: Asked, place: Place, dot: Dot) {
        self.count("written again");
        let record = self
            .running(site)
            .and_then(|running| space::record(&running.store.view(), place.0, &place.1, dot).ok().flatten());
        let blind = self.environment.canary == Some(Canary::RepeatedPut);
        let lacks = record.is_some_and(|record| !self.counts_at(site, &record)) && !blind;
        let result = Ok(Wrote::Record(place, dot));
        if lacks {
            self.count("bodies settled for who wrote again");
            self.settle(site, Answer::Wrote { asked, result });
        } else {
            self.answer_client(site, asked, result);
        }
    }

    fn answer_client(&mut self, site: usize, asked: Asked, result: Result<Wrote, Unwritten>) {
        self.operation_ends(site, asked, &result);
        match result {
            Ok(Wrote::Record(place, dot) | Wrote::Again(place, dot)) => {
                if asked.scope > 1 {
                    self.input(site, Input::Durable { bucket: place.0 });
                    return self.begin_reach(site, asked, place, dot);
                }
                return self.acknowledge(site, asked, &place, dot);
            }
            Ok(Wrote::Nothing) => self.tell(Who::Site(site), format_args!("had nothing to do")),
            Err(why) => {
                self.count("refused");
                self.tell(Who::Site(site), format_args!("fails {:?}: {why:?}", asked.client));
            }
        }
        asked.client.into_iter().for_each(|client| self.client_goes_on(site, client));
    }

    /// The client is told that its write is done.
    pub(super) fn acknowledge(&mut self, site: usize, asked: Asked, place: &Place, dot: Dot) {
        // What was so already may have come from elsewhere, ahead of its feed.
        let origin = self.running(site).map(|running| lock(&running.desk).origin_of(place.0));
        let wrote = origin == Some(dot.origin);
        // Who has left meanwhile has handed it on and shows it no more.
        if self.running(site).is_some_and(|running| running.members.contains(&place.0)) {
            self.own_writes.acknowledged(site, place, dot);
            self.shown(site, place.0, dot, if wrote { How::Acknowledged } else { How::Read });
        }
        if asked.scope == 1 {
            self.promise_here(site, (place, dot), wrote);
        }
        self.tell_client(site, asked, place, dot);
    }

    /// The same of what the site need not show.
    pub(super) fn tell_client(&mut self, site: usize, asked: Asked, place: &Place, dot: Dot) {
        self.count("acknowledged");
        self.tell(Who::Site(site), format_args!("acknowledges {} {dot}", place.1));
        lock(&self.history).told(place.0, dot, Outcome::Acknowledged);
        self.answered.insert((place.0, dot), (site, self.queue.now()));
        let history = lock(&self.history);
        self.trace.explain(|| format!("{:?}", history.write(place.0, dot)));
        drop(history);
        self.count_win(site, place, dot);
        self.input(site, Input::Durable { bucket: place.0 });
        asked.client.into_iter().for_each(|client| self.client_goes_on(site, client));
    }

    /// Records of a feed are durable here: how long after their answer.
    fn arrived(&mut self, site: usize, ok: bool, stored: &[(BucketId, Dot)]) {
        for dot in stored.iter().filter(|_| ok && !self.resting) {
            let Some((from, at)) = self.answered.get(dot).copied().filter(|(from, _)| *from != site) else {
                continue;
            };
            if at < MEASURED_FROM {
                continue;
            }
            let (took, rtt) = (self.queue.now().since(at), self.net.rtt(from, site));
            self.arrivals.push((took, rtt));
        }
    }

    /// Somebody outside the store was shown a record.
    pub(super) fn shown(&mut self, site: usize, bucket: BucketId, dot: Dot, how: How) {
        if let Some(shows) = self.shows.get_mut(site) {
            shows.show(bucket, dot, how);
        }
    }
}

impl Answer {
    const fn failed(&self) -> bool {
        matches!(self, Self::Wrote { result: Err(_), .. } | Self::Applied { ok: false, .. })
    }
}

/// The canary: every context is lost on the way to the store.
fn forget_contexts(applied: &mut Applied) {
    for (entry, record) in applied.entries.iter_mut().zip(&applied.records) {
        let mut record = record.clone();
        record.context = skerry_base::Vector::new();
        entry.data = Entry::Record(Box::new(record)).encode();
    }
}
