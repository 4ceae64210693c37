//! Sites of a few nodes over a wire without loss: how they find a view, and what they do when a node goes.
//!
//! Storms are the simulator's (`skerry-sim nodes`); here each step can be read.

use super::*;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

const MS: u64 = 1_000_000;

/// All nodes share one clock; messages and disks take a millisecond.
pub(super) struct Table {
    now: Instant,
    pub(super) nodes: Vec<SiteView>,
    pub(super) silent: BTreeSet<usize>,
    /// A node to which nothing comes that the others say or write.
    deaf: Option<usize>,
    /// Nodes that hold nothing of others.
    pub(super) full: BTreeSet<usize>,
    wire: VecDeque<(Seat, Input)>,
    settled: BTreeMap<u64, Instant>,
    abandoned: BTreeSet<u64>,
    pub(super) stored: Vec<Durable>,
}

pub(super) fn seat(number: usize) -> Seat {
    Seat::new(number).unwrap_or_default()
}

pub(super) fn seats(numbers: &[usize]) -> Seats {
    numbers.iter().copied().map(seat).collect()
}

impl Table {
    pub(super) fn new(count: usize) -> Self {
        let memory = Durable::genesis().started();
        let all = Seats::first(count);
        let node = |seat| SiteView::new(seat, all, Memory::Kept(memory), Instant(MS));
        Self {
            now: Instant(MS),
            nodes: all.iter().map(node).collect(),
            silent: BTreeSet::new(),
            deaf: None,
            full: BTreeSet::new(),
            wire: VecDeque::new(),
            settled: BTreeMap::new(),
            abandoned: BTreeSet::new(),
            stored: vec![memory; count],
        }
    }

    pub(super) fn give(&mut self, node: usize, input: Input) {
        let mut out = Vec::new();
        self.nodes[node].handle(input, self.now, &mut out);
        for output in out {
            match output {
                Output::Store(memory) => self.stored[node] = memory,
                Output::Send(to, said) => self.wire.push_back((to, Input::Heard(said))),
                Output::Hold { to, write, epoch } if self.reaches(node, to.index()) => {
                    let other = Some(to.index()).filter(|to| *to != node);
                    let is_full = other.is_some_and(|to| self.full.contains(&to) || self.deaf == Some(to));
                    if !is_full && self.nodes[to.index()].may_hold(epoch) {
                        self.wire.push_back((seat(node), Input::Held { write, epoch, by: to }));
                    }
                }
                Output::CatchUp { from, epoch } if self.reaches(node, from.index()) => {
                    if self.nodes[from.index()].epoch() == Some(epoch) {
                        self.wire.push_back((seat(node), Input::CaughtUp { from, epoch }));
                    }
                }
                Output::Hold { .. } | Output::CatchUp { .. } => {}
                Output::Settled(write) => assert!(self.settled.insert(write, self.now).is_none()),
                Output::Abandoned(write) => assert!(self.abandoned.insert(write)),
                Output::Refused(write) => assert_eq!(write, u64::MAX, "there is room"),
            }
        }
    }

    fn reaches(&self, one: usize, other: usize) -> bool {
        !self.silent.contains(&one) && !self.silent.contains(&other)
    }

    /// Lets so many milliseconds pass.
    pub(super) fn run(&mut self, ms: u64) {
        for _ in 0..ms {
            self.now = self.now.after(Duration::from_millis(1));
            for _ in 0..self.wire.len() {
                let Some((to, input)) = self.wire.pop_front() else { break };
                let from = match &input {
                    Input::Heard(said) => said.from.index(),
                    _ => to.index(),
                };
                let is_heard = self.reaches(from, to.index()) && self.deaf != Some(to.index());
                if from == to.index() || is_heard {
                    self.give(to.index(), input);
                }
            }
            for node in 0..self.nodes.len() {
                if self.nodes[node].next_wake() <= self.now {
                    self.give(node, Input::Wake);
                }
            }
        }
    }

    pub(super) fn standings(&self) -> Vec<Standing> {
        self.nodes.iter().map(|node| node.standing(self.now)).collect()
    }

    fn live(&self, node: usize) -> Seats {
        self.nodes[node].view().map_or(Seats::NONE, |view| view.live)
    }

    /// A node finds that it can hold nothing more, or that it can again.
    fn refuse(&mut self, node: usize, refuses: bool) {
        if refuses {
            self.full.insert(node)
        } else {
            self.full.remove(&node)
        };
        self.give(node, Input::Refuses(refuses));
    }

    pub(super) fn epochs(&self) -> Vec<Option<u64>> {
        self.nodes.iter().map(SiteView::epoch).collect()
    }

    /// How long a write through a node takes to be the site's; none if it is not within 2 s.
    pub(super) fn write(&mut self, node: usize, write: u64) -> Option<Duration> {
        let begun = self.now;
        self.give(node, Input::Write { write, bound: None });
        self.run(2000);
        self.give(node, Input::GiveUp(write));
        self.settled.get(&write).map(|at| at.since(begun))
    }

    pub(super) fn restart(&mut self, node: usize, memory: Memory) {
        self.nodes[node] = SiteView::new(seat(node), Seats::first(self.nodes.len()), memory, self.now);
    }
}

#[test]
fn sites_of_one_to_four_nodes_find_their_view_by_themselves() {
    for count in 1..=limits::SEATS {
        let mut table = Table::new(count);
        table.run(5000);
        assert_eq!(table.standings(), vec![Standing::Leased; count], "{count} nodes");
        assert!((0..count).all(|node| table.live(node) == Seats::first(count)));
        let bucket = BucketId([7; 16]);
        let owners = (0..count).filter(|node| table.nodes[*node].owner(bucket) == Some(seat(*node))).count();
        assert_eq!(owners, 1);
        let epoch = table.nodes[0].epoch();
        table.run(5000);
        assert_eq!(table.nodes[0].epoch(), epoch, "who agrees rests");
        table.give(0, Input::Write { write: 1, bound: epoch });
        table.run(3);
        assert_eq!(table.settled.len(), 1, "a write of {count} nodes takes one exchange");
    }
}

#[test]
fn a_node_that_is_gone_holds_up_a_write_for_less_than_two_seconds_and_comes_back() {
    let mut table = Table::new(3);
    table.run(5000);
    table.silent.insert(2);
    let begun = table.now;
    table.give(0, Input::Write { write: 1, bound: None });
    table.run(1900);
    assert!(table.settled.contains_key(&1), "{:?}", table.nodes[0].view());
    assert!(
        table.settled[&1].since(begun) > Duration::from_millis(500),
        "it waited for the lease of who is gone"
    );
    table.run(300);
    assert_eq!(table.standings(), [Standing::Leased, Standing::Leased, Standing::Holding]);
    assert!(!table.nodes[2].may_read(table.now));
    table.silent.clear();
    table.run(8000);
    assert_eq!(table.standings(), [Standing::Leased; 3]);
}

/// Seed 499 of the simulator: the two that were left took turns to interrupt each other, for as long as the lease of the third
/// lasted that heard nothing, and that one was back before they had agreed.
#[test]
fn who_has_promised_leaves_a_round_its_time() {
    let mut table = Table::new(3);
    table.run(5000);
    table.deaf = Some(0);
    let before = table.stored[1].promised.round;
    table.give(1, Input::Write { write: 1, bound: None });
    table.give(2, Input::Write { write: 2, bound: None });
    table.run(1500);
    assert_eq!((table.live(1), table.live(2)), (seats(&[1, 2]), seats(&[1, 2])));
    assert_eq!(table.stored[1].promised.round, before + 1, "one round was enough");
    assert!(table.settled.contains_key(&1) && table.settled.contains_key(&2));
    // Unless who began it is gone.
    table.deaf = None;
    table.run(8000);
    assert_eq!(table.standings(), [Standing::Leased; 3]);
    let ballot = Ballot { round: before + 100, seat: seat(0), ..Ballot::default() };
    let start = table.stored[0].start;
    for to in [1, 2] {
        let message = Message::Prepare(Ballot { start, ..ballot });
        table.give(to, Input::Heard(Said { from: seat(0), start, message }));
    }
    table.silent.insert(0);
    table.run(950);
    assert_eq!((table.live(1), table.live(2)), (seats(&[1, 2]), seats(&[1, 2])));
}

#[test]
fn who_is_apart_serves_nothing_and_acknowledges_nothing_for_the_site() {
    let mut table = Table::new(2);
    table.run(5000);
    assert_eq!(table.standings(), [Standing::Leased; 2]);
    table.silent.insert(1);
    table.give(0, Input::Write { write: 1, bound: None });
    table.run(10_000);
    assert_eq!(table.standings(), [Standing::Holding; 2]);
    assert!(table.settled.is_empty());
    table.silent.clear();
    table.run(3000);
    assert_eq!((table.standings(), table.settled.len()), (vec![Standing::Leased; 2], 1));
}

#[test]
fn a_decision_does_not_outlive_its_view() {
    let mut table = Table::new(3);
    table.run(5000);
    table.silent.insert(2);
    let epoch = table.nodes[0].epoch();
    table.give(0, Input::Write { write: 1, bound: epoch });
    table.run(2500);
    assert_eq!((table.abandoned.len(), table.settled.len()), (1, 0));
    table.give(0, Input::Write { write: 2, bound: epoch });
    assert!(table.abandoned.contains(&2), "decided in a view that is over");
}

#[test]
fn a_site_that_was_switched_off_finds_its_view_again() {
    let mut table = Table::new(3);
    table.run(5000);
    let epoch = table.nodes[0].epoch();
    table.wire.clear();
    for node in 0..3 {
        let memory = Memory::Kept(table.stored[node].started());
        table.restart(node, memory);
    }
    table.run(4000);
    assert_eq!((table.standings(), table.nodes[0].epoch()), (vec![Standing::Leased; 3], epoch));
}

#[test]
fn a_machine_with_an_empty_disk_is_taken_in_by_the_others() {
    let mut table = Table::new(3);
    table.run(5000);
    table.restart(1, Memory::Blank(77));
    table.run(300);
    assert_eq!(table.standings()[1], Standing::Blank);
    table.run(9000);
    assert_eq!(table.standings(), [Standing::Leased; 3]);
    let occupant = table.nodes[0].view().map(|view| view.occupant(seat(1)));
    assert_eq!(occupant, Some(Occupant { life: 1, nonce: 77 }));
    let former = Said {
        from: seat(1),
        start: Start { life: 0, boot: 9 },
        message: Message::Prepare(Ballot { round: 999, ..Ballot::default() }),
    };
    let before = table.stored[0];
    table.give(0, Input::Heard(former));
    assert_eq!(table.stored[0], before, "the machine that it replaced is not heard");
}

/// Seed 1964 of the simulator: a node that had been in a later view was started again, heard first of the one before, and held
/// what was written in it, which the others did not have.
#[test]
fn who_accepted_a_later_view_holds_nothing_in_the_one_before() {
    let mut table = Table::new(3);
    table.run(6000);
    table.silent = [0].into();
    table.run(4000);
    assert_eq!(table.live(2), seats(&[1, 2]));
    table.silent = [2].into();
    table.run(9000);
    assert_eq!((table.live(0), table.live(2)), (seats(&[0, 1]), seats(&[1, 2])));
    table.silent = [0].into();
    table.restart(1, Memory::Kept(table.stored[1].started()));
    table.give(2, Input::Write { write: 7, bound: None });
    table.run(400);
    assert_eq!(table.epochs()[1], table.epochs()[2], "it has heard of that one only");
    assert!(table.settled.is_empty(), "and does not hold in it");
}

#[test]
fn four_nodes_in_two_halves_have_no_site() {
    let mut table = Table::new(4);
    table.run(6000);
    assert_eq!(table.live(3), seats(&[0, 1, 2, 3]));
    table.silent = [2, 3].into();
    table.run(6000);
    assert!(
        table.standings().iter().all(|standing| *standing == Standing::Holding),
        "{:?}",
        table.standings()
    );
}

#[test]
fn an_idle_node_is_woken_for_its_beats_only() {
    let mut table = Table::new(1);
    table.run(3000);
    let mut wakes = 0;
    for _ in 0..100 {
        table.now = table.nodes[0].next_wake();
        table.give(0, Input::Wake);
        wakes += 1;
        while let Some((to, input)) = table.wire.pop_front() {
            table.give(to.index(), input);
        }
    }
    assert!(
        (12_900..=13_100).contains(&(table.now.0 / MS)),
        "{wakes} wakes, {:?}: ten in a second",
        table.now
    );
}

#[test]
fn a_node_that_cannot_hold_leaves_before_it_is_found_late_and_comes_back() {
    for (count, leaver) in [(3, 0), (3, 1), (3, 2), (4, 3)] {
        let mut table = Table::new(count);
        table.run(6000);
        table.refuse(leaver, true);
        let writer = (leaver + 1) % count;
        let waited = table.write(writer, 1);
        assert!(waited.is_some_and(|waited| waited < Duration::from_millis(400)), "{leaver}: {waited:?}");
        let left = table.epochs();
        assert!(left.iter().all(|epoch| *epoch == left[0]), "{left:?}");
        assert_eq!(table.live(leaver), Seats::first(count).without(seat(leaver)));
        assert_eq!(table.standings()[leaver], Standing::Apart);
        for write in 2..12 {
            assert!(table.write(writer, write).is_some_and(|waited| waited < Duration::from_millis(10)));
        }
        assert_eq!(table.epochs(), left, "it does not come back before it can hold");
        table.refuse(leaver, false);
        table.run(2000);
        assert_eq!(table.standings(), vec![Standing::Leased; count], "{leaver}");
        assert_eq!(table.nodes[0].epoch(), left[0].map(|epoch| epoch + 2), "it joins, and is live");
    }
}

#[test]
fn where_most_cannot_hold_the_view_stays_and_says_that_it_is_stuck() {
    for (count, refusing) in [(2, vec![1]), (3, vec![1, 2]), (3, vec![0, 1, 2]), (4, vec![0, 3])] {
        let mut table = Table::new(count);
        table.run(6000);
        let before = table.epochs();
        refusing.iter().for_each(|node| table.refuse(*node, true));
        table.run(300);
        // Of two that say so at once the first to be heard may have left alone.
        let stuck = table.nodes[1].stuck(table.now);
        assert!(!stuck.is_empty() && stuck.is_within(seats(&refusing)), "{count} {refusing:?}: {stuck:?}");
        let (after, now) = (table.epochs(), table.now);
        assert!(table.nodes.iter().all(|node| node.awaits_change(now)));
        let writer = (0..count).find(|node| !refusing.contains(node)).unwrap_or_default();
        assert_eq!(table.write(writer, 1), None, "{count} {refusing:?}");
        table.run(20_000);
        assert_eq!(table.epochs(), after, "nobody changes a view that cannot go on: {before:?}");
        let live = table.live(1);
        let leased = |node: &usize| table.standings()[*node] == Standing::Leased;
        assert!(
            (0..count).filter(|node| live.contains(seat(*node))).all(|node| leased(&node)),
            "reads go on"
        );
        refusing.iter().for_each(|node| table.refuse(*node, false));
        table.run(4000);
        assert_eq!(table.standings(), vec![Standing::Leased; count]);
        assert!(table.write(0, 2).is_some());
    }
}

#[test]
fn a_node_that_was_left_out_comes_back_at_once_for_one_that_cannot_hold() {
    let mut table = Table::new(3);
    table.run(5000);
    for wait in [2000, 3500, 5500] {
        table.refuse(2, true);
        table.run(400);
        assert_eq!(table.live(0), seats(&[0, 1]));
        table.refuse(2, false);
        table.run(wait);
        assert_eq!(table.live(0), seats(&[0, 1, 2]), "after {wait} ms");
    }
    table.refuse(2, true);
    table.run(400);
    table.refuse(2, false);
    table.run(3000);
    assert_eq!(table.live(0), seats(&[0, 1]), "who left again and again waits longer");
    table.refuse(1, true);
    table.run(1500);
    assert_eq!((table.live(0), table.nodes[0].stuck(table.now)), (seats(&[0, 2]), Seats::NONE));
    assert!(table.write(2, 1).is_some());
}
