//! A batch of a feed in steps, over tables that take each.

#![expect(clippy::unwrap_used, reason = "tests")]

use skerry_base::kv::{Reducer, Tables};
use skerry_base::{Hlc, NodeId, Origin};
use skerry_model::record::{Scope, Statement, Versioning};
use skerry_model::space::SpaceReducer;

use super::*;

const BUCKET: BucketId = BucketId([7; 16]);
const WRITER: Origin = Origin { node: NodeId([1; 16]), incarnation: 1 };
const SOURCE: Origin = Origin { node: NodeId([2; 16]), incarnation: 1 };

fn item(seq: u64) -> FeedItem {
    let dot = Dot { origin: WRITER, seq };
    let record = Record {
        bucket: BUCKET,
        dot,
        key: format!("key-{seq:03}"),
        clock: Hlc(seq),
        context: Vector::new(),
        versioning: Versioning::Enabled,
        keeps: Vec::new(),
        scope: Scope::Node,
        home: None,
        placement: None,
        writer: String::new(),
        site: SiteId([1; 16]),
        statement: Statement::Put(Box::default()),
    };
    FeedItem { dot, record: record.encode().into(), bodies: Vec::new() }
}

/// Of so many records, the last of a round, with a horizon and a doubt.
fn answer(count: u64) -> Apply {
    let one = |seq| Vector::from_iter([(WRITER, seq)]);
    Apply {
        ticket: skerry_federation::Ticket(1),
        from: SiteId([2; 16]),
        source: SOURCE,
        more: false,
        bucket: BUCKET,
        base: Vector::new(),
        items: (1..=count).map(item).collect(),
        upto: one(count),
        horizon: one(3),
        doubt: one(2),
    }
}

/// The same with bodies: one in two is longer than one that goes to everybody.
fn with_bodies(count: u64, len: usize) -> Apply {
    let mut answer = answer(count);
    for item in &mut answer.items {
        let bytes = Bytes::from(vec![1; if item.dot.seq % 2 == 0 { len } else { 200 }]);
        let mut record = Record::admit(&item.record).unwrap();
        let chunk = skerry_base::ChunkRef {
            id: skerry_base::ChunkId::of(&bytes),
            kind: skerry_base::ChunkKind::Leaf,
            stored: bytes.len() as u32,
            length: bytes.len() as u64,
        };
        record.statement = Statement::Put(Box::new(skerry_model::Object {
            chunks: vec![chunk],
            size: bytes.len() as u64,
            ..skerry_model::Object::default()
        }));
        (item.record, item.bodies) = (record.encode().into(), vec![bytes]);
    }
    answer
}

/// A record as another dot's.
fn renamed(record: &[u8], dot: Dot) -> Bytes {
    Record { dot, ..Record::admit(record).unwrap() }.encode().into()
}

/// What each step stores, until the last or one that is refused.
fn take(tables: &mut Tables, apply: Apply) -> (Vec<usize>, Result<(), String>) {
    let (mut batch, mut stored) = (Batch::of(apply), Vec::new());
    loop {
        let step = match batch.step(tables, false) {
            Ok(step) => step,
            Err(why) => return (stored, Err(why)),
        };
        let before = dots(tables);
        for entry in &step.entries {
            let mut changes = skerry_base::kv::Batch::default();
            SpaceReducer.reduce(&entry.data, &*tables, &mut changes).unwrap();
            tables.apply(&changes);
        }
        stored.push(dots(tables) - before);
        if !step.more {
            return (stored, Ok(()));
        }
    }
}

fn dots(tables: &Tables) -> usize {
    space::dots_in(tables, BUCKET, space::DotRange::ALL, usize::MAX).unwrap().len()
}

#[test]
fn a_batch_comes_in_steps_and_only_the_last_raises_the_vector() {
    let mut tables = Tables::default();
    let cut = Apply { more: true, ..answer(20) };
    assert_eq!(take(&mut tables, cut), (vec![16, 4], Ok(())));
    assert_eq!(space::vector(&tables, BUCKET).unwrap(), Vector::new(), "the round goes on");
    assert_eq!(read(&tables, Stored::Horizon, BUCKET).unwrap().get(WRITER), 3);
    let mut rest = Apply { base: answer(20).upto, ..answer(36) };
    rest.items.drain(..20);
    assert_eq!(take(&mut tables, rest), (vec![16], Ok(())));
    assert_eq!(space::vector(&tables, BUCKET).unwrap().get(WRITER), 36);
    assert_eq!(take(&mut Tables::default(), answer(0)), (vec![0], Ok(())), "one that passes over all");
}

#[test]
fn a_record_that_came_as_another_refuses_its_step_and_the_round_goes_on_before_it() {
    let mut tables = Tables::default();
    let mut hostile = answer(40);
    hostile.items[20] = FeedItem { dot: Dot { origin: WRITER, seq: 21 }, ..item(99) };
    let (stored, refused) = take(&mut tables, hostile);
    assert_eq!(stored, [16]);
    assert!(refused.unwrap_err().contains("came as"));
    assert_eq!(space::vector(&tables, BUCKET).unwrap(), Vector::new());
    assert_eq!(space::seen(&tables, BUCKET, SOURCE).unwrap().get(WRITER), 16, "asked from there again");
    // What was to be covered and passed over is noted before anything is.
    assert_eq!(read(&tables, Stored::Horizon, BUCKET).unwrap().get(WRITER), 3);
    assert_eq!(read(&tables, Stored::Doubt, BUCKET).unwrap().get(WRITER), 2);
}

/// How many bodies each step stores.
fn bodies(tables: &mut Tables, apply: Apply, is_full: bool) -> Vec<usize> {
    let (mut batch, mut stored) = (Batch::of(apply), Vec::new());
    loop {
        let step = batch.step(tables, is_full).unwrap();
        for entry in &step.entries {
            let mut changes = skerry_base::kv::Batch::default();
            SpaceReducer.reduce(&entry.data, &*tables, &mut changes).unwrap();
            tables.apply(&changes);
        }
        stored.push(step.entries.iter().map(|entry| entry.bodies.len()).sum());
        if !step.more {
            return stored;
        }
    }
}

#[test]
fn long_bodies_make_short_steps_and_are_left_behind_where_there_is_no_room() {
    let long = 32 << 10;
    let mut tables = Tables::default();
    assert_eq!(bodies(&mut tables, with_bodies(8, long), false), [7, 1]);
    assert_eq!(dots(&tables), 8);
    assert_eq!(bodies(&mut Tables::default(), with_bodies(20, 1000), false), [16, 4]);
    // One among many that are short is no reason to commit those by threes.
    let mut one = with_bodies(33, 300);
    one.items[20] = with_bodies(2, long).items.remove(1);
    let dot = Dot { origin: WRITER, seq: 21 };
    one.items[20] = FeedItem { dot, record: renamed(&one.items[20].record, dot), ..one.items[20].clone() };
    assert_eq!(bodies(&mut Tables::default(), one, false), [16, 16, 1]);
    // Records come all the same, and the short ones with them: those are what a feed has ever brought.
    let mut tables = Tables::default();
    assert_eq!(bodies(&mut tables, with_bodies(8, long), true), [4, 0]);
    assert_eq!((dots(&tables), space::vector(&tables, BUCKET).unwrap().get(WRITER)), (8, 8));
}
