//! Answers what other sites ask, from this site's store alone.
//!
//! Before: `peers/serve.rs` with a proven site. Invariants: a question is never passed on (no loops), but for a chunk that
//! this site then fetches for itself (`through.rs`); only
//! sites of the federation get here; what is sent was verified when it was read from the disk.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use skerry_base::codec;
use skerry_base::kv::View;
use skerry_base::{BucketId, ChunkId, NodeId, SiteId};
use skerry_gateway::service::{Outcome, ServiceError, UploadTarget};
use skerry_model::space;
use skerry_storage::ReadError;
use tokio::io::AsyncWriteExt;

use super::bucket::Bucket;
use super::get::{self, Found, Wanted};
use super::upload::{self, By, Target};
use super::write::{self, Written};
use super::{buckets, far, forward, home, list, lost, members, refusal, relay, scope, seen, through};
use crate::credential_keys;
use crate::duties::Act;
use crate::net::{Stream, frame};
use crate::nodes;
use crate::peers::message::{self, Completion, Read, Request, Response, UploadAct, UploadCall, Which};
use crate::peers::packed::packed;
use crate::peers::serve::{Answerer, Asker};
use crate::peers::{PeerError, carries_records};
use crate::site::{Site, unreadable};
use crate::telemetry::Kind;
use crate::trust::PublicKey;
use crate::welcome::Door;

/// Answers for a site.
pub(crate) struct Answers {
    pub(crate) site: Arc<Site>,
    pub(crate) door: Door,
}

#[async_trait]
impl Answerer for Answers {
    async fn answer(
        &self,
        from: Asker,
        request: Request,
        mut stream: Stream,
    ) -> Result<Option<Stream>, PeerError> {
        let request = match request {
            Request::Forward(asked) => {
                let asked = message::Replace { put: *asked, heads: Vec::new() };
                return forward::take(&self.site, from.site, asked, stream).await.map(|()| None);
            }
            Request::Replace(asked) => {
                return forward::take(&self.site, from.site, *asked, stream).await.map(|()| None);
            }
            request => request,
        };
        // Who asks for such a thing may ask for the next one behind it.
        let may_follow = matches!(
            request,
            Request::Chunk { .. } | Request::Through(_) | Request::Tail(_) | Request::Read(_)
        );
        let (response, chunks) = self.respond(from, request).await;
        let bytes = codec::encode(&response);
        let bytes = if from.unpacks { packed(bytes).await } else { bytes.into() };
        frame::write(&mut stream, &bytes).await?;
        if let Some(node) = self.site.peers.roster.node(from.site) {
            if carries_records(&response) {
                self.site.peers.sent(node, Kind::Record, bytes.len());
            }
            for chunk in chunks {
                stream.write_all(&chunk).await?;
                self.site.peers.sent(node, Kind::Payload, chunk.len());
            }
        }
        if may_follow {
            stream.flush().await?;
            return Ok(Some(stream));
        }
        stream.shutdown().await?;
        Ok(None)
    }

    async fn fellow(&self, node: NodeId, first: Vec<u8>, stream: Stream) -> Result<(), PeerError> {
        nodes::hear(&self.site, node, &first, stream).await
    }

    async fn stranger(&self, key: PublicKey, stream: Stream) {
        self.door.open(&self.site, key, stream).await;
    }
}

impl Answers {
    async fn respond(&self, from: Asker, request: Request) -> (Response, Vec<Bytes>) {
        let site = &self.site;
        let plain =
            |answer: Outcome<Response>| (answer.unwrap_or_else(|error| list::refused(&error)), Vec::new());
        match request {
            Request::Control
            | Request::Forward(_)
            | Request::Replace(_)
            | Request::Words { .. }
            | Request::Circuit(_)
            | Request::Give { .. } => (Response::Done, Vec::new()),
            Request::Through(asked) => through::answer(site, from, asked).await,
            Request::Read(read) => object(site, read, u64::MAX).await,
            Request::Chunk { domain, chunk } => one_chunk(site, domain, chunk, 0).await,
            Request::Tail(tail) => match tail.way {
                None => one_chunk(site, tail.domain, tail.chunk.id, tail.from).await,
                Some(way) => through::rest(site, from, *tail, way).await,
            },
            Request::List(list) => (list::answer(site, list, false).await, Vec::new()),
            Request::Versions(list) => (list::answer(site, list, true).await, Vec::new()),
            Request::Decide(decide) => plain(decided(site, decide).await),
            Request::Upload(call) => plain(upload_call(site, from.site, call).await),
            Request::Size { bucket } => plain(size(site, bucket).await),
            Request::Seen { bucket, digest } => plain(super::heard::answer(site, bucket, digest).await),
            Request::Hold(hold) => plain(scope::hold(site, from, hold).await),
            Request::HoldFor(asked) => plain(scope::hold_for(site, from, *asked).await),
            Request::ClaimName(claim) => plain(buckets::claimed_for(site, from.site, claim).await),
            Request::NameHome(request) => plain(home::answer(site, request).await),
            Request::Holdings(asked) => plain(crate::copies::claims::answer(site, asked, from.site).await),
            Request::Spare(asked) => plain(crate::copies::surplus::answer(site, from.site, asked).await),
            Request::Replaced(asked) => plain(crate::replacing::answer(site, from.site, *asked).await),
            Request::Have(asked) => plain(lost::answer(site, asked).await),
            Request::Below(asked) => plain(crate::following::answer::answer(site, *asked).await),
            Request::Standing { bucket } => plain(crate::leaving::answer(site, bucket).await),
            Request::Lives => plain(Ok(Response::Lives(Box::new(crate::clones::word(site))))),
            Request::IsLive { node, life } => {
                plain(Ok(Response::IsLive(site.peers.net().answers(node, life).await)))
            }
            Request::Follow { bucket } => plain(members::follow_asked(site, bucket).await),
            Request::Remains { bucket } => plain(super::orphans::answer(site, bucket).await),
            Request::Kept(read) => kept(site, *read).await,
            Request::CredentialKeys(wanted) => plain(credential_keys::tell(site, from.site, wanted).await),
        }
    }
}

async fn known(site: &Arc<Site>, id: BucketId) -> Outcome<Bucket> {
    let found = site.claim_of(id).await?;
    found.ok_or_else(|| ServiceError::no_such_bucket(&id.to_string()))
}

/// An object, with so many bytes of its body at most.
pub(crate) async fn object(site: &Arc<Site>, read: Read, most: u64) -> (Response, Vec<Bytes>) {
    if !site.is_member(read.bucket) {
        return (Response::NotMember, Vec::new());
    }
    let (store, bucket) = (site.store.clone(), read.bucket);
    // Looked up first: what it becomes complete with is found.
    let is_complete = site.is_complete(bucket);
    let find = move || match is_complete || is_taken(&store.view(), &read)? {
        true => found(&store, read, most),
        false => Ok((Response::Joining, Vec::new())),
    };
    match tokio::task::spawn_blocking(find).await.map_err(refusal::task) {
        Ok(Ok((Response::NoObject { .. }, _))) if !is_complete => (Response::Joining, Vec::new()),
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) | Err(error) => (list::refused(&error), Vec::new()),
    }
}

/// Whether a site that is still taking a bucket's records has come by what is asked for by taking them: what it read, or wrote,
/// long ago may have been overwritten, deleted or erased since.
fn is_taken(view: &dyn View, read: &Read) -> Outcome<bool> {
    match look(view, read)? {
        Found::Object(record) => get::is_taken(view, &record),
        _ => Ok(true),
    }
}

/// An object of a bucket that this site is taking, or takes anew, for who got it of nobody else: as it was before part of the journal
/// was lost; what this site wrote, or read long ago, of which nobody who can be reached knows better.
pub(crate) async fn kept(site: &Arc<Site>, read: Read) -> (Response, Vec<Bytes>) {
    let (store, bucket) = (site.store.clone(), read.bucket);
    // A version here that is overwritten or dead at one that is linked is so here as well, once that one was heard.
    let is_anew = site.check_whole(bucket).is_err();
    if !site.is_member(bucket) || (is_anew && !site.is_heard_of_linked(bucket)) {
        return object(site, read, u64::MAX).await;
    }
    let me = site.id;
    let find = move || -> Outcome<_> {
        let view = &store.view();
        let Found::Object(record) = look(view, &read)? else { return Ok((Response::Joining, Vec::new())) };
        let former = space::former(view, bucket).map_err(unreadable)?.unwrap_or_default();
        let was_here = match is_anew {
            true => former.covers(record.dot),
            false => record.site == me || !matches!(read.which, Which::Current),
        };
        match was_here || get::is_taken(view, &record)? {
            true => found(&store, read, u64::MAX),
            false => Ok((Response::Joining, Vec::new())),
        }
    };
    let found = tokio::task::spawn_blocking(find).await.map_err(refusal::task);
    found.flatten().unwrap_or_else(|error| (list::refused(&error), Vec::new()))
}

/// What is wanted, as it is here.
fn look(view: &dyn View, read: &Read) -> Outcome<Found> {
    let version = match read.which {
        Which::Current => None,
        Which::Null => Some(space::VersionId::Null),
        Which::Dot(dot) => Some(space::VersionId::Dot(dot)),
    };
    Wanted::look(view, read.bucket, &read.key, version)
}

fn found(store: &skerry_storage::Store, read: Read, most: u64) -> Outcome<(Response, Vec<Bytes>)> {
    let view = &store.view();
    let record = match look(view, &read)? {
        Found::Object(record) => record,
        Found::Marker(marker) => {
            let vector = space::vector(view, read.bucket).map_err(unreadable)?;
            return Ok((Response::NoObject { marker: Some(marker.dot), vector }, Vec::new()));
        }
        Found::Nothing => {
            let vector = space::vector(view, read.bucket).map_err(unreadable)?;
            return Ok((Response::NoObject { marker: None, vector }, Vec::new()));
        }
    };
    let heads = space::heads(view, read.bucket, &read.key).map_err(unreadable)?;
    let others = heads.iter().filter(|head| head.dot != record.dot);
    let chunks = far::first_chunks_within(store, &record, read.part, most)?;
    let found = message::Found {
        record: record.encode().into(),
        heads: others.map(|head| head.encode().into()).collect(),
        inline: chunks.iter().map(|chunk| u32::try_from(chunk.len()).unwrap_or(u32::MAX)).collect(),
        bucket_bytes: space::sums(view, read.bucket).map_err(unreadable)?.record_bytes,
    };
    Ok((Response::Object(Box::new(found)), chunks))
}

/// A chunk, or what lies of it behind an offset.
async fn one_chunk(site: &Arc<Site>, domain: BucketId, chunk: ChunkId, from: u32) -> (Response, Vec<Bytes>) {
    let store = site.store.clone();
    let read = tokio::task::spawn_blocking(move || store.read_chunk(domain, chunk, 0..u32::MAX)).await;
    match read {
        Ok(Ok(bytes)) => tail_of(bytes, from),
        Ok(Err(ReadError::Absent)) => (Response::NoChunk, Vec::new()),
        Ok(Err(error)) => {
            tracing::error!(%chunk, %error, "a chunk here cannot be read");
            (Response::NoChunk, Vec::new())
        }
        Err(error) => (list::refused(&refusal::task(error)), Vec::new()),
    }
}

/// What lies of a chunk behind an offset, as an answer.
pub(super) fn tail_of(bytes: Bytes, from: u32) -> (Response, Vec<Bytes>) {
    let tail = bytes.slice((from as usize).min(bytes.len())..);
    (Response::Chunk(u32::try_from(tail.len()).unwrap_or(u32::MAX)), vec![tail])
}

async fn decided(site: &Arc<Site>, decide: message::Decide) -> Outcome<Response> {
    let bucket = known(site, decide.bucket).await?;
    Ok(match write::decide(site, bucket, decide).await? {
        Written::Record(record) => Response::Decided(record.encode().into()),
        Written::Nothing => Response::Done,
    })
}

async fn size(site: &Arc<Site>, bucket: BucketId) -> Outcome<Response> {
    if !site.is_complete(bucket) {
        return Ok(members::not_complete(site, bucket));
    }
    let read = move |view: &dyn View| {
        let bytes = space::sums(view, bucket).map_err(unreadable)?.record_bytes;
        Ok(Response::Size { bytes, vector: space::vector(view, bucket).map_err(unreadable)? })
    };
    let size = site.read(read).await?;
    Ok(if site.is_complete(bucket) { size } else { members::not_complete(site, bucket) })
}

async fn upload_call(site: &Arc<Site>, from: SiteId, call: UploadCall) -> Outcome<Response> {
    let bucket = known(site, call.bucket).await?;
    let id = call.upload.parse().map_err(|_| ServiceError::no_such_upload(&call.upload))?;
    let target = Target { bucket, key: call.key, id };
    if !target.is_here(site) {
        return Err(ServiceError::no_such_upload(&call.upload));
    }
    if !matches!(call.act, UploadAct::Describe | UploadAct::Parts { .. }) {
        site.duties.check(Act::Upload)?;
    }
    match call.act {
        UploadAct::Describe => Ok(Response::Upload(Box::new(target.read(site).await?))),
        UploadAct::Part(part) => {
            upload::take_part(site, &target, *part, from).await?;
            // The client is answered by a site that may promise the disk.
            site.settle_lazy().await?;
            Ok(Response::Done)
        }
        UploadAct::Parts { after, limit } => {
            target.read(site).await?;
            let (parts, more) = upload::parts_here(site, &target, after, limit as usize).await?;
            Ok(Response::Parts(parts, more))
        }
        UploadAct::Complete(complete) => {
            let asked = Completion { complete: *complete, heads: Vec::new() };
            complete_for(site, (&target, call.upload), &call.writer, asked).await
        }
        UploadAct::Replace(asked) => complete_for(site, (&target, call.upload), &call.writer, *asked).await,
        UploadAct::Abort => {
            upload::abort_here(site, &target).await?;
            Ok(Response::Done)
        }
    }
}

/// Completes an upload that lives here for another site.
async fn complete_for(
    site: &Arc<Site>,
    (target, upload): (&Target, String),
    writer: &str,
    asked: Completion,
) -> Outcome<Response> {
    let seen = seen::heard(target.bucket.id, &target.key, &asked.heads)?;
    let named = UploadTarget { bucket: target.bucket.name.clone(), key: target.key.clone(), upload };
    let request = relay::completion_of(named, asked.complete)?;
    let written = upload::complete_here(site, By { writer, seen }, target, &request).await?;
    // As of a part: so is the record, and the trees that it names.
    site.settle_lazy().await?;
    match written {
        Written::Record(record) => Ok(Response::Decided(record.encode().into())),
        Written::Nothing => Ok(Response::Done),
    }
}
