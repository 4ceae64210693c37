//! A question of this site: whom it asks, when, and what follows from the answers.
//!
//! *At once*: all landmarks at time 0; the first holder that answers wins; found within K·d. *In waves*: a landmark
//! at distance D at time D/2; found within 1.5·K·d, and a near find never reaches the far ones. A landmark that is
//! silent is asked again, and never keeps the next wave waiting. A holder that a landmark named and that stays silent
//! is named as an exception when the landmark is asked again.
//!
//! Invariants: every question ends once, at the latest after [`limits::FIND_TIMEOUT`]; "nobody" is said only if a
//! landmark of the top level has heard every living site and says so; after the end who was asked is told to stop.

use core::time::Duration;
use std::collections::BTreeMap;

use skerry_base::{BucketId, Instant, SiteId};
use skerry_federation::areas::{Coordinate, Landmark};

use super::limits;
use super::message::{Message, Said};

/// When landmarks are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Each when the elapsed time has reached half its distance: few messages.
    Waves,
    /// All at time 0: soonest.
    AtOnce,
}

impl Mode {
    /// How long after the start a landmark at this distance is asked.
    pub const fn wait(self, distance: Duration) -> Duration {
        match self {
            Self::Waves => Duration::from_nanos((distance.as_nanos() / 2) as u64),
            Self::AtOnce => Duration::ZERO,
        }
    }
}

/// How a question ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// This site holds it and has answered; on the wire its first bytes are there.
    At(SiteId),
    /// Nobody holds it: who should know has heard every living site.
    Nobody,
    /// These hold it, but none has answered.
    Silent(Vec<SiteId>),
    /// Who should know does not know yet, or could not be asked.
    NotYetKnown,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    /// Asked, or to be asked, when the time comes.
    Open,
    PassedOn(Vec<SiteId>),
    Said(Said),
    /// Asked as often as may be.
    Silent,
}

#[derive(Debug)]
struct Step {
    distance: Duration,
    due: Instant,
    tries: u8,
    state: State,
}

/// One question.
#[derive(Debug)]
pub struct Question {
    bucket: BucketId,
    ticket: u64,
    opened: Instant,
    steps: BTreeMap<SiteId, Step>,
    except: Vec<SiteId>,
    messages: usize,
}

impl Question {
    /// The plan. This site is among the landmarks if it is one of its own; the owner asks its own table then.
    pub fn new(bucket: BucketId, ticket: u64, landmarks: &[Landmark], mode: Mode, now: Instant) -> Self {
        let step = |landmark: &Landmark| {
            let due = now.after(mode.wait(landmark.distance));
            (landmark.site, Step { distance: landmark.distance, due, tries: 0, state: State::Open })
        };
        let steps = landmarks.iter().map(step).collect();
        Self { bucket, ticket, opened: now, steps, except: Vec::new(), messages: 0 }
    }

    /// Which bucket.
    pub const fn bucket(&self) -> BucketId {
        self.bucket
    }

    /// Its number on the wire.
    pub const fn ticket(&self) -> u64 {
        self.ticket
    }

    /// Questions sent so far.
    pub const fn messages(&self) -> usize {
        self.messages
    }

    fn deadline(&self) -> Instant {
        self.opened.after(limits::FIND_TIMEOUT)
    }

    /// When [`Self::due`] has something to do.
    pub fn next_wake(&self) -> Instant {
        let open = self.steps.values().filter(|step| matches!(step.state, State::Open | State::PassedOn(_)));
        let over = if self.all_said() { self.opened.after(limits::WAIT) } else { self.deadline() };
        open.map(|step| step.due).chain([over, self.deadline()]).min().unwrap_or(over)
    }

    /// Whom to ask now; `from` is where this site is.
    pub fn due(&mut self, now: Instant, from: Coordinate) -> Vec<(SiteId, Message)> {
        let mut out = Vec::new();
        for (site, step) in &mut self.steps {
            if step.due > now || !matches!(step.state, State::Open | State::PassedOn(_)) {
                continue;
            }
            if let State::PassedOn(holders) = &step.state {
                for holder in holders {
                    if self.except.len() < limits::EXCEPT && !self.except.contains(holder) {
                        self.except.push(*holder);
                    }
                }
            }
            step.state = if step.tries < limits::TRIES { State::Open } else { State::Silent };
            if step.state == State::Open {
                step.tries += 1;
                step.due = now.after(patience(step.distance));
                self.messages += 1;
                let (ticket, bucket, except) = (self.ticket, self.bucket, self.except.clone());
                out.push((*site, Message::Ask { ticket, bucket, from, except }));
            }
        }
        out
    }

    /// Takes an answer; the end of the question if that is it. `to` tells the round trip to a holder.
    pub fn said(
        &mut self,
        from: SiteId,
        said: Said,
        now: Instant,
        to: impl Fn(SiteId) -> Duration,
    ) -> Option<Found> {
        if said == Said::Member {
            return Some(Found::At(from));
        }
        let step = self.steps.get_mut(&from).filter(|step| step.tries > 0)?;
        step.state = match said {
            Said::PassedOn(mut holders) => {
                holders.truncate(2);
                // From the landmark to the holder is no farther than by way of here.
                let farthest = holders.iter().map(|holder| to(*holder)).max().unwrap_or_default();
                step.due = now.after(patience(step.distance + farthest));
                State::PassedOn(holders)
            }
            said => State::Said(said),
        };
        self.end(now)
    }

    fn all_said(&self) -> bool {
        self.steps.values().all(|step| matches!(step.state, State::Said(_) | State::Silent))
    }

    /// What can be concluded now, if anything.
    pub fn end(&self, now: Instant) -> Option<Found> {
        let whole = |step: &Step| step.state == State::Said(Said::No { whole: true });
        let pending = |step: &Step| matches!(step.state, State::Open | State::PassedOn(_));
        // Who was told a moment ago may know more than who has heard everybody: all are waited for, but for those
        // that stayed silent once.
        let waited = now >= self.opened.after(limits::WAIT);
        let over = now >= self.deadline() || (self.all_said() && waited);
        let late = |step: &Step| !pending(step) || (waited && step.tries > 1);
        let nobody = self.steps.values().any(whole) && self.except.is_empty();
        if nobody && (over || self.steps.values().all(late)) {
            return Some(Found::Nobody);
        }
        if !over {
            return None;
        }
        let named = self.steps.values().filter_map(|step| match &step.state {
            State::PassedOn(holders) => Some(holders.iter().copied()),
            _ => None,
        });
        let mut silent: Vec<SiteId> = named.flatten().chain(self.except.iter().copied()).collect();
        silent.sort_unstable();
        silent.dedup();
        Some(if silent.is_empty() { Found::NotYetKnown } else { Found::Silent(silent) })
    }

    /// Whom to tell that the question is over: who was asked and may still be at work for it.
    pub fn stop(&self, winner: Option<SiteId>) -> Vec<(SiteId, Message)> {
        let mut busy: Vec<SiteId> = Vec::new();
        for (site, step) in self.steps.iter().filter(|(_, step)| step.tries > 0) {
            match &step.state {
                State::Open => busy.push(*site),
                State::PassedOn(holders) => busy.extend(holders),
                State::Said(_) | State::Silent => {}
            }
        }
        busy.sort_unstable();
        busy.dedup();
        busy.retain(|site| Some(*site) != winner);
        busy.into_iter().map(|site| (site, Message::Cancel { ticket: self.ticket })).collect()
    }
}

/// How long an answer may take before the question is repeated.
fn patience(distance: Duration) -> Duration {
    limits::ASK_AGAIN + distance * 2
}
