//! Reads of a version whose body nobody has any more: an older version in its place, said so, or 404 with the reason.
//!
//! Before: `get.rs`, `copy.rs` with the record of the version. After: `federation::placement::Whereabouts` judges what
//! the others say of its chunks. Invariants: nothing else is shown than asked for unless every site that may have the body
//! said that it does not, lost ones apart; a body that moves is nowhere taken for gone, as who lets go of something says for a
//! while of nothing that it has it not; a site that is silent and not lost makes it 409, never 404; a version that is
//! named, and a write whose token is given, are never replaced by another; where no site was ever lost nothing is asked.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use skerry_base::kv::View;
use skerry_base::{BucketId, ChunkId, Dot, SiteId};
use skerry_federation::Federation;
use skerry_federation::placement::{Verdict, Whereabouts};
use skerry_gateway::service::{ErrorKind, Outcome, ReadMode, ServiceError, date};
use skerry_model::body::{Step, Walk};
use skerry_model::{Record, space};

use super::bucket::Bucket;
use super::get::Wanted;
use super::source::Chunks;
use super::{far, members, refusal};
use crate::copies::look::lies_here;
use crate::copies::loss::Loss;
use crate::peers::message::{Have, List, Listed, Request, Response};
use crate::site::{Site, unreadable};

/// The header that says that something else is shown than asked for, or why nothing is.
const HEADER: &str = "x-skerry-lost";
/// How long one site may take to say what it has.
const SAY: Duration = Duration::from_secs(5);
/// Chunks that one question names: 256 KiB.
pub(crate) const ASKED: usize = 8192;
/// Older versions that are tried.
const TRIED: usize = 64;
/// Federations of at most so many sites ask all of them; larger ones those that follow the bucket, and those with a link.
const ALL_ASKED: usize = 16;

/// What a reader gets.
pub(crate) struct Shown {
    /// The version.
    pub(crate) record: Box<Record>,
    /// What it is shown in place of; none if it is what was asked for.
    pub(crate) note: Option<String>,
    /// Whether the others were asked for its body already.
    pub(crate) asked: bool,
}

/// The version itself, or what is shown in its place if a loss may concern it. `is_read`: the body is read next, and who cannot
/// have it asks [`again`].
pub(crate) async fn shown(
    site: &Arc<Site>,
    mode: &ReadMode,
    wanted: &Wanted,
    record: Box<Record>,
    is_read: bool,
) -> Outcome<Shown> {
    if !is_doubtful(site, &wanted.bucket, &record, is_read).await? {
        return Ok(Shown { record, note: None, asked: false });
    }
    looked(site, mode, wanted, (record, None)).await
}

/// The same after the body could not be read.
pub(crate) async fn again(
    site: &Arc<Site>,
    mode: &ReadMode,
    wanted: &Wanted,
    (record, error): (Box<Record>, ServiceError),
) -> Outcome<Shown> {
    if site.copies.losses().is_empty() {
        return Err(error);
    }
    looked(site, mode, wanted, (record, Some(error))).await
}

/// The version itself, or a refusal: for who does not want another.
pub(crate) async fn itself(site: &Arc<Site>, wanted: &Wanted, record: Box<Record>) -> Outcome<Box<Record>> {
    let shown = shown(site, &ReadMode::Local, wanted, record.clone(), false).await?;
    match shown.note {
        None => Ok(shown.record),
        Some(_) => Err(Reason::of(site, &record).refusal(wanted, &record)),
    }
}

async fn looked(
    site: &Arc<Site>,
    mode: &ReadMode,
    wanted: &Wanted,
    (record, error): (Box<Record>, Option<ServiceError>),
) -> Outcome<Shown> {
    match (whereabouts(site, &wanted.bucket, &record).await?, error) {
        (Verdict::Gone, _) => instead(site, mode, wanted, record).await,
        (Verdict::Unreachable(_), Some(error)) => Err(error),
        _ => Ok(Shown { record, note: None, asked: true }),
    }
}

/// Whether the body may have been lost with a site: it is not here, and the site that wrote it was declared lost once; or
/// while some site is lost who wrote it cannot be asked. Who wrote it may have let go of it: so also if one that is known to have
/// held it was lost once, and while some site is lost where a bucket lives in an area; but not for who reads the body next and
/// finds out by that.
async fn is_doubtful(site: &Arc<Site>, bucket: &Bucket, record: &Record, is_read: bool) -> Outcome<bool> {
    let losses = site.copies.losses();
    let written = record.site;
    let now = losses.values().any(|loss| loss.is_lost);
    let cannot_be_asked = || written != site.id && !site.linked(written);
    let moves = bucket.config.lives_in().is_some();
    let held_by_lost = || {
        let holders = site.copies.with(|machine| machine.believed(record.bucket, record.dot));
        holders.iter().any(|holder| losses.contains_key(holder))
    };
    let concerned = losses.contains_key(&written)
        || (now && cannot_be_asked())
        || (!is_read && (moves && now || held_by_lost()));
    let Some(object) = record.object().filter(|object| concerned && object.size > 0) else {
        return Ok(false);
    };
    let (store, bucket, object) = (site.store.clone(), record.bucket, object.clone());
    let here = tokio::task::spawn_blocking(move || lies_here(&store, bucket, &object)).await;
    Ok(!here.map_err(refusal::task)?)
}

/// Whether the body of a version can be had.
async fn whereabouts(site: &Arc<Site>, bucket: &Bucket, record: &Record) -> Outcome<Verdict> {
    let Some(object) = record.object() else { return Ok(Verdict::Readable) };
    while candidates(site, bucket, record).await.waits() && site.waits_for_links().await {}
    let candidates = candidates(site, bucket, record).await;
    let chunks = Chunks::new(site, bucket, record.site);
    let mut walk = Walk::new(object.chunks.clone(), 0..object.size);
    let mut missing = BTreeSet::new();
    while let Some(step) = walk.next() {
        match step {
            Step::Leaf(chunk, _) => {
                if !site.store.has_chunk(bucket.id, chunk.id).map_err(refusal::storage)? {
                    missing.insert(chunk.id);
                }
            }
            Step::Tree(tree) => {
                if !site.store.has_chunk(bucket.id, tree.id).map_err(refusal::storage)? {
                    let verdict = candidates.ask(site, bucket.id, [tree.id].into()).await;
                    if verdict != Verdict::Readable {
                        return Ok(verdict);
                    }
                }
                if chunks.descend(&mut walk, tree).await.is_err() {
                    return Ok(Verdict::Unreachable(BTreeSet::new()));
                }
            }
        }
        if missing.len() == ASKED {
            let verdict = candidates.ask(site, bucket.id, std::mem::take(&mut missing)).await;
            if verdict != Verdict::Readable {
                return Ok(verdict);
            }
        }
    }
    Ok(candidates.ask(site, bucket.id, missing).await)
}

/// Who may have a body.
struct Candidates {
    asked: BTreeSet<SiteId>,
    silent: BTreeSet<SiteId>,
    lost: BTreeSet<SiteId>,
    explained: bool,
}

async fn candidates(site: &Arc<Site>, bucket: &Bucket, record: &Record) -> Candidates {
    let id = bucket.id;
    let losses = site.copies.losses();
    let holders = site.copies.with(|machine| machine.believed(id, record.dot));
    let explained = losses.contains_key(&record.site)
        || losses.values().any(|loss| loss.is_lost)
        || holders.iter().any(|holder| losses.contains_key(holder));
    let roster: BTreeSet<SiteId> = site.peers.roster.all().into_keys().collect();
    let linked = site.boxes.linked();
    let mut all: BTreeSet<SiteId> = [record.site, bucket.home].into_iter().chain(holders).collect();
    all.extend(linked.iter().copied());
    let known = move |machine: &Federation| (machine.members(id), machine.knows_all_members(id));
    let (members, are_all) = site.drive.ask(move |machine, _| known(machine)).await.unwrap_or_default();
    all.extend(members);
    // Who wrote it may have let go of it. Then whoever is not linked may have it, but for those that are known not to follow.
    if roster.len() <= ALL_ASKED || (!are_all && !losses.contains_key(&record.site)) {
        all.extend(roster);
    }
    all.remove(&site.id);
    let (asked, silent) = all.into_iter().partition(|other| linked.contains(other));
    Candidates { asked, silent, lost: site.copies.lost(), explained }
}

impl Candidates {
    /// Whether somebody cannot be asked who is not lost.
    fn waits(&self) -> bool {
        !self.silent.is_subset(&self.lost)
    }

    /// Asks them for these chunks.
    async fn ask(&self, site: &Arc<Site>, domain: BucketId, missing: BTreeSet<ChunkId>) -> Verdict {
        let who = (self.asked.clone(), self.silent.clone());
        let asking = Whereabouts::new(missing, who, self.lost.clone(), self.explained);
        let searched = search(site, domain, asking).await;
        // Nobody is left who was asked, so there is a verdict.
        searched.verdict().unwrap_or(Verdict::Unreachable(BTreeSet::new()))
    }
}

/// Asks whom it names until the verdict stands.
pub(crate) async fn search(site: &Arc<Site>, domain: BucketId, mut search: Whereabouts) -> Whereabouts {
    let wanted: Vec<ChunkId> = search.missing().iter().copied().collect();
    let asked: Vec<SiteId> = search.asked().iter().copied().collect();
    let ask = |other| {
        let wanted = &wanted;
        async move { (other, has(site, other, domain, wanted).await) }
    };
    let mut words: FuturesUnordered<_> = asked.into_iter().map(ask).collect();
    while search.verdict().is_none() {
        match words.next().await {
            Some((other, Some(has))) => search.answered(other, has),
            Some((other, None)) => search.failed(other),
            None => break,
        }
    }
    drop(words);
    search
}

/// Which of these chunks a site has; none if it does not say.
pub(crate) async fn has(
    site: &Arc<Site>,
    other: SiteId,
    domain: BucketId,
    wanted: &[ChunkId],
) -> Option<Vec<ChunkId>> {
    let mut had = Vec::new();
    for chunks in wanted.chunks(ASKED) {
        let request = Request::Have(Have { domain, chunks: chunks.to_vec() });
        let answer = tokio::time::timeout(SAY, site.peers.call(other, &request)).await.ok()?.ok()?;
        let Response::Have(has) = answer.response else { return None };
        if has.len() != chunks.len() {
            return None;
        }
        had.extend(chunks.iter().zip(has).filter(|(_, has)| *has).map(|(chunk, _)| *chunk));
    }
    Some(had)
}

/// Answers which chunks are here, in any class.
pub(crate) async fn answer(site: &Arc<Site>, asked: Have) -> Outcome<Response> {
    if asked.chunks.len() > ASKED {
        return Err(ServiceError::new(ErrorKind::InvalidRequest, "too many chunks in one question"));
    }
    let (store, domain) = (site.store.clone(), asked.domain);
    let look = move || {
        let each = asked.chunks.iter().map(|chunk| store.has_chunk(domain, *chunk));
        each.collect::<Result<Vec<bool>, _>>()
    };
    // Whoever asks tells a client that it is lost if nobody has it: a no that only means "not to be told just now" is none.
    let has = tokio::task::spawn_blocking(look).await.map_err(refusal::task)?.map_err(refusal::storage)?;
    // Seen after the disk: what was let go of before is elsewhere, maybe only since whoever asks was told no there.
    if has.contains(&false) && site.copies.is_parting(domain, site.clock.now()) {
        let message = format!("{} is letting go of copies: ask again", site.called());
        return Err(ServiceError::new(ErrorKind::Unavailable, message));
    }
    Ok(Response::Have(has))
}

/// An older version that can be read, or why there is none.
async fn instead(site: &Arc<Site>, mode: &ReadMode, wanted: &Wanted, record: Box<Record>) -> Outcome<Shown> {
    let reason = Reason::of(site, &record);
    let may_differ = wanted.version.is_none() && !matches!(mode, ReadMode::After(_));
    let older = if may_differ { older(site, wanted, record.dot).await? } else { Vec::new() };
    for older in older.into_iter().take(TRIED) {
        match whereabouts(site, &wanted.bucket, &older).await? {
            Verdict::Readable => {
                site.copies.count_lost_read(true);
                let note = Some(reason.header(&record));
                return Ok(Shown { record: Box::new(older), note, asked: true });
            }
            Verdict::Unreachable(silent) if !silent.is_empty() => {
                let names: Vec<String> = silent.iter().map(|other| site.peers.roster.name(*other)).collect();
                return Err(refusal::unreachable(format!(
                    "{}; an older version may be at {}, which cannot be reached",
                    reason.text(&record),
                    names.join(", ")
                )));
            }
            Verdict::Unreachable(_) | Verdict::Gone => {}
        }
    }
    site.copies.count_lost_read(false);
    Err(reason.refusal(wanted, &record))
}

/// Versions that may be shown in place of this one, the newest first. Who does not follow the bucket asks who does.
async fn older(site: &Arc<Site>, wanted: &Wanted, lost: Dot) -> Outcome<Vec<Record>> {
    let id = wanted.bucket.id;
    if !site.is_complete(id) {
        hear_versions(site, wanted).await?;
    }
    let key = wanted.key.clone();
    site.read(move |view: &dyn View| space::fallbacks(view, id, &key, lost).map_err(unreadable)).await
}

/// Takes the versions of a key from the nearest member.
async fn hear_versions(site: &Arc<Site>, wanted: &Wanted) -> Outcome<()> {
    let list = List {
        bucket: wanted.bucket.id,
        prefix: wanted.key.clone(),
        delimiter: None,
        after: String::new(),
        after_version: None,
        limit: u32::try_from(TRIED).unwrap_or(u32::MAX),
    };
    let asking = members::nearest(site, &wanted.bucket).await?;
    let mut failed = Vec::new();
    for member in &asking.sites {
        let name = site.peers.roster.name(*member);
        match site.peers.call(*member, &Request::Versions(list.clone())).await.map(|answer| answer.response) {
            Ok(Response::Page(page)) => {
                let mut records = Vec::new();
                for listed in &page.entries {
                    let Listed::Version { record, .. } = listed else { continue };
                    // Keys that only begin like this one are none of it.
                    records.extend(far::admitted(wanted, record).ok());
                }
                return far::keep(site, wanted.bucket.id, (), records).await;
            }
            Ok(Response::Refused { message, .. }) => failed.push(format!("{name}: {message}")),
            Ok(_) => failed.push(format!("{name} does not follow the bucket")),
            Err(error) => failed.push(format!("{name}: {error}")),
        }
    }
    asking.nobody(site, &failed.into())
}

/// Why a body is gone: which sites were lost, and when that was said.
struct Reason {
    sites: BTreeMap<SiteId, Loss>,
    /// Whether these had it, as far as is known. Else they are all that are lost, and maybe none of them did.
    had_it: bool,
    /// Who wrote it.
    writer: String,
}

impl Reason {
    fn of(site: &Site, record: &Record) -> Self {
        let losses = site.copies.losses();
        let mut holders = site.copies.with(|machine| machine.believed(record.bucket, record.dot));
        holders.insert(record.site);
        let (had, others): (BTreeMap<_, _>, BTreeMap<_, _>) =
            losses.into_iter().partition(|(id, _)| holders.contains(id));
        let had_it = !had.is_empty();
        let sites = if had_it { had } else { others.into_iter().filter(|(_, loss)| loss.is_lost).collect() };
        Self { sites, had_it, writer: site.peers.roster.name(record.site) }
    }

    /// `version=…; site=…; declared=…`; `version=…; written=…` if it is not known with whom it was lost.
    fn header(&self, record: &Record) -> String {
        let version = space::VersionId::Dot(record.dot);
        if !self.had_it {
            return format!("version={version}; written={}", self.writer);
        }
        let names: Vec<&str> = self.sites.values().map(|loss| loss.name.as_str()).collect();
        let declared = self.sites.values().filter_map(|loss| loss.since).max();
        let declared = declared.map(|at| format!("; declared={}", date::iso(at))).unwrap_or_default();
        format!("version={version}; site={}{declared}", names.join("+"))
    }

    fn text(&self, record: &Record) -> String {
        let one = |loss: &Loss| match (loss.since, loss.is_gone) {
            (Some(at), false) if !loss.is_lost => {
                format!("{} (declared lost at {}, and there again since)", loss.name, date::iso(at))
            }
            (Some(at), false) => format!("{} (declared lost at {})", loss.name, date::iso(at)),
            (Some(at), true) => {
                format!("{} (declared lost at {}, then expelled or replaced)", loss.name, date::iso(at))
            }
            (None, true) => format!("{} (expelled or replaced)", loss.name),
            (None, false) => loss.name.clone(),
        };
        let sites = self.sites.values().map(one).collect::<Vec<_>>().join(", ");
        let key = &record.key;
        match self.had_it {
            true => {
                format!("the body of the newest version of {key} was at {sites} only, as far as is known")
            }
            false => format!(
                "no site that can be asked has the body of the newest version of {key}, which was written at {}; whether \
                 {sites} had it is not known",
                self.writer
            ),
        }
    }

    /// What brings it back.
    fn hope(&self) -> &'static str {
        let is_waited_for = self.sites.values().any(|loss| loss.is_lost && !loss.is_gone);
        match (self.had_it, is_waited_for) {
            (true, true) => "it is read again when that disk is back (skerry site declare-found)",
            (true, false) => "no disk is waited for that had it: put it again",
            (false, _) => "it is read again if a disk that has it comes back: else put it again",
        }
    }

    fn refusal(&self, wanted: &Wanted, record: &Record) -> ServiceError {
        let (kind, older) = match wanted.version {
            None => (ErrorKind::NoSuchKey, "and no older version can be shown"),
            Some(_) => (ErrorKind::NoSuchVersion, "and it was asked for by name"),
        };
        let message = format!("{}, {older}; {}", self.text(record), self.hope());
        ServiceError::new(kind, message).with_header(HEADER, self.header(record))
    }
}
