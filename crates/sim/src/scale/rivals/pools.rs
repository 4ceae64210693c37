//! ElfStore's overlay of super-peers: Monga, Ramachandra, Simmhan, "ElfStore: a resilient data storage service for federated edge and fog
//! resources", ICWS 2019 (E-A2, E-A6, E-A7 of the project's table of algorithms).
//!
//! Disjoint pools of buddies, √p fogs each; every fog has one neighbour of each other pool, so that the neighbours of the buddies of one pool
//! are all other fogs. Neighbours tell their filter every 10 s heartbeat (each fourth one carries it, each third one statistics), buddies
//! theirs every 15 s, with the union of their own and their neighbours' filters in each fifth and statistics in each sixth. A search tests
//! the neighbours' filters and the buddies', asks who matches, and a buddy passes it on to those of its neighbours that match.
//!
//! Lenient: the filters are Bloom filters of sixteen bits for each entry and eleven hashes (one false positive in two thousand), not the 160
//! bits of the code, which after seven values match everything; filters of unequal lengths cannot be laid over each other, so a union is
//! the list of them; the full map of blocks to streams that the code adds to each heartbeat is left out. Four missed heartbeats are a death.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use skerry_base::Instant;

use crate::scale::sea::{Sea, mix};
use crate::scale::{Effect, Event, Machine, Object, RECORD};

const NEIGHBOUR_BEAT: Duration = Duration::from_secs(10);
const BUDDY_BEAT: Duration = Duration::from_secs(15);
/// A search ends after this.
const TIMEOUT: Duration = Duration::from_secs(4);
/// Bits for each entry of a filter …
const BITS: usize = 16;
/// … and how many of them are set.
const HASHES: u64 = 11;
/// Node, address, port, pool.
const HEAD: usize = 2 + 4 + 2 + 2;
/// Ten numbers of one byte.
const STATISTICS: usize = 10;

/// A Bloom filter.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Bloom {
    words: Vec<u64>,
}

impl Bloom {
    /// Of these keys.
    pub fn of(keys: &[u64]) -> Self {
        let mut words = vec![0u64; (keys.len() * BITS).div_ceil(64).max(1)];
        let bits = words.len() as u64 * 64;
        for key in keys {
            for hash in 0..HASHES {
                let bit = mix(53, *key, hash) % bits;
                words[(bit / 64) as usize] |= 1 << (bit % 64);
            }
        }
        Self { words }
    }

    /// Whether a key may be among them.
    pub fn may_have(&self, key: u64) -> bool {
        let bits = self.words.len() as u64 * 64;
        bits > 0
            && (0..HASHES)
                .map(|hash| mix(53, key, hash) % bits)
                .all(|bit| self.words[(bit / 64) as usize] >> (bit % 64) & 1 == 1)
    }

    /// Bytes of it.
    pub const fn len(&self) -> usize {
        self.words.len() * 8
    }

    /// Whether it was never made.
    pub const fn is_empty(&self) -> bool {
        self.words.is_empty()
    }
}

/// What one fog holds, or with its neighbours.
pub type Filters = Rc<Vec<Rc<Bloom>>>;

fn length(filters: &Filters) -> usize {
    filters.iter().map(|filter| filter.len()).sum()
}

/// What fogs say.
#[derive(Debug, Clone)]
pub enum Message {
    /// I am here; statistics and a filter now and then: the own one to who has this fog as neighbour, the union to buddies.
    Beat {
        /// The ten numbers are in it.
        statistics: bool,
        /// What is held.
        filter: Option<Filters>,
    },
    /// To neighbours: who holds this? To buddies: at yours?
    Ask {
        /// For the answer.
        ticket: u64,
        /// What.
        object: Object,
        /// Who is answered.
        asker: u32,
    },
    /// I do.
    Have {
        /// Of the question.
        ticket: u64,
    },
    /// Nobody that I know.
    Nobody {
        /// Of the question.
        ticket: u64,
    },
    /// Copy of an object, to its second holder.
    Copy(Object),
}

/// Who stands where: buddies and neighbours of all.
#[derive(Debug)]
pub struct Overlay {
    size: usize,
    sites: usize,
}

impl Overlay {
    /// Pools of √p.
    pub const fn new(sites: usize) -> Self {
        Self { size: sites.isqrt().saturating_add(if sites.isqrt().pow(2) < sites { 1 } else { 0 }), sites }
    }

    const fn pool(&self, pool: usize) -> usize {
        let end = (pool + 1) * self.size;
        (if end < self.sites { end } else { self.sites }) - pool * self.size
    }

    /// The others of the pool.
    pub fn buddies(&self, site: usize) -> Vec<usize> {
        let first = site - site % self.size;
        (first..first + self.pool(site / self.size)).filter(|other| *other != site).collect()
    }

    /// Whose filters a fog has: of each other pool those of its place; a short pool shares the places that it lacks.
    pub fn neighbours(&self, site: usize) -> Vec<usize> {
        let (pool, place) = (site / self.size, site % self.size);
        let own = self.pool(pool);
        let pools = (0..self.sites.div_ceil(self.size)).filter(|other| *other != pool);
        let of = |other: usize| (place..self.pool(other)).step_by(own).map(move |at| other * self.size + at);
        pools.flat_map(of).collect()
    }
}

struct Search {
    waiting: usize,
    until: Instant,
}

/// A fog.
pub struct Pools {
    me: usize,
    sea: Rc<Sea>,
    buddies: Vec<usize>,
    neighbours: Vec<usize>,
    /// Who has this one as neighbour.
    subscribers: Vec<usize>,
    keys: Vec<u64>,
    filter: Rc<Bloom>,
    /// Filters of neighbours and unions of buddies, and when they were heard.
    heard: BTreeMap<usize, (Filters, Instant)>,
    beats: [u64; 2],
    due: [Instant; 2],
    searches: BTreeMap<u64, Search>,
}

impl Pools {
    /// At its place.
    pub fn new(me: usize, sea: &Rc<Sea>, overlay: &Overlay, subscribers: Vec<usize>) -> Self {
        let first =
            |period: Duration, number| Instant(1 + mix(61, me as u64, number) % period.as_nanos() as u64);
        Self {
            me,
            sea: Rc::clone(sea),
            buddies: overlay.buddies(me),
            neighbours: overlay.neighbours(me),
            subscribers,
            keys: Vec::new(),
            filter: Rc::default(),
            heard: BTreeMap::new(),
            beats: [0; 2],
            due: [first(NEIGHBOUR_BEAT, 0), first(BUDDY_BEAT, 1)],
            searches: BTreeMap::new(),
        }
    }

    /// Whom each has as neighbour, the other way round.
    pub fn subscribers(overlay: &Overlay) -> Vec<Vec<usize>> {
        let mut found = vec![Vec::new(); overlay.sites];
        for site in 0..overlay.sites {
            overlay.neighbours(site).into_iter().for_each(|neighbour| found[neighbour].push(site));
        }
        found
    }

    /// Those of some fogs that live and may have it.
    fn matching(&self, of: &[usize], key: u64, period: Duration, now: Instant) -> Vec<usize> {
        let may = |site: &&usize| {
            let heard = self.heard.get(*site).filter(|(_, at)| now.since(*at) < period * 4);
            heard.is_some_and(|(filters, _)| filters.iter().any(|filter| filter.may_have(key)))
        };
        of.iter().filter(may).copied().collect()
    }

    fn union(&self) -> Filters {
        let neighbours = self.neighbours.iter().filter_map(|site| self.heard.get(site));
        let filters = neighbours.flat_map(|(filters, _)| filters.iter().cloned());
        Rc::new(filters.chain([Rc::clone(&self.filter)]).collect())
    }

    fn beat(&mut self, now: Instant, out: &mut Vec<Effect<Message>>) {
        if self.due[0] <= now {
            self.due[0] = now.after(NEIGHBOUR_BEAT);
            self.beats[0] += 1;
            let filter = self.beats[0].is_multiple_of(4).then(|| Rc::new(vec![Rc::clone(&self.filter)]));
            let statistics = self.beats[0].is_multiple_of(3);
            let beat = |to: &usize| Effect::Send(*to, Message::Beat { statistics, filter: filter.clone() });
            out.extend(self.subscribers.iter().map(beat));
        }
        if self.due[1] <= now {
            self.due[1] = now.after(BUDDY_BEAT);
            self.beats[1] += 1;
            let filter = self.beats[1].is_multiple_of(5).then(|| self.union());
            let statistics = self.beats[1].is_multiple_of(6);
            let beat = |to: &usize| Effect::Send(*to, Message::Beat { statistics, filter: filter.clone() });
            out.extend(self.buddies.iter().map(beat));
        }
    }

    fn have(&mut self, object: Object) {
        self.keys.push(object.key());
        self.filter = Rc::new(Bloom::of(&self.keys));
    }

    fn find(&mut self, ticket: u64, object: Object, now: Instant, out: &mut Vec<Effect<Message>>) {
        let mut asked = self.matching(&self.neighbours, object.key(), NEIGHBOUR_BEAT, now);
        asked.extend(self.matching(&self.buddies, object.key(), BUDDY_BEAT, now));
        if asked.is_empty() {
            return out.push(Effect::Found(ticket, Vec::new()));
        }
        self.searches.insert(ticket, Search { waiting: asked.len(), until: now.after(TIMEOUT) });
        let asker = self.me as u32;
        out.extend(asked.into_iter().map(|to| Effect::Send(to, Message::Ask { ticket, object, asker })));
    }

    fn asked(
        &self,
        from: usize,
        (ticket, object, asker): (u64, Object, u32),
        now: Instant,
        out: &mut Vec<Effect<Message>>,
    ) {
        if self.keys.contains(&object.key()) {
            return out.push(Effect::Send(asker as usize, Message::Have { ticket }));
        }
        // Only the asker's buddy passes it on.
        let passes = from == asker as usize && self.buddies.contains(&from);
        let to = match passes {
            true => self.matching(&self.neighbours, object.key(), NEIGHBOUR_BEAT, now),
            false => Vec::new(),
        };
        match to.is_empty() {
            true => out.push(Effect::Send(asker as usize, Message::Nobody { ticket })),
            false => {
                out.extend(to.into_iter().map(|to| Effect::Send(to, Message::Ask { ticket, object, asker })))
            }
        }
    }

    fn tick(&mut self, now: Instant, out: &mut Vec<Effect<Message>>) {
        self.beat(now, out);
        let over = |(_, search): &(&u64, &Search)| search.until <= now || search.waiting == 0;
        let over: Vec<u64> = self.searches.iter().filter(over).map(|(ticket, _)| *ticket).collect();
        for ticket in over {
            self.searches.remove(&ticket);
            out.push(Effect::Found(ticket, Vec::new()));
        }
    }
}

impl Machine for Pools {
    type Message = Message;
    const LINKS: bool = false;

    fn size(message: &Message) -> usize {
        HEAD + match message {
            Message::Beat { statistics, filter } => {
                let statistics = if *statistics { STATISTICS } else { 0 };
                statistics + filter.as_ref().map_or(0, length)
            }
            Message::Ask { .. } => 8 + 8 + 4,
            Message::Have { .. } | Message::Nobody { .. } => 8,
            Message::Copy(_) => RECORD,
        }
    }

    fn handle(&mut self, event: Event<Message>, now: Instant, out: &mut Vec<Effect<Message>>) {
        match event {
            Event::Start | Event::Link(..) | Event::Wake => {}
            Event::Restart => {
                self.searches.clear();
                self.due = [now, now];
            }
            Event::Write(object) => {
                self.have(object);
                out.push(Effect::Send(self.sea.partner(self.me), Message::Copy(object)));
            }
            Event::Find(ticket, object) => self.find(ticket, object, now, out),
            Event::Message(from, message) => match message {
                Message::Beat { filter, .. } => {
                    let heard = self.heard.entry(from).or_insert_with(|| (Rc::default(), now));
                    heard.1 = now;
                    if let Some(filter) = filter {
                        heard.0 = filter;
                    }
                }
                Message::Ask { ticket, object, asker } => self.asked(from, (ticket, object, asker), now, out),
                Message::Have { ticket } => {
                    if self.searches.remove(&ticket).is_some() {
                        out.push(Effect::Found(ticket, vec![from]));
                    }
                }
                Message::Nobody { ticket } => {
                    if let Some(search) = self.searches.get_mut(&ticket) {
                        search.waiting = search.waiting.saturating_sub(1);
                    }
                }
                Message::Copy(object) => self.have(object),
            },
        }
        self.tick(now, out);
    }

    fn next_wake(&self) -> Option<Instant> {
        let search = self.searches.values().map(|search| search.until).min();
        search.into_iter().chain(self.due).min()
    }

    fn settled(&self, _: &[u32]) -> bool {
        true
    }

    fn memory(&self) -> Option<u64> {
        let filters = self.heard.values().map(|(filters, _)| length(filters) + 16).sum::<usize>();
        Some(
            (filters + self.keys.len() * RECORD + (self.subscribers.len() + self.neighbours.len()) * HEAD)
                as u64,
        )
    }
}
