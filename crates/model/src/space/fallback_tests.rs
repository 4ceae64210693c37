//! What may be shown in place of a version that nobody has, and what may not.

use proptest::prelude::*;
use skerry_base::{BucketId, Dot, Hlc, NodeId, Origin, SiteId, Vector};

use super::choose;
use crate::merge;
use crate::record::{Kept, Record, Scope, Statement, Versioning};

fn dot(node: u8, seq: u64) -> Dot {
    Dot { origin: Origin { node: NodeId([node; 16]), incarnation: 1 }, seq }
}

/// A version that had seen these.
fn version(node: u8, seq: u64, clock: u64, seen: &[Dot]) -> Record {
    Record {
        bucket: BucketId([1; 16]),
        dot: dot(node, seq),
        key: "k".into(),
        clock: Hlc(clock),
        context: seen.iter().map(|dot| (dot.origin, dot.seq)).collect::<Vector>(),
        versioning: Versioning::Enabled,
        keeps: Vec::new(),
        scope: Scope::Site,
        home: None,
        placement: None,
        writer: String::new(),
        site: SiteId([0; 16]),
        statement: Statement::Put(Box::default()),
    }
}

fn marker(record: Record) -> Record {
    Record { statement: Statement::Delete, ..record }
}

fn null(record: Record) -> Record {
    Record { versioning: Versioning::Off, ..record }
}

fn chosen(alive: &[Record], lost: Dot) -> Vec<u64> {
    choose(alive.to_vec(), lost).iter().map(|record| record.dot.seq).collect()
}

#[test]
fn older_versions_newest_first() {
    let one = version(1, 1, 10, &[]);
    let two = version(1, 2, 20, &[one.dot]);
    let three = version(1, 3, 30, &[one.dot, two.dot]);
    let all = [one, two, three];
    assert_eq!(chosen(&all, all[2].dot), [2, 1]);
    assert_eq!(chosen(&all, all[1].dot), [3, 1], "whatever is lost");
    assert_eq!(chosen(&all[..1], all[0].dot), [0u64; 0]);
}

#[test]
fn no_delete_comes_back() {
    let one = version(1, 1, 10, &[]);
    let deleted = marker(version(1, 2, 20, &[one.dot]));
    let three = version(1, 3, 30, &[one.dot, deleted.dot]);
    let four = version(1, 4, 40, &[one.dot, deleted.dot, three.dot]);
    assert_eq!(chosen(&[one.clone(), deleted.clone(), three.clone(), four.clone()], four.dot), [3]);
    assert_eq!(chosen(&[one.clone(), deleted, four.clone()], four.dot), [0u64; 0]);
    assert_eq!(chosen(&[one, four.clone()], four.dot), [1], "whoever erases the marker brings it back");
}

#[test]
fn what_a_plain_write_replaced_stays_replaced_but_a_contest_s_loser_may_be_shown() {
    let loser = null(version(1, 1, 10, &[]));
    let winner = null(version(2, 2, 20, &[]));
    assert_eq!(chosen(&[loser.clone(), winner.clone()], winner.dot), [1], "neither had seen the other");
    let kept = vec![Kept { dot: loser.dot, since: Hlc(30) }];
    let after = Record { keeps: kept, ..null(version(2, 3, 30, &[loser.dot, winner.dot])) };
    assert_eq!(chosen(&[loser, after.clone()], after.dot), [0u64; 0], "kept for whoever asks for it by name");
}

#[test]
fn the_version_from_before_versioning_is_a_version() {
    let old = null(version(1, 1, 10, &[]));
    let new = version(1, 2, 20, &[old.dot]);
    assert_eq!(chosen(&[old, new.clone()], new.dot), [1]);
}

proptest! {
    /// Whatever the order of arrival: what is shown first is not older than anything behind it.
    #[test]
    fn nothing_stands_before_what_had_seen_it(
        clocks in proptest::collection::vec(1u64..20, 1..8), sees in any::<u64>(), lost in 0usize..8, turn in 0usize..8,
    ) {
        let mut all: Vec<Record> = Vec::new();
        for (n, clock) in clocks.iter().enumerate() {
            let seen: Vec<Dot> = all.iter().enumerate().filter(|(m, _)| sees >> (n * 8 + m) & 1 == 1)
                .flat_map(|(_, record)| record.context.iter().map(|(origin, seq)| Dot { origin, seq }).chain([record.dot]))
                .collect();
            let least = all.iter().filter(|record| seen.contains(&record.dot)).map(|record| record.clock.0 + 1).max();
            all.push(version(n as u8 + 1, n as u64 + 1, (*clock).max(least.unwrap_or(0)), &seen));
        }
        let lost = all[lost % all.len()].dot;
        let mut turned = all.clone();
        turned.rotate_left(turn % all.len());
        let order = choose(all, lost);
        prop_assert_eq!(&order, &choose(turned, lost));
        for (at, first) in order.iter().enumerate() {
            for later in &order[at + 1..] {
                prop_assert!(!later.context.covers(first.dot), "{:?} had seen {:?}", later.dot, first.dot);
            }
        }
        if let Some(first) = order.first() {
            let heads: Vec<&Record> = order.iter().filter(|one| !order.iter().any(|other| other.context.covers(one.dot))).collect();
            prop_assert!(heads.iter().all(|head| merge::by_rank(first, head).is_le()));
        }
    }
}
