//! JSON in and out.

use bytes::BytesMut;
use http_body_util::BodyExt;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE};
use hyper::{Method, Request, Response, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::http::body::{Inflow, Outflow, full};
use crate::s3::Later;
use crate::service::{ErrorKind, Reason, ServiceError, VERSION};

/// Bytes of a request.
const REQUEST_BYTES: usize = 64 << 10;

/// A refusal: status, error, message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failure {
    status: StatusCode,
    error: &'static str,
    message: String,
    /// The methods that the path takes, where it does not take this one.
    allowed: Option<&'static str>,
    /// Why its client is to come back later, if it is.
    later: Option<Reason>,
}

impl Failure {
    fn new(status: StatusCode, error: &'static str, message: impl Into<String>) -> Self {
        Self { status, error, message: message.into(), allowed: None, later: None }
    }

    pub(super) fn token() -> Self {
        let message = "send the admin token of this site: Authorization: Bearer …";
        Self::new(StatusCode::UNAUTHORIZED, "Unauthorized", message)
    }

    pub(super) fn path(path: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, "NotFound", format!("there is nothing at /_skerry{path}"))
    }

    /// `allowed` are the methods that the path takes.
    pub(super) fn method(method: &Method, allowed: &'static str) -> Self {
        let message = format!("{method} is not allowed here, but {allowed}");
        let refusal = Self::new(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message);
        Self { allowed: Some(allowed), ..refusal }
    }

    pub(super) fn internal(message: &str) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", message)
    }

    fn argument(message: String) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "InvalidArgument", message)
    }

    pub(super) fn response(self) -> Response<Outflow> {
        let body = json!({ "version": VERSION, "error": self.error, "message": self.message });
        let mut response = of_text(self.status, body.to_string());
        if let Some(allowed) = self.allowed {
            response.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
        }
        if let Some(reason) = self.later {
            response.extensions_mut().insert(Later(reason));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

impl From<ServiceError> for Failure {
    fn from(error: ServiceError) -> Self {
        let status = StatusCode::from_u16(error.kind().status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        if error.kind() == ErrorKind::Internal {
            tracing::error!(%error, "an act of administration failed through our own fault");
        }
        Self { later: error.later(), ..Self::new(status, error.kind().code(), error.message()) }
    }
}

fn of_text(status: StatusCode, text: String) -> Response<Outflow> {
    let mut response = Response::new(full(text));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// A value as an answer.
pub(super) fn response(status: StatusCode, value: &impl Serialize) -> Result<Response<Outflow>, Failure> {
    serde_json::to_string(value)
        .map(|text| of_text(status, text + "\n"))
        .map_err(|error| Failure::internal(&format!("the answer could not be written as JSON: {error}")))
}

/// The body of a request; an empty one is `{}`.
pub(super) async fn request<T: DeserializeOwned>(request: Request<Inflow>) -> Result<T, Failure> {
    let mut body = request.into_body();
    let mut bytes = BytesMut::new();
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame?.into_data() {
            bytes.extend_from_slice(&data);
        }
        if bytes.len() > REQUEST_BYTES {
            return Err(Failure::argument(format!("a request has at most {REQUEST_BYTES} bytes")));
        }
    }
    let text: &[u8] = if bytes.is_empty() { b"{}" } else { &bytes };
    serde_json::from_slice(text).map_err(|error| Failure::argument(format!("not the JSON expected: {error}")))
}
