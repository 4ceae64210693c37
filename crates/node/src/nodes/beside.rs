//! A second place for what this node must not forget of its site's view: a file beside the store.
//!
//! Why: a frame of the journal that rots takes what it said along. A node that forgets what it promised and accepted votes once
//! more, and a site could go on with two views of one epoch: two homes of one bucket, reads that miss what was acknowledged. To begin
//! without memory instead would leave a site without a majority where two of three lose a frame in one power failure.
//!
//! Invariants: written before anything is said that rests on it, as the journal is; read only where the journal lost
//! something; where it cannot be written (a full disk) there is none, and the journal stands alone.

use std::path::{Path, PathBuf};

use skerry_base::codec;
use skerry_base::kv::View;
use skerry_federation::site_view::Durable;
use skerry_model::Entry;

use super::memory::{Unusable, ViewFile};
use crate::trust::files;

/// Its name in a site's directory.
const NAME: &str = "view.pem";
const TAG: &str = "SKERRY SITE VIEW";
/// Bytes of the checksum in front.
const SUM: usize = 16;

/// Where it lies.
#[derive(Debug, Clone)]
pub(super) struct Beside(PathBuf);

impl Beside {
    pub(super) fn of(directory: &Path) -> Self {
        Self(directory.join(NAME))
    }

    /// Takes the place of what was there. Blocks.
    pub(super) fn write(&self, file: &ViewFile) -> Result<(), String> {
        let bytes = codec::encode(file);
        let sum = blake3::hash(&bytes);
        let text = files::pem(TAG, &[&sum.as_bytes()[..SUM], &bytes].concat());
        let Err(error) = files::write_secret(&self.0, &text) else { return Ok(()) };
        tracing::warn!(%error, "the second place of this site's view could not be written: only the journal has it");
        // What is older than the journal must not be believed. Where nothing can be written, as nothing was, all is well.
        match files::exists(&self.0) {
            Ok(false) => Ok(()),
            _ => files::remove(&self.0).map_err(|error| error.to_string()),
        }
    }

    /// None: there is none. What does not read is no memory.
    fn read(&self) -> Option<ViewFile> {
        if !files::exists(&self.0).unwrap_or(true) {
            return None;
        }
        let text = files::read_secret(&self.0).and_then(|text| files::from_pem(&self.0, TAG, &text));
        let file = text.map_err(|error| error.to_string()).and_then(|bytes| {
            let (sum, bytes) = bytes.split_at_checked(SUM).ok_or("too short")?;
            let is_whole = blake3::hash(bytes).as_bytes().starts_with(sum);
            is_whole.then(|| ViewFile::decode(bytes).map_err(|error| error.to_string())).ok_or("damaged")?
        });
        Some(file.unwrap_or_else(|why| {
            tracing::error!(
                why,
                "the second place of this site's view does not read: this node begins without memory of it"
            );
            ViewFile { memory: None, ..ViewFile::new(0, None) }
        }))
    }
}

/// What the store is to remember where its journal lost something: none where it is to keep what it has.
pub(crate) fn remembered(directory: &Path, seats: u32, view: &dyn View) -> Result<Option<Entry>, Unusable> {
    let Some(beside) = Beside::of(directory).read() else { return Ok(None) };
    let stored = ViewFile::read(view)?;
    let decode = |file: &ViewFile| file.memory.as_deref().map(Durable::decode).transpose();
    // A release that does not know this place may have gone on in between.
    let kept = match (decode(&beside)?, stored.as_ref().map(decode).transpose()?.flatten()) {
        (Some(beside), Some(stored)) if order(&stored) > order(&beside) => Some(stored),
        (beside, _) => beside,
    };
    let seats = usize::try_from(seats).unwrap_or(usize::MAX);
    Ok(Some(ViewFile::new(seats, kept.as_ref()).as_entry()))
}

/// Which of two memories of one node is the later.
fn order(memory: &Durable) -> impl Ord + use<> {
    (memory.start, memory.promised, memory.accepted.0)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use skerry_base::kv::Tables;

    use super::*;

    fn of_boot(boots: u64) -> Durable {
        (0..boots).fold(Durable::genesis(), |memory, _| memory.started())
    }

    fn memory(directory: &Path, tables: &Tables) -> Option<Option<Durable>> {
        let value = match remembered(directory, 3, tables).unwrap()? {
            Entry::Local { value, .. } => value,
            _ => None,
        };
        let file = ViewFile::decode(&value.unwrap()).unwrap();
        assert_eq!(file.seats, 3);
        Some(file.memory.map(|memory| Durable::decode(&memory).unwrap()))
    }

    #[test]
    fn what_the_journal_lost_is_read_beside_it_and_what_does_not_read_is_no_memory() {
        let directory = tempfile::tempdir().unwrap();
        let tables = Tables::default();
        assert_eq!(memory(directory.path(), &tables), None, "a release before had no such place");
        let beside = Beside::of(directory.path());
        beside.write(&ViewFile::new(3, Some(&of_boot(2)))).unwrap();
        beside.write(&ViewFile::new(3, Some(&of_boot(4)))).unwrap();
        assert_eq!(memory(directory.path(), &tables), Some(Some(of_boot(4))));
        beside.write(&ViewFile::new(3, None)).unwrap();
        assert_eq!(memory(directory.path(), &tables), Some(None));
        files::write_secret(&beside.0, &files::pem(TAG, &[7; 40])).unwrap();
        assert_eq!(memory(directory.path(), &tables), Some(None));
    }

    #[test]
    fn what_the_journal_has_is_kept_where_it_is_later() {
        let directory = tempfile::tempdir().unwrap();
        let mut tables = Tables::default();
        Beside::of(directory.path()).write(&ViewFile::new(3, Some(&of_boot(2)))).unwrap();
        let mut batch = skerry_base::kv::Batch::default();
        let later = codec::encode(&ViewFile::new(3, Some(&of_boot(5))));
        batch.put(skerry_base::kv::Table::Local, super::super::memory::VIEW, later);
        tables.apply(&batch);
        assert_eq!(memory(directory.path(), &tables), Some(Some(of_boot(5))));
    }

    #[test]
    fn where_it_cannot_be_written_there_is_none() {
        let directory = tempfile::tempdir().unwrap();
        let beside = Beside::of(directory.path());
        beside.write(&ViewFile::new(3, Some(&of_boot(2)))).unwrap();
        // Nothing can be renamed over what it is written to first.
        files::private_directory(&directory.path().join("view.pem.new/full")).unwrap();
        beside.write(&ViewFile::new(3, Some(&of_boot(3)))).unwrap();
        assert_eq!(memory(directory.path(), &Tables::default()), None);
    }
}
