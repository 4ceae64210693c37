//! One write, from what was asked to what is durable: here, or at the bucket's home when it is conditional.
//!
//! Before: `put.rs`, `delete.rs`, `copy.rs`, `upload.rs` with a body that is written. After: the commit
//! thread. Invariants: a condition is decided at the home or the write is refused, never ignored; what the
//! home decides is stored here before it is answered; payload stays pinned until its record is durable, and what a home is
//! asked about until it is known what it decided (`held.rs`).

use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use skerry_base::kv::{Overlay, View};
use skerry_base::limits::JOURNAL_BODY_BYTES;
use skerry_base::{BucketId, Dot, SiteId};
use skerry_federation::undecided::DECIDED_WITHIN;
use skerry_gateway::service::{
    ErrorKind, EtagTest, Outcome, Receipt, ServiceError, VersionId, WriteCondition,
};
use skerry_model::bucket::Turn;
use skerry_model::multipart::UploadId;
use skerry_model::record::{HomeDecision, RecordError, Scope, Versioning};
use skerry_model::write::{self, Ask, Conditions, Intent, Proposed, WriteRefusal};
use skerry_model::{Entry, Object, Record, space};
use skerry_storage::{Pin, SmallBody, Store};

use super::bucket::Bucket;
use super::held::{self, Pins};
use super::home::{self, Standpoint, Turned};
use super::{acquaint, at_once, refusal, seen, shape, tenure, upload};
use crate::copies::look::is_here;
use crate::duties::Act;
use crate::following::{self, joining};
use crate::peers::PeerError;
use crate::peers::message::{self, Decide, Request, Response, Which};
use crate::site::{Site, Stamps, entry, unreadable};

/// How often a write joins a bucket that its site leaves.
const JOINED_AGAIN: u32 = 3;

/// A write that was asked for.
pub(crate) struct Asked {
    /// The bucket.
    pub(crate) bucket: Bucket,
    /// The key.
    pub(crate) key: String,
    /// What must hold.
    pub(crate) condition: WriteCondition,
    /// What.
    pub(crate) ask: Ask,
    /// The access key.
    pub(crate) writer: String,
    /// The scope in which it asks to be answered: as many copies are kept, be it more than the bucket wants.
    pub(crate) scope: Scope,
    /// A body for the journal.
    pub(crate) small: Option<SmallBody>,
    /// What keeps the payload until then.
    pub(crate) pins: Vec<Pin>,
    /// Entries that are committed with it, such as the end of an upload.
    pub(crate) with: Vec<Entry>,
    /// The upload that it completes, which must still go on.
    pub(crate) upload: Option<UploadId>,
}

/// What came of it.
pub(crate) enum Written {
    /// A record, new or the same as before.
    Record(Box<Record>),
    /// There was nothing to delete.
    Nothing,
}

impl Written {
    /// What the answer carries beyond S3, when this scope was reached.
    pub(crate) fn receipt(&self, scope: String) -> Receipt {
        let token = match self {
            Self::Record(record) => Some(token(record.bucket, record.dot)),
            Self::Nothing => None,
        };
        Receipt { scope: Some(scope), token, lost: None }
    }
}

/// What a later read brings along to see this write.
pub(crate) fn token(bucket: BucketId, dot: Dot) -> String {
    format!("{bucket}-{}", space::VersionId::Dot(dot))
}

/// Reads a token.
pub(crate) fn parse_token(token: &str) -> Option<(BucketId, Dot)> {
    let (bucket, dot) = token.split_once('-')?;
    match dot.parse().ok()? {
        space::VersionId::Dot(dot) => Some((bucket.parse().ok()?, dot)),
        space::VersionId::Null => None,
    }
}

/// Carries it out.
pub(crate) async fn write(site: &Arc<Site>, asked: Asked) -> Outcome<Written> {
    replace(site, asked, Vec::new()).await
}

/// The same for another site, whose client had seen these heads of the key.
pub(crate) async fn replace(site: &Arc<Site>, asked: Asked, seen: Vec<Record>) -> Outcome<Written> {
    acquainted(site, &asked).await?;
    known(site, asked, seen).await
}

/// What comes before a write: whether it may be, and what is to be heard of its key.
pub(crate) async fn acquainted(site: &Arc<Site>, asked: &Asked) -> Outcome<()> {
    site.duties.check(act(asked))?;
    acquaint::acquaint(site, asked, None).await
}

/// Carries it out once that was done.
pub(crate) fn known<'a>(
    site: &'a Arc<Site>,
    asked: Asked,
    seen: Vec<Record>,
) -> BoxFuture<'a, Outcome<Written>> {
    Box::pin(async move {
        if site.stays_out(&asked.bucket) {
            // The home writes it; payload would have nobody here who cares for it.
            if matches!(asked.ask, Ask::Put(_)) {
                asked.bucket.check_residency(site)?;
            }
            let asked = Asked { bucket: home(site, asked.bucket).await?, ..asked };
            return at_home(site, asked, seen).await;
        }
        if asked.condition.is_none() {
            if joining::changes_nothing(site, &asked).await? {
                return Ok(Written::Nothing);
            }
            return here(site, asked, site.id, seen).await;
        }
        let asked = Asked { bucket: home(site, asked.bucket).await?, ..asked };
        match asked.bucket.home == site.id {
            true => here(site, asked, site.id, seen).await,
            false => at_home(site, asked, seen).await,
        }
    })
}

/// The bucket with who decides about it now.
async fn home(site: &Arc<Site>, bucket: Bucket) -> Outcome<Bucket> {
    let bucket = home::named(site, bucket).await?;
    Ok(Bucket { home: tenure::whose(site, &bucket).await?, ..bucket })
}

/// What a write is to the duty of this site.
const fn act(asked: &Asked) -> Act {
    match asked.upload {
        Some(_) => Act::Upload,
        None => Act::Write,
    }
}

/// With the versioning that the bucket has now: a body may have been on its way for hours.
async fn as_now(site: &Site, asked: Asked) -> Outcome<Asked> {
    let now = site.bucket_of(asked.bucket.id).await?;
    let versioning = now.map_or(asked.bucket.versioning, |now| now.versioning);
    Ok(Asked { bucket: Bucket { versioning, ..asked.bucket }, ..asked })
}

/// Sees to what a write does by itself that made no record, because it is the same as before.
async fn settled(site: &Arc<Site>, bucket: BucketId, (large, payload): (bool, SiteId)) -> Outcome<()> {
    // It refers to nothing new: its commit has synced no payload. That of the record, be it this site's own, may have lain
    // elsewhere, or been let go of here: what is answered for is what came just now.
    if large {
        site.settle().await?;
    }
    // Nor does a look for what a site that leaves must hand over find it by the record.
    if payload == site.id {
        site.leaving.came(&site.stamps, bucket)?;
    }
    Ok(())
}

/// Decides on the commit thread of this site. `heads` are merged first.
pub(crate) async fn here(
    site: &Arc<Site>,
    asked: Asked,
    payload: SiteId,
    heads: Vec<Record>,
) -> Outcome<Written> {
    let bucket = asked.bucket.id;
    let asked = as_now(site, asked).await?;
    let (stamps, duties, act) = (site.stamps.clone(), site.duties.clone(), act(&asked));
    let Asked { bucket: resolved, key, condition, ask, writer, scope, small, pins, with, upload } = asked;
    let within = tenure::keeps(site).then(|| site.clone());
    let standpoint = Standpoint { system: site.system, me: site.id, within };
    if !condition.is_none() {
        tenure::check(site, &resolved)?;
    }
    let (of, resolved_key) = (resolved.clone(), key.clone());
    // A decision must not be forgotten, nor what another site was answered.
    let lazy = site.lazy && condition.is_none() && payload == site.id;
    let large = !lazy && !pins.is_empty() && payload == site.id;
    let clock = site.clock;
    let by = (payload != site.id).then(|| clock.now().after(DECIDED_WITHIN));
    let mut proposal = Box::new(Proposal {
        store: site.store.clone(),
        stamps,
        standpoint,
        resolved,
        key,
        condition,
        ask,
        writer,
        scope,
        small,
        with,
        upload,
        payload,
        heads,
        lazy,
    });
    // Kept over all tries: what was uploaded for longer than unwanted chunks rest would be collected in between.
    let pins = Arc::new(pins);
    for _ in 0..JOINED_AGAIN + tenure::STEPS {
        site.leaving.pass(site, bucket).await;
        joining::join(site, bucket, &resolved_key).await?;
        let duties = duties.clone();
        let propose = move |view: &dyn View| {
            // Asked again where it is decided: nothing is written after a duty that forbids it was taken up.
            duties.check(act)?;
            if by.is_some_and(|by| clock.now() > by) {
                return Err(too_late());
            }
            proposal.decide_inside(view)
        };
        let (became, made) = match site.commit(bucket, pins.clone(), propose).await? {
            Inside::Became(became, made) => (became, made),
            // It left the bucket in between: it becomes a member again.
            Inside::Left(undecided) => {
                proposal = undecided;
                continue;
            }
            Inside::Not(turn, undecided) => {
                tenure::step(site, bucket, turn).await?;
                proposal = undecided;
                continue;
            }
            Inside::Rests(result, made, records) => {
                tenure::rests(site, &of, made, records).await?;
                return result;
            }
        };
        return answerable(site, &of, (became, made), (large, payload)).await;
    }
    Err(refusal::just_left())
}

/// What became of a write, once that may be answered.
async fn answerable(
    site: &Arc<Site>,
    bucket: &Bucket,
    (became, made): (Became, Option<tenure::Made>),
    body: (bool, SiteId),
) -> Outcome<Written> {
    if became.stood {
        settled(site, bucket.id, body).await?;
    }
    if let Some(made) = made {
        tenure::decided(site, bucket, &became.written, made).await?;
    }
    Ok(became.written)
}

/// Who asked has given up, and counts on it that nothing comes of it any more.
fn too_late() -> ServiceError {
    let message = "the home had too much else to do, and did not decide in time: try again";
    ServiceError::new(ErrorKind::HomeUnreachable, message)
}

struct Proposal {
    store: Arc<Store>,
    stamps: Arc<Stamps>,
    standpoint: Standpoint,
    resolved: Bucket,
    key: String,
    condition: WriteCondition,
    ask: Ask,
    writer: String,
    scope: Scope,
    small: Option<SmallBody>,
    with: Vec<Entry>,
    upload: Option<UploadId>,
    payload: SiteId,
    heads: Vec<Record>,
    /// Whether it may be answered before it is on disk.
    lazy: bool,
}

/// What a write became.
struct Became {
    written: Written,
    /// Its record was there before.
    stood: bool,
}

/// What came of a proposal.
enum Inside {
    /// It was decided; in which view of the site all holders must have it before it is answered.
    Became(Became, Option<tenure::Made>),
    /// The answer rests on these, which all holders of the view must have.
    Rests(Outcome<Written>, tenure::Made, Vec<Record>),
    /// The site has left the bucket.
    Left(Box<Proposal>),
    /// Something else is to be done before it can be decided.
    Not(Turn, Box<Proposal>),
}

impl Proposal {
    /// Unless the site has left the bucket: its own records would be of an origin whose others it has forgotten.
    fn decide_inside(self: Box<Self>, view: &dyn View) -> Outcome<(Inside, Vec<skerry_storage::Entry>)> {
        if self.stamps.is_out(self.resolved.id) {
            return Ok((Inside::Left(self), Vec::new()));
        }
        let (id, system) = (self.resolved.id, self.standpoint.system);
        if self.stamps.has_ended(view, system, id).map_err(unreadable)? {
            return Err(ServiceError::no_such_bucket(&self.resolved.name));
        }
        if let Some(id) = self.upload
            && space::upload(view, self.resolved.id, &self.key, id).map_err(unreadable)?.is_none()
        {
            return Err(ServiceError::no_such_upload(&id.to_string()));
        }
        let turned = match self.condition.is_none() {
            true => None,
            false => Some(home::turn(view, &self.standpoint, self.resolved.id)?),
        };
        let (epoch, within) = match turned {
            None => (None, None),
            Some(Turned::Decides { epoch, within }) => (Some(epoch), within),
            Some(Turned::Not(turn)) => return Ok((Inside::Not(turn, self), Vec::new())),
        };
        let (known, merged) = seen::laid_over(view, self.resolved.id, &self.heads)?;
        let mut entries: Vec<_> = known.iter().map(entry).collect();
        let (id, key) = (self.resolved.id, within.map(|_| self.key.clone()));
        let view = Overlay::new(view, &merged);
        let result = (*self).decide(&view, epoch);
        let rests = match &result {
            Ok((became, _)) => matches!(became.written, Written::Nothing),
            Err(error) => rests_on_state(error),
        };
        if let Some((within, key)) = within.zip(key).filter(|_| rests) {
            let records = space::resting(&view, id, &key).map_err(unreadable)?;
            let result = result.map(|(became, more)| {
                entries.extend(more);
                became.written
            });
            return Ok((Inside::Rests(result, within, records), entries));
        }
        let (became, more) = result?;
        entries.extend(more);
        Ok((Inside::Became(became, within), entries))
    }

    fn decide(self, view: &dyn View, epoch: Option<u64>) -> Outcome<(Became, Vec<skerry_storage::Entry>)> {
        let mut entries = Vec::new();
        let proposed = self.stamps.with(|clock| {
            let conditions = conditions(&self.condition);
            let wall = self.stamps.wall();
            let home = epoch.map(|epoch| HomeDecision { epoch, n: clock.stamp(wall, None).0 });
            let intent = Intent {
                bucket: self.resolved.id,
                key: &self.key,
                origin: self.stamps.origin_of(self.resolved.id),
                site: self.payload,
                wall,
                present: self.stamps.present(),
                versioning: self.resolved.versioning,
                writer: &self.writer,
                scope: self.scope,
                home,
                placement: None,
                conditions: &conditions,
                ask: self.ask,
            };
            write::propose(view, intent, clock)
        });
        let proposed = proposed.map_err(|error| refused(error, &self.key))?;
        let stood = matches!(proposed, Proposed::Same(_));
        let written = match proposed {
            Proposed::Write { record, folded } => {
                if !folded.is_empty() {
                    tracing::warn!(key = self.key, folded = folded.len(), "losers of conflicts were folded");
                }
                let said = Entry::Write(record);
                let stored = entry(&said);
                entries.push(self.small.into_iter().fold(stored, skerry_storage::Entry::with_body));
                // What was put in a moment ago.
                if let Entry::Write(record) = said { Written::Record(record) } else { Written::Nothing }
            }
            Proposed::Same(record) => {
                let small = self.small.filter(|_| self.payload == self.standpoint.me);
                entries.extend(small.and_then(|small| body_of(&self.store, small, record.clone())));
                Written::Record(record)
            }
            Proposed::Nothing => Written::Nothing,
        };
        entries.extend(self.with.iter().map(entry));
        if let (Some(id), Written::Record(record)) = (self.upload, &written) {
            entries.push(entry(&upload::completed(id, record.dot, self.stamps.wall())));
        }
        if self.lazy {
            entries = entries.into_iter().map(skerry_storage::Entry::lazy).collect();
        }
        Ok((Became { written, stood }, entries))
    }
}

/// Whether a refusal says what is there.
fn rests_on_state(error: &ServiceError) -> bool {
    matches!(error.kind(), ErrorKind::PreconditionFailed | ErrorKind::NoSuchKey | ErrorKind::NoSuchVersion)
}

/// What was written is there already, maybe without its body, which lies at another site or is lost: what is
/// acknowledged here lies here.
fn body_of(store: &Store, small: SmallBody, record: Box<Record>) -> Option<skerry_storage::Entry> {
    let lacks = record.object().is_some_and(|object| !is_here(store, record.bucket, object));
    lacks.then(|| entry(&Entry::Record(record)).with_body(small))
}

fn conditions(condition: &WriteCondition) -> Conditions {
    let test = |test: &EtagTest| match test {
        EtagTest::Any => write::EtagTest::Any,
        EtagTest::OneOf(etags) => write::EtagTest::OneOf(etags.clone()),
    };
    Conditions {
        if_match: condition.matches.as_ref().map(test),
        if_none_match: condition.absent.then_some(write::EtagTest::Any),
        ..Conditions::default()
    }
}

/// Why a write did not become a record, in the words of S3.
pub(crate) fn refused(error: WriteRefusal, key: &str) -> ServiceError {
    match error {
        WriteRefusal::Precondition(which) => {
            let message = format!("the condition {which} does not hold of the current object; read it again");
            ServiceError::new(ErrorKind::PreconditionFailed, message)
        }
        WriteRefusal::NoSuchKey => ServiceError::no_such_key(key),
        WriteRefusal::NoSuchVersion => {
            ServiceError::new(ErrorKind::NoSuchVersion, "there is no such version of the key")
        }
        WriteRefusal::Record(RecordError::Key(_)) => {
            ServiceError::new(ErrorKind::KeyTooLong, "a key has 1 to 1024 bytes")
        }
        WriteRefusal::Record(error) => ServiceError::new(ErrorKind::InvalidRequest, error.to_string()),
        WriteRefusal::Space(error) => unreadable(error),
    }
}

/// Has the home decide; stores the decision here. `seen`: what the client had seen of the key beside what is here.
async fn at_home(site: &Arc<Site>, mut asked: Asked, seen: Vec<Record>) -> Outcome<Written> {
    let (bucket, home) = (asked.bucket.id, asked.bucket.home);
    // Who follows a prefix only becomes a member by what is decided, and not by what is refused.
    if !site.stays_out(&asked.bucket) && !site.follows_part(bucket) {
        site.join(bucket).await?;
    }
    let mut heads = seen::of_key(site, bucket, &asked.key).await?;
    heads.extend(seen);
    let request = Request::Decide(Decide {
        bucket,
        key: asked.key.clone(),
        condition: wire_condition(&asked.condition),
        write: wire_write(&asked.ask)?,
        heads: seen::told(&heads),
        writer: asked.writer.clone(),
        site: site.id,
    });
    // Small bodies have no chunk on disk yet; the home may ask for it before the record is here.
    let pins: Pins = Arc::new((hold(site, asked.small.as_ref()).await?, std::mem::take(&mut asked.pins)));
    let holding = held::begin(site, &asked, &pins).await?;
    let undecided = match asked.ask {
        Ask::Put(_) => joining::begin(site, &asked.bucket).await,
        _ => Ok(None),
    };
    let undecided = match undecided {
        Ok(undecided) => undecided,
        Err(error) => {
            held::end(holding).await;
            return Err(error);
        }
    };
    let response = ask_home(site, (home, bucket), &request).await;
    if let Some(undecided) = undecided {
        // Its body lies here: what was written, or may have been, makes a member before it is stored.
        if may_be_written(&response) {
            joining::join(site, bucket, &asked.key).await?;
        }
        undecided.end(site).await?;
    }
    if !may_be_written(&response) {
        held::end(holding).await;
        return match response {
            Ok(Response::Done) => Ok(Written::Nothing),
            Ok(Response::Refused { code, message }) => Err(refusal::relayed(&code, message)),
            Ok(_) => Err(home_unreachable(site, home, "it answered something else")),
            Err(error) => Err(home_unreachable(site, home, &error.to_string())),
        };
    }
    // From here on the body stays until it is known, whatever is answered.
    match response {
        Ok(Response::Decided(record)) => {
            let mut with = asked.with;
            with.extend(holding.iter().flat_map(held::Holding::ends));
            let written = decided(site, bucket, &record, pins, (with, asked.upload)).await?;
            held::ended(holding);
            if let Written::Record(record) = &written {
                tenure::heard_decided(site, home, record);
            }
            Ok(written)
        }
        Ok(Response::Refused { code, message }) => Err(refusal::relayed(&code, message)),
        Ok(_) => Err(home_unreachable(site, home, "it answered something else")),
        Err(error) => Err(home_unheard(site, home, &error)),
    }
}

/// Whether a home wrote something, or may have: of refusals only those that say what is there come before anything is.
fn may_be_written(response: &Result<Response, PeerError>) -> bool {
    use ErrorKind::{HomeNotNamed, NoSuchKey, NoSuchVersion, PreconditionFailed};
    match response {
        Ok(Response::Done) => false,
        Ok(Response::Refused { code, .. }) => {
            let before = [PreconditionFailed, NoSuchKey, NoSuchVersion, HomeNotNamed];
            !before.iter().any(|kind| kind.code() == code)
        }
        Ok(_) => true,
        Err(error) => !error.is_unsent(),
    }
}

/// Another node of this site is not waited for when the view goes on without it.
async fn ask_home(
    site: &Arc<Site>,
    (home, bucket): (SiteId, BucketId),
    request: &Request,
) -> Result<Response, PeerError> {
    let asked = site.peers.call(home, request);
    if !tenure::is_fellow(site, home) {
        return asked.await.map(|answer| answer.response);
    }
    tokio::select! {
        biased;
        answer = asked => answer.map(|answer| answer.response),
        () = tenure::leaves(site, bucket, home) => Err(PeerError::Silent),
    }
}

/// A small body as a chunk that another site can ask for before any record refers to it.
pub(crate) async fn hold(site: &Arc<Site>, small: Option<&SmallBody>) -> Outcome<Option<Pin>> {
    let Some(small) = small.cloned() else { return Ok(None) };
    let (store, kind) = (site.store.clone(), skerry_base::ChunkKind::Leaf);
    let put = move || store.put_chunk(small.domain(), skerry_storage::Class::Payload, kind, small.bytes());
    let pin = tokio::task::spawn_blocking(put).await.map_err(refusal::task)?;
    pin.map(Some).map_err(refusal::storage)
}

async fn decided(
    site: &Arc<Site>,
    bucket: BucketId,
    record: &Bytes,
    pins: Pins,
    (mut with, completes): (Vec<Entry>, Option<UploadId>),
) -> Outcome<Written> {
    let record = Record::admit(record)
        .map_err(|error| ServiceError::new(ErrorKind::Internal, format!("the home's decision: {error}")))?;
    with.extend(completes.map(|id| upload::completed(id, record.dot, site.clock.wall())));
    let record = Box::new(record);
    let holds = pins.0.is_some() || !pins.1.is_empty();
    let with = Arc::new(with);
    for _ in 0..JOINED_AGAIN {
        let (record_here, with_it, stamps) = (record.clone(), with.clone(), site.stamps.clone());
        let decision = Decision { record: record_here, with: with_it, stamps, holds };
        if site.commit(bucket, pins.clone(), move |view| decision.store(view)).await? {
            // A decision that a feed brought first refers to nothing new: its commit has synced no payload.
            if holds {
                site.settle().await?;
            }
            return Ok(Written::Record(record));
        }
        // It left the bucket meanwhile. Of a body that lies here only it becomes a member again; of anything else the
        // home has all.
        if !holds && with.is_empty() {
            return Ok(Written::Record(record));
        }
        joining::join(site, bucket, &record.key).await?;
    }
    Err(refusal::just_left())
}

/// What a home decided, to be stored at the site that asked.
struct Decision {
    record: Box<Record>,
    with: Arc<Vec<Entry>>,
    stamps: Arc<Stamps>,
    /// Whether a body lies here only.
    holds: bool,
}

impl Decision {
    /// False if the site has left the bucket: what is left of it is being dropped, and this would go with it.
    fn store(self, view: &dyn View) -> Outcome<(bool, Vec<skerry_storage::Entry>)> {
        let bucket = self.record.bucket;
        // Who follows a prefix keeps its record; what else comes with it needs a member.
        let is_more = self.holds || !self.with.is_empty();
        if self.stamps.is_out(bucket) && (is_more || !following::stores(view, bucket, &self.record.key)?) {
            return Ok((false, Vec::new()));
        }
        let kept = space::keep(view, bucket, vec![*self.record]).map_err(unreadable)?;
        Ok((true, kept.iter().chain(self.with.iter()).map(entry).collect()))
    }
}

/// It was asked, and what it answered is not known: then nothing is as harmless as it is where it could not be asked.
fn home_unheard(site: &Site, home: SiteId, error: &PeerError) -> ServiceError {
    let message = format!(
        "only {}, the bucket's home, can decide this condition, and it did not answer ({error}): it may have decided already; {}",
        site.peers.roster.name(home),
        refusal::in_doubt(Versioning::Off, true)
    );
    ServiceError::new(ErrorKind::HomeUnreachable, message)
}

fn home_unreachable(site: &Site, home: SiteId, why: &str) -> ServiceError {
    let lost = site.copies.losses().remove(&home).filter(|loss| loss.is_lost);
    let name = lost.as_ref().map_or_else(|| site.peers.roster.name(home), |loss| loss.name.clone());
    if tenure::is_fellow(site, home) {
        let message = format!(
            "{name}, the bucket's home, cannot be reached ({why}); if it is gone another node of this site takes its place \
             within a few seconds: try again, or write without the condition"
        );
        return ServiceError::new(ErrorKind::HomeUnreachable, message);
    }
    let until = match lost.is_some() {
        true => format!(
            "; it does not come back: an operator gives the home to another site (skerry bucket home BUCKET --to SITE --destroyed \
             {name}), or write without the condition"
        ),
        false => "; write without the condition or try again when the link is back".to_owned(),
    };
    let message = format!(
        "only {name}, the bucket's home, can decide this condition, and it cannot be reached ({why}){until}"
    );
    ServiceError::new(ErrorKind::HomeUnreachable, message)
}

/// A condition as it travels.
pub(crate) fn wire_condition(condition: &WriteCondition) -> message::Condition {
    let list = |test: &EtagTest| match test {
        EtagTest::Any => Vec::new(),
        // An empty list would be "any" there: this is an ETag that nothing has.
        EtagTest::OneOf(etags) if etags.is_empty() => vec![String::new()],
        EtagTest::OneOf(etags) => etags.clone(),
    };
    message::Condition { absent: condition.absent, matches: condition.matches.as_ref().map(list) }
}

/// A condition that came from another site.
pub(crate) fn condition_of(condition: message::Condition) -> WriteCondition {
    let test = |etags: Vec<String>| if etags.is_empty() { EtagTest::Any } else { EtagTest::OneOf(etags) };
    WriteCondition { absent: condition.absent, matches: condition.matches.map(test) }
}

fn wire_write(ask: &Ask) -> Outcome<message::Write> {
    match ask {
        Ask::Put(object) => Ok(message::Write::Put(object.clone())),
        Ask::Delete => Ok(message::Write::Delete),
        Ask::Erase(version) => Ok(message::Write::Erase(which(*version))),
        Ask::Note { .. } => Err(ServiceError::not_implemented("a condition on a note")),
    }
}

/// A version as other sites are asked for it.
pub(crate) const fn which(version: space::VersionId) -> Which {
    match version {
        space::VersionId::Null => Which::Null,
        space::VersionId::Dot(dot) => Which::Dot(dot),
    }
}

/// Answers another site's question as the home of a bucket.
pub(crate) fn decide<'a>(
    site: &'a Arc<Site>,
    bucket: Bucket,
    decide: Decide,
) -> BoxFuture<'a, Outcome<Written>> {
    Box::pin(async move {
        let bucket = home(site, bucket).await?;
        if bucket.home != site.id {
            let name = site.peers.roster.name(bucket.home);
            let message = format!("this site is not the bucket's home, {name} is");
            return Err(ServiceError::new(ErrorKind::HomeUnreachable, message));
        }
        let heads = seen::heard(decide.bucket, &decide.key, &decide.heads)?;
        let mut pins = Vec::new();
        let ask = match decide.write {
            message::Write::Put(object) => {
                let object = checked(object)?;
                // Small payload is copied before the decision: a lock must not point to a site that just vanished.
                if object.size <= JOURNAL_BODY_BYTES as u64 && bucket.may_lie_at(site.id) {
                    pins = at_once::take(site, &bucket, &object.chunks, object.size, decide.site).await?;
                }
                Ask::Put(object)
            }
            message::Write::Delete => Ask::Delete,
            message::Write::Erase(Which::Dot(dot)) => Ask::Erase(space::VersionId::Dot(dot)),
            message::Write::Erase(Which::Null | Which::Current) => Ask::Erase(space::VersionId::Null),
        };
        let scope = super::scope::of_bucket(&bucket);
        let asked = Asked {
            bucket,
            key: decide.key,
            condition: condition_of(decide.condition),
            ask,
            writer: decide.writer,
            scope,
            small: None,
            pins,
            with: Vec::new(),
            upload: None,
        };
        // As for clients of its own: it may have become the home without following the bucket.
        acquaint::acquaint(site, &asked, Some(decide.site)).await?;
        here(site, asked, decide.site, heads).await
    })
}

fn checked(object: Box<Object>) -> Outcome<Box<Object>> {
    match object.check() {
        Ok(()) => Ok(object),
        Err(error) => Err(ServiceError::new(ErrorKind::InvalidRequest, error.to_string())),
    }
}

/// The version id to answer after a write to this bucket.
pub(crate) fn answered_version(bucket: &Bucket, record: &Record) -> Option<VersionId> {
    // Versioning may have been switched on since the bucket was looked up.
    let has_versions = bucket.versioned() || record.versioning != Versioning::Off;
    has_versions.then(|| shape::version_id(record))
}
