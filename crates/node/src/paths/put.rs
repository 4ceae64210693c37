//! PUT of an object: body to chunks, digests checked, one proposal.
//!
//! Before: the gateway's `put`. After: `ingest.rs`, then `write.rs`.

use std::sync::Arc;

use futures::future::BoxFuture;
use skerry_gateway::service::{Outcome, PutObject, PutOutcome, Receipt, RequestContext};
use skerry_model::Object;
use skerry_model::policy::Action;
use skerry_model::write::Ask;

use super::bucket::Bucket;
use super::ingest::{self, Body};
use super::write::{self, Asked, Written};
use super::{forward, scope, shape};
use crate::duties::Act;
use crate::site::Site;

/// Stores an object.
pub(crate) fn put<'a>(
    site: &'a Arc<Site>,
    context: &'a RequestContext,
    request: PutObject,
) -> BoxFuture<'a, Outcome<PutOutcome>> {
    Box::pin(async move {
        let bucket = site.allowed(context, &request.bucket, Action::Write).await?;
        scope::check(site, context, &bucket)?;
        if site.duties.is_frozen() {
            site.duties.check(Act::Write)?;
        }
        if let Some(why) = forward::reason(site, &bucket, request.body.announced()) {
            return forward::put(site, context, &bucket, request, why).await;
        }
        let (body, digests) = ingest::ingest(site, bucket.id, request.body).await?;
        let object = Object {
            size: body.size,
            etag: digests.etag(),
            chunks: body.chunks.clone(),
            headers: shape::stored_headers(request.headers),
            user_metadata: request.user_metadata,
            checksums: shape::stored_checksums(&digests.checksums),
            modified: site.clock.wall(),
            ..Object::default()
        };
        let asked = asked(site, (&bucket, request.key), context, object, body);
        let written = write::write(site, Asked { condition: request.condition, ..asked }).await?;
        let receipt = scope::reach(site, context, &bucket, &written).await?;
        Ok(outcome(&bucket, &written, receipt))
    })
}

/// A plain write of an object whose body is written.
pub(crate) fn asked(
    site: &Site,
    (bucket, key): (&Bucket, String),
    context: &RequestContext,
    object: Object,
    body: Body,
) -> Asked {
    Asked {
        bucket: bucket.clone(),
        key,
        condition: skerry_gateway::service::WriteCondition::default(),
        ask: Ask::Put(Box::new(object)),
        writer: context.principal.access_key.clone(),
        scope: scope::recorded(site, context, bucket),
        small: body.small,
        pins: body.pins,
        with: Vec::new(),
        upload: None,
    }
}

/// What a write of an object answers.
pub(crate) fn outcome(bucket: &Bucket, written: &Written, receipt: Receipt) -> PutOutcome {
    let Written::Record(record) = written else { return PutOutcome { receipt, ..PutOutcome::default() } };
    let object = record.object();
    PutOutcome {
        etag: object.map(|object| object.etag.clone()).unwrap_or_default(),
        version: write::answered_version(bucket, record),
        size: object.map_or(0, |object| object.size),
        checksums: object.map(|object| shape::shown_checksums(&object.checksums)).unwrap_or_default(),
        receipt,
    }
}
