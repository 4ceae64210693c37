//! What is wanted comes with the answer: how long it takes from the question to the first byte.
//!
//! Asked once everything is healed, by every site for every bucket that it does not follow. What a member gives goes over the
//! link between the two, as a message of its bytes would; who is only named is asked, which takes a round trip. The checker of
//! [`Environment::with_metric`](crate::environment::Environment::with_metric): on distances that violate no triangle the first byte comes within K·d where
//! landmarks are asked at once, 1.5·K·d in waves, and 10 ms, d being the round trip to the nearest member.

use std::time::Duration;

use bytes::Bytes;
use skerry_base::{BucketId, Instant, SiteId};
use skerry_federation::{Answer, Input, Ticket};
use skerry_scenario::clock::{millis, seconds};

use super::{Event, World};
use crate::canary::Canary;
use crate::checkers::Violation;
use crate::trace::Who;

/// Bytes of a small object and its record.
const GIFT_BYTES: usize = 600;
/// Until landmarks have heard who follows a bucket.
const HEARD: Duration = seconds(20);
/// Until a question is over.
const ANSWERED: Duration = seconds(5);
/// What may be added to the bound.
const SLACK: Duration = millis(10);

/// One question of one site.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Find {
    /// Who asked.
    pub site: usize,
    /// The round trip to the nearest member.
    pub nearest: Duration,
    /// Levels of landmarks at who asked.
    pub k: u8,
    /// When.
    pub(super) asked: Instant,
    pub(super) bucket: BucketId,
    /// How long the first byte took.
    pub took: Option<Duration>,
    /// How often it was given.
    pub gifts: u32,
}

impl Find {
    /// How long it may take.
    pub fn bound(&self, at_once: bool) -> Duration {
        let whole = self.nearest * u32::from(self.k);
        SLACK + if at_once { whole } else { whole * 3 / 2 }
    }
}

impl World {
    /// Every site follows a bucket that no other follows, or one other, and everybody else wants something of it: one question
    /// after the other, so that none is a load to another.
    pub(super) fn seek_all(&mut self) {
        let sites = self.sites.len();
        for holder in 0..sites {
            let bucket = BucketId([0x60 + holder as u8; 16]);
            let others = [(holder + 2) % sites].into_iter().filter(|_| holder % 2 == 1);
            let followers: Vec<usize> = others.chain([holder]).collect();
            followers.iter().for_each(|site| self.submit_join(*site, bucket));
            self.go_until(self.queue.now().after(HEARD));
            for site in (0..sites).filter(|site| !followers.contains(site)) {
                let ticket = Ticket(u64::MAX / 4 + (holder * sites + site) as u64);
                self.seek(ticket, site, bucket);
                self.go_until(self.queue.now().after(ANSWERED));
            }
        }
        self.judge_finds();
    }

    /// Asks for something of a bucket, and who follows it.
    pub(super) fn seek(&mut self, ticket: Ticket, site: usize, bucket: BucketId) {
        let asked = self.queue.now();
        let members = (0..self.sites.len()).filter(|at| {
            self.running(*at).is_some_and(|running| *at != site && running.members.contains(&bucket))
        });
        let nearest = members.map(|at| self.net.rtt(site, at)).min();
        let k = self.running(site).map_or(1, |running| running.federation.areas().k);
        if let Some(nearest) = nearest {
            let find = Find { site, nearest, k, asked, bucket, took: None, gifts: 0 };
            self.finds.insert(ticket, find);
        }
        let wanted = Bytes::copy_from_slice(&ticket.0.to_be_bytes());
        self.input(site, Input::Seek { ticket, bucket, wanted });
    }

    /// A machine wants something given.
    pub(super) fn give(&mut self, from: usize, to: SiteId, (bucket, wanted): (BucketId, Bytes)) {
        let follows = self.running(from).is_some_and(|running| running.members.contains(&bucket));
        if !follows {
            let what = format!("is to give something of {bucket}, which it does not follow");
            self.violated(Violation::at("location", from, what));
        }
        let Some(to) = self.sites.iter().position(|place| place.id == to) else { return };
        let wire = self.wires.side(from, to);
        if !wire.up || self.environment.canary == Some(Canary::AskedAgain) {
            return;
        }
        self.count("gifts");
        let wire = wire.number;
        for at in self.net.send(self.queue.now(), from, to, GIFT_BYTES) {
            self.queue.plan(at, Event::Gift { from, to, wire, wanted: wanted.clone() });
        }
    }

    /// It arrives.
    pub(super) fn given(&mut self, (from, to): (usize, usize), wire: u64, wanted: &[u8]) {
        let side = self.wires.side(to, from);
        if !self.net.open(from, to) || !side.up || side.number != wire {
            return;
        }
        let Ok(number) = wanted.try_into() else { return };
        let ticket = Ticket(u64::from_be_bytes(number));
        self.tell(Who::Site(to), format_args!("is given {ticket:?} by site-{}", from + 1));
        if let Some(find) = self.finds.get_mut(&ticket) {
            find.gifts += 1;
        }
        self.first_byte(ticket, Duration::ZERO);
    }

    /// Who was named, and gives nothing by itself, is asked.
    pub(super) fn note_named(&mut self, ticket: Ticket, answer: &Answer) {
        let asks_all = self.environment.canary == Some(Canary::AskedAgain);
        match answer {
            Answer::Found { sites } => self.named(ticket, sites),
            Answer::Given { sites } if asks_all => self.named(ticket, sites),
            _ => {}
        }
    }

    fn named(&mut self, ticket: Ticket, sites: &[SiteId]) {
        let Some(find) = self.finds.get(&ticket) else { return };
        let first = sites.first().and_then(|site| self.sites.iter().position(|place| place.id == *site));
        let Some(at) = first else { return };
        let way = if at == find.site { Duration::ZERO } else { self.net.rtt(find.site, at) };
        self.first_byte(ticket, way);
    }

    fn first_byte(&mut self, ticket: Ticket, later: Duration) {
        let now = self.queue.now();
        if let Some(find) = self.finds.get_mut(&ticket) {
            let took = now.since(find.asked) + later;
            find.took = Some(find.took.map_or(took, |before| before.min(took)));
        }
    }

    /// Every first byte came in time.
    pub(super) fn judge_finds(&mut self) {
        let at_once = self.environment.finding.at_once;
        for find in std::mem::take(&mut self.finds).into_values() {
            let late = find.took.is_none_or(|took| took > find.bound(at_once));
            if late {
                let what = format!(
                    "has the first byte of {} after {:?}; the nearest member is at {:?}, and K {}",
                    find.bucket, find.took, find.nearest, find.k
                );
                self.violated(Violation::at("locality", find.site, what));
            }
            self.found_in.push(find);
        }
    }
}
