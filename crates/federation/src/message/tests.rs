//! Fixtures of version 1, refusals, hostile bytes.
#![expect(clippy::unwrap_used, reason = "tests")]

use proptest::prelude::{ProptestConfig, any, prop_assert, proptest};
use skerry_base::hex;
use skerry_base::{Dot, NodeId, Origin};

use super::{
    Batch, Bytes, Census, Compare, Fingerprint, Gather, Gathered, Holding, Loose, Membership, Message, Place,
    Probe, Publish, Pull, Refusal, Rolls, Said, Seek, Span, Vector, Verdict,
};
use crate::areas::Coordinate;
use crate::{FeedItem, limits};
use skerry_base::{BucketId, SiteId};

const ORIGIN: Origin = Origin { node: NodeId([7; 16]), incarnation: 3 };
const BUCKET: BucketId = BucketId([1; 16]);

fn dot(seq: u64) -> Dot {
    Dot { origin: ORIGIN, seq }
}

fn vector(seq: u64) -> Vector {
    Vector::from_iter([(ORIGIN, seq)])
}

fn item(seq: u64) -> FeedItem {
    FeedItem {
        dot: dot(seq),
        record: Bytes::from_static(b"record"),
        bodies: vec![Bytes::from_static(b"body")],
    }
}

fn batch() -> Batch {
    Batch {
        ticket: 300,
        bucket: BUCKET,
        source: ORIGIN,
        index: 1,
        last: true,
        items: vec![item(4), item(6)],
        upto: vector(6),
        end: true,
        vector: vector(6),
        horizon: vector(2),
        doubt: Vector::new(),
    }
}

fn place() -> Message {
    let coordinate = Coordinate::default().to_bytes();
    Message::Place(Place { coordinate, k: 2, rtt_micros: 40_000 })
}

fn rolls(unheard: Option<Vec<SiteId>>) -> Rolls {
    Rolls { ticket: 300, rolls: vec![(BUCKET, vec![SiteId([2; 16])])], unheard, more: false }
}

/// One of each, in order of the wire; what came with dialect 2 at the end.
fn samples() -> Vec<Message> {
    let span = Span { origin: ORIGIN, first: 1, last: 256 };
    let print = Fingerprint::from_iter([dot(1), dot(2)]);
    let (ticket, bucket) = (300, BUCKET);
    let change = Membership { bucket, version: 9, member: true };
    let said = |said| Message::Said { ticket, bucket, said };
    let compared = |verdict| Message::Compared { ticket, bucket, doubt: vector(5), verdict };
    vec![
        Message::Swim(Bytes::from_static(b"packet")),
        Message::Pull(Pull { ticket, bucket, seen: vector(3), max_bytes: 65_536, batches: 8 }),
        Message::Batch(batch()),
        Message::PullRefused { ticket, bucket, reason: Refusal::NotMember },
        Message::PullRefused { ticket, bucket, reason: Refusal::Busy },
        Message::News { bucket, vector: vector(6) },
        Message::Check { listen: true, entries: vec![(bucket, 77)] },
        Message::Compare(Compare { ticket, bucket, limit: vector(6), all: print }),
        compared(Verdict::Equal),
        compared(Verdict::Differs(vec![print])),
        compared(Verdict::Beyond(vector(2))),
        compared(Verdict::Unfit),
        Message::Probe(Probe { ticket, bucket, spans: vec![span] }),
        Message::Probed {
            ticket,
            bucket,
            doubt: vector(5),
            holdings: vec![Holding::Children(vec![print]), Holding::Dots(vec![0, 3])],
        },
        Message::Dead { bucket, vector: vector(6), dots: vec![dot(2)] },
        Message::Publish(Publish { ticket, life: 5, changes: vec![change], digest: 99 }),
        Message::Published { ticket, life: 5, digest: 99 },
        Message::Locate { ticket, bucket },
        Message::PassOn { ticket, bucket, asker: SiteId([2; 16]) },
        said(Said::Member),
        said(Said::PassedOn(SiteId([2; 16]))),
        said(Said::Known(vec![SiteId([2; 16])])),
        said(Said::NotYet),
        said(Said::No),
        Message::NotMember { bucket },
        Message::Loose {
            bucket,
            answer: true,
            loose: vec![Loose { origin: ORIGIN, covered: 3, print: Fingerprint::from_iter([dot(5)]) }],
        },
        Message::Gather(Gather {
            ticket,
            bucket,
            span: Span { origin: ORIGIN, first: 4, last: u64::MAX },
            have: vec![0, 2],
            max_bytes: 65_536,
        }),
        Message::Gathered(Gathered { ticket, bucket, items: vec![item(5)], upto: u64::MAX }),
        Message::Check { listen: false, entries: Vec::new() },
        Message::Batch(Batch {
            ticket: Batch::FRESH,
            index: 0,
            items: vec![item(6)],
            horizon: Vector::new(),
            ..batch()
        }),
        said(Said::NotHere),
        said(Said::NotHeard(vec![SiteId([2; 16])])),
        place(),
        Message::Withdraw { ticket },
        Message::Census(Census { ticket, entries: vec![(bucket, 77)] }),
        Message::Rolls(rolls(Some(vec![SiteId([3; 16])]))),
        Message::Rolls(rolls(None)),
        Message::Metered { every_secs: 0 },
        Message::Metered { every_secs: 3600 },
        said(Said::Giving),
        Message::Seek(seek()),
        Message::SeekOn { seek: seek(), asker: SiteId([3; 16]) },
    ]
}

fn seek() -> Seek {
    Seek { ticket: 300, bucket: BUCKET, wanted: Bytes::from_static(b"a key") }
}

#[test]
fn version_1_is_read_and_written_as_ever() {
    let fixtures: Vec<&str> = include_str!("v1.hex").lines().collect();
    let written: Vec<String> = samples().iter().map(|message| hex::text(&message.encode())).collect();
    assert_eq!(fixtures, written);
    for sample in samples() {
        assert_eq!(Message::decode(&sample.encode()).unwrap(), sample);
    }
}

/// What a release of dialect 1 ends its stream on is never said to it: everything beyond its words.
#[test]
fn only_what_was_added_needs_a_later_dialect() {
    let dialects: Vec<u8> = samples().iter().map(Message::dialect).collect();
    assert!(dialects.iter().take(30).all(|dialect| *dialect == 1));
    assert!(dialects.iter().skip(30).take(7).all(|dialect| *dialect == limits::AREAS));
    assert!(dialects.iter().skip(37).take(2).all(|dialect| *dialect == limits::METERED));
    assert!(dialects.iter().skip(39).all(|dialect| *dialect == limits::SEEKS));
}

#[test]
fn what_is_not_canonical_is_refused() {
    let refused = |message: Message| assert!(Message::decode(&message.encode()).is_err(), "{message:?}");
    refused(Message::Batch(Batch { items: vec![item(6), item(4)], ..batch() }));
    refused(Message::Batch(Batch { items: vec![item(4), item(4)], ..batch() }));
    refused(Message::Batch(Batch { items: vec![item(0)], ..batch() }));
    let with = |len: usize| FeedItem { bodies: vec![Bytes::from(vec![0; len])], ..item(4) };
    let most = skerry_base::limits::JOURNAL_BODY_BYTES;
    refused(Message::Batch(Batch { items: vec![with(most + 1)], ..batch() }));
    // Between the nodes of a site bodies are as long; not where nobody asked.
    let asked = Message::Batch(Batch { items: vec![with(most)], ..batch() });
    assert_eq!(Message::decode(&asked.encode()).unwrap(), asked);
    refused(Message::Batch(Batch { ticket: Batch::FRESH, items: vec![with(257)], ..batch() }));
    let span = Span { origin: ORIGIN, first: 5, last: 4 };
    refused(Message::Probe(Probe { ticket: 1, bucket: BUCKET, spans: vec![span] }));
    let loose = Loose { origin: ORIGIN, covered: 3, print: Fingerprint::default() };
    refused(Message::Loose { bucket: BUCKET, answer: false, loose: vec![loose, loose] });
    let gathered = |items| Message::Gathered(Gathered { ticket: 1, bucket: BUCKET, items, upto: 9 });
    refused(gathered(vec![item(6), item(4)]));
    refused(gathered(vec![with(257)]));
    refused(Message::Swim(Bytes::from(vec![0; limits::SWIM_BYTES + 1])));
    refused(Message::Check { listen: false, entries: vec![(BUCKET, 1); limits::ENTRIES_PER_MESSAGE + 1] });
    let nowhere = [0xff; crate::areas::coordinate::BYTES];
    refused(Message::Place(Place { coordinate: nowhere, k: 1, rtt_micros: 0 }));
    let entries = vec![(BUCKET, 1); limits::ROLLS + 1];
    refused(Message::Census(Census { ticket: 1, entries }));
    refused(Message::Metered { every_secs: 1 });
    let long = Seek { wanted: Bytes::from(vec![0; limits::WANTED_BYTES + 1]), ..seek() };
    refused(Message::Seek(long.clone()));
    refused(Message::SeekOn { seek: long, asker: SiteId([3; 16]) });
    refused(Message::Metered { every_secs: 86_400 });
    // A vector with an entry of 0: the last byte of this news is its seq.
    let mut news = Message::News { bucket: BUCKET, vector: vector(6) }.encode();
    *news.last_mut().unwrap() = 0;
    assert!(Message::decode(&news).is_err());
    assert!(Message::decode(&vec![1; skerry_base::limits::MESSAGE_BYTES + 1]).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn hostile_bytes_are_refused_or_make_sense(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        if let Ok(message) = Message::decode(&bytes) {
            prop_assert!(Message::decode(&message.encode()).is_ok());
        }
    }

    #[test]
    fn damaged_messages_are_refused_or_make_sense(which in 0usize..42, at in 0usize..200, byte in any::<u8>()) {
        let mut bytes = samples()[which].encode();
        let at = at % bytes.len();
        bytes[at] = byte;
        if let Ok(message) = Message::decode(&bytes) {
            prop_assert!(Message::decode(&message.encode()).is_ok());
        }
    }
}

#[test]
fn what_is_said_where_no_records_may_cross() {
    let refused = Message::PullRefused { ticket: 300, bucket: BUCKET, reason: Refusal::Busy };
    assert_eq!(Message::Batch(batch()).without_records(), Some(refused));
    let fresh = Message::Batch(Batch { ticket: Batch::FRESH, ..batch() });
    assert_eq!(fresh.without_records(), Some(Message::News { bucket: BUCKET, vector: vector(6) }));
    assert_eq!(place().without_records(), None);
}
