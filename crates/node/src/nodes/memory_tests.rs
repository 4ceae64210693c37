//! What a start makes of what it finds: only a new machine in a new seat begins with nothing.

#![expect(clippy::unwrap_used, reason = "tests")]

use super::*;

fn begun(seat: usize, seats: usize) -> Begun {
    Begun { seat: Seat::new(seat).unwrap(), turn: 0, seats, life: 0, is_unstarted: true }
}

fn kept() -> Memory {
    Memory::Kept(Durable::genesis().started())
}

#[test]
fn a_new_site_and_a_site_that_was_one_node_begin_with_what_they_have() {
    assert_eq!(begin(None, begun(0, 3), 7), Ok(kept()));
    assert_eq!(begin(None, begun(2, 3), 7), Ok(kept()));
    let grown = Begun { life: 12, is_unstarted: false, ..begun(0, 3) };
    assert_eq!(
        begin(None, grown, 7),
        Ok(kept()),
        "from one node to three, also from a release before this one"
    );
}

#[test]
fn an_emptied_disk_or_the_next_machine_in_a_seat_has_no_memory() {
    for seat in [0, 1] {
        let emptied = Begun { is_unstarted: false, ..begun(seat, 3) };
        assert_eq!(begin(None, emptied, 7), Ok(Memory::Blank(7)), "seat {seat}");
    }
    assert_eq!(begin(None, Begun { turn: 1, ..begun(1, 3) }, 7), Ok(Memory::Blank(7)));
    // It says so again until the others took it in, however often it is started.
    let file = ViewFile::new(3, None);
    let again = Begun { life: 5, is_unstarted: false, ..begun(0, 3) };
    assert_eq!(begin(Some(&file), again, 8), Ok(Memory::Blank(8)));
    let alone = ViewFile::new(1, None);
    assert_eq!(begin(Some(&alone), again, 8), Ok(Memory::Blank(8)), "emptied while configured as one node");
}

#[test]
fn each_start_is_a_new_one() {
    let once = Durable::genesis().started();
    let file = ViewFile::new(2, Some(&once));
    assert_eq!(begin(Some(&file), begun(0, 2), 7), Ok(Memory::Kept(once.started())));
}

#[test]
fn seats_that_do_not_fit_are_refused_with_what_to_do() {
    let file = ViewFile::new(3, Some(&Durable::genesis()));
    let text = |error: Unusable| error.to_string();
    assert!(text(begin(Some(&file), begun(0, 2), 7).unwrap_err()).contains("set site.seats = 3"));
    assert!(text(begin(Some(&file), begun(0, 1), 7).unwrap_err()).contains("set site.seats = 3"));
    let first = text(begin(Some(&file), begun(0, 2), 7).unwrap_err());
    assert!(first.contains("given to nobody") && !first.contains("invite"), "{first}");
    let further = text(begin(Some(&file), begun(1, 4), 7).unwrap_err());
    assert!(further.contains("invite NEW --node-of SITE --seat 1 --replace"), "{further}");
    assert!(further.contains("set site.seats = 4 before it is started"), "{further}");
    assert!(text(begin(None, begun(1, 1), 7).unwrap_err()).contains("fills seat 1"));
    assert!(text(begin(None, begun(2, 2), 7).unwrap_err()).contains("seats 0 to 1"));
}

/// Fixtures of version 1: must decode for ever.
const FORMER: [&str; 2] = ["010300", "0103011601000100000000000000000001000000000000000000"];

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

#[test]
fn memory_of_the_register_before_begins_this_one_in_seats_that_have_their_first_machine() {
    let [blank, kept_before] = FORMER.map(|hex| ViewFile::decode(&bytes(hex)).unwrap());
    assert_eq!((kept_before.seats, kept_before.is_former, blank.memory.is_none()), (3, true, true));
    let used = Begun { life: 12, is_unstarted: false, ..begun(0, 3) };
    assert_eq!(begin(Some(&kept_before), used, 7), Ok(kept()));
    assert_eq!(begin(Some(&blank), used, 7), Ok(Memory::Blank(7)), "its disk had been emptied");
    let second = Begun { turn: 1, ..used };
    assert_eq!(
        begin(Some(&kept_before), second, 7),
        Ok(Memory::Blank(7)),
        "the one before it may begin, too"
    );
    let fewer = begin(Some(&kept_before), Begun { seats: 2, ..used }, 7).unwrap_err();
    assert!(fewer.to_string().contains("set site.seats = 3"));
}

/// Fixture of version 2: must decode for ever.
#[test]
fn version_2_is_what_it_was() {
    let hex = |file: &ViewFile| skerry_base::hex::text(&codec::encode(file));
    assert_eq!(hex(&ViewFile::new(3, None)), "020300");
    let file = ViewFile::new(3, Some(&Durable::genesis().started()));
    assert_eq!(hex(&file), "0203011601000100000000000000000001000000000000000000");
    assert_eq!(ViewFile::decode(&codec::encode(&file)), Ok(file));
    let torn = ViewFile { seats: 3, memory: Some(vec![1, 2, 3]), is_former: false };
    assert!(matches!(begin(Some(&torn), begun(0, 3), 7), Err(Unusable::Damaged(_))));
}
