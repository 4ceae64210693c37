//! Whom to ask about a bucket, and when to follow it.
//!
//! Before: every path that needs what is not here. After: `peers`. Invariants: nobody is asked on the way of
//! what this site can answer alone; an answer "not there" is given only when somebody who knows said so, else
//! the refusal says who could not be asked.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use skerry_base::kv::View;
use skerry_base::limits::MEMBERSHIP_ON_READ_BYTES;
use skerry_base::{BucketId, SiteId, Vector};
use skerry_federation::{Answer, Federation, Input, Replica};
use skerry_gateway::service::{ErrorKind, Outcome, ReadMode, ServiceError};
use skerry_model::bucket::Joins;
use skerry_model::space;
use tokio::sync::mpsc;

use super::bucket::Bucket;
use super::heard::{CATCH_UP, seen, seen_by, seen_by_each, together};
use super::orphans::Orphans;
use super::refusal;
use crate::duties::Act;
use crate::peers::message::{Request, Response};
use crate::site::{Site, unreadable};
use crate::tasks::rest;

/// How often a landmark that does not know yet is asked again.
const ASKED_AGAIN: u32 = 3;
/// How soon a site that was just started looks for links again.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// The pause between.
const PAUSE: Duration = Duration::from_millis(500);
/// Sites that are named because they may be members: a refusal is read by people.
const NAMED: usize = 16;

/// Why those that were asked did not answer.
#[derive(Debug, Default)]
pub(crate) struct Failed {
    reasons: Vec<String>,
    /// What the first said that would not answer, for reasons of its own: a budget, no room, a damaged disk.
    refused: Option<ServiceError>,
}

impl From<Vec<String>> for Failed {
    fn from(reasons: Vec<String>) -> Self {
        Self { reasons, refused: None }
    }
}

impl Failed {
    pub(crate) fn push(&mut self, reason: String) {
        self.reasons.push(reason);
    }

    /// Another may have what this one does not give. If nobody answers these words count, which say what to do.
    pub(crate) fn refused(&mut self, code: &str, message: String) {
        self.refused.get_or_insert_with(|| refusal::relayed(code, message));
    }
}

/// Whom to ask, and what an empty answer means.
pub(crate) struct Asking {
    /// About which bucket.
    pub(crate) bucket: BucketId,
    /// Members that can be reached, nearest first.
    pub(crate) sites: Vec<SiteId>,
    /// Members, or sites that may be, which cannot be reached.
    pub(crate) silent: Vec<SiteId>,
    /// Whether nobody could say who is a member.
    pub(crate) unknown: bool,
    /// What these are known to have that is missing here, at a member: none of them speaks for another.
    pub(crate) missing: Vec<(SiteId, Vector)>,
    /// Whether one of them has said that it gives what is wanted.
    pub(crate) promised: bool,
}

impl Asking {
    /// These and nobody else.
    pub(crate) fn of(bucket: BucketId, sites: Vec<SiteId>) -> Self {
        Self { bucket, sites, silent: Vec::new(), unknown: false, missing: Vec::new(), promised: false }
    }

    /// Takes note of who may be a member for all that is known, at a site that is still taking the records of a bucket and so has
    /// not heard all. Who is away is named; who is there is about to say what it follows, here or to those that know.
    fn doubt(&mut self, others: Vec<SiteId>, is_linked: impl Fn(SiteId) -> bool) {
        let (there, away): (Vec<SiteId>, Vec<SiteId>) =
            others.into_iter().partition(|other| is_linked(*other));
        self.unknown |= !there.is_empty() || away.len() > NAMED;
        self.silent.extend(away.into_iter().take(NAMED));
    }

    /// All who could be asked failed, or there was nobody: is "there is nothing" the truth?
    pub(crate) fn nobody(&self, site: &Site, failed: &Failed) -> Outcome<()> {
        if let Some(refused) = &failed.refused {
            return Err(refused.clone());
        }
        let mut reasons = failed.reasons.clone();
        let silent = |silent: &SiteId| {
            let (name, why) = (site.peers.roster.name(*silent), site.peers.apart(*silent));
            format!("{name} cannot be reached: {why}")
        };
        reasons.extend(self.silent.iter().map(silent));
        if self.unknown {
            reasons.push("not all sites have said yet which buckets they follow".into());
        }
        if reasons.is_empty() {
            return Ok(());
        }
        let reasons = reasons.join("; ");
        Err(refusal::unreachable(format!(
            "this site does not hold what was asked for, and could not ask those who may: {reasons}; \
             try again when the link is back"
        )))
    }
}

/// The members of a bucket but this site, nearest first. Just after its start a site waits for links: nobody to ask
/// then says nothing yet.
pub(crate) async fn nearest(site: &Arc<Site>, bucket: &Bucket) -> Outcome<Asking> {
    nearest_for(site, bucket, None).await
}

/// The same, for who says what the nearest is to give ([`super::seek`]).
pub(crate) async fn nearest_for(site: &Arc<Site>, bucket: &Bucket, wanted: Option<Bytes>) -> Outcome<Asking> {
    loop {
        let asking = known(site, bucket, wanted.clone()).await?;
        let alone = asking.sites.is_empty() && (asking.unknown || !asking.silent.is_empty());
        if !alone || !site.waits_for_links().await {
            return Ok(asking);
        }
    }
}

async fn known(site: &Arc<Site>, bucket: &Bucket, wanted: Option<Bytes>) -> Outcome<Asking> {
    let mut asking = match site.is_member(bucket.id) {
        true => of_member(site, bucket).await,
        false => located(site, bucket, wanted).await?,
    };
    // Links are known here first: who was silent for the machine may just have come back.
    let all = asking.sites.drain(..).chain(asking.silent.drain(..)).filter(|member| *member != site.id);
    (asking.sites, asking.silent) =
        all.collect::<Vec<_>>().into_iter().partition(|member| site.linked(*member));
    // A home that made the bucket is a member whatever the landmarks have heard.
    let known = asking.sites.contains(&bucket.home) || asking.silent.contains(&bucket.home);
    if !known && bucket.home != site.id {
        let linked = site.linked(bucket.home);
        if linked {
            asking.sites.push(bucket.home)
        } else {
            asking.silent.push(bucket.home)
        }
        asking.unknown &= is_given(bucket);
    }
    Ok(asking)
}

/// Whether the home was given the bucket: who made it is a member, who was given it may not be one yet.
fn is_given(bucket: &Bucket) -> bool {
    bucket.epoch.is_some_and(|epoch| epoch > skerry_model::bucket::FIRST_EPOCH)
}

async fn located(site: &Arc<Site>, bucket: &Bucket, wanted: Option<Bytes>) -> Outcome<Asking> {
    let mut asking = Asking::of(bucket.id, Vec::new());
    for _ in 0..ASKED_AGAIN {
        asking.unknown = false;
        match site.drive.locate(bucket.id, wanted.clone()).await {
            None => return Err(refusal::stopping()),
            Some(Answer::Found { sites }) => asking.sites = sites,
            Some(Answer::Given { sites }) => (asking.sites, asking.promised) = (sites, true),
            Some(Answer::Unreachable { sites }) => asking.silent = sites,
            Some(Answer::Unknown { unasked }) => asking.silent = unasked,
            Some(Answer::NotYetKnown) => {
                asking.unknown = true;
                if site.linked(bucket.home) && !is_given(bucket) {
                    break;
                }
                let mut changes = site.changes.follow();
                tokio::time::timeout(PAUSE, changes.changed()).await.ok();
                continue;
            }
        }
        break;
    }
    Ok(asking)
}

async fn of_member(site: &Arc<Site>, bucket: &Bucket) -> Asking {
    let id = bucket.id;
    // A home elsewhere that made the bucket is asked, or named, in any case: it knows.
    let guesses = !site.is_complete(id) && (bucket.home == site.id || is_given(bucket));
    let known = move |machine: &Federation, _: &dyn Replica| {
        let strangers = if guesses { machine.strangers(id) } else { BTreeSet::new() };
        (machine.members(id), strangers)
    };
    let (members, strangers) = site.drive.ask(known).await.unwrap_or_default();
    let may_be = |other: &SiteId| *other != site.id && !strangers.contains(other) && !members.contains(other);
    let others: Vec<SiteId> = match guesses {
        true => site.peers.roster.all().into_keys().filter(may_be).collect(),
        false => Vec::new(),
    };
    let (sites, silent) = members.into_iter().partition(|member| site.linked(*member));
    let mut asking = Asking { silent, ..Asking::of(id, sites) };
    asking.doubt(others, |other| site.linked(other));
    asking
}

/// Why a member that is still taking records was of no help.
pub(crate) fn joining(site: &Site, member: SiteId) -> String {
    let name = site.peers.roster.name(member);
    format!("{name} is still taking what others have of it (`skerry status` there says for whom it waits)")
}

/// Why this site, which is still taking records, cannot say that there is nothing.
pub(crate) fn incomplete(site: &Site, bucket: BucketId) -> String {
    let waits =
        || "this site is still taking what others have of it (`skerry status` says for whom it waits)".into();
    site.leaving.waits(bucket).unwrap_or_else(waits)
}

/// What a site answers that cannot answer for the bucket.
pub(crate) fn not_complete(site: &Site, bucket: BucketId) -> Response {
    if site.is_member(bucket) { Response::Joining } else { Response::NotMember }
}

/// Between two looks of members that are not complete, whatever feeds say.
const ASK_AGAIN: Duration = Duration::from_secs(3);

/// Follows what the machine says of feeds: a member is complete once it has seen all that a complete member
/// had when it was asked. Of a bucket in which nothing differs no feed has anything to say: then it is asked now and then.
pub(crate) fn complete(
    site: Arc<Site>,
    caught_up: Arc<tokio::sync::Mutex<mpsc::Receiver<(BucketId, SiteId)>>>,
) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        let mut caught_up = caught_up.lock().await;
        let mut goals: BTreeMap<BucketId, Vector> = BTreeMap::new();
        let (mut orphans, mut turn) = (Orphans::default(), 0);
        // Beside what is heard: a site at which something comes all the time never sees a silence.
        let mut turns = tokio::time::interval(ASK_AGAIN);
        turns.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                heard = caught_up.recv() => match heard {
                    None => return,
                    Some((bucket, source)) => compare(&site, &mut goals, bucket, &[source]).await,
                },
                _ = turns.tick() => {
                    turn += 1;
                    look(&site, &mut goals, &mut orphans, turn).await;
                }
            }
        }
    })
}

/// Turns after which somebody of whom a bucket is taken is asked whether that is so still: its disk may be another one.
const DOUBTED: u64 = 20;
/// Members that are asked in one turn what there is.
const ASKED: usize = 3;

/// Asks for every bucket that is still being joined, and whether anybody is left to be waited for.
async fn look(site: &Arc<Site>, goals: &mut BTreeMap<BucketId, Vector>, orphans: &mut Orphans, turn: u64) {
    let incomplete = site.incomplete();
    orphans.keep(site, &incomplete);
    // What begins anew is whole when all others were heard, and not by what one of them has.
    for bucket in incomplete.into_iter().filter(|bucket| site.check_whole(*bucket).is_ok()) {
        let members = site.drive.ask(move |machine, _| machine.members(bucket)).await;
        let linked: Vec<SiteId> =
            members.unwrap_or_default().into_iter().filter(|member| site.linked(*member)).collect();
        // The nearest may be joining as well, and wait for this one.
        compare(site, goals, bucket, &in_turn(&linked, turn)).await;
        let takes = !linked.is_empty() && goals.contains_key(&bucket) && !turn.is_multiple_of(DOUBTED);
        if !site.is_complete(bucket) && orphans.settle(site, bucket, takes).await {
            goals.remove(&bucket);
            finish(site, bucket).await;
        }
    }
}

/// Some of these, others with each turn.
fn in_turn(members: &[SiteId], turn: u64) -> Vec<SiteId> {
    let (len, asked) = (members.len() as u64, ASKED as u64);
    let first = turn.wrapping_mul(asked).checked_rem(len).unwrap_or(0) as usize;
    members.iter().cycle().skip(first).take(ASKED.min(members.len())).copied().collect()
}

/// Whether all is here that a whole member had when it was asked: one of these, whoever answers first, if none was before.
async fn compare(
    site: &Arc<Site>,
    goals: &mut BTreeMap<BucketId, Vector>,
    bucket: BucketId,
    sources: &[SiteId],
) {
    if !site.is_member(bucket) || site.is_complete(bucket) || site.check_whole(bucket).is_err() {
        goals.remove(&bucket);
        return;
    }
    let goal = match goals.remove(&bucket) {
        Some(goal) => Some(goal),
        None => {
            let asked: FuturesUnordered<_> =
                sources.iter().map(|source| all_of(site, bucket, *source)).collect();
            pin!(asked.filter_map(core::future::ready)).next().await
        }
    };
    let Some(goal) = goal else { return };
    let own = site.read(move |view| space::vector(view, bucket).map_err(unreadable)).await;
    if !own.is_ok_and(|own| own.includes(&goal)) {
        goals.insert(bucket, goal);
    } else {
        finish(site, bucket).await;
    }
}

/// What another one has of a bucket, if that is all.
async fn all_of(site: &Site, bucket: BucketId, other: SiteId) -> Option<Vector> {
    match site.peers.call(other, &Request::Size { bucket }).await.map(|answer| answer.response) {
        Ok(Response::Size { vector, .. }) => Some(vector),
        _ => None,
    }
}

async fn finish(site: &Arc<Site>, bucket: BucketId) {
    match site.completed(bucket).await {
        Ok(()) => tracing::info!(%bucket, "this site is a complete member"),
        Err(error) => tracing::warn!(%bucket, %error, "a membership was not remembered"),
    }
}

/// How soon members are asked again what they have seen.
const AGAIN: Duration = Duration::from_millis(100);
/// Of the members that are asked for a listing those that have seen what the reader wants to be seen; none of them is a
/// refusal that says so. A page that is read afterwards has at least that.
pub(crate) async fn who_have_seen(
    site: &Arc<Site>,
    bucket: &Bucket,
    asking: Asking,
    mode: &ReadMode,
) -> Outcome<Asking> {
    let (of, token) = match mode {
        ReadMode::Local => return Ok(asking),
        // Nobody to ask: what that means is said as for every listing.
        ReadMode::Latest if asking.sites.is_empty() => return Ok(asking),
        ReadMode::Latest => (bucket.id, None),
        ReadMode::After(token) => {
            let (of, dot) = super::write::parse_token(token).ok_or_else(bad_token)?;
            (of, Some(Vector::from_iter([(dot.origin, dot.seq)])))
        }
    };
    let until = site.clock.now().after(CATCH_UP);
    let mut goal = token;
    loop {
        let mut said = seen_by_each(site, of, &asking.sites).await;
        // What all had when they were asked first: they go on writing.
        let goal = goal.get_or_insert_with(|| together(&said));
        said.retain(|(_, vector)| vector.includes(goal));
        if !said.is_empty() {
            return Ok(Asking { sites: said.into_iter().map(|(member, _)| member).collect(), ..asking });
        }
        if site.clock.now() >= until {
            break;
        }
        rest(AGAIN).await;
    }
    Err(refusal::unreachable(match mode {
        ReadMode::After(_) => {
            "no member that can be asked for this listing has seen the write of the token; try again, or list without it \
             what a member has"
        }
        _ => "no member that can be asked for this listing has seen all that the others have; try again",
    }))
}

/// Before a listing at a member: what the reader wants to be seen is seen, or it is said why not.
pub(crate) fn catch_up<'a>(
    site: &'a Arc<Site>,
    bucket: &'a Bucket,
    mode: &'a ReadMode,
) -> BoxFuture<'a, Outcome<()>> {
    Box::pin(async move {
        match mode {
            ReadMode::Local => Ok(()),
            ReadMode::After(token) => {
                let (of, dot) = super::write::parse_token(token).ok_or_else(bad_token)?;
                seen(site, of, &Vector::from_iter([(dot.origin, dot.seq)])).await
            }
            ReadMode::Latest => {
                let asking = nearest(site, bucket).await?;
                let (goal, answered) = seen_by(site, bucket.id, &asking.sites).await;
                if answered == 0 {
                    asking.nobody(site, &Failed::default())?;
                }
                seen(site, bucket.id, &goal).await
            }
        }
    })
}

/// A text that no write answered as its token.
pub(crate) fn bad_token() -> ServiceError {
    ServiceError::new(ErrorKind::InvalidArgument, "x-skerry-token is not one that a write answered")
}

/// Members with a link that are known to have records of the bucket that this site, a member, lacks; nearest first. None if there
/// are none. For who may read for its site no other node of that can say more: what they alone know is not acknowledged.
pub(crate) fn ahead<'a>(
    site: &'a Arc<Site>,
    bucket: BucketId,
    is_sites: bool,
) -> BoxFuture<'a, Option<Asking>> {
    Box::pin(async move {
        let known = site.drive.ask(move |machine, replica| machine.ahead_by(bucket, replica)).await;
        let mut missing = known.unwrap_or_default();
        if is_sites {
            let near = site.peers.roster.others(site.id);
            missing.retain(|(member, _)| !near.contains(member));
        }
        let sites: Vec<SiteId> = missing.iter().map(|(member, _)| *member).collect();
        (!sites.is_empty()).then(|| Asking { missing, ..Asking::of(bucket, sites) })
    })
}

/// After a first use of a bucket whose records are few, this site keeps them all.
pub(crate) async fn follow(site: &Arc<Site>, bucket: &Bucket, from: Option<SiteId>) {
    let may = !site.follows_part(bucket.id) && matches!(site.joins(bucket), Joins::OnRead | Joins::Always);
    let Some(from) = from.filter(|_| may) else {
        return;
    };
    let request = Request::Size { bucket: bucket.id };
    let size = site.peers.call(from, &request).await.map(|answer| answer.response);
    if let Ok(Response::Size { bytes, .. }) = size {
        follow_if_small(site, bucket, bytes).await;
    }
}

/// The same when the size is known. Whether a read makes a member is said by the bucket, or for this site.
pub(crate) async fn follow_if_small(site: &Arc<Site>, bucket: &Bucket, bytes: u64) {
    // Who follows a prefix wants that, and not the rest.
    if site.follows_part(bucket.id) {
        return;
    }
    let joins = match site.joins(bucket) {
        Joins::OnRead => bytes <= MEMBERSHIP_ON_READ_BYTES,
        Joins::Always => true,
        Joins::Manual | Joins::Never => false,
    };
    if !joins || site.check_room_for_one_more().is_err() {
        return;
    }
    if let Err(error) = site.join(bucket.id).await {
        tracing::warn!(bucket = bucket.name, %error, "the bucket is not followed");
    }
}

/// Another site, which is about to go, asks this one to become a member.
pub(crate) async fn follow_asked(site: &Arc<Site>, bucket: BucketId) -> Outcome<Response> {
    site.duties.check(Act::Hold)?;
    let bucket = super::scope::claimed(site, bucket).await?;
    if site.follows_part(bucket.id) {
        site.check_takes(&bucket)?;
    }
    site.join(bucket.id).await?;
    Ok(Response::Done)
}

impl Site {
    /// Whether there is a link to this site.
    pub(crate) fn linked(&self, site: SiteId) -> bool {
        self.boxes.is_linked(site)
    }

    /// Waits a moment for a link to come up, if this site has just been started; false if it has not.
    pub(crate) async fn waits_for_links(&self) -> bool {
        let left = self.links_by.since(self.clock.now());
        if left.is_zero() {
            return false;
        }
        let mut changes = self.changes.follow();
        tokio::time::timeout(left.min(LOOK_AGAIN), changes.changed()).await.ok();
        true
    }

    /// A site that was taken for a member said that it is not.
    pub(crate) fn refuted(&self, bucket: BucketId, site: SiteId) {
        self.drive.tell(Input::Refuted { bucket, site });
    }
}

/// What another member is not known to have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Unsent {
    /// Records; those that died meanwhile count.
    pub(crate) records: u64,
    /// Their bytes, by the mean of the bucket's records.
    pub(crate) bytes: u64,
}

/// How far this site and the others are known to be behind each other, in all buckets together.
#[derive(Debug, Default)]
pub(crate) struct Gaps {
    /// Records that a site is known to have and this one has not.
    pub(crate) missing: BTreeMap<SiteId, u64>,
    /// What each other site is not known to have of the buckets that it follows with this one.
    pub(crate) unsent: BTreeMap<SiteId, Unsent>,
}

/// Buckets that the machine is asked about at once: whoever waits for it, as other sites do, waits no longer than for these.
const GAPS_AT_ONCE: usize = 64;

/// How far this site and the others are behind each other.
pub(crate) async fn gaps(site: &Site) -> Outcome<Gaps> {
    let mut all = Gaps::default();
    let buckets: Vec<BucketId> = site.memberships().into_iter().chain([site.system]).collect();
    for some in buckets.chunks(GAPS_AT_ONCE) {
        let some = some.to_vec();
        let found = site.drive.ask(move |machine, replica| machine.gaps(&some, replica)).await;
        let found = found.unwrap_or_default();
        let is_behind = |gaps: &&skerry_federation::Gaps| gaps.unsent.iter().any(|(_, records)| *records > 0);
        let sized: Vec<BucketId> = found.iter().filter(is_behind).map(|gaps| gaps.bucket).collect();
        let read = move |view: &dyn View| {
            let of = |bucket| Ok((bucket, space::sums(view, bucket).map_err(unreadable)?));
            sized.into_iter().map(of).collect::<Outcome<BTreeMap<BucketId, space::Sums>>>()
        };
        let sums = site.read(read).await?;
        for gaps in found {
            for (other, records) in gaps.missing {
                *all.missing.entry(other).or_default() += records;
            }
            let (bytes, count) =
                sums.get(&gaps.bucket).map_or((0, 1), |sums| (sums.record_bytes, sums.records.max(1)));
            for (other, records) in gaps.unsent {
                let entry = all.unsent.entry(other).or_default();
                entry.records += records;
                entry.bytes += records * bytes / count;
            }
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn doubted(others: u8, linked: u8) -> Asking {
        let site = |n: u8| SiteId([n; 16]);
        let mut asking = Asking::of(BucketId([1; 16]), Vec::new());
        asking.doubt((0..others).map(site).collect(), |other| other.0[0] < linked);
        asking
    }

    #[test]
    fn who_may_be_a_member_is_named_or_waited_for_however_many_there_are() {
        let nobody = doubted(0, 0);
        assert_eq!((nobody.unknown, nobody.silent.len(), nobody.sites.len()), (false, 0, 0));
        let away = doubted(3, 0);
        assert_eq!((away.unknown, away.silent.len(), away.sites.len()), (false, 3, 0));
        let there = doubted(40, 39);
        assert_eq!((there.unknown, there.silent.len(), there.sites.len()), (true, 1, 0));
        let many = doubted(40, 0);
        assert_eq!(
            (many.unknown, many.silent.len()),
            (true, NAMED),
            "those that are not named are not forgotten"
        );
    }

    #[test]
    fn every_member_has_its_turn() {
        for len in 0..10_u8 {
            let members: Vec<SiteId> = (0..len).map(|number| SiteId([number; 16])).collect();
            let asked = |turn: u64| in_turn(&members, turn);
            assert!((1..9).all(|turn| asked(turn).len() == members.len().min(ASKED)));
            let all: BTreeSet<SiteId> = (1..=u64::from(len)).flat_map(asked).collect();
            assert_eq!(all.len(), members.len());
        }
    }
}
