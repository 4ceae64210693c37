//! Administration under `/_skerry/`: health, metrics, and the verbs of an operator as JSON.
//!
//! Invariants: only health, and metrics asked of this machine by number from loopback, by no proxy, answer without the token,
//! which is compared in constant time; every JSON answer carries `version`; unknown paths, methods and fields are refused.

mod json;
mod verbs;

use std::sync::{Arc, Mutex, PoisonError};

use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderName, HeaderValue};
use hyper::http::uri::Authority;
use hyper::{Method, Request, Response, StatusCode};
use prometheus_client::registry::Registry;
use ring::hmac;

use self::json::Failure;
use crate::http::body::{Inflow, Outflow, full};
use crate::s3::uri::{Query, decode};
use crate::service::{AdminService, ErrorKind, Readiness, ServiceError, VERSION};

/// The registry of the node's metrics, as the exposition reads it.
pub type SharedRegistry = Arc<Mutex<Registry>>;

/// The administration face.
#[derive(Clone)]
pub struct Administration {
    service: Arc<dyn AdminService>,
    registry: SharedRegistry,
    key: hmac::Key,
    token: hmac::Tag,
}

impl core::fmt::Debug for Administration {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Administration")
    }
}

impl Administration {
    /// Over this service and these metrics; `token` is what an operator bears.
    pub fn new(service: Arc<dyn AdminService>, registry: SharedRegistry, token: &str) -> Self {
        // Tags instead of tokens are compared, because that takes the same time whatever differs.
        let key = hmac::Key::new(hmac::HMAC_SHA256, b"skerry admin token");
        let token = hmac::sign(&key, token.as_bytes());
        Self { service, registry, key, token }
    }

    /// Answers a request below `/_skerry`.
    pub(crate) async fn answer(&self, request: Request<Inflow>, loopback: bool) -> Response<Outflow> {
        let path = decode(request.uri().path(), false).unwrap_or_default();
        let path = path.strip_prefix("/_skerry").unwrap_or(&path).to_owned();
        self.route(&path, request, loopback).await.unwrap_or_else(Failure::response)
    }

    async fn route(
        &self,
        path: &str,
        request: Request<Inflow>,
        loopback: bool,
    ) -> Result<Response<Outflow>, Failure> {
        let reads = matches!(*request.method(), Method::GET | Method::HEAD);
        match path {
            "/health/live" if reads => Ok(text("live\n", "text/plain; charset=utf-8")),
            "/health/ready" if reads => self.ready().await,
            "/metrics" if reads => {
                if !loopback || is_passed_on(&request) || !names_this_machine(&request) {
                    self.check_token(&request)?;
                }
                self.metrics()
            }
            "/health/live" | "/health/ready" | "/metrics" => {
                Err(Failure::method(request.method(), "GET, HEAD"))
            }
            _ => match path.strip_prefix("/v1/") {
                Some(verb) => {
                    self.check_token(&request)?;
                    let query = Query::parse(request.uri().query())?;
                    verbs::run(&*self.service, verb, &query, request).await
                }
                None => Err(Failure::path(path)),
            },
        }
    }

    async fn ready(&self) -> Result<Response<Outflow>, Failure> {
        let readiness = self.service.ready().await;
        let status = if readiness.ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        json::response(status, &readiness)
    }

    fn metrics(&self) -> Result<Response<Outflow>, Failure> {
        let mut exposition = String::new();
        let registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        prometheus_client::encoding::text::encode(&mut exposition, &registry)
            .map_err(|error| Failure::internal(&format!("the metrics could not be written: {error}")))?;
        Ok(text(exposition, "application/openmetrics-text; version=1.0.0; charset=utf-8"))
    }

    fn check_token(&self, request: &Request<Inflow>) -> Result<(), Failure> {
        let header = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let given = header.and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default().trim();
        // Whoever says nothing bears nothing, whatever the token is.
        let is_same = hmac::verify(&self.key, given.as_bytes(), self.token.as_ref()).is_ok();
        (is_same && !given.is_empty()).then_some(()).ok_or_else(Failure::token)
    }
}

/// What is answered at this path below `/_skerry` while the store is being opened: as [`Administration`] does, as far as there is
/// anything to ask.
pub(crate) fn opening(method: &Method, path: &str, told: String) -> Response<Outflow> {
    let reads = matches!(*method, Method::GET | Method::HEAD);
    match path {
        "/health/live" if reads => text("opening\n", "text/plain; charset=utf-8"),
        "/health/ready" if reads => {
            let readiness = Readiness { version: VERSION, ready: false, reason: told };
            json::response(StatusCode::SERVICE_UNAVAILABLE, &readiness).unwrap_or_else(Failure::response)
        }
        _ => Failure::from(ServiceError::new(ErrorKind::Unavailable, told)).response(),
    }
}

/// What a proxy adds to the requests of others: behind one on this machine everybody comes from loopback.
const PASSED_ON: [&str; 3] = ["forwarded", "x-real-ip", "via"];

/// And whatever begins so (`-for`, `-port`, `-prefix`, `-server`, …): which of them a proxy adds is its own affair.
const PASSED_ON_PREFIX: &str = "x-forwarded-";

fn is_passed_on(request: &Request<Inflow>) -> bool {
    let mut names = request.headers().keys().map(HeaderName::as_str);
    names.any(|name| PASSED_ON.contains(&name) || name.starts_with(PASSED_ON_PREFIX))
}

/// Whether the host that the request names is this machine by number, or `localhost`. Any other name may have been made to lead
/// here for the sake of a page in a browser on this machine, which then reads what it was served.
fn names_this_machine(request: &Request<Inflow>) -> bool {
    let header = request.headers().get(HOST).and_then(|value| value.to_str().ok());
    let Some(host) = request.uri().authority().map(Authority::as_str).or(header) else { return true };
    let Ok(authority) = host.parse::<Authority>() else { return false };
    let name = authority.host().trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost") || name.parse::<core::net::IpAddr>().is_ok()
}

fn text(body: impl Into<bytes::Bytes>, kind: &'static str) -> Response<Outflow> {
    let mut response = Response::new(full(body));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

#[cfg(test)]
mod tests;
