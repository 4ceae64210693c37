//! After a rebuild the index says of nothing that it is here which no record vouches for and which is torn: who puts the same
//! bytes again would be told that they are here, and would lose them.

use std::sync::Arc;

use skerry_base::chunk::Tree;
use skerry_base::{ChunkId, ChunkKind, ChunkRef};

use super::recovering::{flip, lose, place_of, reads, settle};
use super::world::{DOMAIN, audit, body, commit, kept, open, put_large, rows, say_put, tree_of};
use crate::Class;
use crate::chunks::row::Place;
use crate::disk::faulty::FaultyDisk;
use crate::journal::file_name;
use crate::store::Store;

/// Chunks without a record.
fn put_alone(store: &Store, kind: ChunkKind, chunks: &[Vec<u8>]) {
    for bytes in chunks {
        drop(store.put_chunk(DOMAIN, Class::Payload, kind, bytes).unwrap());
    }
}

/// So much payload that what was there before is taken for synced.
fn go_on(store: &Store) {
    for number in 0..5 {
        put_large(store, &format!("more-{number}"), 100 + number, &body(100 + number, 200_000)).unwrap();
    }
}

fn tear(disk: &FaultyDisk, place: Place) {
    flip(disk, &file_name("payload", place.segment), place.offset as usize + 5_000);
}

fn has(store: &Store, bytes: &[u8]) -> bool {
    store.has_chunk(DOMAIN, ChunkId::of(bytes)).unwrap()
}

/// They come again, in another life, and are there after the next rebuild.
fn come_again(disk: &FaultyDisk, settings: &crate::Settings, store: Arc<Store>, chunks: &[Vec<u8>]) {
    for (number, bytes) in (0..).zip(chunks) {
        put_large(&store, &format!("again-{number}"), 200 + number, bytes).unwrap();
    }
    assert!(chunks.iter().all(|bytes| reads(&store, bytes)));
    audit(&store);
    drop(store);
    lose(settings);
    let (store, _) = open(disk, settings);
    assert!(chunks.iter().all(|bytes| reads(&store, bytes)));
    audit(&store);
}

#[test]
fn what_only_a_dropped_tree_lists_goes_with_it() {
    let (disk, settings) = (FaultyDisk::default(), kept());
    let (store, _) = open(&disk, &settings);
    let leaves: Vec<_> = (30..36).map(|seed| body(seed, 9_000)).collect();
    let tree = tree_of(&leaves);
    put_alone(&store, ChunkKind::Leaf, &leaves);
    put_alone(&store, ChunkKind::Tree, std::slice::from_ref(&tree));
    settle(&store);
    let is_before = |bytes: &Vec<u8>| ChunkId::of(bytes) < ChunkId::of(&tree);
    assert!(leaves.iter().any(is_before) && !leaves.iter().all(is_before), "both are tried");
    go_on(&store);
    let places: Vec<_> = leaves.iter().map(|bytes| place_of(&store, bytes)).collect();
    drop(store);
    places.into_iter().for_each(|place| tear(&disk, place));
    lose(&settings);
    let (store, recovery) = open(&disk, &settings);
    assert_eq!(recovery.chunks_dropped, 7);
    assert!(!leaves.iter().any(|bytes| has(&store, bytes)) && !has(&store, &tree));
    audit(&store);
    come_again(&disk, &settings, store, &leaves);
}

/// Something lies there that nobody can tell, so that what nothing refers to is spared: as far as it is whole.
#[test]
fn what_a_spared_tree_lists_is_spared_if_it_is_whole() {
    let (disk, settings) = (FaultyDisk::default(), kept());
    let (store, _) = open(&disk, &settings);
    let leaves: Vec<_> = (0..4).map(|seed| body(seed, 9_000)).collect();
    let shared = body(9, 9_000);
    let inner = tree_of(&[leaves.clone(), vec![shared.clone()]].concat());
    let child = |bytes: &[u8], kind| ChunkRef {
        id: ChunkId::of(bytes),
        kind,
        stored: bytes.len() as u32,
        length: bytes.len() as u64,
    };
    let outer = Tree { children: vec![child(&inner, ChunkKind::Tree)] }.encode();
    put_large(&store, "strange", 1, &body(20, 9_000)).unwrap();
    put_large(&store, "shared", 2, &shared).unwrap();
    put_alone(&store, ChunkKind::Leaf, &leaves);
    put_alone(&store, ChunkKind::Tree, &[inner.clone(), outer.clone()]);
    settle(&store);
    go_on(&store);
    let strange = place_of(&store, &body(20, 9_000));
    let (torn, unread, vouched) =
        (place_of(&store, &leaves[1]), place_of(&store, &leaves[2]), place_of(&store, &shared));
    drop(store);
    flip(&disk, &file_name("payload", strange.segment), strange.offset as usize + 20);
    tear(&disk, torn);
    for place in [unread, vouched] {
        let at = place.offset + 4_608;
        disk.spoil(&file_name("payload", place.segment), at..at + 512);
    }
    lose(&settings);
    let (store, recovery) = open(&disk, &settings);
    assert_eq!(recovery.chunks_dropped, 1, "{recovery:?}");
    let here: Vec<_> = leaves.iter().map(|bytes| has(&store, bytes)).collect();
    assert_eq!(here, [true, false, false, true]);
    assert!(has(&store, &inner) && has(&store, &outer));
    let row = rows(&store.view())[&(DOMAIN, ChunkId::of(&shared))];
    assert_eq!((row.place, row.references), (Some(vouched), 2), "a record vouches for it");
    disk.heal(&file_name("payload", unread.segment));
    come_again(&disk, &settings, store, &leaves);
}

/// What was found torn is let go of and lies there still, with its header: a record that waits for its payload from elsewhere
/// does not vouch for that.
#[test]
fn where_nothing_can_be_punched_a_rebuild_reads_everything() {
    let (disk, settings) = (FaultyDisk::without_holes(), kept());
    let (store, _) = open(&disk, &settings);
    let bytes = body(1, 9_000);
    commit(&store, vec![say_put("x", 1, ChunkId::of(&bytes))]).unwrap();
    let (segment, offset) = store.payload.tail();
    put_alone(&store, ChunkKind::Leaf, std::slice::from_ref(&bytes));
    drop(store);
    let place = Place { area: crate::chunks::row::Area::Payload, segment, offset, crc: 0 };
    tear(&disk, place);
    let (store, recovery) = open(&disk, &settings);
    assert_eq!((recovery.chunks_dropped, has(&store, &bytes)), (1, false));
    go_on(&store);
    drop(store);
    lose(&settings);
    let (store, _) = open(&disk, &settings);
    assert!(!has(&store, &bytes) && !store.counts(DOMAIN, ChunkId::of(&bytes)));
    audit(&store);
    come_again(&disk, &settings, store, &[bytes]);
}

/// More than are counted: the others are read, whoever vouches for some.
#[test]
fn of_many_that_spared_trees_list_none_that_is_torn_stays() {
    let (disk, settings) = (FaultyDisk::default(), kept());
    let (store, _) = open(&disk, &settings);
    let leaves: Vec<_> = (0..100).map(|seed| body(1_000 + seed, 9_000)).collect();
    put_large(&store, "strange", 1, &body(20, 9_000)).unwrap();
    for number in [7, 70] {
        put_large(&store, &format!("vouched-{number}"), 2, &leaves[number]).unwrap();
    }
    put_alone(&store, ChunkKind::Leaf, &leaves);
    let trees = [&leaves[..60], &leaves[40..]].map(tree_of);
    put_alone(&store, ChunkKind::Tree, &trees);
    settle(&store);
    go_on(&store);
    let strange = place_of(&store, &body(20, 9_000));
    let torn = [0, 7, 50, 70, 99].map(|number| place_of(&store, &leaves[number]));
    drop(store);
    flip(&disk, &file_name("payload", strange.segment), strange.offset as usize + 20);
    torn.into_iter().for_each(|place| tear(&disk, place));
    lose(&settings);
    let told = Arc::new(std::sync::Mutex::new(0));
    let heard = told.clone();
    let watch = crate::Watch(Arc::new(move |progress: crate::Progress| {
        if progress.stage == crate::Stage::RebuildRest {
            *heard.lock().unwrap() = progress.done;
        }
    }));
    let watched = crate::Settings { watch: Some(watch), ..settings.clone() };
    let (store, recovery) = open(&disk, &watched);
    let gone: Vec<_> = (0..100).filter(|number| !has(&store, &leaves[*number])).collect();
    // Of the first tree all are counted: a record vouches for that one, and it is not read.
    assert!(gone == [0, 7, 50, 99] || gone == [0, 50, 70, 99], "{gone:?}");
    assert!(trees.iter().all(|tree| has(&store, tree)));
    let rotten: Vec<_> = recovery.rotten.iter().map(|chunk| chunk.id).collect();
    let is_told = |number: &usize| rotten.contains(&ChunkId::of(&leaves[*number]));
    assert!(gone.iter().filter(|number| [7, 70].contains(*number)).all(is_told), "it is wanted");
    assert!(*told.lock().unwrap() >= 95 * 9_000, "somebody waits for it");
    assert_eq!(leaves.iter().filter(|bytes| reads(&store, bytes)).count(), 95);
    come_again(&disk, &settings, store, &leaves);
}
