//! Copies within the federation: by reference where the payload lies here in the same bucket, else chunk by
//! chunk through this site.
//!
//! Before: the gateway's `copy`. After: `write.rs`. Invariant: the site that a record names as its first holder
//! holds the payload as counted chunks, never as evictable copies.

use std::sync::Arc;

use futures::future::BoxFuture;
use skerry_base::limits::PUT_BYTES;
use skerry_gateway::service::{
    ChecksumKind, CopyObject, CopyOutcome, ErrorKind, Expected, MetadataDirective, Outcome, RequestContext,
    ServiceError, Source, UploadBody,
};
use skerry_model::policy::Action;
use skerry_model::{Object, Record};

use super::bucket::Bucket;
use super::get::{self, Wanted};
use super::ingest::{self, Body};
use super::source::Chunks;
use super::write::{self, Asked, Written};
use super::{lost, put, refusal, scope, shape};
use crate::copies::look::pinned;
use crate::duties::Act;
use crate::peers::message::Part;
use crate::site::Site;

/// Copies an object.
pub(crate) fn copy<'a>(
    site: &'a Arc<Site>,
    context: &'a RequestContext,
    request: CopyObject,
) -> BoxFuture<'a, Outcome<CopyOutcome>> {
    Box::pin(async move {
        let bucket = site.allowed(context, &request.bucket, Action::Write).await?;
        scope::check(site, context, &bucket)?;
        bucket.check_residency(site)?;
        site.duties.check(Act::Write)?;
        let (wanted, record) = source(site, context, &request.source).await?;
        let (info, object) = get::described(&wanted.bucket, &record)?;
        if object.size > PUT_BYTES {
            let message = "the source has more than 5 GiB; copy it in parts";
            return Err(ServiceError::new(ErrorKind::InvalidRequest, message));
        }
        let same = match request.checksum {
            None => by_reference(site, &bucket, &wanted.bucket, &record, object).await?,
            Some(_) => None,
        };
        let (body, mut copied) = match same {
            Some(body) => (body, object.clone()),
            None => through(site, &bucket, &wanted.bucket, &record, object, request.checksum).await?,
        };
        copied.chunks = body.chunks.clone();
        copied.modified = site.clock.wall();
        match request.metadata {
            MetadataDirective::Copy => {
                copied.headers = object.headers.clone();
                copied.user_metadata = object.user_metadata.clone();
            }
            MetadataDirective::Replace { headers, user_metadata } => {
                copied.headers = shape::stored_headers(headers);
                copied.user_metadata = user_metadata;
            }
        }
        let asked = put::asked(site, (&bucket, request.key), context, copied, body);
        let written = write::write(site, Asked { condition: request.condition, ..asked }).await?;
        let modified = match &written {
            Written::Record(record) => record.object().map(|object| object.modified),
            Written::Nothing => None,
        };
        let receipt = scope::reach(site, context, &bucket, &written).await?;
        let put = put::outcome(&bucket, &written, receipt);
        Ok(CopyOutcome { modified: modified.unwrap_or_default(), source_version: info.version, put })
    })
}

/// The version to copy, its conditions checked.
pub(crate) async fn source(
    site: &Arc<Site>,
    context: &RequestContext,
    source: &Source,
) -> Outcome<(Wanted, Box<Record>)> {
    let wanted = get::wanted(site, context, &source.bucket, &source.key, source.version.as_ref()).await?;
    let record = get::find(site, context, &wanted, Part::Nothing).await.map_err(|error| {
        let named_marker = error.kind() == ErrorKind::MethodNotAllowed;
        let message = "the source is a delete marker; name a version with a body";
        if named_marker { ServiceError::new(ErrorKind::InvalidRequest, message) } else { error }
    })?;
    let record = lost::itself(site, &wanted, record).await?;
    if let Some(object) = record.object() {
        source.conditions.check_source(&object.etag, object.modified)?;
    }
    Ok((wanted, record))
}

/// The same chunks once more, if they count here already.
async fn by_reference(
    site: &Site,
    bucket: &Bucket,
    from: &Bucket,
    record: &Record,
    object: &Object,
) -> Outcome<Option<Body>> {
    if bucket.id != from.id || record.site != site.id {
        return Ok(None);
    }
    let (store, id, object) = (site.store.clone(), bucket.id, object.clone());
    let counted = move || {
        // A cached copy may go at any time, and may not be durable.
        let pins = pinned(&store, id, &object)?;
        Some(Body { size: object.size, chunks: object.chunks, small: None, pins })
    };
    // A pin waits for who writes or collects the chunk, and a large body is thousands of look-ups.
    tokio::task::spawn_blocking(counted).await.map_err(refusal::task)
}

/// The same object once more, as a version of its own.
pub(crate) async fn again(
    site: &Arc<Site>,
    bucket: &Bucket,
    record: &Record,
    object: &Object,
) -> Outcome<(Body, Object)> {
    let (body, mut copied) = match by_reference(site, bucket, bucket, record, object).await? {
        Some(body) => (body, object.clone()),
        None => through(site, bucket, bucket, record, object, None).await?,
    };
    copied.chunks.clone_from(&body.chunks);
    copied.modified = site.clock.wall();
    copied.headers = object.headers.clone();
    copied.user_metadata = object.user_metadata.clone();
    Ok((body, copied))
}

async fn through(
    site: &Arc<Site>,
    bucket: &Bucket,
    from: &Bucket,
    record: &Record,
    object: &Object,
    checksum: Option<ChecksumKind>,
) -> Outcome<(Body, Object)> {
    let chunks = Chunks::new(site, from, record.site);
    let stream = chunks.stream(object.chunks.clone(), 0..object.size);
    let mut upload = UploadBody::new(stream, Expected { length: Some(object.size), ..Expected::default() });
    if let Some(kind) = checksum {
        upload.also(kind);
    }
    let (body, digests) = ingest::ingest(site, bucket.id, upload).await?;
    let wanted_kind = |sum: &&skerry_gateway::service::Checksum| match checksum {
        Some(kind) => sum.kind == kind,
        None => false,
    };
    let computed: Vec<_> = digests.checksums.iter().filter(wanted_kind).cloned().collect();
    let checksums =
        if computed.is_empty() { object.checksums.clone() } else { shape::stored_checksums(&computed) };
    let copied = Object {
        size: object.size,
        etag: object.etag.clone(),
        checksums,
        part_count: object.part_count,
        parts: object.parts.clone(),
        tags: object.tags.clone(),
        ..Object::default()
    };
    Ok((body, copied))
}
