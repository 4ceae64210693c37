//! Kademlia: Maymounkov, Mazières, "Kademlia: a peer-to-peer information system based on the XOR metric", IPTPS 2002.
//!
//! k-buckets of k = 20 (§2.2), iterative look-ups with α = 3 (§2.3), buckets that saw no look-up for an hour refreshed (§2.3), a pair
//! republished every hour by one of the k nodes that have it, which keeps the others from doing so (§2.5). A full bucket keeps newcomers
//! in a cache of replacements and drops who does not answer (§4.1 of the long version) instead of pinging at once. The value of a key is the list of
//! sites that hold the object; both holders publish.
//!
//! Lenient: ids are 64 bits in here (the 160 of the paper are counted on the wire), a key's holders lie in one pair, tables outlive a
//! restart; expiry, the daily republishing by the publisher and STOREs that cache along the path are left out.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use skerry_base::Instant;

use crate::scale::sea::{Sea, mix};
use crate::scale::{Effect, Event, Machine, Object, RECORD};

/// Contacts of a bucket, and nodes that keep a pair.
pub const K: usize = 20;
/// Questions of one look-up on their way at once.
const ALPHA: usize = 3;
/// After this a node counts as gone.
const TIMEOUT: Duration = Duration::from_secs(1);
/// Republishing of pairs, refreshing of buckets.
const HOUR: Duration = Duration::from_secs(3600);
/// Message: kind, id of the call, id of the sender.
const HEAD: usize = 4 + 20 + 20;
/// Id, address, port.
const CONTACT: usize = 20 + 4 + 2;

/// What nodes say.
#[derive(Debug, Clone)]
pub enum Message {
    /// Who is near to this id? With the answer to a key, if it is one.
    Find {
        /// For the answer.
        call: u64,
        /// Which id.
        target: u64,
        /// It is a key.
        value: bool,
    },
    /// These are the nearest that I know.
    Nodes {
        /// Of the question.
        call: u64,
        /// At most k.
        nodes: Vec<u32>,
    },
    /// These hold it.
    Value {
        /// Of the question.
        call: u64,
        /// All that are known.
        holders: Vec<u32>,
    },
    /// Keep this.
    Store {
        /// Under this.
        key: u64,
        /// Some of its holders.
        holders: Vec<u32>,
    },
    /// Copy of an object, to its second holder.
    Copy(Object),
}

/// Where a site or an object is in the space of ids.
pub fn node_id(site: usize) -> u64 {
    mix(101, site as u64, 1)
}

fn key_id(object: Object) -> u64 {
    mix(202, object.key(), 2)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    New,
    Asked,
    Answered,
}

#[derive(Debug, Clone)]
enum Purpose {
    /// Comes: fills all buckets afterwards.
    Join,
    /// Fills buckets.
    Refresh,
    /// Ends with the holders.
    Value { ticket: u64 },
    /// Ends with STOREs of these holders.
    Publish { key: u64, holders: Vec<u32> },
}

#[derive(Debug, Clone)]
struct Walk {
    target: u64,
    purpose: Purpose,
    /// By distance: who.
    known: BTreeMap<u64, (u32, State)>,
}

#[derive(Debug, Clone)]
struct Pair {
    holders: Vec<u32>,
    republish: Instant,
}

/// One node.
#[derive(Debug)]
pub struct Kademlia {
    me: usize,
    id: u64,
    sea: Rc<Sea>,
    /// By length of the common prefix: least recently heard first.
    buckets: Vec<Vec<u32>>,
    spare: Vec<Vec<u32>>,
    looked: Vec<Instant>,
    walks: BTreeMap<u64, Walk>,
    /// By call: which walk, whom, until when.
    calls: BTreeMap<u64, (u64, u32, Instant)>,
    pairs: BTreeMap<u64, Pair>,
    /// When which pair is republished.
    republish: BTreeSet<(Instant, u64)>,
    counter: u64,
    joins: Option<Instant>,
    refresh: Instant,
}

impl Kademlia {
    /// Alone.
    pub fn new(me: usize, sea: &Rc<Sea>) -> Self {
        // Spread over the first minutes, so that who joins meets those that have joined.
        let joins = Instant(1 + mix(7, me as u64, 3) % 300_000_000_000 * u64::from(me > 0));
        Self {
            me,
            id: node_id(me),
            sea: Rc::clone(sea),
            buckets: vec![Vec::new(); 64],
            spare: vec![Vec::new(); 64],
            looked: vec![Instant(0); 64],
            walks: BTreeMap::new(),
            calls: BTreeMap::new(),
            pairs: BTreeMap::new(),
            republish: BTreeSet::new(),
            counter: 0,
            joins: Some(joins),
            refresh: joins.after(HOUR),
        }
    }

    /// Pairs kept here.
    pub fn pairs(&self) -> usize {
        self.pairs.len()
    }

    fn bucket(&self, id: u64) -> usize {
        ((self.id ^ id).leading_zeros() as usize).min(63)
    }

    fn heard(&mut self, site: usize) {
        if site == self.me {
            return;
        }
        let (at, site) = (self.bucket(node_id(site)), site as u32);
        let bucket = &mut self.buckets[at];
        if let Some(place) = bucket.iter().position(|known| *known == site) {
            bucket.remove(place);
            bucket.push(site);
        } else if bucket.len() < K {
            bucket.push(site);
        } else if !self.spare[at].contains(&site) {
            let spare = &mut self.spare[at];
            spare.push(site);
            spare.drain(..spare.len().saturating_sub(4));
        }
    }

    fn silent(&mut self, site: u32) {
        let at = self.bucket(node_id(site as usize));
        self.spare[at].retain(|spare| *spare != site);
        // Who is all there is stays: it may come back, and nobody else would be known.
        if let Some(next) = self.spare[at].pop() {
            self.buckets[at].retain(|known| *known != site);
            self.buckets[at].push(next);
        }
    }

    fn nearest(&self, target: u64) -> Vec<u32> {
        let mut all: Vec<(u64, u32)> = Vec::with_capacity(4 * K);
        // The target's own bucket first, then those that can only be farther.
        let own = self.bucket(target);
        for at in (own..64).chain((0..own).rev()) {
            if at < own && all.len() >= K {
                break;
            }
            all.extend(self.buckets[at].iter().map(|site| (node_id(*site as usize) ^ target, *site)));
        }
        all.sort_unstable();
        all.truncate(K);
        all.into_iter().map(|(_, site)| site).collect()
    }

    fn walk(&mut self, target: u64, purpose: Purpose, now: Instant, out: &mut Vec<Effect<Message>>) {
        self.counter += 1;
        let at = self.bucket(target);
        self.looked[at] = now;
        let known = self.nearest(target).into_iter();
        let known = known.map(|site| (node_id(site as usize) ^ target, (site, State::New))).collect();
        self.walks.insert(self.counter, Walk { target, purpose, known });
        self.go_on(self.counter, now, out);
    }

    /// Asks the nearest that were not asked, and ends when the k nearest have answered.
    fn go_on(&mut self, number: u64, now: Instant, out: &mut Vec<Effect<Message>>) {
        let Some(walk) = self.walks.get_mut(&number) else { return };
        let mut waiting = walk.known.values().filter(|(_, state)| *state == State::Asked).count();
        let value = matches!(walk.purpose, Purpose::Value { .. });
        let target = walk.target;
        for (site, state) in walk.known.values_mut().take(K) {
            if waiting < ALPHA && *state == State::New {
                *state = State::Asked;
                waiting += 1;
                self.counter += 1;
                let until = now.after(TIMEOUT);
                self.calls.insert(self.counter, (number, *site, until));
                out.push(Effect::Send(*site as usize, Message::Find { call: self.counter, target, value }));
            }
        }
        if waiting == 0
            && let Some(walk) = self.walks.remove(&number)
        {
            self.end(walk, now, out);
        }
    }

    fn end(&mut self, walk: Walk, now: Instant, out: &mut Vec<Effect<Message>>) {
        match walk.purpose {
            Purpose::Refresh => {}
            Purpose::Join => self.refresh_buckets(Duration::ZERO, now, out),
            Purpose::Value { ticket } => out.push(Effect::Found(ticket, Vec::new())),
            Purpose::Publish { key, holders } => {
                let mut near: Vec<(u64, u32)> =
                    walk.known.iter().map(|(distance, (site, _))| (*distance, *site)).collect();
                near.push((self.id ^ walk.target, self.me as u32));
                near.sort_unstable();
                for (_, site) in near.into_iter().take(K) {
                    if site as usize == self.me {
                        self.store(key, &holders, now);
                    } else {
                        out.push(Effect::Send(
                            site as usize,
                            Message::Store { key, holders: holders.clone() },
                        ));
                    }
                }
            }
        }
    }

    /// Who is stored at need not republish for an hour; each draws when, so that mostly one does.
    fn store(&mut self, key: u64, holders: &[u32], now: Instant) {
        let late = mix(key, self.me as u64, now.0) % HOUR.as_nanos() as u64;
        let republish = now.after(HOUR).after(Duration::from_nanos(late / 2));
        let pair = self.pairs.entry(key).or_insert(Pair { holders: Vec::new(), republish });
        self.republish.remove(&(pair.republish, key));
        self.republish.insert((republish, key));
        pair.republish = republish;
        for holder in holders {
            if !pair.holders.contains(holder) {
                pair.holders.push(*holder);
            }
        }
    }

    fn publish(&mut self, object: Object, now: Instant, out: &mut Vec<Effect<Message>>) {
        let (key, holders) = (key_id(object), vec![self.me as u32]);
        self.walk(key, Purpose::Publish { key, holders }, now, out);
    }

    fn answer(&self, from: usize, (call, target, value): (u64, u64, bool), out: &mut Vec<Effect<Message>>) {
        let message = match self.pairs.get(&target).filter(|_| value) {
            Some(pair) => Message::Value { call, holders: pair.holders.clone() },
            None => Message::Nodes { call, nodes: self.nearest(target) },
        };
        out.push(Effect::Send(from, message));
    }

    fn nodes(&mut self, call: u64, nodes: Vec<u32>, now: Instant, out: &mut Vec<Effect<Message>>) {
        let Some((number, site, _)) = self.calls.remove(&call) else { return };
        if let Some(walk) = self.walks.get_mut(&number) {
            let target = walk.target;
            walk.known.insert(node_id(site as usize) ^ target, (site, State::Answered));
            for node in nodes.into_iter().filter(|node| *node as usize != self.me) {
                walk.known.entry(node_id(node as usize) ^ target).or_insert((node, State::New));
            }
        }
        self.go_on(number, now, out);
    }

    fn value(&mut self, call: u64, mut holders: Vec<u32>, out: &mut Vec<Effect<Message>>) {
        let Some((number, ..)) = self.calls.remove(&call) else { return };
        if let Some(Walk { purpose: Purpose::Value { ticket }, .. }) = self.walks.remove(&number) {
            // Nobody says which is near: any.
            if mix(9, ticket, 0) & 1 == 0 {
                holders.reverse();
            }
            out.push(Effect::Found(ticket, holders.into_iter().map(|holder| holder as usize).collect()));
        }
    }

    fn find(&mut self, ticket: u64, key: u64, now: Instant, out: &mut Vec<Effect<Message>>) {
        match self.pairs.get(&key) {
            Some(pair) => {
                let holders = pair.holders.iter().map(|holder| *holder as usize).collect();
                out.push(Effect::Found(ticket, holders));
            }
            None => self.walk(key, Purpose::Value { ticket }, now, out),
        }
    }

    fn tick(&mut self, now: Instant, out: &mut Vec<Effect<Message>>) {
        if self.joins.is_some_and(|at| at <= now) {
            self.joins = None;
            // The first to join is known to everybody.
            self.heard(0);
            self.walk(self.id, Purpose::Join, now, out);
        }
        if self.refresh <= now {
            self.refresh = now.after(HOUR / 8);
            self.refresh_buckets(HOUR, now, out);
        }
        // Calls are numbered as they were made, and all wait for as long.
        while let Some((call, (number, site, _))) = self
            .calls
            .first_key_value()
            .filter(|(_, (_, _, until))| *until <= now)
            .map(|(call, of)| (*call, *of))
        {
            self.calls.remove(&call);
            self.silent(site);
            if let Some(walk) = self.walks.get_mut(&number) {
                walk.known.remove(&(node_id(site as usize) ^ walk.target));
            }
            self.go_on(number, now, out);
        }
        while let Some((_, key)) = self.republish.first().copied().filter(|(at, _)| *at <= now) {
            self.republish.pop_first();
            let Some(pair) = self.pairs.get_mut(&key) else { continue };
            pair.republish = now.after(HOUR);
            self.republish.insert((pair.republish, key));
            let holders = pair.holders.clone();
            self.walk(key, Purpose::Publish { key, holders }, now, out);
        }
    }

    /// Those that saw no look-up for so long, of as many as there are between this node and its nearest.
    fn refresh_buckets(&mut self, idle: Duration, now: Instant, out: &mut Vec<Effect<Message>>) {
        let deepest = (0..64).rev().find(|at| !self.buckets[*at].is_empty()).unwrap_or(0);
        for at in 0..=deepest {
            if now.since(self.looked[at]) >= idle {
                let low = u64::MAX.checked_shr(at as u32 + 1).unwrap_or(0);
                let flipped = self.id ^ (1 << (63 - at));
                let target = (flipped & !low) | (mix(11, now.0, self.id) & low);
                self.walk(target, Purpose::Refresh, now, out);
            }
        }
    }
}

impl Machine for Kademlia {
    type Message = Message;
    const LINKS: bool = false;

    fn size(message: &Message) -> usize {
        HEAD + match message {
            Message::Find { .. } => 20,
            Message::Nodes { nodes: contacts, .. } | Message::Value { holders: contacts, .. } => {
                CONTACT * contacts.len()
            }
            Message::Store { holders, .. } => 20 + CONTACT * holders.len(),
            Message::Copy(_) => RECORD,
        }
    }

    fn handle(&mut self, event: Event<Message>, now: Instant, out: &mut Vec<Effect<Message>>) {
        match event {
            Event::Start | Event::Link(..) => {}
            Event::Restart => {
                self.walks.clear();
                self.calls.clear();
                self.walk(self.id, Purpose::Join, now, out);
            }
            Event::Write(object) => {
                self.publish(object, now, out);
                out.push(Effect::Send(self.sea.partner(self.me), Message::Copy(object)));
            }
            Event::Find(ticket, object) => self.find(ticket, key_id(object), now, out),
            Event::Message(from, message) => {
                self.heard(from);
                match message {
                    Message::Find { call, target, value } => self.answer(from, (call, target, value), out),
                    Message::Nodes { call, nodes } => self.nodes(call, nodes, now, out),
                    Message::Value { call, holders } => self.value(call, holders, out),
                    Message::Store { key, holders } => self.store(key, &holders, now),
                    Message::Copy(object) => self.publish(object, now, out),
                }
            }
            Event::Wake => {}
        }
        self.tick(now, out);
    }

    fn next_wake(&self) -> Option<Instant> {
        let call = self.calls.first_key_value().map(|(_, (_, _, until))| *until);
        let pair = self.republish.first().map(|(at, _)| *at);
        call.into_iter().chain(pair).chain(self.joins).chain([self.refresh]).min()
    }

    fn settled(&self, _: &[u32]) -> bool {
        true
    }

    fn memory(&self) -> Option<u64> {
        let contacts = self.buckets.iter().chain(&self.spare).map(Vec::len).sum::<usize>();
        let holders = self.pairs.values().map(|pair| pair.holders.len()).sum::<usize>();
        Some(((contacts + holders) * CONTACT + self.pairs.len() * (20 + 8)) as u64)
    }
}
