//! Readings of the index: what was applied up to a number.
//!
//! A scan of what listings go over passes stretches in which nothing lives in one seek, once they were found: see `gaps`.

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use lsm_tree::{AbstractTree, Guard, IterGuardImpl};
use skerry_base::kv::{Table, View, ViewError, Visit};

use super::super::gaps::{Span, behind};
use super::super::hot::is_asked;
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
        let name = prefixed(table, key);
        if !is_asked(table) {
            return self.ask(&name);
        }
        let hot = &self.shared.hot;
        if let Some(value) = hot.get(&name, self.seq) {
            return Ok(Some(value));
        }
        let ticket = hot.ticket(self.seq, || self.shared.visible());
        let value = self.ask(&name)?;
        if let (Some(value), Some(ticket)) = (&value, ticket) {
            hot.found(&name, value, (self.seq, ticket));
        }
        Ok(value)
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
        if is_listed(table) {
            return self.across((first, last), visit);
        }
        self.shared.runs.scanned();
        for item in self.shared.tree.range::<Vec<u8>, _>((first, last), self.seq, None) {
            let (key, value) = item.into_inner().map_err(unreadable)?;
            if let ControlFlow::Break(()) = visit(key.get(1..).unwrap_or_default(), &value) {
                break;
            }
        }
        Ok(())
    }
}

/// Stretches of a scan that are told of at once, at most.
const FOUND: usize = 64;

/// Stretches in which nothing lives, with what going over them took in ns.
type Found = Vec<(Span, u64)>;

/// Tables that listings go over.
pub(super) const fn is_listed(table: Table) -> bool {
    matches!(table, Table::Current | Table::Versions)
}

impl LsmReading {
    fn ask(&self, name: &[u8]) -> Result<Option<Bytes>, ViewError> {
        let value = self.shared.tree.get(name, self.seq).map_err(unreadable)?;
        Ok(value.map(|value| Bytes::copy_from_slice(&value)))
    }

    fn across(
        &self,
        (first, last): (Bound<Vec<u8>>, Bound<Vec<u8>>),
        visit: &mut Visit<'_>,
    ) -> Result<(), ViewError> {
        let from = match first {
            Bound::Excluded(key) => behind(&key),
            Bound::Included(key) => key,
            Bound::Unbounded => Vec::new(),
        };
        let to = match last {
            Bound::Included(key) => behind(&key),
            Bound::Excluded(key) => key,
            Bound::Unbounded => vec![u8::MAX],
        };
        let (mut span, mut found) = (Span { from, to }, Found::new());
        let mut is_behind_gap = false;
        while span.from < span.to {
            let gap = self.shared.gaps.next(&span, self.seq);
            let upto = gap.as_ref().map_or(&span.to, |gap| &gap.from);
            if span.from < *upto {
                let part = Span { from: span.from.clone(), to: upto.clone() };
                let is_between = is_behind_gap && gap.is_some();
                if self.over((part, is_between), &mut found, visit)?.is_break() {
                    break;
                }
            }
            let Some(gap) = gap else { break };
            (span.from, is_behind_gap) = (gap.to, true);
        }
        self.tell(&found);
        Ok(())
    }

    /// Row by row. What lies between two gaps and holds no row is told of however short it took, so that the three become one.
    fn over(
        &self,
        (span, is_between): (Span, bool),
        found: &mut Found,
        visit: &mut Visit<'_>,
    ) -> Result<ControlFlow<()>, ViewError> {
        let gaps = &self.shared.gaps;
        let (mut before, mut begin) = (None, gaps.now_ns());
        let mut rows = self.range(&span);
        loop {
            let row = rows.next().map(Guard::into_inner).transpose().map_err(unreadable)?;
            let took_ns = gaps.now_ns().saturating_sub(begin);
            let is_hole = is_between && before.is_none() && row.is_none();
            if (is_hole || gaps.is_slow(took_ns)) && found.len() < FOUND {
                let from = before.as_deref().map_or_else(|| span.from.clone(), behind);
                let to = row.as_ref().map_or_else(|| span.to.clone(), |(key, _)| key.to_vec());
                let step = Span { from, to };
                let took_ns = if is_hole { took_ns } else { self.takes_ns(&step)? };
                if is_hole || gaps.is_slow(took_ns) {
                    found.push((step, took_ns));
                }
            }
            let Some((key, value)) = row else { return Ok(ControlFlow::Continue(())) };
            if visit(key.get(1..).unwrap_or_default(), &value).is_break() {
                return Ok(ControlFlow::Break(()));
            }
            // What the visitor does is no part of the next step.
            (before, begin) = (Some(key), gaps.now_ns());
        }
    }

    fn range(&self, span: &Span) -> Box<dyn DoubleEndedIterator<Item = IterGuardImpl> + Send> {
        self.shared.runs.scanned();
        let bounds = (Bound::Included(span.from.as_slice()), Bound::Excluded(span.to.as_slice()));
        self.shared.tree.range::<&[u8], _>(bounds, self.seq, None)
    }

    /// What a step without a row takes once more: blocks that had to be read are there now, and another thread that ran in between
    /// does hardly do so again.
    fn takes_ns(&self, step: &Span) -> Result<u64, ViewError> {
        let begin = self.shared.gaps.now_ns();
        self.range(step).next().map(Guard::into_inner).transpose().map_err(unreadable)?;
        Ok(self.shared.gaps.now_ns().saturating_sub(begin))
    }

    fn tell(&self, found: &Found) {
        if found.is_empty() {
            return;
        }
        if found.iter().any(|(_, took_ns)| self.shared.gaps.is_long(*took_ns)) {
            self.shared.asked.store(true, Ordering::Relaxed);
        }
        let _nobody_applies = self.shared.gate();
        let visible = self.shared.visible();
        for (span, took_ns) in found {
            self.shared.gaps.found(span, *took_ns, (self.seq, visible));
        }
    }
}

#[cfg(test)]
#[path = "reading_tests.rs"]
mod tests;
