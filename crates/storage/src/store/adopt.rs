//! At a start with an index: the extents behind the noted position that no replayed commit has settled.
//!
//! What a durable record or tree refers to is adopted if it is whole. The rest was never acknowledged and goes, unless records
//! are gone or something could not be read: then what reads well rests, for it may be theirs. What is referred to and cannot
//! be read is never let go of: its segment is noted, and stays for the rebuild that reads it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use skerry_base::kv::{Table, View};

use super::Recovery;
use super::changes::{Changes, Placed, load_row};
use super::judge::{Bytes, Rotten, judge, note_rotten};
use super::replay::{Found, Progress, Replay};
use crate::StorageError;
use crate::chunks::Key;
use crate::chunks::row::{Area, FREEING, Place, Row, read_freeing_key};
use crate::payload::extent::extent_len;

impl Replay<'_> {
    /// Judges the extents that no replayed commit has settled: what is referred to is adopted if it is whole.
    pub(super) fn adopt(&self, progress: &mut Progress, recovery: &mut Recovery) -> Result<(), StorageError> {
        let mut left = std::mem::take(&mut progress.found);
        // What was let go of stays so, though something refers to it: its space is about to be given back.
        let freeing = freeing(&*self.index().read())?;
        let spare = self.unknown_spare(progress, &freeing)?;
        loop {
            let reading = self.index().read();
            let mut changes = Changes::over(&*reading, progress.applied.mark + 1);
            let mut adopted = Vec::new();
            // The index may know what lies behind the noted position: places are taken in order, and enter it in any.
            let mut known = Vec::new();
            for (key, found) in &left {
                let row = load_row(&*reading, *key)?;
                let place = found.place;
                if row.place == Some(place) {
                    known.push(*key);
                    continue;
                }
                // What counts already may have been written anew because it was damaged: the newer is taken if whole.
                let better = row.place.is_none() || place.area == Area::Payload;
                let stays = !freeing.contains(&(place.area, place.segment, place.offset));
                if row.references > 0
                    && better
                    && stays
                    && let Some(placed) = self.adoptable(progress, *key, found, &row)?
                {
                    changes.place(*key, &placed)?;
                    adopted.push(*key);
                }
            }
            known.iter().for_each(|key| drop(left.remove(key)));
            if adopted.is_empty() {
                recovery.chunks_dropped += self.leave(progress, &mut changes, &left, &freeing)?;
                for (place, stored) in spare {
                    changes.free(place.area, place.segment, place.offset, extent_len(stored));
                }
                self.finish(progress, changes)?;
                return self.note_unread(progress);
            }
            // An adopted tree refers to more of what is left.
            self.finish(progress, changes)?;
            adopted.iter().for_each(|key| drop(left.remove(key)));
        }
    }

    /// An extent that is referred to, if it is whole; a leaf that the disk cannot read just now, too, if it is the only one. What
    /// does not read whole is noted if nothing else is there.
    fn adoptable(
        &self,
        progress: &mut Progress,
        key: Key,
        found: &Found,
        row: &Row,
    ) -> Result<Option<Placed>, StorageError> {
        let file = self.open_segment(found.place)?;
        let (placed, bytes) = judge(&file, &found.extent, found.place, true);
        let placed = placed.filter(|_| bytes == Bytes::Whole || row.place.is_none());
        // A record refers to it and is on the disk, so this was, too; or it is a copy of what others have, cut short on its way
        // here: that cannot be told, and is mended all the same.
        let is_rotten = bytes == Bytes::Unread || bytes == Bytes::Torn && row.place.is_none();
        if is_rotten && found.place.area == Area::Payload {
            note_rotten(&mut progress.rotten, key, Rotten::of(&found.extent, placed.as_ref(), bytes));
        }
        Ok(placed)
    }

    /// What nothing refers to goes at once, unless records are gone or something could not be read: then what is whole rests
    /// like what is not wanted any more.
    /// Returns how many go.
    fn leave(
        &self,
        progress: &mut Progress,
        changes: &mut Changes<'_>,
        left: &BTreeMap<Key, Found>,
        freeing: &Places,
    ) -> Result<u64, StorageError> {
        let mut dropped = 0;
        // A record, or a tree that could not be read, may have referred to it.
        let has_rotten_tree = progress.rotten.values().any(|rotten| rotten.tree);
        let spares = progress.lacks || has_rotten_tree || !progress.unread.is_empty();
        for (key, found) in left {
            let (place, row) = (found.place, changes.row(*key)?);
            let Place { area, segment, offset, .. } = place;
            if freeing.contains(&(area, segment, offset)) {
                // Its space is about to be given back, once.
                continue;
            }
            let is_only = row.place.is_none() && area == Area::Payload;
            let is_unread = progress.rotten.get(key).is_some_and(|rotten| rotten.unread);
            if area == Area::Payload && row.references > 0 && is_unread {
                // The disk may read it again; what the index knows of it may be what this was written to mend.
                progress.unread.insert(segment);
                continue;
            }
            if spares && is_only {
                let file = self.open_segment(place)?;
                match judge(&file, &found.extent, place, true) {
                    (Some(placed), Bytes::Whole) => {
                        changes.place(*key, &placed)?;
                        continue;
                    }
                    // The disk may read it again.
                    (_, Bytes::Unread) => {
                        progress.unread.insert(segment);
                        continue;
                    }
                    _ => {}
                }
            }
            changes.free(area, segment, offset, extent_len(found.extent.stored));
            dropped += 1;
        }
        Ok(dropped)
    }

    /// What lies elsewhere besides, and is neither known to the index nor let go of already.
    fn unknown_spare(
        &self,
        progress: &mut Progress,
        freeing: &Places,
    ) -> Result<Vec<(Place, u32)>, StorageError> {
        let reading = self.index().read();
        let mut unknown = Vec::new();
        for (key, place, stored) in std::mem::take(&mut progress.spare) {
            let let_go = freeing.contains(&(place.area, place.segment, place.offset));
            if !let_go && load_row(&*reading, key)?.place != Some(place) {
                unknown.push((place, stored));
            }
        }
        Ok(unknown)
    }
}

/// Places of extents and bodies.
type Places = BTreeSet<(Area, u32, u64)>;

/// The places that were let go of and are not given back yet.
fn freeing(view: &dyn View) -> Result<Places, StorageError> {
    let mut places = Places::new();
    view.scan_prefix(Table::Storage, FREEING, &mut |row, _| {
        places.extend(read_freeing_key(row).map(|(_, area, segment, offset)| (area, segment, offset)));
        ControlFlow::Continue(())
    })?;
    Ok(places)
}
