//! One suite for all engines: random batches and readings against base's tables in memory.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::ops::ControlFlow;

use proptest::prelude::{Just, Strategy, prop_oneof};
use proptest::test_runner::{Config, TestRunner};
use skerry_base::kv::{Batch, Tables};

use super::*;

#[derive(Debug, Clone)]
enum Step {
    Apply(Vec<(u8, Vec<u8>, Option<Vec<u8>>)>),
    Hold,
    Release,
    Tend,
    Checkpoint,
}

fn step() -> impl Strategy<Value = Step> {
    let bytes = |most| proptest::collection::vec(0_u8..4, 0..most);
    let write = (0_u8..2, bytes(4), proptest::option::of(bytes(40)));
    prop_oneof![
        6 => proptest::collection::vec(write, 1..20).prop_map(Step::Apply),
        2 => Just(Step::Hold),
        1 => Just(Step::Release),
        1 => Just(Step::Tend),
        1 => Just(Step::Checkpoint),
    ]
}

fn table(number: u8) -> Table {
    if number == 0 { Table::Current } else { Table::Heads }
}

fn all(view: &dyn View, table: Table, from: Bound<&[u8]>, to: Bound<&[u8]>) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut found = Vec::new();
    view.scan(table, from, to, &mut |key, value| {
        found.push((key.to_vec(), value.to_vec()));
        ControlFlow::Continue(())
    })
    .unwrap();
    found
}

fn same(view: &dyn View, tables: &Tables) {
    for table in [Table::Current, Table::Heads, Table::Versions] {
        let whole = all(tables, table, Bound::Unbounded, Bound::Unbounded);
        assert_eq!(all(view, table, Bound::Unbounded, Bound::Unbounded), whole);
        for (key, value) in &whole {
            assert_eq!(view.get(table, key).unwrap().unwrap(), *value);
        }
        for (from, to) in [(&[1_u8][..], &[2_u8, 1][..]), (&[2], &[1]), (&[1], &[1]), (&[], &[0])] {
            for first in [Bound::Included(from), Bound::Excluded(from)] {
                for last in [Bound::Included(to), Bound::Excluded(to)] {
                    if from <= to {
                        assert_eq!(all(view, table, first, last), all(tables, table, first, last));
                    } else {
                        assert_eq!(all(view, table, first, last), vec![]);
                    }
                }
            }
        }
    }
    assert_eq!(view.get(Table::Versions, b"none").unwrap(), None);
}

/// All rows of the moment at which they were asked for, though the reading of then is gone and others were written since.
fn released(held: Option<(Reading, Vec<Rows>, Tables)>) {
    let Some((reading, rows, tables)) = held else { return };
    drop(reading);
    let wanted = [
        all(&tables, Table::Current, Bound::Unbounded, Bound::Unbounded),
        all(&tables, Table::Heads, Bound::Included(&[1]), Bound::Excluded(&[2])),
    ];
    let found: Vec<Vec<_>> = rows.into_iter().map(|rows| rows.map(Result::unwrap).collect()).collect();
    assert_eq!(found, wanted);
}

/// Runs steps; `reopen` brings back what survives when the files are dropped as they are.
fn run(steps: &[Step], mut reopen: impl FnMut() -> Arc<dyn Index>, lasts: bool) {
    let index = reopen();
    let mut tables = Tables::default();
    let mut held: Vec<(Reading, Vec<Rows>, Tables)> = Vec::new();
    let parts = [Part(Table::Current, &[]), Part(Table::Heads, &[1])];
    // What each mark meant, to compare with what survives.
    let mut history = vec![tables.clone()];
    for step in steps {
        match step {
            Step::Apply(writes) => {
                let mut batch = Batch::default();
                for (number, key, value) in writes {
                    match value {
                        Some(value) => batch.put(table(*number), key.clone(), value.clone()),
                        None => batch.delete(table(*number), key.clone()),
                    }
                }
                index.apply(&batch.writes, history.len() as u64).unwrap();
                tables.apply(&batch);
                history.push(tables.clone());
            }
            Step::Hold => held.push((index.read(), index.rows(&parts), tables.clone())),
            Step::Release => released(held.pop()),
            Step::Tend => index.tend(None).unwrap(),
            Step::Checkpoint => {
                index.checkpoint(None).unwrap();
                assert!(index.durable() >= history.len() as u64 - 1);
            }
        }
        same(&*index.read(), &tables);
        held.iter().for_each(|(reading, _, tables)| same(&**reading, tables));
    }
    let durable = index.durable() as usize;
    held.into_iter().for_each(|held| released(Some(held)));
    drop(index);
    if lasts {
        let index = reopen();
        let found = |state: &Tables| {
            all(&*index.read(), Table::Current, Bound::Unbounded, Bound::Unbounded)
                == all(state, Table::Current, Bound::Unbounded, Bound::Unbounded)
                && all(&*index.read(), Table::Heads, Bound::Unbounded, Bound::Unbounded)
                    == all(state, Table::Heads, Bound::Unbounded, Bound::Unbounded)
        };
        assert!(history[durable..].iter().any(found), "less than what was durable, or part of a group");
    }
}

fn suite(cases: u32, engine: Engine) {
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    runner
        .run(&proptest::collection::vec(step(), 1..40), |steps| {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("index");
            let settings =
                Settings { engine, memtable_bytes: 2048, index_cache_bytes: 1 << 20, ..Settings::default() };
            run(&steps, || open(Some(path.clone()), &settings).unwrap(), engine != Engine::Memory);
            Ok(())
        })
        .unwrap();
}

#[test]
fn memory() {
    suite(200, Engine::Memory);
}

#[test]
fn lsm() {
    suite(30, Engine::Lsm);
}

#[cfg(feature = "redb")]
#[test]
fn redb() {
    suite(30, Engine::Redb);
}

/// Groups stay whole for readers while another thread flushes and compacts.
#[test]
fn lsm_groups_are_whole_beside_a_tending_thread() {
    let folder = tempfile::tempdir().unwrap();
    let settings = Settings { engine: Engine::Lsm, memtable_bytes: 4096, ..Settings::default() };
    let index = open(Some(folder.path().join("index")), &settings).unwrap();
    let done = std::sync::atomic::AtomicBool::new(false);
    let ended = || done.load(std::sync::atomic::Ordering::Relaxed);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ended() {
                index.tend(None).unwrap()
            }
        });
        scope.spawn(|| {
            while !ended() {
                let view = index.read();
                let found = all(&*view, Table::Current, Bound::Unbounded, Bound::Unbounded);
                let numbers: std::collections::BTreeSet<Vec<u8>> =
                    found.iter().map(|(_, value)| value.clone()).collect();
                assert!(found.is_empty() || (found.len() == 16 && numbers.len() == 1), "{found:?}");
            }
        });
        for mark in 1..400_u64 {
            let mut batch = Batch::default();
            (0..16_u8).for_each(|key| batch.put(Table::Current, vec![key], [mark.to_le_bytes(); 8].concat()));
            index.apply(&batch.writes, mark).unwrap();
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}
