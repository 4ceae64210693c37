//! GetBucketLocation.

use s3s::dto;

use super::Call;
use super::reply::Reply;
use crate::service::{Outcome, Services};

/// Where a bucket is; the empty constraint is `us-east-1`.
pub(super) async fn run(services: &Services, call: Call) -> Outcome<Reply> {
    let location = services.buckets.location(&call.context, &call.bucket).await?;
    let location_constraint = location.map(dto::BucketLocationConstraint::from);
    Reply::xml(&dto::GetBucketLocationOutput { location_constraint })
}
