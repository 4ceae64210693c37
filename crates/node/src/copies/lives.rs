//! The lives of this disk: which incarnations of the node ran on it. A site that was declared lost is the one that was
//! meant if its disk has lived one of the lives that were known of it; another disk under the same name has not.
//!
//! Invariants: a life is written down before anything of it is answered; a new disk knows none but its own.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use skerry_base::codec::{self, Versioned};
use skerry_base::kv::{Table, View};
use skerry_base::{BucketId, Origin};
use skerry_model::Entry;
use skerry_model::space::{self, SpaceError};

/// Its name in this node's own table.
const KEY: &[u8] = b"lives";
/// Lives that are remembered: the first ones, which others have heard of, and the last ones.
const FIRST: usize = 64;
const LAST: usize = 960;

/// The incarnations, the first of this disk first.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct LivesFile(Vec<u64>);

impl Versioned for LivesFile {
    const NAME: &'static str = "lives of a disk";
    const VERSION: u8 = 1;
}

impl LivesFile {
    fn add(&mut self, life: u64) {
        self.0.push(life);
        if self.0.len() > FIRST + LAST {
            self.0.remove(FIRST);
        }
    }
}

/// The lives of this disk.
pub(crate) fn read(view: &dyn View) -> Result<Vec<u64>, SpaceError> {
    let found = view.get(Table::Local, KEY)?;
    Ok(found.and_then(|bytes| codec::decode::<LivesFile>(&bytes).ok()).map(|file| file.0).unwrap_or_default())
}

/// What is written down at the start of the `number`th life: it as well. A disk that was begun by a release before
/// this was counted has lived what its node is known to have.
pub(crate) fn grown(
    view: &dyn View,
    system: BucketId,
    own: Origin,
    number: u64,
) -> Result<Entry, SpaceError> {
    let mut file = LivesFile(read(view)?);
    if file.0.is_empty() && number > 1 {
        let vector = space::vector(view, system)?;
        let its = vector.iter().filter(|(origin, _)| origin.node == own.node);
        its.for_each(|(origin, _)| file.add(origin.incarnation));
    }
    file.add(own.incarnation);
    Ok(Entry::Local { key: Bytes::from_static(KEY), value: Some(codec::encode(&file).into()) })
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn the_first_and_the_last_lives_are_remembered() {
        let mut file = LivesFile::default();
        (1..=2000).for_each(|life| file.add(life));
        assert_eq!(file.0.len(), FIRST + LAST);
        assert_eq!((file.0[0], file.0[FIRST - 1], file.0[FIRST]), (1, 64, 1041));
        assert_eq!(file.0.last(), Some(&2000));
    }

    /// Fixture of version 1: must decode for ever.
    #[test]
    fn v1_fixture() {
        let file = LivesFile(vec![1, 300]);
        assert_eq!(codec::encode(&file), [1, 2, 1, 0xac, 2]);
        assert_eq!(codec::decode::<LivesFile>(&codec::encode(&file)).unwrap(), file);
    }
}
