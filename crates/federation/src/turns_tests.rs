//! Shares, order, and that nobody is left standing, whatever streams do.

use std::collections::{BTreeMap, BTreeSet};

use proptest::collection::vec;
use proptest::prelude::{
    Just, ProptestConfig, Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest,
};

use super::{Class, Lane, SMALL_BYTES, Turns};

const FRAME: u64 = 16_372;
const MOST: u64 = 2 * FRAME;

/// Streams that send as long as they have something, over a wire that takes one frame after the other.
struct Link {
    turns: Turns,
    class: BTreeMap<u32, Class>,
    sent: BTreeMap<u32, u64>,
    /// Frames that were let through, in order.
    wire: std::collections::VecDeque<(Lane, u64)>,
    /// Bytes that left, by lane.
    left: BTreeMap<Lane, u64>,
}

impl Link {
    fn new() -> Self {
        let (class, sent, left) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { turns: Turns::new(FRAME, MOST), class, sent, wire: [].into(), left }
    }

    /// These streams begin to send and never end.
    fn all_send(&mut self, class: Class, streams: impl IntoIterator<Item = u32>) {
        for stream in streams {
            self.class.insert(stream, class);
            self.try_send(stream, FRAME);
        }
    }

    /// Whether the stream was let through; it sends on until it is not.
    fn try_send(&mut self, stream: u32, bytes: u64) -> bool {
        let class = self.class.get(&stream).copied().unwrap_or(Class::Read);
        let mut went = false;
        loop {
            let sent = self.sent.entry(stream).or_default();
            let lane = Lane::of(class, *sent);
            if !self.turns.ask(stream, lane, bytes) {
                return went;
            }
            went = true;
            *sent += bytes;
            self.wire.push_back((lane, bytes));
        }
    }

    /// One frame leaves; who is called sends.
    fn step(&mut self) {
        let Some((lane, bytes)) = self.wire.pop_front() else { return };
        *self.left.entry(lane).or_default() += bytes;
        self.turns.left(bytes);
        while let Some(stream) = self.turns.call() {
            assert!(self.try_send(stream, FRAME), "who is called is let through");
        }
        assert!(self.turns.afloat() <= MOST, "{}", self.turns.afloat());
    }

    fn left(&self, lane: Lane) -> u64 {
        self.left.get(&lane).copied().unwrap_or(0)
    }
}

#[test]
fn one_stream_alone_has_the_link() {
    let mut link = Link::new();
    link.all_send(Class::Copy, [1]);
    (0..100).for_each(|_| link.step());
    assert_eq!(link.left(Lane::Copy), 100 * FRAME);
}

#[test]
fn what_is_urgent_waits_for_what_is_afloat_and_one_frame_at_most() {
    for (class, urgent) in
        [(Class::Decision, Lane::Decision), (Class::Record, Lane::Record), (Class::Read, Lane::Small)]
    {
        let mut link = Link::new();
        link.all_send(Class::Copy, 0..16);
        (0..50).for_each(|_| link.step());
        link.class.insert(99, class);
        let before = link.left(Lane::Copy);
        assert!(!link.try_send(99, 4096), "the link is full");
        while link.left(urgent) == 0 {
            link.step();
        }
        let passed = link.left(Lane::Copy) - before;
        assert!(passed <= MOST + FRAME, "{class:?} waited for {passed} bytes");
    }
}

#[test]
fn a_small_read_goes_before_large_ones() {
    let mut link = Link::new();
    link.all_send(Class::Read, 0..16);
    // Until each of them is large.
    while link.sent.values().any(|sent| *sent < SMALL_BYTES) {
        link.step();
    }
    (0..10).for_each(|_| link.step());
    let before = link.left(Lane::Large);
    link.class.insert(99, Class::Read);
    let small = link.left(Lane::Small);
    link.try_send(99, FRAME);
    while link.left(Lane::Small) == small {
        link.step();
    }
    assert!(link.left(Lane::Large) - before <= MOST + FRAME);
}

#[test]
fn who_always_has_something_gets_its_share() {
    let mut link = Link::new();
    // Many bulk streams are no more than few.
    link.all_send(Class::Copy, 0..16);
    link.all_send(Class::Record, [20]);
    link.all_send(Class::Decision, [30]);
    link.all_send(Class::Read, [40, 41, 42]);
    // The reads become large, then it is counted.
    (0..200).for_each(|_| link.step());
    let before = link.left.clone();
    const FRAMES: u64 = 33 * 30;
    (0..FRAMES).for_each(|_| link.step());
    for (lane, of_33) in [(Lane::Decision, 16), (Lane::Record, 8), (Lane::Large, 8), (Lane::Copy, 1)] {
        let got = (link.left(lane) - before.get(&lane).copied().unwrap_or(0)) / FRAME;
        let due = FRAMES * of_33 / 33;
        assert!(got.abs_diff(due) <= 3, "{lane:?} got {got} frames, {due} are due");
    }
}

#[test]
fn a_pause_saves_nothing_up() {
    let mut link = Link::new();
    link.all_send(Class::Copy, 0..4);
    (0..1000).for_each(|_| link.step());
    // Large reads come after long silence: they have their share, and do not shut out copies for what they missed.
    for stream in 10..14 {
        link.sent.insert(stream, SMALL_BYTES);
    }
    link.all_send(Class::Read, 10..14);
    let before = link.left(Lane::Copy);
    (0..90).for_each(|_| link.step());
    let copies = (link.left(Lane::Copy) - before) / FRAME;
    assert!((8..=13).contains(&copies), "{copies} of 90 frames were copies, 10 are due");
}

#[test]
fn who_is_called_and_does_not_come_holds_nobody_up_for_long() {
    let mut turns = Turns::new(FRAME, MOST);
    for stream in 0..8 {
        turns.ask(stream, Lane::Copy, FRAME);
    }
    turns.left(FRAME);
    // The next two are called and gone for good.
    let mut called = BTreeSet::new();
    turns.left(FRAME);
    called.extend(std::iter::from_fn(|| turns.call()));
    assert_eq!(called, BTreeSet::from([2, 3]));
    // Somebody else comes by: nothing is afloat, so it goes, and again.
    for _ in 0..2 {
        assert!(turns.ask(50, Lane::Record, 100));
        turns.left(100);
    }
    assert_eq!(turns.call(), Some(4));
}

#[test]
fn what_was_not_sent_is_not_held_against_it() {
    let mut turns = Turns::new(FRAME, MOST);
    assert!(turns.ask(1, Lane::Copy, FRAME));
    turns.unsent(Lane::Copy, FRAME);
    assert_eq!(turns.afloat(), 0);
    assert!(turns.ask(1, Lane::Copy, FRAME) && turns.ask(1, Lane::Copy, FRAME));
    assert!(!turns.ask(1, Lane::Copy, FRAME));
    turns.left(2 * FRAME);
    assert_eq!(turns.call(), Some(1));
    turns.leave(1);
    assert_eq!(turns.call(), None);
}

/// What can happen to a stream.
#[derive(Debug, Clone)]
enum Act {
    Ask(u32, Lane, u64),
    Blocked(u32, Lane),
    Leave(u32),
    Left(u64),
}

fn act() -> impl Strategy<Value = Act> {
    let lane = || proptest::sample::select(Lane::ALL.to_vec());
    prop_oneof![
        4 => (0_u32..12, lane(), 1..=FRAME).prop_map(|(stream, lane, bytes)| Act::Ask(stream, lane, bytes)),
        1 => (0_u32..12, lane()).prop_map(|(stream, lane)| Act::Blocked(stream, lane)),
        1 => (0_u32..12).prop_map(Act::Leave),
        4 => (1..=2 * FRAME).prop_map(Act::Left),
        1 => Just(Act::Left(u64::MAX)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Whatever streams do, and whether those who are called come or not: little is afloat, nobody is called who did not
    /// wait, and once the wire is dry every stream that asks and asks again goes.
    #[test]
    fn nobody_is_left_standing(acts in vec((act(), any::<bool>()), 1..200)) {
        let mut turns = Turns::new(FRAME, MOST);
        let mut waits = BTreeSet::new();
        for (act, comes) in acts {
            match act {
                Act::Ask(stream, lane, bytes) => {
                    if turns.ask(stream, lane, bytes) { waits.remove(&stream); } else { waits.insert(stream); }
                }
                Act::Blocked(stream, lane) => {
                    if turns.ask(stream, lane, FRAME) {
                        waits.remove(&stream);
                        turns.unsent(lane, FRAME);
                    } else {
                        waits.insert(stream);
                    }
                }
                Act::Leave(stream) => {
                    turns.leave(stream);
                    waits.remove(&stream);
                }
                Act::Left(bytes) => turns.left(bytes),
            }
            while let Some(stream) = turns.call() {
                prop_assert!(waits.remove(&stream), "{} was called and did not wait", stream);
                if comes {
                    prop_assert!(turns.ask(stream, Lane::Copy, 100));
                }
            }
            prop_assert!(turns.afloat() <= MOST + FRAME, "{}", turns.afloat());
        }
        // The wire runs dry, and one stream that is alive keeps asking: in the end everybody who waits is called.
        for _ in 0..64 {
            turns.left(u64::MAX);
            prop_assert!(turns.ask(99, Lane::Copy, 1), "nothing is afloat");
            turns.left(1);
            while let Some(stream) = turns.call() {
                prop_assert!(waits.remove(&stream));
            }
        }
        prop_assert_eq!(waits, BTreeSet::new());
    }
}
