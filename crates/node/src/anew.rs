//! A start on a journal that lost entries, or on a store that was emptied: this site begins anew with all that it follows, and asks
//! every other one what it has.
//!
//! Before: [`begin`], before anything else reads the store. After: [`work`], which asks; `skerry_federation::anew` judges what
//! was said, `skerry_model::space::anew` is what is taken back; [`unheard`] is about those who were not asked, and come back,
//! [`homes`] about buckets of which this site turns out to be the home. In between the site is a member that is still joining, as one
//! that has just come to the bucket: the feeds bring what others have, and let go of what died meanwhile. It decides no condition,
//! and says nothing of what it holds for others ([`Site::check_whole`]).
//!
//! Invariants: all is taken back before anybody is served or asked; that it was done is written last, so that a start which
//! is cut short begins again; a site that knows no other one has nobody to ask, and goes on; what is whole again is so in one
//! commit.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;
use skerry_base::kv::{Table, View};
use skerry_base::{BucketId, NodeId, SiteId};
use skerry_federation::alone::{Held, Remains};
use skerry_federation::anew::{Anew, Own};
use skerry_federation::departure::Standing;
use skerry_gateway::service::{AnewStatus, ErrorKind, Outcome, ServiceError};
use skerry_model::bucket::{self as model, SiteDocument, SiteState, SystemKey};
use skerry_model::space::{self, DotRange, SpaceError};
use skerry_model::{Entry, Record};
use skerry_storage::{CommitError, Store};
use tokio::sync::{oneshot, watch};

use crate::copies::book;
use crate::drive::stored::{LIFE, Stored, forget, membership, say, swept};
use crate::nodes::Aside;
use crate::paths::refusal;
use crate::peers::kept_out::KeptOut;
use crate::peers::message::{Request, Response};
use crate::site::{Site, entry, unreadable};
use crate::tasks::rest;

mod homes;
mod unheard;

/// Between two looks.
const TURN: Duration = Duration::from_secs(1);
/// How long another site may take to say what it has.
const SAY: Duration = Duration::from_secs(5);
/// Others that are asked at once.
const AT_ONCE: usize = 16;
/// Others that are named: a status is read by people.
const NAMED: usize = 16;
/// A start may be among what was lost: its number is not to be used again.
const LEAP: u64 = 1 << 16;

/// What is not whole yet.
pub(crate) struct Beginning {
    state: Mutex<Anew>,
    /// Who was asked last and did not say what it has.
    silent: Mutex<BTreeSet<SiteId>>,
    /// Who came back whom an earlier start had not waited for: waited for, though it is declared lost.
    back: Mutex<BTreeSet<SiteId>>,
    /// Whether this process is to be started anew.
    begins: watch::Sender<bool>,
}

impl Beginning {
    fn state(&self) -> MutexGuard<'_, Anew> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn silent(&self) -> MutexGuard<'_, BTreeSet<SiteId>> {
        self.silent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn back(&self) -> MutexGuard<'_, BTreeSet<SiteId>> {
        self.back.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As the store says at the start; keeps out who is not to be heard.
    pub(crate) fn resume(node: NodeId, view: &dyn View, kept_out: &KeptOut) -> Result<Self, SpaceError> {
        let state = Mutex::new(Anew::new(node, space::all_anew(view)?));
        let known = unheard::Known::read(view)?;
        kept_out.add(&known.out);
        Ok(Self {
            state,
            silent: Mutex::default(),
            back: Mutex::new(known.back),
            begins: watch::Sender::new(false),
        })
    }

    /// Whether there is any such bucket. None comes to them but at a start.
    pub(crate) fn is_any(&self) -> bool {
        !self.buckets().is_empty()
    }

    /// Returns when this process is to be started anew: then there are such buckets again.
    pub(crate) async fn begins(&self) {
        self.begins.subscribe().wait_for(|begins| *begins).await.ok();
    }

    pub(crate) fn buckets(&self) -> Vec<BucketId> {
        self.state().buckets().collect()
    }
}

/// What this site is, before it is one.
pub(crate) struct Start {
    pub(crate) system: BucketId,
    pub(crate) me: SiteId,
    /// Whether it is a node of a site of several.
    pub(crate) is_fellow: bool,
    /// Whether it was started before, and its store has nothing of that.
    pub(crate) is_emptied: bool,
    /// Records of sites that lie beside the store: it may have lost those that it knew.
    pub(crate) roster: Vec<Vec<u8>>,
    /// What is known beside the journal of the view of its site: it may have lost that.
    pub(crate) view: Option<Entry>,
}

impl Start {
    /// Records of members that the store does not know.
    fn forgotten(&self, known: &BTreeMap<SiteId, SiteDocument>) -> Vec<Record> {
        let records = self.roster.iter().filter_map(|bytes| Record::admit(bytes).ok());
        let is_forgotten = |record: &Record| {
            let Some(SystemKey::Site(id)) = SystemKey::parse(&record.key) else { return false };
            let document = model::document::<SiteDocument>(record).ok().flatten();
            let is_member = document.is_some_and(|document| document.state == SiteState::Member);
            record.bucket == self.system && is_member && id != self.me && !known.contains_key(&id)
        };
        records.filter(is_forgotten).collect()
    }
}

/// Takes back what this node vouches for, if part of its journal is lost newly; else of the buckets that had not waited for a
/// site which came back.
pub(crate) async fn begin(store: &Arc<Store>, lost: &[(u64, u64)], start: Start) -> Outcome<()> {
    let view = store.view();
    let members = members(&view).map_err(unreadable)?;
    let is_new_loss = space::is_new_loss(&view, lost).map_err(unreadable)?;
    let due = unheard::due(&view).map_err(unreadable)?;
    drop(view);
    if is_new_loss || start.is_emptied {
        begin_with_all(store, &start, members).await?;
        // What begins with nothing counts its lives from the first.
        return if is_new_loss { begun(store, lost, start.view).await } else { Ok(()) };
    }
    if due.is_empty() {
        return Ok(());
    }
    let begun = take_back(store, &start, &members, due).await?;
    tracing::error!(
        buckets = begun,
        "a site is back that was not asked for what this one had lost: the buckets are begun anew once more"
    );
    Ok(())
}

async fn begin_with_all(store: &Arc<Store>, start: &Start, members: BTreeSet<BucketId>) -> Outcome<()> {
    let view = store.view();
    let sites: BTreeMap<SiteId, SiteDocument> =
        model::sites(&view, start.system).map_err(unreadable)?.into_iter().collect();
    let forgotten = start.forgotten(&sites);
    let is_other =
        |(id, known): (&SiteId, &SiteDocument)| *id != start.me && known.state == SiteState::Member;
    let is_alone = forgotten.is_empty() && !sites.iter().any(is_other);
    // A membership may be among what was lost.
    let mut followed = space::followed_whole(&view).map_err(unreadable)?;
    followed.extend(model::spared_buckets(&view, start.system).map_err(unreadable)?);
    let vouched = space::vouched(&view).map_err(unreadable)?;
    drop(view);
    if is_alone {
        if !start.is_emptied {
            tracing::error!(
                "part of the journal is lost, and what it said is lost with it: there is no other site to ask"
            );
        }
        let forgotten = followed.difference(&members).filter(|bucket| **bucket != start.system);
        let again: Vec<Entry> =
            forgotten.flat_map(|bucket| [membership(*bucket, true), swept(*bucket)]).collect();
        commit(store, move |_| Ok(again)).await?;
    } else {
        let members: BTreeSet<BucketId> = members.union(&followed).copied().collect();
        let all = members.iter().copied().chain(vouched).chain([start.system]).collect();
        let begun = take_back(store, start, &members, all).await?;
        // Nobody else sends them: who has them is dialled by them.
        let system = start.system;
        commit(store, move |view| space::keep(view, system, forgotten)).await?;
        tracing::error!(
            buckets = begun,
            "part of the journal is lost, or all of the store: this site takes what others have anew, and decides no conditions until \
             all were asked"
        );
    }
    Ok(())
}

/// That it was done, behind all of it.
async fn begun(store: &Arc<Store>, lost: &[(u64, u64)], site_view: Option<Entry>) -> Outcome<()> {
    let lost = lost.to_vec();
    commit(store, move |view| {
        let life = view.get(Table::Local, LIFE)?;
        let life = life.and_then(|bytes| Some(u64::from_be_bytes(bytes.as_ref().try_into().ok()?)));
        let life = life.unwrap_or(0).saturating_add(LEAP).to_be_bytes();
        let life = Entry::Local { key: Bytes::from_static(LIFE), value: Some(Bytes::copy_from_slice(&life)) };
        Ok(site_view.into_iter().chain([life, space::begun_anew(view, &lost)?]).collect())
    })
    .await
}

/// Takes back the vectors of these buckets; how many they are. The system bucket first: nothing that is decided by it is decided
/// while the others are taken back.
async fn take_back(
    store: &Arc<Store>,
    start: &Start,
    members: &BTreeSet<BucketId>,
    mut buckets: BTreeSet<BucketId>,
) -> Outcome<usize> {
    let system = buckets.take(&start.system);
    let all: Vec<BucketId> = system.into_iter().chain(buckets).collect();
    for bucket in &all {
        let (bucket, is_fellow, is_system) = (*bucket, start.is_fellow, *bucket == start.system);
        let is_member = members.contains(&bucket) && !is_system;
        let entries = move |view: &dyn View| {
            let mut entries = space::anew(view, bucket)?;
            entries.extend((!is_member && !is_system).then(|| space::not_anew(bucket)));
            if is_member {
                entries.extend([membership(bucket, false), swept(bucket)]);
            }
            // Own bodies may have gone with the frames: nothing is covered until it was looked through again.
            entries.push(book::covered_entry(bucket, None));
            entries.push(forget(Stored::Rest, bucket));
            entries.extend(is_fellow.then(|| say(Stored::Gap, bucket)));
            Ok(entries)
        };
        commit(store, entries).await?;
    }
    Ok(all.len())
}

fn members(view: &dyn View) -> Result<BTreeSet<BucketId>, SpaceError> {
    let mut members = BTreeSet::new();
    view.scan_prefix(Table::Local, Stored::Member.prefix(), &mut |key, _| {
        members.extend(Stored::Member.bucket(key));
        ControlFlow::Continue(())
    })?;
    Ok(members)
}

/// Has entries durable before there is a site; a full disk must not keep it from starting.
async fn commit(
    store: &Arc<Store>,
    entries: impl FnOnce(&dyn View) -> Result<Vec<Entry>, SpaceError> + Send + 'static,
) -> Outcome<()> {
    let (answer, answered) = oneshot::channel();
    store.submit(
        move |view| entries(view).map(|all| ((), all.iter().map(|one| entry(one).freeing()).collect())),
        move |result: Result<(), CommitError<SpaceError>>| {
            answer.send(result).ok();
        },
    );
    match answered.await.map_err(|_| refusal::unanswered())? {
        Ok(()) => Ok(()),
        Err(CommitError::Refused(error)) => Err(unreadable(error)),
        Err(CommitError::Storage(error)) => Err(refusal::storage(error)),
    }
}

impl Site {
    /// Whether all others were heard of a bucket. Who the others are is said by the system bucket.
    fn is_heard(&self, bucket: BucketId) -> bool {
        let (others, state) = (others(self), self.anew.state());
        state.waits(bucket, others).is_empty() && (bucket == self.system || !state.contains(self.system))
    }

    /// Whether of a bucket that is begun anew all others were heard that can be: what such a one has overwritten, or killed, is so
    /// here as well.
    pub(crate) fn is_heard_of_linked(&self, bucket: BucketId) -> bool {
        let (others, state) = (others(self), self.anew.state());
        state.contains(bucket) && !state.waits(bucket, others).into_iter().any(|other| self.linked(other))
    }

    /// For whom a bucket that is begun anew waits without taking anything: they are not linked, or do not say what they have.
    pub(crate) fn waits_in_vain(&self, bucket: BucketId) -> Option<String> {
        let (others, silent) = (others(self), self.anew.silent().clone());
        let waits = self.anew.state().waits(bucket, others);
        let (vain, taken): (Vec<SiteId>, Vec<SiteId>) =
            waits.into_iter().partition(|other| !self.linked(*other) || silent.contains(other));
        let names: Vec<String> = vain.iter().take(NAMED).map(|other| named(self, &silent, *other)).collect();
        let is_vain = taken.is_empty() && !names.is_empty();
        is_vain.then(|| {
            format!("this site lost part of its journal, or its store, and waits for {}", names.join(", "))
        })
    }

    /// Refuses to decide, or to say for good, what rests on records of a bucket of which some were lost here and not all others
    /// were asked yet.
    pub(crate) fn check_whole(&self, bucket: BucketId) -> Outcome<()> {
        let state = self.anew.state();
        if state.contains(bucket) { Err(lost_some()) } else { Ok(()) }
    }
}

/// Why nothing is decided here.
pub(crate) fn lost_some() -> ServiceError {
    let message = "this site lost part of its journal, or its store, and has not heard yet from all others what it had decided (`skerry status` \
        there says for whom it waits); write without the condition, or try again";
    ServiceError::new(ErrorKind::HomeUnreachable, message)
}

/// Asks again and again, until all is whole. Meanwhile the homes of a node are left to the others of its site.
pub(crate) async fn work(site: Arc<Site>) {
    let until_whole = async {
        tokio::select! {
            () = ask_all(&site) => {}
            () = Aside::default().keep(&site) => {}
            () = unheard::give_up(&site) => {}
        }
        site.nodes.stand_aside(false);
    };
    tokio::join!(until_whole, unheard::heed(&site, &site.anew.begins));
}

async fn ask_all(site: &Arc<Site>) {
    loop {
        let mut buckets = site.anew.buckets();
        if buckets.is_empty() {
            return;
        }
        // First who there is, and who decides; what comes of it is looked at with the next turn.
        buckets.sort_by_key(|bucket| *bucket != site.system);
        let (others, mut silent) = (others(site), BTreeSet::new());
        for bucket in buckets {
            if let Err(error) = look(site, bucket, &others, &mut silent).await {
                tracing::debug!(%bucket, %error, "what others have of the bucket is not known yet");
            }
            if bucket == site.system && site.check_whole(bucket).is_ok() {
                break;
            }
        }
        rest(TURN).await;
    }
}

/// The others that count: all but those that an operator has declared lost, and that are gone indeed.
fn others(site: &Site) -> Vec<SiteId> {
    let (lost, back) = (site.copies.lost(), site.anew.back());
    let is_there = |other: &SiteId| site.linked(*other) || back.contains(other) || !lost.contains(other);
    let counts = |other: &SiteId| *other != site.id && is_there(other);
    site.peers.roster.all().into_keys().filter(counts).collect()
}

/// `silent`: who did not answer in this turn is not waited for once more in it, bucket by bucket.
async fn look(
    site: &Arc<Site>,
    bucket: BucketId,
    others: &[SiteId],
    silent: &mut BTreeSet<SiteId>,
) -> Outcome<()> {
    if bucket != site.system && !site.is_member(bucket) {
        site.note_down(vec![space::not_anew(bucket), space::unheard(bucket, None)]).await?;
        site.anew.state().end(bucket);
        return Ok(());
    }
    let waits = site.anew.state().waits(bucket, others.to_vec());
    let asks = |other: &SiteId| !silent.contains(other) && site.linked(*other);
    let linked: Vec<SiteId> = waits.into_iter().filter(asks).collect();
    for some in linked.chunks(AT_ONCE) {
        let asked = some.iter().map(|other| async {
            let begun = site.clock.now();
            let answer = held(site, bucket, *other).await;
            (*other, answer, site.clock.now().since(begun) >= SAY)
        });
        let mut said = Vec::new();
        for (other, answer, is_late) in join_all(asked).await {
            silent.extend((answer.is_none() && is_late).then_some(other));
            match answer {
                Some(_) => site.anew.silent().remove(&other),
                None => site.anew.silent().insert(other),
            };
            said.extend(answer.map(|answer| (other, answer)));
        }
        hear(site, bucket, said).await?;
    }
    if site.is_heard(bucket) { end(site, bucket).await } else { Ok(()) }
}

/// What a site says that it holds; none if it does not say, or nothing where it is no member.
async fn held(site: &Arc<Site>, bucket: BucketId, other: SiteId) -> Option<Option<Held>> {
    let ask = async |request: Request| {
        let said = tokio::time::timeout(SAY, site.peers.call(other, &request)).await;
        said.ok()?.ok().map(|said| said.response)
    };
    match ask(Request::Remains { bucket }).await? {
        Response::Remains(remains) => match *remains {
            Remains::Nothing | Remains::Records => return Some(None),
            Remains::Joins(held) => return Some(Some(held)),
            Remains::Whole => {}
        },
        _ => return None,
    }
    match ask(Request::Standing { bucket }).await? {
        Response::Standing(standing) => match *standing {
            Standing::Stays { vector, loose } => return Some(Some(Held { vector, loose })),
            // What it has beyond its vector it hands over itself.
            Standing::Leaves => {}
            Standing::Joins | Standing::Absent => return None,
        },
        _ => return None,
    }
    match ask(Request::Size { bucket }).await? {
        Response::Size { vector, .. } => Some(Some(Held { vector, loose: Vec::new() })),
        _ => None,
    }
}

/// Compares what others said with what is here.
async fn hear(site: &Arc<Site>, bucket: BucketId, said: Vec<(SiteId, Option<Held>)>) -> Outcome<()> {
    let (here, life) = (site.clone(), site.stamps.origin_of(bucket));
    let compare = move |view: &dyn View| {
        let vector = space::vector(view, bucket).map_err(unreadable)?;
        // What was said is looked at by what is here now: prints are taken before the state is held.
        let mut prints = BTreeMap::new();
        for loose in said.iter().filter_map(|(_, held)| held.as_ref()).flat_map(|held| &held.loose) {
            let range = DotRange::span(loose.origin, loose.covered.saturating_add(1), u64::MAX);
            let print = space::fingerprint(view, bucket, range).map_err(unreadable)?;
            let print = skerry_federation::Fingerprint { count: print.count, sum: print.sum.to_be_bytes() };
            prints.insert((loose.origin, loose.covered), print);
        }
        let print = |origin, covered| prints.get(&(origin, covered)).copied().unwrap_or_default();
        let own = Own { vector: &vector, life, print: &print };
        let mut state = here.anew.state();
        said.iter().for_each(|(other, held)| state.said(bucket, *other, held.as_ref(), &own));
        Ok(())
    };
    site.read(compare).await
}

/// All were heard, and nothing of what they have is missing here.
async fn end(site: &Arc<Site>, bucket: BucketId) -> Outcome<()> {
    // A membership that ends meanwhile takes the mark along.
    let _gate = site.leaving.gate().await;
    // Of what it had seen nothing of, as of a bucket that it turned out to be the home of, it is a member like one that joins: who
    // waits for what must be there then is `members.rs`.
    let had_seen = move |view: &dyn View| {
        let former = space::former(view, bucket).map_err(unreadable)?;
        Ok(former.is_some_and(|former| !former.is_empty()))
    };
    let is_whole = site.read(had_seen).await? && site.is_member(bucket) && bucket != site.system;
    let Some(passed_over) = unheard::pass_over(site, bucket) else { return Ok(()) };
    if bucket == site.system {
        homes::begin(site).await?;
    }
    let propose = move |view: &dyn View| {
        let mut entries = space::whole_again(view, bucket).map_err(unreadable)?;
        entries.extend((is_whole && !entries.is_empty()).then(|| membership(bucket, true)));
        entries.push(unheard::passed_over(bucket, passed_over));
        Ok(((), entries.iter().map(|one| entry(one).freeing()).collect()))
    };
    site.commit_behind(bucket, propose).await?;
    site.anew.state().end(bucket);
    if is_whole {
        site.whole_again(bucket);
    }
    site.leaving.set_waits(bucket, None);
    tracing::info!(%bucket, "all that others have is here again; what is not is lost");
    site.changes.world();
    Ok(())
}

/// What status says of it; none where all is whole.
pub(crate) fn status(site: &Site) -> Option<AnewStatus> {
    let state = site.anew.state();
    let buckets: Vec<BucketId> = state.buckets().collect();
    if buckets.is_empty() {
        return None;
    }
    let (others, silent) = (others(site), site.anew.silent().clone());
    let waits = |bucket: &BucketId| state.waits(*bucket, others.iter().copied());
    let waits: BTreeSet<SiteId> = buckets.iter().flat_map(waits).collect();
    let named = |other: &SiteId| named(site, &silent, *other);
    Some(AnewStatus {
        buckets: buckets.iter().filter(|bucket| **bucket != site.system).count() as u64,
        names: buckets.contains(&site.system),
        waits: waits.iter().take(NAMED).map(named).collect(),
        more: waits.len().saturating_sub(NAMED) as u64,
    })
}

/// Who is waited for, and why it is not heard.
fn named(site: &Site, silent: &BTreeSet<SiteId>, other: SiteId) -> String {
    let name = site.peers.roster.name(other);
    match site.linked(other) {
        false => format!("{name} (not linked)"),
        true if silent.contains(&other) => {
            format!("{name} (does not say what it has: slow, or of a release before: update it)")
        }
        true => name,
    }
}

/// What a site answers that cannot say yet what it holds. Once it has all that those have who are linked it says so, however long
/// others are away: who goes on counting on what was lost here copies nothing. Whoever asks is linked, though this end may not know it yet.
pub(crate) fn check_says(site: &Site, bucket: BucketId, asker: SiteId) -> Outcome<()> {
    let is_heard = || site.anew.state().waits(bucket, others(site)).into_iter().all(|other| other != asker);
    if site.check_whole(bucket).is_ok() || (site.is_heard_of_linked(bucket) && is_heard()) {
        return Ok(());
    }
    Err(refusal::unreachable(
        "this site lost part of its journal, or its store, and is still taking what others have of the bucket",
    ))
}
