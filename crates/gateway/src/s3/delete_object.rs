//! DeleteObject.

use hyper::StatusCode;

use super::reply::Reply;
use super::{Call, headers};
use crate::service::{DeleteObject, DeleteTarget, Outcome, Services};

/// Deletes a key or erases a version; of what is not there, too.
pub(super) async fn run(services: &Services, call: Call) -> Outcome<Reply> {
    let condition = headers::write_condition(&call.headers)?;
    let target = DeleteTarget { version: call.version()?, key: call.key, condition };
    let request = DeleteObject { bucket: call.bucket, target };
    let outcome = services.objects.delete(&call.context, request).await?;
    let reply = Reply::empty(StatusCode::NO_CONTENT)
        .with_version(outcome.version.as_ref())
        .with_some("x-amz-delete-marker", outcome.delete_marker.then_some("true"));
    Ok(reply.with_receipt(&outcome.receipt))
}
