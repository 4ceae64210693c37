//! One of two whose other one is gone for good.

use super::super::tests::{Table, seat, seats};
use super::super::{Ballot, Duration, Input, Memory, Message, Occupant, Said, Seat, Seats, Standing, Start};

/// A site of so many nodes that has found its view.
fn whole(count: usize) -> Table {
    let mut table = Table::new(count);
    table.run(6000);
    assert_eq!(table.standings(), vec![Standing::Leased; count]);
    table
}

fn vacant(table: &Table, node: usize) -> Seats {
    table.nodes[node].view().map_or(Seats::NONE, |view| view.vacant)
}

/// The shell carries nothing of a machine that was expelled.
fn burn(table: &mut Table, node: usize) {
    table.silent.insert(node);
}

#[test]
fn of_two_nodes_the_one_with_an_empty_disk_is_taken_in_by_the_other() {
    for survivor in [0, 1] {
        let mut table = whole(2);
        let lost = 1 - survivor;
        table.restart(lost, Memory::Blank(77));
        table.run(9000);
        assert_eq!(table.standings(), [Standing::Leased; 2]);
        let Some(view) = table.nodes[survivor].view().copied() else { continue };
        assert_eq!((view.live, view.vacant), (Seats::first(2), Seats::NONE));
        assert_eq!(view.occupant(seat(lost)), Occupant { life: 1, nonce: 77 });
        // From now on nothing is agreed on without it.
        burn(&mut table, lost);
        table.run(9000);
        assert_eq!(table.epochs()[survivor], Some(view.epoch));
        assert_eq!(table.standings()[survivor], Standing::Holding);
    }
}

#[test]
fn the_survivor_may_end_at_any_moment_of_it() {
    for after in (0..4000).step_by(50) {
        let mut table = whole(2);
        table.restart(1, Memory::Blank(77));
        table.run(after);
        table.restart(0, Memory::Kept(table.stored[0].started()));
        table.run(12_000);
        assert_eq!(table.standings(), [Standing::Leased; 2], "after {after} ms");
        let mut table = whole(2);
        table.restart(1, Memory::Blank(77));
        table.run(after);
        // So may the newcomer, with whatever it has by then.
        let stored = table.stored[1];
        let memory = if stored.start.life == 0 { Memory::Blank(78) } else { Memory::Kept(stored.started()) };
        table.restart(1, memory);
        table.run(12_000);
        assert_eq!(table.standings(), [Standing::Leased; 2], "the newcomer after {after} ms");
    }
}

#[test]
fn an_expelled_node_of_two_leaves_the_site_to_the_other() {
    let mut table = whole(2);
    burn(&mut table, 1);
    table.run(9000);
    assert_eq!(table.standings()[0], Standing::Holding, "silence is no reason");
    table.give(0, Input::Gone(seats(&[1])));
    table.run(3000);
    assert_eq!((table.standings()[0], vacant(&table, 0)), (Standing::Leased, seats(&[1])));
    assert!(table.write(0, 1).is_some_and(|waited| waited < Duration::from_millis(10)));
    // The view says so: nobody need say it again.
    table.restart(0, Memory::Kept(table.stored[0].started()));
    table.run(3000);
    assert_eq!(table.standings()[0], Standing::Leased);
    // The machine that was expelled is heard no more, should somebody carry its words.
    let former = Said {
        from: seat(1),
        start: Start { life: 0, boot: 9 },
        message: Message::Prepare(Ballot { round: 999, ..Ballot::default() }),
    };
    let before = table.stored[0];
    table.give(0, Input::Heard(former));
    assert_eq!(table.stored[0], before);
    table.silent.clear();
    table.restart(1, Memory::Blank(5));
    table.run(9000);
    assert_eq!((table.standings(), vacant(&table, 0)), (vec![Standing::Leased; 2], Seats::NONE));
}

#[test]
fn a_newcomer_that_goes_again_holds_up_nobody() {
    let mut table = whole(2);
    table.restart(1, Memory::Blank(77));
    // It has joined, and fetches what it lacks for ever.
    table.full.insert(1);
    while !table.nodes[0].view().is_some_and(|view| view.joining == seats(&[1])) {
        table.run(10);
    }
    burn(&mut table, 1);
    assert!(table.write(0, 1).is_some(), "the other one has the votes still");
    assert_eq!(vacant(&table, 0), seats(&[1]));
}

/// What gives it a vote is on the other's disk by then, and not agreed on.
#[test]
fn a_newcomer_that_goes_as_it_gets_its_vote_is_gone() {
    for is_expelled in [false, true] {
        let mut table = whole(2);
        table.restart(1, Memory::Blank(77));
        while table.stored[0].accepted.1.live != Seats::first(2) || vacant(&table, 0) != seats(&[1]) {
            table.run(1);
        }
        if is_expelled {
            burn(&mut table, 1);
            table.run(3000);
            table.give(0, Input::Gone(seats(&[1])));
            table.run(6000);
            assert_eq!(table.standings()[0], Standing::Leased);
        } else {
            table.restart(1, Memory::Blank(78));
            table.run(12_000);
            assert_eq!(table.standings(), [Standing::Leased; 2]);
        }
    }
}

#[test]
fn who_was_fenced_hears_of_it() {
    let mut table = whole(2);
    burn(&mut table, 1);
    table.run(3000);
    // A word that was wrong: it runs, and is heard again.
    table.give(0, Input::Gone(seats(&[1])));
    table.run(3000);
    table.silent.clear();
    table.run(3000);
    assert_eq!((table.standings()[0], table.nodes[1].is_fenced()), (Standing::Leased, true));
    table.give(0, Input::Gone(Seats::NONE));
    table.restart(1, Memory::Blank(79));
    table.run(9000);
    assert_eq!((table.standings(), table.nodes[1].is_fenced()), (vec![Standing::Leased; 2], false));
}

#[test]
fn more_than_two_do_not_go_on_without_a_majority() {
    for (count, gone) in [(3, seats(&[0, 1])), (4, seats(&[2, 3])), (4, seats(&[1, 2, 3]))] {
        let mut table = whole(count);
        gone.iter().for_each(|seat| burn(&mut table, seat.index()));
        table.run(3000);
        let left: Vec<usize> = Seats::first(count).minus(gone).iter().map(Seat::index).collect();
        let before = table.epochs();
        left.iter().for_each(|node| table.give(*node, Input::Gone(gone)));
        table.run(9000);
        for node in left {
            assert_eq!((table.standings()[node], table.epochs()[node]), (Standing::Holding, before[node]));
        }
    }
}

#[test]
fn who_may_lack_what_was_agreed_on_does_not_go_on() {
    // It was still joining, and lacks what the first one has.
    let mut table = Table::new(2);
    table.full.insert(1);
    while table.nodes[1].view().is_none_or(|view| view.joining != seats(&[1])) {
        table.run(10);
    }
    burn(&mut table, 0);
    table.give(1, Input::Gone(seats(&[0])));
    table.run(9000);
    assert_eq!(vacant(&table, 1), Seats::NONE);
}
