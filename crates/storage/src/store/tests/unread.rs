//! What the disk cannot read just now, or nobody can tell, is neither let go of with what lies around it nor keeps that from
//! coming back.

use std::sync::Arc;

use skerry_base::limits::CHUNK_REST_MS;
use skerry_base::{ChunkId, ChunkKind};

use super::recovering::{collect, flip, lose, place_of, reads, settle};
use super::world::{
    DOMAIN, audit, body, commit, delete, kept, open, put_large, put_small, put_tree, say_put, tree_of,
};
use crate::chunks::row::{Area, Place};
use crate::disk::faulty::FaultyDisk;
use crate::journal::file_name;
use crate::store::scrub::Scrub;
use crate::store::{DamagedChunk, Store};
use crate::{Class, Settings};

fn name_of(place: Place) -> String {
    file_name("payload", place.segment)
}

/// A sector of its bytes.
fn spoil(disk: &FaultyDisk, place: Place) {
    let at = place.offset + 4_608;
    disk.spoil(&name_of(place), at..at + 512);
}

/// The sector of its header.
fn spoil_header(disk: &FaultyDisk, place: Place) {
    disk.spoil(&name_of(place), place.offset..place.offset + 512);
}

fn put_again(store: &Store, bytes: &[u8]) {
    store.live.lock().damaged.insert((DOMAIN, ChunkId::of(bytes)));
    drop(store.put_chunk(DOMAIN, Class::Payload, ChunkKind::Leaf, bytes).unwrap());
}

/// Writes a chunk that is here once more; where it lay, and where it lies.
fn written_anew(store: &Store, bytes: &[u8]) -> (Place, Place) {
    let first = place_of(store, bytes);
    put_again(store, bytes);
    settle(store);
    let second = place_of(store, bytes);
    assert_ne!(first, second);
    (first, second)
}

/// Its index is built anew; the chunk is there then.
fn rebuilt_with(disk: &FaultyDisk, settings: &Settings, bytes: &[u8]) -> Arc<Store> {
    lose(settings);
    let (store, _) = open(disk, settings);
    assert!(reads(&store, bytes));
    store
}

/// Nothing that the index knows lives in its segment, at this start and the next: the tree is read by a rebuild a day later.
#[test]
fn a_segment_stays_while_a_tree_in_it_cannot_be_read() {
    for holes in [true, false] {
        let disk = if holes { FaultyDisk::default() } else { FaultyDisk::without_holes() };
        let settings = kept();
        let (store, _) = open(&disk, &settings);
        let bodies: Vec<_> = (0..300).map(|seed| body(seed, 16)).collect();
        let tree = tree_of(&bodies);
        drop(store.put_chunk(DOMAIN, Class::Payload, ChunkKind::Tree, &tree));
        commit(&store, vec![say_put("large", 2, ChunkId::of(&tree))]).unwrap();
        let place = place_of(&store, &tree);
        for number in 0..5 {
            put_large(&store, &format!("more-{number}"), 10 + number, &body(500 + number, 250_000)).unwrap();
        }
        drop(store);
        spoil(&disk, place);
        lose(&settings);
        for life in 0..2 {
            let (store, _) = open(&disk, &settings);
            assert!(!reads(&store, &tree));
            (1..4).for_each(|turn| collect(&store, turn * CHUNK_REST_MS));
            assert!(disk.names().contains(&name_of(place)), "life {life}, holes: {holes}");
        }
        disk.heal(&name_of(place));
        lose(&settings);
        let (store, _) = open(&disk, &settings);
        assert!(reads(&store, &tree), "holes: {holes}");
        audit(&store);
    }
}

/// The older place is kept, for the disk may read it again; the newer is torn.
#[test]
fn what_is_kept_unread_is_told_though_it_lies_torn_elsewhere() {
    let (disk, settings) = (FaultyDisk::default(), kept());
    let (store, _) = open(&disk, &settings);
    let bytes = body(1, 9_000);
    put_large(&store, "a", 1, &bytes).unwrap();
    let (first, second) = written_anew(&store, &bytes);
    drop(store);
    spoil(&disk, first);
    flip(&disk, &name_of(second), second.offset as usize + 5_000);
    lose(&settings);
    let (store, recovery) = open(&disk, &settings);
    assert_eq!(recovery.rotten.len(), 1, "{recovery:?}");
    assert!(!store.counts(DOMAIN, ChunkId::of(&bytes)));
    disk.heal(&name_of(first));
    assert!(store.recheck(DOMAIN, ChunkId::of(&bytes)).unwrap() && reads(&store, &bytes));
}

/// The other way round, behind the position that the index noted.
#[test]
fn what_cannot_be_read_just_now_is_better_than_what_is_torn() {
    let (disk, settings) = (FaultyDisk::default(), kept());
    let (store, _) = open(&disk, &settings);
    let bytes = body(1, 9_000);
    commit(&store, vec![say_put("a", 1, ChunkId::of(&bytes))]).unwrap();
    store.checkpoint().unwrap();
    let (segment, offset) = store.payload.tail();
    let first = Place { area: Area::Payload, segment, offset, crc: 0 };
    put_again(&store, &bytes);
    let second = Place { offset: store.payload.tail().1, ..first };
    settle(&store);
    put_again(&store, &bytes);
    settle(&store);
    drop(store);
    flip(&disk, &name_of(first), first.offset as usize + 5_000);
    spoil(&disk, second);
    let (store, recovery) = open(&disk, &settings);
    assert_eq!(recovery.rotten.len(), 1, "{recovery:?}");
    assert_eq!(place_of(&store, &bytes), second);
    disk.heal(&name_of(second));
    assert!(store.recheck(DOMAIN, ChunkId::of(&bytes)).unwrap() && reads(&store, &bytes));
}

/// An ordinary start steps over it, and the next ones begin behind it: only the note keeps its segment.
#[test]
fn a_header_that_cannot_be_read_at_a_start_keeps_its_segment() {
    let (disk, settings) = (FaultyDisk::default(), kept());
    let (store, _) = open(&disk, &settings);
    store.checkpoint().unwrap();
    let bytes = body(1, 9_000);
    put_large(&store, "a", 1, &bytes).unwrap();
    put_large(&store, "behind", 2, &body(2, 9_000)).unwrap();
    let place = place_of(&store, &bytes);
    drop(store);
    spoil_header(&disk, place);
    let (store, recovery) = open(&disk, &settings);
    assert!(!reads(&store, &bytes));
    assert_eq!(recovery.unread, [place.segment]);
    disk.heal(&name_of(place));
    for number in 0..5 {
        put_large(&store, &format!("more-{number}"), 10 + number, &body(500 + number, 250_000)).unwrap();
    }
    delete(&store, "behind").unwrap();
    (0..5).for_each(|number| delete(&store, &format!("more-{number}")).unwrap());
    (1..6).for_each(|turn| collect(&store, turn * CHUNK_REST_MS));
    assert!(disk.names().contains(&name_of(place)));
    audit(&store);
    drop(store);
    audit(&rebuilt_with(&disk, &settings, &bytes));
}

fn read_all(store: &Store) {
    let now = skerry_base::WallTime(1);
    store.begin_scrub(now).unwrap();
    while !store.scrub(u64::MAX, now).unwrap().finished {}
}

/// It reads again, and what lies there came back from another site meanwhile.
#[test]
fn a_segment_that_could_not_be_read_goes_once_it_reads_and_nothing_in_it_is_lacked() {
    let (disk, settings) = (FaultyDisk::default(), kept());
    let (store, _) = open(&disk, &settings);
    store.checkpoint().unwrap();
    let bytes = body(1, 9_000);
    put_large(&store, "a", 1, &bytes).unwrap();
    put_large(&store, "behind", 2, &body(2, 9_000)).unwrap();
    let place = place_of(&store, &bytes);
    drop(store);
    spoil_header(&disk, place);
    let (store, _) = open(&disk, &settings);
    for number in 0..5 {
        put_large(&store, &format!("more-{number}"), 10 + number, &body(500 + number, 250_000)).unwrap();
    }
    delete(&store, "behind").unwrap();
    let stays = |unread| {
        (1..4).for_each(|turn| collect(&store, turn * CHUNK_REST_MS));
        assert_eq!(store.usage().unread, unread);
        disk.names().contains(&name_of(place))
    };
    read_all(&store);
    assert!(stays(1), "it does not read");
    disk.heal(&name_of(place));
    read_all(&store);
    assert!(stays(1), "a rebuild would take it in");
    drop(store.put_chunk(DOMAIN, Class::Payload, ChunkKind::Leaf, &bytes).unwrap());
    settle(&store);
    read_all(&store);
    assert!(!stays(0));
    audit(&store);
    drop(store);
    audit(&open(&disk, &settings).0);
    audit(&rebuilt_with(&disk, &settings, &bytes));
}

/// It is the last extent of the last segment: nobody knows where it ends.
#[test]
fn nothing_is_written_over_what_lies_behind_a_header_that_cannot_be_read() {
    for rebuilds in [false, true] {
        let (disk, settings) = (FaultyDisk::default(), kept());
        let (store, _) = open(&disk, &settings);
        put_large(&store, "before", 1, &body(1, 9_000)).unwrap();
        store.checkpoint().unwrap();
        // Blank at its end as the segment is behind it.
        let mut bytes = body(2, 9_000);
        bytes.resize(40_000, 0);
        put_large(&store, "a", 2, &bytes).unwrap();
        let place = place_of(&store, &bytes);
        drop(store);
        spoil_header(&disk, place);
        if rebuilds {
            lose(&settings);
        }
        let (store, _) = open(&disk, &settings);
        (0..4).for_each(|number| {
            put_large(&store, &format!("more-{number}"), 10 + number, &body(10 + number, 9_000)).unwrap();
        });
        drop(store);
        disk.heal(&name_of(place));
        lose(&settings);
        let (store, _) = open(&disk, &settings);
        assert!(reads(&store, &bytes), "rebuilds: {rebuilds}");
        assert!((0..4).all(|number| reads(&store, &body(10 + number, 9_000))), "rebuilds: {rebuilds}");
        audit(&store);
    }
}

/// What the index knows of it is rotten, and was written anew; that cannot be read at the start.
#[test]
fn what_was_written_to_mend_a_chunk_is_not_let_go_of_unread() {
    let (disk, settings) = (FaultyDisk::default(), kept());
    let (store, _) = open(&disk, &settings);
    let bytes = body(1, 9_000);
    put_large(&store, "a", 1, &bytes).unwrap();
    settle(&store);
    store.checkpoint().unwrap();
    let (first, second) = written_anew(&store, &bytes);
    put_large(&store, "behind", 2, &body(2, 9_000)).unwrap();
    drop(store);
    flip(&disk, &name_of(first), first.offset as usize + 5_000);
    spoil(&disk, second);
    let (store, _) = open(&disk, &settings);
    assert_eq!(place_of(&store, &bytes), first);
    (1..4).for_each(|turn| collect(&store, turn * CHUNK_REST_MS));
    drop(store);
    disk.heal(&name_of(second));
    audit(&rebuilt_with(&disk, &settings, &bytes));
}

/// Neither is known to be whole, and the disk reads only the second again.
#[test]
fn of_two_places_that_cannot_be_read_neither_is_let_go_of() {
    let (disk, settings) = (FaultyDisk::default(), kept());
    let (store, _) = open(&disk, &settings);
    let bytes = body(1, 9_000);
    store.checkpoint().unwrap();
    put_large(&store, "a", 1, &bytes).unwrap();
    let (first, second) = written_anew(&store, &bytes);
    put_large(&store, "behind", 2, &body(2, 9_000)).unwrap();
    drop(store);
    spoil(&disk, first);
    spoil(&disk, second);
    let (store, _) = open(&disk, &settings);
    assert_eq!(place_of(&store, &bytes), first);
    (1..4).for_each(|turn| collect(&store, turn * CHUNK_REST_MS));
    drop(store);
    disk.heal(&name_of(second));
    flip(&disk, &name_of(first), first.offset as usize + 5_000);
    rebuilt_with(&disk, &settings, &bytes);
}

/// The tree is fetched again before they have rested.
#[test]
fn what_a_tree_lists_that_cannot_be_read_at_a_start_rests_before_it_goes() {
    for header in [true, false] {
        let (disk, settings) = (FaultyDisk::default(), kept());
        let (store, _) = open(&disk, &settings);
        store.checkpoint().unwrap();
        // The tree is longer than the grain of its header.
        let bodies: Vec<_> = (0..300).map(|number| body(1 + number % 2, 9_000)).collect();
        let tree = tree_of(&bodies);
        put_tree(&store, "tree", 1, &bodies).unwrap();
        put_large(&store, "behind", 2, &body(301, 9_000)).unwrap();
        let place = place_of(&store, &tree);
        drop(store);
        if header {
            spoil_header(&disk, place)
        } else {
            spoil(&disk, place)
        }
        let (store, recovery) = open(&disk, &settings);
        assert_eq!(recovery.unread, [place.segment], "header: {header}");
        collect(&store, 1);
        drop(store.put_chunk(DOMAIN, Class::Payload, ChunkKind::Tree, &tree).unwrap());
        settle(&store);
        (1..6).for_each(|turn| collect(&store, turn * CHUNK_REST_MS));
        assert!(bodies.iter().all(|bytes| reads(&store, bytes)), "header: {header}");
        audit(&store);
    }
}

/// A gap is mostly a hole: all of it would count as taken, after each rebuild again.
#[test]
fn a_gap_in_which_something_strange_lies_is_given_back_but_for_that() {
    for strange in [true, false] {
        let (disk, settings) = (FaultyDisk::default(), kept());
        let (store, _) = open(&disk, &settings);
        for number in 0..10 {
            put_large(&store, &format!("key-{number}"), number, &body(number, 20_000)).unwrap();
        }
        let hole = place_of(&store, &body(5, 20_000));
        (1..9).for_each(|number| delete(&store, &format!("key-{number}")).unwrap());
        (0..3).for_each(|turn| collect(&store, turn * CHUNK_REST_MS));
        let before = store.space.of(Area::Payload, hole.segment);
        assert!(before.freed >= 8 * 20_000, "{before:?}");
        drop(store);
        if strange {
            let at = hole.offset as usize;
            disk.corrupt(&name_of(hole), |bytes| bytes[at..at + 4096].fill(7));
        }
        lose(&settings);
        let (store, _) = open(&disk, &settings);
        put_large(&store, "behind", 20, &body(20, 20_000)).unwrap();
        (0..3).for_each(|turn| collect(&store, turn * CHUNK_REST_MS));
        let after = store.space.of(Area::Payload, hole.segment);
        assert_eq!(before.freed - after.freed, if strange { 4096 } else { 0 }, "{before:?} {after:?}");
        let bytes = disk.content(&name_of(hole));
        assert_eq!(bytes[hole.offset as usize], if strange { 7 } else { 0 });
        audit(&store);
    }
}

/// Nobody knows whether a tree was on it.
#[test]
fn a_list_of_the_scrub_that_is_lost_spares_as_one_that_is_full() {
    let (disk, settings) = (FaultyDisk::default(), kept());
    let (store, _) = open(&disk, &settings);
    put_small(&store, "a", 1, &body(1, 100)).unwrap();
    store.pause_scrub(false).unwrap();
    drop(store);
    assert_eq!(Scrub::load(&disk, &settings.salt).trees(), Some(vec![]));
    flip(&disk, "scrub", 3);
    let trees = || Scrub::load(&disk, &settings.salt).trees();
    assert_eq!(trees(), None);
    let (store, _) = open(&disk, &settings);
    store.pause_scrub(false).unwrap();
    assert_eq!(trees(), None, "also what was written since does not name them");
    let now = skerry_base::WallTime(1);
    store.begin_scrub(now).unwrap();
    assert_eq!(trees(), None);
    while !store.scrub(u64::MAX, now).unwrap().finished {}
    assert_eq!(trees(), Some(vec![]), "all was looked at");
}

/// A check beside a round found more than the list holds: that round does not end it.
#[test]
fn what_others_found_and_the_list_has_no_room_for_outlives_the_round_under_way() {
    let (disk, settings) = (FaultyDisk::default(), kept());
    let (store, _) = open(&disk, &settings);
    put_small(&store, "a", 1, &body(1, 100)).unwrap();
    let now = skerry_base::WallTime(1);
    store.begin_scrub(now).unwrap();
    let chunk = |number: u64| DamagedChunk {
        domain: DOMAIN,
        id: ChunkId::of(&number.to_le_bytes()),
        tree: false,
        stored: 1,
        why: "x".into(),
    };
    store.note_damaged((0..1030).map(chunk).collect()).unwrap();
    assert_eq!(store.scrub_state().unlisted, 6);
    while !store.scrub(u64::MAX, now).unwrap().finished {}
    assert_eq!(store.scrub_state().unlisted, 6);
}

/// They lie in the index until they read, and the next start knows only of those on the list.
#[test]
fn what_could_not_be_read_counts_for_nobody_in_later_lives_however_much_it_is() {
    let (disk, settings) = (FaultyDisk::without_holes(), kept());
    let (store, _) = open(&disk, &settings);
    let count = 1_030;
    let bytes = |number: u64| body(number, 5_000);
    for number in 0..count {
        put_large(&store, &format!("key-{number}"), number, &bytes(number)).unwrap();
    }
    let places: Vec<_> = (0..count).map(|number| place_of(&store, &bytes(number))).collect();
    drop(store);
    places.iter().for_each(|place| spoil(&disk, *place));
    lose(&settings);
    let held = |store: &Store| {
        let holds = |number: &u64| store.counts(DOMAIN, ChunkId::of(&bytes(*number)));
        (0..count).filter(holds).count()
    };
    let (store, recovery) = open(&disk, &settings);
    assert_eq!((recovery.rotten.len() as u64, held(&store)), (count, 0));
    assert!(store.usage().unread > 0);
    drop(store);
    let (store, _) = open(&disk, &settings);
    assert_eq!(held(&store), 0);
    (1..4).for_each(|turn| collect(&store, turn * CHUNK_REST_MS));
    drop(store);
    places.iter().for_each(|place| disk.heal(&name_of(*place)));
    lose(&settings);
    let (store, _) = open(&disk, &settings);
    assert!((0..count).all(|number| reads(&store, &bytes(number))));
    audit(&store);
}
