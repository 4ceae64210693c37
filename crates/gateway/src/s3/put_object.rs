//! PutObject.

use hyper::StatusCode;

use super::reply::Reply;
use super::{Call, headers};
use crate::service::{ChecksumShape, Outcome, PutObject, PutOutcome, Services};

/// Stores an object; its body streams to the service.
pub(super) async fn run(services: &Services, mut call: Call) -> Outcome<Reply> {
    headers::check_new(&call.headers)?;
    if headers::shape(&call.headers)? == Some(ChecksumShape::Composite) {
        return Err(headers::argument(
            "x-amz-checksum-type",
            "an object of one part has a checksum of all of it",
        ));
    }
    let request = PutObject {
        headers: headers::object_headers(&call.headers)?,
        user_metadata: headers::user_metadata(&call.headers)?,
        condition: headers::write_condition(&call.headers)?,
        body: call.take_upload()?,
        bucket: call.bucket,
        key: call.key,
    };
    let outcome = services.objects.put(&call.context, request).await?;
    Ok(with_outcome(Reply::empty(StatusCode::OK), &outcome).with_etag(&outcome.etag))
}

/// What the headers of an answer to a write say.
pub(super) fn with_outcome(reply: Reply, outcome: &PutOutcome) -> Reply {
    reply
        .with_version(outcome.version.as_ref())
        .with_checksums(&outcome.checksums)
        .with_receipt(&outcome.receipt)
}
