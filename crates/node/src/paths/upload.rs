//! Multipart uploads: begun, filled and finished at one site, which their id names; other sites forward.
//!
//! Before: the gateway's upload calls, or another site's [`UploadCall`]. After: `write.rs` for the object.
//! Invariants: a part counts its chunks until its upload ends; completing copies no payload; a completion that
//! succeeded is answered the same when it is repeated.

use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use skerry_base::codec::{self, Versioned};
use skerry_base::kv::View;
use skerry_base::limits::PUT_BYTES;
use skerry_base::{BucketId, ChunkId, Dot, NodeId, Origin, WallTime};
use skerry_gateway::service::{
    ChecksumKind, ChecksumShape, CompleteUpload, CopyPart, CreateUpload, CreatedUpload, ErrorKind, Expected,
    ListParts, Outcome, PartPage, PartSummary, PutOutcome, PutPart, PutPartOutcome, RequestContext,
    ServiceError, StoredPart, UploadBody, UploadTarget, complete_parts,
};
use skerry_model::multipart::{self, Part, Upload, UploadId};
use skerry_model::policy::Action;
use skerry_model::{Entry, Record, body, space};
use skerry_storage::Pin;

use super::bucket::Bucket;
use super::ingest::{self, Body};
use super::source::Chunks;
use super::write::{Asked, Written};
use super::{at_once, copy, get, held, put, refusal, relay, shape};
use crate::duties::Act;
use crate::peers::message::UploadAct;
use crate::site::{Site, entry, unreadable};
use crate::trust::entropy;

/// An upload and the bucket it goes to.
pub(crate) struct Target {
    pub(crate) bucket: Bucket,
    pub(crate) key: String,
    pub(crate) id: UploadId,
}

impl Target {
    /// The target of a request, if the caller may write there.
    pub(crate) async fn of(
        site: &Arc<Site>,
        context: &RequestContext,
        target: &UploadTarget,
        action: Action,
    ) -> Outcome<Self> {
        let bucket = site.allowed(context, &target.bucket, action).await?;
        if action == Action::Write {
            site.duties.check(Act::Upload)?;
        }
        let id = target.upload.parse().map_err(|_| ServiceError::no_such_upload(&target.upload))?;
        Ok(Self { bucket, key: target.key.clone(), id })
    }

    /// Whether it lives here.
    pub(crate) fn is_here(&self, site: &Site) -> bool {
        self.id.site == site.id
    }

    fn unknown(&self) -> ServiceError {
        ServiceError::no_such_upload(&self.id.to_string())
    }

    /// The upload, which must live here.
    pub(crate) async fn read(&self, site: &Arc<Site>) -> Outcome<Upload> {
        let (bucket, key, id) = (self.bucket.id, self.key.clone(), self.id);
        let found = site.read(move |view| space::upload(view, bucket, &key, id).map_err(unreadable)).await?;
        found.ok_or_else(|| self.unknown())
    }

    /// The same with its parts, as they were at one moment: who completes it meanwhile ends both.
    async fn read_whole(&self, site: &Arc<Site>) -> Outcome<(Upload, Vec<Part>)> {
        let (bucket, key, id) = (self.bucket.id, self.key.clone(), self.id);
        let read = move |view: &dyn View| {
            let Some(upload) = space::upload(view, bucket, &key, id)? else { return Ok(None) };
            Ok(Some((upload, space::list_parts(view, bucket, id, 0, usize::MAX)?)))
        };
        let found = site.read(move |view| read(view).map_err(unreadable)).await?;
        found.ok_or_else(|| self.unknown())
    }
}

/// The checksum that all parts of an upload carry.
pub(crate) fn checksum_of(upload: &Upload) -> (ChecksumKind, ChecksumShape) {
    let default = (ChecksumKind::Crc64Nvme, ChecksumShape::Full);
    upload.checksum.map_or(default, |(kind, composite)| (shape::shown_kind(kind), shape::shape(composite)))
}

/// Begins an upload.
pub(crate) fn create<'a>(
    site: &'a Arc<Site>,
    context: &'a RequestContext,
    request: CreateUpload,
) -> BoxFuture<'a, Outcome<CreatedUpload>> {
    Box::pin(async move {
        let bucket = site.allowed(context, &request.bucket, Action::Write).await?;
        super::scope::check(site, context, &bucket)?;
        bucket.check_residency(site)?;
        site.duties.check(Act::Write)?;
        let draw =
            entropy::bytes().map_err(|error| ServiceError::new(ErrorKind::Internal, error.to_string()))?;
        let id = UploadId { site: site.id, draw };
        let composite = request.shape == ChecksumShape::Composite;
        let upload = Upload {
            id,
            bucket: bucket.id,
            key: request.key,
            started: site.clock.wall(),
            writer: context.principal.access_key.clone(),
            headers: shape::stored_headers(request.headers),
            user_metadata: request.user_metadata,
            tags: Vec::new(),
            checksum: request.declared.then(|| (shape::stored_kind(request.checksum), composite)),
        };
        let entry = entry(&Entry::Upload(Box::new(upload)));
        site.commit(bucket.id, (), move |_| Ok(((), vec![entry]))).await?;
        Ok(CreatedUpload { upload: id.to_string() })
    })
}

/// Stores a part.
pub(crate) fn put_part<'a>(
    site: &'a Arc<Site>,
    context: &'a RequestContext,
    request: PutPart,
) -> BoxFuture<'a, Outcome<PutPartOutcome>> {
    Box::pin(async move {
        let target = Target::of(site, context, &request.target, Action::Write).await?;
        store_part(site, context, &target, request.number, request.body).await
    })
}

/// Stores a part from an object.
pub(crate) fn copy_part<'a>(
    site: &'a Arc<Site>,
    context: &'a RequestContext,
    request: CopyPart,
) -> BoxFuture<'a, Outcome<PutPartOutcome>> {
    Box::pin(async move {
        let target = Target::of(site, context, &request.target, Action::Write).await?;
        let (wanted, record) = copy::source(site, context, &request.source).await?;
        let (info, object) = get::described(&wanted.bucket, &record)?;
        let range = copied(request.range, object.size)?;
        let length = Some(range.end - range.start);
        let chunks = Chunks::new(site, &wanted.bucket, record.site);
        let stream = chunks.stream(object.chunks.clone(), range);
        let upload = UploadBody::new(stream, Expected { length, ..Expected::default() });
        let outcome = store_part(site, context, &target, request.number, upload).await?;
        Ok(PutPartOutcome { source_version: info.version, ..outcome })
    })
}

/// What of a source of this size becomes a part: said before a byte of it is read.
pub(crate) fn copied(range: Option<(u64, u64)>, size: u64) -> Outcome<std::ops::Range<u64>> {
    let range = match range {
        None => 0..size,
        Some((first, last)) if first <= last && last < size => first..last + 1,
        Some(_) => {
            let message = format!("the range is not within the {size} bytes of the source");
            return Err(ServiceError::new(ErrorKind::InvalidRange, message));
        }
    };
    if range.end - range.start > PUT_BYTES {
        let message = "a part has at most 5 GiB; copy the source in ranges of that size at most";
        return Err(ServiceError::new(ErrorKind::InvalidRequest, message));
    }
    Ok(range)
}

async fn store_part(
    site: &Arc<Site>,
    context: &RequestContext,
    target: &Target,
    number: u32,
    mut upload_body: UploadBody,
) -> Outcome<PutPartOutcome> {
    let upload = match target.is_here(site) {
        true => target.read(site).await?,
        false => {
            // The part would lie here until its site has it.
            target.bucket.check_residency(site)?;
            relay::describe(site, context, target).await?
        }
    };
    upload_body.also(checksum_of(&upload).0);
    let (body, digests) = ingest::ingest(site, target.bucket.id, upload_body).await?;
    let part = Part {
        bucket: target.bucket.id,
        upload: target.id,
        number,
        size: body.size,
        md5: digests.md5,
        chunks: body.chunks.clone(),
        checksums: shape::stored_checksums(&digests.checksums),
        modified: site.clock.wall(),
    };
    let outcome = PutPartOutcome {
        etag: digests.etag(),
        modified: part.modified,
        size: part.size,
        checksums: digests.checksums,
        source_version: None,
    };
    match target.is_here(site) {
        true => commit_part(site, target, part, body).await?,
        false => relay::part(site, context, target, part, body).await?,
    }
    Ok(outcome)
}

/// Commits a part whose chunks are written, if its upload still goes on.
pub(crate) async fn commit_part(site: &Arc<Site>, target: &Target, part: Part, body: Body) -> Outcome<()> {
    let (bucket, key, id) = (target.bucket.id, target.key.clone(), target.id);
    let unknown = target.unknown();
    let stored =
        body.small.into_iter().fold(entry(&Entry::Part(Box::new(part))), skerry_storage::Entry::with_body);
    let stored = if site.lazy { stored.lazy() } else { stored };
    let propose = move |view: &dyn View| match space::upload(view, bucket, &key, id).map_err(unreadable)? {
        Some(_) => Ok(((), vec![stored])),
        None => Err(unknown),
    };
    site.commit(bucket, body.pins, propose).await
}

/// Takes a part from the site that received it: its chunks, then the part.
pub(crate) async fn take_part(
    site: &Arc<Site>,
    target: &Target,
    part: Part,
    from: skerry_base::SiteId,
) -> Outcome<()> {
    if part.bucket != target.bucket.id || part.upload != target.id {
        return Err(ServiceError::new(ErrorKind::InvalidRequest, "a part of another upload"));
    }
    target.read(site).await?;
    let pins = at_once::take(site, &target.bucket, &part.chunks, part.size, from).await?;
    let body = Body { size: part.size, chunks: part.chunks.clone(), small: None, pins };
    commit_part(site, target, part, body).await
}

/// Makes the object.
pub(crate) fn complete<'a>(
    site: &'a Arc<Site>,
    context: &'a RequestContext,
    request: CompleteUpload,
) -> BoxFuture<'a, Outcome<PutOutcome>> {
    Box::pin(async move {
        let target = Target::of(site, context, &request.target, Action::Write).await?;
        super::scope::check(site, context, &target.bucket)?;
        if !target.is_here(site) {
            return relay::complete(site, context, &target, &request).await;
        }
        let by = By { writer: &context.principal.access_key, seen: Vec::new() };
        let written = complete_here(site, by, &target, &request).await?;
        let receipt = super::scope::reach(site, context, &target.bucket, &written).await?;
        Ok(put::outcome(&target.bucket, &written, receipt))
    })
}

/// Who completes an upload.
pub(crate) struct By<'a> {
    /// The access key.
    pub(crate) writer: &'a str,
    /// What the site that was asked knows of the key, if that is another one.
    pub(crate) seen: Vec<Record>,
}

/// Makes the object of an upload that lives here.
pub(crate) async fn complete_here(
    site: &Arc<Site>,
    by: By<'_>,
    target: &Target,
    request: &CompleteUpload,
) -> Outcome<Written> {
    let error = match try_complete(site, by, target, request).await {
        Ok(written) => return Ok(written),
        Err(error) => error,
    };
    let made = match error.kind() {
        // A part that cannot be held any more: another completion may have ended the upload meanwhile.
        ErrorKind::NoSuchUpload | ErrorKind::InvalidPart => completed_before(site, target).await?,
        ErrorKind::PreconditionFailed => made_before(site, target).await?,
        _ => None,
    };
    let written = made.filter(|written| is_asked_again(request, written)).ok_or(error)?;
    super::tenure::again(site, &target.bucket, &written).await?;
    Ok(written)
}

/// Whether a completion names the parts that an upload was made of.
fn is_asked_again(request: &CompleteUpload, written: &Written) -> bool {
    let Written::Record(record) = written else { return true };
    record.object().is_none_or(|object| request.etag().is_some_and(|etag| etag == object.etag))
}

/// What fails a condition may be the upload's own object: then its completion is only asked for again.
async fn made_before(site: &Arc<Site>, target: &Target) -> Outcome<Option<Written>> {
    let is_undecided = held::is_undecided(site, target.bucket.id, target.id).await?;
    let written = completed_before(site, target).await?;
    let id = target.id;
    let is_unknown =
        move |view: &dyn View| Ok(what_became(view, id)?.is_some_and(|found| found.dot == UNKNOWN));
    if written.is_none() && site.read(is_unknown).await? {
        let message = "the condition does not hold now, but this upload was being completed before, and the answer of the \
                       bucket's home was lost: whether it made the object, and that was replaced since, cannot be told any more. \
                       Read the object; then abort the upload";
        return Err(ServiceError::new(ErrorKind::HomeUnreachable, message));
    }
    if written.is_none() && is_undecided {
        let message = "the condition does not hold now, but this upload was being completed before, and what the \
                       bucket's home decided on that is not known here yet, which it is ten minutes after that home was \
                       heard again at the latest: complete it again then";
        return Err(ServiceError::new(ErrorKind::HomeUnreachable, message));
    }
    Ok(written)
}

async fn try_complete(
    site: &Arc<Site>,
    by: By<'_>,
    target: &Target,
    request: &CompleteUpload,
) -> Outcome<Written> {
    let (bucket, id) = (target.bucket.id, target.id);
    let (upload, parts) = target.read_whole(site).await?;
    let stored: Vec<StoredPart> = parts.iter().map(stored_part).collect();
    let (kind, shape) = checksum_of(&upload);
    let completion = complete_parts(request, &stored, kind, shape)?;
    let chosen: Vec<&Part> = completion.parts.iter().filter_map(|index| parts.get(*index)).collect();
    let mut pins = hold_parts(site, bucket, &chosen).await?;
    let composed = body::compose(multipart::bodies(&chosen));
    let top = composed.top.clone();
    pins.append(&mut ingest::put_trees(&site.store, bucket, composed).await?);
    let mut object = multipart::object(&upload, &chosen, completion.etag, site.clock.wall());
    object.chunks = top;
    object.checksums = shape::stored_checksums(&[completion.checksum]);
    if object.parts.is_empty() {
        let sizes: Vec<u64> = chosen.iter().map(|part| part.size).collect();
        object.parts = shape::folded_parts(&sizes);
    }
    let asked = Asked {
        bucket: target.bucket.clone(),
        key: target.key.clone(),
        condition: request.condition.clone(),
        ask: skerry_model::write::Ask::Put(Box::new(object)),
        writer: by.writer.into(),
        scope: super::scope::of_bucket(&target.bucket),
        small: None,
        pins,
        with: vec![Entry::UploadEnd { bucket, key: target.key.clone(), id }],
        upload: Some(id),
    };
    super::write::replace(site, asked, by.seen).await
}

/// Keeps what the parts consist of until the object counts it: a part that is put once more meanwhile counts other
/// chunks, and on a full disk what nothing counts goes at once.
async fn hold_parts(site: &Arc<Site>, bucket: BucketId, parts: &[&Part]) -> Outcome<Vec<Pin>> {
    let store = site.store.clone();
    let top: Vec<ChunkId> = parts.iter().flat_map(|part| &part.chunks).map(|chunk| chunk.id).collect();
    let pin = move || top.into_iter().map(|chunk| store.pin(bucket, chunk)).collect::<Option<Vec<Pin>>>();
    let pins = tokio::task::spawn_blocking(pin).await.map_err(refusal::task)?;
    let message =
        "a part was replaced while the upload was completed, or cannot be read; list the parts again";
    pins.ok_or_else(|| ServiceError::new(ErrorKind::InvalidPart, message))
}

fn stored_part(part: &Part) -> StoredPart {
    let etag = skerry_base::hex::text(&part.md5);
    let checksums = shape::shown_checksums(&part.checksums);
    StoredPart { number: part.number, etag, size: part.size, checksums }
}

/// What an upload became, so that a repeated completion is answered the same.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Completed {
    /// The version.
    pub(crate) dot: Dot,
    /// When; forgotten a day later.
    pub(crate) at: WallTime,
}

impl Versioned for Completed {
    const NAME: &'static str = "completed upload";
    const VERSION: u8 = 1;
}

/// In the place of the record that an upload became: the bucket's home was asked, and nobody can tell any more what it decided.
pub(crate) const UNKNOWN: Dot = Dot { origin: Origin { node: NodeId([0; 16]), incarnation: 0 }, seq: 0 };

/// What all keys of completed uploads begin with.
pub(crate) const COMPLETED: &[u8] = b"completed/";

fn completed_key(id: UploadId) -> Bytes {
    [COMPLETED, &id.to_bytes()].concat().into()
}

/// What an upload became: to be committed with the record, so that whoever repeats the completion is told, whatever
/// became of the first answer.
pub(crate) fn completed(id: UploadId, dot: Dot, at: WallTime) -> Entry {
    let value = Some(Bytes::from(codec::encode(&Completed { dot, at })));
    Entry::Local { key: completed_key(id), value }
}

/// What is noted of an upload that was completed.
fn what_became(view: &dyn View, id: UploadId) -> Outcome<Option<Completed>> {
    let noted = space::local(view, &completed_key(id)).map_err(unreadable)?;
    noted.map(|bytes| codec::decode(&bytes).map_err(|error| unreadable(error.into()))).transpose()
}

async fn completed_before(site: &Arc<Site>, target: &Target) -> Outcome<Option<Written>> {
    let (bucket, key, id) = (target.bucket.id, target.key.clone(), target.id);
    let read = move |view: &dyn View| {
        let Some(completed) = what_became(view, id)? else { return Ok(None) };
        space::record(view, bucket, &key, completed.dot).map_err(unreadable)
    };
    let record = site.read(read).await?;
    Ok(record.map(|record| Written::Record(Box::new(record))))
}

/// Gives the upload up.
pub(crate) fn abort<'a>(
    site: &'a Arc<Site>,
    context: &'a RequestContext,
    target: UploadTarget,
) -> BoxFuture<'a, Outcome<()>> {
    Box::pin(async move {
        let target = Target::of(site, context, &target, Action::Write).await?;
        if target.is_here(site) {
            return abort_here(site, &target).await;
        }
        relay::act(site, context, &target, UploadAct::Abort).await.map(drop)
    })
}

/// Gives an upload up that lives here.
pub(crate) async fn abort_here(site: &Arc<Site>, target: &Target) -> Outcome<()> {
    let (bucket, key, id) = (target.bucket.id, target.key.clone(), target.id);
    let unknown = target.unknown();
    let propose = move |view: &dyn View| {
        if space::upload(view, bucket, &key, id).map_err(unreadable)?.is_none() {
            return Err(unknown);
        }
        Ok(((), vec![entry(&Entry::UploadEnd { bucket, key, id })]))
    };
    site.commit(bucket, (), propose).await
}

/// One page of the parts.
pub(crate) fn parts<'a>(
    site: &'a Arc<Site>,
    context: &'a RequestContext,
    query: ListParts,
) -> BoxFuture<'a, Outcome<PartPage>> {
    Box::pin(async move {
        let target = Target::of(site, context, &query.target, Action::Read).await?;
        let (upload, parts, more) = match target.is_here(site) {
            true => {
                let upload = target.read(site).await?;
                let (parts, more) = parts_here(site, &target, query.after, query.limit).await?;
                (upload, parts, more)
            }
            false => relay::parts(site, context, &target, query.after, query.limit).await?,
        };
        let shown = |part: &Part| {
            let StoredPart { number, etag, size, checksums } = stored_part(part);
            PartSummary { number, etag, size, modified: part.modified, checksums }
        };
        let key = site.access_key(&upload.writer).await?;
        let owner = key.map_or_else(|| target.bucket.owner.clone(), |key| key.owner);
        let checksum = upload.checksum.map(|_| checksum_of(&upload));
        Ok(PartPage {
            parts: parts.iter().map(shown).collect(),
            more,
            initiator: upload.writer,
            owner,
            checksum,
        })
    })
}

/// Some parts of an upload that lives here.
pub(crate) async fn parts_here(
    site: &Arc<Site>,
    target: &Target,
    after: u32,
    limit: usize,
) -> Outcome<(Vec<Part>, bool)> {
    let (bucket, id) = (target.bucket.id, target.id);
    let read =
        move |view: &dyn View| space::list_parts(view, bucket, id, after, limit + 1).map_err(unreadable);
    let mut parts = site.read(read).await?;
    let more = parts.len() > limit && limit > 0;
    parts.truncate(limit);
    Ok((parts, more))
}
