//! Of a rebuild: bodies in the journal that were passed over for an extent of the same chunk.
//!
//! Before: the replay of the journal, which finds the extent whole and takes it (`replay.rs`). After: the index. Why: which of the
//! two counted when both were written the journal does not say. An index that lagged behind a power cut may never have heard of
//! the extent but by the note that lets go of it, and goes on with the body; whoever put the same bytes again was told that they
//! are here. So the body takes the place of the extent that a note lets go of, as far as it still reads.
//!
//! Invariant: of a chunk that is placed one such body is remembered at most. It counts in the end, or its space comes back, with
//! its segment at the latest.

use std::collections::BTreeMap;

use super::changes::Changes;
use super::commit::leaf;
use super::replay::{BATCH, Progress, Replay};
use crate::StorageError;
use crate::chunks::Key;
use crate::chunks::row::Place;

/// So many are remembered, some 100 bytes each; the same bytes seldom lie here in both ways. Further ones are given up at once.
const REMEMBERED: usize = if cfg!(test) { 64 } else { 1 << 16 };

/// Bodies, with their lengths.
#[derive(Default)]
pub(super) struct Outranked(BTreeMap<Key, (Place, u32)>);

impl Outranked {
    /// An extent is taken and not this body.
    pub(super) fn note(&mut self, changes: &mut Changes<'_>, key: Key, (place, len): (Place, u32)) {
        if self.0.len() >= REMEMBERED && !self.0.contains_key(&key) {
            changes.free(place.area, place.segment, place.offset, u64::from(len));
        } else if let Some((old, len)) = self.0.insert(key, (place, len)).filter(|(old, _)| *old != place) {
            changes.free(old.area, old.segment, old.offset, u64::from(len));
        }
    }

    /// The extent was let go of: the body takes its place if it `reads`. Else it stays, for the disk may read it again, until its
    /// segment goes.
    pub(super) fn take_over(
        &mut self,
        changes: &mut Changes<'_>,
        key: Key,
        reads: impl FnOnce(Place, u32) -> bool,
    ) -> Result<(), StorageError> {
        match self.0.remove(&key) {
            Some((place, len)) if reads(place, len) => changes.place(key, &leaf(place, len)),
            _ => Ok(()),
        }
    }

    /// The body itself was let go of.
    pub(super) fn let_go(&mut self, changes: &mut Changes<'_>, key: Key, place: Place) {
        if let Some((body, len)) = self.0.get(&key).copied().filter(|(body, _)| *body == place) {
            self.0.remove(&key);
            changes.free(body.area, body.segment, body.offset, u64::from(len));
        }
    }
}

impl Replay<'_> {
    /// All has been read: what is left is dead.
    pub(super) fn end_outranked(&self, progress: &mut Progress) -> Result<(), StorageError> {
        let Outranked(mut left) = std::mem::take(&mut progress.outranked);
        while !left.is_empty() {
            self.apply(progress, |changes| {
                for _ in 0..BATCH {
                    let Some((_, (place, len))) = left.pop_first() else { break };
                    changes.free(place.area, place.segment, place.offset, u64::from(len));
                }
                Ok(())
            })?;
        }
        Ok(())
    }
}
