//! Copies too many go: chunks that records still refer to, and that need not lie here any more.
//!
//! Before: who knows that enough others hold them. Afterwards they are referred to and absent, as on a node that has only
//! the records. Invariants: a version's chunks go together or not at all; nothing goes that anything else refers to, that
//! is in use, or that is no payload; it is noted in the journal, so that a replay does not bring it back, and its space
//! comes back as that of what is collected. A rebuild of a lost index may bring back what was not yet punched out: a copy
//! too many, and no harm.

use std::collections::{BTreeMap, BTreeSet};

use skerry_base::codec::encode;
use skerry_base::{BucketId, ChunkId};

use super::changes::Changes;
use super::commit::Room;
use super::{Core, Store};
use crate::StorageError;
use crate::chunks::Key;
use crate::chunks::row::{Area, Note};

/// Versions of one group: its note stays far below a frame's bound.
const AT_ONCE: usize = 128;

impl Store {
    /// Lets go of what these versions list: chunks, and of large bodies the tree, whose children follow as unwanted ones.
    /// Answers for each whether it went.
    pub fn release(&self, domain: BucketId, versions: &[Vec<ChunkId>]) -> Result<Vec<bool>, StorageError> {
        self.check_poison()?;
        // What was put a moment ago is in the index then.
        self.own_group(|_, _, _| Ok(Some(())))?;
        let mut gone = Vec::with_capacity(versions.len());
        for some in versions.chunks(AT_ONCE) {
            let keys: BTreeSet<Key> = some.iter().flatten().map(|id| (domain, *id)).collect();
            let keys: Vec<Key> = keys.into_iter().collect();
            let begun = self.begin_all(&keys);
            let free: BTreeSet<Key> = begun.iter().copied().collect();
            let released =
                self.own_group(|core, changes, _| self.release_some(core, changes, (domain, some), &free));
            for key in begun {
                self.live.end(key);
            }
            gone.extend(released?.unwrap_or_else(|| vec![false; some.len()]));
        }
        Ok(gone)
    }

    fn release_some(
        &self,
        core: &mut Core,
        changes: &mut Changes<'_>,
        (domain, versions): (BucketId, &[Vec<ChunkId>]),
        free: &BTreeSet<Key>,
    ) -> Result<Option<Vec<bool>>, StorageError> {
        let going = going(changes, (domain, versions), free)?;
        let listed = versions.iter().zip(&going).filter(|(_, goes)| **goes);
        let keys: BTreeSet<Key> = listed.flat_map(|(ids, _)| ids).map(|id| (domain, *id)).collect();
        let mut noted = Vec::new();
        for key in keys {
            let row = changes.row(key)?;
            let Some(place) = row.place else { continue };
            changes.unplace(key, || self.children_or_none(key), true)?;
            noted.push((key.0, key.1, place));
        }
        if noted.is_empty() {
            return Ok(None);
        }
        let note = encode(&Note::Collected(noted));
        self.make_room(core, &[&note], &[], Room::Collector)?;
        core.writer.stage(crate::journal::frame::Kind::Note, &[&note], &[])?;
        Ok(Some(going))
    }
}

/// Which versions may go: those of which every chunk is payload that nobody uses, and that nothing refers to but what goes.
fn going(
    changes: &mut Changes<'_>,
    (domain, versions): (BucketId, &[Vec<ChunkId>]),
    free: &BTreeSet<Key>,
) -> Result<Vec<bool>, StorageError> {
    let mut going: Vec<bool> = versions.iter().map(|ids| !ids.is_empty()).collect();
    loop {
        let mut listed: BTreeMap<Key, i64> = BTreeMap::new();
        for (ids, _) in versions.iter().zip(&going).filter(|(_, goes)| **goes) {
            for id in ids {
                *listed.entry((domain, *id)).or_default() += 1;
            }
        }
        let mut stays: BTreeSet<Key> = BTreeSet::new();
        for (key, references) in listed {
            let row = changes.row(key)?;
            let is_payload = row.place.is_some_and(|place| place.area == Area::Payload);
            if !is_payload || !free.contains(&key) || row.references > references {
                stays.insert(key);
            }
        }
        let before = going.iter().filter(|goes| **goes).count();
        for (goes, ids) in going.iter_mut().zip(versions) {
            *goes &= !ids.iter().any(|id| stays.contains(&(domain, *id)));
        }
        // What stays refers on to what it shares with others.
        if going.iter().filter(|goes| **goes).count() == before {
            return Ok(going);
        }
    }
}
