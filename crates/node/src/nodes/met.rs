//! Whom this node met: what each other one had promised when it last said so. So a disk that was rolled back (a restored
//! backup, a snapshot) or cloned is told from one that was only restarted.
//!
//! An acceptor that forgot what it promised breaks the register without anybody's noticing; who meets it again knows better.
//! Whether a disk went back or has a twin cannot be told from outside, and need not: its memory is worth nothing.
//!
//! Invariants: what is remembered of a life of a seat only grows; a machine without memory has nothing to forget and is
//! always let in.

use serde::{Deserialize, Serialize};
use skerry_base::codec::{self, DecodeError, Versioned};
use skerry_federation::site_view::{Ballot, Message, Said, Start, limits};

use super::word::{Hello, Refusal};

/// One seat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
struct Known {
    start: Start,
    process: u64,
    promised: Ballot,
}

/// By seat.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct Met([Option<Known>; limits::SEATS]);

impl Versioned for Met {
    const NAME: &'static str = "stored acquaintances";
    /// Of version 1 are those of the register before ([`super::memory`]): what was promised there binds nobody here.
    const VERSION: u8 = 2;
}

impl Met {
    /// Reads what is stored.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        if bytes.first() == Some(&1) { Ok(Self::default()) } else { codec::decode(bytes) }
    }

    /// A node says who it is. Whether something new was learned, or why it is not listened to.
    pub(super) fn greet(&mut self, hello: &Hello) -> Result<bool, Refusal> {
        let Some((start, promised)) = hello.memory else { return Ok(false) };
        let Some(known) = self.0.get_mut(hello.seat.index()) else { return Ok(false) };
        let now = Known { start, process: hello.process, promised };
        if let Some(before) = known.filter(|before| before.start.life >= start.life) {
            let is_copy = before.start == start && before.process != hello.process;
            if is_copy || start < before.start || promised < before.promised {
                return Err(Refusal::RolledBack);
            }
        }
        let is_news = *known != Some(now);
        *known = Some(now);
        Ok(is_news)
    }

    /// A node that was let in says something. Whether something new was learned.
    pub(super) fn heard(&mut self, process: u64, said: &Said) -> bool {
        let promised = match said.message {
            Message::Promise(ballot, _) | Message::Accepted(ballot) => ballot,
            _ => Ballot::default(),
        };
        let Some(known) = self.0.get_mut(said.from.index()) else { return false };
        let fresh = Known { start: said.start, process, promised };
        let now = match *known {
            Some(before) if before.start.life == said.start.life => Known {
                start: before.start.max(said.start),
                promised: before.promised.max(promised),
                ..if before.start < said.start { fresh } else { before }
            },
            Some(before) if before.start.life > said.start.life => before,
            // A machine without memory says so with no start at all.
            _ if said.start == Start::default() => return false,
            _ => fresh,
        };
        let is_news = *known != Some(now);
        *known = Some(now);
        is_news
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use skerry_base::SiteId;
    use skerry_federation::site_view::Seat;

    fn start(life: u32, boot: u64) -> Start {
        Start { life, boot }
    }

    fn ballot(round: u64) -> Ballot {
        Ballot { round, ..Ballot::default() }
    }

    fn hello(start: Start, round: u64, process: u64) -> Hello {
        let seat = Seat::new(1).unwrap();
        Hello { site: SiteId([1; 16]), seat, seats: 3, process, memory: Some((start, ballot(round))) }
    }

    fn said(start: Start, message: Message) -> Said {
        Said { from: Seat::new(1).unwrap(), start, message }
    }

    #[test]
    fn a_restart_is_welcome_and_a_disk_that_went_back_is_not() {
        let mut met = Met::default();
        assert_eq!(met.greet(&hello(start(0, 5), 3, 50)), Ok(true));
        assert_eq!(met.greet(&hello(start(0, 5), 3, 50)), Ok(false), "another stream of the same process");
        assert!(met.heard(50, &said(start(0, 5), Message::Accepted(ballot(4)))));
        assert!(!met.heard(50, &said(start(0, 5), Message::Accepted(ballot(4)))));
        assert_eq!(met.greet(&hello(start(0, 6), 4, 60)), Ok(true));
        // A snapshot that was taken before the last promise, started once more than ever before.
        assert_eq!(met.greet(&hello(start(0, 7), 3, 70)), Err(Refusal::RolledBack));
        assert_eq!(met.greet(&hello(start(0, 5), 9, 50)), Err(Refusal::RolledBack));
        // It forgets what it had, and the others take it in as a new life.
        let blank = Hello { memory: None, ..hello(start(0, 0), 0, 70) };
        assert_eq!(met.greet(&blank), Ok(false));
        assert!(met.heard(70, &said(start(1, 1), Message::Prepare(ballot(1)))));
        assert_eq!(met.greet(&hello(start(1, 1), 1, 70)), Ok(true));
        assert_eq!(met.greet(&hello(start(0, 9), 9, 90)), Err(Refusal::RolledBack), "whom it replaced");
    }

    #[test]
    fn of_two_machines_with_one_disk_the_second_is_refused() {
        let mut met = Met::default();
        assert_eq!(met.greet(&hello(start(0, 5), 3, 50)), Ok(true));
        assert_eq!(met.greet(&hello(start(0, 5), 3, 51)), Err(Refusal::RolledBack));
    }

    /// Fixture of version 2: must decode for ever.
    #[test]
    fn version_2_is_what_it_was() {
        let mut met = Met::default();
        met.greet(&hello(start(1, 5), 300, 7)).unwrap();
        let bytes = codec::encode(&met);
        let hex = skerry_base::hex::text(&bytes);
        assert_eq!(hex, "020001010507ac020000000000");
        assert_eq!(Met::decode(&bytes), Ok(met));
        let former = [&[1], &bytes[1..]].concat();
        assert_eq!(Met::decode(&former), Ok(Met::default()), "promises in another register");
        assert!(Met::decode(&[3]).is_err());
    }
}
