//! What is read is what was written, to the byte; and the site that took a body keeps it as long as anybody
//! may read it.

use skerry_base::chunk::Tree;
use skerry_base::{BucketId, ChunkId, ChunkKind, ChunkRef, Dot};
use skerry_storage::Store;

use super::Violation;
use crate::history::{Body, History, Place, Said};

const NAME: &str = "bodies";

/// A body was read at a site.
pub fn check_read(history: &History, site: usize, place: &Place, dot: Dot, body: &[u8]) -> Option<Violation> {
    let Some(Said::Put(written)) = history.write(place.0, dot).map(|write| &write.said) else {
        return Some(Violation::at(NAME, site, format!("{place:?} {dot} was never written")));
    };
    let read = Body { hash: ChunkId::of(body), length: body.len() as u64 };
    (read != *written)
        .then(|| Violation::at(NAME, site, format!("{place:?} {dot} reads {read:?}, was {written:?}")))
}

/// The body of a living version cannot be read at the site that took it.
pub fn missing(site: usize, place: &Place, dot: Dot, why: &str) -> Violation {
    Violation::at(NAME, site, format!("{place:?} {dot} lives and its body is gone: {why}"))
}

/// Reads the body below these chunks, following trees.
pub fn read(store: &Store, bucket: BucketId, chunks: &[ChunkRef], body: &mut Vec<u8>) -> Result<(), String> {
    for chunk in chunks {
        let bytes = store.read_chunk(bucket, chunk.id, 0..u32::MAX).map_err(|error| error.to_string())?;
        match chunk.kind {
            ChunkKind::Leaf => body.extend_from_slice(&bytes),
            ChunkKind::Tree => {
                let tree = Tree::decode(&bytes).map_err(|error| error.to_string())?;
                read(store, bucket, &tree.children, body)?;
            }
        }
    }
    Ok(())
}
