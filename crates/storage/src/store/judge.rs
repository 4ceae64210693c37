//! What an extent found on disk is worth: whether its bytes are those that its header names.
//!
//! What the disk cannot read now is told from what is not what was written: it may be read again, and is not let go of for that.

use std::collections::BTreeMap;
use std::sync::Arc;

use skerry_base::{ChunkId, ChunkKind};

use super::changes::Placed;
use super::put;
use crate::checksum::crc32c;
use crate::chunks::Key;
use crate::chunks::row::Place;
use crate::disk::File;
use crate::payload::extent::{BLOCK, Extent, header_len};

/// What is said of what a start found rotten.
pub(super) const ROTTEN: &str = "it was found rotten at a start, or by a rebuild of the index";

/// How the bytes of an extent read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bytes {
    Whole,
    /// Not what its header says, or cut short.
    Torn,
    /// The disk cannot read them now; it may again.
    Unread,
}

/// An extent whose header reads and whose bytes do not.
pub(super) struct Rotten {
    pub(super) tree: bool,
    pub(super) stored: u32,
    /// Where it is kept for all that: the disk may read it again.
    pub(super) kept: Option<Place>,
    pub(super) why: &'static str,
    /// The disk could not read it; it may again.
    pub(super) unread: bool,
}

impl Rotten {
    pub(super) fn of(extent: &Extent, kept: Option<&Placed>, bytes: Bytes) -> Self {
        let why = match bytes {
            Bytes::Unread => "it could not be read at the start",
            _ => ROTTEN,
        };
        let tree = extent.kind == ChunkKind::Tree;
        let unread = bytes == Bytes::Unread;
        Self { tree, stored: extent.stored, kept: kept.map(|placed| placed.place), why, unread }
    }
}

/// Something is rotten. What is kept of a chunk though it could not be read is not forgotten for another place of it.
pub(super) fn note_rotten(known: &mut BTreeMap<Key, Rotten>, key: Key, rotten: Rotten) {
    let keeps = known.get(&key).is_some_and(|known| known.kept.is_some());
    if rotten.kept.is_some() || !keeps {
        known.insert(key, rotten);
    }
}

/// What is taken of an extent, and how its bytes read as far as that is looked at: those of a leaf only to verify them.
pub(super) fn judge(
    file: &Arc<dyn File>,
    extent: &Extent,
    place: Place,
    verify: bool,
) -> (Option<Placed>, Bytes) {
    let bytes = if verify { read_whole(file, extent, place.offset) } else { Bytes::Whole };
    if bytes == Bytes::Torn {
        return (None, bytes);
    }
    match read_placed(file, extent, place) {
        Ok(placed) => (Some(placed), bytes),
        Err(why) => (None, why),
    }
}

/// Whether all blocks of an extent are what its header says.
pub(super) fn read_whole(file: &Arc<dyn File>, extent: &Extent, offset: u64) -> Bytes {
    let bytes = match read_data(file, offset, extent.stored) {
        Ok(bytes) => bytes,
        Err(why) => return why,
    };
    let right = bytes.chunks(BLOCK).zip(&extent.blocks).all(|(block, sum)| crc32c(&[block]) == *sum);
    if right && ChunkId::of(&bytes) == extent.id { Bytes::Whole } else { Bytes::Torn }
}

fn read_data(file: &Arc<dyn File>, offset: u64, stored: u32) -> Result<Vec<u8>, Bytes> {
    read_at(file, offset + header_len(stored) as u64, stored)
}

pub(super) fn read_at(file: &Arc<dyn File>, offset: u64, len: u32) -> Result<Vec<u8>, Bytes> {
    let mut bytes = vec![0; len as usize];
    let read = file.read_at(offset, &mut bytes).map_err(|_| Bytes::Unread)?;
    if read == bytes.len() { Ok(bytes) } else { Err(Bytes::Torn) }
}

pub(super) fn children_in(file: &Arc<dyn File>, offset: u64, stored: u32) -> Option<Arc<[ChunkId]>> {
    put::children_of(ChunkKind::Tree, &read_data(file, offset, stored).ok()?).ok()
}

/// An error: a tree that cannot be read, or is rotten: what it lists is counted.
fn read_placed(file: &Arc<dyn File>, extent: &Extent, place: Place) -> Result<Placed, Bytes> {
    let tree = extent.kind == ChunkKind::Tree;
    let children = if tree {
        let bytes = read_data(file, place.offset, extent.stored)?;
        if ChunkId::of(&bytes) != extent.id {
            return Err(Bytes::Torn);
        }
        put::children_of(ChunkKind::Tree, &bytes).map_err(|_| Bytes::Torn)?
    } else {
        [].into()
    };
    Ok(Placed { place, tree, stored: extent.stored, children })
}
