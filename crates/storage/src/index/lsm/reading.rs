//! Readings of the index: what was applied up to a number.

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use bytes::Bytes;
use lsm_tree::{AbstractTree, Guard};
use skerry_base::kv::{Table, View, ViewError, Visit};

use super::super::{bounds, is_void, prefixed};
use super::{Shared, unreadable};

pub(super) struct LsmReading {
    pub(super) shared: Arc<Shared>,
    pub(super) seq: u64,
}

impl Drop for LsmReading {
    fn drop(&mut self) {
        self.shared.snapshots.end(self.seq);
    }
}

impl View for LsmReading {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Bytes>, ViewError> {
        let value = self.shared.tree.get(prefixed(table, key), self.seq).map_err(unreadable)?;
        Ok(value.map(|value| Bytes::copy_from_slice(&value)))
    }

    fn scan(
        &self,
        table: Table,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        visit: &mut Visit<'_>,
    ) -> Result<(), ViewError> {
        let (first, last) = bounds(table, from, to);
        if is_void(&first, &last) {
            return Ok(());
        }
        for item in self.shared.tree.range::<Vec<u8>, _>((first, last), self.seq, None) {
            let (key, value) = item.into_inner().map_err(unreadable)?;
            if let ControlFlow::Break(()) = visit(key.get(1..).unwrap_or_default(), &value) {
                break;
            }
        }
        Ok(())
    }
}
