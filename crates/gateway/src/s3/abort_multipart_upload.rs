//! AbortMultipartUpload.

use hyper::StatusCode;

use super::Call;
use super::reply::Reply;
use crate::service::{Outcome, Services};

/// Gives an upload up.
pub(super) async fn run(services: &Services, call: Call) -> Outcome<Reply> {
    services.objects.abort_upload(&call.context, call.upload_target()).await?;
    Ok(Reply::empty(StatusCode::NO_CONTENT))
}
