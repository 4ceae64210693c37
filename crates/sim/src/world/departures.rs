//! Sites leave buckets while everything else goes on, and come back to them: the shell around the departure machine, as
//! the node has it.
//!
//! Questions and answers take time and get lost, the commit that lets go may be refused, the process may die anywhere
//! between. What is judged is what is judged always: nothing acknowledged is lost, no vector covers what it lacks, and
//! who comes back converges. Bodies are not handed over here (the node does, and its tests judge it): those of a site
//! that left are excused.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use skerry_base::kv::View;
use skerry_base::{BucketId, Dot, Instant, Origin};
use skerry_federation::departure::{Own, Standing as Said, Verdict};
use skerry_federation::{Input, Replica, Span, limits};
use skerry_model::Entry;
use skerry_model::space::{self, DotRange, SpaceError};
use skerry_storage::Store;

use super::{Event, World};
use crate::canary::Canary;
use crate::ledger::{self, Fact, Reading};
use crate::site::{Answer, left_name, lock, membership};
use crate::trace::Who;
use skerry_scenario::clock::{millis, seconds};
use skerry_scenario::draw::Ppm;

/// Records dropped in one commit: few, so that a run dies in the middle of it often.
const AT_ONCE: usize = 6;
/// Since when a word may be given on which a site leaves: a question and its answer take at most 1.4 s, and stand until the next
/// are asked.
const WORD: Duration = seconds(6);
/// More than any run makes.
const DOTS: usize = 1 << 20;

/// What one site is told by another.
#[derive(Debug, Clone)]
pub(super) struct Word {
    pub(super) site: usize,
    pub(super) boot: u64,
    pub(super) other: usize,
    pub(super) bucket: BucketId,
    pub(super) round: u64,
    /// None while it is a question.
    pub(super) said: Option<Said>,
}

impl World {
    /// Somebody at a site wants it to leave a bucket, or changes his mind.
    pub(super) fn depart_in_turn(&mut self, site: usize) {
        if self.resting {
            return;
        }
        let at = self.queue.now().after(self.draw.span(seconds(2)..=seconds(15)));
        self.queue.plan(at, Event::Depart { site });
        let buckets: Vec<BucketId> = self.buckets.iter().map(|bucket| bucket.id).collect();
        let Some(bucket) = self.draw.pick(&buckets).copied() else { return };
        let stays = self.draw.chance(Ppm::percent(10));
        let Some(place) = self.sites.get_mut(site) else { return };
        let boot = place.boot;
        let Some(running) = place.running.as_mut().filter(|running| running.members.contains(&bucket)) else {
            return;
        };
        if stays {
            running.departures.end(bucket);
        } else if running.departures.begin(bucket) {
            self.count("departures begun");
            self.tell(Who::Site(site), format_args!("wants to leave {bucket}"));
            self.queue.plan(self.queue.now(), Event::AskLeave { site, boot, bucket });
        }
    }

    /// Asks all others what they have; again and again.
    pub(super) fn ask_to_leave(&mut self, site: usize, boot: u64, bucket: BucketId) {
        let resting = self.resting;
        let Some(place) = self.sites.get_mut(site).filter(|place| place.boot == boot) else { return };
        let Some(running) = place.running.as_mut() else { return };
        if resting {
            running.departures.end(bucket);
        }
        let Some(round) = running.departures.ask(bucket) else { return };
        let members = running.federation.members(bucket);
        let again = self.queue.now().after(self.draw.span(millis(900)..=seconds(4)));
        self.queue.plan(again, Event::AskLeave { site, boot, bucket });
        let follows = running.members.contains(&bucket);
        if self.environment.canary == Some(Canary::HastyLeave) && follows {
            return self.leave(site, bucket);
        }
        for other in (0..self.sites.len()).filter(|other| *other != site) {
            let known = self.sites.get(other).is_some_and(|place| members.contains(&place.id));
            if known {
                self.pass(Word { site, boot, other, bucket, round, said: None });
            }
        }
    }

    fn pass(&mut self, word: Word) {
        if self.net.open(word.site, word.other) && self.net.open(word.other, word.site) {
            let at = self.queue.now().after(self.draw.span(millis(1)..=millis(700)));
            self.queue.plan(at, Event::Said(word));
        }
    }

    /// A question arrives, or its answer.
    pub(super) fn heard_of_leaving(&mut self, word: Word) {
        if !self.net.open(word.site, word.other) || !self.net.open(word.other, word.site) {
            return;
        }
        let Some(said) = word.said.clone() else {
            let said = self.standing_of(word.other, word.bucket);
            return said.into_iter().for_each(|said| self.pass(Word { said: Some(said), ..word.clone() }));
        };
        let id = self.sites.get(word.other).map(|place| place.id);
        let Some(place) = self.sites.get_mut(word.site).filter(|place| place.boot == word.boot) else {
            return;
        };
        let (Some(running), Some(id)) = (place.running.as_mut(), id) else { return };
        if !running.members.contains(&word.bucket)
            || !running.departures.said(word.bucket, word.round, id, said)
        {
            return;
        }
        let (Ok(own), Some(attempt)) =
            (own(&running.store, word.bucket), running.departures.attempt(word.bucket))
        else {
            return;
        };
        let members = running.federation.members(word.bucket).into_iter().collect();
        if attempt.judge(&own, self.environment.leave_copies, &members) == Verdict::Go {
            self.leave(word.site, word.bucket);
        }
    }

    /// What a site says to one who wants to leave.
    fn standing_of(&self, site: usize, bucket: BucketId) -> Option<Said> {
        let running = self.running(site)?;
        if !running.members.contains(&bucket) {
            return Some(Said::Absent);
        }
        // The canary: who is about to leave as well says that it stays.
        let says_so = self.environment.canary != Some(Canary::BothLeave);
        if says_so && running.departures.is_going(bucket) {
            return Some(Said::Leaves);
        }
        let view = running.store.view();
        let origin = lock(&running.desk).origin_of(bucket);
        let reading =
            Reading { store: &running.store, view: &view as &dyn View, origin, lives: &[], feed_bytes: 0 };
        let vector = reading.vector(bucket).ok()?;
        Some(Said::Stays { vector, loose: reading.loose(bucket).ok()? })
    }

    /// First nobody is served any more, then it lets go, if what was said still holds for what it has by then.
    fn leave(&mut self, site: usize, bucket: BucketId) {
        let incarnation = match self.environment.canary {
            Some(Canary::SameLife) => None,
            _ => Some(self.draw.number()),
        };
        let hasty = self.environment.canary == Some(Canary::HastyLeave);
        let copies = self.environment.leave_copies;
        self.input(site, Input::Leave { bucket });
        let notes = self.notes(site);
        let Some(place) = self.sites.get_mut(site) else { return };
        let node = place.node;
        let Some(running) = place.running.as_mut() else { return };
        running.members.remove(&bucket);
        running.letting_go.insert(bucket);
        let members: BTreeSet<_> = running.federation.members(bucket).into_iter().collect();
        let Some(attempt) = running.departures.attempt(bucket) else { return };
        let (store, desk) = (Arc::clone(&running.store), Arc::clone(&running.desk));
        let (at_end, read) = (Arc::clone(&desk), Arc::clone(&store));
        let stored = Arc::new(std::sync::Mutex::new(BTreeSet::new()));
        let noted = Arc::clone(&stored);
        if let Some(shows) = self.shows.get_mut(site) {
            shows.left(bucket);
        }
        self.scopes.left(site, bucket);
        let since = Instant(self.queue.now().0.saturating_sub(WORD.as_nanos() as u64));
        // No step of a batch may come after it.
        store.submit_behind(
            move |view| {
                let own = own_of(&read, view, bucket).map_err(|error| error.to_string())?;
                let verdict = attempt.judge(&own, copies, &members);
                if verdict != Verdict::Go && !hasty {
                    return Err(format!("{verdict:?}"));
                }
                *lock(&noted) = dots(view, bucket).map_err(|error| error.to_string())?;
                if let Some(incarnation) = incarnation {
                    lock(&desk).origins.insert(bucket, Origin { node, incarnation });
                }
                lock(&desk).left.insert(bucket);
                Ok::<_, String>(((), entries(bucket)))
            },
            move |result| {
                let ok = result.is_ok();
                if ok {
                    lock(&notes.history).left(notes.site, bucket, &lock(&stored), since);
                }
                lock(&at_end).answers.push(Answer::Left { bucket, ok });
            },
        );
        self.plan_pump(site);
    }

    /// It has let go, or stays.
    pub(super) fn has_left(&mut self, site: usize, bucket: BucketId, ok: bool) {
        let Some(running) = self.sites.get_mut(site).and_then(|place| place.running.as_mut()) else { return };
        running.letting_go.remove(&bucket);
        if ok {
            running.departures.end(bucket);
            self.count("departures");
            self.tell(Who::Site(site), format_args!("has left {bucket}"));
            self.own_writes.left(site, bucket);
            self.sweep_left(site, bucket);
            return;
        }
        running.members.insert(bucket);
        lock(&running.desk).left.remove(&bucket);
        self.count("departures refused");
        self.tell(Who::Site(site), format_args!("stays in {bucket}: something came meanwhile"));
        self.input(site, Input::Join { bucket });
    }

    /// Drops the next records of a bucket that was left.
    fn sweep_left(&mut self, site: usize, bucket: BucketId) {
        let notes = self.notes(site);
        let Some(running) = self.running(site) else { return };
        let (store, desk) = (Arc::clone(&running.store), Arc::clone(&running.desk));
        let remaining = Arc::new(std::sync::Mutex::new(BTreeSet::new()));
        let noted = Arc::clone(&remaining);
        store.submit(
            move |view| {
                if space::local(view, &left_name(bucket))?.is_none() {
                    return Ok::<_, SpaceError>((false, Vec::new()));
                }
                let gone = space::left(view, bucket, AT_ONCE)?;
                if gone.is_empty() {
                    let done = Entry::Local { key: left_name(bucket).into(), value: None };
                    return Ok((false, vec![skerry_storage::Entry::new(done.encode())]));
                }
                let mut stays = dots(view, bucket)?;
                stays.retain(|dot| !gone.contains(dot));
                *lock(&noted) = stays;
                let drop = Entry::Drop { bucket, dots: gone };
                Ok((true, vec![skerry_storage::Entry::new(drop.encode()).freeing()]))
            },
            move |result| {
                let more = matches!(result, Ok(true));
                if more {
                    lock(&notes.history).swept(notes.site, bucket, &lock(&remaining));
                }
                lock(&desk).answers.push(Answer::Swept { bucket, more });
            },
        );
        self.plan_pump(site);
    }

    pub(super) fn has_swept(&mut self, site: usize, bucket: BucketId, more: bool) {
        if more {
            self.count("sweeps of left buckets");
            self.sweep_left(site, bucket);
        }
    }

    /// A process came up: what was left before is swept on, and nobody asks it for what it wrote there.
    pub(super) fn recover_departures(&mut self, site: usize) {
        if !self.environment.departs {
            return;
        }
        for bucket in self.all_buckets() {
            let Some(running) = self.running(site) else { return };
            if running.members.contains(&bucket) {
                continue;
            }
            let Ok(stored) = dots(&running.store.view(), bucket) else { continue };
            let sweeps = space::local(&running.store.view(), &left_name(bucket));
            let now = self.queue.now();
            lock(&self.history).left(site, bucket, &stored, now);
            self.scopes.left(site, bucket);
            self.own_writes.left(site, bucket);
            if let Some(shows) = self.shows.get_mut(site) {
                shows.left(bucket);
            }
            if matches!(sweeps, Ok(Some(_))) {
                self.sweep_left(site, bucket);
            }
        }
    }
}

/// What lets go in one commit: the vector, the rounds, what is known of tombstones, the membership.
fn entries(bucket: BucketId) -> Vec<skerry_storage::Entry> {
    let forget = |key: Vec<u8>| Entry::Local { key: key.into(), value: None };
    let none = skerry_base::Vector::new();
    let all = [
        Entry::Leave { bucket },
        space::not_anew(bucket),
        skerry_model::bucket::forget_spare(bucket),
        forget(membership(bucket)),
        ledger::set_fact(Fact::Horizon, bucket, none.clone()),
        ledger::set_fact(Fact::Doubt, bucket, none),
        Entry::Local { key: left_name(bucket).into(), value: Some(vec![1].into()) },
    ];
    all.iter().map(|entry| skerry_storage::Entry::new(entry.encode())).collect()
}

fn dots(view: &dyn View, bucket: BucketId) -> Result<BTreeSet<Dot>, SpaceError> {
    Ok(space::dots_in(view, bucket, DotRange::ALL, DOTS)?.into_iter().collect())
}

fn own(store: &Store, bucket: BucketId) -> Result<Own, skerry_federation::Unreadable> {
    own_of(store, &store.view(), bucket)
}

fn own_of(store: &Store, view: &dyn View, bucket: BucketId) -> Result<Own, skerry_federation::Unreadable> {
    let origin = Origin::default();
    let reading = Reading { store, view, origin, lives: &[], feed_bytes: 0 };
    let mut own = Own { vector: reading.vector(bucket)?, loose: Vec::new() };
    for loose in reading.loose(bucket)? {
        let span = Span { origin: loose.origin, first: loose.covered + 1, last: u64::MAX };
        let seqs = reading.dots_in(bucket, &span, limits::LOOSE_LEFT + 1)?;
        own.loose.push((loose.origin, Some(seqs).filter(|seqs| seqs.len() <= limits::LOOSE_LEFT)));
    }
    Ok(own)
}
