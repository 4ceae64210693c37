//! How long what this site has seen of its buckets has rested here, over restarts.
//!
//! Before: the worker that drops tombstones. Invariants: time is counted while this site runs, by its monotonic clock, and
//! what was not written down before it stopped is lost, never invented; buckets without anything to drop cost a look and no
//! row; a row is written with the time that it speaks of.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use skerry_base::kv::{Table, View};
use skerry_base::{BucketId, Instant, Vector, codec};
use skerry_gateway::service::Outcome;
use skerry_model::rest::Rest;
use skerry_model::{Entry, retire, space};

use crate::drive::stored::{Stored, forget};
use crate::site::{Site, entry, unreadable};

/// Tombstones that have been here for less than this stay.
pub(crate) const REST: Duration = Duration::from_secs(24 * 3600);
/// How often the time that was counted is written down while something rests: so much at most is lost when the site stops.
const WRITE_DOWN_MS: u64 = 15 * 60 * 1000;
/// The milliseconds that were counted, in this node's own table.
pub(crate) const COUNTED: &[u8] = b"counted";
/// Rows that are written in one commit.
const TOGETHER: usize = 64;

/// What is counted of former runs.
#[derive(Debug, Clone, Copy)]
struct Before {
    ms: u64,
    /// When this run began to count.
    begun: Instant,
}

/// What the worker remembers between its turns.
pub(super) struct Resting {
    site: Arc<Site>,
    /// None until it was read.
    before: Option<Before>,
    written_ms: u64,
    /// Buckets of which a row is on disk.
    rows: BTreeSet<BucketId>,
    /// Rows to be written.
    due: Vec<Entry>,
    /// Whether anything of a bucket with tombstones has not rested yet.
    anything: bool,
}

impl Resting {
    pub(super) const fn new(site: Arc<Site>) -> Self {
        Self { site, before: None, written_ms: 0, rows: BTreeSet::new(), due: Vec::new(), anything: false }
    }

    /// Before the first bucket of a turn.
    pub(super) async fn begin(&mut self) -> Outcome<()> {
        self.anything = false;
        if self.before.is_some() {
            return Ok(());
        }
        let read = |view: &dyn View| {
            let mut rows = BTreeSet::new();
            let visit = &mut |key: &[u8], _: &[u8]| {
                rows.extend(Stored::Rest.bucket(key));
                ControlFlow::Continue(())
            };
            view.scan_prefix(Table::Local, Stored::Rest.prefix(), visit)
                .map_err(|error| unreadable(error.into()))?;
            Ok((space::local(view, COUNTED).map_err(unreadable)?, rows))
        };
        let (stored, rows) = self.site.read(read).await?;
        // Not a number: it begins anew, and so do the rows, which speak of more.
        let number = stored.and_then(|bytes| Some(u64::from_be_bytes(bytes.as_ref().try_into().ok()?)));
        (self.written_ms, self.rows) = (number.unwrap_or(0), rows);
        self.before = Some(Before { ms: self.written_ms, begun: self.site.clock.now() });
        Ok(())
    }

    /// The time that this site has run, as far as it was counted.
    fn counted(&self) -> u64 {
        let Some(before) = self.before else { return 0 };
        let passed = self.site.clock.now().since(before.begun).as_millis();
        before.ms.saturating_add(u64::try_from(passed).unwrap_or(u64::MAX))
    }

    /// What this site has seen of a bucket, and what of that has rested; none if there is nothing in it that could go.
    pub(super) async fn look(&mut self, bucket: BucketId) -> Outcome<Option<(Vector, Rest)>> {
        let counted = self.counted();
        let found = self.site.read(move |view| looked(view, bucket, counted)).await?;
        let Some((seen, rest, is_new)) = found else { return Ok(None) };
        self.anything |= *rest.rested() != seen;
        if is_new {
            let key = Bytes::from(Stored::Rest.key(bucket));
            self.due.push(Entry::Local { key, value: Some(codec::encode(&rest).into()) });
            self.rows.insert(bucket);
            if self.due.len() >= TOGETHER {
                self.write().await?;
            }
        }
        Ok(Some((seen, rest)))
    }

    /// After the last bucket of a turn: what is to be written is, and what was kept of others goes.
    pub(super) async fn end(&mut self, followed: &[BucketId]) -> Outcome<()> {
        let gone = self.rows.iter().filter(|bucket| followed.binary_search(bucket).is_err()).copied();
        let gone: Vec<BucketId> = gone.take(TOGETHER).collect();
        self.due.extend(gone.iter().map(|bucket| forget(Stored::Rest, *bucket)));
        let late = self.anything && self.counted().saturating_sub(self.written_ms) >= WRITE_DOWN_MS;
        if late || !self.due.is_empty() {
            self.write().await?;
        }
        self.rows.retain(|bucket| gone.binary_search(bucket).is_err());
        Ok(())
    }

    async fn write(&mut self) -> Outcome<()> {
        let counted = self.counted();
        let mut entries = std::mem::take(&mut self.due);
        let value = Some(Bytes::copy_from_slice(&counted.to_be_bytes()));
        entries.push(Entry::Local { key: Bytes::from_static(COUNTED), value });
        let propose = move |_: &dyn View| Ok(((), entries.iter().map(entry).collect()));
        self.site.commit(self.site.system, (), propose).await?;
        self.written_ms = counted;
        Ok(())
    }
}

/// What is seen of a bucket, what has rested with so much time counted, and whether that is news to the disk.
fn looked(view: &dyn View, bucket: BucketId, counted: u64) -> Outcome<Option<(Vector, Rest, bool)>> {
    if !retire::may_hold(view, bucket).map_err(unreadable)? {
        return Ok(None);
    }
    let seen = space::vector(view, bucket).map_err(unreadable)?;
    let row = space::local(view, &Stored::Rest.key(bucket)).map_err(unreadable)?;
    // One that cannot be read (a later release wrote it) begins anew.
    Ok(Some(match row.and_then(|row| codec::decode::<Rest>(&row).ok()) {
        Some(mut rest) => {
            let is_new = rest.look(&seen, counted, REST);
            (seen, rest, is_new)
        }
        None => {
            let rest = Rest::begin(&seen, counted);
            (seen, rest, true)
        }
    }))
}
