//! The gateway's object service: each call goes to the file of its action.

use std::sync::Arc;

use async_trait::async_trait;
use skerry_gateway::service::{
    CompleteUpload, CopyObject, CopyOutcome, CopyPart, CreateUpload, CreatedUpload, DeleteObject,
    DeleteOutcome, DeleteTarget, GetObject, ListPage, ListParts, ListQuery, ObjectHead, ObjectRead,
    ObjectService, Outcome, PartPage, PutObject, PutOutcome, PutPart, PutPartOutcome, RequestContext,
    UploadPage, UploadQuery, UploadTarget, VersionPage, VersionQuery,
};
use skerry_model::policy::Action;

use super::{copy, delete, get, list, list_uploads, put, upload};
use crate::site::Site;

/// Objects and uploads of a site.
pub(crate) struct Objects(pub(crate) Arc<Site>);

#[async_trait]
impl ObjectService for Objects {
    async fn put(&self, context: &RequestContext, request: PutObject) -> Outcome<PutOutcome> {
        put::put(&self.0, context, request).await
    }

    async fn get(&self, context: &RequestContext, request: GetObject) -> Outcome<ObjectRead> {
        get::get(&self.0, context, request).await
    }

    async fn head(&self, context: &RequestContext, request: GetObject) -> Outcome<ObjectHead> {
        get::head(&self.0, context, request).await
    }

    async fn delete(&self, context: &RequestContext, request: DeleteObject) -> Outcome<DeleteOutcome> {
        delete::delete(&self.0, context, request).await
    }

    async fn delete_many(
        &self,
        context: &RequestContext,
        bucket: &str,
        targets: Vec<DeleteTarget>,
    ) -> Outcome<Vec<Outcome<DeleteOutcome>>> {
        delete::delete_many(&self.0, context, bucket, targets).await
    }

    async fn copy(&self, context: &RequestContext, request: CopyObject) -> Outcome<CopyOutcome> {
        copy::copy(&self.0, context, request).await
    }

    async fn list(&self, context: &RequestContext, query: ListQuery) -> Outcome<ListPage> {
        let bucket = self.0.allowed(context, &query.bucket, Action::Read).await?;
        list::objects(&self.0, &bucket, query, &context.read).await
    }

    async fn list_versions(&self, context: &RequestContext, query: VersionQuery) -> Outcome<VersionPage> {
        let bucket = self.0.allowed(context, &query.bucket, Action::Read).await?;
        list::versions(&self.0, &bucket, query, &context.read).await
    }

    async fn create_upload(&self, context: &RequestContext, request: CreateUpload) -> Outcome<CreatedUpload> {
        upload::create(&self.0, context, request).await
    }

    async fn put_part(&self, context: &RequestContext, request: PutPart) -> Outcome<PutPartOutcome> {
        upload::put_part(&self.0, context, request).await
    }

    async fn copy_part(&self, context: &RequestContext, request: CopyPart) -> Outcome<PutPartOutcome> {
        upload::copy_part(&self.0, context, request).await
    }

    async fn complete_upload(
        &self,
        context: &RequestContext,
        request: CompleteUpload,
    ) -> Outcome<PutOutcome> {
        upload::complete(&self.0, context, request).await
    }

    async fn abort_upload(&self, context: &RequestContext, target: UploadTarget) -> Outcome<()> {
        upload::abort(&self.0, context, target).await
    }

    async fn list_parts(&self, context: &RequestContext, query: ListParts) -> Outcome<PartPage> {
        upload::parts(&self.0, context, query).await
    }

    async fn list_uploads(&self, context: &RequestContext, query: UploadQuery) -> Outcome<UploadPage> {
        let bucket = self.0.allowed(context, &query.bucket, Action::Read).await?;
        list_uploads::uploads(&self.0, &bucket, query).await
    }
}
