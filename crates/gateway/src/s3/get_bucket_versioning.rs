//! GetBucketVersioning.

use s3s::dto;

use super::Call;
use super::reply::Reply;
use crate::service::{Outcome, Services, Versioning};

/// Whether a bucket keeps versions; silent if it never did.
pub(super) async fn run(services: &Services, call: Call) -> Outcome<Reply> {
    let status = match services.buckets.versioning(&call.context, &call.bucket).await? {
        Versioning::Off => None,
        Versioning::Enabled => Some(dto::BucketVersioningStatus::ENABLED),
        Versioning::Suspended => Some(dto::BucketVersioningStatus::SUSPENDED),
    };
    let status = status.map(dto::BucketVersioningStatus::from_static);
    Reply::xml(&dto::GetBucketVersioningOutput { status, mfa_delete: None })
}
