//! After a rebuild of the index: what no durable record vouches for was not synced before anybody rested on it, and may be torn.
//!
//! Such is what nothing refers to, and what only trees list of which that is so. It goes. Where a rotten tree is wanted, or may
//! be, or records are gone, what reads stays for the collector's rest: it may be what that tree lists, or what those records
//! named, and is counted again once that is mended.
//!
//! What always holds at the end: of what the index says lies here, a record vouches, or all its bytes were read, or it is
//! told as damaged. Else who puts the same bytes again would be told that they are here. Memory is bounded: of so many chunks
//! it is counted how often trees list them, and so many wait to be looked at.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, ControlFlow};

use skerry_base::BucketId;
use skerry_base::kv::Table;

use super::changes::{Changes, listed};
use super::judge::{Bytes, ROTTEN};
use super::open::unread_of;
use super::replay::{BATCH, Progress, Replay};
use super::scrub::Scrub;
use super::{DamagedChunk, Recovery};
use crate::StorageError;
use crate::chunks::Key;
use crate::chunks::row::{Area, UNREAD, UNWANTED, read_chunk_key};
use crate::settings::{Progress as Told, Stage};

/// Of so many chunks it is counted how often such trees list them, some 100 bytes each; where there are more, the others
/// are read as often. Few in tests, so that both are met.
const COUNTED: usize = if cfg!(test) { 64 } else { 1 << 18 };
/// Beyond so many that wait no more trees are opened.
const WAITING: usize = if cfg!(test) { 64 } else { 1 << 16 };

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
    /// Whether more are listed than are counted: of those that are not nobody knows whether a record vouches for them.
    has_more: bool,
    /// What a record may vouch for, and does not read.
    rotten: Vec<DamagedChunk>,
    /// Bytes read.
    read: u64,
    /// Payload segments in which one lies that the disk could not read.
    unread: BTreeSet<u32>,
    dropped: u64,
}

impl Unvouched {
    /// A tree that stays lists it.
    fn count(&mut self, key: Key) {
        let has_room = self.listed.len() < COUNTED;
        match self.listed.get_mut(&key) {
            Some(count) => *count += 1,
            None if has_room => drop(self.listed.insert(key, 1)),
            None => self.has_more = true,
        }
    }
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
            has_more: false,
            rotten: Vec::new(),
            read: 0,
            unread: BTreeSet::new(),
            dropped: 0,
        };
        let mut after = UNWANTED.to_vec();
        while let Some(mut keys) = self.unwanted_behind(&mut after)? {
            // What a tree lists is looked at with it: its name may come before that of the tree.
            while !keys.is_empty() {
                let mut some = keys.split_off(keys.len().saturating_sub(BATCH));
                let most = keys.len().max(WAITING);
                self.apply(progress, |changes| {
                    while keys.len() <= most
                        && let Some(key) = some.pop()
                    {
                        self.look_at(changes, &mut known, key, &mut keys)?;
                    }
                    Ok(())
                })?;
                // Behind what the trees of before list.
                some.append(&mut keys);
                keys = some;
                self.tell_rest(known.read);
            }
        }
        recovery.rotten.append(&mut known.rotten);
        recovery.chunks_dropped += known.dropped;
        progress.unread.append(&mut known.unread);
        self.note_unread(progress)
    }

    /// Of all that lies here it is at most what is told as the whole.
    fn tell_rest(&self, done: u64) {
        let len = |area| self.space.each(area).into_iter().map(|(_, used)| used.len).sum::<u64>();
        let total = len(Area::Payload) + len(Area::Journal);
        self.settings.tell(Told { stage: Stage::RebuildRest, done, total });
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
        let counted = known.listed.get(&key).copied();
        let may_be_vouched = row.references > counted.unwrap_or(0);
        if may_be_vouched && (counted.is_some() || !known.has_more) {
            return Ok(());
        }
        let may_stay = !row.is_unwanted() || known.spares_all || known.spared.contains(&key.0);
        let bytes = if may_stay { self.bytes_at(key, place, row.stored) } else { Bytes::Torn };
        known.read += if may_stay { row.taken() } else { 0 };
        if may_be_vouched && bytes != Bytes::Whole && place.area != Area::Cache {
            let ((domain, id), why) = (key, ROTTEN.to_owned());
            known.rotten.push(DamagedChunk { domain, id, tree: row.tree, stored: row.stored, why });
        }
        let children = match row.tree {
            true => listed(&changes.view(), key)?.unwrap_or_else(|| self.children_at(place, row.stored)),
            false => [].into(),
        };
        // What is known to be damaged counts for nobody, and is written anew by who puts it.
        if bytes == Bytes::Whole || (may_be_vouched && bytes == Bytes::Unread) {
            if row.tree && known.trees.insert(key) {
                for &child in children.iter() {
                    known.count((key.0, child));
                    next.push((key.0, child));
                }
            }
            return Ok(());
        }
        // What the disk may read again lies there for the next rebuild; nobody is told that it is here.
        let is_left = bytes == Bytes::Unread && place.area == Area::Payload;
        known.unread.extend(is_left.then_some(place.segment));
        changes.unplace(key, || Ok(children.clone()), bytes == Bytes::Torn)?;
        known.dropped += u64::from(bytes == Bytes::Torn);
        next.extend(children.iter().map(|&child| (key.0, child)));
        Ok(())
    }
}
