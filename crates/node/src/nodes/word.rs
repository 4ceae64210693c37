//! What the nodes of a site say to each other on streams of their own: who they are, and then the machine's words; or one
//! question and its answer.
//!
//! The stream lies on the link that the two nodes have as members of the federation. Its first byte, the version of these
//! words, is none that a question between sites begins with.
//!
//! Version 129 was of nodes that agree on a view and hold nothing for each other, version 130 of such as answer for decisions
//! that they do not keep: with those there is no view in common, so that their words are refused.
//!
//! Invariants: the order of variants and fields is the wire format of version 131, add at the end; a word of the machine is
//! short, and one that decodes is sound.

use serde::{Deserialize, Serialize};
use skerry_base::SiteId;
use skerry_base::codec::{self, DecodeError, Versioned};
use skerry_federation::site_view::{Ballot, Said, Seat, Start};

use super::ask::{Ask, Told};

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
    #[error(
        "it counts {0} seats: site.seats must be the same at all nodes of a site. Set it to {0} here; where a start with that is \
         refused, the refusal says what to do"
    )]
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
    /// A question: the first and only word of who opens a stream.
    Ask(Box<Ask>),
    /// Its answer.
    Told(Told),
}

impl Versioned for Word {
    const NAME: &'static str = "word within a site";
    const VERSION: u8 = 131;
}

/// The versions before.
const FORMER: core::ops::Range<u8> = 129..Word::VERSION;

/// Whether a stream's first frame is a word of ours, and no question between sites.
pub(crate) fn is_word(first: &[u8]) -> bool {
    is_former(first) || first.first() == Some(&Word::VERSION)
}

/// Whether it is one of a release that knows versions before only.
pub(super) fn is_former(first: &[u8]) -> bool {
    first.first().is_some_and(|version| FORMER.contains(version))
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
    use bytes::Bytes;
    use skerry_base::{BucketId, Dot, NodeId, Origin, Vector, WallTime};
    use skerry_federation::site_view::Message;
    use skerry_model::multipart::UploadId;

    use super::super::ask::{After, Begun, Held, ListedUpload, Uploads};
    use crate::peers::message::{Hold, List, Page, Which};

    const BUCKET: &str = "03030303030303030303030303030303";
    /// Of node 7.
    const UPLOAD: &str = "0707070707070707070707070707070705050505050505050505050505050505";
    /// Of node 9 in its life 300: its seventh.
    const DOT: &str = "09090909090909090909090909090909ac0207";

    /// Questions and answers.
    fn exchanged() -> Vec<Word> {
        let bucket = BucketId([3; 16]);
        let dot = Dot { origin: Origin { node: NodeId([9; 16]), incarnation: 300 }, seq: 7 };
        let (record, vector) = (Bytes::from_static(b"r"), Vector::from_iter([(dot.origin, 7)]));
        let hold = Hold { bucket, record: record.clone(), payload: vec![Bytes::from_static(b"xy")] };
        let list = List {
            bucket,
            prefix: "p".into(),
            delimiter: None,
            after: String::new(),
            after_version: None,
            limit: 9,
        };
        let uploads = Uploads {
            bucket,
            prefix: "p".into(),
            delimiter: Some("/".into()),
            after: "p".into(),
            after_upload: Some("u".into()),
            limit: 300,
        };
        let id = UploadId { site: SiteId([7; 16]), draw: [5; 16] };
        let begun = Begun { id, started: WallTime(300), writer: "w".into() };
        let listed = vec![
            ListedUpload { key: "k".into(), upload: Some(begun) },
            ListedUpload { key: "p/".into(), upload: None },
        ];
        let asks = [
            Ask::Hold { epoch: Some(300), is_bound: true, hold },
            Ask::Holdings { epoch: 5, after: Some(After { bucket, loose: Some(dot) }), all: true },
            Ask::Heads { bucket, key: "k".into(), version: Some(Which::Null) },
            Ask::Page { list, versions: true },
            Ask::Have { epoch: 300, bucket, records: vec![record.clone()] },
            Ask::Gaps { epoch: 300 },
            Ask::Uploads(uploads),
        ];
        let held = Held { bucket, vector, loose: vec![(record.clone(), true)] };
        let told = [
            Told::Held,
            Told::Holding(300),
            Told::Holdings(vec![held], None),
            Told::Heads(vec![record]),
            Told::Page(Page { entries: Vec::new(), more: true }),
            Told::Not("no".into()),
            Told::Never("no".into()),
            Told::Gaps(vec![bucket]),
            Told::Uploads(listed, true),
        ];
        asks.map(|ask| Word::Ask(Box::new(ask))).into_iter().chain(told.map(Word::Told)).collect()
    }

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
        words.extend(exchanged());
        words
    }

    /// Fixtures of version 131: must decode for ever.
    #[test]
    fn version_131_is_what_it_was() {
        let hex = |word: &Word| skerry_base::hex::text(&codec::encode(word));
        let known = [
            "83000707070707070707070707070707070702".to_owned() + "03f40300",
            "83000707070707070707070707070707070702".to_owned() + "03f403010109ac02020109",
            "8301".into(),
            "830200".into(),
            "83020102".into(),
            "830202".into(),
            "830203".into(),
            "83030a01020109".to_owned() + "02ac02020109",
            "83040001ac0201".to_owned() + BUCKET + "017201027879",
            "8304010501".to_owned() + BUCKET + "01" + DOT + "01",
            "830402".to_owned() + BUCKET + "016b0101",
            "830403".to_owned() + BUCKET + "01700000000901",
            "830404ac02".to_owned() + BUCKET + "010172",
            "830405ac02".into(),
            "830406".to_owned() + BUCKET + "017001012f" + "0170010175ac02",
            "830500".into(),
            "830501ac02".into(),
            "83050201".to_owned() + BUCKET + "01" + DOT + "0101720100",
            "830503010172".into(),
            "8305040001".into(),
            "830505026e6f".into(),
            "830506026e6f".into(),
            "83050701".to_owned() + BUCKET,
            "83050802016b01".to_owned() + UPLOAD + "ac020177" + "02702f0001",
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
        for version in [129, 130] {
            let former = [&[version], &codec::encode(&Word::Welcome)[1..]].concat();
            assert!(is_word(&former) && is_former(&former) && decode(&former).is_err());
        }
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_break_the_reader(which in 0usize..24, at: usize, with: u8, tail: Vec<u8>) {
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
