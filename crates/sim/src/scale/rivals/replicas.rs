//! All metadata at every site: Demers et al., "Epidemic algorithms for replicated database maintenance", PODC 1987.
//!
//! Direct mail (§1.2): who writes sends the record to everybody. Anti-entropy with checksums (§1.3): every ten seconds a site sends a
//! checksum to one other, drawn; if they differ the vectors are exchanged, then what is missing. A search asks nobody: both holders are
//! known, and the nearer one is asked for the object.
//!
//! Lenient: one record per object for both holders; a vector takes six bytes for each site (two and a count); nobody looks after who is alive.

use std::rc::Rc;
use std::time::Duration;

use skerry_base::Instant;

use crate::scale::sea::{Sea, mix};
use crate::scale::{Effect, Event, Machine, Object, RECORD};

/// Anti-entropy.
const PERIOD: Duration = Duration::from_secs(10);

/// What sites say.
#[derive(Debug, Clone)]
pub enum Message {
    /// A record.
    Mail(Object),
    /// So is everything here together.
    Checksum(u64),
    /// So many of each site are here; answer with yours if asked.
    Vector {
        /// By site.
        counts: Rc<Vec<u32>>,
        /// Whether the other's is wanted.
        answer: bool,
    },
    /// Records of one site.
    Missing {
        /// Whose.
        maker: usize,
        /// The first.
        from: u32,
        /// The last.
        upto: u32,
    },
}

/// One site.
pub struct Replicas {
    me: usize,
    sea: Rc<Sea>,
    counts: Vec<u32>,
    checksum: u64,
    next: Instant,
}

impl Replicas {
    /// Knows nothing.
    pub fn new(me: usize, sea: &Rc<Sea>) -> Self {
        let next = Instant(1 + mix(31, me as u64, 0) % PERIOD.as_nanos() as u64);
        Self { me, sea: Rc::clone(sea), counts: vec![0; sea.len()], checksum: 0, next }
    }

    /// Records of a site that are here.
    pub fn count(&self, maker: usize) -> u32 {
        self.counts[maker]
    }

    fn has(&mut self, maker: usize, from: u32, upto: u32) {
        // Without gaps: what comes after a lost record is brought by anti-entropy.
        if from <= self.counts[maker] + 1 && upto > self.counts[maker] {
            for number in self.counts[maker] + 1..=upto {
                self.checksum = self.checksum.wrapping_add(mix(37, maker as u64, u64::from(number)));
            }
            self.counts[maker] = upto;
        }
    }

    fn compare(&self, from: usize, theirs: &[u32], answer: bool, out: &mut Vec<Effect<Message>>) {
        for (maker, (here, there)) in self.counts.iter().zip(theirs).enumerate() {
            if here > there {
                out.push(Effect::Send(from, Message::Missing { maker, from: there + 1, upto: *here }));
            }
        }
        if answer {
            let counts = Rc::new(self.counts.clone());
            out.push(Effect::Send(from, Message::Vector { counts, answer: false }));
        }
    }
}

impl Machine for Replicas {
    type Message = Message;
    const LINKS: bool = false;

    fn size(message: &Message) -> usize {
        match message {
            Message::Mail(_) => RECORD,
            Message::Checksum(_) => 16,
            Message::Vector { counts, .. } => 8 + 6 * counts.len(),
            Message::Missing { from, upto, .. } => 8 + RECORD * (upto + 1 - from) as usize,
        }
    }

    fn handle(&mut self, event: Event<Message>, now: Instant, out: &mut Vec<Effect<Message>>) {
        match event {
            Event::Start | Event::Link(..) | Event::Restart => {}
            Event::Write(Object { maker, number }) => {
                self.has(maker, number, number);
                let others = (0..self.sea.len()).filter(|other| *other != self.me);
                out.extend(others.map(|other| Effect::Send(other, Message::Mail(Object { maker, number }))));
            }
            Event::Find(ticket, object) => {
                let mut sites = vec![object.maker, self.sea.partner(object.maker)];
                sites.sort_by_key(|site| self.sea.micros(self.me, *site));
                sites.retain(|_| self.counts[object.maker] >= object.number);
                out.push(Effect::Found(ticket, sites));
            }
            Event::Message(from, message) => match message {
                Message::Mail(Object { maker, number }) => self.has(maker, number, number),
                Message::Checksum(theirs) => {
                    if theirs != self.checksum {
                        let counts = Rc::new(self.counts.clone());
                        out.push(Effect::Send(from, Message::Vector { counts, answer: true }));
                    }
                }
                Message::Vector { counts, answer } => self.compare(from, &counts, answer, out),
                Message::Missing { maker, from, upto } => self.has(maker, from, upto),
            },
            Event::Wake => {}
        }
        if self.next <= now {
            self.next = now.after(PERIOD);
            let n = self.sea.len() as u64;
            let other = (self.me as u64 + 1 + mix(41, now.0, self.me as u64) % (n - 1)) % n;
            out.push(Effect::Send(other as usize, Message::Checksum(self.checksum)));
        }
    }

    fn next_wake(&self) -> Option<Instant> {
        Some(self.next)
    }

    fn settled(&self, made: &[u32]) -> bool {
        self.counts == made
    }

    fn memory(&self) -> Option<u64> {
        let records = self.counts.iter().map(|count| u64::from(*count)).sum::<u64>();
        Some(records * RECORD as u64 + self.counts.len() as u64 * 6)
    }
}
