//! Who judges a site of several nodes.
//!
//! `reads`: what was acknowledged in scope `site` is read by every later read under a lease, through any node.
//! `leases`: nodes that hold a lease hold it in the same epoch, and for as long as they say. `owners`: no two nodes decide
//! a bucket's conditional operations at once. `races`: of the decisions that expect the same state one at most is
//! acknowledged. `undone`: no decision and no read has not seen one that was acknowledged before. `answers`: all that clients
//! were told of a bucket is what one register could have said. `homes`: a home document of one epoch names one node.
//! `holders`: a decision that is answered is at all who hold the writes of the view, and so is what an answer "no" rests on.
//! `names`: a name is given to one (`names.rs`).
//! `minority`: what is acknowledged in scope `site` is on the disks of a majority of those that vote. `views`: an epoch is one view, the same
//! for all. `stall`: with one node lost or slow a write at another reaches scope `site` within 2 s, and no bucket is
//! without decisions for long. `flapping`, `stuck`: for a node that cannot hold the view changes once, and not at all where it
//! cannot go on; reads do. `recovery`: once all is whole, every node is live, serves, holds everything that was
//! acknowledged, all agree on what was decided, and each bucket has a home that decides.

use skerry_base::SiteId;
use skerry_federation::site_view::Standing;
use skerry_model::bucket::Turn;
use skerry_scenario::clock::{millis, seconds};

use super::chain::{self, Answer, Made};
use super::{BUCKETS, DECIDED, Job, PROBED_FROM, UNDECIDED, Weather, What, Why, World};

impl World {
    pub(super) fn violated(&mut self, checker: &'static str, what: String) {
        let at = self.queue.now().0 / 1_000_000;
        self.outcome.violations.push((checker, format!("at {at} ms: {what}")));
    }

    pub(super) fn judge_view(&mut self, node: usize) {
        let Some(view) = self.nodes[node].machine.as_ref().and_then(|machine| machine.view().copied()) else {
            return;
        };
        let known = *self.views.entry(view.epoch).or_insert(view);
        if known != view {
            self.violated("views", format!("node {node} is in {view:?}, another was in {known:?}"));
        }
        self.count("views entered");
        self.note_out(node, &view);
    }

    /// The epochs of the leases that are held now, by node.
    fn leased(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        let of = |(number, node): (usize, &super::Node)| {
            let machine = node.machine.as_ref()?;
            let now = node.clock.read(self.queue.now());
            Some((number, machine.epoch()?)).filter(|_| machine.may_read(now))
        };
        self.nodes.iter().enumerate().filter_map(of)
    }

    pub(super) fn judge_leases(&mut self) {
        for node in self.site() {
            let now = self.local(node);
            let Some(machine) = &self.nodes[node].machine else { continue };
            if machine.may_read(now) != machine.reads_until().is_some_and(|until| now < until) {
                let until = machine.reads_until();
                self.violated("leases", format!("node {node} at {now:?} serves until {until:?}"));
            }
        }
        let mut leased = self.leased();
        let Some((one, epoch)) = leased.next() else { return };
        if let Some((other, another)) = leased.find(|(_, another)| *another != epoch) {
            drop(leased);
            self.violated("leases", format!("node {one} in epoch {epoch}, node {other} in epoch {another}"));
        }
    }

    pub(super) fn judge_read(&mut self, node: usize) {
        let is_read = |write: &&u64| self.writes.get(write).is_some_and(|of| self.reads(node, of.bucket));
        let lacking = self.nodes[node].lacks.iter().find(is_read).copied();
        if let Some(write) = lacking {
            self.violated("reads", format!("node {node} serves and lacks write {write}"));
        }
        for bucket in 0..BUCKETS.len() {
            self.judge_current(node, bucket, "read");
        }
    }

    fn judge_current(&mut self, node: usize, bucket: usize, what: &str) {
        let is_decision = what == "decision";
        // What a home that decides alone has answered nobody else need have.
        let last = if is_decision { self.last_told[bucket] } else { self.last_acked[bucket] };
        let current = self.nodes[node].kept.current(bucket);
        if self.reads(node, bucket) && !self.descends(current, last) {
            let text = format!("a {what} at node {node} finds {current:?}, acknowledged was {last:?}");
            self.violated("undone", text);
        }
    }

    /// Whether a decision has seen another.
    fn descends(&self, mut from: Option<u64>, to: Option<u64>) -> bool {
        while from != to {
            let Some(What::Decision { expected, .. }) =
                from.and_then(|write| self.writes.get(&write)).map(|of| &of.what)
            else {
                return false;
            };
            from = *expected;
        }
        true
    }

    pub(super) fn judge_decision(&mut self, node: usize, bucket: usize) {
        let decides = |other: usize| {
            self.is_running(other) && matches!(self.turn(other, bucket), Some(Turn::Decide(_)))
        };
        let deciders: Vec<usize> =
            (0..self.nodes.len()).filter(|other| *other == node || decides(*other)).collect();
        if deciders.len() > 1 {
            self.violated("owners", format!("nodes {deciders:?} decide for bucket {bucket}"));
        }
        self.judge_current(node, bucket, "decision");
    }

    /// A home is named, for the first time or again.
    pub(super) fn judge_home(&mut self, (bucket, epoch, site): (usize, u64, SiteId)) {
        let known = *self.named.entry((bucket, epoch)).or_insert(site);
        if known != site {
            self.violated("homes", format!("bucket {bucket} has homes {known} and {site} of epoch {epoch}"));
        }
    }

    /// What a node has under way is at all holders.
    pub(super) fn judge_acknowledged(&mut self, node: usize, job: &Job) {
        let write = job.write;
        let Some(bucket) = self.writes.get(&write).map(|of| of.bucket) else { return };
        self.judge_holders(node, job, bucket);
        let on_disk = self.site().filter(|other| self.nodes[*other].kept.held.contains(&write)).count();
        let burned = self.burned_at.is_some_and(|at| self.queue.now().since(at) < seconds(3));
        // Who does not keep a bucket answers for plain writes all the same.
        let is_excused = self.excused == Some(bucket) && matches!(job.why, Why::Plain);
        if on_disk + usize::from(burned) < self.voters_needed(node) && !is_excused {
            self.violated("minority", format!("write {write} of node {node} is on {on_disk} disks"));
        }
        self.acked.insert(write);
        for node in self.site() {
            if !self.nodes[node].kept.held.contains(&write) && self.is_kept(node, write) {
                self.nodes[node].lacks.insert(write);
            }
        }
    }

    fn judge_holders(&mut self, node: usize, job: &Job, bucket: usize) {
        let Some(epoch) = job.bound else { return };
        let Some(view) = self.views.get(&epoch).copied() else { return };
        let burned = self.burned_at.is_some_and(|at| self.queue.now().since(at) < seconds(3));
        let lacks = |seat: &usize| {
            self.nodes[*seat].excused == Some(bucket) && matches!(job.why, Why::Decided(_) | Why::Refused(_))
                || !burned
                    && self.is_kept(*seat, job.write)
                    && !self.nodes[*seat].kept.held.contains(&job.write)
        };
        let lacking: Vec<usize> = view.holders().iter().map(|seat| seat.index()).filter(lacks).collect();
        if !lacking.is_empty() {
            let what = format!("write {} of node {node} is answered, and not at {lacking:?}", job.write);
            self.violated("holders", what);
        }
    }

    /// A client is told something; whether the whole site has it.
    pub(super) fn answer(&mut self, op: usize, answer: Answer, is_whole: bool) {
        let now = self.queue.now();
        let Some(asked) = self.asked.get_mut(op).filter(|asked| asked.answer == Answer::None) else { return };
        asked.answer = answer;
        let (bucket, expected, by) = (asked.bucket, asked.expected, asked.by);
        if self.is_judged_for_stalls(by) {
            self.judge_wait(bucket);
            self.answered[bucket] = now;
        }
        let value = match answer {
            Answer::Won(value, _) => {
                self.won_at[bucket] = now;
                if let Some(other) = self.won.insert((bucket, expected), value) {
                    self.violated("races", format!("{other} and {value} both followed {expected:?}"));
                }
                Some(value)
            }
            Answer::Current(value, _) => value,
            Answer::None => return,
        };
        let last = self.last_told[bucket];
        if self.descends(value, last) {
            self.last_told[bucket] = value;
        } else if !self.descends(last, value) {
            self.violated("undone", format!("{value:?} has not seen {last:?}"));
        }
        if is_whole && self.descends(value, self.last_acked[bucket]) {
            self.last_acked[bucket] = value;
        }
    }

    /// In calm weather: how long a bucket was without decisions.
    pub(super) fn judge_wait(&mut self, bucket: usize) {
        if self.rests_since.is_some() {
            return;
        }
        let now = self.queue.now();
        let since = self.answered[bucket].max(skerry_base::Instant(0).after(millis(7500)));
        let waited = now.since(since);
        self.outcome.undecided = self.outcome.undecided.max(waited);
        if waited > UNDECIDED {
            self.violated("stall", format!("bucket {bucket} was without decisions for {waited:?}"));
        }
    }

    pub(super) fn judge_stall(&mut self, node: usize, write: u64) {
        let place = &self.nodes[node];
        let view = place.machine.as_ref().and_then(|machine| machine.view().copied());
        let text = format!("write {write} at node {node}, target {}, in {view:?}", self.target);
        self.violated("stall", text);
    }

    pub(super) fn judge_end(&mut self) {
        self.judge_answers();
        if !self.outcome.violations.is_empty() {
            return;
        }
        for node in self.site() {
            let now = self.local(node);
            let standing = self.nodes[node].machine.as_ref().map(|machine| machine.standing(now));
            if standing != Some(Standing::Leased) {
                let view = self.nodes[node].machine.as_ref().and_then(|machine| machine.view().copied());
                self.violated("recovery", format!("node {node} is {standing:?} in {view:?}"));
            }
            self.judge_read(node);
            if let Some(bucket) = (0..BUCKETS.len()).find(|bucket| !self.reads(node, *bucket)) {
                self.violated("recovery", format!("node {node} does not read bucket {bucket}"));
            }
        }
        for node in 0..self.nodes.len() {
            if self.nodes[0].kept.held != self.nodes[node].kept.held {
                self.violated("recovery", format!("nodes 0 and {node} differ"));
            }
        }
        (0..DECIDED).for_each(|bucket| self.judge_home_decides(bucket));
        self.judge_names_end();
        let (count, calm) = (self.seated(), self.weather == Weather::Calm);
        self.count(["", "sites of 1", "sites of 2", "sites of 3", "sites of 4"][count]);
        self.count(if calm { "calm" } else { "storms" });
        let clocks = self.clocks;
        self.count(match clocks {
            super::Clocks::Right => "clocks within 1 %",
            super::Clocks::Strained => "clocks within 4.5 %",
            super::Clocks::Beyond => "clocks beyond the bound",
        });
    }

    /// In the end each bucket has a home that decides, unless what it must have is lost with a disk.
    fn judge_home_decides(&mut self, bucket: usize) {
        let Some(since) = self.rests_since else { return };
        if self.won_at[bucket] > since.after(PROBED_FROM) {
            return self.count("buckets that decide in the end");
        }
        let all = 0..self.nodes.len();
        let turns: Vec<_> = all.map(|node| self.turn(node, bucket)).collect();
        let is_behind = turns.contains(&Some(Turn::Behind));
        let is_ahead = self.nodes[0].kept.has_decisions_ahead(bucket);
        let home = self.known(0, bucket).map(|known| (known.home, known.tenures));
        match (is_behind, is_ahead) {
            (true, _) => self.count("buckets whose home waits for what has burned"),
            (_, true) => self.count("buckets whose heir waits for what has burned"),
            _ => self.violated("recovery", format!("bucket {bucket}: {turns:?} of {home:?}")),
        }
    }

    fn judge_answers(&mut self) {
        for bucket in 0..DECIDED {
            let begun = |op: usize| self.asked.get(op).map(|asked| asked.begun).unwrap_or_default();
            let decided = self.writes.iter().filter(|(_, write)| write.bucket == bucket);
            let made: Made = decided
                .filter_map(|(number, write)| match write.what {
                    What::Decision { op, expected, .. } => Some((*number, (expected, begun(op)))),
                    _ => None,
                })
                .collect();
            let asked: Vec<_> = self.asked.iter().filter(|asked| asked.bucket == bucket).copied().collect();
            if let Some(wrong) = chain::judge(&made, &asked) {
                self.violated("answers", format!("bucket {bucket}: {wrong}"));
            }
        }
    }
}
