//! What concerns an upload of another site goes there: its id names the site.
//!
//! Before: `upload.rs`. After: `peers`, answered in `answer.rs` over there. Invariants: a part's payload is
//! written here first and fetched from here, so that a slow link never holds the client's body in memory; what was asked for
//! and not answered is told as that, and never as nothing; an object that is made replaces what this site knew of its key.

use std::sync::Arc;

use skerry_gateway::service::{
    ChecksumKind, ChecksumShape, CompleteUpload, CompletedPart, ErrorKind, Outcome, PutOutcome,
    RequestContext, ServiceError, UploadTarget,
};
use skerry_model::Record;
use skerry_model::multipart::{Part, Upload};

use super::ingest::Body;
use super::upload::Target;
use super::write::Written;
use super::{forward, put, refusal, seen, write};
use crate::peers::message::{ClaimedPart, Complete, Completion, Request, Response, UploadAct, UploadCall};
use crate::site::Site;

/// Asks the site of an upload.
pub(crate) async fn act(
    site: &Arc<Site>,
    context: &RequestContext,
    target: &Target,
    act: UploadAct,
) -> Outcome<Response> {
    let home = target.id.site;
    if site.peers.roster.node(home).is_none() {
        return Err(ServiceError::no_such_upload(&target.id.to_string()));
    }
    let doubt = doubt(&act);
    let call = UploadCall {
        bucket: target.bucket.id,
        key: target.key.clone(),
        upload: target.id.to_string(),
        writer: context.principal.access_key.clone(),
        act,
    };
    match site.peers.call(home, &Request::Upload(call)).await.map(|answer| answer.response) {
        Ok(Response::Refused { code, message }) => Err(refusal::relayed(&code, message)),
        Ok(response) => Ok(response),
        Err(error) => {
            let name = site.peers.roster.name(home);
            Err(refusal::unreachable(match doubt.filter(|_| !error.is_unsent()) {
                Some(doubt) => {
                    format!(
                        "the upload lives at {name}, which was asked and did not answer ({error}): {doubt}"
                    )
                }
                None => format!(
                    "the upload lives at {name}, which cannot be reached ({error}); go on there, or begin a new one here"
                ),
            }))
        }
    }
}

/// What may have happened when the site of an upload was asked for it and its answer is lost, and what may be done then.
const fn doubt(act: &UploadAct) -> Option<&'static str> {
    match act {
        UploadAct::Describe | UploadAct::Parts { .. } => None,
        UploadAct::Part(_) => Some("it may have the part; put it again, which replaces it"),
        UploadAct::Complete(_) | UploadAct::Replace(_) => Some(
            "the object may have been made; complete it again, which is answered as the first time for a day: a new upload would \
             write once more",
        ),
        UploadAct::Abort => Some("it may have ended; abort it again: then 404 NoSuchUpload says so"),
    }
}

fn senseless() -> ServiceError {
    ServiceError::new(ErrorKind::Internal, "the site of the upload answered something else than was asked")
}

/// What it was begun with.
pub(crate) async fn describe(site: &Arc<Site>, context: &RequestContext, target: &Target) -> Outcome<Upload> {
    match act(site, context, target, UploadAct::Describe).await? {
        Response::Upload(upload) => Ok(*upload),
        _ => Err(senseless()),
    }
}

/// Hands a part over; the other site fetches its chunks from here before it answers.
pub(crate) async fn part(
    site: &Arc<Site>,
    context: &RequestContext,
    target: &Target,
    part: Part,
    body: Body,
) -> Outcome<()> {
    let pin = write::hold(site, body.small.as_ref()).await?;
    let answer = act(site, context, target, UploadAct::Part(Box::new(part))).await;
    drop((pin, body.pins));
    match answer? {
        Response::Done => Ok(()),
        _ => Err(senseless()),
    }
}

/// Some parts, and what the upload was begun with.
pub(crate) async fn parts(
    site: &Arc<Site>,
    context: &RequestContext,
    target: &Target,
    after: u32,
    limit: usize,
) -> Outcome<(Upload, Vec<Part>, bool)> {
    let upload = describe(site, context, target).await?;
    let limit = u32::try_from(limit).unwrap_or(u32::MAX);
    match act(site, context, target, UploadAct::Parts { after, limit }).await? {
        Response::Parts(parts, more) => Ok((upload, parts, more)),
        _ => Err(senseless()),
    }
}

/// Has the object made.
pub(crate) async fn complete(
    site: &Arc<Site>,
    context: &RequestContext,
    target: &Target,
    request: &CompleteUpload,
) -> Outcome<PutOutcome> {
    let claimed = |part: &CompletedPart| ClaimedPart {
        number: part.number,
        etag: part.etag.clone(),
        checksums: part.checksums.iter().map(|(kind, value)| (kind.name().into(), value.clone())).collect(),
    };
    let complete = Complete {
        parts: request.parts.iter().map(claimed).collect(),
        checksum: request.checksum.as_ref().map(|(kind, value)| (kind.name().into(), value.clone())),
        composite: request.shape.map(|shape| shape == ChecksumShape::Composite),
        size: request.size,
        condition: write::wire_condition(&request.condition),
    };
    let seen = seen::of_key(site, target.bucket.id, &target.key).await?;
    let question = replacing(site, target, complete, &seen).await;
    match act(site, context, target, question).await? {
        Response::Decided(record) => {
            let record = Box::new(Record::admit(&record).map_err(refusal::malformed)?);
            // It is made, whether or not there is room here to know of it.
            forward::keep(site, &record, seen.iter().any(Record::is_version)).await;
            let written = Written::Record(record);
            let receipt = super::scope::reach(site, context, &target.bucket, &written).await?;
            Ok(put::outcome(&target.bucket, &written, receipt))
        }
        _ => Err(senseless()),
    }
}

/// As the site of the upload understands it. One of a release before is not told what the object replaces.
async fn replacing(site: &Site, target: &Target, complete: Complete, seen: &[Record]) -> UploadAct {
    let node = site.peers.roster.node(target.id.site).filter(|_| !seen.is_empty());
    match node {
        Some(node) if site.peers.will_complete(node).await => {
            UploadAct::Replace(Box::new(Completion { complete, heads: seen::told(seen) }))
        }
        _ => UploadAct::Complete(Box::new(complete)),
    }
}

/// A completion that came from another site.
pub(crate) fn completion_of(target: UploadTarget, complete: Complete) -> Outcome<CompleteUpload> {
    let kind = |name: &str| {
        ChecksumKind::parse(name)
            .ok_or_else(|| ServiceError::new(ErrorKind::InvalidRequest, format!("{name} is no checksum")))
    };
    let sums = |sums: Vec<(String, String)>| {
        sums.into_iter().map(|(name, value)| Ok((kind(&name)?, value))).collect::<Outcome<Vec<_>>>()
    };
    let part = |part: ClaimedPart| {
        Ok(CompletedPart { number: part.number, etag: part.etag, checksums: sums(part.checksums)? })
    };
    Ok(CompleteUpload {
        target,
        parts: complete.parts.into_iter().map(part).collect::<Outcome<Vec<_>>>()?,
        checksum: complete
            .checksum
            .map(|(name, value)| Ok::<_, ServiceError>((kind(&name)?, value)))
            .transpose()?,
        shape: complete.composite.map(super::shape::shape),
        size: complete.size,
        condition: write::condition_of(complete.condition),
    })
}
