//! Fixtures of version 1, and bytes of whoever wishes this node ill.

#![expect(clippy::unwrap_used, reason = "tests")]

use proptest::prelude::{ProptestConfig, any, prop_assert, proptest};
use skerry_base::Instant;
use skerry_base::hex;

use super::super::message::Condition;
use super::super::{Input, Memory, Occupant, Seat, Seats, SiteView};
use super::*;

/// By line: the memory, then one of each word, in the order of the wire. Must decode for ever.
const FIXTURES: &str = include_str!("v1.hex");

fn some_ballot(round: u64) -> Ballot {
    Ballot { round, seat: Seat::new(2).unwrap(), start: Start { life: 1, boot: 7 } }
}

fn some_view() -> View {
    let mut view = View { epoch: 300, live: Seats::first(2), ..View::genesis() };
    view.joining = Seats::of(Seat::new(2).unwrap());
    view.occupants[2] = Occupant { life: 1, nonce: 0x0102_0304_0506_0708 };
    view
}

fn memory() -> Durable {
    let accepted = (some_ballot(8), some_view());
    Durable { start: Start { life: 1, boot: 9 }, promised: some_ballot(9), accepted }
}

fn samples() -> Vec<Said> {
    let accepted = (some_ballot(8), some_view());
    let term = Term { start: Start { life: 0, boot: 3 }, number: 500 };
    let condition = Condition { hears: Seats::first(3), steady: true, ready: Some(300), joins: false };
    let messages = [
        Message::Beat { number: 501, asks: Some(300), chosen: Some(accepted), condition },
        Message::Answer { number: 501, clock: Instant(1_000_000_007), granted: true },
        Message::Prepare(some_ballot(10)),
        Message::Promise(some_ballot(10), accepted),
        Message::Release(some_ballot(10), term),
        Message::Accept(some_ballot(10), some_view(), [None, Some(term), None, None]),
        Message::Accepted(some_ballot(10)),
        Message::Refuse { ballot: some_ballot(10), promised: some_ballot(11) },
        Message::Blank { nonce: 77, number: 501 },
        Message::Admit(77, accepted),
    ];
    let said = |message| Said { from: Seat::new(1).unwrap(), start: Start { life: 0, boot: 3 }, message };
    messages.map(said).into()
}

#[test]
fn version_1_is_what_it_was() {
    let lines: Vec<String> = [memory().encode()]
        .into_iter()
        .chain(samples().iter().map(Said::encode))
        .map(|b| hex::text(&b))
        .collect();
    let known: Vec<&str> = FIXTURES.lines().collect();
    assert_eq!(lines, known, "an encoding that was released does not change");
    assert_eq!(Durable::decode(&memory().encode()), Ok(memory()));
    for said in samples() {
        assert_eq!(Said::decode(&said.encode()), Ok(said));
    }
}

/// A release that does not know the word reads one that it knows: of a node whose clock does not count.
#[test]
fn who_cannot_hold_says_so_in_the_words_of_version_1() {
    let condition = Condition { hears: Seats::first(3), steady: true, ready: Some(300), joins: false };
    let refusing = condition.refusing();
    assert!(refusing.refuses() && !refusing.steady && !condition.refuses());
    assert!(!Condition { joins: true, ..condition }.refuses(), "it wishes to join");
    assert!(!Condition { steady: false, ..condition }.refuses(), "it has just been started");
    let said = |condition| Said {
        message: Message::Beat { number: 501, asks: Some(300), chosen: None, condition },
        ..samples()[0]
    };
    let (plain, word) = (said(condition).encode(), said(refusing).encode());
    assert_eq!(hex::text(&word), "01010003".to_owned() + "00f50301ac02000700" + "01ac0201");
    assert_eq!((plain.len(), Said::decode(&word)), (word.len(), Ok(said(refusing))));
}

/// Where nobody is gone the bytes are those of before; a release that does not know vacant seats refuses the word.
#[test]
fn vacant_seats_lie_in_bits_that_were_free() {
    let mut left = some_view();
    (left.live, left.vacant) = (Seats::of(Seat::FOUNDER), Seats::of(Seat::new(1).unwrap()));
    let said = |view| Said { message: Message::Admit(1, (some_ballot(8), view)), ..samples()[0] };
    let bytes = said(left).encode();
    let mut before = said(View { vacant: Seats::NONE, ..left }).encode();
    let differs: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at] != before[*at]).collect();
    assert_eq!(differs.len(), 1, "one byte: {differs:?}");
    let at = differs[0];
    assert_eq!((before[at], bytes[at]), (0b0100, 0b10_0100));
    assert_eq!(Said::decode(&bytes), Ok(said(left)));
    before[at] = 0b1_0100;
    assert!(Said::decode(&before).is_err(), "seat 0 is live and vacant");
}

#[test]
fn what_no_machine_says_is_refused() {
    let refused = |change: &dyn Fn(&mut View)| {
        let mut accepted = (some_ballot(8), some_view());
        change(&mut accepted.1);
        let said = Said { message: Message::Admit(1, accepted), ..samples()[0] };
        Said::decode(&said.encode()).unwrap_err().to_string().contains("no machine makes")
    };
    assert!(refused(&|view| view.epoch = u64::MAX));
    assert!(refused(&|view| view.live = Seats::NONE));
    assert!(refused(&|view| view.joining = view.live));
    assert!(refused(&|view| view.occupants[0].life = u32::MAX));
    let high = Said { message: Message::Prepare(some_ballot(u64::MAX)), ..samples()[0] };
    assert!(Said::decode(&high.encode()).is_err(), "one more would overflow");
    let torn = Durable { accepted: (some_ballot(10), some_view()), ..memory() };
    assert!(Durable::decode(&torn.encode()).is_err(), "accepted under a ballot that was never promised");
    // A seat or a set of seats that no site has.
    let mut bytes = samples()[2].encode();
    bytes[1] = 4;
    assert!(Said::decode(&bytes).is_err());
    let mut newer = memory().encode();
    newer[0] = 2;
    assert!(Durable::decode(&newer).unwrap_err().to_string().contains("version 2"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    /// Whatever arrives: an error, or a word that a machine takes without harm to itself.
    #[test]
    fn no_bytes_break_a_node(at in 0usize..400, with: u8, which in 0usize..10, tail: Vec<u8>) {
        let mut bytes = samples()[which].encode();
        let at = at % bytes.len();
        bytes[at] = with;
        if with % 3 == 0 {
            bytes.truncate(at);
            bytes.extend(tail);
        }
        if let Ok(said) = Said::decode(&bytes) {
            prop_assert!(said.is_sound());
            let mut machine =
                SiteView::new(Seat::FOUNDER, Seats::first(3), Memory::Kept(memory()), Instant(1));
            let mut out = Vec::new();
            for ms in 0..40u64 {
                machine.handle(Input::Heard(said), Instant(ms * 50_000_000), &mut out);
                out.clear();
            }
        }
        let _ = Durable::decode(&bytes);
    }

    #[test]
    fn no_noise_decodes_into_nonsense(bytes in any::<Vec<u8>>()) {
        let with_version = [&[1], &bytes[..]].concat();
        if let Ok(said) = Said::decode(&with_version) {
            prop_assert!(said.is_sound());
        }
    }
}
