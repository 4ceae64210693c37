//! How the words of this machine travel between the nodes of a site, and how its memory lies on their disks: one version
//! byte, then postcard.
//!
//! Seats that are vacant ([`super::View::vacant`]) lie in bits that no release before used.
//!
//! Invariants: the order of variants and fields is the encoding of version 1: add at the end, never reorder; what decodes
//! is within [`MOST`], so that no number of another node's making overflows here; a view that decodes could have been
//! agreed on.

use skerry_base::codec::{self, DecodeError, Versioned};

use super::message::{Message, Said, Term};
use super::register::{Ballot, Durable, Start};
use super::view::View;

/// The highest epoch, round, number of a beat or of a start: a thousand a second reach it after millions of years.
const MOST: u64 = 1 << 60;
/// The most machines in one seat, one after the other.
const LIVES: u32 = 1 << 30;

impl Versioned for Durable {
    const NAME: &'static str = "memory of a site's view";
    const VERSION: u8 = 1;
}

impl Versioned for Said {
    const NAME: &'static str = "word about a site's view";
    const VERSION: u8 = 1;
}

impl Durable {
    /// The stored form.
    pub fn encode(&self) -> Vec<u8> {
        codec::encode(self)
    }

    /// Reads a stored form.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let memory: Self = codec::decode(bytes)?;
        let sound = start(memory.start)
            && ballot(memory.promised)
            && accepted(&memory.accepted)
            && memory.accepted.0 <= memory.promised;
        checked(memory, sound)
    }
}

impl Said {
    /// The form on the wire.
    pub fn encode(&self) -> Vec<u8> {
        codec::encode(self)
    }

    /// Reads a form of the wire.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let said: Self = codec::decode(bytes)?;
        checked(said, said.is_sound())
    }

    /// Whether what decoded could have been said by a machine of ours.
    pub fn is_sound(&self) -> bool {
        start(self.start) && message(&self.message)
    }
}

fn checked<T: Versioned>(value: T, is_sound: bool) -> Result<T, DecodeError> {
    let reason = || "numbers or a view that no machine makes".to_owned();
    if is_sound { Ok(value) } else { Err(DecodeError::Malformed { name: T::NAME, reason: reason() }) }
}

const fn start(start: Start) -> bool {
    start.life <= LIVES && start.boot <= MOST
}

const fn ballot(ballot: Ballot) -> bool {
    ballot.round <= MOST && start(ballot.start)
}

const fn term(term: Term) -> bool {
    term.number <= MOST && start(term.start)
}

fn view(view: &View) -> bool {
    view.epoch <= MOST
        && !view.live.is_empty()
        && view.live.and(view.joining.or(view.vacant)).is_empty()
        && view.occupants.iter().all(|occupant| occupant.life <= LIVES)
}

fn accepted((under, value): &(Ballot, View)) -> bool {
    ballot(*under) && view(value)
}

fn message(message: &Message) -> bool {
    match message {
        Message::Beat { number, asks, chosen, condition } => {
            let epochs = [*asks, condition.ready].into_iter().flatten().all(|epoch| epoch <= MOST);
            *number <= MOST && epochs && chosen.as_ref().is_none_or(accepted)
        }
        Message::Answer { number, .. } | Message::Blank { number, .. } => *number <= MOST,
        Message::Prepare(under) | Message::Accepted(under) => ballot(*under),
        Message::Promise(under, value) => ballot(*under) && accepted(value),
        Message::Release(under, released) => ballot(*under) && term(*released),
        Message::Accept(under, value, released) => {
            ballot(*under) && view(value) && released.iter().flatten().all(|released| term(*released))
        }
        Message::Refuse { ballot: under, promised } => ballot(*under) && ballot(*promised),
        Message::Admit(_, value) => accepted(value),
    }
}

#[cfg(test)]
#[path = "wire_tests.rs"]
mod tests;
