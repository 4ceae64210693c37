//! UploadPart.

use hyper::StatusCode;

use super::reply::Reply;
use super::{Call, headers};
use crate::service::{Outcome, PutPart, Services};

/// Stores a part; its body streams to the service.
pub(super) async fn run(services: &Services, mut call: Call) -> Outcome<Reply> {
    // How the parts' checksums make one was said when the upload was begun.
    headers::shape(&call.headers)?;
    let request =
        PutPart { target: call.upload_target(), number: call.required_part()?, body: call.take_upload()? };
    let outcome = services.objects.put_part(&call.context, request).await?;
    let mut reply = Reply::empty(StatusCode::OK).with_etag(&outcome.etag);
    for sum in &outcome.checksums {
        reply = reply.with(sum.kind.header(), &sum.value);
    }
    Ok(reply)
}
