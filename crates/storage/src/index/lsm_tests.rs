//! What the memtables of the index take in memory, and what is opened at all.
#![expect(clippy::unwrap_used, reason = "tests")]

use bytes::Bytes;
use std::io::ErrorKind;
use std::ops::{Bound, ControlFlow};
use std::sync::atomic::Ordering;

use rustix::io::Errno;
use skerry_base::kv::{Batch, Table, ViewError};

use super::{INLINE, Lsm, NODE, RUNS_MAX, RUNS_MERGED, failed, resident, unreadable};
use crate::index::rows::Part;
use crate::index::{Index, Refused};
use crate::{Settings, StorageError};
use lsm_tree::AbstractTree;

const MEMTABLE: u64 = 256 << 10;

fn opened(folder: &std::path::Path) -> Lsm {
    Lsm::open(&folder.join("index"), &Settings { memtable_bytes: MEMTABLE, ..Settings::default() }).unwrap()
}

/// One group of a row as records have it; returns what it takes.
fn apply(index: &Lsm, mark: u64) -> u64 {
    let mut batch = Batch::default();
    let (key, value) = (format!("photos/2026/{mark:024}"), vec![mark as u8; 90]);
    batch.put(Table::Current, key.clone().into_bytes(), value.clone());
    index.apply(&batch.writes, mark).unwrap();
    resident(key.len() + 1, value.len())
}

/// A flipped bit in how many parts a table has would have the library ask for gigabytes, which ends the process.
#[test]
fn a_table_that_claims_more_parts_than_fit_is_refused_before_the_library_reads_it() {
    let folder = tempfile::tempdir().unwrap();
    let index = opened(folder.path());
    run(&index, 1);
    drop(index);
    let table =
        std::fs::read_dir(folder.path().join("index/tables")).unwrap().next().unwrap().unwrap().path();
    let whole = std::fs::read(&table).unwrap();
    let list = whole.windows(4).rposition(|bytes| bytes == b"TOC!").unwrap();
    let open = || Lsm::open(&folder.path().join("index"), &Settings::default()).map(drop);
    for at in list..whole.len() {
        for bit in 0..8 {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << bit;
            std::fs::write(&table, bytes).unwrap();
            let told = open();
            // The library does not read how long the list is.
            let is_unused = at >= whole.len() - 8;
            assert_eq!(told.is_ok(), is_unused, "byte {at}, bit {bit}: {told:?}");
        }
    }
    std::fs::write(&table, &whole[..whole.len() - 1]).unwrap();
    assert!(open().is_err());
    std::fs::write(&table, whole).unwrap();
    open().unwrap();
}

/// A row of 36 + 90 bytes takes a node, and both outside of it.
#[test]
fn what_a_row_takes_is_more_than_it_says() {
    assert_eq!(resident(INLINE, 0), NODE);
    assert_eq!(resident(37, 90), NODE + 64 + 112);
}

/// The rest of what may be taken is for what comes while it is flushed.
#[test]
fn a_memtable_is_full_at_seven_tenths_of_what_may_be_taken() {
    let folder = tempfile::tempdir().unwrap();
    let index = opened(folder.path());
    let (mut taken, mut mark) = (0, 0);
    while index.shared.tree.sealed_memtable_count() == 0 {
        mark += 1;
        taken += apply(&index, mark);
        assert!(taken <= MEMTABLE * 7 / 10 + 500, "{taken} bytes taken");
    }
    assert!(taken >= MEMTABLE * 7 / 10 - 10, "{taken} bytes taken");
    assert!(index.wants_tending());
}

/// Else three of them would lie in memory before the next flush ends.
#[test]
fn a_memtable_that_was_flushed_is_let_go_of_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let index = opened(folder.path());
    let mut mark = 0;
    for turn in 0..20 {
        let memtable = std::sync::Arc::downgrade(&index.shared.tree.active_memtable());
        while index.shared.tree.sealed_memtable_count() == 0 {
            mark += 1;
            apply(&index, mark);
        }
        index.tend(None).unwrap();
        assert!(memtable.upgrade().is_none(), "flush {turn}: what was flushed is still in memory");
    }
    assert!(
        index.read().get(Table::Current, format!("photos/2026/{mark:024}").as_bytes()).unwrap().is_some()
    );
}

/// A disk that does not answer: who applies waits for the flush, and nothing else would bound what lies in memory.
#[test]
fn what_is_not_flushed_is_bounded_while_a_flush_does_not_end() {
    let folder = tempfile::tempdir().unwrap();
    let index = opened(folder.path());
    let stuck = index.flushing.lock().unwrap();
    let write = || {
        let mut most = 0;
        for mark in 1..=8000 {
            if index.is_behind() {
                index.help(None).unwrap();
            }
            apply(&index, mark);
            most = most.max(index.unflushed());
        }
        most
    };
    let most = std::thread::scope(|scope| {
        let writer = scope.spawn(write);
        while index.unflushed() < MEMTABLE && !writer.is_finished() {
            std::thread::yield_now();
        }
        assert!(!writer.is_finished(), "it wrote as if nothing waited");
        drop(stuck);
        writer.join().unwrap()
    });
    println!("{most} bytes were not flushed, {MEMTABLE} may be");
    assert!(most >= MEMTABLE, "{most}: who applies waits too early");
    assert!(most <= MEMTABLE + 500, "{most} bytes were not flushed");
    index.checkpoint(None).unwrap();
    assert_eq!(index.unflushed(), 0);
}

/// While a flush makes something last before it begins there is no rotation; what grows meanwhile is flushed with the next.
#[test]
fn what_grows_while_nothing_rotates_is_flushed_by_who_helps() {
    let folder = tempfile::tempdir().unwrap();
    let index = opened(folder.path());
    apply(&index, 1);
    let grow = || {
        let mut mark = 1;
        while index.unflushed() < MEMTABLE + 1000 {
            mark += 1;
            apply(&index, mark);
        }
        Ok(())
    };
    index.checkpoint(Some(&grow)).unwrap();
    assert!(index.is_behind() && index.wants_tending());
    index.help(None).unwrap();
    assert!(!index.is_behind() && index.unflushed() == 0);
}

/// A merge of minutes: flushes go on beside it, and who applies waits for it once there are many runs.
#[test]
fn runs_are_bounded_while_a_merge_does_not_end() {
    let folder = tempfile::tempdir().unwrap();
    let index = opened(folder.path());
    let stuck = index.compacting.lock().unwrap();
    let write = || {
        let mut most = 0;
        for mark in 1..=60 {
            if index.is_behind() {
                index.help(None).unwrap();
            }
            long_run(&index, mark);
            most = most.max(index.shared.tree.l0_run_count());
        }
        most
    };
    let most = std::thread::scope(|scope| {
        let writer = scope.spawn(write);
        while index.waiting.load(Ordering::Relaxed) == 0 && !writer.is_finished() {
            std::thread::yield_now();
        }
        assert!(!writer.is_finished(), "it wrote as if nothing were to be merged");
        assert_eq!(index.shared.tree.l0_run_count(), RUNS_MAX + 1);
        drop(stuck);
        writer.join().unwrap()
    });
    assert_eq!(most, RUNS_MAX + 1);
    assert!(!index.is_behind(), "it came to an end though it had to merge itself");
}

/// And no longer than that: the merges of the levels below are for who tends the index.
#[test]
fn who_waits_for_merges_goes_on_once_there_are_few_runs() {
    let folder = tempfile::tempdir().unwrap();
    let index = opened(folder.path());
    (1..=RUNS_MAX as u64 + 1).for_each(|mark| long_run(&index, mark));
    assert!(index.is_behind());
    index.help(None).unwrap();
    assert!(!index.is_behind() && index.wants_tending(), "it has merged more than it had to");
    index.tend(None).unwrap();
    assert!(!index.wants_tending());
}

/// Its room in memory is given back by another version, which may be refused: what was flushed is flushed.
#[test]
fn a_flush_stands_though_its_memtable_cannot_be_let_go_of() {
    let folder = tempfile::tempdir().unwrap();
    let index = opened(folder.path());
    run(&index, 1);
    index.tend(None).unwrap();
    let memtable = std::sync::Arc::downgrade(&index.shared.tree.active_memtable());
    // The flush has a version of its own before that one.
    let number = index.shared.tree.current_version().id() + 2;
    let list = folder.path().join(format!("index/v{number}"));
    std::fs::create_dir(&list).unwrap();
    run(&index, 2);
    assert_eq!((index.durable(), index.failed_flushes()), (2, 0));
    assert!(memtable.upgrade().is_some(), "nothing was refused");
    std::fs::remove_dir(&list).unwrap();
    index.tend(None).unwrap();
    assert_eq!(index.shared.tree.current_version().id(), number, "no merge did it");
    assert!(memtable.upgrade().is_none(), "what was flushed is still in memory");
}

/// It would let go of nothing, and cost four syncs.
#[test]
fn nothing_is_written_to_let_go_of_what_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let index = opened(folder.path());
    apply(&index, 1);
    let (reading, before) = (index.read(), index.shared.tree.current_version().id());
    index.checkpoint(None).unwrap();
    assert_eq!(index.shared.tree.current_version().id(), before + 1);
    drop(reading);
    index.release();
    assert_eq!(index.shared.tree.current_version().id(), before + 2);
}

/// The library takes the counts in it at their word, and ends the process when there is no memory for so many.
#[test]
fn a_damaged_list_of_tables_is_refused_before_the_library_reads_it() {
    let folder = tempfile::tempdir().unwrap();
    apply(&opened(folder.path()), 1);
    let path = folder.path().join("index");
    let settings = Settings { memtable_bytes: MEMTABLE, ..Settings::default() };
    let current = std::fs::read(path.join("current")).unwrap();
    let list = path.join(format!("v{}", u64::from_le_bytes(current[..8].try_into().unwrap())));
    let whole = std::fs::read(&list).unwrap();
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x40;
        std::fs::write(&list, bytes).unwrap();
        let refused = Lsm::open(&path, &settings).err().map(|error| error.to_string());
        assert!(refused.is_some_and(|why| why.contains("list of its tables")), "byte {at}");
    }
    std::fs::write(&list, whole).unwrap();
    Lsm::open(&path, &settings).unwrap();
}

/// A reading that is held goes on as it was, and what it needs goes when it does.
#[test]
fn a_reading_keeps_what_it_reads_and_no_longer() {
    let folder = tempfile::tempdir().unwrap();
    let index = opened(folder.path());
    apply(&index, 1);
    let (held, memtable) = (index.read(), std::sync::Arc::downgrade(&index.shared.tree.active_memtable()));
    let mut batch = Batch::default();
    let key = format!("photos/2026/{:024}", 1).into_bytes();
    batch.delete(Table::Current, key.clone());
    index.apply(&batch.writes, 2).unwrap();
    index.checkpoint(None).unwrap();
    index.tend(None).unwrap();
    assert_eq!(held.get(Table::Current, &key).unwrap(), Some(Bytes::from(vec![1; 90])));
    assert_eq!(index.read().get(Table::Current, &key).unwrap(), None);
    drop(held);
    apply(&index, 3);
    index.checkpoint(None).unwrap();
    index.tend(None).unwrap();
    assert!(memtable.upgrade().is_none(), "nobody reads it any more");
}

/// A base takes minutes to write: all that is flushed meanwhile would be all the memory there is.
#[test]
fn who_goes_over_all_rows_for_long_keeps_no_memtable_that_is_flushed_meanwhile() {
    let folder = tempfile::tempdir().unwrap();
    let index = opened(folder.path());
    let mut mark = 0;
    while mark < 3000 {
        mark += 1;
        apply(&index, mark);
    }
    index.tend(None).unwrap();
    let mut rows = index.rows(&[Part(Table::Current, &[]), Part(Table::Heads, &[])]);
    let first = rows[0].next().unwrap().unwrap();
    let mut memtables = Vec::new();
    for _ in 0..20 {
        memtables.push(std::sync::Arc::downgrade(&index.shared.tree.active_memtable()));
        while index.shared.tree.sealed_memtable_count() == 0 {
            mark += 1;
            apply(&index, mark);
        }
        index.tend(None).unwrap();
        let held = memtables.iter().filter(|memtable| memtable.upgrade().is_some()).count();
        assert!(held <= 1, "{held} memtables that were flushed are in memory, of {}", memtables.len());
    }
    let seen: Vec<_> = std::iter::once(first).chain(rows.remove(0).map(Result::unwrap)).collect();
    assert_eq!(seen.len(), 3000);
    let last = format!("photos/2026/{:024}", 3000).into_bytes();
    assert_eq!(seen.last().unwrap(), &(last, vec![3000_u64 as u8; 90]));
    // The tables that were merged away meanwhile lie there no longer than that.
    drop(rows);
    assert!(nothing_is_left(folder.path(), &index));
}

/// Of the system and of the file: what the machine lacks for a moment is no damage, a table that is cut short is.
#[test]
fn what_the_system_refuses_is_told_from_what_the_file_says() {
    let io = |error: std::io::Error| lsm_tree::Error::Io(error);
    let os = |errno: Errno| io(std::io::Error::from_raw_os_error(errno.raw_os_error()));
    let kind = |kind: ErrorKind| io(kind.into());
    let is_refused = |error| matches!(unreadable(error), ViewError::Refused(_));
    assert!([Errno::MFILE, Errno::NFILE, Errno::NOMEM].into_iter().all(|errno| is_refused(os(errno))));
    assert!(!is_refused(os(Errno::IO)) && !is_refused(kind(ErrorKind::UnexpectedEof)));
    let is_damage = |error| matches!(failed(error), StorageError::Index(_));
    let damaged = [ErrorKind::UnexpectedEof, ErrorKind::InvalidData, ErrorKind::NotFound];
    assert!(damaged.into_iter().all(|error| is_damage(kind(error))));
    assert!(!is_damage(os(Errno::IO)) && !is_damage(os(Errno::MFILE)));
    assert!(matches!(failed(os(Errno::NOSPC)), StorageError::Full));
    assert!(matches!(failed(os(Errno::MFILE)), StorageError::Lacking { .. }));
    assert!(matches!(failed(os(Errno::IO)), StorageError::Io { .. }));
}

/// A run over all of the others.
fn run(index: &Lsm, mark: u64) {
    let mut batch = Batch::default();
    for key in [b"a", b"z"] {
        batch.put(Table::Current, key.to_vec(), vec![mark as u8; 90]);
    }
    index.apply(&batch.writes, mark).unwrap();
    index.checkpoint(None).unwrap();
}

/// An index of which a table cannot be opened, which lies aside instead, after the first merge that was refused; and the last mark.
fn refused(folder: &std::path::Path) -> (Lsm, [std::path::PathBuf; 2], u64) {
    let index = opened(folder);
    run(&index, 1);
    let tables = folder.join("index/tables");
    let table = std::fs::read_dir(&tables).unwrap().next().unwrap().unwrap().path();
    let aside = folder.join("aside");
    std::fs::rename(&table, &aside).unwrap();
    std::fs::create_dir(&table).unwrap();
    let mut mark = 1;
    while index.tend(None).is_ok() {
        mark += 1;
        assert!(mark < 40);
        run(&index, mark);
    }
    (index, [table, aside], mark)
}

/// Each try writes, perhaps much, before it fails.
#[test]
fn what_scans_have_paid_has_a_merge_tried_once() {
    let folder = tempfile::tempdir().unwrap();
    let (index, ..) = refused(folder.path());
    assert!(!index.wants_tending());
    let mut visit = |_: &[u8], _: &[u8]| ControlFlow::Break(());
    for _ in 0..2 {
        let mut scan =
            || _ = index.read().scan(Table::Current, Bound::Unbounded, Bound::Unbounded, &mut visit);
        let scans = (0..100_000).take_while(|_| !index.wants_tending()).inspect(|_| scan()).count();
        assert!(scans < 100_000);
        index.tend(None).unwrap_err();
        assert!(!index.wants_tending(), "it failed, and what was paid for it is gone");
    }
}

/// Flushes go through, which says nothing of merges; and nothing has the merge tried again but who looks after it.
#[test]
fn a_merge_that_is_refused_is_counted_until_nothing_is_left_to_merge() {
    let folder = tempfile::tempdir().unwrap();
    let (index, [table, aside], mut mark) = refused(folder.path());
    let refused = |merges| assert_eq!(index.refused(), Refused { flushes: 0, merges });
    refused(1);
    assert!(!index.wants_tending());
    index.tend(None).unwrap();
    index.help(None).unwrap();
    refused(1);
    mark += 1;
    run(&index, mark);
    refused(1);
    index.tend(None).unwrap_err();
    refused(2);
    let most = mark + 1 + RUNS_MAX as u64;
    while mark <= most {
        mark += 1;
        run(&index, mark);
    }
    assert!(index.has_many_runs() && !index.is_behind(), "who applies does not try what is refused");
    index.merge_again();
    assert!(index.wants_tending());
    index.tend(None).unwrap_err();
    refused(3);
    std::fs::remove_dir(&table).unwrap();
    std::fs::rename(&aside, &table).unwrap();
    index.merge_again();
    index.tend(None).unwrap();
    refused(0);
    assert_eq!(index.read().get(Table::Current, b"a").unwrap(), Some(Bytes::from(vec![mark as u8; 90])));
    index.merge_again();
    assert!(!index.wants_tending());
}

/// A start that has no other index to go by waits for it rather than give it up.
#[test]
fn a_list_of_tables_that_cannot_be_read_is_no_damaged_one() {
    let folder = tempfile::tempdir().unwrap();
    apply(&opened(folder.path()), 1);
    let path = folder.path().join("index");
    let settings = Settings { memtable_bytes: MEMTABLE, ..Settings::default() };
    let current = std::fs::read(path.join("current")).unwrap();
    let list = path.join(format!("v{}", u64::from_le_bytes(current[..8].try_into().unwrap())));
    let aside = folder.path().join("aside");
    std::fs::rename(&list, &aside).unwrap();
    assert!(matches!(Lsm::open(&path, &settings).map(drop), Err(StorageError::Index(_))), "it is gone");
    std::fs::create_dir(&list).unwrap();
    let refused = Lsm::open(&path, &settings).map(drop);
    assert!(matches!(refused, Err(StorageError::Io { .. })), "{refused:?}");
    std::fs::remove_dir(&list).unwrap();
    std::fs::rename(&aside, &list).unwrap();
    Lsm::open(&path, &settings).unwrap();
}

/// Rows of a run of their own, of a table's bytes about.
fn long_run(index: &Lsm, mark: u64) {
    let mut batch = Batch::default();
    let mut chance = crate::disk::faulty::Chance(mark);
    for number in 0..600_u64 {
        let value: Vec<u8> = (0..40).flat_map(|_| chance.next().to_le_bytes()).collect();
        batch.put(Table::Current, format!("{number:08}").into_bytes(), value);
    }
    index.apply(&batch.writes, mark).unwrap();
    index.checkpoint(None).unwrap();
}

/// Whether no table lies there that the index does not name.
fn nothing_is_left(folder: &std::path::Path, index: &Lsm) -> bool {
    let mut files = super::files_from(&folder.join("index/tables"), 0);
    files.sort_unstable();
    let mut known: Vec<u64> =
        index.shared.tree.current_version().iter_tables().map(|table| table.id()).collect();
    known.sort_unstable();
    files == known
}

/// It would meet it again after each flush, and leave what it wrote before: a site that is not started anew would fill up.
#[test]
fn a_merge_that_meets_damage_leaves_nothing_and_is_not_tried_again() {
    let folder = tempfile::tempdir().unwrap();
    let index = opened(folder.path());
    let runs = u64::from(RUNS_MERGED);
    (1..=runs).for_each(|mark| long_run(&index, mark));
    let newest = index.shared.tree.next_table_id() - 1;
    let table = folder.path().join(format!("index/tables/{newest}"));
    let mut bytes = std::fs::read(&table).unwrap();
    let last = bytes.len() * 3 / 4;
    bytes[last] ^= 1;
    std::fs::write(&table, bytes).unwrap();
    let mut failed = 0;
    for mark in runs + 1..runs + 18 {
        match index.tend(None) {
            Err(StorageError::Index(_)) => failed += 1,
            other => other.unwrap(),
        }
        assert!(nothing_is_left(folder.path(), &index), "after {failed} merges");
        long_run(&index, mark);
    }
    assert_eq!(failed, 1, "what does not read does not read later either");
    assert!(!index.wants_tending());
}

/// What it had written would stay, and flushes find no room: nothing would come back.
#[test]
fn no_merge_is_begun_that_has_no_room_and_flushes_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let settings = Settings { memtable_bytes: MEMTABLE, ..Settings::default() };
    let left = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(64 << 10));
    let room = left.clone();
    let room = move || room.load(std::sync::atomic::Ordering::Relaxed);
    let index = Lsm::with_room(&folder.path().join("index"), &settings, room).unwrap();
    for mark in 1..=20 {
        long_run(&index, mark);
        index.tend(None).unwrap();
    }
    assert_eq!(index.shared.tree.l0_run_count(), 20);
    assert!(!index.is_behind(), "nothing is won by waiting for a merge that is not made");
    left.store(1 << 30, std::sync::atomic::Ordering::Relaxed);
    long_run(&index, 21);
    index.tend(None).unwrap();
    assert!(index.shared.tree.l0_run_count() < 4);
}

/// The folder of the tables cannot be written to.
#[test]
fn a_flush_that_fails_leaves_nothing_for_long() {
    let folder = tempfile::tempdir().unwrap();
    let index = opened(folder.path());
    long_run(&index, 1);
    // What the next flush would write its list of tables into.
    let number = index.shared.tree.current_version().id() + 1;
    let list = folder.path().join(format!("index/v{number}"));
    std::fs::create_dir(&list).unwrap();
    let mut batch = Batch::default();
    batch.put(Table::Current, b"a".to_vec(), vec![1; 90]);
    index.apply(&batch.writes, 2).unwrap();
    for _ in 0..3 {
        index.checkpoint(None).unwrap_err();
        assert!(nothing_is_left(folder.path(), &index));
    }
    std::fs::remove_dir(&list).unwrap();
    index.checkpoint(None).unwrap();
    assert_eq!(index.read().get(Table::Current, b"a").unwrap(), Some(Bytes::from(vec![1; 90])));
}

/// Rows of which most are deleted, next to each other.
fn emptied(index: &Lsm, rows: u64) {
    let row = |number: u64| format!("photos/{number:08}").into_bytes();
    let mut mark = 0;
    let mut put = |numbers: std::ops::Range<u64>, value: Option<Vec<u8>>| {
        let mut batch = Batch::default();
        for number in numbers {
            match &value {
                Some(value) => batch.put(Table::Current, row(number), value.clone()),
                None => batch.delete(Table::Current, row(number)),
            }
        }
        mark += 1;
        index.apply(&batch.writes, mark).unwrap();
        index.tend(None).unwrap();
    };
    for from in (0..rows).step_by(500) {
        put(from..from + 500, Some(vec![7; 90]));
    }
    index.checkpoint(None).unwrap();
    index.tend(None).unwrap();
    for from in (500..rows - 500).step_by(500) {
        put(from..from + 500, None);
    }
    index.checkpoint(None).unwrap();
    index.tend(None).unwrap();
}

/// What a scan from this key on finds, where going over so many ns counts as slow.
fn scanned(index: &Lsm, from: &[u8], slow_ns: u64) -> Vec<u64> {
    index.shared.gaps.set_slow(slow_ns);
    let mut found = Vec::new();
    let mut visit = |key: &[u8], _: &[u8]| {
        found.push(String::from_utf8_lossy(&key[7..]).parse().unwrap());
        std::ops::ControlFlow::Continue(())
    };
    let from = std::ops::Bound::Included(from);
    index.read().scan(Table::Current, from, std::ops::Bound::Unbounded, &mut visit).unwrap();
    found
}

fn deletes(index: &Lsm) -> u64 {
    index.levels().iter().map(|level| level.deletes).sum()
}

/// Overwrites delete rows as well: for their number alone nothing is merged, or the index would be written again and again.
#[test]
fn deletes_next_to_each_other_are_merged_away_once_a_scan_has_gone_over_them() {
    let folder = tempfile::tempdir().unwrap();
    let index = opened(folder.path());
    emptied(&index, 30_000);
    assert_eq!(scanned(&index, b"", u64::MAX), (0..500).chain(29_500..30_000).collect::<Vec<_>>());
    assert!(!index.wants_tending() && deletes(&index) > 4_096, "{:?}", index.levels());
    // From the last key before them on: the first step goes over all of them, for much longer than this.
    assert_eq!(scanned(&index, b"photos/00000499", 10_000).len(), 501);
    assert!(index.wants_tending());
    index.merge_due().unwrap();
    let left = deletes(&index);
    assert!(left < 4_096 && !index.wants_tending(), "{:?}", index.levels());
    assert_eq!(scanned(&index, b"", u64::MAX), (0..500).chain(29_500..30_000).collect::<Vec<_>>());
    drop(index);
    assert_eq!(deletes(&opened(folder.path())), left);
}

/// Somebody reads what was before: it stays readable, and no merge is begun again and again for what it cannot drop.
#[test]
fn deletes_that_a_reading_keeps_are_merged_once() {
    let folder = tempfile::tempdir().unwrap();
    let index = opened(folder.path());
    let mut batch = Batch::default();
    for number in 0..30_000_u64 {
        batch.put(Table::Current, format!("photos/{number:08}").into_bytes(), vec![7; 90]);
    }
    index.apply(&batch.writes, 1).unwrap();
    index.checkpoint(None).unwrap();
    index.tend(None).unwrap();
    let reading = index.read();
    emptied(&index, 30_000);
    scanned(&index, b"photos/00000499", 10_000);
    index.merge_due().unwrap();
    let version = index.shared.tree.current_version().id();
    scanned(&index, b"photos/00000499", 10_000);
    index.merge_due().unwrap();
    assert!(!index.wants_tending(), "{:?}", index.levels());
    assert!(index.shared.tree.current_version().id() <= version + 1);
    let mut rows = 0;
    let mut visit = |_: &[u8], _: &[u8]| {
        rows += 1;
        std::ops::ControlFlow::Continue(())
    };
    reading.scan(Table::Current, std::ops::Bound::Unbounded, std::ops::Bound::Unbounded, &mut visit).unwrap();
    assert_eq!(rows, 30_000);
}

/// The kind of device may change under a store (a card is copied to a disk), and its setting with it.
#[test]
fn packed_blocks_and_others_are_read_by_both() {
    let sizes = [true, false].map(|packed| {
        let folder = tempfile::tempdir().unwrap();
        let settings =
            |packs_index| Settings { memtable_bytes: MEMTABLE, packs_index, ..Settings::default() };
        let open = |packed| Lsm::open(&folder.path().join("index"), &settings(packed)).unwrap();
        let index = open(packed);
        (1..=400).for_each(|mark| assert!(apply(&index, mark) > 0));
        index.checkpoint(None).unwrap();
        drop(index);
        let index = open(!packed);
        let holds = |index: &Lsm, last: u64| {
            let view = index.read();
            for mark in 1..=last {
                let found = view.get(Table::Current, format!("photos/2026/{mark:024}").as_bytes()).unwrap();
                assert_eq!(found.as_deref(), Some([mark as u8; 90].as_slice()));
            }
        };
        holds(&index, 400);
        let size = index.disk_bytes();
        (401..=800).for_each(|mark| assert!(apply(&index, mark) > 0));
        index.checkpoint(None).unwrap();
        index.shared.tree.major_compact(u64::MAX, 0).unwrap();
        holds(&index, 800);
        drop(index);
        holds(&open(packed), 800);
        size
    });
    assert!(sizes[0] * 2 < sizes[1], "{sizes:?}");
}

/// One row as the last of these runs says it.
fn value_of(index: &Lsm, mark: u64) -> Vec<u8> {
    let key = format!("photos/2026/{mark:024}");
    index.read().get(Table::Current, key.as_bytes()).unwrap().unwrap().to_vec()
}

/// So many rows in the last level.
fn filled(folder: &std::path::Path, rows: u64) -> Lsm {
    let index = opened(folder);
    for mark in 0..rows {
        apply(&index, mark);
        index.tend(None).unwrap();
    }
    index.checkpoint(None).unwrap();
    index.shared.tree.major_compact(64 << 20, index.oldest()).unwrap();
    index
}

/// One run that says the same of each hundredth of so many rows.
fn small_run(index: &Lsm, rows: u64, says: u8, mark: u64) {
    let mut batch = Batch::default();
    for row in (0..rows).step_by(100) {
        batch.put(Table::Current, format!("photos/2026/{row:024}").into_bytes(), vec![says; 90]);
    }
    index.apply(&batch.writes, mark).unwrap();
    index.checkpoint(None).unwrap();
}

fn below(index: &Lsm) -> Vec<u64> {
    let version = index.shared.tree.current_version();
    version.iter_levels().skip(1).flat_map(|level| level.list_ids()).collect()
}

/// Each merge with the level below writes that again.
#[test]
fn small_runs_are_merged_with_each_other_while_the_level_below_is_much_larger() {
    const ROWS: u64 = 20_000;
    let folder = tempfile::tempdir().unwrap();
    let index = filled(folder.path(), ROWS);
    let (runs, before) = (|| index.shared.tree.l0_run_count(), below(&index));
    assert_eq!(runs(), 0);
    let mut said = 0;
    let mut say = |count: u8| {
        for _ in 0..count {
            said += 1;
            small_run(&index, ROWS, said, ROWS + u64::from(said));
            index.merge_due().unwrap();
        }
    };
    say(RUNS_MERGED - 1);
    assert_eq!(runs(), usize::from(RUNS_MERGED) - 1);
    say(1);
    assert_eq!((runs(), below(&index)), (1, before.clone()), "folded, and nothing else is written again");
    assert_eq!(value_of(&index, 700), [RUNS_MERGED; 90], "the newest holds");
    say(RUNS_MERGED - 1);
    assert_eq!((runs(), below(&index)), (1, before.clone()));
    assert_eq!(value_of(&index, 700), [2 * RUNS_MERGED - 1; 90]);
    assert_eq!(value_of(&index, 701), [701_u64 as u8; 90], "the others are as they were");
    // What was folded is one run, and is not folded again for itself.
    let version = index.shared.tree.current_version().id();
    index.compaction_due.store(true, Ordering::Relaxed);
    index.merge_due().unwrap();
    assert_eq!(index.shared.tree.current_version().id(), version);
    // What is not small any more goes down.
    for mark in 0..ROWS {
        apply(&index, mark);
        index.tend(None).unwrap();
    }
    assert_ne!(below(&index), before);
    assert_eq!(value_of(&index, 700), [700_u64 as u8; 90]);
    drop(index);
    assert_eq!(value_of(&opened(folder.path()), 9), [9; 90]);
}

/// The other thread ends also where this one panics.
struct Ends<'a>(&'a std::sync::atomic::AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The library puts what it has merged in front of what is flushed meanwhile: here are short runs, while long ones are merged.
#[test]
fn what_is_flushed_while_runs_are_merged_with_each_other_is_newer() {
    const ROWS: u64 = 100_000;
    let folder = tempfile::tempdir().unwrap();
    let index = filled(folder.path(), ROWS);
    let is_over = std::sync::atomic::AtomicBool::new(false);
    let wrong = std::thread::scope(|scope| {
        let _ends = Ends(&is_over);
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                index.merge_due().unwrap();
            }
        });
        let short = |mark: u64| mark % 60 > 10;
        (0..300_u64).find(|&mark| {
            if !short(mark) {
                small_run(&index, ROWS, mark as u8, ROWS + mark);
                return false;
            }
            let mut batch = Batch::default();
            batch.put(
                Table::Current,
                format!("photos/2026/{:024}", 100 * mark).into_bytes(),
                vec![mark as u8; 90],
            );
            index.apply(&batch.writes, ROWS + mark).unwrap();
            index.checkpoint(None).unwrap();
            // What is read is remembered, so each row once, and a moment later.
            let before = mark - 3;
            short(before) && value_of(&index, 100 * before) != [before as u8; 90]
        })
    });
    assert_eq!(wrong, None);
}

/// What is listed and hardly written to would go to its place in each run for ever. After a start as well.
#[test]
fn runs_are_merged_once_scans_have_paid_as_much() {
    let folder = tempfile::tempdir().unwrap();
    let scan = |index: &Lsm, most: u64| {
        let mut rows = 0;
        let mut visit = |_: &[u8], _: &[u8]| {
            rows += 1;
            if rows < most { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        };
        index.read().scan(Table::Current, Bound::Unbounded, Bound::Unbounded, &mut visit).unwrap();
        rows
    };
    let index = opened(folder.path());
    (1..=3).for_each(|mark| long_run(&index, mark));
    index.tend(None).unwrap();
    drop(index);
    let index = opened(folder.path());
    index.tend(None).unwrap();
    assert_eq!(index.shared.tree.l0_run_count(), 3, "there is no other reason to merge them");
    let paid = (0..100_000).take_while(|_| !index.wants_tending()).inspect(|_| _ = scan(&index, 1)).count();
    assert!((100..100_000).contains(&paid), "{paid} scans");
    index.tend(None).unwrap();
    assert_eq!((index.shared.tree.l0_run_count(), scan(&index, u64::MAX)), (0, 600));
    (0..paid).for_each(|_| _ = scan(&index, 1));
    assert!(!index.wants_tending());
}
