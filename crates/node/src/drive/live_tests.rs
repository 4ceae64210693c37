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

/// What each step stores, until the last or one that is refused.
fn take(tables: &mut Tables, apply: Apply) -> (Vec<usize>, Result<(), String>) {
    let (mut batch, mut stored) = (Batch::of(apply), Vec::new());
    loop {
        let step = match batch.step(tables) {
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
