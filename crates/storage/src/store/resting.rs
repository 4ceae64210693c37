//! How long a chunk that nothing refers to rests before it goes, and who may ask for longer.
//!
//! Before: the collector, which finds such chunks in [`UNWANTED`](crate::chunks::row::UNWANTED) and notes since when they
//! are; who was brought a part of a body and is to get the rest another day. Invariants: a rest ends, within [`LONGEST`] of
//! its begin; where room is short none is waited for; a chunk that is referred to again rests no more. Not remembered when
//! the index is rebuilt, nor by a release before: then it rests for the usual time from when it is found.

use skerry_base::limits::CHUNK_REST_MS;
use skerry_base::{BucketId, ChunkId, WallTime};

use super::Store;
use crate::StorageError;
use crate::chunks::row::unwanted_key;

/// No rest is longer (31 days), whatever is asked for or lies in the index.
const LONGEST: u64 = 31 * 24 * 60 * 60 * 1000;
/// Chunks of one group.
const AT_ONCE: usize = 1024;

/// Since when, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rest {
    since: u64,
    millis: u64,
}

impl Rest {
    pub(super) const fn usual(now: WallTime) -> Self {
        Self { since: now.0, millis: CHUNK_REST_MS }
    }

    /// Reads a row's value; none in one that was not stamped yet.
    pub(super) fn read(value: &[u8]) -> Option<Self> {
        let number = |bytes: &[u8]| bytes.try_into().ok().map(u64::from_le_bytes);
        match value.len() {
            8 => Some(Self { since: number(value)?, millis: CHUNK_REST_MS }),
            16 => Some(Self { since: number(&value[..8])?, millis: number(&value[8..])?.min(LONGEST) }),
            _ => None,
        }
    }

    /// A row's value: of the usual time as every release writes it.
    pub(super) fn write(self) -> Vec<u8> {
        let mut value = self.since.to_le_bytes().to_vec();
        if self.millis != CHUNK_REST_MS {
            value.extend(self.millis.to_le_bytes());
        }
        value
    }

    pub(super) const fn is_over(self, now: WallTime) -> bool {
        self.since.saturating_add(self.millis) <= now.0
    }

    /// From now on, if it was stamped by a clock that was ahead.
    pub(super) fn behind(self, now: WallTime) -> Option<Self> {
        (self.since > now.0).then_some(Self { since: now.0, ..self })
    }
}

impl Store {
    /// Lets chunks that nothing refers to rest for so long from now, instead of the usual time from when they were found;
    /// those that something refers to, that are not here or not on the disk yet ([`Store::settle`]) are left alone.
    pub fn let_rest(
        &self,
        domain: BucketId,
        ids: &[ChunkId],
        now: WallTime,
        millis: u64,
    ) -> Result<(), StorageError> {
        // What was put a moment ago is in the index then.
        self.own_group(|_, _, _| Ok(Some(())))?;
        let value = Rest { since: now.0, millis: millis.min(LONGEST) }.write();
        for some in ids.chunks(AT_ONCE) {
            self.own_group(|_, changes, _| {
                for &id in some {
                    let key = (domain, id);
                    if changes.row(key)?.is_unwanted() {
                        changes.note(&unwanted_key(key), Some(value.clone()));
                    }
                }
                Ok(Some(()))
            })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rest_is_read_as_it_was_written_and_ends() {
        let usual = Rest::usual(WallTime(5));
        assert_eq!(usual.write().len(), 8, "as releases before read it");
        assert_eq!(Rest::read(&usual.write()), Some(usual));
        let long = Rest { since: 5, millis: 100 };
        assert_eq!(Rest::read(&long.write()), Some(long));
        assert!(!long.is_over(WallTime(104)) && long.is_over(WallTime(105)));
        assert_eq!(Rest::read(&[]), None);
        assert_eq!(Rest::read(&[0; 9]), None, "of a release to come, or damaged");
        let endless = [u64::MAX.to_le_bytes(), u64::MAX.to_le_bytes()].concat();
        let found = Rest::read(&endless).and_then(|rest| rest.behind(WallTime(7)));
        assert!(found.is_some_and(|rest| rest.is_over(WallTime(7 + LONGEST))));
    }
}
