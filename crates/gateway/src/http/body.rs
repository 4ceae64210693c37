//! Bodies between the connection and the faces.

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty, Full, StreamBody};
use hyper::body::Frame;

use crate::service::{DownloadBody, ServiceError};

/// A request body; an error says precisely why it ended early.
pub(crate) type Inflow = UnsyncBoxBody<Bytes, ServiceError>;
/// A response body; an error ends the connection.
pub(crate) type Outflow = UnsyncBoxBody<Bytes, ServiceError>;

/// No bytes.
pub(crate) fn empty() -> Outflow {
    Empty::new().map_err(|never: core::convert::Infallible| match never {}).boxed_unsync()
}

/// These bytes.
pub(crate) fn full(bytes: impl Into<Bytes>) -> Outflow {
    Full::new(bytes.into()).map_err(|never: core::convert::Infallible| match never {}).boxed_unsync()
}

/// The bytes of a download.
pub(crate) fn stream(body: DownloadBody) -> Outflow {
    use futures::StreamExt;
    StreamBody::new(body.into_stream().map(|bytes| bytes.map(Frame::data))).boxed_unsync()
}
