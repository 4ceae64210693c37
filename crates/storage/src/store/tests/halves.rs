//! A write that failed half-way leaves an extent of which the header reads.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use skerry_base::limits::CHUNK_REST_MS;
use skerry_base::{ChunkId, ChunkKind, WallTime};

use super::world::{DOMAIN, audit, body, delete, kept, open, put_large, rows};
use crate::Settings;
use crate::chunks::row::Area;
use crate::disk::faulty::FaultyDisk;
use crate::journal::file_name;
use crate::payload::extent::{Extent, block_sums, extent_len};

const LEN: usize = 30_000;

/// The collector moves the last one that lives in a segment, and the disk takes half of it. Much later the index is lost: of the two
/// places it is the first that counts.
#[test]
fn half_of_what_was_to_be_moved_is_not_taken_for_it_by_a_rebuild() {
    let settings = Settings { payload_segment_bytes: 1 << 20, ..kept() };
    let disk = FaultyDisk::default();
    let (store, _) = open(&disk, &settings);
    for number in 0..60 {
        put_large(&store, &format!("{number}"), number, &body(number, LEN)).unwrap();
    }
    let stays = body(5, LEN);
    let id = ChunkId::of(&stays);
    for number in (0..31).filter(|number| *number != 5) {
        delete(&store, &format!("{number}")).unwrap();
    }
    store.collect(WallTime(0)).unwrap();
    let place = rows(&store.view())[&(DOMAIN, id)].place.unwrap();
    let active = store.payload.tail().0;
    assert!(active > place.segment);
    let name = file_name("payload", active);
    let fails = Arc::new(AtomicBool::new(true));
    let (medium, segments, bytes, again, file) =
        (disk.clone(), store.clone(), stays.clone(), fails.clone(), name.clone());
    disk.on_write(&name, move || {
        if !again.swap(false, Ordering::Relaxed) {
            return Ok(());
        }
        let stored = bytes.len() as u32;
        let at = segments.payload.tail().1 - extent_len(stored);
        let (kind, area, blocks) = (ChunkKind::Leaf, Area::Payload, block_sums(&bytes));
        let extent = Extent { domain: DOMAIN, id, kind, area, stored, blocks };
        let mut half = extent.encode(&[3; 16], active, at);
        half.extend_from_slice(&bytes[..LEN / 2]);
        medium
            .corrupt(&file, |content| content[at as usize..at as usize + half.len()].copy_from_slice(&half));
        Err(io::Error::other("Input/output error"))
    });
    store.checkpoint().unwrap();
    let stepped = store.collect(WallTime(CHUNK_REST_MS));
    assert!(!fails.load(Ordering::Relaxed), "nothing was moved: {stepped:?}");
    assert_eq!(rows(&store.view())[&(DOMAIN, id)].place, Some(place), "{stepped:?}");
    for number in 100..250 {
        put_large(&store, &format!("{number}"), number, &body(number, LEN)).unwrap();
    }
    assert!(store.payload.tail().0 > active + 3);
    audit(&store);
    disk.on_write(&name, || Ok(()));
    drop(store);
    settings.kept.as_ref().unwrap().lose();
    let (store, _) = open(&disk, &settings);
    assert_eq!(store.read_chunk(DOMAIN, id, 0..u32::MAX).unwrap(), stays);
    audit(&store);
}
