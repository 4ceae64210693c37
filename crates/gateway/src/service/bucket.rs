//! Buckets as S3 sees them.

use async_trait::async_trait;
use skerry_base::WallTime;

use super::{Outcome, Receipt, RequestContext};

/// Whether a bucket keeps versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Versioning {
    /// Never switched on: a new object replaces the old one.
    #[default]
    Off,
    /// Every write makes a version.
    Enabled,
    /// Switched off again: writes make and replace the null version, versions stay.
    Suspended,
}

/// A bucket in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BucketInfo {
    /// Its name here.
    pub name: String,
    /// When it was created.
    pub created: WallTime,
    /// Whom it belongs to.
    pub owner: String,
    /// The location that its creator named.
    pub location: Option<String>,
}

/// CreateBucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateBucket {
    /// The valid name.
    pub name: String,
    /// `LocationConstraint`, unparsed.
    pub location: Option<String>,
}

/// A bucket that was created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreatedBucket {
    /// The name it got: differs from the one asked for with `bucket_scope = site`.
    pub name: String,
    /// What the answer carries beyond S3.
    pub receipt: Receipt,
}

/// What S3 does with buckets.
#[async_trait]
pub trait BucketService: Send + Sync + 'static {
    /// The caller's buckets by name.
    async fn list(&self, context: &RequestContext) -> Outcome<Vec<BucketInfo>>;
    /// Creates a bucket; `BucketAlreadyOwnedByYou` or `BucketAlreadyExists` if the name is taken.
    async fn create(&self, context: &RequestContext, request: CreateBucket) -> Outcome<CreatedBucket>;
    /// Whether it exists and is the caller's; `NoSuchBucket` else.
    async fn head(&self, context: &RequestContext, bucket: &str) -> Outcome<BucketInfo>;
    /// Deletes an empty bucket; `BucketNotEmpty` else.
    async fn delete(&self, context: &RequestContext, bucket: &str) -> Outcome<Receipt>;
    /// Its `LocationConstraint`; `None` prints as the empty constraint of `us-east-1`.
    async fn location(&self, context: &RequestContext, bucket: &str) -> Outcome<Option<String>>;
    /// Its versioning state.
    async fn versioning(&self, context: &RequestContext, bucket: &str) -> Outcome<Versioning>;
    /// Sets its versioning state; never back to `Off`.
    async fn set_versioning(
        &self,
        context: &RequestContext,
        bucket: &str,
        versioning: Versioning,
    ) -> Outcome<Receipt>;
}
