//! How far a write must be durable before it is answered, and how it gets there: scopes `sites=n`, `area` and `durable`; of
//! scope `site` at a site of several nodes what a holder does (who asks it is in `within.rs`).
//!
//! Before: `put.rs`, `delete.rs`, `copy.rs`, `upload.rs` with a record that is durable here. After: other sites, which
//! hold record and payload as their own (never an evictable copy) and answer once both are durable. What a scope asks for of
//! sites is in `goal.rs`, the machine that says whom to ask next is `federation::scope`. Invariants: the answer names a scope
//! that was reached, by what is known of the sites when it is given; a write that did not reach its scope is kept, and the
//! refusal says so; a PUT that is repeated within minutes tries again without a new version, unless versioning is enabled.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use skerry_base::kv::View;
use skerry_base::{BucketId, Instant, Origin, SiteId};
use skerry_federation::budget::Class as Urgency;
use skerry_federation::scope::{Reach, Reached};
use skerry_gateway::service::{ErrorKind, Outcome, Receipt, RequestContext, ServiceError};
use skerry_model::bucket::BucketConfig;
use skerry_model::record::Scope;
use skerry_model::{Record, space};

use super::bucket::Bucket;
use super::goal::Target;
use super::source::Chunks;
use super::taking::{Parts, Taking};
use super::write::Written;
use super::{far, heard, refusal, within};
use crate::copies::others::{self, Aside};
use crate::copies::surplus::Question;
use crate::copies::{book, look};
use crate::duties::Act;
use crate::nodes::Fence;
use crate::peers::PeerError;
use crate::peers::chunks::breath;
use crate::peers::message::{Hold, HoldFor, Part, Request, Response};
use crate::peers::serve::Asker;
use crate::site::{Site, entry, unreadable};

/// What is answered for a scope where plain writes do not wait for the disk.
const UNSYNCED: &str = "unsynced";
/// How long a site may take for the round trips and syncs of a hold before another is asked as well.
const PATIENCE: Duration = Duration::from_millis(1500);
/// And this much more for so many bytes: what a slow link carries in a second.
const PATIENCE_BYTES: u64 = 512 << 10;
/// How often it is looked where sites stand while nobody answers.
const LOOK: Duration = Duration::from_secs(2);
/// What stands behind the scope of a bucket that answers writes though they did not get so far.
const OR_LESS: &str = " or less";

/// Reads a scope as people write it.
pub(crate) fn parse(text: &str) -> Outcome<Scope> {
    let invalid = |message: String| ServiceError::new(ErrorKind::InvalidArgument, message);
    if let Some(count) = text.strip_prefix("sites=") {
        let digits = count.bytes().all(|byte| byte.is_ascii_digit());
        let count = count.parse().ok().filter(|count| digits && (1..=64).contains(count));
        return count
            .map(Scope::Sites)
            .ok_or_else(|| invalid(format!("sites=N has N from 1 to 64, not {text}")));
    }
    match text {
        "node" => Ok(Scope::Node),
        "site" => Ok(Scope::Site),
        "area" => Ok(Scope::Area),
        "durable" => Ok(Scope::Durable),
        _ => Err(invalid(format!(
            "the acknowledgement scope is node, site, area, sites=N or durable, of a bucket also with ` or less` behind it, \
             not {text}"
        ))),
    }
}

/// Sets what the writes of a bucket wait for, and whether they are answered though they did not get so far.
pub(crate) fn set(config: &mut BucketConfig, text: &str) -> Outcome<()> {
    let bare = text.strip_suffix(OR_LESS);
    config.set_ack_scope(parse(bare.unwrap_or(text))?);
    config.accept_less = bare.is_some();
    Ok(())
}

/// What the writes of a bucket wait for, as people write it.
pub(crate) fn shown(config: &BucketConfig) -> String {
    name(config.ack_scope()) + if config.accept_less { OR_LESS } else { "" }
}

/// As people write it.
pub(crate) fn name(scope: Scope) -> String {
    match scope {
        Scope::Node => "node".into(),
        Scope::Site => "site".into(),
        Scope::Area => "area".into(),
        Scope::Sites(count) => format!("sites={count}"),
        Scope::Durable => "durable".into(),
    }
}

/// What its record says of the scope of a write: so many copies are kept, be it more than the bucket wants later. Of an area
/// it says the number; `durable` promises what the bucket wants, also when that is less one day.
pub(crate) fn recorded(site: &Site, context: &RequestContext, bucket: &Bucket) -> Scope {
    match asked(context, bucket) {
        Ok(scope @ (Scope::Sites(_) | Scope::Durable)) => scope,
        Ok(Scope::Area) => match Target::of(site, bucket, Scope::Area).places() {
            0 | 1 => Scope::Site,
            places => Scope::Sites(places),
        },
        _ => Scope::Site,
    }
}

/// The same of a write that asks for none by itself, as far as every site says it alike.
pub(crate) fn of_bucket(bucket: &Bucket) -> Scope {
    match (bucket.config.ack_scope(), bucket.config.scope) {
        (Scope::Durable, _) => Scope::Durable,
        // Of an area what releases before are told: who makes the record may stand in another one.
        (_, scope @ Scope::Sites(_)) => scope,
        _ => Scope::Site,
    }
}

const fn sites_of(scope: Scope) -> u16 {
    match scope {
        Scope::Sites(count) => count,
        _ => 1,
    }
}

/// At how many sites a version is to be kept: as its bucket wants copies, and no fewer than its write was answered for.
pub(crate) fn kept_at(bucket: &Bucket, record: &Record) -> usize {
    usize::from(level(bucket).max(sites_of(record.scope)))
}

/// At how many sites a bucket's versions are to be kept, whatever a write of its own asked for.
pub(crate) fn level(bucket: &Bucket) -> u16 {
    u16::from(bucket.config.copies_in_all()).max(sites_of(bucket.config.scope))
}

/// The scope that a write asks for: of the request, else of its bucket.
fn asked(context: &RequestContext, bucket: &Bucket) -> Outcome<Scope> {
    context.scope.as_deref().map_or_else(|| Ok(bucket.config.ack_scope()), parse)
}

/// Refuses a write before anything is written if there are too few sites for the scope that it asks for, whoever answers.
pub(crate) fn check(site: &Site, context: &RequestContext, bucket: &Bucket) -> Outcome<()> {
    let wanted = asked(context, bucket)?;
    if bucket.config.accept_less || matches!(wanted, Scope::Node | Scope::Site) {
        return Ok(());
    }
    let Some(why) = Target::of(site, bucket, wanted).impossible else { return Ok(()) };
    let message = format!("the scope {} cannot be reached: {why}; nothing was written", name(wanted));
    Err(ServiceError::new(ErrorKind::ScopeNotReached, message))
}

/// Who may be handed a write that this site cannot keep: for scope `area` who is in it.
pub(crate) fn near(
    site: &Site,
    context: &RequestContext,
    bucket: &Bucket,
    others: Vec<SiteId>,
) -> Outcome<Vec<SiteId>> {
    if asked(context, bucket)? != Scope::Area {
        return Ok(others);
    }
    let target = Target::of(site, bucket, Scope::Area);
    let areas = target.goal.demand.areas();
    let is_there = |other: &SiteId| areas.iter().any(|area| area.sites.contains(other));
    Ok(others.into_iter().filter(is_there).collect())
}

/// Takes a write that is durable here as far as it asks for; what the answer carries then.
pub(crate) async fn reach(
    site: &Arc<Site>,
    context: &RequestContext,
    bucket: &Bucket,
    written: &Written,
) -> Outcome<Receipt> {
    reach_by(site, context, bucket, written, until(site)).await
}

/// Until when other sites are waited for, by a write that is here now.
pub(crate) fn until(site: &Site) -> Instant {
    site.clock.now().after(site.peers.waits().reached)
}

/// The same, by then: writes of one request wait together.
pub(crate) async fn reach_by(
    site: &Arc<Site>,
    context: &RequestContext,
    bucket: &Bucket,
    written: &Written,
    until: Instant,
) -> Outcome<Receipt> {
    let wanted = asked(context, bucket)?;
    let is_plain = matches!(wanted, Scope::Node | Scope::Site);
    if site.lazy && is_plain && context.scope.is_none() {
        return Ok(written.receipt(UNSYNCED.into()));
    }
    // Whoever names a scope waits for the disk, and this site counts only once it is there.
    site.settle_lazy().await?;
    if is_plain && !site.nodes.are_several() {
        // Who else there is does not matter: it need not be gathered for every write.
        return Ok(written.receipt(name(Scope::Site)));
    }
    let target = Target::of(site, bucket, wanted);
    let is_sites = matches!(wanted, Scope::Site | Scope::Area | Scope::Durable) && target.is_met_at(site.id);
    if is_sites && site.nodes.are_several() {
        let insists = context.scope.is_some() || !is_plain;
        let reached = match within::reach(site, insists, bucket, written).await? {
            Scope::Site => wanted,
            less => less,
        };
        return Ok(written.receipt(name(reached)));
    }
    // Of several nodes one has it: that is not the site.
    let own = if site.nodes.are_several() { Scope::Node } else { Scope::Site };
    match written {
        Written::Record(record) if !is_plain => {
            let reached = beyond(site, bucket, record, (wanted, target), until).await?;
            Ok(written.receipt(name(reached.unwrap_or(own))))
        }
        _ => Ok(written.receipt(name(own))),
    }
}

/// Has other sites hold a version until the scope is reached, or says that it is not; none if no more than this site counts.
async fn beyond(
    site: &Arc<Site>,
    bucket: &Bucket,
    record: &Record,
    (wanted, mut target): (Scope, Target),
    until: Instant,
) -> Outcome<Option<Scope>> {
    // A record that was made elsewhere (an equal PUT before, an upload of another site) proves nothing of its payload
    // now: its site is asked like any other, and so is this one.
    // Its own body may have moved since. From here on it is not let go of.
    let _asking = site.copies.asking(bucket.id, Question::Hold(record.dot));
    let here = holds(site, bucket, record).await?.then_some(site.id);
    let first = Some(record.site).filter(|other| *other != site.id && site.linked(*other));
    // Of several nodes of a site one is asked: they burn together. Another node of this one only if it wrote the record.
    let is_apart = |other: &SiteId| target.goal.together.of(*other) != target.goal.together.of(site.id);
    let mut apart: Vec<SiteId> = candidates(site, bucket).await.into_iter().filter(is_apart).collect();
    let size = record.object().map_or(0, |object| object.size);
    site.copies.capped_last(&mut apart, size, site.clock.now());
    let others = first.into_iter().chain(apart).chain([site.id]);
    let patience = PATIENCE.saturating_add(Duration::from_secs(size / PATIENCE_BYTES));
    let mut reach = Reach::new(target.goal.clone(), here, others).with_patience(patience);
    site.copies.held(bucket.id, record.dot, here);
    let mut failed = Vec::new();
    if reach.reached() == Reached::Waiting {
        let copies = if wanted == Scope::Durable { 0 } else { target.places() };
        let request = Request::hold_for(question(site, bucket, record).await?, told(record, copies));
        let of = Spread { site, bucket, record, wanted, request: &request };
        let spread = of.until_reached(&mut reach, &mut failed);
        if tokio::time::timeout(until.since(site.clock.now()), spread).await.is_err() {
            let silent: Vec<String> = reach.asked().map(|other| site.peers.roster.name(other)).collect();
            failed.push(format!(
                "{}: no answer within {} s",
                silent.join(", "),
                site.peers.waits().reached.as_secs()
            ));
        }
        target = Target::of(site, bucket, wanted);
        reach.revise(target.goal.clone());
    }
    let is_reached = target.impossible.is_none() && reach.reached() == Reached::Enough;
    if is_reached && wanted != Scope::Durable {
        promise(site, bucket, record, target.places()).await?;
    }
    let places = u16::try_from(reach.places()).unwrap_or(u16::MAX);
    let counted = (places > 1).then_some(Scope::Sites(places));
    match (is_reached, wanted) {
        (true, Scope::Area | Scope::Durable) => Ok(Some(wanted)),
        (true, _) => Ok(counted),
        (false, _) if bucket.config.accept_less => Ok(counted),
        (false, _) => Err(short((site, bucket), (wanted, &target), &reach, &failed)),
    }
}

/// At how many sites a version is to be kept, as far as its record does not say so.
pub(crate) fn told(record: &Record, copies: u16) -> u16 {
    if record.object().is_some() && copies > sites_of(record.scope) { copies } else { 0 }
}

/// Writes down at how many sites a version is to be kept where its record does not say so: another site decided it, or it
/// was there before.
async fn promise(site: &Arc<Site>, bucket: &Bucket, record: &Record, count: u16) -> Outcome<()> {
    if told(record, count) == 0 {
        return Ok(());
    }
    let (id, dot) = (bucket.id, record.dot);
    let propose = move |view: &dyn View| {
        let promise = book::promise_more(view, id, dot, count).map_err(unreadable)?;
        Ok(((), promise.iter().map(entry).collect()))
    };
    let kept = site.commit(id, (), propose).await;
    kept.map_err(|error| {
        let message = format!(
            "the write is kept, and durable at {count} sites; that so many are to be kept could not be written down at {}: \
             {error}; once that is mended {}",
            site.called(),
            refusal::kept(bucket.versioning)
        );
        ServiceError::new(ErrorKind::ScopeNotReached, message)
    })
}

/// Whether a version that was written here is here, and not about to go.
async fn holds(site: &Arc<Site>, bucket: &Bucket, record: &Record) -> Outcome<bool> {
    if record.site != site.id || !site.is_member(bucket.id) || !site.copies.wanted(bucket.id, record.dot) {
        return Ok(false);
    }
    let Some(object) = record.object().cloned() else { return Ok(true) };
    let (store, id) = (site.store.clone(), bucket.id);
    let look = move || look::is_here(&store, id, &object);
    tokio::task::spawn_blocking(look).await.map_err(refusal::task)
}

fn short(
    (site, bucket): (&Site, &Bucket),
    (wanted, target): (Scope, &Target),
    reach: &Reach,
    failed: &[String],
) -> ServiceError {
    let reasons = if failed.is_empty() { "no other site can be reached".into() } else { failed.join("; ") };
    let held: Vec<String> = reach.held_at().map(|other| site.peers.roster.name(other)).collect();
    let (count, held) = (reach.places(), if held.is_empty() { "no site".into() } else { held.join(", ") });
    let found = match wanted {
        Scope::Sites(wanted) => format!("durable at {count} of {wanted} sites ({reasons})"),
        _ => {
            let lacking = target.impossible.clone().unwrap_or_else(|| target.lacking(site, reach));
            format!("durable at {held}; for the scope {} it lacks {lacking} ({reasons})", name(wanted))
        }
    };
    let message = format!(
        "the write is kept and {found}; its record spreads when the links are back, its payload when it is read or written \
         again, or as the bucket wants copies; {}; or ask for a smaller scope next time",
        refusal::kept(bucket.versioning)
    );
    ServiceError::new(ErrorKind::ScopeNotReached, message)
}

/// Sites that can be asked, other nodes of this one among them: members of the bucket first, then the others, each nearest
/// first.
pub(crate) async fn candidates(site: &Arc<Site>, bucket: &Bucket) -> Vec<SiteId> {
    let id = bucket.id;
    let members: BTreeSet<SiteId> =
        site.drive.ask(move |machine, _| machine.members(id)).await.unwrap_or_default().into_iter().collect();
    let may = |other: &SiteId| *other != site.id && bucket.may_lie_at(*other);
    let mut linked: Vec<SiteId> = site.boxes.linked().into_iter().filter(may).collect();
    let distance = |other: &SiteId| {
        let node = site.peers.roster.node(*other);
        node.and_then(|node| site.peers.net().rtt(node)).unwrap_or(Duration::MAX)
    };
    linked.sort_by_key(|other| (!members.contains(other), distance(other), *other));
    linked
}

/// A version with the first of its payload, for another to hold.
pub(crate) async fn question(site: &Arc<Site>, bucket: &Bucket, record: &Record) -> Outcome<Hold> {
    let (store, owned) = (site.store.clone(), record.clone());
    let first = move || far::first_chunks(&store, &owned, Part::Whole);
    let payload = tokio::task::spawn_blocking(first).await.map_err(refusal::task)??;
    Ok(Hold { bucket: bucket.id, record: record.encode().into(), payload })
}

/// One version on its way to the sites of its scope.
struct Spread<'a> {
    site: &'a Arc<Site>,
    bucket: &'a Bucket,
    record: &'a Record,
    wanted: Scope,
    request: &'a Request,
}

impl Spread<'_> {
    /// Asks site after site until enough hold it or nobody is left; one more for each that is slow.
    async fn until_reached(&self, reach: &mut Reach, failed: &mut Vec<String>) {
        let (site, id) = (self.site, self.bucket.id);
        let bytes = self.record.object().map_or(0, |object| object.size);
        let mut asked = FuturesUnordered::new();
        loop {
            while let Some(next) = reach.ask(site.clock.now()) {
                let begun = site.clock.now();
                asked.push(
                    async move { (next, begun, held_by(site, Urgency::Read, next, self.request).await) },
                );
            }
            let now = site.clock.now();
            let pause = reach.next_wake(now).map_or(LOOK, |at| at.since(now).min(LOOK));
            let answered = tokio::time::timeout(pause, asked.next()).await;
            // Sites may have moved, or be lost, since they were asked.
            reach.revise(Target::of(site, self.bucket, self.wanted).goal);
            match answered {
                // Nobody answered in time: the next is asked as well.
                Err(_) => {}
                Ok(None) => return,
                Ok(Some((other, begun, Ok(())))) => {
                    // At once: what it says next over a new link stands above this.
                    site.copies.held(id, self.record.dot, [other]);
                    site.copies.took(other, bytes, begun);
                    reach.held(other);
                }
                Ok(Some((other, _, Err(why)))) => {
                    if why.is_cap() {
                        site.copies.refused_by_cap(other, bytes, site.clock.now());
                    }
                    failed.push(format!("{}: {why}", site.peers.roster.name(other)));
                    reach.failed(other);
                }
            }
            if reach.reached() != Reached::Waiting {
                return;
            }
        }
    }
}

/// Why a site does not hold a version.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unheld {
    /// No answer.
    #[error("{0}")]
    Silent(#[from] PeerError),
    /// It said why.
    #[error("{0}")]
    Refused(ServiceError),
    /// It took some of it and came no further.
    #[error("it stopped at {0} bytes")]
    Stopped(u64),
    /// An answer to another question.
    #[error("it answered something else")]
    Senseless,
}

impl Unheld {
    /// Whether the site holds as much for others as it is to.
    pub(crate) fn is_cap(&self) -> bool {
        matches!(self, Self::Refused(error) if error.kind() == ErrorKind::QuotaFull)
    }
}

/// Has one site hold it, be it this one.
pub(crate) async fn held_by(
    site: &Arc<Site>,
    class: Urgency,
    other: SiteId,
    request: &Request,
) -> Result<(), Unheld> {
    match request.held() {
        Some((wanted, copies)) if other == site.id => loop {
            let myself = Asker::plain(other, class);
            let terms = Terms { copies, ..Terms::default() };
            match hold_on(site, myself, wanted.clone(), terms).await {
                Ok(Response::Holding(_)) => {}
                Ok(_) => return Ok(()),
                Err(error) => return Err(Unheld::Refused(error)),
            }
        },
        _ => hold_at(site, class, other, request).await,
    }
}

/// Has another site hold it; asks again as long as it comes nearer. A site that came nearer with something a moment ago is not
/// given up because the link to it broke, nor because it takes another version first.
async fn hold_at(site: &Arc<Site>, class: Urgency, other: SiteId, request: &Request) -> Result<(), Unheld> {
    let mut request = understood(site, other, request).await;
    let (begun, mut most, waits) = (site.clock.now(), None, site.peers.waits());
    let nearer = || site.copies.nearer(other);
    let rests = |nearer: Option<Instant>| site.clock.now().since(nearer.map_or(begun, |at| at.max(begun)));
    loop {
        match site.peers.call_as(class, other, &request).await.map(|answer| answer.response) {
            Ok(Response::Held) => {
                site.copies.note_nearer(other, site.clock.now());
                return Ok(());
            }
            Ok(Response::Holding(bytes)) if most.is_none_or(|most| bytes > most) => {
                if bytes > 0 {
                    site.copies.note_nearer(other, site.clock.now());
                    // Some of it is there, and it fetches what it lacks: with each question all this would cross again.
                    without_payload(&mut request);
                } else {
                    // It had no memory for what was sent along.
                    breath().await;
                }
                most = Some(bytes);
            }
            Ok(Response::Holding(bytes)) if rests(nearer()) >= waits.stall => {
                return Err(Unheld::Stopped(bytes));
            }
            Ok(Response::Holding(_)) => breath().await,
            Ok(Response::Refused { code, message }) => {
                return Err(Unheld::Refused(refusal::relayed(&code, message)));
            }
            Ok(_) => return Err(Unheld::Senseless),
            Err(error) => {
                // A client waits for this very version.
                let is_copy = class == Urgency::Copy;
                let came = nearer().filter(|_| is_copy || most.is_some_and(|most| most > 0));
                let came = came.filter(|at| site.clock.now().since(*at) < waits.stall);
                let patience = match (&error, came) {
                    (error, _) if !error.is_apart() => Duration::ZERO,
                    (_, Some(_)) => waits.stall,
                    (PeerError::Silent, None) => Duration::ZERO,
                    (_, None) if is_copy => waits.back,
                    _ => Duration::ZERO,
                };
                if rests(came) >= patience {
                    return Err(Unheld::Silent(error));
                }
                breath().await;
            }
        }
    }
}

/// As a site understands it. One of a release before is not told at how many sites it is to be kept.
async fn understood<'a>(site: &Site, other: SiteId, request: &'a Request) -> Cow<'a, Request> {
    match (request, site.peers.roster.node(other)) {
        (Request::HoldFor(asked), Some(node)) if !site.peers.will_promise(node).await => {
            Cow::Owned(Request::Hold(asked.hold.clone()))
        }
        _ => Cow::Borrowed(request),
    }
}

fn without_payload(request: &mut Cow<'_, Request>) {
    if let Some((hold, copies)) = request.held()
        && !hold.payload.is_empty()
    {
        let bare = Hold { payload: Vec::new(), record: hold.record.clone(), ..*hold };
        *request = Cow::Owned(Request::hold_for(bare, copies));
    }
}

/// What a version is held under.
#[derive(Default)]
pub(crate) struct Terms {
    /// For another node of this site: within one epoch of its view only.
    pub(crate) fence: Option<Fence>,
    /// How long it works before it answers how far it is; as long as for other sites if it is not said.
    pub(crate) turn: Option<Duration>,
    /// At how many sites it is to be kept, where its record does not say so.
    pub(crate) copies: u16,
}

/// Holds a version for another site: its record and all of its payload, durable here.
pub(crate) async fn hold(site: &Arc<Site>, from: Asker, hold: Hold) -> Outcome<Response> {
    hold_on(site, from, hold, Terms::default()).await
}

/// The same of one that is to be kept at more sites than its record says.
pub(crate) async fn hold_for(site: &Arc<Site>, from: Asker, asked: HoldFor) -> Outcome<Response> {
    hold_on(site, from, asked.hold, Terms { copies: asked.copies, ..Terms::default() }).await
}

/// The same on these terms.
pub(crate) async fn hold_on(site: &Arc<Site>, from: Asker, hold: Hold, terms: Terms) -> Outcome<Response> {
    let Terms { fence, turn, copies } = terms;
    let turn = turn.unwrap_or_else(|| site.peers.waits().turn);
    fence.iter().try_for_each(Fence::check)?;
    if let Some(node) = site.peers.roster.node(from.site).filter(|_| from.site != site.id) {
        site.peers.received(node, crate::telemetry::Kind::Payload, hold.bytes());
    }
    let record = Record::admit(&hold.record)
        .map_err(|error| ServiceError::new(ErrorKind::InvalidRequest, error.to_string()))?;
    if record.bucket != hold.bucket {
        return Err(ServiceError::new(ErrorKind::InvalidRequest, "a record of another bucket"));
    }
    site.duties.check(Act::Hold)?;
    let bucket = claimed(site, hold.bucket).await?;
    bucket.check_residency(site)?;
    site.check_takes(&bucket)?;
    // Before anything is joined or fetched for it.
    let room = others::room(site, &bucket, &record, from).await?;
    site.join(bucket.id).await?;
    let life = site.stamps.origin_of(bucket.id);
    // It stays if it was about to go; if it is going just now it comes back by the next question.
    if !site.copies.wanted(bucket.id, record.dot) {
        let message = "this copy is being let go as one too many; ask again";
        return Err(ServiceError::new(ErrorKind::Unreachable, message));
    }
    let (mut pins, mut small) = (Vec::new(), None);
    if let Some(object) = record.object() {
        let chunks = Chunks::as_urgent(from.class, site, &bucket, record.site);
        let mut taking = Taking::new(site, &bucket, (record.dot, object), chunks, turn, hold.payload);
        let is_whole = taking.is_whole(object).await;
        let part = taking.into_part();
        if !matches!(is_whole, Ok(true)) {
            let bytes = part.bytes();
            Parts::keep(site, (bucket.id, record.dot), part, room);
            return is_whole.map(|_| Response::Holding(bytes));
        }
        (pins, small) = (part.pins, part.small);
    }
    let (id, stamps, within) = (bucket.id, site.stamps.clone(), fence.clone());
    let duties = site.duties.clone();
    let propose = move |view: &dyn View| {
        within.iter().try_for_each(Fence::check)?;
        // Asked again where it is decided: payload may have been on its way for as long as a drain takes.
        duties.check(Act::Hold)?;
        if stamps.is_out(id) {
            return Err(refusal::just_left());
        }
        // A feed was faster: nothing is written twice, and this is answered behind what it wrote.
        let promise = book::promise_more(view, id, record.dot, copies).map_err(unreadable)?;
        if small.is_none() && space::accept(view, &record).map_err(unreadable)? == space::Verdict::Duplicate {
            return Ok(((), promise.iter().map(entry).collect()));
        }
        let kept = space::keep(view, id, vec![record]).map_err(unreadable)?;
        // A prefix that is followed here knows it to be dead: it is not held, and nobody is to count on it.
        if kept.is_empty() {
            return Err(refusal::just_left());
        }
        let mut entries: Vec<_> = kept.iter().map(entry).collect();
        // The record's own entry is the first; a small body lies beside it.
        let first = small.and_then(|small| Some((small, entries.drain(..1).next()?)));
        if let Some((small, record)) = first {
            entries.insert(0, record.with_body(small));
        }
        entries.extend(promise.iter().map(entry));
        Ok(((), entries))
    };
    let large = !pins.is_empty();
    site.commit(id, pins, propose).await?;
    room.into_iter().for_each(Aside::held);
    // A record that came before its payload refers to nothing new, so its commit has synced no payload; what was here
    // before may have been answered before it was on disk.
    if large || site.lazy {
        site.settle().await?;
    }
    stays(site, id, life)?;
    fence.iter().try_for_each(Fence::check)?;
    Ok(Response::Held)
}

/// Whether what is durable here of a bucket may be counted on: what a site that leaves, or is emptied, looked through before
/// this came it does not hand over. Asked once it is durable: a look that begins later than that finds it. `life`: the
/// origin of this site in the bucket when it was asked.
pub(crate) fn stays(site: &Site, bucket: BucketId, life: Origin) -> Outcome<()> {
    site.duties.check(Act::Hold)?;
    let leaves = site.leaving.note(bucket).is_some() || site.stamps.is_out(bucket);
    if leaves || site.stamps.origin_of(bucket) != life { Err(refusal::just_left()) } else { Ok(()) }
}

/// The bucket; its claim may be on its way.
pub(crate) async fn claimed(site: &Arc<Site>, id: BucketId) -> Outcome<Bucket> {
    heard::find(site, || site.bucket_of(id))
        .await?
        .ok_or_else(|| ServiceError::no_such_bucket(&id.to_string()))
}
