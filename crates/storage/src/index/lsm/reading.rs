//! Readings of the index: what was applied up to a number.
//!
//! A scan of what listings go over passes stretches in which nothing lives in one seek, once they were found: see `gaps`.

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use bytes::Bytes;
use lsm_tree::{AbstractTree, Guard};
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
        while span.from < span.to {
            let gap = self.shared.gaps.next(&span, self.seq);
            let upto = gap.as_ref().map_or(&span.to, |gap| &gap.from);
            if span.from < *upto {
                let part = Span { from: span.from.clone(), to: upto.clone() };
                if self.over(part, &mut found, visit)?.is_break() {
                    break;
                }
            }
            let Some(gap) = gap else { break };
            span.from = gap.to;
        }
        self.tell(&found);
        Ok(())
    }

    /// Row by row.
    fn over(
        &self,
        span: Span,
        found: &mut Found,
        visit: &mut Visit<'_>,
    ) -> Result<ControlFlow<()>, ViewError> {
        let bounds = (Bound::Included(span.from.as_slice()), Bound::Excluded(span.to.as_slice()));
        let (mut before, mut begin) = (None, self.shared.gaps.now_ns());
        let mut rows = self.shared.tree.range::<&[u8], _>(bounds, self.seq, None);
        loop {
            let row = rows.next().map(Guard::into_inner).transpose().map_err(unreadable)?;
            let end = self.shared.gaps.now_ns();
            let took_ns = end.saturating_sub(begin);
            if self.shared.gaps.is_slow(took_ns) && found.len() < FOUND {
                let from = before.as_deref().map_or_else(|| span.from.clone(), behind);
                let to = row.as_ref().map_or_else(|| span.to.clone(), |(key, _)| key.to_vec());
                found.push((Span { from, to }, took_ns));
            }
            let Some((key, value)) = row else { return Ok(ControlFlow::Continue(())) };
            if visit(key.get(1..).unwrap_or_default(), &value).is_break() {
                return Ok(ControlFlow::Break(()));
            }
            (before, begin) = (Some(key), end);
        }
    }

    fn tell(&self, found: &Found) {
        if found.is_empty() {
            return;
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
