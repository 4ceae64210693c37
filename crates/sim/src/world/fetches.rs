//! Reads that go to another site: a record before its feed brings it, a body that was never here.
//!
//! The node asks over a stream and the answer comes in one round trip; here the answer is immediate, because
//! what is tested is what the reader keeps: a record that its vector does not cover yet, an evictable copy.

use std::sync::Arc;

use skerry_base::chunk::Tree;
use skerry_base::{BucketId, ChunkKind, ChunkRef};
use skerry_model::{Record, space};
use skerry_storage::{Class, Pin, StorageError, Store};

use super::World;
use crate::checkers::durability::How;
use crate::history::Place;
use crate::ledger::{self, ApplyRefusal};
use crate::site::{Answer, lock};
use crate::trace::Who;

impl World {
    /// Reads a key at another site and keeps the record and its body here.
    pub(super) fn read_elsewhere(&mut self, site: usize, from: usize, place: &Place) {
        if !self.net.open(site, from) || !self.net.open(from, site) || site == from {
            return;
        }
        let follows = |running: &crate::site::Running| running.members.contains(&place.0);
        if self.environment.departs && !self.running(from).is_some_and(follows) {
            return;
        }
        let Some(theirs) = self.running(from).map(|running| Arc::clone(&running.store)) else { return };
        let found = space::current(&theirs.view(), place.0, &place.1);
        let Ok(Some(record)) = found else { return };
        self.count("remote reads");
        self.tell(Who::Site(site), format_args!("reads {} {} at site-{}", place.1, record.dot, from + 1));
        self.shown(from, place.0, record.dot, How::Fed);
        self.keep_record(site, record.clone());
        let chunks = record.object().map(|object| object.chunks.clone()).unwrap_or_default();
        self.keep_body(site, &theirs, place.0, &chunks);
    }

    fn keep_record(&mut self, site: usize, record: Record) {
        let notes = self.notes(site);
        let Some(running) = self.running(site) else { return };
        let (store, desk) = (Arc::clone(&running.store), Arc::clone(&running.desk));
        let decided = notes.undecided();
        let (noted, at_end) = (Arc::clone(&decided), notes.clone());
        store.submit(
            move |view| {
                let bucket = record.bucket;
                let applied = ledger::kept(view, bucket, vec![record], &[])?;
                *lock(&noted) = notes.batch(view, bucket, &applied)?;
                Ok::<_, ApplyRefusal>(((), applied.entries))
            },
            move |result| {
                let fates = std::mem::take(&mut *lock(&decided));
                at_end.done(fates, result.is_ok(), &desk, Answer::Kept);
            },
        );
        self.plan_pump(site);
    }

    fn keep_body(&mut self, site: usize, theirs: &Store, bucket: BucketId, chunks: &[ChunkRef]) {
        let Some(ours) = self.running(site).map(|running| Arc::clone(&running.store)) else { return };
        match copy(theirs, &ours, bucket, chunks) {
            Ok(pins) => drop(pins),
            Err(why) => self.tell(Who::Site(site), format_args!("keeps no copy: {why}")),
        }
        self.mourn(site, false);
    }
}

/// Copies chunks, and what their trees name, into the cache of another store.
fn copy(theirs: &Store, ours: &Store, bucket: BucketId, chunks: &[ChunkRef]) -> Result<Vec<Pin>, String> {
    let mut pins = Vec::new();
    for chunk in chunks {
        if ours.has_chunk(bucket, chunk.id).map_err(|error| error.to_string())? {
            continue;
        }
        let bytes = theirs.read_chunk(bucket, chunk.id, 0..u32::MAX).map_err(|error| error.to_string())?;
        if chunk.kind == ChunkKind::Tree {
            let tree = Tree::decode(&bytes).map_err(|error| error.to_string())?;
            pins.extend(copy(theirs, ours, bucket, &tree.children)?);
        }
        let put = ours.put_chunk(bucket, Class::Cache, chunk.kind, &bytes);
        pins.push(put.map_err(|error: StorageError| error.to_string())?);
    }
    Ok(pins)
}
