//! What stands behind a listener: S3, administration, or both; told apart by path.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hyper::body::{Body, Incoming};
use hyper::header::{CONNECTION, CONTENT_LENGTH, EXPECT, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, StatusCode, Version};
use ring::rand::{SecureRandom, SystemRandom};
use tracing::Instrument;

use super::Limits;
use super::body::{Inflow, Outflow};
use super::flight::{Activity, Flight};
use super::leftover::{Leftover, lend};
use super::opening::Opening;
use super::stream::PacedBody;
use super::whole::{Abandoned, Unanswered, only_reads};
use super::windows::Place;
use crate::admin::Administration;
use crate::s3::{Front, Later, Scheme, Served, host};
use crate::service::{Bound, ErrorKind, Reason, ServiceError};
use crate::telemetry::Telemetry;

/// Who speaks, and how.
#[derive(Debug, Clone)]
pub(super) struct Peer {
    pub(super) address: SocketAddr,
    pub(super) scheme: Scheme,
    pub(super) activity: Arc<Activity>,
}

/// What stands behind a listener.
#[derive(Debug)]
pub struct Faces {
    s3: Option<Front>,
    administration: Option<Administration>,
    /// Instead of both: there is nothing to ask yet.
    opening: Option<Opening>,
    telemetry: Telemetry,
    /// Requests whose clients are gone.
    abandoned: Abandoned,
    /// Makes the ids of this process differ from those of others.
    seed: u64,
    next: AtomicU64,
}

/// The answer to a HEAD: over HTTP/1.1 hyper leaves the body out by itself, over HTTP/2 it would send it.
fn without_body(response: Response<Outflow>) -> Response<Outflow> {
    let (mut head, body) = response.into_parts();
    if let Some(length) = body.size_hint().exact() {
        head.headers.entry(CONTENT_LENGTH).or_insert_with(|| length.into());
    }
    Response::from_parts(head, super::body::empty())
}

impl Faces {
    /// S3 at `/` and administration under `/_skerry/`, where given.
    pub fn new(s3: Option<Front>, administration: Option<Administration>, telemetry: Telemetry) -> Self {
        let mut seed = [0; 8];
        // Without randomness ids repeat after a restart, which harms nobody but a reader of logs.
        let _ = SystemRandom::new().fill(&mut seed);
        let (abandoned, next) = (Abandoned::default(), AtomicU64::new(0));
        let seed = u64::from_le_bytes(seed);
        Self { s3, administration, opening: None, telemetry, abandoned, seed, next }
    }

    /// What its requests share, whatever connection they come over.
    pub fn bounds(&self) -> Vec<Bound> {
        let of_s3 = self.s3.iter().flat_map(Front::bounds);
        of_s3.chain([self.abandoned.bound()]).collect()
    }

    /// As long as the store is being opened: everybody is told so, and nobody is kept waiting.
    pub fn opening(told: Opening, telemetry: Telemetry) -> Self {
        Self { opening: Some(told), ..Self::new(None, None, telemetry) }
    }

    /// 16 digits that no other request of ours has.
    fn request_id(&self) -> String {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        // An odd factor makes neighbours look different and keeps all numbers apart.
        format!("{:016X}", number.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(self.seed))
    }

    /// Answers one request of a connection.
    pub(super) async fn answer(
        self: Arc<Self>,
        request: Request<Incoming>,
        (peer, place): (Peer, Option<Place>),
        limits: Limits,
    ) -> Response<Outflow> {
        let flight = Flight::begin(Arc::clone(&peer.activity), self.telemetry.clone(), request.version());
        let id = self.request_id();
        let method = request.method().clone();
        let span = tracing::info_span!("request", id, %method, path = request.uri().path());
        let response = match &place {
            Some(_) => self.route(request, &peer, &id, &limits).instrument(span.clone()).await,
            None => self.refuse(&too_many(), request.uri().path(), &id),
        };
        let response = if method == Method::HEAD { without_body(response) } else { response };
        let operation = response.extensions().get::<Served>().map(|served| served.0);
        let status = response.status().as_u16();
        if let Some(Later(reason)) = response.extensions().get::<Later>() {
            self.telemetry.refused(*reason);
        }
        span.in_scope(|| {
            tracing::debug!(operation = operation.unwrap_or("Administration"), status, "answered")
        });
        response.map(|body| flight.answer(operation, status, body, place))
    }

    /// Refuses what was not begun, or did not end.
    fn refuse(&self, error: &ServiceError, path: &str, id: &str) -> Response<Outflow> {
        match &self.s3 {
            Some(s3) => s3.refuse(error, path, id),
            None => {
                let mut response = Response::new(super::body::empty());
                *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
                if let Some(reason) = error.later() {
                    response.extensions_mut().insert(Later(reason));
                }
                response
            }
        }
    }

    async fn route(
        self: &Arc<Self>,
        request: Request<Incoming>,
        peer: &Peer,
        id: &str,
        limits: &Limits,
    ) -> Response<Outflow> {
        let (mut parts, body) = request.into_parts();
        if head_bytes(&parts) > limits.head_bytes {
            peer.activity.linger();
            return too_large();
        }
        let leftover = Arc::new(Leftover::default());
        let lent = lend(PacedBody::new(body, limits), Arc::clone(&leftover));
        parts.extensions.insert(peer.scheme);
        let expects = expects(&parts);
        let request = Request::from_parts(parts, lent);
        let mut response = match only_reads(request.method()) {
            true => Box::pin(self.choose(request, peer.address, id)).await,
            false => self.change(request, peer.address, id).await,
        };
        // A client that expects to be told to go on, and is not, may have sent its body or not: what comes
        // next on this connection is unknown (and botocore misreads it).
        let untold = expects && !leftover.asked();
        if untold || !leftover.drain().await {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            peer.activity.linger();
        }
        response
    }

    /// What changes something goes on to its end, whoever waits for it.
    async fn change(
        self: &Arc<Self>,
        request: Request<Inflow>,
        peer: SocketAddr,
        id: &str,
    ) -> Response<Outflow> {
        let (faces, task_id) = (Arc::clone(self), id.to_owned());
        let path = request.uri().path().to_owned();
        let work = Box::pin(async move { faces.choose(request, peer, &task_id).await });
        self.abandoned.run(work).await.unwrap_or_else(|why| self.refuse(&said(why), &path, id))
    }

    async fn choose(&self, request: Request<Inflow>, peer: SocketAddr, id: &str) -> Response<Outflow> {
        if let Some(opening) = &self.opening {
            return opening.answer(request.method(), request.uri().path(), id);
        }
        let (parts, body) = request.into_parts();
        let is_admin = self.s3.as_ref().is_none_or(|s3| is_admin(s3, &parts));
        let request = Request::from_parts(parts, body);
        match (&self.administration, &self.s3) {
            (Some(administration), _) if is_admin => {
                administration.answer(request, peer.ip().is_loopback()).await
            }
            (_, Some(s3)) => s3.answer(request, id).await,
            (_, None) => {
                let mut response = Response::new(super::body::empty());
                *response.status_mut() = StatusCode::NOT_FOUND;
                response
            }
        }
    }
}

fn too_many() -> ServiceError {
    let message = "this connection has other requests in flight, and all connections together too many: ask one after the other";
    ServiceError::full(Reason::Requests, message)
}

fn said(why: Unanswered) -> ServiceError {
    match why {
        Unanswered::Refused => ServiceError::full(
            Reason::Abandoned,
            "too many requests whose clients have left are still being carried out",
        ),
        Unanswered::Failed => {
            ServiceError::new(ErrorKind::Internal, "a task of the server failed; see its log")
        }
    }
}

/// Bytes of the head of a request, but for what is the same in all of them.
fn head_bytes(parts: &Parts) -> usize {
    let host = parts.uri.authority().map_or(0, |host| host.as_str().len());
    let target = parts.uri.path_and_query().map_or(0, |target| target.as_str().len());
    let first = parts.method.as_str().len() + host + target;
    let line =
        |(name, value): (&HeaderName, &HeaderValue)| name.as_str().len() + value.len() + ": \r\n".len();
    parts.headers.iter().map(line).sum::<usize>() + first
}

/// As hyper says it of a head that is larger than what is read at once.
fn too_large() -> Response<Outflow> {
    let mut response = Response::new(super::body::empty());
    *response.status_mut() = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

/// Whether it is HTTP/1 and waits for `100 Continue`.
fn expects(parts: &Parts) -> bool {
    let expect =
        parts.headers.get(EXPECT).is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"100-continue"));
    expect && parts.version < Version::HTTP_2
}

fn is_admin(s3: &Front, parts: &Parts) -> bool {
    // Nearly all paths are S3's, and then nothing need be decoded twice.
    let path = parts.uri.path();
    (path.starts_with("/_skerry") || path.contains('%'))
        && s3.address(host(parts), path).is_ok_and(|address| address.is_admin())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes of what a function of these arguments is while it is answered.
    const fn held<F, A, B, C, D, Answer>(_: &F) -> usize
    where
        F: Fn(A, B, C, D) -> Answer,
    {
        size_of::<Answer>()
    }

    #[test]
    fn a_request_is_moved_in_few_bytes_while_it_is_answered() {
        // Whatever lies in a future lies in the one that waits for it, and is copied whenever that is moved: 14 KiB here, five times
        // for each request, were a third of the instructions of a HEAD.
        let held = held(&Faces::answer);
        assert!(held <= 4 << 10, "{held}");
    }
}
