//! Everything is read at once: what an offline check does, without the pace and the position of the scrub.

use std::ops::{Bound, ControlFlow};

use skerry_base::kv::{Table, View};

use super::{ScrubStep, Store};
use crate::StorageError;
use crate::settings::{Progress, Stage};

/// Bytes between two reports of progress.
const REPORT: u64 = 4 << 20;

impl Store {
    /// Reads every row of the index, every chunk that is here, every sealed journal segment and the base of the journal, and
    /// says what is damaged. An index that does not read is an error: it is to be rebuilt.
    pub fn examine(&self) -> Result<ScrubStep, StorageError> {
        let read = std::panic::AssertUnwindSafe(|| self.read_index());
        std::panic::catch_unwind(read).unwrap_or_else(|_| {
            self.health.note_bad();
            Err(StorageError::Index("the engine panicked".into()))
        })?;
        let held = |class: super::ClassUsage| class.live + class.dead;
        let usage = self.usage();
        let total = held(usage.payload) + held(usage.cache) + usage.journal.allocated + usage.journal.live;
        let mut sum = ScrubStep { worked: true, finished: true, ..ScrubStep::default() };
        let mut after = Some(Vec::new());
        while let Some(from) = after {
            // Told, and left as they are: this only reads.
            after = self.scrub_chunks(&from, REPORT, &mut sum, &mut Vec::new())?;
            self.settings.tell(Progress { stage: Stage::Chunks, done: sum.bytes, total });
        }
        let mut segment = Some(0);
        while let Some(from) = segment {
            segment = self.scrub_segment(from, &mut sum)?;
            self.settings.tell(Progress { stage: Stage::Journal, done: sum.bytes, total });
        }
        sum.base = self.base_damage();
        Ok(sum)
    }

    fn read_index(&self) -> Result<(), StorageError> {
        let tables = Table::OWN.into_iter().chain(Table::REDUCED);
        let total = (Table::OWN.len() + Table::REDUCED.len()) as u64;
        for (done, table) in tables.enumerate() {
            self.settings.tell(Progress { stage: Stage::Index, done: done as u64, total });
            self.view()
                .scan(table, Bound::Unbounded, Bound::Unbounded, &mut |_, _| ControlFlow::Continue(()))?;
        }
        Ok(())
    }
}
