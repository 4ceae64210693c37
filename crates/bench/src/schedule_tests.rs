//! The n-th operation is what the plan says.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::{BTreeMap, BTreeSet};

use skerry_scenario::workload_size::ObjectSize;

use super::*;
use crate::plan::Mix;

fn plan(phase: Phase) -> Plan {
    Plan { name: "test".into(), seed: 7, client: 2, trials: 1, begin_wall_ms: None, phases: vec![phase] }
}

fn all(phase: &Phase) -> Vec<Planned> {
    let plan = plan(phase.clone());
    let mut schedule = Schedule::new(&plan, phase, 1);
    std::iter::from_fn(|| schedule.next(Duration::ZERO)).take(100_000).collect()
}

fn reads(count: u64, order: Order) -> Phase {
    let keys = Keys { count, order, ..Keys::default() };
    Phase { keys, operations: Some(count), ..Phase::new("read", Operation::Get) }
}

#[test]
fn sequential_and_once_ask_for_each_key_exactly_once() {
    for order in [Order::Sequential, Order::Once] {
        let keys: Vec<String> = all(&reads(100, order)).into_iter().map(|planned| planned.ask.key).collect();
        assert_eq!(keys.len(), 100);
        assert_eq!(keys.iter().collect::<BTreeSet<_>>().len(), 100, "{order:?}");
        assert_eq!(keys.is_sorted(), order == Order::Sequential);
    }
    // Once ends by itself, sequential goes round.
    let endless = |order| Phase { operations: None, seconds: Some(1.0), ..reads(10, order) };
    assert_eq!(all(&endless(Order::Once)).len(), 10);
    assert_eq!(all(&endless(Order::Sequential)).len(), 100_000);
}

#[test]
fn hot_and_zipfian_keys_are_asked_for_more_often() {
    let top = |order| {
        let phase = Phase { operations: Some(10_000), ..reads(100, order) };
        all(&phase).iter().filter(|planned| planned.number < 10).count()
    };
    assert!((800..1200).contains(&top(Order::Uniform)));
    // 90 % + a tenth of the rest.
    assert!((9_000..9_250).contains(&top(Order::Hot)));
    // The sum of 1/n^0.99 to 10 over that to 100.
    assert!((5_400..5_900).contains(&top(Order::Zipf)), "{}", top(Order::Zipf));
}

#[test]
fn the_mix_has_its_shares_and_the_same_seed_the_same_operations() {
    let mix = Mix { put: 2, get: 7, list: 1, ..Mix::default() };
    let phase = Phase { mix, operations: Some(10_000), ..reads(50, Order::Uniform) };
    let first = all(&phase);
    let mut shares: BTreeMap<Operation, u64> = BTreeMap::new();
    first.iter().for_each(|planned| *shares.entry(planned.ask.operation).or_default() += 1);
    assert!((1_850..2_150).contains(&shares[&Operation::Put]));
    assert!((6_850..7_150).contains(&shares[&Operation::Get]));
    let asks = |planned: Vec<Planned>| -> Vec<_> {
        planned
            .into_iter()
            .map(|planned| (planned.ask.operation, planned.ask.key, planned.ask.body))
            .collect()
    };
    assert_eq!(asks(first), asks(all(&phase)));
}

#[test]
fn a_fixed_rate_has_its_begins_and_marks_the_warm_up() {
    let arrival = Arrival::Rate(200.0);
    let phase = Phase {
        arrival,
        operations: None,
        seconds: Some(1.0),
        warm_up_seconds: 0.5,
        ..reads(10, Order::Uniform)
    };
    let planned = all(&phase);
    assert_eq!(planned.len(), 300);
    for (number, one) in planned.iter().enumerate() {
        assert_eq!(one.intended.unwrap(), Duration::from_millis(5 * number as u64));
        assert_eq!(one.warm_up, number < 100);
    }
    let counted = Phase { operations: Some(50), seconds: None, ..phase };
    assert_eq!(all(&counted).len(), 150);
}

#[test]
fn readers_know_sizes_and_bytes_without_having_written() {
    let range = |low, high, weight| SizeRange {
        bytes: ObjectSize(low),
        to: Some(ObjectSize(high)),
        weight,
        shape: Shape::Uniform,
    };
    let sizes = vec![range(0, 255, 3), range(1000, 2000, 1)];
    let write = Phase {
        sizes: sizes.clone(),
        ..Phase { mix: Mix::only(Operation::Put), ..reads(1000, Order::Sequential) }
    };
    let read = Phase { name: "other".into(), sizes, ..reads(1000, Order::Once) };
    let written: BTreeMap<String, Body> =
        all(&write).into_iter().map(|planned| (planned.ask.key, planned.ask.body)).collect();
    let small = written.values().filter(|body| body.length < 256).count();
    assert!((700..800).contains(&small), "{small}");
    for planned in all(&read) {
        let mut check = planned.ask.body.check();
        check.take(&written[&planned.ask.key].whole());
        assert_eq!((check.wrong(), check.seen()), (None, planned.ask.body.length));
    }
}

#[test]
fn log_sizes_have_as_many_in_each_decade() {
    let sizes = vec![SizeRange {
        bytes: ObjectSize(1_000),
        to: Some(ObjectSize(1_000_000)),
        weight: 1,
        shape: Shape::Log,
    }];
    let phase = Phase { sizes, ..reads(3_000, Order::Sequential) };
    let lengths: Vec<u64> = all(&phase).iter().map(|planned| planned.ask.body.length).collect();
    for decade in [1_000, 10_000, 100_000] {
        let count = lengths.iter().filter(|length| (decade..decade * 10).contains(*length)).count();
        assert!((900..1100).contains(&count), "{decade}: {count}");
    }
}

#[test]
fn buckets_take_their_share_of_the_keys_and_names_are_filled() {
    let buckets = vec!["a-{trial}".into(), "b-{client}".into(), "c".into()];
    let phase = Phase { buckets: buckets.clone(), ..reads(10, Order::Sequential) };
    let planned = all(&phase);
    assert_eq!(planned[0].ask.bucket.as_ref(), "a-1");
    assert_eq!(planned[1].ask.bucket.as_ref(), "b-2");
    let list =
        Phase { buckets, list_all: true, operations: Some(3), mix: Mix::only(Operation::List), ..phase };
    let expected: Vec<u64> = all(&list).iter().map(|planned| planned.ask.expected.unwrap()).collect();
    for (place, name) in ["a-1", "b-2", "c"].into_iter().enumerate() {
        let there = planned.iter().filter(|planned| planned.ask.bucket.as_ref() == name).count();
        assert_eq!(there as u64, expected[place]);
    }
}
