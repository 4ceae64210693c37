//! Copies that count: which site is asked to hold a version next, until as many hold it as its bucket asks for.
//!
//! A pure machine. The shell reads from its records which versions have too few holders as far as it knows and offers
//! them ([`Input::Offer`]); the machine says whom to ask ([`Output::Ask`]); the shell asks, and tells how that ended.
//! What others are known to hold is a set of dots per bucket and site ([`Spans`]), which the shell keeps on disk
//! ([`Output::Noted`]) and gives back at the next start ([`Input::Known`]); so nothing here must outlive the process.
//! Custody follows from the writer and from who is lost ([`custodian`]) and is stored nowhere.
//!
//! Why not a record per version: docs/decisions/2026-11-22-copies.md has the figures.
//!
//! Invariants: a site counts as a holder only after it said so; nobody is asked for what it is known to hold, twice at
//! once for the same, or while it is lost, not linked or resting; the most endangered first, then what was offered first
//! (the oldest, and what is new by turns with them: [`looks`]), then large bodies whose way broke off (`late`); no more
//! is on its way than [`limits`] allow, and to no site more than it took lately in some seconds; no bucket keeps another one waiting because its own sites are busy (but a body
//! larger than all that may be on its way to its site goes alone there); copies are only ever added here, so that a cut over-replicates;
//! what is one too many its holder lets go of ([`trim`]); a site that holds as much for others as it is to is asked for nothing
//! of the size that it refused, and goes on counting for what it holds (`caps`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use core::time::Duration;
use skerry_base::{BucketId, Dot, Instant, SiteId};

use crate::Together;
use caps::Caps;
use late::Late;
use pace::Pace;
use queue::Queue;

mod caps;
mod custody;
mod demand;
mod late;
pub mod limits;
pub mod looks;
mod pace;
mod queue;
mod spans;
pub mod trim;
mod whereabouts;

pub use custody::{Custody, custodian};
pub use demand::{AreaDemand, Demand, Lack};
pub use spans::Spans;
pub use whereabouts::{Verdict, Whereabouts};

/// A site as placement sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate {
    /// Which.
    pub site: SiteId,
    /// Whether it can be asked now. This site itself always can.
    pub linked: bool,
    /// Round trip to it.
    pub distance: Duration,
}

/// A version that may lack holders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Want {
    /// Which.
    pub dot: Dot,
    /// Bytes of its body.
    pub bytes: u64,
    /// Whether this site holds it itself, as a copy that counts.
    pub here: bool,
    /// No fewer places than these, whatever is asked for its bucket; 0: as that says.
    pub places: usize,
}

/// What a site has to do with a version of which another one wants to let go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stake {
    /// Whether it is this site's to see that enough hold it.
    pub mine: bool,
    /// Whether this site holds it.
    pub here: bool,
    /// How many are to hold it.
    pub copies: usize,
}

/// Why a site did not take a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// It cannot take any now: full, silent, of an older release. It is left alone for a while.
    Site,
    /// It cannot take this one.
    Version,
    /// It holds as much for other sites as it is to. It is left alone for a long while, for bodies of this size or larger.
    Capped,
}

/// What happens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// The sites that may hold copies, this one among them, and those declared lost.
    Sites(Vec<Candidate>, BTreeSet<SiteId>),
    /// What a site is known to hold, replacing what was known: at the start, or because it was asked anew.
    Known(BucketId, SiteId, Spans),
    /// Versions that this site is custodian of and that may lack holders, oldest first; replaces what waited.
    Offer {
        /// Their bucket.
        bucket: BucketId,
        /// At how many places each is to be, and at how many of which areas.
        demand: Demand,
        /// The versions.
        wants: Vec<Want>,
    },
    /// Further ones that come behind those that wait, which stay.
    More {
        /// Their bucket.
        bucket: BucketId,
        /// At how many places each is to be, and at how many of which areas.
        demand: Demand,
        /// The versions.
        wants: Vec<Want>,
    },
    /// A site holds a version, durably: it was asked, here or for a write that waited for it.
    Held(BucketId, Dot, SiteId),
    /// A site that was asked does not.
    Failed(BucketId, Dot, SiteId, Failure),
    /// There is a new link to this site: it may have been started anew, with another cap.
    Met(SiteId),
    /// Time has passed.
    Wake,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// Ask this site to hold a version; `Held` or `Failed` follows.
    Ask(BucketId, Dot, SiteId),
    /// What is known of this site changed: write it down.
    Noted(BucketId, SiteId),
}

#[derive(Debug, Clone)]
struct Waiting {
    want: Want,
    demand: Arc<Demand>,
    /// Sites that cannot take this one.
    unable: BTreeSet<SiteId>,
}

#[derive(Debug, Clone)]
struct Flight {
    waiting: Waiting,
    order: u64,
    /// What each counts among what is on its way.
    asked: BTreeMap<SiteId, u64>,
}

/// The machine.
#[derive(Debug)]
pub struct Placement {
    me: SiteId,
    candidates: Vec<Candidate>,
    lost: BTreeSet<SiteId>,
    together: Together,
    resting: BTreeMap<SiteId, Instant>,
    caps: Caps,
    held: BTreeMap<(BucketId, SiteId), Spans>,
    queue: Queue,
    /// How many were offered: what was offered later comes later.
    offered: u64,
    flights: BTreeMap<(BucketId, Dot), Flight>,
    asks: BTreeMap<SiteId, usize>,
    paces: BTreeMap<SiteId, Pace>,
    late: Late,
    bytes: u64,
}

impl Placement {
    /// Nothing known yet.
    pub fn new(me: SiteId) -> Self {
        Self {
            me,
            candidates: Vec::new(),
            lost: BTreeSet::new(),
            together: Together::default(),
            resting: BTreeMap::new(),
            caps: Caps::default(),
            held: BTreeMap::new(),
            queue: Queue::default(),
            offered: 0,
            flights: BTreeMap::new(),
            asks: BTreeMap::new(),
            paces: BTreeMap::new(),
            late: Late::default(),
            bytes: 0,
        }
    }

    /// With what another one knows of the sites that hold as much for others as they are to.
    #[must_use]
    pub fn with_caps_of(mut self, other: &Self) -> Self {
        self.caps = other.caps.clone();
        self
    }

    /// Takes in what happened and appends what is to be done.
    pub fn handle(&mut self, input: Input, now: Instant, out: &mut Vec<Output>) {
        match input {
            Input::Sites(candidates, lost) => {
                self.candidates = candidates;
                self.candidates.sort_by_key(|other| (other.site != self.me, other.distance, other.site));
                self.lost = lost;
            }
            Input::Known(bucket, site, spans) => self.learn(bucket, site, spans),
            Input::Offer { bucket, demand, wants } => {
                self.queue.forget(bucket);
                self.offer(bucket, &Arc::new(demand), wants);
            }
            Input::More { bucket, demand, wants } => self.offer(bucket, &Arc::new(demand), wants),
            Input::Held(bucket, dot, site) => self.held_by((bucket, dot), site, now, out),
            Input::Failed(bucket, dot, site, failure) => self.failed((bucket, dot), site, failure, now),
            Input::Met(site) => self.caps.met(site),
            Input::Wake => {}
        }
        self.resting.retain(|_, until| *until > now);
        self.ask(now, out);
    }

    /// Who burns together: from now on each place counts once, this site's among them.
    pub fn set_together(&mut self, together: Together) {
        self.together = together;
    }

    /// Who counts no more, from now on.
    pub fn set_lost(&mut self, lost: BTreeSet<SiteId>) {
        self.lost = lost;
    }

    /// When a site that rests may be asked again.
    pub fn next_wake(&self, now: Instant) -> Option<Instant> {
        self.resting.values().copied().chain(self.caps.next_wake(now)).min()
    }

    /// A site refused a body of this size because of its cap, though this machine did not ask it.
    pub fn refused_by_cap(&mut self, site: SiteId, bytes: u64, now: Instant) {
        self.caps.refused(site, bytes, self.pauses(site), now);
    }

    /// How long a site at its cap is left alone at first, and at most. No link to this one ever ends what it said, and asking it
    /// costs nothing that crosses.
    fn pauses(&self, site: SiteId) -> (Duration, Duration) {
        if site == self.me { (limits::REST, limits::REST) } else { (limits::CAPPED, limits::CAPPED_AT_MOST) }
    }

    /// A site took one of this size that it was asked for then, though this machine did not ask it.
    pub fn took(&mut self, site: SiteId, bytes: u64, asked: Instant) {
        self.caps.took(site, bytes, asked);
    }

    /// Whether a site said a while ago that it holds as much for others as it is to, so that this would be too much.
    pub fn is_capped(&self, site: SiteId, bytes: u64, now: Instant) -> bool {
        self.caps.refuses(site, bytes, now)
    }

    /// The sites that said so when they were asked last, unless that is long ago.
    pub fn capped(&self, now: Instant) -> BTreeSet<SiteId> {
        self.caps.sites(now)
    }

    /// Whether nothing waits and nothing is on its way.
    pub fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.flights.is_empty()
    }

    /// Whether more versions of a bucket should be offered: fewer of it wait than can be on their way, whatever waits of
    /// others.
    pub fn is_hungry(&self, bucket: BucketId) -> bool {
        self.queue.of(bucket) < limits::ASKS_AT_ONCE && self.queue.len() < limits::QUEUE_OF_ALL
    }

    /// The versions of a bucket that wait, or that somebody is being asked to hold.
    pub fn pending(&self, bucket: BucketId) -> BTreeSet<Dot> {
        let flying = self.flights.keys().filter(|(of, _)| *of == bucket).map(|(_, dot)| *dot);
        self.queue.waiting(bucket).map(|waiting| waiting.want.dot).chain(flying).collect()
    }

    /// Whether this site is being asked to hold it.
    pub fn is_asking(&self, bucket: BucketId, dot: Dot, site: SiteId) -> bool {
        self.flights.get(&(bucket, dot)).is_some_and(|flight| flight.asked.contains_key(&site))
    }

    /// What [`Input::Known`] says, without asking anybody.
    pub fn learn(&mut self, bucket: BucketId, site: SiteId, spans: Spans) {
        self.held.insert((bucket, site), spans);
    }

    /// A site holds a version though this machine did not ask it to; whether that is news.
    pub fn learn_one(&mut self, bucket: BucketId, dot: Dot, site: SiteId) -> bool {
        let known = self.known(bucket, site).is_some_and(|spans| spans.contains(dot));
        let is_news = site != self.me && !known;
        if is_news {
            self.held.entry((bucket, site)).or_default().insert(dot);
        }
        is_news
    }

    /// The buckets of which anything is known.
    pub fn buckets(&self) -> BTreeSet<BucketId> {
        self.held.keys().map(|(bucket, _)| *bucket).collect()
    }

    /// Nothing is known of a bucket any more, and nobody is asked for its versions.
    pub fn forget(&mut self, bucket: BucketId) {
        self.held.retain(|(of, _), _| *of != bucket);
        self.queue.forget(bucket);
        self.late.forget(bucket);
        // What is on its way there lands, and nobody else is asked for it.
        let flights = self.flights.iter_mut().filter(|((of, _), _)| *of == bucket);
        let nothing = Arc::new(Demand::default());
        flights.for_each(|(_, flight)| flight.waiting.demand = nothing.clone());
    }

    /// Whoever asked is gone, and nobody will tell how that ended: what waited or was on its way is to be offered anew.
    pub fn abandon(&mut self) {
        self.queue = Queue::default();
        self.flights.clear();
        self.asks.clear();
        self.paces.clear();
        self.bytes = 0;
    }

    /// Sites that count no more, as it was last told.
    pub const fn lost(&self) -> &BTreeSet<SiteId> {
        &self.lost
    }

    /// Who burns together, as it was last told.
    pub const fn together(&self) -> &Together {
        &self.together
    }

    /// What a site is known to hold of a bucket.
    pub fn known(&self, bucket: BucketId, site: SiteId) -> Option<&Spans> {
        self.held.get(&(bucket, site))
    }

    /// The other sites that hold a version and are not lost.
    pub fn holders(&self, bucket: BucketId, dot: Dot) -> impl Iterator<Item = SiteId> + '_ {
        let of = self.held.range((bucket, SiteId([0; 16]))..=(bucket, SiteId([0xff; 16])));
        let holds = move |((_, site), spans): (&(BucketId, SiteId), &Spans)| {
            let counts = *site != self.me && !self.lost.contains(site) && spans.contains(dot);
            counts.then_some(*site)
        };
        of.filter_map(holds)
    }

    /// At how many places a version is held; `here`: at this site too.
    pub fn places(&self, bucket: BucketId, dot: Dot, here: bool) -> usize {
        self.together.count(self.holders(bucket, dot).chain(here.then_some(self.me)))
    }

    /// What a version lacks, as far as is known; `here`: this site holds it.
    pub fn lack(&self, bucket: BucketId, dot: Dot, here: bool, demand: &Demand) -> Lack {
        demand.lack(&self.have(bucket, dot, here), &self.together)
    }

    /// Who holds a version, this site among them or not. Its own place counts through itself only: what one node of a site
    /// has lost comes back to it, though another one has it.
    fn have(&self, bucket: BucketId, dot: Dot, here: bool) -> BTreeSet<SiteId> {
        let place = self.together.of(self.me);
        let others = self.holders(bucket, dot).filter(|other| self.together.of(*other) != place);
        others.chain(here.then_some(self.me)).collect()
    }

    /// All other sites that were ever known to hold a version, lost ones among them.
    pub fn believed(&self, bucket: BucketId, dot: Dot) -> BTreeSet<SiteId> {
        let of = self.held.range((bucket, SiteId([0; 16]))..=(bucket, SiteId([0xff; 16])));
        let holds = |((_, site), spans): (&(BucketId, SiteId), &Spans)| spans.contains(dot).then_some(*site);
        of.filter_map(holds).filter(|site| *site != self.me).collect()
    }

    /// A site wants to let go of these: it is counted on no more, but for those that are answered, which stay there: it
    /// is being asked to hold them, or too few others are known to hold what is this site's to care for.
    pub fn spare(
        &mut self,
        bucket: BucketId,
        site: SiteId,
        demand: &Demand,
        versions: impl IntoIterator<Item = (Dot, Stake)>,
    ) -> Spans {
        let mut keeps = Spans::default();
        for (dot, stake) in versions {
            if self.is_asking(bucket, dot, site)
                || (stake.mine && !self.is_met_without(bucket, dot, site, demand, stake))
            {
                keeps.insert(dot);
            } else if let Some(held) = self.held.get_mut(&(bucket, site)) {
                held.remove(dot);
            }
        }
        keeps
    }

    /// Whether enough hold a version, one site apart.
    fn is_met_without(
        &self,
        bucket: BucketId,
        dot: Dot,
        site: SiteId,
        demand: &Demand,
        stake: Stake,
    ) -> bool {
        let mut have = self.have(bucket, dot, stake.here);
        have.remove(&site);
        demand.clone().at_least(stake.copies).is_met(&have, &self.together)
    }

    fn offer(&mut self, bucket: BucketId, demand: &Arc<Demand>, wants: Vec<Want>) {
        let known = self.pending(bucket);
        for want in wants.into_iter().take(limits::QUEUE).filter(|want| !known.contains(&want.dot)) {
            let demand = match want.places > demand.all() {
                true => Arc::new(Demand::clone(demand).at_least(want.places)),
                false => demand.clone(),
            };
            let waiting = Waiting { want, demand, unable: BTreeSet::new() };
            self.offered += 1;
            self.enqueue(bucket, self.offered, waiting);
        }
    }

    fn enqueue(&mut self, bucket: BucketId, order: u64, waiting: Waiting) {
        let have = self.have(bucket, waiting.want.dot, waiting.want.here);
        if !waiting.demand.is_met(&have, &self.together) {
            let holders = self.together.count(have);
            let place = self.late.place((bucket, waiting.want.dot), order);
            self.queue.insert((holders, bucket, place), waiting);
        }
    }

    fn held_by(&mut self, (bucket, dot): (BucketId, Dot), site: SiteId, now: Instant, out: &mut Vec<Output>) {
        if site != self.me {
            self.held.entry((bucket, site)).or_default().insert(dot);
            out.push(Output::Noted(bucket, site));
        }
        let bytes = self.flights.get(&(bucket, dot)).map_or(0, |flight| flight.waiting.want.bytes);
        // While it is left alone it is not asked for as much: this was under way before.
        if !self.caps.refuses(site, bytes, now) {
            self.caps.took(site, bytes, now);
        }
        let here = site == self.me;
        self.late.held((bucket, dot));
        self.landed((bucket, dot), (site, true), now, |waiting| waiting.want.here |= here);
    }

    fn failed(&mut self, of: (BucketId, Dot), site: SiteId, failure: Failure, now: Instant) {
        if failure == Failure::Site && site != self.me {
            self.resting.insert(site, now.after(limits::REST));
            let bytes = self.flights.get(&of).map(|flight| flight.waiting.want.bytes);
            bytes.into_iter().for_each(|bytes| self.late.failed(of, bytes));
        }
        if let (Failure::Capped, Some(flight)) = (failure, self.flights.get(&of)) {
            self.caps.refused(site, flight.waiting.want.bytes, self.pauses(site), now);
        }
        self.landed(of, (site, false), now, |waiting| {
            waiting.unable.insert(site);
        });
    }

    /// A question ended; when it was the last for its version, that waits again if it still lacks holders.
    fn landed(
        &mut self,
        of: (BucketId, Dot),
        (site, is_held): (SiteId, bool),
        now: Instant,
        take: impl FnOnce(&mut Waiting),
    ) {
        let Some(flight) = self.flights.get_mut(&of) else { return };
        let Some(counted) = flight.asked.remove(&site) else { return };
        take(&mut flight.waiting);
        self.bytes = self.bytes.saturating_sub(counted);
        self.paces.entry(site).or_default().landed(weight(&flight.waiting.want), is_held, now);
        if let Some(asks) = self.asks.get_mut(&site) {
            *asks = asks.saturating_sub(1);
        }
        if flight.asked.is_empty()
            && let Some(Flight { waiting, order, .. }) = self.flights.remove(&of)
        {
            self.enqueue(of.0, order, waiting);
        }
    }

    /// Asks as long as there is room: first for buckets that have less than an equal part of it on its way, then for whichever.
    /// One whose sites are busy is passed over. So none keeps another one waiting for longer than until something lands.
    fn ask(&mut self, now: Instant, out: &mut Vec<Output>) {
        let flying: BTreeSet<BucketId> = self.flights.keys().map(|(bucket, _)| *bucket).collect();
        let parts = self.queue.buckets().chain(flying).collect::<BTreeSet<_>>().len();
        if parts < 2 || self.ask_some(Some(parts), now, out) {
            self.ask_some(None, now, out);
        }
    }

    /// `parts`: no bucket gets more than one of so many equal parts of the room. False if the rest of it is to be kept.
    fn ask_some(&mut self, parts: Option<usize>, now: Instant, out: &mut Vec<Output>) -> bool {
        let (mut at, mut passed, mut in_all) = (None, BTreeMap::<BucketId, usize>::new(), 0);
        while self.flights.len() < limits::ASKS_AT_ONCE && in_all < limits::PASSED_OVER_IN_ALL {
            let Some((urgency, waiting)) = self.queue.behind(at) else { break };
            let (holders, bucket, order) = urgency;
            let passed = passed.entry(bucket).or_default();
            if *passed >= limits::PASSED_OVER || parts.is_some_and(|parts| self.has_its_part(bucket, parts)) {
                at = Some((holders, bucket, u64::MAX));
                continue;
            }
            at = Some(urgency);
            let bytes = weight(&waiting.want);
            let asked = self.next_for(bucket, waiting, now).map(|sites| self.with_room(sites, bytes));
            if asked.as_ref().is_some_and(BTreeMap::is_empty) {
                (*passed, in_all) = (*passed + 1, in_all + 1);
                continue;
            }
            let in_it = asked.iter().flatten().map(|(_, counted)| *counted).max().unwrap_or_default();
            if self.bytes > 0 && self.bytes + in_it > limits::BYTES_AT_ONCE {
                // What has nothing on its way yet comes next: else small ones would pass a large one for ever.
                if self.flights_of(bucket).next().is_none() {
                    return false;
                }
                *passed = limits::PASSED_OVER;
                continue;
            }
            let Some(waiting) = self.queue.remove(&urgency) else { break };
            // Nobody can be asked now: the next look at the records finds it again.
            let Some(asked) = asked else { continue };
            let dot = waiting.want.dot;
            for (site, counted) in &asked {
                *self.asks.entry(*site).or_default() += 1;
                self.paces.entry(*site).or_default().asked(bytes, now);
                self.bytes += counted;
                out.push(Output::Ask(bucket, dot, *site));
            }
            self.flights.insert((bucket, dot), Flight { waiting, order, asked });
        }
        true
    }

    /// Whom to ask for a version; nobody while those who could take it are busy, none if nobody can.
    fn next_for(&self, bucket: BucketId, waiting: &Waiting, now: Instant) -> Option<BTreeSet<SiteId>> {
        let able = self.able(bucket, waiting, now);
        let is_free = |site: SiteId| self.asks_of(site) < limits::ASKS_OF_ONE_SITE;
        let have = self.have(bucket, waiting.want.dot, waiting.want.here);
        let asked = waiting.demand.pick(&able, &is_free, &have, &self.together);
        let busy = || !waiting.demand.pick(&able, &|_| true, &have, &self.together).is_empty();
        (!asked.is_empty() || busy()).then_some(asked)
    }

    /// Whether so much of a bucket is on its way as one of so many equal parts of what may be.
    fn has_its_part(&self, bucket: BucketId, parts: usize) -> bool {
        let (mut count, mut bytes) = (0, 0);
        for flight in self.flights_of(bucket) {
            count += 1;
            bytes += flight.asked.values().sum::<u64>();
        }
        count > 0 && (count >= limits::ASKS_AT_ONCE / parts || bytes >= limits::BYTES_AT_ONCE / parts as u64)
    }

    fn flights_of(&self, bucket: BucketId) -> impl Iterator<Item = &Flight> {
        self.flights.iter().filter(move |((of, _), _)| *of == bucket).map(|(_, flight)| flight)
    }

    /// Those of the sites that have room for a version, and what it counts there. The others are asked when they have: nobody
    /// farther takes it in their place, and nobody faster waits for them.
    fn with_room(&self, sites: BTreeSet<SiteId>, bytes: u64) -> BTreeMap<SiteId, u64> {
        let pace = |site: SiteId| self.paces.get(&site).copied().unwrap_or_default();
        let has_room = sites.into_iter().filter(|site| pace(*site).has_room(bytes));
        has_room.map(|site| (site, pace(site).counted(bytes))).collect()
    }

    fn asks_of(&self, site: SiteId) -> usize {
        self.asks.get(&site).copied().unwrap_or_default()
    }

    /// Who could take a version now, this site first, then the nearest.
    fn able(&self, bucket: BucketId, waiting: &Waiting, now: Instant) -> Vec<SiteId> {
        let mut taken = self.together.among(self.holders(bucket, waiting.want.dot));
        taken.insert(self.together.of(self.me));
        let can = |other: &&Candidate| {
            let site = other.site;
            let lacks =
                if site == self.me { !waiting.want.here } else { !taken.contains(&self.together.of(site)) };
            let reached = site == self.me || (other.linked && !self.resting.contains_key(&site));
            let has_room = !self.caps.refuses(site, waiting.want.bytes, now);
            lacks && reached && has_room && !self.lost.contains(&site) && !waiting.unable.contains(&site)
        };
        self.candidates.iter().filter(can).map(|other| other.site).collect()
    }
}

/// What a version counts while it is on its way.
fn weight(want: &Want) -> u64 {
    want.bytes.max(limits::ASK_BYTES)
}

#[cfg(test)]
mod tests;
