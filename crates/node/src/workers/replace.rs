//! Takes the place of sites that are gone: asks the others what they were in, follows it, and says how far that is.
//!
//! Before: an operator's word in the roster, at this site that it names. After: feeds, which fetch what is lacking, nearest
//! first. What decides is `skerry_federation::replace`; here it meets the records, the other sites and the disk. Invariants:
//! what was found is written down before it is acted on, so a kill at any moment only asks again; a bucket is answered for
//! only once all is here that anybody has who belongs and is not lost; what is done stays done.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use skerry_base::kv::View;
use skerry_base::{BucketId, Instant, SiteId};
use skerry_federation::replace::{Own, Pace, Progress, Recovery, Said, Stays, Told, Why};
use skerry_gateway::service::{Outcome, RecoveryStatus};
use skerry_model::bucket::{self as model, Joins, SiteState};
use skerry_model::space;

use super::{Worker, Workers};
use crate::duties::Act;
use crate::paths::bucket::Bucket;
use crate::peers::PeerError;
use crate::peers::message::{Replaced, Request, Response};
use crate::replacing::{RecoveryFile, known_in};
use crate::site::{Site, unreadable};

/// How long a page of an answer may take.
const SAY: Duration = Duration::from_secs(10);
/// Questions on their way at once.
const QUESTIONS: usize = 16;
/// Before who did not answer is asked again.
const REST: Duration = Duration::from_secs(5);
/// Between two rounds once it is known what others have: they take from the link what the feeds need.
const SETTLED: Duration = Duration::from_secs(60);
/// A look, or a round, that cost so long is repeated after this many times as long.
const SHARE: u32 = 20;
/// Pages of one answer: more than all buckets that a site may be a member of take.
const PAGES: usize = 65_536;

/// One place.
struct Under {
    recovery: Recovery,
    pace: Pace,
    file: RecoveryFile,
    /// When others are asked next.
    not_before: Instant,
    /// When it is looked at again.
    look: Instant,
}

/// One of them per site.
pub(super) struct Replacer {
    site: Arc<Site>,
    under: BTreeMap<SiteId, Under>,
    /// What was written down before this start, until it has been read.
    files: Option<BTreeMap<SiteId, RecoveryFile>>,
    /// The system bucket as it was when there was nothing to do.
    idle: Option<u64>,
}

#[async_trait::async_trait]
impl Worker for Replacer {
    async fn turn(&mut self) -> bool {
        let seen = self.site.changes.system_count();
        if self.idle == Some(seen) {
            return false;
        }
        match self.serve().await {
            Ok(busy) => self.idle = (!busy).then_some(seen),
            Err(error) => {
                tracing::warn!(%error, "the place of a gone site was not taken further; it is tried again")
            }
        }
        false
    }
}

impl Replacer {
    pub(super) fn new(workers: &Workers) -> Self {
        Self { site: workers.site.clone(), under: BTreeMap::new(), files: None, idle: None }
    }

    /// Whether anything is to be done.
    async fn serve(&mut self) -> Outcome<bool> {
        let (system, me) = (self.site.system, self.site.id);
        let read = move |view: &dyn View| model::replacements(view, system, me).map_err(unreadable);
        let places = self.site.read(read).await?;
        if self.files.is_none() {
            self.files = Some(self.site.read(RecoveryFile::all).await?);
        }
        self.under.retain(|gone, _| places.contains(gone));
        self.site.replacing.shown().retain(|gone, _| places.contains(gone));
        let mut busy = false;
        for gone in places {
            busy |= self.one(gone).await?;
        }
        Ok(busy)
    }

    async fn one(&mut self, gone: SiteId) -> Outcome<bool> {
        let site = self.site.clone();
        let now = site.clock.now();
        if !self.under.contains_key(&gone) {
            let begun = RecoveryFile { begun: site.clock.wall(), ..RecoveryFile::default() };
            let file = self.files.as_mut().and_then(|files| files.remove(&gone)).unwrap_or(begun);
            let recovery = Recovery::new(file.found.iter().copied().chain([site.system]).collect());
            let (pace, not_before, look) = (Pace::default(), now, now);
            self.under.insert(gone, Under { recovery, pace, file, not_before, look });
            tracing::warn!(%gone, "this site takes the place of one that is gone");
        }
        let Some(under) = self.under.get_mut(&gone) else { return Ok(false) };
        if under.file.done.is_some() {
            let shown = shown(&site, under, &Progress { is_done: true, ..Progress::default() }, None).await?;
            site.replacing.shown().insert(gone, shown);
            return Ok(false);
        }
        if under.look > now {
            return Ok(true);
        }
        let here = site.clone();
        under.recovery.found(site.read(move |view| known_in(view, &here, gone)).await?);
        // Before it is read who belongs: whoever is found by what comes later is asked before it counts.
        let own = own(&site, under.recovery.buckets()).await?;
        under.recovery.live(live(&site, gone).await?);
        if under.not_before <= now {
            let open = ask(&site, gone, &mut under.recovery).await;
            let end = site.clock.now();
            under.not_before = match (open, under.recovery.is_settled()) {
                (_, true) => end.after(SETTLED.max(end.since(now) * SHARE)),
                (true, _) => end.after(REST),
                (false, false) => end,
            };
        }
        let progress = go_on(&site, gone, under, &own).await?;
        let left = under.pace.left(progress.missing, site.clock.now()).filter(|_| progress.is_settled);
        let shown = shown(&site, under, &progress, left).await?;
        site.replacing.shown().insert(gone, shown);
        let end = site.clock.now();
        under.look = end.after((end.since(now) * SHARE).min(REST));
        Ok(!progress.is_done)
    }
}

/// Who is asked: the other members that are not lost.
async fn live(site: &Site, gone: SiteId) -> Outcome<BTreeSet<SiteId>> {
    let system = site.system;
    let all = site.read(move |view| model::sites(view, system).map_err(unreadable)).await?;
    let losses = site.copies.losses();
    let is_lost = |other: &SiteId| losses.get(other).is_some_and(|loss| loss.is_lost);
    let belongs = all
        .into_iter()
        .filter(|(id, document)| document.state == SiteState::Member && ![site.id, gone].contains(id));
    Ok(belongs.map(|(id, _)| id).filter(|id| !is_lost(id)).collect())
}

/// Asks who has not answered in this round; whether anybody has not now.
async fn ask(site: &Arc<Site>, gone: SiteId, recovery: &mut Recovery) -> bool {
    let (round, also, open) = recovery.questions();
    let ask = |other| {
        let (site, also) = (site.clone(), also.clone());
        async move { (other, one(&site, (gone, also), other).await) }
    };
    let answers: Vec<(SiteId, Said)> =
        futures::stream::iter(open).map(ask).buffer_unordered(QUESTIONS).collect().await;
    let mut silent = false;
    for (other, said) in answers {
        silent |= matches!(said, Said::Not(_));
        recovery.said(round, other, said);
    }
    silent
}

/// The whole answer of one site.
async fn one(site: &Site, (gone, also): (SiteId, Vec<BucketId>), other: SiteId) -> Said {
    let (mut told, mut after) = (Told::new(), None);
    for _ in 0..PAGES {
        if !site.linked(other) {
            return Said::Not(Why::Silent);
        }
        let request = Request::Replaced(Box::new(Replaced { gone, after, also: also.clone() }));
        let page = match tokio::time::timeout(SAY, site.peers.call(other, &request)).await {
            Ok(Ok(answer)) => match answer.response {
                Response::KnownIn(page) => page,
                Response::Refused { .. } => return Said::Not(Why::Silent),
                _ => return Said::Not(Why::CannotSay),
            },
            // A release that does not know the question closes the stream.
            Ok(Err(PeerError::Metered(_))) => return Said::Not(Why::Metered),
            Ok(Err(PeerError::Senseless(_))) => return Said::Not(Why::CannotSay),
            Ok(Err(_)) | Err(_) => return Said::Not(Why::Silent),
        };
        if !page.heard {
            return Said::Not(Why::NotHeard);
        }
        let last = page.buckets.last().map(|known| known.bucket);
        told.extend(page.buckets.into_iter().map(|known| (known.bucket, known.vector)));
        if !page.more || last.is_none() || last <= after {
            return Said::Told(told, Stays { life: page.life, left: page.left });
        }
        after = last;
    }
    Said::Not(Why::CannotSay)
}

/// Writes down what was found, follows it, and ends what is complete.
async fn go_on(
    site: &Arc<Site>,
    gone: SiteId,
    under: &mut Under,
    own: &BTreeMap<BucketId, Own>,
) -> Outcome<Progress> {
    let mut found = under.recovery.buckets().clone();
    found.remove(&site.system);
    if found != under.file.found {
        under.file.found = found;
        under.file.keep(site, gone).await?;
    }
    let mut progress = under.recovery.judge(own);
    if site.duties.check(Act::Hold).is_err() {
        progress.is_done = false;
        return Ok(progress);
    }
    for bucket in &progress.join {
        site.join(*bucket).await?;
    }
    let mut alone = under.file.alone.clone();
    alone.extend(&progress.alone);
    // Somebody who was lost is there again.
    alone.retain(|bucket| !under.recovery.is_somebodys(*bucket));
    if alone != under.file.alone {
        under.file.alone = alone;
        under.file.keep(site, gone).await?;
    }
    for bucket in &progress.whole {
        site.completed(*bucket).await?;
        tracing::info!(%bucket, "all is here that others have of a bucket of a site that is gone");
    }
    if progress.is_done {
        under.file.refused = progress.refused.iter().copied().collect();
        under.file.done = Some(site.clock.wall());
        under.file.keep(site, gone).await?;
        tracing::warn!(%gone, "the place of a site that is gone is taken: nothing is lacking here");
    }
    Ok(progress)
}

/// What these buckets are here.
async fn own(site: &Arc<Site>, buckets: &BTreeSet<BucketId>) -> Outcome<BTreeMap<BucketId, Own>> {
    let (here, buckets) = (site.clone(), buckets.clone());
    let read = move |view: &dyn View| {
        let deleted = model::deleted(view, here.system).map_err(unreadable)?;
        let live = model::all_buckets(view, here.system).map_err(unreadable)?.into_iter();
        let live: BTreeMap<BucketId, Bucket> =
            live.map(Bucket::of).map(|bucket| (bucket.id, bucket)).collect();
        let mut own = BTreeMap::new();
        for bucket in buckets {
            let what = match live.get(&bucket) {
                // Who belongs is in it: whoever is known to somebody is known here before anything is done.
                _ if bucket == here.system => {
                    Own::Member { whole: true, vector: space::vector(view, bucket).map_err(unreadable)? }
                }
                None if deleted.contains(&bucket) => Own::Deleted,
                None => Own::Unheard,
                Some(_) if here.is_member(bucket) => Own::Member {
                    whole: here.is_complete(bucket),
                    vector: space::vector(view, bucket).map_err(unreadable)?,
                },
                Some(known) if may_follow(&here, known) => Own::Outside,
                Some(_) => Own::Refused,
            };
            own.insert(bucket, what);
        }
        Ok(own)
    };
    site.read(read).await
}

/// Whether neither residency, nor the bucket's word, nor an operator's at this site forbids it.
fn may_follow(site: &Site, bucket: &Bucket) -> bool {
    let is_told = matches!(site.joins_here(bucket.id), Some(Joins::Manual | Joins::Never));
    !is_told && site.joins(bucket) != Joins::Never && bucket.may_lie_at(site.id)
}

/// For people.
async fn shown(
    site: &Arc<Site>,
    under: &Under,
    progress: &Progress,
    left: Option<Duration>,
) -> Outcome<RecoveryStatus> {
    let file = &under.file;
    let refused: BTreeSet<BucketId> = file.refused.iter().chain(&progress.refused).copied().collect();
    let (named, found, system) =
        (refused.union(&file.alone).copied().collect::<BTreeSet<_>>(), file.found.clone(), site.system);
    let read = move |view: &dyn View| {
        let live = model::all_buckets(view, system).map_err(unreadable)?.into_iter();
        let names: BTreeMap<BucketId, String> = live
            .filter(|bucket| named.contains(&bucket.claim.bucket))
            .map(|bucket| (bucket.claim.bucket, bucket.name))
            .collect();
        let (mut records, mut bytes) = (0, 0);
        for bucket in found {
            let sums = space::sums(view, bucket).map_err(unreadable)?;
            (records, bytes) = (records + sums.records, bytes + sums.record_bytes);
        }
        Ok((names, bytes / records.max(1)))
    };
    let (names, mean) = site.read(read).await?;
    let name = |bucket: &BucketId| names.get(bucket).cloned().unwrap_or_else(|| bucket.to_string());
    let mut waits: Vec<String> =
        progress.waits.iter().map(|(other, why)| waits_for(site, *other, *why)).collect();
    if file.done.is_none() {
        waits.extend(site.duties.check(Act::Hold).err().map(|error| error.message().to_owned()));
    }
    let ends = left.and_then(|left| u64::try_from(left.as_millis()).ok());
    let (complete, buckets) = match file.done {
        Some(_) => (file.found.len() as u64, file.found.len() as u64),
        // The system bucket is among them.
        None => (progress.complete.saturating_sub(1), progress.buckets.saturating_sub(1)),
    };
    Ok(RecoveryStatus {
        done: file.done.is_some(),
        done_ms: file.done.map(|done| done.0),
        buckets_complete: complete,
        buckets,
        missing_records: progress.missing,
        missing_bytes: progress.missing * mean,
        ends_ms: ends.map(|ends| site.clock.wall().0 + ends),
        waits_for: waits,
        refused: refused.iter().map(name).collect(),
        lost: file.alone.iter().map(name).collect(),
        ..RecoveryStatus::default()
    })
}

fn waits_for(site: &Site, other: SiteId, why: Why) -> String {
    let name = site.peers.roster.name(other);
    match why {
        Why::Silent => format!("{name} has not answered"),
        Why::NotHeard => format!("{name} has not heard of it yet"),
        Why::CannotSay => format!("{name} cannot say: it closes the question, as a release before does"),
        Why::Metered => format!("{name} was not asked: the budget of a metered link is used up"),
    }
}
