//! GET and HEAD: the record here or from the nearest member, the bytes from here or from a holder.
//!
//! Before: the gateway's `get` and `head`. After: `source.rs` streams. Invariants: what is at a member is
//! served without a message to anybody; "no such key" is said only by who may know; an answer that could not
//! be had says that it is unreachable, never that there is nothing. What a reader asks for beyond that is in `newer.rs`.

use std::sync::Arc;

use futures::StreamExt;
use futures::future::BoxFuture;
use skerry_base::kv::View;
use skerry_base::{BucketId, Vector};
use skerry_gateway::service::{
    ByteRange, DownloadBody, ErrorKind, GetObject, ObjectHead, ObjectInfo, ObjectRead, Outcome, ReadMode,
    RequestContext, Selection, ServiceError, VersionId,
};
use skerry_model::bucket::Miss;
use skerry_model::policy::Action;
use skerry_model::space::{self, VersionId as Named};
use skerry_model::{Object, Record};

use super::bucket::Bucket;
use super::lost::{self, Shown};
use super::members;
use super::seek::Offer;
use super::source::Chunks;
use super::{far, newer, seek, shape, within};
use crate::following::Trust;
use crate::peers::message::Part;
use crate::site::{Site, unreadable};

/// What was found of a key.
#[derive(Clone)]
pub(crate) enum Found {
    /// A version with an object.
    Object(Box<Record>),
    /// The key is hidden by this delete marker, or it was named itself.
    Marker(Box<Record>),
    /// Nothing is known of it.
    Nothing,
}

impl Found {
    pub(crate) fn of(record: Option<Record>) -> Self {
        match record {
            None => Self::Nothing,
            Some(record) if record.object().is_some() => Self::Object(Box::new(record)),
            Some(record) => Self::Marker(Box::new(record)),
        }
    }
}

/// Which version of which key, resolved.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    pub(crate) bucket: Bucket,
    pub(crate) key: String,
    pub(crate) version: Option<Named>,
}

impl Wanted {
    /// Reads it from the tables here.
    pub(crate) fn local(&self, view: &dyn View) -> Outcome<Found> {
        Self::look(view, self.bucket.id, &self.key, self.version)
    }

    /// Reads a version from the tables here.
    pub(crate) fn look(
        view: &dyn View,
        bucket: BucketId,
        key: &str,
        version: Option<Named>,
    ) -> Outcome<Found> {
        let record = match version {
            None => space::current(view, bucket, key),
            Some(version) => space::version(view, bucket, key, version),
        };
        Ok(Found::of(record.map_err(unreadable)?))
    }

    /// Why there is nothing to answer.
    fn missing(&self, found: &Found) -> ServiceError {
        match (self.version, found) {
            (Some(_), Found::Marker(record)) => ServiceError::new(
                ErrorKind::MethodNotAllowed,
                "this version is a delete marker; it has no body",
            )
            .with_header("x-amz-delete-marker", "true")
            .with_header("x-amz-version-id", shape::version_id(record).to_string())
            .with_header("allow", "DELETE"),
            (Some(version), _) => {
                ServiceError::new(ErrorKind::NoSuchVersion, format!("{} has no version {version}", self.key))
            }
            (None, Found::Marker(record)) if self.bucket.versioned() => ServiceError::no_such_key(&self.key)
                .with_header("x-amz-delete-marker", "true")
                .with_header("x-amz-version-id", shape::version_id(record).to_string()),
            (None, _) => ServiceError::no_such_key(&self.key),
        }
    }
}

/// Reads an object.
pub(crate) fn get<'a>(
    site: &'a Arc<Site>,
    context: &'a RequestContext,
    request: GetObject,
) -> BoxFuture<'a, Outcome<ObjectRead>> {
    Box::pin(async move {
        let wanted = wanted(site, context, &request.bucket, &request.key, request.version.as_ref()).await?;
        let (record, scope) = find_in(site, context, &wanted, part(&request)).await?;
        let mut shown = lost::shown(site, &context.read, &wanted, record, true).await?;
        loop {
            match read(site, &wanted, &shown, &request).await {
                Err(error) if error.kind() == ErrorKind::Unreachable && !shown.asked => {
                    shown = lost::again(site, &context.read, &wanted, (shown.record, error)).await?;
                }
                Err(error) => return Err(error),
                Ok(mut read) => {
                    read.info.receipt.scope = scope;
                    return Ok(read);
                }
            }
        }
    })
}

async fn read(site: &Arc<Site>, wanted: &Wanted, shown: &Shown, request: &GetObject) -> Outcome<ObjectRead> {
    let (mut info, object) = described(&wanted.bucket, &shown.record)?;
    info.receipt.lost.clone_from(&shown.note);
    let selection = request.select(&info)?;
    let body = body(site, &wanted.bucket, &shown.record, object, &selection).await?;
    Ok(ObjectRead { info, selection, body })
}

/// The same without the bytes.
pub(crate) fn head<'a>(
    site: &'a Arc<Site>,
    context: &'a RequestContext,
    request: GetObject,
) -> BoxFuture<'a, Outcome<ObjectHead>> {
    Box::pin(async move {
        let wanted = wanted(site, context, &request.bucket, &request.key, request.version.as_ref()).await?;
        let (record, scope) = find_in(site, context, &wanted, Part::Nothing).await?;
        let shown = lost::shown(site, &context.read, &wanted, record, false).await?;
        let (mut info, _) = described(&wanted.bucket, &shown.record)?;
        (info.receipt.lost, info.receipt.scope) = (shown.note, scope);
        let selection = request.select(&info)?;
        Ok(ObjectHead { info, selection })
    })
}

/// Which version a request names, if the caller may read the bucket.
pub(crate) async fn wanted(
    site: &Arc<Site>,
    context: &RequestContext,
    bucket: &str,
    key: &str,
    version: Option<&VersionId>,
) -> Outcome<Wanted> {
    let bucket = site.allowed(context, bucket, Action::Read).await?;
    let version = version.map(shape::parse_version).transpose()?;
    Ok(Wanted { bucket, key: key.into(), version })
}

/// What the client is told of a record.
pub(crate) fn described<'a>(bucket: &Bucket, record: &'a Record) -> Outcome<(ObjectInfo, &'a Object)> {
    let object = record.object().ok_or_else(|| ServiceError::no_such_key(&record.key))?;
    Ok((shape::info(record, object, bucket.versioned()), object))
}

fn part(request: &GetObject) -> Part {
    match (request.range, request.part) {
        (Some(ByteRange::Between { first, last }), _) => Part::Between(first, last),
        (Some(ByteRange::From(first)), _) => Part::From(first),
        (Some(ByteRange::Last(length)), _) => Part::Last(length),
        (None, Some(part)) => Part::Number(part),
        (None, None) => Part::Whole,
    }
}

/// The record of a version: from here, or from the nearest who has it.
pub(crate) async fn find(
    site: &Arc<Site>,
    context: &RequestContext,
    wanted: &Wanted,
    part: Part,
) -> Outcome<Box<Record>> {
    find_in(site, context, wanted, part).await.map(|(record, _)| record)
}

/// The same, and at a site of several nodes in which scope it is answered.
async fn find_in(
    site: &Arc<Site>,
    context: &RequestContext,
    wanted: &Wanted,
    part: Part,
) -> Outcome<(Box<Record>, Option<String>)> {
    let (found, scope) = match &context.read {
        ReadMode::Local if within::says(site, &context.read) => {
            let (found, is_sites) = of_site(site, wanted, part, &Vector::new()).await?;
            (found, Some(within::told(is_sites)))
        }
        ReadMode::Local => (here_or_asked(site, wanted, part, false).await?, None),
        ReadMode::After(token) => match newer::after(site, wanted, part, token).await? {
            Some(found) => (found, None),
            // As without the token: its write says nothing of what the other nodes of the site have acknowledged since.
            None => {
                let goal = newer::goal(&context.read, wanted.bucket.id)?;
                (of_site(site, wanted, part, &goal).await?.0, None)
            }
        },
        ReadMode::Latest => (newer::latest(site, wanted).await?, None),
    };
    match found {
        Found::Object(record) => Ok((record, scope)),
        other => {
            let missing = wanted.missing(&other);
            Err(match scope {
                Some(scope) => missing.with_header("x-skerry-scope", scope),
                None => missing,
            })
        }
    }
}

/// At a site of several nodes: as the site has it, if this node or another one may say so that has seen the goal.
async fn of_site(site: &Arc<Site>, wanted: &Wanted, part: Part, goal: &Vector) -> Outcome<(Found, bool)> {
    if site.reads_for_site(wanted.bucket.id) {
        return Ok((here_or_asked(site, wanted, part, true).await?, true));
    }
    match within::find(site, wanted, goal).await? {
        // It says so as far as the site has come: who is known to be ahead is asked, as by a node with a lease.
        Some(Found::Nothing) if wanted.bucket.config.miss != Miss::Local => {
            let found = match members::ahead(site, wanted.bucket.id, true).await {
                Some(ahead) => {
                    far::read(site, wanted, part, &Found::Nothing, (ahead, Offer::default())).await?
                }
                None => Found::Nothing,
            };
            Ok((found, true))
        }
        Some(found) => Ok((found, true)),
        None => Ok((here_or_asked(site, wanted, part, false).await?, false)),
    }
}

/// What is here; asked for elsewhere if this site need not know. A miss at a member is asked on as long as somebody
/// with a link is known to be ahead, unless the bucket says otherwise (`miss = local`). Whoever reads for its site has what
/// the other nodes of that can say.
async fn here_or_asked(site: &Arc<Site>, wanted: &Wanted, part: Part, is_sites: bool) -> Outcome<Found> {
    let (local, id) = (wanted.clone(), wanted.bucket.id);
    // Below a prefix that is followed, before and after it was looked up: then it is as at a member.
    let before = site.trusts(id, &wanted.key);
    let is_complete = site.is_complete(id);
    let look = move |view: &dyn View| {
        let found = local.local(view)?;
        let is_taken = match &found {
            Found::Object(record) if !is_complete => is_taken(view, record)?,
            _ => is_complete,
        };
        Ok((found, is_taken))
    };
    let (found, is_taken) = site.look(look).await?;
    let trust = before.and_then(|_| site.trusts(id, &wanted.key));
    let part = far::part(site, wanted, part, &found);
    let asking = match &found {
        // One that is still taking the records may have read this long ago, and others something newer since; what it has taken
        // is as at a member.
        Found::Object(_) if trust.is_some() || (site.is_member(id) && is_taken) => {
            return Ok(found);
        }
        _ if trust == Some(Trust::Current)
            || (trust.is_some() && wanted.bucket.config.miss == Miss::Local) =>
        {
            return Ok(found);
        }
        _ if !site.is_complete(id) => seek::members(site, &wanted.bucket, &far::wanted(wanted, part)).await,
        _ if wanted.bucket.config.miss == Miss::Local => return Ok(found),
        _ => match members::ahead(site, id, is_sites).await {
            None => return Ok(found),
            Some(ahead) => Ok((ahead, Offer::default())),
        },
    };
    let asked = match asking {
        Ok(asking) => far::read(site, wanted, part, &found, asking).await,
        Err(error) => Err(error),
    };
    match (asked, found) {
        // A stale copy is better than none.
        (Err(_), found @ Found::Object(_)) => Ok(found),
        // On an island what it follows is all that there is.
        (Err(error), found) if trust.is_some() && error.kind() == ErrorKind::Unreachable => Ok(found),
        (asked, _) => asked,
    }
}

/// Whether a record came by taking the bucket's records, or was written in this life; not by a single read.
pub(crate) fn is_taken(view: &dyn View, record: &Record) -> Outcome<bool> {
    let covered = space::vector_entry(view, record.bucket, record.dot.origin).map_err(unreadable)?;
    Ok(record.dot.seq <= covered)
}

/// The selected bytes. The first of them are here when this returns, so that what cannot be read is refused
/// before an answer has begun.
async fn body(
    site: &Arc<Site>,
    bucket: &Bucket,
    record: &Record,
    object: &Object,
    selection: &Selection,
) -> Outcome<DownloadBody> {
    if selection.length() == 0 {
        return Ok(DownloadBody::empty());
    }
    let chunks = Chunks::new(site, bucket, record.site);
    let mut stream = Box::pin(chunks.stream(object.chunks.clone(), selection.bytes.clone()));
    let first = stream.next().await.transpose()?;
    let first = futures::stream::iter(first.map(Ok));
    Ok(DownloadBody::new(first.chain(stream)))
}
