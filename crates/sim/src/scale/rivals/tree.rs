//! The tree of record servers: Confais, Lebre, Parrein, "A Tree-Based Approach to Locate Object Replicas in a Fog Storage Infrastructure",
//! GLOBECOM 2018, as its code does it (F-A3 of the project's table of algorithms).
//!
//! Every site runs a record server and knows the servers from itself to the root. A name carries the site that made the object, for
//! which every server from there to the root has a wildcard: making an object says nothing to anybody. A search asks the own server, its
//! parent, and so on, never down; the first that knows a holder ends it. Who gets a copy writes a record on its path up to the
//! server that knew the object already.
//!
//! The tree: shortest paths (Dijkstra) over a physical topology in which each site has a line to its three nearest and to the nearest of
//! lower number; the root is the site with the least distance to all (the papers name neither topology nor root). Lenient: a server that
//! is silent costs one second and the next one up is asked (the code waits 30 s, three times); servers keep their records; nobody looks after servers.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use skerry_base::Instant;

use crate::scale::sea::{Sea, mix};
use crate::scale::{Effect, Event, Machine, Object, RECORD};

/// After this the next server is asked.
const TIMEOUT: Duration = Duration::from_secs(1);
/// A name: id of the object, label of its site, zone, as in a question for a TXT record.
const NAME: usize = 12 + 16 + 12;

/// What servers are asked, and say.
#[derive(Debug, Clone)]
pub enum Message {
    /// Who holds this?
    Ask {
        /// For the answer.
        ticket: u64,
        /// What.
        object: Object,
    },
    /// These.
    Said {
        /// Of the question.
        ticket: u64,
        /// None: nobody known here.
        sites: Vec<u32>,
    },
    /// So does this one.
    Record {
        /// What.
        object: Object,
        /// Who.
        site: u32,
    },
    /// Copy of an object, to its second holder.
    Copy(Object),
}

/// The tree as it was drawn.
#[derive(Debug)]
pub struct Ways {
    /// Parents of all sites; the root is its own.
    pub parents: Vec<usize>,
    /// How many sites are below each, itself among them.
    below: Vec<u64>,
}

impl Ways {
    /// Over all sites.
    pub fn new(sea: &Sea) -> Self {
        let parents = parents(sea);
        let mut below = vec![0; parents.len()];
        for site in 0..parents.len() {
            path_of(&parents, site).into_iter().for_each(|above| below[above] += 1);
        }
        Self { parents, below }
    }
}

fn parents(sea: &Sea) -> Vec<usize> {
    let n = sea.len();
    let root = (0..n).min_by_key(|a| (0..n).map(|b| sea.micros(*a, b)).sum::<u64>()).unwrap_or(0);
    let mut lines: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); n];
    for site in 0..n {
        let mut near: Vec<(u64, usize)> =
            (0..n).filter(|other| *other != site).map(|other| (sea.micros(site, other), other)).collect();
        let lower = near.iter().filter(|(_, other)| *other < site).min().copied();
        if near.len() > 3 {
            near.select_nth_unstable(2);
        }
        for (_, other) in near.into_iter().take(3).chain(lower) {
            lines[site].insert(other);
            lines[other].insert(site);
        }
    }
    let (mut parents, mut far) = (vec![root; n], vec![u64::MAX; n]);
    far[root] = 0;
    let mut open = BTreeSet::from([(0, root)]);
    while let Some((length, site)) = open.pop_first() {
        for next in &lines[site] {
            let by = length + sea.micros(site, *next);
            if by < far[*next] {
                open.remove(&(far[*next], *next));
                (far[*next], parents[*next]) = (by, site);
                open.insert((by, *next));
            }
        }
    }
    parents
}

struct Climb {
    object: Object,
    /// Place of the next server on the path.
    next: usize,
    until: Instant,
}

/// A site and its server.
pub struct Tree {
    me: usize,
    sea: Rc<Sea>,
    ways: Rc<Ways>,
    /// From this site to the root.
    path: Vec<usize>,
    records: BTreeMap<u64, Vec<u32>>,
    climbs: BTreeMap<u64, Climb>,
}

fn path_of(parents: &[usize], site: usize) -> Vec<usize> {
    let mut path = vec![site];
    let mut at = site;
    while parents[at] != at {
        at = parents[at];
        path.push(at);
    }
    path
}

impl Tree {
    /// With its path, and the wildcards of whoever is below.
    pub fn new(me: usize, sea: &Rc<Sea>, ways: &Rc<Ways>) -> Self {
        let path = path_of(&ways.parents, me);
        let (sea, ways) = (Rc::clone(sea), Rc::clone(ways));
        Self { me, sea, ways, path, records: BTreeMap::new(), climbs: BTreeMap::new() }
    }

    /// Servers from this one to the root.
    pub const fn depth(&self) -> usize {
        self.path.len()
    }

    /// The wildcard of a site lies at every server above it.
    fn knows(&self, object: Object) -> Vec<u32> {
        let mut sites = self.records.get(&object.key()).cloned().unwrap_or_default();
        if path_of(&self.ways.parents, object.maker).contains(&self.me) {
            sites.push(object.maker as u32);
        }
        sites
    }

    fn climb(&mut self, ticket: u64, now: Instant, out: &mut Vec<Effect<Message>>) {
        let Some(climb) = self.climbs.get_mut(&ticket) else { return };
        match self.path.get(climb.next) {
            Some(server) => {
                climb.next += 1;
                climb.until = now.after(TIMEOUT);
                out.push(Effect::Send(*server, Message::Ask { ticket, object: climb.object }));
            }
            None => {
                self.climbs.remove(&ticket);
                out.push(Effect::Found(ticket, Vec::new()));
            }
        }
    }

    /// One of them, whichever: nobody says which is near; then the others.
    fn end(ticket: u64, sites: Vec<u32>, out: &mut Vec<Effect<Message>>) {
        let mut sites: Vec<usize> = sites.into_iter().map(|site| site as usize).collect();
        if mix(13, ticket, 0) & 1 == 0 {
            sites.reverse();
        }
        out.push(Effect::Found(ticket, sites));
    }

    fn said(&mut self, ticket: u64, sites: Vec<u32>, now: Instant, out: &mut Vec<Effect<Message>>) {
        if !self.climbs.contains_key(&ticket) {
            return;
        }
        if sites.is_empty() {
            return self.climb(ticket, now, out);
        }
        self.climbs.remove(&ticket);
        Self::end(ticket, sites, out);
    }

    /// Up to the first server that knew the object: that of whom both are below.
    fn record(&mut self, object: Object, out: &mut Vec<Effect<Message>>) {
        let theirs = path_of(&self.ways.parents, object.maker);
        self.records.insert(object.key(), vec![self.me as u32]);
        for server in self.path.iter().skip(1) {
            out.push(Effect::Send(*server, Message::Record { object, site: self.me as u32 }));
            if theirs.contains(server) {
                break;
            }
        }
    }
}

impl Machine for Tree {
    type Message = Message;
    const LINKS: bool = false;

    /// A question and an answer of DNS: head, name, type and class; sixteen bytes for each record beside.
    fn size(message: &Message) -> usize {
        match message {
            Message::Ask { .. } => 12 + NAME + 4,
            Message::Said { sites, .. } => 12 + NAME + 4 + 16 * sites.len(),
            Message::Record { .. } => 12 + NAME + 4 + 16,
            Message::Copy(_) => RECORD,
        }
    }

    fn handle(&mut self, event: Event<Message>, now: Instant, out: &mut Vec<Effect<Message>>) {
        match event {
            Event::Start | Event::Link(..) => {}
            Event::Restart => self.climbs.clear(),
            Event::Write(object) => {
                out.push(Effect::Send(self.sea.partner(self.me), Message::Copy(object)));
            }
            Event::Find(ticket, object) => {
                let known = self.knows(object);
                if known.is_empty() {
                    self.climbs.insert(ticket, Climb { object, next: 1, until: now });
                    self.climb(ticket, now, out);
                } else {
                    Self::end(ticket, known, out);
                }
            }
            Event::Message(from, message) => match message {
                Message::Ask { ticket, object } => {
                    out.push(Effect::Send(from, Message::Said { ticket, sites: self.knows(object) }));
                }
                Message::Said { ticket, sites } => self.said(ticket, sites, now, out),
                Message::Record { object, site } => {
                    self.records.entry(object.key()).or_default().push(site);
                }
                Message::Copy(object) => self.record(object, out),
            },
            Event::Wake => {
                let late: Vec<u64> = self
                    .climbs
                    .iter()
                    .filter(|(_, climb)| climb.until <= now)
                    .map(|(ticket, _)| *ticket)
                    .collect();
                late.into_iter().for_each(|ticket| self.climb(ticket, now, out));
            }
        }
    }

    fn next_wake(&self) -> Option<Instant> {
        self.climbs.values().map(|climb| climb.until).min()
    }

    fn settled(&self, _: &[u32]) -> bool {
        true
    }

    fn memory(&self) -> Option<u64> {
        let records = self.records.values().map(Vec::len).sum::<usize>() as u64;
        Some((self.ways.below[self.me] + records) * (NAME + 16) as u64 + self.path.len() as u64 * 6)
    }
}
