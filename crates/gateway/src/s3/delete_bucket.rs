//! DeleteBucket.

use hyper::StatusCode;

use super::Call;
use super::reply::Reply;
use crate::service::{Outcome, Services};

/// Deletes an empty bucket.
pub(super) async fn run(services: &Services, call: Call) -> Outcome<Reply> {
    let receipt = services.buckets.delete(&call.context, &call.bucket).await?;
    Ok(Reply::empty(StatusCode::NO_CONTENT).with_receipt(&receipt))
}
