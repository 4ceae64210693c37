//! GetBucketLocation.

use s3s::dto;

use super::reply::Reply;
use super::{Call, FIRST_REGION};
use crate::service::{Outcome, Services};

/// Where a bucket is; the empty constraint is `us-east-1`.
pub(super) async fn run(services: &Services, call: Call) -> Outcome<Reply> {
    let location = services.buckets.location(&call.context, &call.bucket).await?;
    let region = Some(call.region_of(location)).filter(|region| region != FIRST_REGION);
    let location_constraint = region.map(dto::BucketLocationConstraint::from);
    Reply::xml(&dto::GetBucketLocationOutput { location_constraint })
}
