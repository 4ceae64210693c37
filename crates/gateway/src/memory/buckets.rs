//! Buckets and access keys of the double.

use async_trait::async_trait;

use super::Memory;
use super::state::Bucket;
use crate::service::{
    BucketInfo, BucketService, CreateBucket, CreatedBucket, Credential, CredentialService, ErrorKind,
    Outcome, Receipt, RequestContext, ServiceError, Versioning,
};

/// The only scope that the double reaches.
pub(super) fn receipt() -> Receipt {
    Receipt { scope: Some("node".into()), ..Receipt::default() }
}

fn info(name: &str, bucket: &Bucket) -> BucketInfo {
    let (owner, location) = (bucket.owner.clone(), bucket.location.clone());
    BucketInfo { name: name.into(), created: bucket.created, owner, location }
}

#[async_trait]
impl BucketService for Memory {
    async fn list(&self, context: &RequestContext) -> Outcome<Vec<BucketInfo>> {
        let state = self.lock();
        let own = state.buckets.iter().filter(|(_, bucket)| bucket.owner == context.principal.owner);
        Ok(own.map(|(name, bucket)| info(name, bucket)).collect())
    }

    async fn create(&self, context: &RequestContext, request: CreateBucket) -> Outcome<CreatedBucket> {
        let mut state = self.lock();
        if let Some(taken) = state.buckets.get(&request.name) {
            let own = taken.owner == context.principal.owner;
            let kind = if own { ErrorKind::BucketAlreadyOwnedByYou } else { ErrorKind::BucketAlreadyExists };
            return Err(ServiceError::new(kind, "the name is taken; choose another"));
        }
        let bucket = Bucket::new(&context.principal.owner, self.now(), request.location);
        state.buckets.insert(request.name.clone(), bucket);
        Ok(CreatedBucket { name: request.name, receipt: receipt() })
    }

    async fn head(&self, context: &RequestContext, bucket: &str) -> Outcome<BucketInfo> {
        self.lock().bucket(context, bucket).map(|found| info(bucket, found))
    }

    async fn delete(&self, context: &RequestContext, bucket: &str) -> Outcome<Receipt> {
        let mut state = self.lock();
        if !state.bucket(context, bucket)?.keys.is_empty() {
            return Err(ServiceError::new(
                ErrorKind::BucketNotEmpty,
                "The bucket you tried to delete is not empty: delete its objects and versions first",
            ));
        }
        state.buckets.remove(bucket);
        Ok(receipt())
    }

    async fn location(&self, context: &RequestContext, bucket: &str) -> Outcome<Option<String>> {
        self.lock().bucket(context, bucket).map(|found| found.location.clone())
    }

    async fn versioning(&self, context: &RequestContext, bucket: &str) -> Outcome<Versioning> {
        self.lock().bucket(context, bucket).map(|found| found.versioning)
    }

    async fn set_versioning(
        &self,
        context: &RequestContext,
        bucket: &str,
        versioning: Versioning,
    ) -> Outcome<Receipt> {
        self.lock().bucket(context, bucket)?.versioning = versioning;
        Ok(receipt())
    }
}

#[async_trait]
impl CredentialService for Memory {
    async fn credential(&self, access_key: &str) -> Outcome<Credential> {
        let state = self.lock();
        let found = state.keys.get(access_key).filter(|(_, status)| status.enabled);
        found.map(|(credential, _)| credential.clone()).ok_or_else(|| {
            ServiceError::new(
                ErrorKind::InvalidAccessKeyId,
                "The AWS Access Key Id you provided does not exist in our records.",
            )
        })
    }
}
