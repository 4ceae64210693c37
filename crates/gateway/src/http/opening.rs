//! What is answered while the store is being opened, which takes half an hour where an index is rebuilt on a slow card.
//!
//! Before: the listeners, which are bound first. After: the faces of the site. Why: without it a client hangs in the kernel's queue,
//! and nobody can tell a site that rebuilds from one that is stuck. Invariants: nothing of the site is read or changed, whoever asks;
//! what is told is what the log says; the process lives, so that nobody ends it for being slow, and serves nothing, so that nobody
//! is sent here.

use std::sync::Arc;

use hyper::header::{CONNECTION, HeaderValue};
use hyper::{Method, Response};

use super::body::Outflow;
use crate::admin;
use crate::s3;
use crate::service::{ErrorKind, ServiceError};

/// When a client may ask again, in seconds.
const AGAIN: &str = "10";

/// Says how far the opening is.
#[derive(Clone)]
pub struct Opening(Arc<dyn Fn() -> String + Send + Sync>);

impl core::fmt::Debug for Opening {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Opening")
    }
}

impl Opening {
    /// In these words.
    pub fn new(told: impl Fn() -> String + Send + Sync + 'static) -> Self {
        Self(Arc::new(told))
    }

    /// On a connection that ends with it: there are few, and whoever comes next wants to know as well.
    pub(super) fn answer(&self, method: &Method, path: &str, id: &str) -> Response<Outflow> {
        let mut answer = self.words(method, path, id);
        answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        answer
    }

    fn words(&self, method: &Method, path: &str, id: &str) -> Response<Outflow> {
        let told = (self.0)();
        if let Some(path) = path.strip_prefix("/_skerry") {
            return admin::opening(method, path, told);
        }
        let error = ServiceError::new(ErrorKind::Unavailable, told).with_header("retry-after", AGAIN);
        s3::refused(&error, path, id, *method == Method::HEAD)
    }
}
