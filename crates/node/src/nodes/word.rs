//! What the nodes of a site say to each other on a stream of their own: who they are, and then the machine's words.
//!
//! The stream lies on the link that the two nodes have as members of the federation. Its first byte, the version of these
//! words, is none that a question between sites begins with.
//!
//! Invariants: the order of variants and fields is the wire format of version 129, add at the end; a word is short, and one
//! that decodes is sound.

use serde::{Deserialize, Serialize};
use skerry_base::SiteId;
use skerry_base::codec::{self, DecodeError, Versioned};
use skerry_federation::site_view::{Ballot, Said, Seat, Start};

/// The longest word: a beat has about 80 bytes.
pub(super) const WORD_BYTES: usize = 4 << 10;

/// Who speaks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Hello {
    /// The site.
    pub(super) site: SiteId,
    /// The seat.
    pub(super) seat: Seat,
    /// How many seats the site has.
    pub(super) seats: u8,
    /// Drawn at the start of the process.
    pub(super) process: u64,
    /// What is durable there: which start, and the highest ballot that it promised to obey. None: it has no memory.
    pub(super) memory: Option<(Start, Ballot)>,
}

/// Why somebody is not listened to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub(super) enum Refusal {
    /// The answerer's site has one seat.
    #[error("it is configured as a site of one node (site.seats = 1)")]
    Alone,
    /// The answerer counts another number of seats.
    #[error("it counts {0} seats: site.seats must be the same at all nodes of a site")]
    Seats(u8),
    /// The roster there says otherwise.
    #[error("by its roster this machine does not fill this seat of the site")]
    Seat,
    /// It has met a later state of this disk, or another process that runs on a copy of it.
    #[error(
        "it remembers promises that this disk does not: the disk was restored from a backup or a snapshot, or another machine \
         runs with a copy of it. What this node remembers of the site's view is dropped; the other nodes take it in again"
    )]
    RolledBack,
}

/// A word.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Word {
    /// The first of who opens a stream.
    Hello(Hello),
    /// The only answer that lets the stream go on.
    Welcome,
    /// The other one.
    Refused(Refusal),
    /// What the machine says, in its own versioned form.
    Said(Vec<u8>),
}

impl Versioned for Word {
    const NAME: &'static str = "word within a site";
    const VERSION: u8 = 129;
}

/// Whether a stream's first frame is a word of ours, and no question between sites.
pub(crate) fn is_word(first: &[u8]) -> bool {
    first.first() == Some(&Word::VERSION)
}

impl Word {
    /// What a machine says.
    pub(super) fn said(said: &Said) -> Self {
        Self::Said(said.encode())
    }

    /// What a machine said, if this is that.
    pub(super) fn machine(&self) -> Result<Said, DecodeError> {
        match self {
            Self::Said(bytes) => Said::decode(bytes),
            _ => Err(DecodeError::Malformed { name: Self::NAME, reason: "no word of a machine".into() }),
        }
    }
}

/// Reads a word.
pub(super) fn decode(bytes: &[u8]) -> Result<Word, DecodeError> {
    codec::decode(bytes)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use skerry_federation::site_view::Message;

    fn samples() -> Vec<Word> {
        let seat = Seat::new(2).unwrap();
        let ballot = Ballot { round: 300, seat, start: Start { life: 1, boot: 9 } };
        let memory = Some((Start { life: 1, boot: 9 }, ballot));
        let hello = Hello { site: SiteId([7; 16]), seat, seats: 3, process: 500, memory };
        let said = Said { from: seat, start: Start { life: 1, boot: 9 }, message: Message::Prepare(ballot) };
        let refusals = [Refusal::Alone, Refusal::Seats(2), Refusal::Seat, Refusal::RolledBack];
        let mut words = vec![Word::Hello(Hello { memory: None, ..hello.clone() }), Word::Hello(hello)];
        words.push(Word::Welcome);
        words.extend(refusals.map(Word::Refused));
        words.push(Word::said(&said));
        words
    }

    /// Fixtures of version 129: must decode for ever.
    #[test]
    fn version_129_is_what_it_was() {
        let hex =
            |word: &Word| codec::encode(word).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let known = [
            "81000707070707070707070707070707070702".to_owned() + "03f40300",
            "81000707070707070707070707070707070702".to_owned() + "03f403010109ac02020109",
            "8101".into(),
            "810200".into(),
            "81020102".into(),
            "810202".into(),
            "810203".into(),
            "81030a01020109".to_owned() + "02ac02020109",
        ];
        assert_eq!(samples().iter().map(hex).collect::<Vec<_>>(), known);
        for word in samples() {
            assert_eq!(decode(&codec::encode(&word)), Ok(word));
        }
    }

    #[test]
    fn a_word_is_no_question_between_sites() {
        let words = samples();
        assert!(words.iter().all(|word| is_word(&codec::encode(word))));
        let question = codec::encode(&crate::peers::message::Request::Control);
        assert!(!is_word(&question) && decode(&question).is_err());
        let longest = words.iter().map(|word| codec::encode(word).len()).max().unwrap();
        assert!(longest < WORD_BYTES / 8);
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_break_the_reader(which in 0usize..8, at: usize, with: u8, tail: Vec<u8>) {
            let mut bytes = codec::encode(&samples()[which]);
            let at = at % bytes.len();
            bytes[at] = with;
            bytes.extend(tail.iter().take(usize::from(with % 2) * 8));
            if let Ok(word) = decode(&bytes) && let Ok(said) = word.machine() {
                proptest::prop_assert!(said.is_sound());
            }
        }
    }
}
