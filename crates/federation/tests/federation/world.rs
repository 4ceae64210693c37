//! Time, net and stores of a few sites, drawn from one seed.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::time::Duration;

use bytes::Bytes;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use skerry_base::{BucketId, Dot, Instant, NodeId, Origin, SiteId};
use skerry_federation::{
    Answer, Config, Federation, Input, Message, Output, Report, SiteEntry, Ticket, limits,
};

use crate::memory::{Memory, Record};
use crate::transcript;

pub(crate) const SYSTEM: BucketId = BucketId([0xff; 16]);

pub(crate) fn bucket(n: u8) -> BucketId {
    BucketId([n; 16])
}

/// How bad the net is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Weather {
    pub(crate) loss: f64,
    pub(crate) repeat: f64,
    /// Drawn on top of each delay: overtaking.
    pub(crate) jitter: Duration,
}

impl Weather {
    pub(crate) const CALM: Self = Self { loss: 0.0, repeat: 0.0, jitter: Duration::ZERO };
    pub(crate) const STORM: Self = Self { loss: 0.1, repeat: 0.1, jitter: Duration::from_millis(80) };
}

pub(crate) struct Site {
    pub(crate) machine: Federation,
    pub(crate) store: Memory,
    pub(crate) life: u64,
    pub(crate) joined: BTreeSet<BucketId>,
    pub(crate) sent_bytes: u64,
    pub(crate) sent: u64,
    pub(crate) got_bytes: u64,
    pub(crate) got: u64,
    woken: Option<Instant>,
    /// While down nothing reaches it.
    up: bool,
}

#[derive(Debug)]
enum Event {
    Deliver { from: usize, to: usize, bytes: Vec<u8>, connection: u64 },
    Wake { site: usize, life: u64 },
    Commit { site: usize, life: u64, output: Box<Output> },
    Link { site: usize, other: usize, up: bool, life: u64 },
    Gift { from: usize, to: usize, wanted: Bytes, connection: u64 },
}

pub(crate) struct World {
    pub(crate) now: Instant,
    pub(crate) sites: Vec<Site>,
    pub(crate) weather: Weather,
    /// Bytes per second of every link; none for unbounded.
    pub(crate) rate: Option<u64>,
    pub(crate) commit: Duration,
    /// Messages with records that found no room on their link.
    pub(crate) dropped: u64,
    /// Sites that take no records with the news of them.
    pub(crate) plain: BTreeSet<usize>,
    pub(crate) located: BTreeMap<Ticket, (Instant, Answer)>,
    /// What came of what was wanted: to whom and what, when first, and from whom each time.
    pub(crate) gifts: BTreeMap<(usize, Bytes), (Instant, Vec<usize>)>,
    /// Whether landmarks are asked in waves, by machines that are begun from now on.
    pub(crate) waves: bool,
    pub(crate) reports: Vec<(usize, Report)>,
    pub(crate) history: BTreeMap<(BucketId, Dot), Record>,
    pub(crate) alive: BTreeSet<(usize, SiteId)>,
    /// Sites that pay for what crosses, and after how much silence they ask.
    pub(crate) metered: BTreeMap<usize, Duration>,
    /// Sites that pay by the records.
    pub(crate) paying: BTreeSet<usize>,
    /// Sites where those records have not arrived.
    pub(crate) unaware: BTreeSet<usize>,
    /// Bytes of the longest message.
    pub(crate) longest: usize,
    /// The nodes of one site.
    pub(crate) fellows: BTreeSet<usize>,
    /// Sites of a release that does not read them.
    pub(crate) before: BTreeSet<usize>,
    /// Sites of a release that does not know what is wanted with a question.
    pub(crate) mute_of_wants: BTreeSet<usize>,
    /// How long links rest, as each end was told.
    pub(crate) rests: BTreeMap<(usize, usize), Option<Duration>>,
    /// Levels of landmarks whatever the number of sites.
    levels: Option<u8>,
    /// Sites of a release that knows no areas.
    old: BTreeSet<usize>,
    rtts: BTreeMap<(usize, usize), Duration>,
    /// Connections that are down, both ways.
    cuts: BTreeSet<(usize, usize)>,
    /// Directions that lose everything though the connection seems up.
    mute: BTreeSet<(usize, usize)>,
    busy_until: BTreeMap<(usize, usize), Instant>,
    connections: BTreeMap<(usize, usize), u64>,
    events: BinaryHeap<Reverse<(Instant, u64)>>,
    bodies: BTreeMap<u64, Event>,
    order: u64,
    rng: StdRng,
    pub(crate) trace: blake3::Hasher,
    /// What was sent since it was last cleared, but for SWIM and places: for transcripts.
    pub(crate) said: Vec<String>,
}

pub(crate) fn site_id(n: usize) -> SiteId {
    let mut id = [0; 16];
    id[14..].copy_from_slice(&(n as u16 + 1).to_be_bytes());
    SiteId(id)
}

fn number(site: SiteId) -> usize {
    usize::from(u16::from_be_bytes([site.0[14], site.0[15]])) - 1
}

fn pair(a: usize, b: usize) -> (usize, usize) {
    (a.min(b), a.max(b))
}

impl World {
    /// `count` sites that know each other and are linked, `rtt` apart (or as set before they are linked).
    pub(crate) fn new(count: usize, seed: u64, rtt: Duration) -> Self {
        Self::mixed(count, seed, rtt, (None, &[]))
    }

    /// The same with so many levels of landmarks, and some sites that know nothing of them.
    pub(crate) fn mixed(
        count: usize,
        seed: u64,
        rtt: Duration,
        (levels, old): (Option<u8>, &[usize]),
    ) -> Self {
        let mut world = Self {
            levels,
            old: old.iter().copied().collect(),
            now: Instant(1),
            sites: Vec::new(),
            weather: Weather::CALM,
            rate: None,
            commit: Duration::from_millis(4),
            dropped: 0,
            plain: BTreeSet::new(),
            located: BTreeMap::new(),
            gifts: BTreeMap::new(),
            waves: true,
            reports: Vec::new(),
            history: BTreeMap::new(),
            alive: BTreeSet::new(),
            metered: BTreeMap::new(),
            paying: BTreeSet::new(),
            unaware: BTreeSet::new(),
            longest: 0,
            fellows: BTreeSet::new(),
            before: BTreeSet::new(),
            mute_of_wants: BTreeSet::new(),
            rests: BTreeMap::new(),
            rtts: BTreeMap::new(),
            cuts: BTreeSet::new(),
            mute: BTreeSet::new(),
            busy_until: BTreeMap::new(),
            connections: BTreeMap::new(),
            events: BinaryHeap::new(),
            bodies: BTreeMap::new(),
            order: 0,
            rng: StdRng::seed_from_u64(seed),
            trace: blake3::Hasher::new(),
            said: Vec::new(),
        };
        for n in 0..count {
            let machine = world.machine(n, 1);
            let (store, joined) = (Memory::default(), BTreeSet::new());
            let site = Site {
                machine,
                store,
                life: 1,
                joined,
                sent_bytes: 0,
                sent: 0,
                got_bytes: 0,
                got: 0,
                woken: None,
                up: true,
            };
            world.sites.push(site);
        }
        for a in 0..count {
            for b in a + 1..count {
                world.rtts.insert((a, b), rtt);
            }
        }
        world
    }

    pub(crate) fn set_rtt(&mut self, a: usize, b: usize, rtt: Duration) {
        self.rtts.insert(pair(a, b), rtt);
    }

    pub(crate) fn rtt(&self, a: usize, b: usize) -> Duration {
        self.rtts[&pair(a, b)]
    }

    fn machine(&mut self, n: usize, life: u64) -> Federation {
        let mut config = Config::new(site_id(n), life, self.rng.random()).with_system(SYSTEM);
        config.levels = self.levels;
        config.waves = self.waves;
        config.dialect = self.dialect(n);
        Federation::new(config.with_fresh(!self.plain.contains(&n)))
    }

    fn dialect(&self, n: usize) -> u8 {
        match (self.old.contains(&n), self.before.contains(&n)) {
            (true, _) => 1,
            (false, true) => limits::METERED,
            (false, false) if self.mute_of_wants.contains(&n) => limits::LIGHT,
            (false, false) => limits::DIALECT,
        }
    }

    /// Tells everybody the roster and connects who is not cut off.
    pub(crate) fn start(&mut self) {
        (0..self.sites.len()).for_each(|n| self.roster(n));
        for a in 0..self.sites.len() {
            for b in a + 1..self.sites.len() {
                self.link(a, b, true);
            }
        }
    }

    fn roster(&mut self, n: usize) {
        if let Some(every) = self.metered.get(&n).copied() {
            self.input(n, Input::Metered { every: Some(every), free: BTreeSet::new() });
        }
        if self.fellows.contains(&n) {
            let others = self.fellows.iter().filter(|other| **other != n);
            self.input(n, Input::Fellows(others.map(|other| site_id(*other)).collect()));
        }
        let knows = !self.unaware.contains(&n) && !self.before.contains(&n);
        let pays = |other: usize| knows && self.paying.contains(&other);
        let entry = |other: usize| SiteEntry { site: site_id(other), pays: pays(other) };
        let entries = (0..self.sites.len()).map(entry).collect();
        self.input(n, Input::Roster(entries));
    }

    /// A site reads in the records who pays.
    pub(crate) fn reads(&mut self, n: usize) {
        self.unaware.remove(&n);
        self.roster(n);
    }

    fn is_connected(&self, a: usize, b: usize) -> bool {
        !self.cuts.contains(&pair(a, b)) && self.sites[a].up && self.sites[b].up
    }

    /// Both ends learn of their link a moment later.
    fn link(&mut self, a: usize, b: usize, up: bool) {
        *self.connections.entry(pair(a, b)).or_default() += 1;
        if up && !self.is_connected(a, b) {
            return;
        }
        for (site, other) in [(a, b), (b, a)] {
            let wait = self.rtt(a, b) / 2;
            let life = self.sites[site].life;
            self.schedule(wait, Event::Link { site, other, up, life });
        }
    }

    pub(crate) fn cut(&mut self, a: usize, b: usize) {
        if self.cuts.insert(pair(a, b)) {
            self.link(a, b, false);
        }
    }

    pub(crate) fn heal(&mut self, a: usize, b: usize) {
        self.mute.remove(&(a, b));
        self.mute.remove(&(b, a));
        if self.cuts.remove(&pair(a, b)) {
            self.link(a, b, true);
        }
    }

    pub(crate) fn silence(&mut self, from: usize, to: usize) {
        self.mute.insert((from, to));
    }

    pub(crate) fn isolate(&mut self, n: usize) {
        (0..self.sites.len()).filter(|other| *other != n).for_each(|other| self.cut(n, other));
    }

    pub(crate) fn heal_all(&mut self) {
        for a in 0..self.sites.len() {
            for b in a + 1..self.sites.len() {
                self.heal(a, b);
            }
        }
    }

    /// Ends a process: what was not committed is gone.
    pub(crate) fn stop(&mut self, n: usize) {
        self.sites[n].up = false;
        self.sites[n].life += 1;
        for other in (0..self.sites.len()).filter(|other| *other != n) {
            self.link(n, other, false);
        }
    }

    /// The disk burns, another takes its place: nothing is remembered, not even how many lives there were. Not for
    /// sites that write: incarnations are lives here.
    pub(crate) fn begin_anew(&mut self, n: usize) {
        (self.sites[n].store, self.sites[n].joined) = (Memory::default(), BTreeSet::new());
        self.begin(n, 1);
    }

    /// Starts a process in a new life of its site.
    pub(crate) fn restart(&mut self, n: usize) {
        let life = self.sites[n].life + 1;
        self.begin(n, life);
    }

    fn begin(&mut self, n: usize, life: u64) {
        self.stop(n);
        self.sites[n].life = life;
        self.sites[n].machine = self.machine(n, life);
        (self.sites[n].up, self.sites[n].woken) = (true, None);
        self.alive.retain(|(at, _)| *at != n);
        for id in self.sites[n].joined.clone() {
            self.input(n, Input::Join { bucket: id });
        }
        self.roster(n);
        for other in (0..self.sites.len()).filter(|other| *other != n) {
            self.link(n, other, true);
        }
    }

    pub(crate) fn join(&mut self, n: usize, id: BucketId) {
        self.sites[n].joined.insert(id);
        self.input(n, Input::Join { bucket: id });
    }

    pub(crate) fn leave(&mut self, n: usize, id: BucketId) {
        self.sites[n].joined.remove(&id);
        self.input(n, Input::Leave { bucket: id });
    }

    /// Leaves and joins again at once, with nothing of what it had: what it writes has another origin from now on.
    pub(crate) fn let_go_and_return(&mut self, n: usize, id: BucketId) {
        self.leave(n, id);
        let store = &mut self.sites[n].store;
        store.buckets.remove(&id);
        store.origin.incarnation += 1 << 32;
        self.join(n, id);
    }

    /// A local write, durable at once.
    pub(crate) fn write(&mut self, n: usize, id: BucketId, key: u32, tombstone: bool, payload: Bytes) -> Dot {
        let node = NodeId(site_id(n).0);
        let origin = Origin { node, incarnation: self.sites[n].life };
        let (dot, record) = self.sites[n].store.write(id, origin, (key, tombstone, payload));
        self.history.insert((id, dot), record);
        self.input(n, Input::Durable { bucket: id });
        dot
    }

    /// The same with a body beside the record.
    pub(crate) fn write_body(&mut self, n: usize, id: BucketId, key: u32, body: Bytes) -> Dot {
        let node = NodeId(site_id(n).0);
        let origin = Origin { node, incarnation: self.sites[n].life };
        let store = &mut self.sites[n].store;
        let (dot, record) = store.write(id, origin, (key, false, Bytes::new()));
        store.bodies.insert(dot, body);
        self.history.insert((id, dot), record);
        self.input(n, Input::Durable { bucket: id });
        dot
    }

    pub(crate) fn put(&mut self, n: usize, id: BucketId, key: u32) {
        self.write(n, id, key, false, Bytes::from_static(b"value"));
    }

    pub(crate) fn delete(&mut self, n: usize, id: BucketId, key: u32) {
        self.write(n, id, key, true, Bytes::new());
    }

    fn schedule(&mut self, wait: Duration, event: Event) {
        self.order += 1;
        self.events.push(Reverse((self.now.after(wait), self.order)));
        self.bodies.insert(self.order, event);
    }

    pub(crate) fn input(&mut self, n: usize, input: Input) {
        let mut out = Vec::new();
        let now = self.now;
        let site = &mut self.sites[n];
        site.machine.handle(input, now, &site.store, &mut out);
        let wake = site.machine.next_wake();
        if let Some(at) = wake
            && site.woken.is_none_or(|woken| woken <= now || at < woken)
        {
            site.woken = Some(at);
            let life = site.life;
            self.schedule(at.since(now), Event::Wake { site: n, life });
        }
        for output in out {
            self.trace.update(format!("{} {n} {output:?}\n", now.0).as_bytes());
            self.carry_out(n, output);
        }
    }

    fn carry_out(&mut self, n: usize, output: Output) {
        match output {
            Output::Send { to, message } => self.send(n, number(to), &message),
            Output::Apply(_) | Output::Fresh(_) | Output::Keep(_) | Output::Drop(_) => {
                let life = self.sites[n].life;
                self.schedule(self.commit, Event::Commit { site: n, life, output: Box::new(output) });
            }
            Output::Located { ticket, answer } => {
                assert!(self.located.insert(ticket, (self.now, answer)).is_none(), "answered twice");
            }
            Output::Report(report) => self.reports.push((n, report)),
            Output::SiteAlive(site) => assert!(self.alive.insert((n, site)), "alive twice"),
            Output::SiteDead(site) => assert!(self.alive.remove(&(n, site)), "dead twice"),
            Output::Rests { site, every, .. } => {
                self.rests.insert((n, number(site)), every);
            }
            Output::MemberOf { .. } => {}
            Output::Give { to, bucket, wanted } => self.give((n, number(to)), bucket, wanted),
            Output::Violation(what) => panic_on(what),
        }
    }

    /// As over a stream of its own: neither lost nor repeated while the connection stands.
    fn give(&mut self, (from, to): (usize, usize), id: BucketId, wanted: Bytes) {
        assert!(self.sites[from].joined.contains(&id), "{from} gives what it does not follow");
        if !self.mute.contains(&(from, to)) && self.is_connected(from, to) {
            let connection = self.connections[&pair(from, to)];
            self.schedule(self.rtt(from, to) / 2, Event::Gift { from, to, wanted, connection });
        }
    }

    fn send(&mut self, from: usize, to: usize, message: &Message) {
        let bytes = message.encode();
        assert!(
            message.dialect() <= self.dialect(to),
            "{from} says to {to} what it does not know: {message:?}"
        );
        assert_eq!(Message::decode(&bytes).as_ref(), Ok(message), "a message that we refuse ourselves");
        self.sites[from].sent_bytes += bytes.len() as u64;
        self.longest = self.longest.max(bytes.len());
        if !matches!(message, Message::Swim(_) | Message::Place(_) | Message::Metered { .. })
            && self.said.len() < 1000
        {
            self.said.push(format!("{from}>{to} {}", transcript::line(message)));
        }
        self.sites[from].sent += 1;
        if self.mute.contains(&(from, to)) || !self.is_connected(from, to) {
            return;
        }
        let mut wait = self.rtt(from, to) / 2;
        if let Some(rate) = self.rate {
            let start = self.busy_until.get(&(from, to)).copied().unwrap_or_default().max(self.now);
            let waiting = start.since(self.now).as_secs_f64() * rate as f64;
            let instead = message.without_records();
            if let Some(instead) = instead
                && waiting + bytes.len() as f64 > limits::LINK_BYTES as f64
            {
                self.dropped += 1;
                return self.send(from, to, &instead);
            }
            let end = start.after(Duration::from_secs_f64(bytes.len() as f64 / rate as f64));
            self.busy_until.insert((from, to), end);
            wait += end.since(self.now);
        }
        let connection = self.connections[&pair(from, to)];
        let copies = 1 + usize::from(self.rng.random_bool(self.weather.repeat));
        for _ in 0..copies {
            let lost = self.rng.random_bool(self.weather.loss);
            let late = self.weather.jitter.mul_f64(self.rng.random::<f64>());
            if !lost {
                self.schedule(wait + late, Event::Deliver { from, to, bytes: bytes.clone(), connection });
            }
        }
    }

    /// Lets the world go on for a while.
    pub(crate) fn run(&mut self, span: Duration) {
        let end = self.now.after(span);
        let mut turns = 0;
        while let Some(Reverse((at, order))) =
            self.events.peek().copied().filter(|Reverse((at, _))| *at <= end)
        {
            self.events.pop();
            turns = if at == self.now { turns + 1 } else { 0 };
            assert!(turns < 100_000, "time stands still");
            self.now = at;
            let event = self.bodies.remove(&order).unwrap();
            self.happen(event);
        }
        self.now = end;
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Deliver { from, to, bytes, connection } => {
                if self.connections[&pair(from, to)] == connection && self.sites[to].up {
                    let message = Message::decode(&bytes).unwrap();
                    self.sites[to].got_bytes += bytes.len() as u64;
                    self.sites[to].got += 1;
                    self.input(to, Input::Received { from: site_id(from), message });
                }
            }
            Event::Gift { from, to, wanted, connection } => {
                if self.connections[&pair(from, to)] == connection && self.sites[to].up {
                    let gift = self.gifts.entry((to, wanted)).or_insert((self.now, Vec::new()));
                    gift.1.push(from);
                }
            }
            Event::Wake { site, life } => {
                if self.sites[site].life == life && self.sites[site].up {
                    self.input(site, Input::Wake);
                }
            }
            Event::Commit { site, life, output } => {
                if self.sites[site].life == life {
                    self.commit(site, *output);
                }
            }
            Event::Link { site, other, up, life } => {
                if self.sites[site].life == life && self.sites[site].up {
                    self.linked(site, other, up);
                }
            }
        }
    }

    fn linked(&mut self, site: usize, other: usize, up: bool) {
        let rtt = self.rtt(site, other);
        if up && self.is_connected(site, other) {
            self.input(site, Input::Rtt { site: site_id(other), rtt });
            self.input(site, Input::LinkUp(site_id(other)));
            let dialect = self.dialect(other);
            self.input(site, Input::Speaks { site: site_id(other), dialect });
        } else if !up {
            self.input(site, Input::LinkDown(site_id(other)));
        }
    }

    fn commit(&mut self, n: usize, output: Output) {
        let store = &mut self.sites[n].store;
        let (ticket, ok) = match &output {
            Output::Apply(apply) => (apply.ticket, store.apply(apply)),
            Output::Fresh(fresh) => (fresh.ticket, store.follow(fresh)),
            Output::Keep(keep) => (keep.ticket, store.keep(keep)),
            Output::Drop(drop) => {
                store.drop(drop);
                (drop.ticket, true)
            }
            _ => return,
        };
        self.input(n, Input::Applied { ticket, ok });
    }

    /// What everybody must see in the end: puts that no record of the whole history kills.
    pub(crate) fn expected(&self, id: BucketId) -> BTreeSet<Dot> {
        let of: Vec<_> = self.history.iter().filter(|((bucket, _), _)| *bucket == id).collect();
        let mut by_key: BTreeMap<u32, Vec<(Dot, &Record)>> = BTreeMap::new();
        for ((_, dot), record) in of {
            by_key.entry(record.key).or_default().push((*dot, record));
        }
        let alive = |dot: &Dot, records: &[(Dot, &Record)], record: &Record| {
            !record.tombstone && !records.iter().any(|(_, other)| other.kills(*dot, record))
        };
        let mut visible = BTreeSet::new();
        for records in by_key.values() {
            visible.extend(
                records.iter().filter(|(dot, record)| alive(dot, records, record)).map(|(dot, _)| *dot),
            );
        }
        visible
    }

    /// Why these sites do not agree with each other and with history, if they do not.
    pub(crate) fn difference(&mut self, id: BucketId, sites: &[usize]) -> Option<String> {
        let expected = self.expected(id);
        for n in sites {
            let visible = self.sites[*n].store.visible(id);
            if visible != expected {
                let lost = expected.difference(&visible).count();
                let back = visible.difference(&expected).count();
                return Some(format!("site {n}: {lost} lost, {back} back from the dead"));
            }
            let held = self.sites[*n].store.held(id);
            if !held.doubt.is_empty() {
                return Some(format!("site {n}: still in doubt"));
            }
        }
        None
    }

    pub(crate) fn assert_converged(&mut self, id: BucketId, sites: &[usize]) {
        let difference = self.difference(id, sites);
        assert_eq!(difference, None);
        let vectors: Vec<_> = sites.iter().map(|n| self.sites[*n].store.held(id).vector.clone()).collect();
        assert!(vectors.windows(2).all(|pair| pair[0] == pair[1]), "vectors differ");
    }

    /// Bytes of batches that wait for a store.
    pub(crate) fn uncommitted(&self) -> usize {
        let of = |event: &Event| match event {
            Event::Commit { output, .. } => match &**output {
                Output::Apply(apply) => apply.items.iter().map(skerry_federation::FeedItem::len).sum(),
                _ => 0,
            },
            _ => 0,
        };
        self.bodies.values().map(of).sum()
    }

    pub(crate) fn sent_bytes(&self) -> u64 {
        self.sites.iter().map(|site| site.sent_bytes).sum()
    }

    pub(crate) fn draw(&mut self, below: usize) -> usize {
        self.rng.random_range(0..below)
    }
}

fn panic_on(what: &str) {
    assert!(what.is_empty(), "violation: {what}");
}

pub(crate) const fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

pub(crate) const fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}
