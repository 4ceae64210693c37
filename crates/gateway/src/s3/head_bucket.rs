//! HeadBucket.

use hyper::StatusCode;

use super::reply::Reply;
use super::{Call, REGION};
use crate::service::{Outcome, Services};

/// Whether a bucket exists and is the caller's.
pub(super) async fn run(services: &Services, call: Call) -> Outcome<Reply> {
    let found = services.buckets.head(&call.context, &call.bucket).await?;
    Ok(Reply::empty(StatusCode::OK).with(REGION, call.region_of(found.location)))
}
