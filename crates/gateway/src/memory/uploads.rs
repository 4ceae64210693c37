//! Multipart uploads of the double.

use bytes::Bytes;

use super::Memory;
use super::state::{Part, Upload};
use super::versions::{Fresh, collect, md5_of, sum_of};
use crate::service::{
    CompleteUpload, CopyPart, CreateUpload, CreatedUpload, ErrorKind, ListParts, Outcome, PartPage,
    PartSummary, PutOutcome, PutPart, PutPartOutcome, RequestContext, ServiceError, StoredPart, UploadTarget,
    complete_parts,
};

impl Memory {
    pub(super) fn begin(&self, context: &RequestContext, request: CreateUpload) -> Outcome<CreatedUpload> {
        let (mut state, initiated) = (self.lock(), self.now());
        let id = state.draw("u");
        let bucket = state.bucket(context, &request.bucket)?;
        let uploads = bucket.uploads.entry(request.key.clone()).or_default();
        let principal = context.principal.clone();
        uploads.insert(id.clone(), Upload { request, initiated, principal, parts: Default::default() });
        Ok(CreatedUpload { upload: id })
    }

    pub(super) async fn receive(
        &self,
        context: &RequestContext,
        request: PutPart,
    ) -> Outcome<PutPartOutcome> {
        let PutPart { target, number, mut body } = request;
        let (kind, _) =
            self.lock().bucket(context, &target.bucket)?.upload(&target.key, &target.upload)?.checksum();
        body.also(kind);
        let (bytes, digests) = collect(body).await?;
        let size = bytes.len() as u64;
        let stored = StoredPart { number, etag: digests.etag(), size, checksums: digests.checksums };
        self.keep(context, &target, bytes, stored)
    }

    pub(super) fn copy_part_of(
        &self,
        context: &RequestContext,
        request: CopyPart,
    ) -> Outcome<PutPartOutcome> {
        let source = self.source(context, &request.source)?;
        let bytes = match request.range {
            None => source.body.clone(),
            Some((first, last)) if last < source.info.size => {
                source.body.slice(first as usize..=last as usize)
            }
            Some(_) => {
                return Err(ServiceError::new(
                    ErrorKind::InvalidRange,
                    format!(
                        "the range of a copied part must lie within the {} bytes of its source",
                        source.info.size
                    ),
                ));
            }
        };
        let target = &request.target;
        let (kind, _) =
            self.lock().bucket(context, &target.bucket)?.upload(&target.key, &target.upload)?.checksum();
        let stored = StoredPart {
            number: request.number,
            etag: md5_of(&bytes),
            size: bytes.len() as u64,
            checksums: vec![sum_of(kind, &bytes)],
        };
        let outcome = self.keep(context, target, bytes, stored)?;
        Ok(PutPartOutcome { source_version: source.info.version, ..outcome })
    }

    fn keep(
        &self,
        context: &RequestContext,
        target: &UploadTarget,
        body: Bytes,
        stored: StoredPart,
    ) -> Outcome<PutPartOutcome> {
        let (mut state, modified) = (self.lock(), self.now());
        let upload = state.bucket(context, &target.bucket)?.upload(&target.key, &target.upload)?;
        let outcome = PutPartOutcome {
            etag: stored.etag.clone(),
            modified,
            size: stored.size,
            checksums: stored.checksums.clone(),
            source_version: None,
        };
        upload.parts.insert(stored.number, Part { stored, modified, body });
        Ok(outcome)
    }

    pub(super) fn complete(&self, context: &RequestContext, request: CompleteUpload) -> Outcome<PutOutcome> {
        let target = request.target.clone();
        let fresh = {
            let mut state = self.lock();
            if let Some(outcome) = state.completed.get(&target.upload) {
                // Of other parts it is another object.
                return match request.etag().is_some_and(|etag| etag == outcome.etag) {
                    true => Ok(outcome.clone()),
                    false => Err(ServiceError::no_such_upload(&target.upload)),
                };
            }
            let upload = state.bucket(context, &target.bucket)?.upload(&target.key, &target.upload)?;
            assemble(upload, &request)?
        };
        let outcome = self.store(context, &target.bucket, &target.key, &request.condition, fresh)?;
        let mut state = self.lock();
        state.bucket(context, &target.bucket)?.forget(&target.key, &target.upload);
        state.completed.insert(target.upload, outcome.clone());
        Ok(outcome)
    }

    pub(super) fn abort(&self, context: &RequestContext, target: &UploadTarget) -> Outcome<()> {
        let mut state = self.lock();
        let bucket = state.bucket(context, &target.bucket)?;
        bucket.upload(&target.key, &target.upload)?;
        bucket.forget(&target.key, &target.upload);
        Ok(())
    }

    pub(super) fn page_of_parts(&self, context: &RequestContext, query: &ListParts) -> Outcome<PartPage> {
        let mut state = self.lock();
        let target = &query.target;
        let upload = state.bucket(context, &target.bucket)?.upload(&target.key, &target.upload)?;
        let mut rest = upload.parts.range(query.after.saturating_add(1)..);
        let parts: Vec<PartSummary> =
            rest.by_ref().take(query.limit).map(|(_, part)| summary(part)).collect();
        Ok(PartPage {
            parts,
            more: rest.next().is_some(),
            initiator: upload.principal.access_key.clone(),
            owner: upload.principal.owner.clone(),
            checksum: upload.request.declared.then(|| upload.checksum()),
        })
    }
}

fn summary(part: &Part) -> PartSummary {
    PartSummary {
        number: part.stored.number,
        etag: part.stored.etag.clone(),
        size: part.stored.size,
        modified: part.modified,
        checksums: part.stored.checksums.clone(),
    }
}

fn assemble(upload: &Upload, request: &CompleteUpload) -> Outcome<Fresh> {
    let parts: Vec<&Part> = upload.parts.values().collect();
    let stored: Vec<StoredPart> = parts.iter().map(|part| part.stored.clone()).collect();
    let (kind, shape) = upload.checksum();
    let done = complete_parts(request, &stored, kind, shape)?;
    let chosen: Vec<&&Part> = done.parts.iter().filter_map(|index| parts.get(*index)).collect();
    Ok(Fresh {
        etag: done.etag,
        headers: upload.request.headers.clone(),
        user_metadata: upload.request.user_metadata.clone(),
        checksums: vec![done.checksum],
        parts: chosen.iter().map(|part| part.stored.size).collect(),
        body: chosen.iter().flat_map(|part| part.body.iter().copied()).collect(),
    })
}
