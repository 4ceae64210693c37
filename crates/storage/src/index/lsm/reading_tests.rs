//! Scans across what was deleted: what they go over, and that they find what there is.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::atomic::{AtomicBool, Ordering};

use lsm_tree::AbstractTree;
use skerry_base::kv::{Batch, Table, View};

use super::super::{Lsm, Shared};
use crate::Settings;
use crate::disk::faulty::Chance;
use crate::index::gaps::Span;
use crate::index::{Index, Reading, prefixed};

type Rows = Vec<(Vec<u8>, Vec<u8>)>;
type Lives = BTreeMap<Vec<u8>, Vec<u8>>;

fn opened(folder: &std::path::Path, memtable_bytes: u64) -> Lsm {
    Lsm::open(&folder.join("index"), &Settings { memtable_bytes, ..Settings::default() }).unwrap()
}

fn rows(view: &dyn View, from: &[u8], to: &[u8], most: usize) -> Rows {
    let mut rows = Rows::new();
    let (from, to) = (Bound::Included(from), Bound::Excluded(to));
    view.scan(Table::Current, from, to, &mut |key, value| {
        rows.push((key.to_vec(), value.to_vec()));
        if rows.len() == most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })
    .unwrap();
    rows
}

fn write(index: &Lsm, mark: u64, changes: impl IntoIterator<Item = (Vec<u8>, Option<Vec<u8>>)>) {
    let mut batch = Batch::default();
    for (key, value) in changes {
        match value {
            Some(value) => batch.put(Table::Current, key, value),
            None => batch.delete(Table::Current, key),
        }
    }
    index.apply(&batch.writes, mark).unwrap();
}

/// 40,000 rows between 10 that live before and 10 behind, all deleted; nothing is flushed, so that no merge can drop them.
fn emptied(index: &Lsm) {
    let edge = |name: char| (0..10).map(move |number| format!("{name}{number}").into_bytes());
    write(index, 1, edge('a').chain(edge('z')).map(|key| (key, Some(vec![7; 90]))));
    let gone = || (0..40_000).map(|number| format!("m{number:08}").into_bytes());
    write(index, 2, gone().map(|key| (key, Some(vec![7; 90]))));
    write(index, 3, gone().map(|key| (key, None)));
}

/// Stretches that scans passed over, and rows that were hot.
fn had(index: &Lsm) -> (u64, u64) {
    let Shared { gaps, hot, .. } = &*index.shared;
    (gaps.jumps.load(Ordering::Relaxed), hot.hits.load(Ordering::Relaxed))
}

fn name(key: &[u8]) -> Vec<u8> {
    prefixed(Table::Current, key)
}

/// All that these tests list.
fn listed() -> Span {
    Span { from: vec![Table::Current as u8], to: vec![Table::Current as u8 + 1] }
}

/// How many entries of the memtable such a scan goes over: all but those that are passed over.
fn gone_over(index: &Lsm) -> usize {
    let within = |gap: &Span, key: &[u8]| *gap.from <= *key && *key < *gap.to;
    let gap = index.shared.gaps.next(&listed(), index.shared.visible());
    let memtable = index.shared.tree.active_memtable();
    let keys = memtable.iter().map(|entry| entry.key.user_key);
    keys.filter(|key| !gap.as_ref().is_some_and(|gap| within(gap, key))).count()
}

#[test]
fn a_page_across_many_deletes_goes_over_what_it_shows() {
    let folder = tempfile::tempdir().unwrap();
    let index = opened(folder.path(), 256 << 20);
    // Nothing goes over 80,000 entries in less, and hardly over one in more, twice.
    index.shared.gaps.set_slow(5_000_000);
    emptied(&index);
    assert_eq!(gone_over(&index), 20 + 2 * 40_000);
    let before = index.read();
    assert_eq!((rows(&*index.read(), b"", b"~", 1000).len(), had(&index).0), (20, 0));
    assert_eq!(gone_over(&index), 20);
    let jumps = had(&index).0;
    assert_eq!((rows(&*index.read(), b"", b"~", 1000).len(), had(&index).0), (20, jumps + 1));
    assert_eq!(rows(&*index.read(), b"m00012345", b"~", 1)[0].0, b"z0", "from within");
    assert_eq!(had(&index).0, jumps + 2);
    // What is put there is seen by who began after it, and only the row it is.
    let begun = index.read();
    write(&index, 4, [(b"m00020000x".to_vec(), Some(vec![8]))]);
    assert_eq!(rows(&*index.read(), b"a9", b"z1", 1000).len(), 3);
    assert_eq!(rows(&*begun, b"a9", b"z1", 1000).len(), 2);
    assert_eq!(rows(&*before, b"a9", b"z1", 1000).len(), 2);
    write(&index, 5, [(b"m00020000x".to_vec(), None)]);
    let jumps = had(&index).0;
    assert_eq!(rows(&*index.read(), b"a9", b"z1", 1000).len(), 2);
    assert_eq!(had(&index).0, jumps + 2, "both parts");
    assert_eq!(rows(&*index.read(), b"a9", b"z1", 1000).len(), 2);
    assert_eq!(had(&index).0, jumps + 3, "nothing is between them any more");
}

/// Once its deletes are merged away it is no more than a step from one row to the next.
#[test]
fn what_was_merged_away_is_not_sought() {
    let folder = tempfile::tempdir().unwrap();
    let index = opened(folder.path(), 256 << 20);
    index.shared.gaps.set_slow(5_000_000);
    emptied(&index);
    for _ in 0..2 {
        assert_eq!(rows(&*index.read(), b"", b"~", 1000).len(), 20);
    }
    assert_eq!(had(&index).0, 1);
    index.checkpoint(None).unwrap();
    index.shared.asked.store(true, Ordering::Relaxed);
    index.tend(None).unwrap();
    for _ in 0..2 {
        assert_eq!(rows(&*index.read(), b"", b"~", 1000).len(), 20);
    }
    assert_eq!(had(&index).0, 1);
}

/// The stretch that is remembered after a scan over one row, where the clock said this.
fn remembered(clock: &[u64]) -> Option<Span> {
    let folder = tempfile::tempdir().unwrap();
    let index = opened(folder.path(), 256 << 20);
    index.shared.gaps.set_slow(1000);
    write(&index, 1, [(b"m".to_vec(), Some(vec![7]))]);
    index.shared.gaps.set_clock(clock);
    assert_eq!(rows(&*index.read(), b"a", b"z", 10).len(), 1);
    index.shared.gaps.next(&listed(), index.shared.visible())
}

#[test]
fn only_what_takes_long_twice_is_remembered_and_not_what_visitors_do() {
    assert_eq!(remembered(&[0, 10, 20, 30]), None);
    // The row, once more, and what is behind it.
    let gap = |from: &[u8], to: &[u8]| Some(Span { from: name(from), to: name(to) });
    assert_eq!(remembered(&[0, 5000, 6000, 6010, 6020, 6030]), None, "it was slow once");
    assert_eq!(remembered(&[0, 5000, 6000, 9000, 9010, 9020]), gap(b"a", b"m"));
    assert_eq!(remembered(&[0, 10, 20, 5000, 6000, 9000]), gap(b"m\0", b"z"));
    // The row, its visitor, and what is behind it: were it looked at again, that would be slow.
    assert_eq!(remembered(&[0, 10, 5000, 5010, 9000]), None);
}

/// Also the smallest stretches are remembered here, so that hardly a row is reached but over what was found before.
#[test]
fn scans_find_what_there_is_whatever_was_found_before() {
    let folder = tempfile::tempdir().unwrap();
    let index = opened(folder.path(), 64 << 10);
    index.shared.gaps.set_slow(0);
    let mut chance = Chance(11);
    let key = |number: u64| format!("{:03}/{:02}", number / 20, number % 20).into_bytes();
    let mut lives: Lives = BTreeMap::new();
    let mut held: Vec<(Reading, Lives)> = Vec::new();
    for mark in 1..=600_u64 {
        let first = chance.below(2000);
        let changes: BTreeMap<Vec<u8>, Option<Vec<u8>>> = (0..=chance.below(30))
            .map(|step| (key(first + step), (chance.below(5) == 0).then(|| mark.to_be_bytes().to_vec())))
            .collect();
        for (key, value) in &changes {
            match value {
                Some(value) => drop(lives.insert(key.clone(), value.clone())),
                None => drop(lives.remove(key)),
            }
        }
        write(&index, mark, changes);
        if index.wants_tending() {
            index.tend(None).unwrap();
        }
        held.push((index.read(), lives.clone()));
        if held.len() > 4 {
            held.remove(usize::try_from(chance.below(4)).unwrap());
        }
        for (view, lived) in &held {
            let (one, other) = (key(chance.below(2000)), key(chance.below(2000)));
            let (from, to) = (one.clone().min(other.clone()), one.max(other));
            let most = usize::try_from(1 + chance.below(300)).unwrap();
            let there: Rows = lived
                .range(from.clone()..to.clone())
                .take(most)
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect();
            assert_eq!(rows(&**view, &from, &to, most), there, "mark {mark}");
            // Few, so that they are hot, next to those that change now.
            for number in [first, first + 1, 7, 7, 700, 700] {
                let found = view.get(Table::Current, &key(number)).unwrap();
                assert_eq!(found.as_deref(), lived.get(&key(number)).map(Vec::as_slice), "mark {mark}");
            }
        }
    }
    let (jumps, hits) = had(&index);
    assert!(jumps > 1000 && hits > 100, "{jumps} jumps, {hits} hits");
}

/// What a row's reading by name finds, which may be kept, and what a scan does.
fn turn(view: &dyn View) -> [Vec<u8>; 2] {
    let by_name = view.get(Table::Current, b"!turn").unwrap().unwrap();
    [by_name.to_vec(), rows(view, b"!turn", b"0", 1)[0].1.clone()]
}

/// Also where the test fails.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A row moves with each group: none and two of it would be a group of which half is seen. Another one says which group it was.
#[test]
fn beside_who_applies_each_row_is_found_once_and_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let index = opened(folder.path(), 64 << 10);
    index.shared.gaps.set_slow(0);
    let key = |place: u64| format!("{place:05}").into_bytes();
    let turns = |mark: u64| (b"!turn".to_vec(), Some(mark.to_be_bytes().to_vec()));
    write(&index, 1, (0..50).map(|row| (key(row * 400), Some(vec![1]))).chain([turns(1)]));
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for reader in 0..2 {
            let (index, ended) = (&index, &ended);
            scope.spawn(move || {
                let mut chance = Chance(reader);
                while !ended.load(Ordering::Relaxed) {
                    let view = index.read();
                    let [by_name, scanned] = turn(&*view);
                    assert_eq!(by_name, scanned);
                    assert_eq!(rows(&*view, b"0", b"~", 1000).len(), 50);
                    let middle = key(chance.below(20_000));
                    let parts = [rows(&*view, b"0", &middle, 1000), rows(&*view, &middle, b"~", 1000)];
                    assert_eq!(parts.iter().map(Vec::len).sum::<usize>(), 50);
                }
            });
        }
        let _ends = Ends(&ended);
        let (mut chance, mut places) = (Chance(3), (0..50).map(|row| row * 400).collect::<Vec<u64>>());
        for mark in 2..6000 {
            let row = usize::try_from(chance.below(50)).unwrap();
            let place = chance.below(20_000);
            if places.contains(&place) {
                continue;
            }
            write(&index, mark, [(key(places[row]), None), (key(place), Some(vec![1])), turns(mark)]);
            places[row] = place;
            if index.wants_tending() {
                index.tend(None).unwrap();
            }
        }
    });
}
