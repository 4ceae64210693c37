//! Versions that died elsewhere, at a site whom nobody tells: one that keeps copies of what it read and is no member, or a
//! member that is behind and was asked for more than it has.
//!
//! An answer to a read carries what lives. A version that was erased is not in it, nor is what erased it; where it was
//! read before it still covers what came in its place. So what would be shown here and was not in the answer is asked for by
//! name: who has seen it and lacks it says that it is dead.
//!
//! Before: `far.rs`, `newer.rs`, `within.rs`, with an answer whose records are stored. After: `peers`. Invariants: dead is
//! what a complete member covers and lacks; the answer to a reader leaves it out, whoever this site is; only a site that
//! is no member lets go of it on that word: what a member covers it has, or has what killed it.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::{BoxFuture, try_join_all};
use skerry_base::kv::{Table, View};
use skerry_base::{Dot, SiteId, Vector};
use skerry_gateway::service::Outcome;
use skerry_model::{Record, space};

use super::get::{Found, Wanted};
use super::{far, refusal};
use crate::drive::stored::Stored;
use crate::peers::message::{List, Listed, Part, Read, Request, Response, Which};
use crate::site::{Site, entry, unreadable};

/// Versions that one read finds dead: each costs a round trip. Of more it is tried again; those are gone by then.
const AT_ONCE: usize = 64;
/// Versions of the first page in which a named marker is looked for: mostly it is one of the newest.
const NEWEST: u32 = 8;
/// And of those after it.
const VERSIONS: u32 = 1000;
/// Pages that one read looks through, whatever a member says: a key with more versions than that is to be read where it lies.
const PAGES: usize = 64;
/// How long a member may take to say whether a version lives.
const SAY: Duration = Duration::from_secs(5);

/// An answer with an object.
#[derive(Clone)]
pub(crate) struct Said {
    /// Whose.
    pub(crate) member: SiteId,
    /// What was in it.
    pub(crate) alive: BTreeSet<Dot>,
}

impl Said {
    pub(crate) fn of<'a>(member: SiteId, records: impl IntoIterator<Item = &'a Record>) -> Self {
        Self { member, alive: records.into_iter().map(|record| record.dot).collect() }
    }
}

/// An answer that there is none.
pub(crate) struct Denied {
    /// Whose.
    pub(crate) member: SiteId,
    /// What hides the key there.
    pub(crate) marker: Option<Dot>,
    /// What it had seen.
    pub(crate) vector: Vector,
}

/// What is here of what is wanted, but for what one of those who answered has seen die.
pub(crate) fn judged<'a>(
    site: &'a Site,
    wanted: &'a Wanted,
    said: &'a [Said],
) -> BoxFuture<'a, Outcome<Found>> {
    Box::pin(async move {
        let (mut said, mut dead) = (said.to_vec(), Vec::new());
        let mut overwritten = BTreeSet::new();
        let found = loop {
            if dead.len().max(overwritten.len()) >= AT_ONCE {
                let_go(site, wanted, dead).await;
                return Err(refusal::unreachable(
                    "very many versions of this key were erased elsewhere; try again",
                ));
            }
            let found = but_for(site, wanted, dead.clone()).await?;
            let (Found::Object(record) | Found::Marker(record)) = &found else { break found };
            let is_heard = overwritten.contains(&record.dot);
            if !is_heard {
                let Some(member) = who_saw_it_die(site, wanted, &said, record.dot).await? else {
                    break found;
                };
                // It may have been overwritten since the answer: then what killed it is not here, and without it there would be
                // nothing, or what is older. So that comes first; if it is shown after that it was erased by name.
                if record.is_null() {
                    overwritten.insert(record.dot);
                    match again(site, wanted, member).await? {
                        Again::Said(anew) => said.push(anew),
                        Again::Denied(anew) => {
                            denied(site, wanted, &anew).await?;
                            break unless_newer(but_for(site, wanted, dead.clone()).await?, &anew.vector);
                        }
                        Again::Silent => break found,
                    }
                    continue;
                }
            }
            dead.push(record.dot);
        };
        let_go(site, wanted, dead).await;
        Ok(found)
    })
}

/// A member has seen so much and shows nothing. Where this site is none, what it keeps of that goes, or is hidden as it is
/// there: once it was said to be gone it is not served when nobody can be asked.
pub(crate) async fn denied(site: &Site, wanted: &Wanted, denied: &Denied) -> Outcome<()> {
    if site.is_member(wanted.bucket.id) || site.trusts(wanted.bucket.id, &wanted.key).is_some() {
        return Ok(());
    }
    let mut dead = Vec::new();
    while dead.len() < AT_ONCE {
        let Found::Object(record) = but_for(site, wanted, dead.clone()).await? else { break };
        if !denied.vector.covers(record.dot) {
            break;
        }
        if let Some(marker) = denied.marker
            && !is_dead(site, wanted, denied.member, record.dot).await?
        {
            hide(site, wanted, (denied.member, marker)).await?;
            break;
        }
        dead.push(record.dot);
    }
    let_go(site, wanted, dead).await;
    Ok(())
}

/// Another has seen so much and has nothing: what it had seen of what is here is dead.
pub(crate) fn unless_newer(found: Found, vector: &Vector) -> Found {
    match found {
        Found::Object(record) if vector.covers(record.dot) => Found::Nothing,
        found => found,
    }
}

/// One of those who did not say a version that has seen it die.
async fn who_saw_it_die(site: &Site, wanted: &Wanted, said: &[Said], dot: Dot) -> Outcome<Option<SiteId>> {
    let lives = |member: SiteId| said.iter().any(|said| said.member == member && said.alive.contains(&dot));
    let doubted: BTreeSet<SiteId> =
        said.iter().map(|said| said.member).filter(|member| !lives(*member)).collect();
    let asked = doubted.iter().map(|member| is_dead(site, wanted, *member, dot));
    let answers = try_join_all(asked).await?;
    Ok(doubted.into_iter().zip(answers).find(|(_, is_dead)| *is_dead).map(|(member, _)| member))
}

/// What a member says that is asked once more.
enum Again {
    Said(Said),
    Denied(Denied),
    /// It says nothing of use.
    Silent,
}

/// Asks a member once more, for the records alone, which are kept.
async fn again(site: &Site, wanted: &Wanted, member: SiteId) -> Outcome<Again> {
    match ask(site, member, &far::question(wanted, Part::Nothing)).await? {
        Response::Object(found) => {
            let bytes = std::iter::once(&found.record).chain(&found.heads);
            let records = bytes.map(|bytes| far::admitted(wanted, bytes)).collect::<Outcome<Vec<_>>>()?;
            let said = Said::of(member, &records);
            far::keep(site, wanted.bucket.id, (), records).await?;
            Ok(Again::Said(said))
        }
        Response::NoObject { marker, vector } => Ok(Again::Denied(Denied { member, marker, vector })),
        Response::Refused { code, message } => Err(refusal::relayed(&code, message)),
        _ => Ok(Again::Silent),
    }
}

async fn but_for(site: &Site, wanted: &Wanted, dead: Vec<Dot>) -> Outcome<Found> {
    let wanted = wanted.clone();
    let read = move |view: &dyn View| {
        space::but_for(view, wanted.bucket.id, &dead, |left| wanted.local(left)).map_err(unreadable)?
    };
    site.read(read).await
}

/// Whether a member has seen a version and has it no more. Who is still taking the bucket cannot say so.
async fn is_dead(site: &Site, wanted: &Wanted, member: SiteId, dot: Dot) -> Outcome<bool> {
    let (bucket, key) = (wanted.bucket.id, wanted.key.clone());
    let question = Request::Read(Read { bucket, key, which: Which::Dot(dot), part: Part::Nothing });
    match ask(site, member, &question).await? {
        Response::NoObject { marker, vector } => Ok(marker != Some(dot) && vector.covers(dot)),
        Response::Refused { code, message } => Err(refusal::relayed(&code, message)),
        _ => Ok(false),
    }
}

async fn ask(site: &Site, member: SiteId, question: &Request) -> Outcome<Response> {
    let name = || site.peers.roster.name(member);
    match tokio::time::timeout(SAY, site.peers.call(member, question)).await {
        Ok(Ok(answer)) => Ok(answer.response),
        Ok(Err(error)) => Err(refusal::unreachable(format!("{}: {error}", name()))),
        Err(_) => Err(refusal::unreachable(format!("{} does not answer", name()))),
    }
}

/// Keeps the marker that hides a key at a member.
async fn hide(site: &Site, wanted: &Wanted, marker: (SiteId, Dot)) -> Outcome<()> {
    keep_marker(site, wanted, marker, (1, 1)).await
}

/// Keeps the marker that was named as a version of a key, wherever among them it is.
pub(super) async fn keep_named(site: &Site, wanted: &Wanted, marker: (SiteId, Dot)) -> Outcome<()> {
    keep_marker(site, wanted, marker, (NEWEST, PAGES)).await
}

/// Keeps a marker that a member has, if it is among so many versions of the key, or the thousands on pages after them.
async fn keep_marker(
    site: &Site,
    wanted: &Wanted,
    (member, marker): (SiteId, Dot),
    (newest, pages): (u32, usize),
) -> Outcome<()> {
    let mut list = List {
        bucket: wanted.bucket.id,
        prefix: wanted.key.clone(),
        delimiter: None,
        after: String::new(),
        after_version: None,
        limit: newest,
    };
    for _ in 0..pages {
        let Response::Page(page) = ask(site, member, &Request::Versions(list.clone())).await? else {
            return Ok(());
        };
        let mut last = None;
        for listed in &page.entries {
            let Listed::Version { record, null, .. } = listed else { return Ok(()) };
            // Keys that only begin like this one come behind all of its versions.
            let Ok(record) = far::admitted(wanted, record) else { return Ok(()) };
            let which = if *null { Which::Null } else { Which::Dot(record.dot) };
            if record.dot == marker {
                return far::keep(site, wanted.bucket.id, (), vec![record]).await;
            }
            last = Some(which);
        }
        if last.is_none() || !page.more {
            return Ok(());
        }
        (list.after, list.after_version, list.limit) = (wanted.key.clone(), last, VERSIONS);
    }
    Ok(())
}

/// Lets go of what is dead, unless this site is a member by now. The reader's answer does not hang on it.
async fn let_go(site: &Site, wanted: &Wanted, dead: Vec<Dot>) {
    let (bucket, key) = (wanted.bucket.id, wanted.key.clone());
    if dead.is_empty() || site.is_member(bucket) {
        return;
    }
    let propose = move |view: &dyn View| {
        let member = view.get(Table::Local, &Stored::Member.key(bucket));
        let is_member = member.map_err(|error| unreadable(error.into()))?.is_some();
        let drop =
            if is_member { None } else { space::let_go(view, bucket, &key, dead).map_err(unreadable)? };
        Ok(((), drop.iter().map(|drop| entry(drop).freeing()).collect()))
    };
    if let Err(error) = site.commit(bucket, (), propose).await {
        tracing::warn!(%bucket, %error, "a copy of what was erased elsewhere was not let go of");
    }
}
