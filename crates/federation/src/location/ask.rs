//! This site's own questions: waves, repetitions, and what is concluded from the answers.
//!
//! With one level everybody is asked, and everybody must say "no". With more, every linked landmark that everybody tells
//! must say that it has heard everybody and knows of nobody: one alone may have missed what was published. The others are
//! waited for a moment, who may have been told just now.
//!
//! Who wants something of the nearest member ([`crate::Input::Seek`]) says with the question what it is, and the first that
//! answers gives it. With more than one level those that are known here need not be the nearest: a site hears of what is far and
//! not of what is near where the near one has its landmarks nearer still. So the nearest known is asked at once, as a landmark
//! would be, and the landmarks as ever; whoever answers first is the nearest, and is taken for it for a while.
//!
//! Invariants: every question is answered once, at the latest after [`limits::LOCATE_TIMEOUT`]; "unknown" is
//! said only if every landmark that could be asked and must know said "no", and none has named a member.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use skerry_base::{BucketId, Instant, SiteId};

use super::sought::Sought;
use crate::context::Context;
use crate::message::{Message, Said, Seek};
use crate::{Answer, Output, Ticket, limits};

/// Times that one landmark is asked one question.
const TRIES: u8 = 3;

/// Members by what is known here.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// Nearest first.
    pub(super) reachable: Vec<SiteId>,
    /// No link to them.
    pub(super) apart: BTreeSet<SiteId>,
    /// With more than one level: whom this site has not heard, if everybody tells it and it has heard all who live.
    pub(super) unheard: Option<BTreeSet<SiteId>>,
}

/// A question that is to be asked.
pub(super) struct Search {
    pub(super) ticket: Ticket,
    pub(super) bucket: BucketId,
    /// What the nearest member is to give.
    pub(super) wanted: Option<Bytes>,
    /// Who is asked, and how long after the question.
    pub(super) plan: Vec<(Duration, SiteId)>,
    pub(super) known: Known,
    /// This site knows of every member, or is one.
    pub(super) knows_all: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Reply {
    No,
    NotYet,
    Known,
    NotHere,
    NotHeard(BTreeSet<SiteId>),
}

#[derive(Debug)]
struct Asked {
    /// When it is (or was last) asked; asked again then if it has not replied.
    due: Instant,
    tries: u8,
    reply: Option<Reply>,
    /// The member that it passed the question on to last.
    passed_on: Option<SiteId>,
}

#[derive(Debug)]
struct Question {
    bucket: BucketId,
    wire: u64,
    opened: Instant,
    asked: BTreeMap<SiteId, Asked>,
    apart: BTreeSet<SiteId>,
    one_level: bool,
    wanted: Option<Bytes>,
    /// Until then members that are merely known here end nothing: there may be one nearer.
    searches_until: Option<Instant>,
    /// The first member that answered.
    heard: Option<SiteId>,
    /// Whether it gives what is wanted.
    gives: bool,
}

impl Question {
    /// Whether members that are known here are not enough yet.
    fn is_searching(&self, now: Instant) -> bool {
        self.heard.is_none() && self.searched_until().is_some_and(|until| now < until)
    }

    /// Until when members that are known here end nothing; never beyond the deadline.
    fn searched_until(&self) -> Option<Instant> {
        self.searches_until.map(|until| until.min(self.deadline()))
    }

    /// The members that were found: who answered first, then the nearest.
    fn found(&self, known: &Known) -> Answer {
        let others = known.reachable.iter().copied().filter(|site| Some(*site) != self.heard);
        let sites = self.heard.into_iter().chain(others).take(limits::FOUND).collect();
        if self.gives { Answer::Given { sites } } else { Answer::Found { sites } }
    }

    const fn waited(&self) -> Instant {
        self.opened.after(limits::WAIT)
    }

    const fn deadline(&self) -> Instant {
        self.opened.after(limits::LOCATE_TIMEOUT)
    }

    fn all_replied(&self) -> bool {
        self.asked.values().all(|asked| asked.reply.is_some())
    }

    fn all_no(&self) -> bool {
        self.asked.values().all(|asked| asked.reply == Some(Reply::No))
    }

    fn next_wake(&self) -> Instant {
        let open = self.asked.values().filter(|asked| asked.reply.is_none() && asked.tries < TRIES);
        // While it searches no reply ends it but a member's own, which is heard when it comes.
        let end = match (self.searched_until(), self.all_replied()) {
            (Some(until), _) => until,
            (None, true) => self.waited(),
            (None, false) => self.deadline(),
        };
        open.map(|asked| asked.due).chain([end]).min().unwrap_or(end)
    }

    /// What can be concluded now, if anything.
    fn conclusion(&self, known: &Known, cx: &Context<'_>) -> Option<Answer> {
        if !known.reachable.is_empty() {
            return (!self.is_searching(cx.now)).then(|| self.found(known));
        }
        let over = cx.now >= self.deadline() || (self.all_replied() && cx.now >= self.waited());
        let unasked = match self.one_level || self.asked.is_empty() {
            true => self.all_no().then(|| self.unasked(cx)),
            false => self.unheard(known).filter(|_| !self.is_doubted(cx)),
        };
        let settled = unasked.is_some() && self.is_settled(cx.now);
        if !over && !settled {
            return None;
        }
        let apart: BTreeSet<SiteId> =
            self.apart.union(&known.apart).copied().chain(self.passed_on()).collect();
        if !apart.is_empty() {
            return Some(Answer::Unreachable { sites: apart.into_iter().take(limits::FOUND).collect() });
        }
        Some(unasked.map_or(Answer::NotYetKnown, |unasked| Answer::Unknown { unasked }))
    }

    /// Whether nobody is waited for who could still change the answer.
    fn is_settled(&self, now: Instant) -> bool {
        let late = |asked: &Asked| asked.tries > 1 && now >= self.waited();
        self.asked.values().all(|asked| asked.reply.is_some() || (!self.one_level && late(asked)))
    }

    /// Whether a landmark that must know, and can be asked, has not said that there is nobody; or any has named a member.
    fn is_doubted(&self, cx: &Context<'_>) -> bool {
        let doubts = |(site, asked): (&SiteId, &Asked)| {
            let silent = matches!(asked.reply, None | Some(Reply::NotYet));
            asked.passed_on.is_some() || (silent && cx.peers.is_top(*site))
        };
        self.asked.iter().any(doubts)
    }

    /// Members that were asked by who knows them, and have not answered.
    fn passed_on(&self) -> impl Iterator<Item = SiteId> {
        self.asked.values().filter_map(|asked| asked.passed_on)
    }

    fn unasked(&self, cx: &Context<'_>) -> Vec<SiteId> {
        let unasked = cx.peers.roster().iter().filter(|site| !self.asked.contains_key(site));
        unasked.copied().collect()
    }

    /// Who was heard by none of those that everybody tells; nothing if none of them could say.
    fn unheard(&self, known: &Known) -> Option<Vec<SiteId>> {
        let said = self.asked.values().filter_map(|asked| match &asked.reply {
            Some(Reply::NotHeard(unheard)) => Some(unheard),
            _ => None,
        });
        let mut said = said.chain(&known.unheard);
        let first = said.next()?.clone();
        let all = said.fold(first, |all, unheard| all.intersection(unheard).copied().collect());
        let replied = |site: &SiteId| self.asked.get(site).is_some_and(|asked| asked.reply.is_some());
        Some(all.into_iter().filter(|site| !replied(site)).collect())
    }
}

/// Open questions by the shell's ticket.
#[derive(Debug, Default)]
pub(super) struct Questions {
    open: BTreeMap<Ticket, Question>,
    sought: Sought,
}

impl Questions {
    pub(super) fn is_bounded(&self) -> bool {
        self.open.len() <= limits::QUESTIONS
    }

    pub(super) fn next_wake(&self) -> Option<Instant> {
        self.open.values().map(Question::next_wake).min()
    }

    pub(super) fn due(&self, now: Instant) -> Vec<(Ticket, BucketId)> {
        let due = self.open.iter().filter(|(_, question)| question.next_wake() <= now);
        due.map(|(ticket, question)| (*ticket, question.bucket)).collect()
    }

    pub(super) fn is_open(&self, wire: u64, bucket: BucketId) -> bool {
        self.open.values().any(|question| question.wire == wire && question.bucket == bucket)
    }

    pub(super) fn open(&mut self, search: Search, cx: &mut Context<'_>) {
        let Search { ticket, bucket, wanted, plan, known, knows_all } = search;
        if self.open.len() >= limits::QUESTIONS && known.reachable.is_empty() {
            cx.stats.located += 1;
            cx.out.push(Output::Located { ticket, answer: Answer::NotYetKnown });
            return;
        }
        let asked =
            |(wait, site)| (site, Asked { due: cx.now.after(wait), tries: 0, reply: None, passed_on: None });
        let mut asked: BTreeMap<SiteId, Asked> = plan.into_iter().map(asked).collect();
        let is_enough =
            wanted.is_none() || knows_all || self.sought.is_known(bucket, &known.reachable, cx.now);
        let nearest = known.reachable.first().copied().filter(|_| !is_enough);
        if let Some(nearest) = nearest {
            let at_once = Asked { due: cx.now, tries: 0, reply: None, passed_on: None };
            asked.insert(nearest, at_once);
        }
        let question = Question {
            bucket,
            wire: cx.ticket().0,
            opened: cx.now,
            asked,
            apart: BTreeSet::new(),
            one_level: cx.peers.one_level(),
            wanted,
            searches_until: nearest.map(|site| cx.now.after(limits::WAIT + cx.peers.rtt(site))),
            heard: None,
            gives: false,
        };
        self.open.insert(ticket, question);
        self.tick(ticket, known, cx);
    }

    /// Asks who is due, and concludes if possible.
    pub(super) fn tick(&mut self, ticket: Ticket, known: Known, cx: &mut Context<'_>) {
        let Some(question) = self.open.get_mut(&ticket) else { return };
        if let Some(answer) = question.conclusion(&known, cx) {
            self.open.remove(&ticket);
            cx.stats.located += 1;
            cx.out.push(Output::Located { ticket, answer });
            return;
        }
        // Those that were known end it, and were not found by asking.
        question.searches_until = question.searches_until.filter(|until| cx.now < *until);
        let (wire, bucket) = (question.wire, question.bucket);
        for (site, asked) in &mut question.asked {
            if asked.reply.is_none() && asked.tries < TRIES && asked.due <= cx.now {
                asked.tries += 1;
                asked.due = cx.now.after(patience(cx, *site));
                let knows = cx.peers.speaks_at_least(*site, limits::SEEKS);
                cx.send(
                    *site,
                    match question.wanted.clone().filter(|_| knows) {
                        Some(wanted) => Message::Seek(Seek { ticket: wire, bucket, wanted }),
                        None => Message::Locate { ticket: wire, bucket },
                    },
                );
            }
        }
    }

    /// Takes an answer and concludes if possible.
    pub(super) fn said(&mut self, from: SiteId, wire: u64, said: Said, known: Known, cx: &mut Context<'_>) {
        let found = self.open.iter_mut().find(|(_, question)| question.wire == wire);
        let Some((&ticket, question)) = found else { return cx.stale() };
        let mut known = known;
        let patience = patience(cx, from);
        let mut asked = question.asked.get_mut(&from);
        if let Some(asked) = &mut asked {
            asked.passed_on = None;
        }
        let gives = said == Said::Giving;
        match (said, asked) {
            (Said::Member | Said::Giving, _) => {
                if !known.reachable.contains(&from) {
                    known.reachable.push(from);
                }
                question.heard = Some(from);
                question.gives = gives;
                if question.wanted.is_some() {
                    self.sought.found(question.bucket, from, cx.now);
                }
            }
            (Said::PassedOn(to), Some(asked)) => {
                asked.due = cx.now.after(patience);
                asked.passed_on = Some(to);
            }
            (Said::Known(sites), Some(asked)) => {
                asked.reply = Some(Reply::Known);
                question.apart.extend(sites);
            }
            (Said::NotYet, Some(asked)) => asked.reply = Some(Reply::NotYet),
            (Said::No, Some(asked)) => asked.reply = Some(Reply::No),
            (Said::NotHere, Some(asked)) => asked.reply = Some(Reply::NotHere),
            (Said::NotHeard(sites), Some(asked)) => {
                asked.reply = Some(Reply::NotHeard(sites.into_iter().collect()));
            }
            (_, None) => return cx.refuse(from, "an answer of a site that was not asked"),
        }
        self.tick(ticket, known, cx);
    }
}

/// How long an answer may take before the question is repeated.
fn patience(cx: &Context<'_>, site: SiteId) -> Duration {
    limits::ASK_AGAIN + cx.peers.rtt(site) * 2
}

#[cfg(test)]
#[path = "ask_tests.rs"]
mod tests;
