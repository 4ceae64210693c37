//! The reducer: journal entries become changes of the tables.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use skerry_base::kv::{Batch, Overlay, ReduceError, Reducer, Table, View};
use skerry_base::{BucketId, Dot, Vector};

use super::change::State;
use super::{SpaceError, feed, keys, leave, loose, parts, read, round};
use crate::entry::Entry;
use crate::record::Record;

/// Width of a seq in a row.
const SEQ_BYTES: usize = 8;

/// Applies [`Entry`]s. It holds nothing: all state is in the view.
#[derive(Debug, Clone, Copy, Default)]
pub struct SpaceReducer;

impl Reducer for SpaceReducer {
    fn reduce(&self, entry: &[u8], view: &dyn View, batch: &mut Batch) -> Result<(), ReduceError> {
        let entry = Entry::decode(entry).map_err(|error| ReduceError(error.to_string()))?;
        apply(entry, view, batch).map_err(|error| ReduceError(error.to_string()))
    }
}

fn apply(entry: Entry, view: &dyn View, batch: &mut Batch) -> Result<(), SpaceError> {
    match entry {
        Entry::Write(record) => {
            let (bucket, dot) = (record.bucket, record.dot);
            arrive_own(*record, view, batch)?;
            let upto = Vector::from_iter([(dot.origin, dot.seq)]);
            advance(bucket, &upto, view, batch)?;
            loose::mark(bucket, view, batch)
        }
        Entry::Record(record) => {
            let bucket = record.bucket;
            arrive(*record, view, batch)?;
            loose::mark(bucket, view, batch)
        }
        Entry::Vector { bucket, upto } => {
            advance(bucket, &upto, view, batch)?;
            loose::mark(bucket, view, batch)
        }
        Entry::Drop { bucket, dots } => {
            drop_all(bucket, &dots, view, batch)?;
            loose::mark(bucket, view, batch)
        }
        Entry::Upload(upload) => {
            parts::put_upload(&upload, batch);
            Ok(())
        }
        Entry::UploadEnd { bucket, key, id } => parts::end(bucket, &key, id, view, batch),
        Entry::Part(part) => parts::put_part(&part, view, batch),
        Entry::Local { key, value } => {
            batch.writes.insert(Table::Local, key.to_vec(), value);
            Ok(())
        }
        Entry::Progress { bucket, source, progress } => {
            round::put_progress(bucket, source, progress.as_ref(), batch);
            Ok(())
        }
        Entry::Leave { bucket } => leave::forget(bucket, view, batch),
    }
}

fn arrive(record: Record, view: &dyn View, batch: &mut Batch) -> Result<(), SpaceError> {
    if read::known(view, &record)?.is_some() {
        return Ok(());
    }
    State::load(view, record.bucket, &record.key)?.arrive(view, record, batch)
}

/// The same of an own write, whose stamp is remembered: the state of its key is read once for both.
fn arrive_own(record: Record, view: &dyn View, batch: &mut Batch) -> Result<(), SpaceError> {
    let is_known = read::known(view, &record)?.is_some();
    let is_behind = record.clock <= read::own_clock(view)?;
    if is_known && is_behind {
        return Ok(());
    }
    let state = State::load(view, record.bucket, &record.key)?;
    if !is_behind {
        note_clock(&record, &state, view, batch)?;
    }
    if is_known { Ok(()) } else { state.arrive_own(view, record, batch) }
}

/// Remembers the stamp of an own write, unless it only follows what it had seen.
fn note_clock(record: &Record, state: &State, view: &dyn View, batch: &mut Batch) -> Result<(), SpaceError> {
    let mut seen: Vec<_> = state.active.iter().map(|stored| stored.record.clock).collect();
    if let Some(target) = record.target() {
        seen.extend(read::dot_row(view, record.bucket, target)?.map(|row| row.clock));
    }
    if !seen.iter().any(|clock| clock.next() == record.clock) {
        let row: [u8; SEQ_BYTES] = record.clock.0.to_be_bytes();
        batch.put(Table::Local, read::OWN_CLOCK, row.to_vec());
    }
    Ok(())
}

fn advance(bucket: BucketId, upto: &Vector, view: &dyn View, batch: &mut Batch) -> Result<(), SpaceError> {
    for (origin, seq) in upto.iter() {
        if seq > feed::vector_entry(view, bucket, origin)? {
            let row: [u8; SEQ_BYTES] = seq.to_be_bytes();
            batch.put(Table::Vectors, keys::vector(bucket, origin), row.to_vec());
        }
    }
    Ok(())
}

pub(super) fn drop_all(
    bucket: BucketId,
    dots: &[Dot],
    view: &dyn View,
    batch: &mut Batch,
) -> Result<(), SpaceError> {
    let mut by_key: BTreeMap<String, BTreeSet<Dot>> = BTreeMap::new();
    for &dot in dots {
        if let Some(row) = read::dot_row(view, bucket, dot)? {
            by_key.entry(row.key).or_default().insert(dot);
        }
    }
    let mut sofar = Batch::default();
    for (key, dots) in by_key {
        let mut next = Batch::default();
        let seen = Overlay::new(view, &sofar);
        State::load(&seen, bucket, &key)?.drop_records(&seen, &dots, &mut next)?;
        sofar.writes.extend(next.writes);
        sofar.references.append(&mut next.references);
    }
    batch.writes.extend(sofar.writes);
    batch.references.append(&mut sofar.references);
    Ok(())
}

/// A value of eight bytes, big endian.
pub(super) fn number(value: &Bytes) -> Result<u64, SpaceError> {
    let bytes: [u8; SEQ_BYTES] =
        value.as_ref().try_into().map_err(|_| SpaceError::Inconsistent("a number is not eight bytes"))?;
    Ok(u64::from_be_bytes(bytes))
}
