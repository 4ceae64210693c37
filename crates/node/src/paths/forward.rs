//! A PUT that this site cannot keep (its disk is full, the bucket may not lie here, or the site is being emptied) is written
//! at a site that can.
//!
//! Before: `put.rs`. After: the other site, which ingests and writes as for a client of its own and answers the record.
//! Invariants: the client's body is read only once somebody has said that there is room; digests are verified
//! here, and nothing is written there before they are; a forwarded write is never passed on; it replaces what this site knew
//! of the key, whatever the other one knows.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use skerry_base::codec::{self, Versioned};
use skerry_base::kv::View;
use skerry_base::limits::CHUNK_BYTES;
use skerry_base::{NodeId, SiteId};
use skerry_federation::budget::Class;
use skerry_gateway::service::{
    Outcome, PutObject, PutOutcome, Reason, RequestContext, ServiceError, UploadBody,
};
use skerry_model::write::Ask;
use skerry_model::{Object, Record, object, space};
use tokio::io::AsyncWriteExt;
use tokio::sync::OwnedSemaphorePermit;

use super::bucket::Bucket;
use super::ingest::Intake;
use super::places::Place;
use super::write::{self, Asked, Written};
use super::{list, members, put, refusal, scope, seen, shape};
use crate::duties::Act;
use crate::net::{Stream, frame};
use crate::peers::PeerError;
use crate::peers::message::{Forward, Replace, Request, Response};
use crate::peers::uplink::Held;
use crate::site::{Site, entry, unreadable};
use crate::telemetry::Kind;

/// Sites asked for room before the write is refused.
const TRIES: usize = 4;
/// How long a site may take to say whether it has room: a client waits for it, and others may have.
const OFFER_WAIT: Duration = Duration::from_secs(10);
/// Forwarded bodies that a site takes in at once: each holds a chunk's room for as long as the other site's client likes,
/// and the clients here want some, too. Half of them to one site.
pub(crate) const TAKEN_AT_ONCE: usize = 16;
/// What is sent of a body at once: little enough that a slow link takes it within [`PIECE_WAIT`].
const PIECE_BYTES: usize = 64 << 10;
/// How long the other side may take for a piece of the body, or to decide.
const PIECE_WAIT: Duration = Duration::from_secs(60);

/// What follows the body.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
struct Ending {
    size: u64,
    etag: String,
    checksums: Vec<object::Checksum>,
}

impl Versioned for Ending {
    const NAME: &'static str = "end of a forwarded body";
    const VERSION: u8 = 1;
}

/// A site that has said that there is room.
struct Taker {
    site: SiteId,
    node: NodeId,
    stream: Stream,
    /// What the body may take of a metered link.
    _room: Option<Held>,
}

/// Why a write cannot stay here, if so.
pub(crate) fn reason(site: &Site, bucket: &Bucket, announced: Option<u64>) -> Option<ServiceError> {
    let kept = bucket.check_residency(site).and_then(|()| room(site, announced));
    kept.and_then(|()| site.duties.check(Act::Write)).err()
}

fn room(site: &Site, announced: Option<u64>) -> Outcome<()> {
    if site.store.has_room_for(announced.unwrap_or(0)) {
        return Ok(());
    }
    Err(refusal::storage(skerry_storage::StorageError::Full))
}

/// Has another site write the object; `why` is the answer if none can.
pub(crate) async fn put(
    site: &Arc<Site>,
    context: &RequestContext,
    bucket: &Bucket,
    request: PutObject,
    why: ServiceError,
) -> Outcome<PutOutcome> {
    let mut body = request.body;
    let seen = seen::of_key(site, bucket.id, &request.key).await?;
    let replaces = seen.iter().any(Record::is_version);
    let put = Forward {
        bucket: bucket.id,
        key: request.key,
        object: Box::new(Object {
            headers: shape::stored_headers(request.headers),
            user_metadata: request.user_metadata,
            modified: site.clock.wall(),
            ..Object::default()
        }),
        condition: write::wire_condition(&request.condition),
        writer: context.principal.access_key.clone(),
        length: body.announced(),
    };
    let asked = Replace { put, heads: seen::told(&seen) };
    let cause = why.message().to_owned();
    let near = scope::near(site, context, bucket, takers(site, bucket).await?)?;
    let mut taker = taker(site, near, &asked, why).await?;
    let ending = pour(site, &mut taker, &mut body, &cause).await?;
    let digests = body.finish()?;
    let ending =
        Ending { size: ending, etag: digests.etag(), checksums: shape::stored_checksums(&digests.checksums) };
    let then = refusal::in_doubt(bucket.versioning, !request.condition.is_none());
    let broke = |error: PeerError| {
        let name = site.peers.roster.name(taker.site);
        refusal::unreachable(format!(
            "{cause}: the write was handed to {name}, and the link broke before it answered ({error}): it may have \
             happened; {then}"
        ))
    };
    let record = match end(&mut taker.stream, &ending).await.map_err(broke)? {
        Response::Decided(record) => Box::new(Record::admit(&record).map_err(refusal::malformed)?),
        Response::Refused { code, message } => return Err(refusal::relayed(&code, message)),
        _ => return Err(refusal::malformed("another answer than the record")),
    };
    keep(site, &record, replaces).await;
    let written = Written::Record(record);
    let receipt = scope::reach(site, context, bucket, &written).await?;
    Ok(put::outcome(bucket, &written, receipt))
}

/// So that who wrote here reads here. What replaces something here is kept on a full disk, too; what is new here is asked for
/// where it was written until the feed finds room.
pub(super) async fn keep(site: &Site, record: &Record, replaces: bool) {
    let record = record.clone();
    let bucket = record.bucket;
    let propose = move |view: &dyn View| {
        let kept = space::keep(view, bucket, vec![record]).map_err(unreadable)?;
        let kept = kept.iter().map(entry);
        Ok(((), if replaces { kept.map(skerry_storage::Entry::freeing).collect() } else { kept.collect() }))
    };
    if let Err(error) = site.commit(bucket, (), propose).await {
        tracing::warn!(%error, "the record of a forwarded write was not kept: until it comes again reads here may be older");
    }
}

/// Who may take it. What is written through a prefix that is followed goes to members alone, as far as they are known: who
/// is none would become one of the whole bucket.
async fn takers(site: &Arc<Site>, bucket: &Bucket) -> Outcome<Vec<SiteId>> {
    if !site.writes_through(bucket.id) {
        return Ok(scope::candidates(site, bucket).await);
    }
    let mut near = members::nearest(site, bucket).await?.sites;
    near.retain(|other| bucket.may_lie_at(*other));
    Ok(near)
}

/// The first of the nearest sites that has room.
async fn taker(site: &Arc<Site>, near: Vec<SiteId>, asked: &Replace, why: ServiceError) -> Outcome<Taker> {
    let mut failed = Vec::new();
    for other in near.into_iter().take(TRIES) {
        let Some(node) = site.peers.roster.node(other) else { continue };
        let name = || site.peers.roster.name(other);
        let asked = &question(site, node, asked).await;
        let room = match site.peers.uplink.may_ask(node, asked, Class::Read) {
            Ok(room) => room,
            Err(error) => {
                failed.push(error);
                continue;
            }
        };
        match tokio::time::timeout(OFFER_WAIT, offer(site, node, asked)).await {
            Ok(Ok((Response::Done, stream))) => return Ok(Taker { site: other, node, stream, _room: room }),
            Ok(Ok((Response::Refused { message, .. }, _))) => failed.push(format!("{}: {message}", name())),
            Ok(Ok(_)) => failed.push(format!("{}: it answered something else", name())),
            Ok(Err(error)) => failed.push(format!("{}: {error}", name())),
            Err(_) => failed.push(format!("{}: no answer", name())),
        }
    }
    let others = if failed.is_empty() { "no other site is linked".into() } else { failed.join("; ") };
    Err(ServiceError::new(
        why.kind(),
        format!("{}; nor could another site take it ({others})", why.message()),
    ))
}

/// As a site understands it. One of a release before is not told what the write replaces.
async fn question(site: &Site, node: NodeId, asked: &Replace) -> Request {
    if !asked.heads.is_empty() && site.peers.will_replace(node).await {
        return Request::Replace(Box::new(asked.clone()));
    }
    Request::Forward(Box::new(asked.put.clone()))
}

async fn offer(site: &Arc<Site>, node: NodeId, asked: &Request) -> Result<(Response, Stream), PeerError> {
    let mut stream = site.peers.net().open(node).await?;
    stream.rank(Class::Read);
    let bytes = codec::encode(asked);
    frame::write(&mut stream, &bytes).await?;
    site.peers.sent(node, Kind::Record, bytes.len());
    Ok((answer(&mut stream).await?, stream))
}

async fn answer(stream: &mut Stream) -> Result<Response, PeerError> {
    let bytes = frame::read(stream).await?.ok_or(PeerError::Senseless("closed without an answer"))?;
    Ok(codec::decode(&bytes)?)
}

/// Sends the body; how long it was.
async fn pour(site: &Arc<Site>, taker: &mut Taker, body: &mut UploadBody, cause: &str) -> Outcome<u64> {
    let (mut size, mut standing) = (0, body.take_standing());
    while let Some(bytes) = body.next().await {
        let mut bytes = bytes?;
        while !bytes.is_empty() {
            let piece = bytes.split_to(bytes.len().min(PIECE_BYTES));
            // Over there it may wait for room that another body of this connection holds.
            let sent = tokio::time::timeout(PIECE_WAIT, frame::write(&mut taker.stream, &piece));
            let sent = standing.wait(sent).await?;
            if !matches!(sent, Ok(Ok(()))) {
                let name = site.peers.roster.name(taker.site);
                return Err(refusal::unreachable(format!(
                    "{cause}; the link to {name}, which was taking the write, broke: nothing was written, repeat it"
                )));
            }
            size += piece.len() as u64;
            site.peers.sent(taker.node, Kind::Payload, piece.len());
        }
    }
    Ok(size)
}

async fn end(stream: &mut Stream, ending: &Ending) -> Result<Response, PeerError> {
    frame::write(stream, &[]).await?;
    frame::write(stream, &codec::encode(ending)).await?;
    tokio::time::timeout(PIECE_WAIT, answer(stream)).await.map_err(|_| PeerError::Silent)?
}

/// Takes a write that another site cannot keep.
pub(crate) async fn take(
    site: &Arc<Site>,
    from: SiteId,
    asked: Replace,
    mut stream: Stream,
) -> Result<(), PeerError> {
    let Replace { put, heads } = asked;
    let response = match ready(site, from, &put, &heads).await {
        Err(error) => list::refused(&error),
        Ok((bucket, heads, _taken)) => {
            frame::write(&mut stream, &codec::encode(&Response::Done)).await?;
            match written(site, from, &bucket, (put, heads), &mut stream).await? {
                Ok(Written::Record(record)) => Response::Decided(record.encode().into()),
                Ok(Written::Nothing) => Response::Done,
                Err(error) => list::refused(&error),
            }
        }
    };
    frame::write(&mut stream, &codec::encode(&response)).await?;
    stream.shutdown().await?;
    Ok(())
}

/// The bucket, what the other site knows of the key, and room for one body more.
async fn ready(
    site: &Arc<Site>,
    from: SiteId,
    asked: &Forward,
    heads: &[Bytes],
) -> Outcome<(Bucket, Vec<Record>, (OwnedSemaphorePermit, Place))> {
    let heads = seen::heard(asked.bucket, &asked.key, heads)?;
    let bucket = scope::claimed(site, asked.bucket).await?;
    if let Some(why) = reason(site, &bucket, asked.length) {
        return Err(why);
    }
    // A write of another site makes no member of one that wants a prefix only, or has left.
    if !site.is_member(bucket.id) {
        site.check_takes(&bucket)?;
    }
    let busy = || ServiceError::full(Reason::Forwards, "too many bodies of other sites are on their way");
    let place = site.takers.take(from).ok_or_else(busy)?;
    let taken = site.taken.clone().try_acquire_owned().map_err(|_| busy())?;
    Ok((bucket, heads, (taken, place)))
}

/// Takes the body in and writes. A stream that ends before the body did leaves nothing.
async fn written(
    site: &Arc<Site>,
    from: SiteId,
    bucket: &Bucket,
    (asked, seen): (Forward, Vec<Record>),
    stream: &mut Stream,
) -> Result<Outcome<Written>, PeerError> {
    let mut intake = Intake::new(site, bucket.id, asked.length.unwrap_or(0));
    let node = site.peers.roster.node(from);
    let mut refused = None;
    loop {
        let piece = intake.outwait(piece(stream)).await?;
        if piece.is_empty() {
            break;
        }
        if let Some(node) = node {
            site.peers.received(node, Kind::Payload, piece.len());
        }
        // Read on after a refusal: who sends listens only when it has sent all.
        if refused.is_none() {
            refused = intake.take(piece.into()).await.err();
        }
    }
    let ending: Ending = codec::decode(&piece(stream).await?)?;
    if let Some(error) = refused {
        return Ok(Err(error));
    }
    let body = match intake.finish().await {
        Ok((body, _)) => body,
        Err(error) => return Ok(Err(error)),
    };
    if body.size != ending.size {
        return Err(PeerError::Senseless("a forwarded body of another length than was said"));
    }
    let object = Object {
        size: body.size,
        etag: ending.etag,
        checksums: ending.checksums,
        chunks: body.chunks.clone(),
        ..*asked.object
    };
    let asked = Asked {
        bucket: bucket.clone(),
        key: asked.key,
        condition: write::condition_of(asked.condition),
        ask: Ask::Put(Box::new(object)),
        writer: asked.writer,
        scope: scope::of_bucket(bucket),
        small: body.small,
        pins: body.pins,
        with: Vec::new(),
        upload: None,
    };
    let written = write::replace(site, asked, seen).await;
    // Who forwards answers for a site, and cannot know that this one does not wait for the disk.
    if written.is_ok()
        && let Err(error) = site.settle_lazy().await
    {
        return Ok(Err(error));
    }
    Ok(written)
}

async fn piece(stream: &mut Stream) -> Result<Vec<u8>, PeerError> {
    let read = tokio::time::timeout(PIECE_WAIT, frame::read_capped(stream, CHUNK_BYTES));
    read.await.map_err(|_| PeerError::Silent)??.ok_or(PeerError::Senseless("ended within a forwarded body"))
}
