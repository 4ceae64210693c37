//! Puts, deletes and copies of the double.

use bytes::Bytes;

use super::Memory;
use super::buckets::receipt;
use super::state::{Bucket, State, Version};
use crate::service::{
    Checksum, ChecksumKind, ChecksumShape, CopyObject, CopyOutcome, DeleteOutcome, DeleteTarget, Digests,
    Hasher, MetadataDirective, ObjectHeaders, ObjectInfo, Outcome, PutOutcome, ReadConditions, Receipt,
    RequestContext, Source, UploadBody, VersionId, Versioning, WriteCondition,
};

/// Reads a body whole; only a double may.
pub(super) async fn collect(mut body: UploadBody) -> Outcome<(Bytes, Digests)> {
    let mut bytes = Vec::new();
    while let Some(next) = body.next().await {
        bytes.extend_from_slice(&next?);
    }
    Ok((bytes.into(), body.finish()?))
}

/// An object about to be stored.
pub(super) struct Fresh {
    pub(super) etag: String,
    pub(super) headers: ObjectHeaders,
    pub(super) user_metadata: Vec<(String, String)>,
    pub(super) checksums: Vec<Checksum>,
    pub(super) parts: Vec<u64>,
    pub(super) body: Bytes,
}

impl Memory {
    /// Stores an object if the condition holds.
    pub(super) fn store(
        &self,
        context: &RequestContext,
        bucket: &str,
        key: &str,
        condition: &WriteCondition,
        fresh: Fresh,
    ) -> Outcome<PutOutcome> {
        let (mut state, now) = (self.lock(), self.now());
        let drawn = state.draw("v");
        let found = state.bucket(context, bucket)?;
        condition.check(key, found.current(key).map(|version| version.info.etag.as_str()))?;
        let size = fresh.body.len() as u64;
        let info = ObjectInfo {
            version: None,
            etag: fresh.etag.clone(),
            size,
            modified: now,
            headers: fresh.headers,
            user_metadata: fresh.user_metadata,
            checksums: fresh.checksums.clone(),
            parts: fresh.parts,
            receipt: Receipt::default(),
        };
        let owner = context.principal.owner.clone();
        let version = Version { id: VersionId::null(), delete_marker: false, info, owner, body: fresh.body };
        let version = found.add(key, version, drawn);
        Ok(PutOutcome { etag: fresh.etag, version, size, checksums: fresh.checksums, receipt: receipt() })
    }

    /// The source of a copy, its conditions checked.
    pub(super) fn source(&self, context: &RequestContext, source: &Source) -> Outcome<Version> {
        let mut state = self.lock();
        let found = state.bucket(context, &source.bucket)?.find(&source.key, source.version.as_ref())?;
        let conditions: &ReadConditions = &source.conditions;
        conditions.check_source(&found.info.etag, found.info.modified)?;
        Ok(found.clone())
    }

    /// Copies an object.
    pub(super) fn copy_object(&self, context: &RequestContext, request: CopyObject) -> Outcome<CopyOutcome> {
        let source = self.source(context, &request.source)?;
        let kept = source.info.checksums.first().filter(|sum| sum.shape == ChecksumShape::Full);
        let kind = request.checksum.or(kept.map(|sum| sum.kind)).unwrap_or(ChecksumKind::Crc64Nvme);
        let (headers, user_metadata) = match request.metadata {
            MetadataDirective::Copy => (source.info.headers, source.info.user_metadata),
            MetadataDirective::Replace { headers, user_metadata } => (headers, user_metadata),
        };
        let fresh = Fresh {
            etag: md5_of(&source.body),
            headers,
            user_metadata,
            checksums: vec![sum_of(kind, &source.body)],
            parts: Vec::new(),
            body: source.body,
        };
        let put = self.store(context, &request.bucket, &request.key, &request.condition, fresh)?;
        Ok(CopyOutcome { modified: self.now(), source_version: source.info.version, put })
    }

    /// Deletes a key or erases a version.
    pub(super) fn remove(
        &self,
        context: &RequestContext,
        bucket: &str,
        target: &DeleteTarget,
    ) -> Outcome<DeleteOutcome> {
        let (mut state, now) = (self.lock(), self.now());
        let drawn = State::draw(&mut state, "v");
        let found = state.bucket(context, bucket)?;
        let current = found.current(&target.key).map(|version| version.info.etag.as_str());
        target.condition.check(&target.key, current)?;
        let outcome = match &target.version {
            Some(id) => found.erase(&target.key, id),
            None => hide(found, &target.key, drawn, &context.principal.owner, now),
        };
        Ok(DeleteOutcome { receipt: receipt(), ..outcome })
    }
}

/// Deletes a key by the rules of the versioning state.
fn hide(
    bucket: &mut Bucket,
    key: &str,
    drawn: String,
    owner: &str,
    now: skerry_base::WallTime,
) -> DeleteOutcome {
    if bucket.versioning == Versioning::Off {
        bucket.keys.remove(key);
        return DeleteOutcome::default();
    }
    let info = ObjectInfo {
        version: None,
        etag: String::new(),
        size: 0,
        modified: now,
        headers: ObjectHeaders::default(),
        user_metadata: Vec::new(),
        checksums: Vec::new(),
        parts: Vec::new(),
        receipt: Receipt::default(),
    };
    let (id, body) = (VersionId::null(), Bytes::new());
    let marker = Version { id, delete_marker: true, info, owner: owner.into(), body };
    let version = bucket.add(key, marker, drawn);
    DeleteOutcome { delete_marker: true, version, receipt: Receipt::default() }
}

/// The MD5 of bytes in hexadecimal.
pub(super) fn md5_of(bytes: &[u8]) -> String {
    use md5::Digest;
    skerry_base::hex::text(&md5::Md5::digest(bytes))
}

/// A checksum of bytes.
pub(super) fn sum_of(kind: ChecksumKind, bytes: &[u8]) -> Checksum {
    let mut hasher = Hasher::new(kind);
    hasher.update(bytes);
    Checksum { kind, value: hasher.finish(), shape: ChecksumShape::Full }
}
