//! The S3 face: from an HTTP request to a service and back.
//!
//! Hops: `http::serve` → [`Front::answer`] → `address` (bucket and key) → `sigv4` (who signed it) →
//! `operation` (what it asks, and that it asks nothing else) → `intake` (its body) → one file per operation →
//! the service → `reply`.
//!
//! Invariants: nothing is done for a request whose signature was not verified; everything a request carries
//! that we do not carry out is refused by name; every refusal is S3's error document with a request id.

mod abort_multipart_upload;
mod address;
mod complete_multipart_upload;
mod copy_object;
mod create_bucket;
mod create_multipart_upload;
mod delete_bucket;
mod delete_object;
mod delete_objects;
mod documents;
mod get_bucket_location;
mod get_bucket_versioning;
mod get_object;
mod get_object_attributes;
mod get_object_tagging;
mod head_bucket;
mod head_object;
mod headers;
mod intake;
mod list_buckets;
mod list_multipart_uploads;
mod list_object_versions;
mod list_objects;
mod list_objects_v2;
mod list_parts;
pub(crate) mod operation;
mod put_bucket_versioning;
mod put_object;
mod references;
mod reply;
pub mod sign;
pub(crate) mod sigv4;
mod unset;
mod upload_part;
mod upload_part_copy;
pub(crate) mod uri;

use std::sync::Arc;

use bytes::Bytes;
use hyper::header::HOST;
use hyper::http::request::Parts;
use hyper::{HeaderMap, Method, Request, Response};

pub(crate) use self::address::Address;
pub use self::address::check_bucket;
pub use self::intake::Documents;
use self::intake::{Intake, Place};
use self::operation::{Operation, route, take_hoisted, unsigned};
use self::reply::Reply;
use self::sigv4::{Canonical, ChunkKeys, Claim, SigningKeys};
pub use self::sigv4::{ClockReading, ClockRule};
use self::uri::Query;
use crate::http::body::{Inflow, Outflow};
use crate::http::slow::{self, Slow};
use crate::service::{
    Bound, ErrorKind, Outcome, Places, Principal, ReadMode, Reason, RequestContext, ServiceError, Services,
    UploadBody, VersionId,
};

/// Bytes of a request document: 10,000 parts with a SHA-256 each fit.
const DOCUMENT_BYTES: usize = 2 << 20;

/// How the S3 face behaves.
#[derive(Clone)]
pub struct Settings {
    /// Base domains of virtual-host names, such as `s3.island.example`.
    pub domains: Vec<String>,
    /// The only region that may sign; any, if absent.
    pub region: Option<String>,
    /// What to do while the clock is not trusted.
    pub clock_rule: ClockRule,
    /// The node's wall clock.
    pub clock: Arc<dyn Fn() -> ClockReading + Send + Sync>,
    /// What `x-amz-id-2` says: the site's name.
    pub host_id: String,
    /// Memory for what requests say in documents.
    pub documents: Documents,
}

impl core::fmt::Debug for Settings {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Settings")
            .field("domains", &self.domains)
            .field("region", &self.region)
            .finish_non_exhaustive()
    }
}

/// The name of the operation, left in the answer for whoever measures.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Served(pub(crate) &'static str);

/// Why the client is to come back later, left in the response for the one who measures.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Later(pub(crate) Reason);

/// How the client speaks to us, left in the request by the listener.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scheme(pub(crate) &'static str);

/// The S3 face.
#[derive(Debug, Clone)]
pub struct Front {
    services: Services,
    settings: Settings,
    signing_keys: Arc<SigningKeys>,
    slow: Slow,
}

/// A request whose signature was verified, as an operation sees it.
pub(super) struct Call {
    context: RequestContext,
    bucket: String,
    key: String,
    query: Query,
    headers: HeaderMap,
    /// The body of an operation that streams.
    upload: Option<UploadBody>,
    /// The document of one that does not.
    document: Bytes,
    /// Its room: given back when the work ends, be it after its client has gone.
    _place: Option<Place>,
    /// The address of the object as the client wrote it.
    location: String,
    /// The only region that may sign, if there is one.
    region: Option<String>,
}

/// A refusal by who has no front yet, as S3 says it.
pub(crate) fn refused(
    error: &ServiceError,
    path: &str,
    request_id: &str,
    is_head: bool,
) -> Response<Outflow> {
    let resource = uri::decode(path, false).unwrap_or_default();
    Reply::error(error, &resource, [request_id, ""], is_head).finish(request_id, "")
}

impl Front {
    /// Over these services.
    pub fn new(services: Services, settings: Settings) -> Self {
        Self { services, settings, signing_keys: Arc::default(), slow: Slow::default() }
    }

    /// What it shares among all requests.
    pub(crate) fn bounds(&self) -> [Bound; 2] {
        [self.settings.documents.bound(), self.slow.bound()]
    }

    /// Where the request goes: read before anything else, to tell our own paths from S3's.
    pub(crate) fn address(&self, host: &str, raw_path: &str) -> Outcome<Address> {
        Address::read(host, raw_path, &self.settings.domains)
    }

    /// Answers a request, whatever it is.
    pub(crate) async fn answer(&self, request: Request<Inflow>, request_id: &str) -> Response<Outflow> {
        let (mut parts, body) = request.into_parts();
        let mut operation = "Unknown";
        let reply = self.serve(&mut parts, body, request_id, &mut operation).await;
        let mut later = None;
        let reply = reply.unwrap_or_else(|error| {
            later = error.later();
            if error.kind() == ErrorKind::Internal {
                tracing::error!(%error, request_id, "a request failed through our own fault");
            } else {
                tracing::debug!(%error, request_id, "refused");
            }
            self.refusal(&error, parts.uri.path(), request_id, parts.method == Method::HEAD)
        });
        let mut response = reply.finish(request_id, &self.settings.host_id);
        response.extensions_mut().insert(Served(operation));
        if let Some(reason) = later {
            response.extensions_mut().insert(Later(reason));
        }
        response
    }

    fn refusal(&self, error: &ServiceError, path: &str, request_id: &str, is_head: bool) -> Reply {
        let resource = uri::decode(path, false).unwrap_or_default();
        Reply::error(error, &resource, [request_id, &self.settings.host_id], is_head)
    }

    /// Refuses a request that was not begun, or did not end.
    pub(crate) fn refuse(&self, error: &ServiceError, path: &str, request_id: &str) -> Response<Outflow> {
        let reply = self.refusal(error, path, request_id, false);
        let mut response = reply.finish(request_id, &self.settings.host_id);
        response.extensions_mut().insert(Served("Unknown"));
        if let Some(reason) = error.later() {
            response.extensions_mut().insert(Later(reason));
        }
        response
    }

    async fn serve(
        &self,
        parts: &mut Parts,
        body: Inflow,
        request_id: &str,
        operation: &mut &'static str,
    ) -> Outcome<Reply> {
        let host = host(parts).to_owned();
        let address = self.address(&host, parts.uri.path())?;
        let query = Query::parse(parts.uri.query())?;
        let (claim, principal, keys) = self.authenticate(parts, &host, &address, &query).await?;
        if claim.expires.is_some() {
            take_hoisted(&query, &mut parts.headers)?;
        }
        let (level, bucket, key) = address.target()?;
        let row = route(&parts.method, level, &query, &parts.headers)?;
        *operation = row.operation.name();
        let context = RequestContext {
            principal,
            read: read_mode(&parts.headers)?,
            scope: headers::text(&parts.headers, "x-skerry-scope")?,
        };
        let places = parts.extensions.get::<Places>().cloned();
        let intake = Intake { payload: claim.payload, keys, headers: &parts.headers, body, places };
        let (upload, (document, _place)) = if row.streams {
            (Some(intake.upload()?), (Bytes::new(), None))
        } else {
            let summed = row.operation != Operation::CompleteMultipartUpload;
            (None, intake.document(DOCUMENT_BYTES, summed, &self.settings.documents).await?)
        };
        let scheme = parts.extensions.get::<Scheme>().map_or("http", |scheme| scheme.0);
        let location = format!("{scheme}://{host}{}", parts.uri.path());
        let headers = core::mem::take(&mut parts.headers);
        let region = self.settings.region.clone();
        let call = Call { context, bucket, key, query, headers, upload, document, _place, location, region };
        if !row.operation.may_take_long() {
            return Box::pin(dispatch(row.operation, &self.services, call)).await;
        }
        let (services, operation) = (self.services.clone(), row.operation);
        let work = Box::pin(async move { dispatch(operation, &services, call).await });
        self.patiently(work, parts.uri.path(), request_id).await
    }

    /// Answers what may take longer than clients are patient: after a while by a status that says nothing yet, by spaces, and by
    /// the document that says how it went.
    async fn patiently(
        &self,
        work: impl Future<Output = Outcome<Reply>> + Send + 'static,
        path: &str,
        request_id: &str,
    ) -> Outcome<Reply> {
        let lost = || ServiceError::new(ErrorKind::Internal, "a task of the server failed; see its log");
        let going = match self.slow.run(work).await {
            slow::Outcome::Done(done) => return done.unwrap_or_else(|| Err(lost())),
            slow::Outcome::Refused => {
                let message =
                    "too many copies and completions of uploads are under way here; try again in a while";
                return Err(ServiceError::full(Reason::Long, message));
            }
            slow::Outcome::Going(going) => going,
        };
        let (front, path, id) = (self.clone(), path.to_owned(), request_id.to_owned());
        let last = move |outcome: Option<Outcome<Reply>>| {
            let reply = outcome.unwrap_or_else(|| Err(lost())).unwrap_or_else(|error| {
                tracing::warn!(%error, request_id = id, "refused after its answer had begun");
                front.refusal(&error, &path, &id, false)
            });
            reply.rest_of_document()
        };
        Ok(Reply::begun(|declaration| going.body(declaration, last)))
    }

    /// Who signed the request, proven.
    async fn authenticate(
        &self,
        parts: &Parts,
        host: &str,
        address: &Address,
        query: &Query,
    ) -> Outcome<(Claim, Principal, ChunkKeys)> {
        let Some(claim) = Claim::read(&parts.headers, query)? else {
            return Err(unsigned(&parts.method, &parts.headers));
        };
        claim.check_region(self.settings.region.as_deref())?;
        claim.check_signed(&parts.headers)?;
        self.settings.clock_rule.check((self.settings.clock)(), claim.time, claim.expires)?;
        let credential = self.services.credentials.credential(&claim.access_key).await?;
        let canonical = Canonical {
            method: parts.method.as_str(),
            path: &address.path,
            query,
            headers: &parts.headers,
            host,
            signed: &[],
            payload: "",
        };
        let keys = claim.verify(&credential.secret, canonical, parts.uri.path(), &self.signing_keys)?;
        Ok((claim, credential.principal, keys))
    }
}

/// The host that a request names: a header, or `:authority` in HTTP/2.
pub(crate) fn host(parts: &Parts) -> &str {
    let header = parts.headers.get(HOST).and_then(|value| value.to_str().ok());
    let authority = parts.uri.authority().map(hyper::http::uri::Authority::as_str);
    header.or(authority).unwrap_or_default()
}

fn read_mode(headers: &HeaderMap) -> Outcome<ReadMode> {
    if let Some(token) = headers::text(headers, "x-skerry-token")? {
        return Ok(ReadMode::After(token));
    }
    match headers::text(headers, "x-skerry-read")?.as_deref() {
        None | Some("local") => Ok(ReadMode::Local),
        Some("latest") => Ok(ReadMode::Latest),
        Some(_) => Err(headers::argument("x-skerry-read", "is neither local nor latest")),
    }
}

async fn dispatch(operation: Operation, services: &Services, call: Call) -> Outcome<Reply> {
    match operation {
        Operation::ListBuckets => list_buckets::run(services, call).await,
        Operation::CreateBucket => create_bucket::run(services, call).await,
        Operation::HeadBucket => head_bucket::run(services, call).await,
        Operation::DeleteBucket => delete_bucket::run(services, call).await,
        Operation::GetBucketLocation => get_bucket_location::run(services, call).await,
        Operation::GetBucketVersioning => get_bucket_versioning::run(services, call).await,
        Operation::PutBucketVersioning => put_bucket_versioning::run(services, call).await,
        Operation::ListObjects => list_objects::run(services, call).await,
        Operation::ListObjectsV2 => list_objects_v2::run(services, call).await,
        Operation::ListObjectVersions => list_object_versions::run(services, call).await,
        Operation::ListMultipartUploads => list_multipart_uploads::run(services, call).await,
        Operation::DeleteObjects => delete_objects::run(services, call).await,
        Operation::GetObject => get_object::run(services, call).await,
        Operation::HeadObject => head_object::run(services, call).await,
        Operation::PutObject => put_object::run(services, call).await,
        Operation::CopyObject => copy_object::run(services, call).await,
        Operation::DeleteObject => delete_object::run(services, call).await,
        Operation::GetObjectTagging => get_object_tagging::run(services, call).await,
        Operation::CreateMultipartUpload => create_multipart_upload::run(services, call).await,
        Operation::UploadPart => upload_part::run(services, call).await,
        Operation::UploadPartCopy => upload_part_copy::run(services, call).await,
        Operation::CompleteMultipartUpload => complete_multipart_upload::run(services, call).await,
        Operation::AbortMultipartUpload => abort_multipart_upload::run(services, call).await,
        Operation::ListParts => list_parts::run(services, call).await,
        Operation::GetObjectAttributes => get_object_attributes::run(services, call).await,
        setting => unset::run(setting, services, call).await,
    }
}

/// The name of a version.
fn version_id(text: &str) -> Outcome<VersionId> {
    match text {
        "" => Err(ServiceError::new(ErrorKind::InvalidArgument, "Version id cannot be the empty string")),
        text => Ok(VersionId(text.into())),
    }
}

/// Where a client looks for the region that it is to sign for.
pub(crate) const REGION: &str = "x-amz-bucket-region";
/// What a client that names no region signs for.
const FIRST_REGION: &str = "us-east-1";

impl Call {
    /// The region of a bucket: a client signs for what it is told. Where only one may sign it is that one, else what the bucket's
    /// creator called it.
    fn region_of(&self, location: Option<String>) -> String {
        self.region.clone().or(location).unwrap_or_else(|| FIRST_REGION.into())
    }

    /// The version that the query names. One that is there and empty comes of a script whose variable is: without it the
    /// current version would be meant.
    fn version(&self) -> Outcome<Option<VersionId>> {
        self.query.get("versionId").map(version_id).transpose()
    }

    /// The upload that the query names.
    fn upload_target(&self) -> crate::service::UploadTarget {
        let upload = self.query.text("uploadId").unwrap_or_default();
        crate::service::UploadTarget { bucket: self.bucket.clone(), key: self.key.clone(), upload }
    }

    /// The part number that the query names, 1 to 10,000.
    fn part_number(&self) -> Outcome<Option<u32>> {
        let Some(text) = self.query.get("partNumber") else { return Ok(None) };
        let number = text.parse().ok().filter(|number| (1..=skerry_base::limits::PARTS).contains(number));
        number.map(Some).ok_or_else(|| {
            ServiceError::new(
                ErrorKind::InvalidArgument,
                "Part number must be an integer between 1 and 10000, inclusive",
            )
        })
    }

    /// The part number of a request that must have one.
    fn required_part(&self) -> Outcome<u32> {
        let missing = || ServiceError::new(ErrorKind::InvalidArgument, "partNumber is missing");
        self.part_number()?.ok_or_else(missing)
    }

    /// The body of an operation that streams.
    fn take_upload(&mut self) -> Outcome<UploadBody> {
        self.upload
            .take()
            .ok_or_else(|| ServiceError::new(ErrorKind::Internal, "the body of the request was not attached"))
    }
}

#[cfg(test)]
mod tests;
