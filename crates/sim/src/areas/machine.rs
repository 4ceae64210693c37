//! All of areas as one machine: view, publisher, landmark and asker.
//!
//! Driven from outside: inputs come in, outputs are to be carried out, time is an argument, chance is the seed.
//!
//! Invariants: this site is never sent a message by itself; every question answers once; every table is bounded.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use skerry_base::{BucketId, Instant, SiteId};
use skerry_federation::areas::{Coordinate, Entry, Turn, View};

use super::ask::{Found, Mode, Question};
use super::landmark::{self, Around, Table};
use super::limits;
use super::message::{Message, Publish, Said};
use super::publish::Publisher;

/// What a site is.
#[derive(Debug, Clone, Copy)]
pub struct Config {
    /// Itself.
    pub site: SiteId,
    /// What it can carry; see [`skerry_federation::areas::level::weigh`].
    pub weight: u8,
    /// Of the federation: the same everywhere, for ever.
    pub seed: [u8; 32],
    /// Of this site: rises with every start.
    pub life: u64,
    /// K as a peer says; 1 at the first site.
    pub k: u8,
}

/// What happens to it.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// A site is in the roster and lives, or says something new of itself.
    Come(Entry),
    /// A site left, or is taken for dead.
    Gone(SiteId),
    /// A site has another address.
    Moved(SiteId),
    /// A site restarted, or is reached again: it may have forgotten what it was told.
    Returned(SiteId),
    /// A round trip measured here.
    Measured(SiteId, Duration),
    /// A round trip to here, measured there.
    Theirs(SiteId, Duration),
    /// This site holds a bucket from now on (true), or no more.
    Hold(BucketId, bool),
    /// Look for a bucket.
    Find {
        /// For the answer.
        ticket: u64,
        /// Which.
        bucket: BucketId,
        /// How.
        mode: Mode,
    },
    /// From another site.
    Message(SiteId, Message),
    /// Time has passed.
    Tick,
}

/// What it wants done.
#[derive(Debug, Clone, PartialEq)]
pub enum Output {
    /// To another site.
    Send(SiteId, Message),
    /// The end of a question.
    Found {
        /// Of the question.
        ticket: u64,
        /// How it ended.
        found: Found,
        /// Questions that it cost.
        messages: usize,
    },
    /// Measure the round trip to this site.
    Measure(SiteId),
    /// The landmarks changed.
    Turned(Turn),
    /// A peer sent what it may not.
    Refused(SiteId, &'static str),
}

/// The machine of one site.
#[derive(Debug)]
pub struct Areas {
    me: SiteId,
    view: View,
    publisher: Publisher,
    table: Table,
    questions: BTreeMap<u64, Question>,
    tickets: u64,
    alive: BTreeSet<SiteId>,
}

impl Areas {
    /// Of a site that starts now.
    pub fn new(config: Config, now: Instant) -> Self {
        Self {
            me: config.site,
            view: View::new(config.site, config.weight, config.seed, config.k),
            publisher: Publisher::new(config.life),
            table: Table::new(now),
            questions: BTreeMap::new(),
            tickets: 0,
            alive: BTreeSet::new(),
        }
    }

    /// What it sees.
    pub const fn view(&self) -> &View {
        &self.view
    }

    /// What it was told as a landmark.
    pub const fn table(&self) -> &Table {
        &self.table
    }

    /// What it tells.
    pub const fn publisher(&self) -> &Publisher {
        &self.publisher
    }

    /// Where it is; goes with its gossip.
    pub const fn coordinate(&self) -> &Coordinate {
        self.view.distances().own()
    }

    /// When to be called again at the latest.
    pub fn next_wake(&self) -> Option<Instant> {
        let questions = self.questions.values().map(Question::next_wake).min();
        let others = [self.view.next_wake(), self.publisher.next_wake(), self.table.next_wake()];
        others.into_iter().flatten().chain(questions).min()
    }

    /// Takes one input.
    pub fn handle(&mut self, input: Input, now: Instant, out: &mut Vec<Output>) {
        match input {
            Input::Come(entry) => self.come(entry, now, out),
            Input::Gone(site) => {
                self.alive.remove(&site);
                self.table.forget(site);
                self.view.gone(site, now);
            }
            Input::Moved(site) => self.view.moved(site, now),
            Input::Returned(site) => self.publisher.greet(site),
            Input::Measured(site, rtt) => self.view.measured(site, rtt, now),
            Input::Theirs(site, rtt) => self.view.theirs(site, rtt, now),
            Input::Hold(bucket, member) => self.hold(bucket, member, out),
            Input::Find { ticket, bucket, mode } => self.find(ticket, bucket, mode, now, out),
            Input::Message(from, message) => self.message(from, message, now, out),
            Input::Tick => {}
        }
        self.tick(now, out);
    }

    fn come(&mut self, entry: Entry, now: Instant, out: &mut Vec<Output>) {
        if !self.view.come(entry, now) {
            out.push(Output::Refused(entry.site, "more sites than a view may have"));
        } else if entry.site != self.me {
            self.alive.insert(entry.site);
        }
    }

    fn hold(&mut self, bucket: BucketId, member: bool, out: &mut Vec<Output>) {
        if !self.publisher.set(bucket, member) {
            out.push(Output::Refused(self.me, "more buckets than a site may hold"));
        } else if member {
            let served = self.table.serve(bucket, self.view.distances());
            out.extend(served.into_iter().map(|(to, message)| Output::Send(to, message)));
        }
    }

    fn tick(&mut self, now: Instant, out: &mut Vec<Output>) {
        if let Some(turn) = self.view.settle(now) {
            let landmarks: Vec<_> =
                self.view.landmarks().into_iter().filter(|landmark| landmark.site != self.me).collect();
            let view = &self.view;
            self.publisher.landmarks(&landmarks, |site| !view.knows(site));
            out.extend(self.view.doubtful().into_iter().map(Output::Measure));
            out.push(Output::Turned(turn));
        }
        out.extend(self.publisher.tell(now).into_iter().map(|(to, message)| Output::Send(to, message)));
        self.table.tick(now);
        let due: Vec<u64> = self
            .questions
            .iter()
            .filter(|(_, question)| question.next_wake() <= now)
            .map(|(ticket, _)| *ticket)
            .collect();
        due.into_iter().for_each(|ticket| self.go_on(ticket, now, out));
    }

    fn find(&mut self, ticket: u64, bucket: BucketId, mode: Mode, now: Instant, out: &mut Vec<Output>) {
        if self.publisher.holds(bucket) {
            out.push(Output::Found { ticket, found: Found::At(self.me), messages: 0 });
            return;
        }
        if self.questions.len() >= limits::QUESTIONS {
            out.push(Output::Found { ticket, found: Found::NotYetKnown, messages: 0 });
            return;
        }
        self.tickets += 1;
        let question = Question::new(bucket, self.tickets, &self.view.landmarks(), mode, now);
        self.questions.insert(ticket, question);
        self.go_on(ticket, now, out);
    }

    /// Asks who is due, this site's own table among them, and ends the question if that can be.
    fn go_on(&mut self, ticket: u64, now: Instant, out: &mut Vec<Output>) {
        let from = *self.coordinate();
        let Some(question) = self.questions.get_mut(&ticket) else { return };
        let asked = question.due(now, from);
        let ended = question.end(now);
        if let Some(found) = ended {
            return self.finish(ticket, found, out);
        }
        for (to, message) in asked {
            match message {
                Message::Ask { ticket, bucket, except, .. } if to == self.me => {
                    let own = landmark::Question { asker: to, ticket, bucket, from: Some(from), except };
                    self.answer(own, now, out);
                }
                message => out.push(Output::Send(to, message)),
            }
        }
    }

    fn finish(&mut self, ticket: u64, found: Found, out: &mut Vec<Output>) {
        let Some(question) = self.questions.remove(&ticket) else { return };
        let winner = if let Found::At(site) = found { Some(site) } else { None };
        for (to, message) in question.stop(winner) {
            if to == self.me {
                self.table.cancel(self.me, question.ticket());
            } else {
                out.push(Output::Send(to, message));
            }
        }
        out.push(Output::Found { ticket, found, messages: question.messages() });
    }

    fn message(&mut self, from: SiteId, message: Message, now: Instant, out: &mut Vec<Output>) {
        if !self.view.knows(from) {
            out.push(Output::Refused(from, "not in the roster"));
            return;
        }
        match message {
            Message::Publish(publish) => self.published(from, &publish, out),
            Message::Published { ticket, digest, .. } => {
                self.publisher.acknowledged(from, ticket, digest, now);
            }
            Message::Ask { ticket, bucket, from: at, except } => match at.checked() {
                Ok(at) if except.len() <= limits::EXCEPT => {
                    let question = landmark::Question { asker: from, ticket, bucket, from: Some(at), except };
                    self.answer(question, now, out);
                }
                _ => out.push(Output::Refused(from, "a question from nowhere, or with too many exceptions")),
            },
            Message::PassOn { ticket, bucket, asker } => self.passed_on(from, (ticket, bucket, asker), out),
            Message::Answer { ticket, bucket, said } => self.said(from, (ticket, bucket, said), now, out),
            Message::NotMember { bucket } => self.table.refute(from, bucket),
            Message::Cancel { ticket } => self.table.cancel(from, ticket),
        }
    }

    fn published(&mut self, from: SiteId, publish: &Publish, out: &mut Vec<Output>) {
        let Some(came) = self.table.take(from, publish) else {
            out.push(Output::Refused(from, "more buckets than a site may hold"));
            return;
        };
        let digest = self.table.digest(from, publish.life);
        let (ticket, life) = (publish.ticket, publish.life);
        out.push(Output::Send(from, Message::Published { ticket, life, digest }));
        for bucket in came {
            for (to, message) in self.table.serve(bucket, self.view.distances()) {
                if to != self.me {
                    out.push(Output::Send(to, message));
                }
            }
        }
    }

    fn answer(&mut self, question: landmark::Question, now: Instant, out: &mut Vec<Output>) {
        let (asker, ticket, bucket) = (question.asker, question.ticket, question.bucket);
        if self.publisher.holds(bucket) && !question.except.contains(&self.me) {
            out.push(Output::Send(asker, Message::Answer { ticket, bucket, said: Said::Member }));
            return;
        }
        let top = self.view.is_top();
        let around = Around { distances: self.view.distances(), top, alive: &self.alive, now };
        for (to, message) in self.table.ask(question, around) {
            match message {
                Message::Answer { ticket, bucket, said } if to == self.me => {
                    self.said(self.me, (ticket, bucket, said), now, out);
                }
                message => out.push(Output::Send(to, message)),
            }
        }
    }

    fn passed_on(&self, from: SiteId, asked: (u64, BucketId, SiteId), out: &mut Vec<Output>) {
        let (ticket, bucket, asker) = asked;
        let answer = match self.publisher.holds(bucket) {
            true => Output::Send(asker, Message::Answer { ticket, bucket, said: Said::Member }),
            false => Output::Send(from, Message::NotMember { bucket }),
        };
        if asker != self.me {
            out.push(answer);
        }
    }

    fn said(&mut self, from: SiteId, answer: (u64, BucketId, Said), now: Instant, out: &mut Vec<Output>) {
        let (wire, bucket, said) = answer;
        let distances = self.view.distances();
        let open =
            self.questions.iter_mut().find(|(_, open)| open.ticket() == wire && open.bucket() == bucket);
        let Some((&ticket, question)) = open else { return };
        if let Some(end) = question.said(from, said, now, |site| distances.to(site).rtt) {
            self.finish(ticket, end, out);
        }
    }
}
