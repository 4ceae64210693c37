//! Sites of a few nodes over a wire without loss: how they find a view, and what they do when a node goes.
//!
//! Storms are the simulator's (`skerry-sim nodes`); here each step can be read.

use super::*;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

const MS: u64 = 1_000_000;

/// All nodes share one clock; messages and disks take a millisecond.
struct Table {
    now: Instant,
    nodes: Vec<SiteView>,
    silent: BTreeSet<usize>,
    wire: VecDeque<(Seat, Input)>,
    settled: BTreeMap<u64, Instant>,
    abandoned: BTreeSet<u64>,
    stored: Vec<Durable>,
}

fn seat(number: usize) -> Seat {
    Seat::new(number).unwrap_or_default()
}

fn seats(numbers: &[usize]) -> Seats {
    numbers.iter().copied().map(seat).collect()
}

impl Table {
    fn new(count: usize) -> Self {
        let memory = Durable::genesis().started();
        let all = Seats::first(count);
        let node = |seat| SiteView::new(seat, all, Memory::Kept(memory), Instant(MS));
        Self {
            now: Instant(MS),
            nodes: all.iter().map(node).collect(),
            silent: BTreeSet::new(),
            wire: VecDeque::new(),
            settled: BTreeMap::new(),
            abandoned: BTreeSet::new(),
            stored: vec![memory; count],
        }
    }

    fn give(&mut self, node: usize, input: Input) {
        let mut out = Vec::new();
        self.nodes[node].handle(input, self.now, &mut out);
        for output in out {
            match output {
                Output::Store(memory) => self.stored[node] = memory,
                Output::Send(to, said) => self.wire.push_back((to, Input::Heard(said))),
                Output::Hold { to, write, epoch } if self.reaches(node, to.index()) => {
                    if self.nodes[to.index()].may_hold(epoch) {
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
    fn run(&mut self, ms: u64) {
        for _ in 0..ms {
            self.now = self.now.after(Duration::from_millis(1));
            for _ in 0..self.wire.len() {
                let Some((to, input)) = self.wire.pop_front() else { break };
                let from = match &input {
                    Input::Heard(said) => said.from.index(),
                    _ => to.index(),
                };
                if from == to.index() || self.reaches(from, to.index()) {
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

    fn standings(&self) -> Vec<Standing> {
        self.nodes.iter().map(|node| node.standing(self.now)).collect()
    }

    fn live(&self, node: usize) -> Seats {
        self.nodes[node].view().map_or(Seats::NONE, |view| view.live)
    }

    fn restart(&mut self, node: usize, memory: Memory) {
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

#[test]
fn of_two_nodes_the_one_with_an_empty_disk_stays_outside() {
    let mut table = Table::new(2);
    table.run(5000);
    table.restart(1, Memory::Blank(77));
    table.run(10_000);
    assert_eq!(table.standings(), [Standing::Holding, Standing::Blank], "one of two is no majority");
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
