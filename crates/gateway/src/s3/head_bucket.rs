//! HeadBucket.

use hyper::StatusCode;

use super::Call;
use super::reply::Reply;
use crate::service::{Outcome, Services};

/// Whether a bucket exists and is the caller's.
pub(super) async fn run(services: &Services, call: Call) -> Outcome<Reply> {
    services.buckets.head(&call.context, &call.bucket).await?;
    let region = services.buckets.location(&call.context, &call.bucket).await?;
    Ok(Reply::empty(StatusCode::OK).with("x-amz-bucket-region", region.unwrap_or_else(|| "us-east-1".into())))
}
