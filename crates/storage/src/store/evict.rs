//! Cached copies make room: the segment that was read least lately goes, whole.

use std::collections::BTreeSet;

use super::Store;
use super::collect::Sweep;
use super::report::Collected;
use crate::StorageError;
use crate::chunks::Key;
use crate::chunks::row::{Area, Place};
use crate::payload::scan::scan;

impl Store {
    /// Evicts at most one segment when the cache is over its cap, or when the disk is full.
    pub(super) fn evict(&self, sweep: &mut Sweep, done: &mut Collected) -> Result<(), StorageError> {
        let segments = self.space.each(Area::Cache);
        let held = segments
            .iter()
            .filter(|(number, _)| !sweep.condemned.contains(&(Area::Cache, *number)))
            .map(|(_, used)| used.len.saturating_sub(used.freed))
            .sum::<u64>();
        if held <= self.settings.cache_bytes && !done.pressed {
            return Ok(());
        }
        let active = self.cache.tail().0;
        let mut candidates: Vec<u32> = segments
            .iter()
            .map(|&(number, _)| number)
            .filter(|number| *number < active && !sweep.condemned.contains(&(Area::Cache, *number)))
            .collect();
        candidates.sort_by_key(|&number| (self.files.cache_used(number), number));
        for number in candidates {
            if let Some(evicted) = self.evict_segment(number)? {
                sweep.condemned.insert((Area::Cache, number));
                done.evicted += evicted;
                done.more |= held > self.settings.cache_bytes;
                break;
            }
        }
        Ok(())
    }

    /// None: some chunk of it is in use.
    fn evict_segment(&self, number: u32) -> Result<Option<u64>, StorageError> {
        let chunks = self.chunks_of(number)?;
        let keys: BTreeSet<Key> = chunks.iter().map(|(key, _)| *key).collect();
        let keys: Vec<Key> = keys.into_iter().collect();
        let begun = self.begin_all(&keys);
        let evicted = if begun.len() == keys.len() {
            self.own_group(|_, changes, _| {
                let mut count = 0;
                for (key, place) in &chunks {
                    let row = changes.row(*key)?;
                    if row.place == Some(*place) {
                        let children = self.children_or_none(*key, row.tree);
                        changes.unplace(*key, &children, false)?;
                        count += 1;
                    }
                }
                changes.free_segment(Area::Cache, number);
                Ok(Some(count))
            })
        } else {
            Ok(None)
        };
        for key in begun {
            self.live.end(key);
        }
        evicted
    }

    /// What lies in a cache segment.
    fn chunks_of(&self, number: u32) -> Result<Vec<(Key, Place)>, StorageError> {
        let file = match self.disk.open(&crate::journal::file_name(Area::Cache.folder(), number)) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(StorageError::io("open a cache segment", &error)),
        };
        let mut chunks = Vec::new();
        scan(&file, &self.salt, number, 0, &mut |offset, extent| {
            let place = Place { area: Area::Cache, segment: number, offset, crc: 0 };
            chunks.push(((extent.domain, extent.id), place));
            Ok(())
        })?;
        Ok(chunks)
    }
}
