//! The object service of the double.

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream;

use super::versions::{Fresh, collect};
use super::{Memory, listing};
use crate::service::{
    CompleteUpload, CopyObject, CopyOutcome, CopyPart, CreateUpload, CreatedUpload, DeleteObject,
    DeleteOutcome, DeleteTarget, DownloadBody, GetObject, ListPage, ListParts, ListQuery, ObjectHead,
    ObjectRead, ObjectService, Outcome, PartPage, PutObject, PutOutcome, PutPart, PutPartOutcome,
    RequestContext, UploadPage, UploadQuery, UploadTarget, VersionPage, VersionQuery,
};

/// Bytes of one slice of a download.
const SLICE: usize = 64 << 10;

#[async_trait]
impl ObjectService for Memory {
    async fn put(&self, context: &RequestContext, request: PutObject) -> Outcome<PutOutcome> {
        self.lock().bucket(context, &request.bucket)?;
        let (body, digests) = collect(request.body).await?;
        let fresh = Fresh {
            etag: digests.etag(),
            headers: request.headers,
            user_metadata: request.user_metadata,
            checksums: digests.checksums,
            parts: Vec::new(),
            body,
        };
        self.store(context, &request.bucket, &request.key, &request.condition, fresh)
    }

    async fn get(&self, context: &RequestContext, request: GetObject) -> Outcome<ObjectRead> {
        let mut state = self.lock();
        let found = state.bucket(context, &request.bucket)?.find(&request.key, request.version.as_ref())?;
        let selection = request.select(&found.info)?;
        let bytes = found.body.slice(selection.bytes.start as usize..selection.bytes.end as usize);
        let slices: Vec<Outcome<Bytes>> =
            bytes.chunks(SLICE).map(|slice| Ok(bytes.slice_ref(slice))).collect();
        Ok(ObjectRead { info: found.info.clone(), selection, body: DownloadBody::new(stream::iter(slices)) })
    }

    async fn head(&self, context: &RequestContext, request: GetObject) -> Outcome<ObjectHead> {
        let mut state = self.lock();
        let found = state.bucket(context, &request.bucket)?.find(&request.key, request.version.as_ref())?;
        let selection = request.select(&found.info)?;
        Ok(ObjectHead { info: found.info.clone(), selection })
    }

    async fn delete(&self, context: &RequestContext, request: DeleteObject) -> Outcome<DeleteOutcome> {
        self.remove(context, &request.bucket, &request.target)
    }

    async fn delete_many(
        &self,
        context: &RequestContext,
        bucket: &str,
        targets: Vec<DeleteTarget>,
    ) -> Outcome<Vec<Outcome<DeleteOutcome>>> {
        self.lock().bucket(context, bucket)?;
        Ok(targets.iter().map(|target| self.remove(context, bucket, target)).collect())
    }

    async fn copy(&self, context: &RequestContext, request: CopyObject) -> Outcome<CopyOutcome> {
        self.copy_object(context, request)
    }

    async fn list(&self, context: &RequestContext, query: ListQuery) -> Outcome<ListPage> {
        self.lock().bucket(context, &query.bucket).map(|bucket| listing::current(bucket, &query))
    }

    async fn list_versions(&self, context: &RequestContext, query: VersionQuery) -> Outcome<VersionPage> {
        self.lock().bucket(context, &query.bucket).map(|bucket| listing::versions(bucket, &query))
    }

    async fn create_upload(&self, context: &RequestContext, request: CreateUpload) -> Outcome<CreatedUpload> {
        self.begin(context, request)
    }

    async fn put_part(&self, context: &RequestContext, request: PutPart) -> Outcome<PutPartOutcome> {
        self.receive(context, request).await
    }

    async fn copy_part(&self, context: &RequestContext, request: CopyPart) -> Outcome<PutPartOutcome> {
        self.copy_part_of(context, request)
    }

    async fn complete_upload(
        &self,
        context: &RequestContext,
        request: CompleteUpload,
    ) -> Outcome<PutOutcome> {
        self.complete(context, request)
    }

    async fn abort_upload(&self, context: &RequestContext, target: UploadTarget) -> Outcome<()> {
        self.abort(context, &target)
    }

    async fn list_parts(&self, context: &RequestContext, query: ListParts) -> Outcome<PartPage> {
        self.page_of_parts(context, &query)
    }

    async fn list_uploads(&self, context: &RequestContext, query: UploadQuery) -> Outcome<UploadPage> {
        self.lock().bucket(context, &query.bucket).map(|bucket| listing::uploads(bucket, &query))
    }
}
