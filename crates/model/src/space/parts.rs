//! Uploads and parts in progress, and facts of this node alone.

use std::ops::{Bound, ControlFlow};

use bytes::Bytes;
use skerry_base::kv::{Batch, Table, View, prefix_end};
use skerry_base::{BucketId, codec};

use super::read::{get, row};
use super::{SpaceError, keys};
use crate::multipart::{Part, Upload, UploadId};

/// One upload in progress.
pub fn upload(
    view: &dyn View,
    bucket: BucketId,
    key: &str,
    id: UploadId,
) -> Result<Option<Upload>, SpaceError> {
    get(view, Table::Uploads, &keys::upload(bucket, key, id))
}

/// Uploads in progress in order of (key, id), after the given one.
pub fn list_uploads(
    view: &dyn View,
    bucket: BucketId,
    prefix: &str,
    after: Option<(&str, Option<UploadId>)>,
    max: usize,
) -> Result<Vec<Upload>, SpaceError> {
    let first = keys::prefix(bucket, prefix);
    let end = prefix_end(&first);
    let start = match after {
        Some((key, Some(id))) => Some([keys::upload(bucket, key, id), vec![0]].concat()),
        Some((key, None)) => prefix_end(&keys::object(bucket, key)),
        None => None,
    };
    let from = start.map_or(first.clone(), |start| start.max(first));
    let to = end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
    let mut found = Vec::new();
    view.scan(Table::Uploads, Bound::Included(&from), to, &mut |_, value| {
        if found.len() == max {
            return ControlFlow::Break(());
        }
        found.push(Bytes::copy_from_slice(value));
        ControlFlow::Continue(())
    })?;
    found.iter().map(row).collect()
}

/// Buckets in which uploads are in progress here.
pub fn uploading(view: &dyn View) -> Result<Vec<BucketId>, SpaceError> {
    let mut found = Vec::new();
    let mut from = Vec::new();
    loop {
        let mut first = None;
        view.scan(Table::Uploads, Bound::Included(&from), Bound::Unbounded, &mut |name, _| {
            first = name.first_chunk::<16>().copied();
            ControlFlow::Break(())
        })?;
        let Some(bucket) = first else { return Ok(found) };
        found.push(BucketId(bucket));
        match prefix_end(&bucket) {
            Some(next) => from = next,
            None => return Ok(found),
        }
    }
}

/// One part of an upload.
pub fn part(
    view: &dyn View,
    bucket: BucketId,
    id: UploadId,
    number: u32,
) -> Result<Option<Part>, SpaceError> {
    get(view, Table::Parts, &keys::part(bucket, id, number))
}

/// Parts of an upload in order of number, after the given one (0 for the first).
pub fn list_parts(
    view: &dyn View,
    bucket: BucketId,
    id: UploadId,
    after: u32,
    max: usize,
) -> Result<Vec<Part>, SpaceError> {
    let (from, all) = (keys::part(bucket, id, after), keys::parts(bucket, id));
    let end = prefix_end(&all);
    let to = end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
    let mut found = Vec::new();
    view.scan(Table::Parts, Bound::Excluded(&from), to, &mut |_, value| {
        if found.len() == max {
            return ControlFlow::Break(());
        }
        found.push(Bytes::copy_from_slice(value));
        ControlFlow::Continue(())
    })?;
    found.iter().map(row).collect()
}

/// A fact of this node alone.
pub fn local(view: &dyn View, key: &[u8]) -> Result<Option<Bytes>, SpaceError> {
    Ok(view.get(Table::Local, key)?)
}

pub(super) fn put_upload(upload: &Upload, batch: &mut Batch) {
    let name = keys::upload(upload.bucket, &upload.key, upload.id);
    batch.put(Table::Uploads, name, codec::encode(upload));
}

pub(super) fn put_part(part: &Part, view: &dyn View, batch: &mut Batch) -> Result<(), SpaceError> {
    let name = keys::part(part.bucket, part.upload, part.number);
    if let Some(was) = get::<Part>(view, Table::Parts, &name)? {
        count(&was, -1, batch);
    }
    count(part, 1, batch);
    batch.put(Table::Parts, name, codec::encode(part));
    Ok(())
}

pub(super) fn end(
    bucket: BucketId,
    key: &str,
    id: UploadId,
    view: &dyn View,
    batch: &mut Batch,
) -> Result<(), SpaceError> {
    for part in list_parts(view, bucket, id, 0, usize::MAX)? {
        count(&part, -1, batch);
        batch.delete(Table::Parts, keys::part(bucket, id, part.number));
    }
    batch.delete(Table::Uploads, keys::upload(bucket, key, id));
    Ok(())
}

fn count(part: &Part, delta: i32, batch: &mut Batch) {
    for chunk in &part.chunks {
        batch.reference(part.bucket, chunk.id, delta);
    }
}
