//! The machine that ships, [`Federation`], as one of the systems: its inputs and outputs carried out over a light store.
//!
//! Every site makes a bucket, writes one claim of it into the system bucket that everybody follows, and follows the bucket of one
//! other site. A search is a question for the bucket; what a site writes reaches the other member by its feed.

use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use skerry_base::{BucketId, Instant, NodeId, Origin};
use skerry_federation::{Answer, Config, Federation, Input, Message, Output, SiteEntry, Ticket, limits};

use super::sea::{Sea, mix, number, site_id};
use super::store::Store;
use super::{Effect, Event, Machine};

/// How long the disk takes for a commit.
const COMMIT: Duration = Duration::from_millis(4);
/// Followed by everybody: names and their owners.
const SYSTEM: BucketId = BucketId([0xff; 16]);

/// The bucket that a site makes.
fn bucket(maker: usize) -> BucketId {
    let mut id = site_id(maker).0;
    id[0] = 0xb0;
    BucketId(id)
}

/// One site.
pub struct Skerry {
    me: usize,
    life: u64,
    sea: Rc<Sea>,
    machine: Federation,
    store: Store,
    commits: VecDeque<(Instant, Output)>,
    /// Invariants that the machine found broken.
    pub violations: Vec<&'static str>,
}

impl Skerry {
    /// In its first life.
    pub fn new(me: usize, sea: &Rc<Sea>) -> Self {
        let machine = Self::machine(me, 1);
        let mut store = Store::default();
        store.begin(Self::origin(me, 1));
        let (commits, violations) = (VecDeque::new(), Vec::new());
        Self { me, life: 1, sea: Rc::clone(sea), machine, store, commits, violations }
    }

    fn machine(me: usize, life: u64) -> Federation {
        Federation::new(Config::new(site_id(me), life, mix(5, me as u64, life)).with_system(SYSTEM))
    }

    fn origin(me: usize, incarnation: u64) -> Origin {
        Origin { node: NodeId(site_id(me).0), incarnation }
    }

    fn begin(&mut self, now: Instant, out: &mut Vec<Effect<Message>>) {
        let roster = (0..self.sea.len()).map(|site| SiteEntry { site: site_id(site), pays: false }).collect();
        self.input(Input::Roster(roster), now, out);
        for maker in [self.me, self.sea.partner_of(self.me)] {
            self.input(Input::Join { bucket: bucket(maker) }, now, out);
        }
    }

    fn input(&mut self, input: Input, now: Instant, out: &mut Vec<Effect<Message>>) {
        let mut outputs = Vec::new();
        self.machine.handle(input, now, &self.store, &mut outputs);
        for output in outputs {
            match output {
                Output::Send { to, message } => out.push(Effect::Send(number(to), message)),
                Output::Apply(_) | Output::Fresh(_) | Output::Keep(_) | Output::Drop(_) => {
                    self.commits.push_back((now.after(COMMIT), output));
                }
                Output::Located { ticket, answer } => {
                    let sites = match answer {
                        Answer::Found { sites } => sites.into_iter().map(number).collect(),
                        _ => Vec::new(),
                    };
                    out.push(Effect::Found(ticket.0, sites));
                }
                Output::Violation(what) => self.violations.push(what),
                // Who is alive, who is a member, what an operator may want to know: nothing to be done here.
                _ => {}
            }
        }
    }

    fn commit(&mut self, now: Instant, out: &mut Vec<Effect<Message>>) {
        while let Some((_, output)) = self.commits.pop_front_if(|(at, _)| *at <= now) {
            let (ticket, ok) = match &output {
                Output::Apply(apply) => (apply.ticket, self.store.apply(apply)),
                Output::Fresh(fresh) => (fresh.ticket, self.store.follow(fresh)),
                Output::Keep(keep) => {
                    self.store.keep(keep);
                    (keep.ticket, true)
                }
                Output::Drop(drop) => {
                    self.store.drop(drop);
                    (drop.ticket, true)
                }
                _ => continue,
            };
            self.input(Input::Applied { ticket, ok }, now, out);
        }
    }

    fn write(&mut self, bucket: BucketId, now: Instant, out: &mut Vec<Effect<Message>>) {
        self.store.write(bucket);
        self.input(Input::Durable { bucket }, now, out);
    }

    fn link(&mut self, other: usize, up: bool, now: Instant, out: &mut Vec<Effect<Message>>) {
        let site = site_id(other);
        if up {
            self.input(Input::Rtt { site, rtt: self.sea.rtt(self.me, other) }, now, out);
            self.input(Input::LinkUp(site), now, out);
            self.input(Input::Speaks { site, dialect: limits::DIALECT }, now, out);
        } else {
            self.input(Input::LinkDown(site), now, out);
        }
    }
}

impl Machine for Skerry {
    type Message = Message;
    const LINKS: bool = true;

    fn size(message: &Message) -> usize {
        message.encode().len()
    }

    fn handle(&mut self, event: Event<Message>, now: Instant, out: &mut Vec<Effect<Message>>) {
        match event {
            Event::Start => {
                self.begin(now, out);
                self.write(SYSTEM, now, out);
            }
            Event::Restart => {
                self.life += 1;
                self.commits.clear();
                self.machine = Self::machine(self.me, self.life);
                self.store.begin(Self::origin(self.me, self.life));
                self.begin(now, out);
            }
            Event::Link(other, up) => self.link(other, up, now, out),
            Event::Message(from, message) => {
                self.input(Input::Received { from: site_id(from), message }, now, out);
            }
            Event::Write(_) => self.write(bucket(self.me), now, out),
            Event::Find(ticket, object) => {
                let bucket = bucket(object.maker);
                self.input(Input::Locate { ticket: Ticket(ticket), bucket }, now, out);
            }
            Event::Wake => {
                self.commit(now, out);
                self.input(Input::Wake, now, out);
            }
        }
    }

    fn next_wake(&self) -> Option<Instant> {
        let commit = self.commits.front().map(|(at, _)| *at);
        commit.into_iter().chain(self.machine.next_wake()).min()
    }

    fn settled(&self, made: &[u32]) -> bool {
        let n = self.sea.len();
        let has = |maker: usize| self.store.count(bucket(maker)) == u64::from(made[maker]);
        has(self.me)
            && has(self.sea.partner_of(self.me))
            && self.store.count(SYSTEM) == n as u64
            && (0..n).all(|site| self.machine.is_alive(site_id(site)))
    }

    fn memory(&self) -> Option<u64> {
        None
    }
}
