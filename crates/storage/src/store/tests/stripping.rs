//! What of the journal is on disk for what lives in it, and moving into segments of another size.

use skerry_base::limits::CHUNK_REST_MS;
use skerry_base::{ChunkId, WallTime};

use super::world::{DOMAIN, audit, body, delete, kept, open, put_small};
use crate::Settings;
use crate::disk::faulty::FaultyDisk;

/// The setting was 512 KiB and is 64 KiB: what lives in one old segment does not fit into one frame of now, all the less as
/// each body brings a line along that is longer than it is.
#[test]
fn what_lives_in_a_large_segment_moves_into_small_ones() {
    let disk = FaultyDisk::default();
    let large = Settings { journal_segment_bytes: 512 << 10, journal_heads_bytes: u64::MAX, ..kept() };
    let (store, _) = open(&disk, &large);
    let bytes = |number: u64| body(number, if number.is_multiple_of(3) { 20 } else { 600 });
    let count = 1_800;
    for number in 0..count {
        put_small(&store, &format!("{number}"), number, &bytes(number)).unwrap();
    }
    let lives = |number: u64| number.is_multiple_of(3);
    for number in (0..count).filter(|number| !lives(*number)) {
        delete(&store, &format!("{number}")).unwrap();
    }
    store.checkpoint().unwrap();
    drop(store);
    let (store, _) = open(&disk, &Settings { journal_segment_bytes: 64 << 10, ..large });
    for number in 0..20 {
        put_small(&store, &format!("new {number}"), count + number, &body(count + number, 5_000)).unwrap();
    }
    let before = store.usage().journal;
    for now in [0, CHUNK_REST_MS, CHUNK_REST_MS] {
        for _ in 0..10 {
            store.checkpoint().unwrap();
            store.collect(WallTime(now)).unwrap();
        }
    }
    let after = store.usage().journal;
    assert!(before.allocated - after.allocated > 500_000, "{before:?} {after:?}");
    for number in 0..count {
        let bytes = bytes(number);
        let read = store.read_chunk(DOMAIN, ChunkId::of(&bytes), 0..u32::MAX);
        assert_eq!(read.ok(), lives(number).then(|| bytes.into()), "{number}");
    }
    audit(&store);
}

/// Of bodies that no hole gives back a segment is left as it is until what lives is a fifth of it, its head not counted.
#[test]
fn bodies_of_the_journal_take_five_times_what_lives_at_most() {
    const LEN: u64 = 1_200;
    /// The heads of a put and of a delete, and their lines in the footer.
    const HEADS: u64 = 320;
    for one_in in [1, 3, 5, 8, 20] {
        let settings = Settings { journal_heads_bytes: u64::MAX, ..kept() };
        let (store, _) = open(&FaultyDisk::default(), &settings);
        let count = 600;
        for number in 0..count {
            put_small(&store, &format!("{number}"), number, &body(number, LEN as usize)).unwrap();
        }
        for number in (0..count).filter(|number| number % one_in != 0) {
            delete(&store, &format!("{number}")).unwrap();
        }
        for now in [0, CHUNK_REST_MS, CHUNK_REST_MS] {
            for _ in 0..30 {
                store.checkpoint().unwrap();
                store.collect(WallTime(now)).unwrap();
            }
        }
        let journal = store.usage().journal;
        assert_eq!(journal.live, count.div_ceil(one_in) * LEN);
        let most = 5 * journal.live + count * HEADS + 3 * settings.journal_segment_bytes;
        assert!(journal.allocated <= most, "one in {one_in}: {} of {most}", journal.allocated);
        audit(&store);
    }
}
