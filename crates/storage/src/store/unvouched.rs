//! After a rebuild of the index: what no durable record vouches for was not synced before anybody rested on it, and may be torn.
//!
//! Such is what nothing refers to, and what only trees list of which that is so. It goes. Where a rotten tree is wanted, or may
//! be, or records are gone, what reads stays for the collector's rest: it may be what that tree lists, or what those records
//! named, and is counted again once that is mended.
//!
//! What always holds at the end: of what the index says lies here, a record vouches, or all its bytes were read. Else who
//! puts the same bytes again would be told that they are here.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, ControlFlow};

use skerry_base::BucketId;
use skerry_base::kv::Table;

use super::Recovery;
use super::changes::{Changes, listed};
use super::judge::Bytes;
use super::open::unread_of;
use super::replay::{BATCH, Progress, Replay};
use super::scrub::Scrub;
use crate::StorageError;
use crate::chunks::Key;
use crate::chunks::row::{Area, UNREAD, UNWANTED, read_chunk_key};

/// What is known of those that nobody vouches for.
struct Unvouched {
    /// Whether those that read stay, in all domains or in these.
    spares_all: bool,
    spared: BTreeSet<BucketId>,
    /// How often trees that stay though nobody vouches for them list a chunk: as often as it is referred to, and nobody vouches
    /// for that either.
    listed: BTreeMap<Key, i64>,
    /// Those trees.
    trees: BTreeSet<Key>,
    /// Payload segments in which one lies that the disk could not read.
    unread: BTreeSet<u32>,
    dropped: u64,
}

impl Replay<'_> {
    /// Lets go of what nobody vouches for, and may not stay.
    pub(super) fn drop_unvouched(
        &self,
        progress: &mut Progress,
        recovery: &mut Recovery,
    ) -> Result<(), StorageError> {
        let on_list = Scrub::load(&**self.disk, self.salt).trees();
        let rotten = recovery.rotten.iter().filter(|chunk| chunk.tree).map(|tree| tree.domain);
        let mut known = Unvouched {
            spares_all: progress.lacks || progress.is_strange || on_list.is_none(),
            spared: rotten.chain(on_list.into_iter().flatten()).collect(),
            listed: BTreeMap::new(),
            trees: BTreeSet::new(),
            unread: BTreeSet::new(),
            dropped: 0,
        };
        let mut after = UNWANTED.to_vec();
        while let Some(mut keys) = self.unwanted_behind(&mut after)? {
            // What a tree lists is looked at with it: its name may come before that of the tree.
            while !keys.is_empty() {
                let some = keys.split_off(keys.len().saturating_sub(BATCH));
                self.apply(progress, |changes| {
                    some.iter().try_for_each(|&key| self.look_at(changes, &mut known, key, &mut keys))
                })?;
            }
        }
        recovery.chunks_dropped += known.dropped;
        progress.unread.append(&mut known.unread);
        self.note_unread(progress)
    }

    /// Remembers the segments of which something could not be read that the index does not know: nothing else keeps them.
    pub(super) fn note_unread(&self, progress: &mut Progress) -> Result<(), StorageError> {
        let mut unread = unread_of(self.index())?;
        let known = unread.len();
        unread.append(&mut progress.unread);
        if unread.len() == known {
            return Ok(());
        }
        tracing::warn!(
            ?unread,
            "payload segments of which a part cannot be read are kept until a rebuild of the index reads them"
        );
        let noted = unread.iter().flat_map(|number| number.to_le_bytes()).collect();
        self.apply(progress, |changes| {
            changes.note(UNREAD, Some(noted));
            Ok(())
        })
    }

    /// The next chunks that nothing refers to behind this row, which becomes the last of them; none: there are no more.
    fn unwanted_behind(&self, after: &mut Vec<u8>) -> Result<Option<Vec<Key>>, StorageError> {
        let mut keys: Vec<Key> = Vec::new();
        let mut last = None;
        self.index().read().scan(
            Table::Storage,
            Bound::Excluded(after.as_slice()),
            Bound::Unbounded,
            &mut |row, _| {
                let Some(chunk) = row.strip_prefix(UNWANTED) else { return ControlFlow::Break(()) };
                keys.extend(read_chunk_key(chunk));
                last = Some(row.to_vec());
                if keys.len() < BATCH { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            },
        )?;
        let Some(last) = last else { return Ok(None) };
        *after = last;
        Ok(Some(keys))
    }

    /// Lets go of a chunk if nobody vouches for it and it may not stay. `next` gains what is to be looked at then.
    fn look_at(
        &self,
        changes: &mut Changes<'_>,
        known: &mut Unvouched,
        key: Key,
        next: &mut Vec<Key>,
    ) -> Result<(), StorageError> {
        let row = changes.row(key)?;
        let Some(place) = row.place else { return Ok(()) };
        if row.references > known.listed.get(&key).copied().unwrap_or(0) {
            return Ok(());
        }
        let may_stay = !row.is_unwanted() || known.spares_all || known.spared.contains(&key.0);
        let bytes = if may_stay { self.bytes_at(key, place, row.stored) } else { Bytes::Torn };
        let children = match row.tree {
            true => listed(&changes.view(), key)?.unwrap_or_else(|| self.children_at(place, row.stored)),
            false => [].into(),
        };
        if bytes == Bytes::Whole {
            if row.tree && known.trees.insert(key) {
                for &child in children.iter() {
                    *known.listed.entry((key.0, child)).or_default() += 1;
                    next.push((key.0, child));
                }
            }
            return Ok(());
        }
        // What the disk may read again lies there for the next rebuild; nobody is told that it is here.
        let is_left = bytes == Bytes::Unread && place.area == Area::Payload;
        known.unread.extend(is_left.then_some(place.segment));
        changes.unplace(key, || children.clone(), bytes == Bytes::Torn)?;
        known.dropped += u64::from(bytes == Bytes::Torn);
        next.extend(children.iter().map(|&child| (key.0, child)));
        Ok(())
    }
}
