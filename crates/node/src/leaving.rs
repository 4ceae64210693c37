//! Leaving a bucket: hands over what only this site holds, asks the others, lets go in one commit, drops the rest.
//!
//! Before: `skerry bucket leave`. After: [`skerry_federation::departure`], which judges what the others said. The order:
//! payload that too few others hold is held by them first; once enough members have every record, writes here wait for a
//! moment, nobody is served any more, what came last is handed over, and the commit that lets go judges again on its own
//! view. If anything came in between it is refused and the site stays, until the next try.
//!
//! Invariants: nothing is let go that enough others have not said to hold, durably; who is about to leave does not count
//! for others and takes no copies for them; an own write is in the commit's view, or finds the bucket left and joins it
//! again; the wish outlives a restart, and so does the sweep of what is left.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::join_all;
use skerry_base::kv::{Table, View};
use skerry_base::{BucketId, Dot, Instant, Origin, SiteId, Vector};
use skerry_federation::departure::{Attempt, Departures, Own, Standing, Verdict, Wait};
use skerry_federation::{Input, Loose, limits};
use skerry_gateway::service::{ErrorKind, Outcome, ServiceError};
use skerry_model::Entry;
use skerry_model::bucket::{self as model, Joins};
use skerry_model::space::{self, SpaceError};

use crate::drive::stored::{Stored, forget, say};
use crate::duties::Act;
use crate::paths::bucket::Bucket;
use crate::paths::{held, refusal};
use crate::peers::message::{Request, Response};
use crate::site::{Site, Stamps, entry, unreadable};
use crate::tasks::rest;
use crate::trust::entropy;

mod hand_over;
mod pace;

use hand_over::Handed;
pub(crate) use hand_over::MEND;
use pace::{News, Pace};

/// Between two tries.
const TURN: Duration = Duration::from_millis(500);
/// How long another site may take to say what it has.
const SAY: Duration = Duration::from_secs(5);
/// How long handing the last records over may take; writes here wait for twice as long at most.
const CLOSED: Duration = Duration::from_secs(5);
/// Records that a member may lack for writes here to wait for it.
const NEAR: u64 = 256;
/// After a try that failed writes do not wait again for this long.
const REST: Duration = Duration::from_secs(10);
/// Between two looks meanwhile.
const LOOK: Duration = Duration::from_millis(30);
/// Records dropped in one commit.
const AT_ONCE: usize = 2048;
/// Between two of these, so that clients notice nothing.
const PACE: Duration = Duration::from_millis(20);

/// How far leaving a bucket has come.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Note {
    /// Why it has not left yet.
    pub(crate) reason: String,
    /// Versions whose payload is still to be handed over, at least.
    pub(crate) versions: u64,
    /// Their bytes.
    pub(crate) bytes: u64,
}

#[derive(Default)]
struct State {
    machine: Departures,
    notes: BTreeMap<BucketId, Note>,
    handed: BTreeMap<BucketId, Handed>,
    /// Bodies came for versions that may have been looked through already.
    again: BTreeSet<BucketId>,
    /// Writes here wait.
    closed: BTreeSet<BucketId>,
    /// Not closed again before.
    rest: BTreeMap<BucketId, Instant>,
    sweeps: BTreeSet<BucketId>,
    joins: BTreeMap<BucketId, Joins>,
    /// For whom it waits that is still taking a bucket.
    waits: BTreeMap<BucketId, String>,
}

/// What a site is about to leave, and what it says of joining.
#[derive(Default)]
pub(crate) struct Leavings {
    state: Mutex<State>,
    /// Held while a bucket is let go, and while one is joined.
    gate: tokio::sync::Mutex<()>,
}

/// What of it was written down.
#[derive(Debug, Default)]
pub(crate) struct Remembered {
    leaving: Vec<BucketId>,
    left: Vec<BucketId>,
    joins: BTreeMap<BucketId, Joins>,
}

impl Remembered {
    pub(crate) fn read(view: &dyn View) -> Result<Self, SpaceError> {
        let mut found = Self::default();
        for (what, list) in [(Stored::Leaving, &mut found.leaving), (Stored::Left, &mut found.left)] {
            view.scan_prefix(Table::Local, what.prefix(), &mut |key, _| {
                list.extend(what.bucket(key));
                ControlFlow::Continue(())
            })?;
        }
        view.scan_prefix(Table::Local, Stored::Join.prefix(), &mut |key, value| {
            let joins = std::str::from_utf8(value).ok().and_then(Joins::of_name);
            found.joins.extend(Stored::Join.bucket(key).zip(joins));
            ControlFlow::Continue(())
        })?;
        Ok(found)
    }

    /// Goes on where the last life ended.
    pub(crate) fn resume(&self) -> Leavings {
        let mut state = State { joins: self.joins.clone(), ..State::default() };
        state.sweeps.extend(&self.left);
        for bucket in &self.leaving {
            state.machine.begin(*bucket);
        }
        Leavings { state: Mutex::new(state), ..Leavings::default() }
    }
}

impl Leavings {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Memberships begin and end one after the other: what is noted of one in memory is then what its commit said.
    pub(crate) async fn gate(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.gate.lock().await
    }

    /// How far it has come; none if this site is not about to leave the bucket.
    pub(crate) fn note(&self, bucket: BucketId) -> Option<Note> {
        let state = self.state();
        state.machine.is_going(bucket).then(|| state.notes.get(&bucket).cloned().unwrap_or_default())
    }

    /// Whether records of a bucket that was left are still here.
    pub(crate) fn sweeps(&self, bucket: BucketId) -> bool {
        self.state().sweeps.contains(&bucket)
    }

    /// Lets a write through, after a moment if the bucket is just being let go.
    pub(crate) async fn pass(&self, site: &Site, bucket: BucketId) {
        if !self.state().closed.contains(&bucket) {
            return;
        }
        let mut changes = site.changes.follow();
        let opened =
            async { while self.state().closed.contains(&bucket) && changes.changed().await.is_ok() {} };
        tokio::time::timeout(CLOSED * 2, opened).await.ok();
    }

    /// For whom this site waits, of whom it could take a bucket; none where somebody is there, or it was not looked yet.
    pub(crate) fn waits(&self, bucket: BucketId) -> Option<String> {
        self.state().waits.get(&bucket).cloned()
    }

    /// The same of all buckets.
    pub(crate) fn all_waits(&self) -> BTreeMap<BucketId, String> {
        self.state().waits.clone()
    }

    pub(crate) fn set_waits(&self, bucket: BucketId, waits: Option<String>) {
        let mut state = self.state();
        match waits {
            Some(waits) => state.waits.insert(bucket, waits),
            None => state.waits.remove(&bucket),
        };
    }

    /// Of all but these it waits no more.
    pub(crate) fn keep_waits(&self, incomplete: &[BucketId]) {
        self.state().waits.retain(|bucket, _| incomplete.contains(bucket));
    }

    /// How far bodies were handed over.
    fn handed_upto(&self, bucket: BucketId) -> Vector {
        self.state().handed.get(&bucket).map(|handed| handed.upto.clone()).unwrap_or_default()
    }

    fn set_note(&self, bucket: BucketId, note: Note) {
        self.state().notes.insert(bucket, note);
    }

    fn end(&self, bucket: BucketId) {
        let mut state = self.state();
        state.machine.end(bucket);
        state.notes.remove(&bucket);
        state.handed.remove(&bucket);
        state.again.remove(&bucket);
        state.rest.remove(&bucket);
    }

    /// A body came for a version that was known here without one: what is handed over is looked through again. Refused if
    /// the bucket was left in that moment.
    pub(crate) fn came(&self, stamps: &Stamps, bucket: BucketId) -> Outcome<()> {
        let mut state = self.state();
        if state.machine.is_going(bucket) {
            state.again.insert(bucket);
        }
        if stamps.is_out(bucket) { Err(refusal::just_left()) } else { Ok(()) }
    }

    /// A try begins.
    fn begun(&self, bucket: BucketId) {
        let mut state = self.state();
        if state.again.remove(&bucket) {
            state.handed.remove(&bucket);
        }
    }
}

impl Site {
    /// When a read makes this site a member: as said for this site, else as the bucket says.
    pub(crate) fn joins(&self, bucket: &Bucket) -> Joins {
        self.leaving.state().joins.get(&bucket.id).copied().unwrap_or_else(|| bucket.config.joins())
    }

    /// What was said for this site alone.
    pub(crate) fn joins_here(&self, bucket: BucketId) -> Option<Joins> {
        self.leaving.state().joins.get(&bucket).copied()
    }

    /// Refuses to hold what this site is about to let go of, or has: copies would make it a member again.
    pub(crate) fn check_takes(&self, bucket: &Bucket) -> Outcome<()> {
        let state = self.leaving.state();
        let is_part = self.following.any_of(bucket.id);
        let out = is_part || matches!(state.joins.get(&bucket.id), Some(Joins::Manual | Joins::Never));
        if !state.machine.is_going(bucket.id) && (!out || self.is_member(bucket.id)) {
            return Ok(());
        }
        let why = if is_part { "it follows only a prefix of it" } else { "it has left it, or is about to" };
        let message = format!("{} keeps no copies of {}: {why}", self.called(), bucket.name);
        Err(ServiceError::new(ErrorKind::NotResident, message))
    }

    /// Whether it is no member and may not become one: nobody wants it, or its writes go to members.
    pub(crate) fn stays_out(&self, bucket: &Bucket) -> bool {
        !self.is_member(bucket.id) && (self.joins(bucket) == Joins::Never || self.writes_through(bucket.id))
    }
}

/// Says when this site becomes a member of a bucket; none: as the bucket says.
pub(crate) async fn set_joins(site: &Arc<Site>, bucket: BucketId, joins: Option<Joins>) -> Outcome<()> {
    let fact = joins_fact(bucket, joins);
    site.commit(site.system, (), move |_| Ok(((), vec![entry(&fact)]))).await?;
    let mut state = site.leaving.state();
    match joins {
        Some(joins) => state.joins.insert(bucket, joins),
        None => state.joins.remove(&bucket),
    };
    Ok(())
}

/// No read makes a member of a site that has left; what said more says it still.
const fn least(joins: Joins) -> Joins {
    match joins {
        Joins::Never => Joins::Never,
        Joins::OnRead | Joins::Always | Joins::Manual => Joins::Manual,
    }
}

fn joins_fact(bucket: BucketId, joins: Option<Joins>) -> Entry {
    let value = joins.map(|joins| joins.name().as_bytes().into());
    Entry::Local { key: Stored::Join.key(bucket).into(), value }
}

/// This site becomes a member, or stays one after all.
pub(crate) async fn join(site: &Arc<Site>, bucket: &Bucket) -> Outcome<()> {
    if bucket.config.joins() == Joins::Never {
        let message = format!(
            "{0} lets no site follow it (join = never); `skerry bucket set {0} --join manual` first",
            bucket.name
        );
        return Err(ServiceError::new(ErrorKind::NotResident, message));
    }
    if site.leaving.note(bucket.id).is_some() {
        let stays = forget(Stored::Leaving, bucket.id);
        site.commit(site.system, (), move |_| Ok(((), vec![entry(&stays)]))).await?;
        site.leaving.end(bucket.id);
    }
    site.leaving.pass(site, bucket.id).await;
    set_joins(site, bucket.id, None).await?;
    site.join(bucket.id).await
}

/// Begins to leave: refused if it can be known now that it cannot end well.
pub(crate) async fn begin(site: &Arc<Site>, bucket: &Bucket) -> Outcome<()> {
    site.duties.check(Act::Leave)?;
    if !site.is_member(bucket.id) {
        return set_joins(site, bucket.id, Some(least(site.joins(bucket)))).await;
    }
    refuse_home(site, bucket)?;
    if site.pins.any_of(bucket.id, |prefix| !site.following.has(bucket.id, prefix)) {
        let message =
            format!("something of {0} is pinned here: `skerry bucket unpin {0}` first", bucket.name);
        return Err(ServiceError::refused(message));
    }
    let id = bucket.id;
    let members = others(site, id).await;
    let (sums, uploads) = site
        .read(move |view| {
            let uploads = space::list_uploads(view, id, "", None, 1).map_err(unreadable)?;
            Ok((space::sums(view, id).map_err(unreadable)?, uploads))
        })
        .await?;
    if members.is_empty() {
        let message = format!(
            "{} is the only member of {}: {} objects ({} bytes) would be lost. Let another site join it first: \
             `skerry bucket join {}` there",
            site.called(),
            bucket.name,
            sums.keys,
            sums.bytes,
            bucket.name
        );
        return Err(ServiceError::refused(message));
    }
    if let Some(upload) = uploads.first() {
        let message = format!(
            "an upload in parts of {} goes on here ({}); complete or abort it first",
            upload.key, upload.id
        );
        return Err(ServiceError::refused(message));
    }
    let wish = say(Stored::Leaving, id);
    site.commit(site.system, (), move |_| Ok(((), vec![entry(&wish)]))).await?;
    site.leaving.state().machine.begin(id);
    tracing::info!(bucket = bucket.name, "this site is about to leave the bucket");
    Ok(())
}

fn refuse_home(site: &Site, bucket: &Bucket) -> Outcome<()> {
    if bucket.home != site.id {
        return Ok(());
    }
    let message = format!(
        "{} is the home of {}: it decides its conditions. Move the home first: `skerry bucket home {} --to SITE`",
        site.called(),
        bucket.name,
        bucket.name
    );
    Err(ServiceError::refused(message))
}

/// The other members that are known, and who took something for this leave: that made members of them, too. Who is declared
/// lost has nothing any more and is not waited for.
async fn others(site: &Site, bucket: BucketId) -> BTreeSet<SiteId> {
    let members = site.drive.ask(move |machine, _| machine.members(bucket)).await;
    let took = site.leaving.state().handed.get(&bucket).map(|handed| handed.by.keys().copied().collect());
    let took: Vec<SiteId> = took.unwrap_or_default();
    let lost = site.copies.lost();
    members.unwrap_or_default().into_iter().chain(took).filter(|other| !lost.contains(other)).collect()
}

/// At how many members all records are to be: as the bucket wants copies, and as single writes were answered for.
fn wanted(site: &Site, bucket: &Bucket) -> usize {
    let promised = site.leaving.state().handed.get(&bucket.id).map_or(0, |handed| handed.places);
    usize::from(bucket.config.copies_in_all()).max(promised)
}

/// Answers a site that wants to leave, or is emptied. One that is emptied itself goes as well, of every bucket.
pub(crate) async fn answer(site: &Arc<Site>, bucket: BucketId) -> Outcome<Response> {
    let standing = || {
        if !site.is_member(bucket) {
            Some(Standing::Absent)
        } else if site.leaving.note(bucket).is_some() || site.duties.own().leaves() {
            Some(Standing::Leaves)
        } else if !site.is_complete(bucket) {
            Some(Standing::Joins)
        } else {
            None
        }
    };
    if let Some(standing) = standing() {
        return Ok(Response::Standing(Box::new(standing)));
    }
    let read = move |view: &dyn View| {
        let vector = space::vector(view, bucket).map_err(unreadable)?;
        let loose = space::loose(view, bucket).map_err(unreadable)?;
        Ok(Standing::Stays { vector, loose: loose.into_iter().map(shown).collect() })
    };
    let stays = site.read(read).await?;
    // What became otherwise meanwhile counts.
    Ok(Response::Standing(Box::new(standing().unwrap_or(stays))))
}

/// As it travels.
pub(crate) fn shown(space::Loose { origin, covered, print }: space::Loose) -> Loose {
    let print = skerry_federation::Fingerprint { count: print.count, sum: print.sum.to_be_bytes() };
    Loose { origin, covered, print }
}

/// What this site holds, as far as others must have it.
fn own(view: &dyn View, bucket: BucketId) -> Outcome<Own> {
    let vector = space::vector(view, bucket).map_err(unreadable)?;
    let mut own = Own { vector, loose: Vec::new() };
    for space::Loose { origin, covered, .. } in space::loose(view, bucket).map_err(unreadable)? {
        own.loose.push((origin, beyond(view, bucket, (origin, covered), limits::LOOSE_LEFT)?));
    }
    Ok(own)
}

/// The seqs of an origin beyond what is covered, read page by page; none if they are more than `most`.
fn beyond(
    view: &dyn View,
    bucket: BucketId,
    (origin, covered): (Origin, u64),
    most: usize,
) -> Outcome<Option<Vec<u64>>> {
    let (mut seqs, mut after) = (Vec::new(), covered);
    while seqs.len() <= most {
        let range = space::DotRange::span(origin, after.saturating_add(1), u64::MAX);
        let page = space::dots_in(view, bucket, range, limits::LOOSE_DOTS).map_err(unreadable)?;
        seqs.extend(page.iter().map(|dot| dot.seq));
        match page.last() {
            Some(last) if page.len() == limits::LOOSE_DOTS && last.seq < u64::MAX => after = last.seq,
            _ => return Ok(Some(seqs).filter(|seqs| seqs.len() <= most)),
        }
    }
    Ok(None)
}

/// Asks all members that can be reached what they have.
async fn ask(site: &Arc<Site>, bucket: BucketId, members: &BTreeSet<SiteId>) -> Option<Attempt> {
    let round = site.leaving.state().machine.ask(bucket)?;
    let request = Request::Standing { bucket };
    let mut asked = Vec::new();
    for member in members.iter().copied().filter(|member| site.linked(*member)) {
        let (site, request) = (site.clone(), request.clone());
        asked.push(
            async move { (member, tokio::time::timeout(SAY, site.peers.call(member, &request)).await) },
        );
    }
    for (member, answer) in join_all(asked).await {
        if let Ok(Ok(answer)) = answer
            && let Response::Standing(standing) = answer.response
        {
            site.leaving.state().machine.said(bucket, round, member, *standing);
        }
    }
    let said = site.leaving.state().machine.attempt(bucket)?;
    Some(said.with(site.peers.roster.together()))
}

/// Says as well who would hold it, and goes itself.
fn nobody_stays(site: &Site, said: &Attempt, error: ServiceError) -> ServiceError {
    let names: Vec<String> = said.leaving().map(|other| site.peers.roster.name(other)).collect();
    if names.is_empty() {
        return error;
    }
    let message = format!("{}; {} {GOES}", error.message(), names.join(", "));
    ServiceError::new(error.kind(), message)
}

/// What is said of a site that does not count because it goes.
const GOES: &str = "is about to leave as well, or is being emptied";

/// In words.
fn why(site: &Site, wait: &Wait) -> String {
    let names = |sites: &[SiteId]| {
        sites.iter().map(|site_id| site.peers.roster.name(*site_id)).collect::<Vec<_>>().join(", ")
    };
    let mut reasons = Vec::new();
    for (sites, what) in [
        (&wait.behind, "has not taken everything yet"),
        (&wait.silent, "has not answered"),
        (&wait.leaving, GOES),
    ] {
        if !sites.is_empty() {
            reasons.push(format!("{} {what}", names(sites)));
        }
    }
    if wait.wanted == 0 {
        reasons.push("no other member would be left".into());
    }
    format!("{} of {} other members have everything: {}", wait.have, wait.wanted, reasons.join("; "))
}

/// Tries again and again, and drops what was left.
pub(crate) async fn work(site: Arc<Site>) {
    // Who the members are is heard anew after a start: of those that are known a moment too early fewer would be enough.
    while site.waits_for_links().await {}
    pick_up(&site).await;
    let mut paces: BTreeMap<BucketId, Pace> = BTreeMap::new();
    let mut turns = tokio::time::interval(TURN);
    turns.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        let (going, sweeps) = {
            let state = site.leaving.state();
            (state.machine.all().collect::<Vec<_>>(), state.sweeps.iter().copied().collect::<Vec<_>>())
        };
        paces.retain(|bucket, _| going.contains(bucket));
        for bucket in going {
            let news = News::of(&site);
            if paces.get(&bucket).is_some_and(|pace| !pace.is_due(&news, site.clock.now())) {
                continue;
            }
            if let Err(error) = attempt(&site, bucket).await {
                let reason = error.message().to_owned();
                tracing::debug!(%bucket, reason, "the bucket is not left yet");
                let note = Note { reason, ..site.leaving.note(bucket).unwrap_or_default() };
                site.leaving.set_note(bucket, note);
            }
            let ended = (site.leaving.note(bucket), site.leaving.handed_upto(bucket));
            let pace = Pace::after(paces.remove(&bucket), news, ended, site.clock.now());
            paces.insert(bucket, pace);
        }
        for bucket in sweeps {
            if let Err(error) = sweep(&site, bucket).await {
                tracing::warn!(%bucket, %error, "what was left of a bucket could not be dropped");
            }
        }
        turns.tick().await;
    }
}

/// Writes wait no longer for a try that broke off, and what it was about to let go is a member again.
async fn pick_up(site: &Arc<Site>) {
    let going: Vec<BucketId> = {
        let mut state = site.leaving.state();
        state.closed.clear();
        state.machine.all().collect()
    };
    let _gate = site.leaving.gate().await;
    for bucket in going.into_iter().filter(|bucket| !site.is_member(*bucket)) {
        reopen(site, bucket).await;
    }
    site.changes.world();
}

/// One try.
async fn attempt(site: &Arc<Site>, id: BucketId) -> Outcome<()> {
    let Some(bucket) = site.claim_of(id).await? else {
        // Nobody has it any more.
        site.leaving.end(id);
        return Ok(());
    };
    site.duties.check(Act::Leave)?;
    refuse_home(site, &bucket)?;
    site.leaving.begun(id);
    let members = others(site, id).await;
    let Some(said) = ask(site, id, &members).await else { return Ok(()) };
    let handed = hand_over::turn(site, &bucket, &said, &members).await;
    handed.map_err(|error| nobody_stays(site, &said, error))?;
    let own = site.read(move |view| own(view, id)).await?;
    let copies = wanted(site, &bucket);
    if let Verdict::Wait(wait) = said.judge(&own, copies, &members) {
        site.leaving.set_note(id, Note { reason: why(site, &wait), ..Note::default() });
    }
    // Who is behind because writes go on here catches up once they wait; but writes do not wait for who is far behind,
    // nor again at once.
    let rests = site.leaving.state().rest.get(&id).is_some_and(|until| *until > site.clock.now());
    if rests || !said.is_near(&own, copies, &members, NEAR) {
        return Ok(());
    }
    let _closed = Closed::new(site, id);
    let ended = end(site, &bucket).await;
    if ended.is_err() {
        site.leaving.state().rest.insert(id, site.clock.now().after(REST));
    }
    ended
}

/// Writes to a bucket wait as long as this lives, also if what they wait for panics.
struct Closed<'a>(&'a Site, BucketId);

impl<'a> Closed<'a> {
    fn new(site: &'a Site, bucket: BucketId) -> Self {
        site.leaving.state().closed.insert(bucket);
        Self(site, bucket)
    }
}

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        self.0.leaving.state().closed.remove(&self.1);
        self.0.changes.world();
    }
}

/// A member again: nothing was let go.
async fn reopen(site: &Arc<Site>, bucket: BucketId) {
    let read = move |view: &dyn View| {
        let stored =
            view.get(Table::Local, &Stored::Member.key(bucket)).map_err(|error| unreadable(error.into()))?;
        Ok(stored.map(|value| crate::drive::stored::is_complete(&value)))
    };
    match site.read(read).await {
        Ok(Some(complete)) => site.joined(bucket, complete),
        // It was let go though nobody heard the answer.
        Ok(None) => gone(site, bucket),
        Err(error) => tracing::error!(%bucket, %error, "the membership cannot be read"),
    }
}

/// Asks until enough others have all that is here; none if it stays after all.
async fn settled(site: &Arc<Site>, bucket: &Bucket) -> Outcome<Option<Attempt>> {
    let id = bucket.id;
    loop {
        let members = others(site, id).await;
        let Some(said) = ask(site, id, &members).await else { return Ok(None) };
        hand_over::turn(site, bucket, &said, &members).await?;
        let own = site.read(move |view| own(view, id)).await?;
        match said.judge(&own, wanted(site, bucket), &members) {
            Verdict::Go => return Ok(Some(said)),
            Verdict::Wait(wait) => {
                site.leaving.set_note(id, Note { reason: why(site, &wait), ..Note::default() });
            }
        }
        rest(LOOK).await;
    }
}

fn late(_: tokio::time::error::Elapsed) -> ServiceError {
    refusal::unreachable("the others did not take the last records in time; it is tried again")
}

/// Writes here wait: the last records are handed over, then all is let go.
async fn end(site: &Arc<Site>, bucket: &Bucket) -> Outcome<()> {
    let Some(said) = tokio::time::timeout(CLOSED, settled(site, bucket)).await.map_err(late)?? else {
        return Ok(());
    };
    // A read or a conditional write that joins meanwhile would be a member in memory and none on disk.
    let _gate = site.leaving.gate().await;
    let ended = let_go(site, bucket, said).await;
    if ended.is_err() && !site.is_member(bucket.id) {
        reopen(site, bucket.id).await;
    }
    ended
}

/// The last step. What is once submitted is waited for.
async fn let_go(site: &Arc<Site>, bucket: &Bucket, said: Attempt) -> Outcome<()> {
    let id = bucket.id;
    let members = others(site, id).await;
    site.close(id).await;
    site.following.begin_anew(id);
    // What a feed brought since it was asked.
    let last = hand_over::turn(site, bucket, &said, &members);
    tokio::time::timeout(CLOSED, last).await.map_err(late)??;
    let handed = site.leaving.state().handed.get(&id).cloned().unwrap_or_default();
    let incarnation =
        entropy::number().map_err(|error| ServiceError::new(ErrorKind::Internal, error.to_string()))?;
    let joins = site.joins_here(id).map_or(Joins::Manual, least);
    let copies = wanted(site, bucket);
    let letting = Letting { said, copies, members, handed, incarnation, joins };
    let here = site.clone();
    let propose = move |view: &dyn View| {
        here.duties.check(Act::Leave)?;
        letting.check(view, id, (here.system, here.id))?;
        let entries = letting.entries(view, id)?;
        let state = here.leaving.state();
        if state.again.contains(&id) {
            return Err(something_came());
        }
        // Whoever brings a body from now on hears that the bucket was left.
        here.stamps.leave(id, letting.incarnation);
        Ok(((), entries))
    };
    // No step of a batch may come after it.
    site.commit_behind(id, propose).await?;
    gone(site, id);
    tracing::info!(bucket = bucket.name, "this site has left the bucket");
    Ok(())
}

fn something_came() -> ServiceError {
    refusal::unreachable("something came to the bucket while it was left; it is tried again")
}

/// It was let go.
fn gone(site: &Arc<Site>, bucket: BucketId) {
    site.following.begin_anew(bucket);
    let mut state = site.leaving.state();
    // Before the leaving ends: whoever asks sees it leaving, or sweeping, or gone.
    state.sweeps.insert(bucket);
    state.joins.entry(bucket).and_modify(|joins| *joins = least(*joins)).or_insert(Joins::Manual);
    drop(state);
    site.copies.forget(bucket);
    site.leaving.end(bucket);
    site.drive.tell(Input::Leave { bucket });
    site.changes.happened(bucket);
}

/// What the commit that lets go is judged by.
struct Letting {
    said: Attempt,
    copies: usize,
    members: BTreeSet<SiteId>,
    handed: Handed,
    incarnation: u64,
    joins: Joins,
}

impl Letting {
    /// Whether all that is here by now is at enough others.
    fn check(&self, view: &dyn View, bucket: BucketId, (system, me): (BucketId, SiteId)) -> Outcome<()> {
        let leaves = view.get(Table::Local, &Stored::Leaving.key(bucket));
        if leaves.map_err(|error| unreadable(error.into()))?.is_none() {
            return Err(refusal::unreachable("the site stays after all"));
        }
        let own = own(view, bucket)?;
        if self.said.judge(&own, self.copies, &self.members) != Verdict::Go || !self.handed.includes(&own) {
            return Err(something_came());
        }
        if !space::list_uploads(view, bucket, "", None, 1).map_err(unreadable)?.is_empty() {
            return Err(refusal::unreachable("an upload in parts began here; complete or abort it first"));
        }
        if held::any_of(view, bucket)? {
            return Err(refusal::unreachable(
                "of a conditional write with its body here it is not known yet whether the bucket's home decided it",
            ));
        }
        let home = model::home(view, system, bucket).map_err(unreadable)?;
        if home.is_some_and(|home| home.site == me) {
            return Err(refusal::unreachable("this site has become the bucket's home; move it first"));
        }
        Ok(())
    }

    fn entries(&self, view: &dyn View, bucket: BucketId) -> Outcome<Vec<skerry_storage::Entry>> {
        let mut entries = vec![
            Entry::Leave { bucket },
            space::not_anew(bucket),
            space::unheard(bucket, None),
            model::forget_spare(bucket),
            forget(Stored::Member, bucket),
            forget(Stored::Horizon, bucket),
            forget(Stored::Doubt, bucket),
            forget(Stored::Leaving, bucket),
            say(Stored::Left, bucket),
            joins_fact(bucket, Some(self.joins)),
        ];
        entries.extend(crate::copies::book::forgotten(view, bucket).map_err(unreadable)?);
        Ok(entries.iter().map(|one| entry(one).freeing()).collect())
    }
}

/// Drops what is still here of a bucket that was left, unless it was joined again.
async fn sweep(site: &Arc<Site>, bucket: BucketId) -> Outcome<()> {
    let mut dropped = 0_u64;
    loop {
        let next = move |view: &dyn View| {
            let left = view.get(Table::Local, &Stored::Left.key(bucket));
            if left.map_err(|error| unreadable(error.into()))?.is_none() {
                return Ok((0, Vec::new()));
            }
            let dots: Vec<Dot> = space::left(view, bucket, AT_ONCE).map_err(unreadable)?;
            let count = dots.len() as u64;
            let next = match dots.is_empty() {
                // What was known of copies may have been written down once more while the bucket was let go.
                true => {
                    let mut last = crate::copies::book::forgotten(view, bucket).map_err(unreadable)?;
                    last.push(forget(Stored::Left, bucket));
                    last
                }
                false => vec![Entry::Drop { bucket, dots }],
            };
            Ok((count, next.iter().map(|one| entry(one).freeing()).collect()))
        };
        match site.commit(bucket, (), next).await? {
            0 => break,
            count => dropped += count,
        }
        rest(PACE).await;
    }
    site.leaving.state().sweeps.remove(&bucket);
    tracing::info!(%bucket, dropped, "records of a bucket that was left are gone");
    Ok(())
}
