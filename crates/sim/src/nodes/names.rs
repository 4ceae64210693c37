//! The register of names, in some of the seeds: one more bucket, whose home gives names to whoever asks first, through any
//! node and from the other site, while it is lost, moved and taken over as any home.
//!
//! The production machine says what was begun and is to be said again; what a commit thread does with that is done here.
//! `names`: a name is given to one. In the end names are given again, unless what the register must have has burned; in
//! calm weather nobody who asks goes without for longer than a bucket goes without decisions.

use std::collections::{BTreeMap, BTreeSet};

use skerry_base::{BucketId, Instant, SiteId};
use skerry_federation::site_view::Input;
use skerry_model::bucket::{FIRST_EPOCH, HomeDocument, Naming, NamingDocument, Turn};
use skerry_scenario::clock::{millis, seconds};
use skerry_scenario::draw::Draw;

use super::{
    BUCKETS, Event, Job, Mistake, Operation, PROBED_FROM, PROBED_UNTIL, Packet, Storing, UNDECIDED, Weather,
    What, Why, World, Write,
};

/// Of [`BUCKETS`] the one whose home is the register.
pub(super) const REGISTER: usize = BUCKETS.len() - 1;
/// How often a question for the register is passed on.
const HOPS: u8 = 3;
/// Names that are asked for at a time.
const RECENT: u64 = 4;

/// What the world knows of names.
#[derive(Debug)]
pub(super) struct Names {
    /// Whether any are asked for in this run.
    pub(super) is_on: bool,
    /// Of its own, so that what else happens in a seed is what it always was.
    draw: Draw,
    last: u64,
    given: BTreeMap<u64, BucketId>,
    /// When one was given last.
    given_at: Instant,
}

/// Who asks for which.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wish {
    name: u64,
    claimant: u8,
}

impl Names {
    pub(super) fn new(seed: u64, mistake: Option<Mistake>) -> Self {
        let mut draw = Draw::from_seed(seed).fork("names");
        let is_on = match mistake {
            Some(mistake) => mistake.is_of_names(),
            None => draw.below(3) == 0,
        };
        Self { is_on, draw, last: 0, given: BTreeMap::new(), given_at: Instant(0) }
    }
}

impl Wish {
    fn naming(self) -> Naming {
        let mut id = [self.claimant; 16];
        id[..8].copy_from_slice(&self.name.to_le_bytes());
        Naming { home: HomeDocument::first(BucketId(id), SiteId([self.claimant; 16]), true), claim: None }
    }
}

fn name_of(bucket: BucketId) -> u64 {
    let mut name = [0; 8];
    name.copy_from_slice(&bucket.0[..8]);
    u64::from_le_bytes(name)
}

impl World {
    pub(super) fn begin_names(&mut self) {
        if !self.names.is_on {
            return;
        }
        let is_far = self.weather == Weather::Storm && self.names.draw.below(4) == 0;
        let node = self.names.draw.below(self.seated() as u64) as usize;
        self.name_first_home(REGISTER, if is_far { self.far() } else { node });
        for node in 0..self.nodes.len() {
            self.plan_name(node);
        }
        if self.weather == Weather::Storm {
            self.plan_move_of_register();
        }
    }

    fn plan_name(&mut self, node: usize) {
        let last = if self.rests_since.is_some() { seconds(2) } else { millis(400) };
        let at = self.queue.now().after(self.names.draw.span(millis(100)..=last));
        self.queue.plan(at, Event::Name { node });
    }

    fn plan_move_of_register(&mut self) {
        let at = self.queue.now().after(self.names.draw.span(millis(800)..=seconds(6)));
        self.queue.plan(at, Event::MoveRegister);
    }

    /// The register is given to another node, to the other site, or back.
    pub(super) fn move_register(&mut self) {
        if self.rests_since.is_some() {
            return;
        }
        self.plan_move_of_register();
        let homes = self.homes(REGISTER);
        let Some(node) = self.names.draw.pick(&homes).copied() else { return };
        let goes_far = node != self.far() && self.names.draw.below(2) == 0;
        let near = self.names.draw.below(self.seated() as u64) as usize;
        let to = if goes_far { self.far() } else { near };
        if to != node {
            self.hand(node, REGISTER, self.nodes[to].id);
        }
    }

    /// A client asks for a name that others ask for as well.
    pub(super) fn ask_name(&mut self, node: usize) {
        let is_over = |since: Instant| self.queue.now().since(since) > PROBED_UNTIL;
        if self.rests_since.is_some_and(is_over) {
            return;
        }
        self.plan_name(node);
        if !self.is_running(node) {
            return;
        }
        self.names.last += u64::from(self.names.draw.below(4) == 0);
        let name = self.names.last.saturating_sub(self.names.draw.below(RECENT));
        self.count("names asked for");
        self.ask_register(node, Wish { name, claimant: node as u8 }, HOPS);
    }

    pub(super) fn ask_register(&mut self, node: usize, wish: Wish, hops: u8) {
        if self.is_busy(node, REGISTER) || self.is_naming(node) {
            return self.count("names that found another on its way");
        }
        match self.turn(node, REGISTER) {
            Some(Turn::Decide(_)) if self.refuses(node) => {
                self.count("names refused: the register cannot hold")
            }
            Some(Turn::Decide(epoch)) if self.is_alone(node) => self.name_alone(node, wish, epoch),
            Some(Turn::Decide(epoch)) => self.name_together(node, wish, epoch),
            Some(Turn::Elsewhere(site)) if hops > 0 => {
                let found =
                    (0..self.nodes.len()).find(|other| self.nodes[*other].id == site && *other != node);
                if let Some(to) = found {
                    self.send(node, to, Packet::Name { wish, hops: hops - 1 });
                }
            }
            Some(Turn::Open(_) | Turn::Pass(_)) => self.stir(node, REGISTER),
            _ => self.count("names refused"),
        }
    }

    fn is_naming(&self, node: usize) -> bool {
        self.nodes[node].jobs.values().any(|job| matches!(job.why, Why::Naming(_)))
    }

    /// What was said of namings last, as far as a node knows.
    fn said(&self, node: usize) -> Option<NamingDocument> {
        let said =
            self.nodes[node].kept.said.iter().filter_map(|write| match &self.writes.get(write)?.what {
                What::Said { said, .. } => Some(said.clone()),
                _ => None,
            });
        NamingDocument::latest(said)
    }

    fn is_given(&self, node: usize, naming: &Naming) -> bool {
        self.nodes[node].kept.given.contains_key(&naming.home.bucket)
    }

    /// Whether a name is somebody's, as far as a node knows.
    fn is_taken(&self, node: usize, wish: Wish) -> bool {
        (0..=self.nodes.len() as u8).any(|claimant| self.is_given(node, &Wish { claimant, ..wish }.naming()))
    }

    /// What a node that keeps the register says again; none if a later register has spoken.
    fn carried(&self, node: usize, epoch: u64) -> Option<NamingDocument> {
        let mut said = self.said(node);
        if self.mistake == Some(Mistake::ForgottenNaming) {
            said = said.filter(|said| said.epoch >= epoch);
        }
        let place = &self.nodes[node];
        let view = place.machine.as_ref().and_then(|machine| machine.epoch());
        let covers = |write: &u64| self.writes.get(write).is_some_and(|of| place.kept.covers(of));
        let is_kept = |write: &u64| match (self.mistake, self.is_alone(node)) {
            (Some(Mistake::EarlyDone), _) => true,
            (_, true) => covers(write),
            _ => place.settled.0 == view && place.settled.1.contains(write),
        };
        let is_done = |naming: &Naming| {
            place.kept.given.get(&naming.home.bucket).is_some_and(|writes| writes.iter().any(is_kept))
        };
        NamingDocument::carried(said, epoch, is_done).ok()
    }

    fn context_of_said(&self, node: usize) -> BTreeSet<u64> {
        let heads = &self.nodes[node].kept.said;
        let seen = heads.iter().filter_map(|head| match &self.writes.get(head)?.what {
            What::Said { context, .. } => Some(context.clone()),
            _ => None,
        });
        seen.flatten().chain(heads.iter().copied()).collect()
    }

    /// Who decides alone says and names in one commit; first what was begun.
    fn name_alone(&mut self, node: usize, wish: Wish, epoch: u64) {
        let said = self.said(node);
        let is_current = said.map_or(epoch == FIRST_EPOCH, |said| said.epoch == epoch);
        let mut commit = Vec::new();
        if !is_current {
            let Some(said) = self.carried(node, epoch) else { return };
            let begun = said.namings.iter().filter(|naming| !self.is_given(node, naming));
            commit.extend(begun.map(|naming| What::Given { naming: naming.clone().into() }));
            let is_again = !commit.is_empty();
            commit.push(What::Said { said, context: self.context_of_said(node) });
            if is_again {
                self.commit(node, commit);
                return self.count("namings carried out for a former register");
            }
        }
        if !self.is_taken(node, wish) {
            commit.push(What::Given { naming: wish.naming().into() });
            self.commit(node, commit);
            self.count("names given by who decides alone");
        }
    }

    /// One of several nodes says it first.
    fn name_together(&mut self, node: usize, wish: Wish, epoch: u64) {
        let Some(mut said) = self.carried(node, epoch) else { return };
        let bound = self.nodes[node].machine.as_ref().and_then(|machine| machine.epoch());
        if said.namings.iter().all(|naming| self.is_given(node, naming)) {
            if self.is_taken(node, wish) {
                return self.count("names that were taken");
            }
            said.namings.push(wish.naming());
        } else {
            self.count("namings carried out for a former register");
        }
        self.lie_in_wait(node);
        let context = self.context_of_said(node);
        self.take_in(node, (REGISTER, What::Said { said, context }), Why::Naming(epoch), bound);
    }

    /// Several records at once.
    fn commit(&mut self, node: usize, records: Vec<What>) -> Vec<u64> {
        let origin = self.nodes[node].id;
        let epoch = self.nodes[node].machine.as_ref().and_then(|machine| machine.epoch()).unwrap_or_default();
        let mut numbers = Vec::new();
        for what in records {
            let number = self.writes.len() as u64 + 1;
            self.writes.insert(number, Write { what, bucket: REGISTER, origin, seq: 0 });
            self.nodes[node].storing.insert(number, Storing { epoch, asker: None });
            numbers.push(number);
        }
        self.put(node, Operation::Records(numbers.clone(), None));
        numbers
    }

    /// What was said is at all holders: it is carried out, if this node keeps the register still.
    pub(super) fn carry_out_namings(&mut self, node: usize, (job, epoch): (&Job, u64)) {
        let is_current = self.said(node).is_some_and(|said| said.epoch == epoch);
        if !(is_current && self.is_still_home(node, job)) && self.mistake != Some(Mistake::LateNaming) {
            return self.count("namings held back: an heir is proposed");
        }
        let Some(What::Said { said, .. }) = self.writes.get(&job.write).map(|of| of.what.clone()) else {
            return;
        };
        self.lie_in_wait(node);
        let (given, fresh): (Vec<_>, Vec<_>) =
            said.namings.into_iter().partition(|naming| self.is_given(node, naming));
        let held: Vec<u64> = given
            .iter()
            .filter_map(|naming| self.nodes[node].kept.given.get(&naming.home.bucket)?.first().copied())
            .collect();
        self.count("names given");
        for write in held {
            let number = self.begin_job(node, write, Why::Given, job.bound);
            self.give(node, Input::Write { write: number, bound: job.bound });
        }
        // Whatever the machine said to that may have ended this process.
        if self.is_running(node) && !fresh.is_empty() {
            let fresh = fresh.into_iter().map(|naming| What::Given { naming: naming.into() }).collect();
            for write in self.commit(node, fresh) {
                self.begin_job(node, write, Why::Given, job.bound);
            }
        }
    }

    /// What was named is at all holders of the view.
    pub(super) fn keep_settled(&mut self, node: usize, job: &Job) {
        let place = &mut self.nodes[node];
        if place.settled.0 != job.bound {
            place.settled = (job.bound, BTreeSet::new());
        }
        place.settled.1.insert(job.write);
    }

    /// A name is given: its document is on the disk of who gives it.
    pub(super) fn judge_name(&mut self, bucket: BucketId) {
        let name = name_of(bucket);
        let known = *self.names.given.entry(name).or_insert(bucket);
        if known != bucket {
            self.violated("names", format!("name {name} was given to {known} and to {bucket}"));
        }
        self.judge_names_wait();
        self.names.given_at = self.queue.now();
    }

    /// For so long nothing could be named.
    pub(super) fn forgive_names(&mut self) {
        self.names.given_at = self.names.given_at.max(self.queue.now());
    }

    /// In calm weather: how long nobody was given a name.
    pub(super) fn judge_names_wait(&mut self) {
        let is_judged = self.names.is_on && self.weather == Weather::Calm && self.rests_since.is_none();
        let since = self.names.given_at.max(Instant(0).after(millis(7500)));
        let waited = self.queue.now().since(since);
        if is_judged && waited > UNDECIDED {
            self.violated("stall", format!("no name was given for {waited:?}"));
        }
    }

    /// In the end names are given, unless what the register must have is lost with a disk.
    pub(super) fn judge_names_end(&mut self) {
        let Some(since) = self.rests_since.filter(|_| self.names.is_on) else { return };
        if self.names.given_at > since.after(PROBED_FROM) {
            return self.count("registers that name in the end");
        }
        let turns: Vec<_> = (0..self.nodes.len()).map(|node| self.turn(node, REGISTER)).collect();
        let is_there = |of: SiteId| self.nodes.iter().any(|node| node.id == of);
        let is_lost = self.known(0, REGISTER).is_some_and(|known| !is_there(known.home.site));
        let is_ahead = self.nodes[0].kept.has_decisions_ahead(REGISTER);
        if turns.contains(&Some(Turn::Behind)) || is_lost || is_ahead {
            return self.count("registers that wait for what has burned");
        }
        self.violated("recovery", format!("the register: {turns:?}"));
    }
}
