//! Clients: they write through any node, ask for conditional decisions wherever they are, and read.

use skerry_base::Instant;
use skerry_federation::site_view::Input;
use skerry_scenario::clock::millis;

use super::chain::{Answer, Asked};
use super::{
    DECIDED, Event, Job, Mistake, Operation, PROBED_FROM, PROBED_UNTIL, STALL, Storing, Weather, What, Why,
    World, Write,
};

/// How often a question for a home is passed on.
const HOPS: u8 = 3;

impl World {
    pub(super) fn client(&mut self, node: usize) {
        if let Some(since) = self.rests_since {
            return self.probe(node, since);
        }
        self.plan(millis(20)..=millis(250), Event::Client { node });
        if !self.is_running(node) {
            return;
        }
        if self.mistake == Some(Mistake::Patience) {
            self.ask_anew(node);
        }
        // A decision that waits would find the late node in its stead.
        let bucket = self.draw.below(DECIDED as u64) as usize;
        if self.mistake == Some(Mistake::Patience) || self.draw.below(2) == 0 {
            // Some writes are of scope `node`: the others hear of them by and by.
            let is_own = self.mistake != Some(Mistake::Patience) && self.draw.below(4) == 0;
            let why = if is_own { Why::Quiet } else { Why::Plain };
            if self.nodes[node].excused != Some(bucket) && self.fits(node) {
                self.take_in(node, (bucket, What::Plain), why, None);
            }
            return;
        }
        self.ask(node, bucket);
    }

    /// Once all is whole: decisions only, and only for a while.
    fn probe(&mut self, node: usize, since: Instant) {
        let rested = self.queue.now().since(since);
        if rested > PROBED_UNTIL {
            return;
        }
        self.plan(millis(500)..=millis(1500), Event::Client { node });
        if rested > PROBED_FROM {
            let bucket = self.draw.below(DECIDED as u64) as usize;
            self.ask(node, bucket);
        }
    }

    /// A conditional operation, mostly on what is current here.
    fn ask(&mut self, node: usize, bucket: usize) {
        let current = self.nodes[node].kept.current(bucket);
        let is_stale = self.rests_since.is_none() && self.draw.below(5) == 0;
        let expected = if is_stale { self.before(current) } else { current };
        let begun = self.queue.now();
        self.asked.push(Asked { bucket, expected, by: node, begun, answer: Answer::None });
        self.decide(node, self.asked.len() - 1, HOPS);
    }

    fn before(&self, value: Option<u64>) -> Option<u64> {
        match value.and_then(|value| self.writes.get(&value)).map(|of| &of.what) {
            Some(What::Decision { expected, .. }) => *expected,
            _ => None,
        }
    }

    /// A shell that begins its writes anew before anybody can be late.
    fn ask_anew(&mut self, node: usize) {
        let is_begun =
            |job: &Job| matches!(job.why, Why::Plain) && self.nodes[node].kept.held.contains(&job.write);
        let jobs = self.nodes[node].jobs.iter().filter(|(_, job)| is_begun(job));
        for write in jobs.map(|(number, _)| *number).collect::<Vec<_>>() {
            self.give(node, Input::GiveUp(write));
            self.give(node, Input::Write { write, bound: None });
        }
    }

    /// A write is let in at a node: to its disk, and then to the others.
    pub(super) fn take_in(
        &mut self,
        node: usize,
        (bucket, what): (usize, What),
        why: Why,
        bound: Option<u64>,
    ) -> u64 {
        let number = self.writes.len() as u64 + 1;
        let origin = self.nodes[node].id;
        self.writes.insert(number, Write { what, bucket, origin, seq: 0 });
        let epoch = self.nodes[node].machine.as_ref().and_then(|machine| machine.epoch()).unwrap_or_default();
        self.nodes[node].storing.insert(number, Storing { epoch, asker: None });
        self.begin_job(node, number, why, bound);
        self.put(node, Operation::Record(number));
        number
    }

    pub(super) fn begin_job(&mut self, node: usize, write: u64, why: Why, bound: Option<u64>) -> u64 {
        self.jobs += 1;
        let (job, begun, boot) = (self.jobs, self.queue.now(), self.nodes[node].boot);
        if !matches!(why, Why::Quiet | Why::Alone(_)) {
            self.plan(STALL..=STALL, Event::Deadline { node, boot, job });
        }
        self.nodes[node].jobs.insert(job, Job { write, why, bound, begun });
        job
    }

    /// This node's own write is on its disk: now the others are asked.
    pub(super) fn begun(&mut self, node: usize, write: u64) {
        let of = |(_, job): &(&u64, &Job)| job.write == write && !matches!(job.why, Why::Refused(_));
        let found = self.nodes[node].jobs.iter().find(of).map(|(number, job)| (*number, job.clone()));
        let Some((number, job)) = found else { return };
        let is_early = matches!(
            (self.mistake, &job.why),
            (Some(Mistake::EarlyScope), _)
                | (Some(Mistake::EarlyDecision), Why::Decided(_))
                | (Some(Mistake::EarlyHeir), Why::Pass(_))
                | (Some(Mistake::EarlyNaming), Why::Naming(_))
                | (_, Why::Alone(_) | Why::Quiet)
        );
        if is_early {
            self.settled(node, number);
        } else {
            self.give(node, Input::Write { write: number, bound: job.bound });
        }
        if matches!(job.why, Why::Quiet | Why::Opened) {
            let bucket = self.writes.get(&write).map(|of| of.bucket);
            bucket.into_iter().for_each(|bucket| self.stir(node, bucket));
        }
    }

    /// A write has reached scope `site`, or as far as it was to come.
    pub(super) fn settled(&mut self, node: usize, number: u64) {
        let Some(job) = self.nodes[node].jobs.remove(&number) else { return };
        let took = self.queue.now().since(job.begun);
        if self.is_judged_for_stalls(node) && matches!(job.why, Why::Plain) {
            self.outcome.longest = self.outcome.longest.max(took);
        }
        let is_alone = matches!(job.why, Why::Alone(_) | Why::Quiet | Why::Opened);
        if !is_alone {
            self.judge_acknowledged(node, &job);
        }
        match job.why.clone() {
            Why::Plain => self.count("writes of scope site"),
            Why::Decided(_) | Why::Refused(_) if !self.is_still_home(node, &job) => {
                self.count("decisions unanswered: an heir is proposed");
            }
            Why::Decided(op) => {
                self.count("decisions");
                self.answer(op, Answer::Won(job.write, self.queue.now()), true);
            }
            Why::Alone(op) => {
                self.count("decisions of homes alone");
                self.alone.insert(job.write);
                self.answer(op, Answer::Won(job.write, self.queue.now()), false);
            }
            Why::Refused(op) => {
                self.count("conditions that did not hold");
                self.answer(op, Answer::Current(Some(job.write), self.queue.now()), true);
            }
            Why::Pass(said) => {
                self.count("heirs settled");
                if !self.is_killed_before_naming(node) {
                    self.name(node, &said);
                }
            }
            Why::Naming(epoch) => self.carry_out_namings(node, (&job, epoch)),
            Why::Given => self.keep_settled(node, &job),
            Why::Quiet | Why::Opened => {}
        }
    }

    /// An heir that is proposed or named since may have decided otherwise before this was everywhere.
    pub(super) fn is_still_home(&self, node: usize, job: &Job) -> bool {
        let Some(of) = self.writes.get(&job.write) else { return false };
        let Some(known) = self.known(node, of.bucket) else { return false };
        let decided_in = match (&job.why, &of.what) {
            (Why::Decided(_), What::Decision { order, .. }) => order.0,
            (Why::Naming(epoch), _) => *epoch,
            _ => known.home.epoch,
        };
        let is_home = known.home.site == self.nodes[node].id && known.home.epoch == decided_in;
        let has_heir = known.tenure().is_some_and(|tenure| tenure.heir.is_some());
        matches!(self.mistake, Some(Mistake::LateAnswer | Mistake::UnboundDecision)) || (is_home && !has_heir)
    }

    /// Nobody will say more of this.
    pub(super) fn abandon(&mut self, node: usize, number: u64, what: &'static str) {
        let Some(job) = self.nodes[node].jobs.remove(&number) else { return };
        self.give(node, Input::GiveUp(number));
        match job.why {
            Why::Pass(_) => self.count("heirs not settled"),
            Why::Opened => self.count("openings not settled"),
            Why::Naming(_) | Why::Given => self.count("namings not settled"),
            _ => self.count(what),
        }
    }

    /// The client has waited for as long as was promised.
    pub(super) fn deadline(&mut self, node: usize, number: u64) {
        let Some(job) = self.nodes[node].jobs.get(&number).cloned() else { return };
        let is_plain = matches!(job.why, Why::Plain);
        if self.mistake == Some(Mistake::UnboundDecision) && matches!(job.why, Why::Decided(_)) {
            return;
        }
        if is_plain && self.is_judged_for_stalls(node) {
            self.judge_stall(node, job.write);
        }
        self.abandon(node, number, if is_plain { "writes of scope node" } else { "decisions unanswered" });
    }

    /// In calm weather, at a node that nothing strikes, once the site has begun.
    pub(super) fn is_judged_for_stalls(&self, node: usize) -> bool {
        self.weather == Weather::Calm
            && ![self.target, self.far()].contains(&node)
            && !self.was_out(node)
            && self.queue.now().since(Instant(0)) > millis(7500)
    }

    pub(super) fn read(&mut self, node: usize) {
        self.plan(millis(10)..=millis(120), Event::Read { node });
        let now = self.local(node);
        let Some(machine) = &self.nodes[node].machine else { return };
        let serves = match self.mistake {
            Some(Mistake::NoLease) => self.is_live(node),
            _ => machine.may_read(now),
        };
        if serves {
            self.count("reads under a lease");
            self.judge_read(node);
        } else {
            self.count("reads without one");
        }
    }

    /// Whether a node is live in a view with a majority, as far as it knows.
    pub(super) fn is_live(&self, node: usize) -> bool {
        let place = &self.nodes[node];
        let view = place.machine.as_ref().and_then(|machine| machine.view());
        view.is_some_and(|view| view.is_quorate(place.all) && view.live.contains(place.seat))
    }
}
