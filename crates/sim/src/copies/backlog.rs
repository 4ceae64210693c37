//! Many buckets at one site that sees to their copies: neither an area far behind a slow link nor clients that never pause
//! keep anything waiting.
//!
//! The production machines ([`Looks`], [`Placement`]) decide what is looked at and whom to ask; here are a worker's turns,
//! bucket after bucket, sites that answer in their own time, and a cut of the near ones while clients write on. `starved`:
//! nobody is asked for what waits of a bucket for longer than [`PATIENCE`] only if all the sites that could take it have
//! something to do or cannot be reached.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use skerry_base::{BucketId, Dot, Instant, NodeId, Origin, SiteId, Vector};
use skerry_federation::placement::looks::{Found, Lacking, Look, Looks};
use skerry_federation::placement::{Candidate, Demand, Input, Output, Placement, Want, limits};
use skerry_scenario::clock::{millis, seconds};
use skerry_scenario::draw::Draw;

use crate::outcome::Outcome;
use crate::queue::Queue;

/// How long a version may wait for a site that is idle.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long a run is.
const LENGTH: Duration = Duration::from_secs(120);

/// A deliberate mistake of who builds on the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mistake {
    /// Nothing is offered of a bucket while enough waits of others.
    OneHunger,
    /// The buckets are one to the machine.
    OneBucket,
    /// What nobody could be asked for is looked at again only when nothing is new.
    OnlyNew,
}

#[derive(Debug)]
enum Event {
    Look,
    Write { bucket: usize },
    Cut,
    Heal,
    Landed { bucket: BucketId, dot: Dot, by: usize },
}

struct Bucket {
    id: BucketId,
    demand: Demand,
    bytes: u64,
    /// Between two writes at most.
    pause: Duration,
    looks: Looks,
    /// How far it was looked at by who does it [wrong](Mistake::OnlyNew).
    tail: Vector,
    /// The versions that lack holders.
    open: BTreeSet<u64>,
    /// Since when each version that nobody was asked for yet waits.
    waiting: VecDeque<(Dot, Instant)>,
    /// When somebody was asked for one of it last.
    asked: Instant,
    seq: u64,
}

impl Bucket {
    fn dot(&self, seq: u64) -> Dot {
        Dot { origin: Origin { node: NodeId(self.id.0), incarnation: 1 }, seq }
    }

    fn upto(&self, seq: u64) -> Vector {
        Vector::from_iter([(self.dot(seq).origin, seq)])
    }

    /// The next look by who does it wrong.
    fn only_new(&self) -> Look {
        let from = if self.tail.includes(&self.upto(self.seq)) { Vector::new() } else { self.tail.clone() };
        Look { from, most: limits::QUEUE, anew: true }
    }

    fn find(&self, look: &Look) -> (Vec<Want>, Found) {
        let from = look.from.get(self.dot(0).origin) + 1;
        let seqs: Vec<u64> = self.open.range(from..).take(look.most).copied().collect();
        let more = seqs.len() == look.most;
        let upto = self.upto(seqs.last().copied().filter(|_| more).unwrap_or(self.seq));
        let lacking: Lacking = seqs.first().map(|seq| (self.dot(*seq).origin, *seq)).into_iter().collect();
        let want = |seq: &u64| Want { dot: self.dot(*seq), bytes: self.bytes, here: true, places: 0 };
        (seqs.iter().map(want).collect(), Found { lacking, count: seqs.len(), upto, more })
    }
}

struct World {
    queue: Queue<Event>,
    draw: Draw,
    /// Of the cut, and of how often clients write.
    draw_cut: Draw,
    machine: Placement,
    sites: Vec<SiteId>,
    /// How long each takes for an answer.
    slow: Vec<bool>,
    /// What each is asked for now, and since when it is idle.
    busy: Vec<(usize, Instant)>,
    buckets: Vec<Bucket>,
    turns: usize,
    /// The near ones cannot be reached; when they could not last.
    cut: bool,
    healed: Instant,
    mistake: Option<Mistake>,
    outcome: Outcome,
}

/// Runs one seed.
pub fn run(seed: u64, mistake: Option<Mistake>) -> Outcome {
    let mut draw = Draw::from_seed(seed).fork("backlog");
    let draw_cut = Draw::from_seed(seed).fork("cut");
    let count = draw.between(4..=7) as usize;
    let sites: Vec<SiteId> = (0..count).map(|_| SiteId(draw.identity())).collect();
    // The first is this one, the next two are the area.
    let slow = (0..count).map(|site| site == 1 || site == 2).collect();
    let machine = Placement::new(sites[0]);
    let mut world = World {
        queue: Queue::default(),
        draw,
        draw_cut,
        machine,
        busy: vec![(0, Instant(0)); count],
        sites,
        slow,
        buckets: Vec::new(),
        turns: 0,
        cut: false,
        healed: Instant(0),
        mistake,
        outcome: Outcome::default(),
    };
    world.begin();
    let end = Instant(0).after(LENGTH);
    while world.outcome.violations.is_empty() {
        let Some(event) = world.queue.take(end) else { break };
        world.happen(event);
    }
    world.outcome
}

impl World {
    fn begin(&mut self) {
        self.see_sites();
        let cut = self.draw_cut.span(seconds(20)..=seconds(40));
        self.queue.plan(self.queue.now().after(cut), Event::Cut);
        let area: BTreeSet<SiteId> = self.sites[1..3].iter().copied().collect();
        let far = |copies| Demand::anywhere(2).and_in(copies, area.clone());
        let near: BTreeSet<SiteId> = self.sites[3..].iter().copied().collect();
        for _ in 0..self.draw.between(1..=2) {
            let (copies, bytes) = (self.draw.between(1..=2) as usize, self.size());
            let backlog = self.draw.between(500..=6000);
            self.bucket(far(copies), bytes, backlog);
        }
        for _ in 0..self.draw.between(1..=2) {
            self.bucket(Demand::anywhere(2).and_in(1, near.clone()), 5000, 0);
            let bucket = self.buckets.len() - 1;
            self.queue.plan(self.queue.now().after(seconds(5)), Event::Write { bucket });
        }
        self.queue.plan(self.queue.now(), Event::Look);
    }

    fn size(&mut self) -> u64 {
        self.draw.pick(&[100, 5000, 300_000, 5 << 20]).copied().unwrap_or(5000)
    }

    fn bucket(&mut self, demand: Demand, bytes: u64, backlog: u64) {
        let id = BucketId(self.draw.identity());
        let pause = self.draw_cut.pick(&[millis(800), seconds(3)]).copied().unwrap_or(seconds(3));
        let looks = Looks::new(Vector::new(), self.queue.now());
        self.buckets.push(Bucket {
            id,
            demand,
            bytes,
            pause,
            looks,
            tail: Vector::new(),
            open: BTreeSet::new(),
            waiting: VecDeque::new(),
            asked: Instant(0),
            seq: 0,
        });
        let bucket = self.buckets.len() - 1;
        (0..backlog).for_each(|_| self.write(bucket));
    }

    fn write(&mut self, bucket: usize) {
        let now = self.queue.now();
        let found = &mut self.buckets[bucket];
        found.seq += 1;
        found.open.insert(found.seq);
        found.waiting.push_back((found.dot(found.seq), now));
        *self.outcome.counts.entry("writes").or_default() += 1;
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Look => self.look(),
            Event::Write { bucket } => {
                self.write(bucket);
                let after = self.draw.span(millis(50)..=self.buckets[bucket].pause);
                self.queue.plan(self.queue.now().after(after), Event::Write { bucket });
            }
            Event::Cut => {
                self.cut = true;
                self.see_sites();
                let after = self.draw_cut.span(seconds(5)..=seconds(20));
                self.queue.plan(self.queue.now().after(after), Event::Heal);
            }
            Event::Heal => {
                let now = self.queue.now();
                (self.cut, self.healed) = (false, now);
                self.see_sites();
                self.buckets.iter_mut().for_each(|found| found.looks.hurry(now));
                *self.outcome.counts.entry("healed").or_default() += 1;
            }
            Event::Landed { bucket, dot, by } => {
                let busy = &mut self.busy[by];
                *busy = (busy.0 - 1, self.queue.now());
                self.input(Input::Held(bucket, dot, self.sites[by]));
                let Some(found) = self.buckets.iter_mut().find(|found| found.id.0 == dot.origin.node.0)
                else {
                    return;
                };
                if self.machine.lack(bucket, dot, true, &found.demand).is_none() {
                    found.open.remove(&dot.seq);
                }
            }
        }
    }

    /// The machine hears who can be asked: what was on its way when a link broke is there.
    fn see_sites(&mut self) {
        let candidate = |(by, site): (usize, &SiteId)| Candidate {
            site: *site,
            linked: by < 3 || !self.cut,
            distance: Duration::ZERO,
        };
        let all = self.sites.iter().enumerate().map(candidate).collect();
        self.input(Input::Sites(all, BTreeSet::new()));
    }

    /// As the machine knows a bucket.
    fn id(&self, bucket: usize) -> BucketId {
        match self.mistake {
            Some(Mistake::OneBucket) => self.buckets[0].id,
            _ => self.buckets[bucket].id,
        }
    }

    /// A turn of the worker.
    fn look(&mut self) {
        self.queue.plan(self.queue.now().after(seconds(1)), Event::Look);
        self.judge();
        let count = self.buckets.len();
        let first = self.turns % count;
        self.turns += 1;
        for bucket in (0..count).map(|number| (first + number) % count) {
            let hungry = match self.mistake {
                Some(Mistake::OneHunger) => (0..count).all(|other| self.machine.is_hungry(self.id(other))),
                _ => self.machine.is_hungry(self.id(bucket)),
            };
            if hungry {
                self.offer(bucket);
            }
        }
    }

    fn offer(&mut self, bucket: usize) {
        let (id, now) = (self.id(bucket), self.queue.now());
        let found = &mut self.buckets[bucket];
        let (own, wrong) = (found.upto(found.seq), self.mistake == Some(Mistake::OnlyNew));
        let look = if wrong { Some(found.only_new()) } else { found.looks.next(&own, now) };
        let Some(look) = look else { return };
        let (wants, seen) = found.find(&look);
        if wrong {
            found.tail.merge(&seen.upto);
        } else {
            found.looks.take(&seen, now, now);
        }
        let demand = found.demand.clone();
        self.input(match look.anew {
            true => Input::Offer { bucket: id, demand, wants },
            false => Input::More { bucket: id, demand, wants },
        });
    }

    fn input(&mut self, input: Input) {
        let (mut out, now) = (Vec::new(), self.queue.now());
        self.machine.handle(input, now, &mut out);
        for output in out {
            let Output::Ask(bucket, dot, to) = output else { continue };
            let Some(by) = self.sites.iter().position(|site| *site == to) else { continue };
            self.busy[by].0 += 1;
            if let Some(found) = self.buckets.iter_mut().find(|found| found.id.0 == dot.origin.node.0) {
                found.waiting.retain(|(other, _)| *other != dot);
                found.asked = now;
            }
            *self.outcome.counts.entry("asked").or_default() += 1;
            let span = if self.slow[by] { seconds(2)..=seconds(12) } else { millis(5)..=millis(400) };
            let after = self.draw.span(span);
            self.queue.plan(now.after(after), Event::Landed { bucket, dot, by });
        }
    }

    /// Whether something waits though somebody had nothing to do all the time.
    fn judge(&mut self) {
        let now = self.queue.now();
        let mut wrong = Vec::new();
        for found in &self.buckets {
            let Some((dot, since)) = found.waiting.front().copied() else { continue };
            // Of those that are near and take all at once nothing waits, whatever came later.
            let is_near = found.demand.areas().iter().all(|area| !area.sites.contains(&self.sites[1]));
            if is_near && !self.cut && now.since(since.max(self.healed)) > PATIENCE {
                wrong.push(("starved", format!("{dot} waits since {since:?}, and others are asked for")));
            }
            // What bounds the room for it is that more of it is on its way.
            let since = since.max(found.asked);
            let asked = |site: &SiteId| found.demand.areas().iter().any(|area| area.sites.contains(site));
            let idle = |(by, site): (usize, &SiteId)| {
                let (asks, last) = self.busy[by];
                let reached = by < 3 || !self.cut;
                let since = if by < 3 { since } else { since.max(self.healed) };
                asks == 0 && reached && asked(site) && now.since(last.max(since)) > PATIENCE
            };
            if self.sites.iter().enumerate().skip(1).any(idle) {
                wrong.push((
                    "starved",
                    format!("{dot} waits since {since:?}, and a site that could take it is idle"),
                ));
            }
        }
        if self.busy[1].0 + self.busy[2].0 > limits::ASKS_OF_ONE_SITE {
            *self.outcome.counts.entry("busy areas").or_default() += 1;
        }
        self.outcome.violations.extend(wrong);
    }
}
