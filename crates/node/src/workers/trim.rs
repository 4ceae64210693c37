//! Lets go of this site's own copies too many: bucket after bucket, a pass through what is held here.
//!
//! Before: fewer copies asked for, a lost site that is back, a drained one called back, a cut during which another site took
//! a copy. After: `copies/surplus.rs` at the others, `Store::release` here. What decides is
//! [`skerry_federation::placement::trim`]; nothing goes unless everybody who keeps a book has answered and enough places
//! hold it on their disks. Invariants: one round at a time; who must answer is seen after the versions were marked, and
//! once more before they go; bodies of [`JOURNAL_BODY_BYTES`] or less are left, and buckets of which something is pinned
//! here; a pass costs a small share of the time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use skerry_base::kv::View;
use skerry_base::limits::JOURNAL_BODY_BYTES;
use skerry_base::{BucketId, ChunkId, Dot, Instant, SiteId, Vector};
use skerry_federation::budget::Class;
use skerry_federation::placement::trim::{Copy, End, Input, Output, Word};
use skerry_federation::placement::{Spans, limits};
use skerry_gateway::service::Outcome;
use skerry_model::space;

use super::trim_plan::{Passed, Plans, SETTLE, apart};
use super::{Worker, Workers};
use crate::copies::look::is_here;
use crate::copies::surplus::{Surplus, copy_of, write_down};
use crate::copies::wanted::{Ground, rules};
use crate::copies::{Rules, book, claims};
use crate::paths::bucket::Bucket;
use crate::paths::{refusal, scope};
use crate::peers::message::{Request, Response, Spare};
use crate::site::{Site, unreadable};
use crate::trust::entropy;

/// After the start, when links come up and others ask anyway what is held here.
const START: Duration = Duration::from_secs(10);
/// Bytes of records of one page.
const PAGE: usize = 256 << 10;
/// Rules are told anew this often though nothing that they rest on is known to have changed.
const RULES: Duration = Duration::from_secs(60);
/// How long a site may take to say that it counts on this one no more: it writes that down.
const SAY: Duration = Duration::from_secs(20);

/// A version that may be one too many.
struct Found {
    copy: Copy,
    bytes: u64,
    /// What its record lists.
    chunks: Vec<ChunkId>,
}

/// How a pass goes.
#[derive(Default)]
struct Pass {
    stay: Surplus,
    released: (u64, u64),
    /// Somebody did not answer: what else is too much is only counted.
    is_blocked: bool,
    /// That was because another site takes what is held here.
    is_paged: bool,
    /// Areas have not all the copies yet that they ask for: then some here will be too many.
    is_unsettled: bool,
    /// Who may hold something and has not said what: copies too many may look as if they were none.
    unheard: BTreeSet<SiteId>,
}

/// What rules rest on: how often the system bucket, who belongs and what is known here of members changed, and what is followed.
type Terms = (u64, u64, u64, Vec<BucketId>);

pub(super) struct Trimmer {
    site: Arc<Site>,
    plans: Plans,
    /// The buckets that are followed, as they were when their rules were told.
    followed: BTreeMap<BucketId, Bucket>,
    /// What these rest on, and when they were told.
    told: Option<(Terms, Instant)>,
    /// Nothing is looked for before.
    begins: Instant,
}

#[async_trait::async_trait]
impl Worker for Trimmer {
    async fn turn(&mut self) -> bool {
        if let Err(error) = self.look().await {
            tracing::warn!(%error, "copies too many could not be looked for");
        }
        false
    }
}

impl Trimmer {
    pub(super) fn new(workers: &Workers) -> Self {
        let site = workers.site.clone();
        let begins = site.clock.now().after(START);
        // A round that a former one did not end: its marks would be taken for those of the next.
        site.copies.trim(Input::GiveUp, site.clock.now());
        Self { site, plans: Plans::default(), followed: BTreeMap::new(), told: None, begins }
    }

    async fn look(&mut self) -> Outcome<()> {
        let site = self.site.clone();
        let duty = site.duties.own();
        // Who goes counts for nobody, and hands over what it holds. What one of several nodes of a site holds is what scope
        // `site` said, whatever other sites hold.
        if site.nodes.are_several() || !duty.serves() || site.peers.uplink.may(Class::Copy).is_err() {
            return Ok(());
        }
        self.tell_rules().await?;
        let hurries = site.copies.take_hurries();
        for id in self.plans.due(linked(&site), &hurries, site.clock.now()) {
            let Some((bucket, rules)) = self.stands(id) else { continue };
            let begun = site.clock.now();
            match self.pass(&bucket, &rules).await {
                Ok(pass) => {
                    self.plan_next(id, &pass, begun);
                    site.copies.set_surplus(id, (pass.stay.versions > 0).then_some(pass.stay));
                }
                Err(error) => {
                    tracing::warn!(bucket = bucket.name, %error, "copies too many could not be looked for");
                    self.plans.failed(id, site.clock.now());
                }
            }
        }
        Ok(())
    }

    /// Tells what is asked for of every bucket, if that may have changed.
    async fn tell_rules(&mut self) -> Outcome<()> {
        let (site, now) = (&self.site, self.site.clock.now());
        let (changes, copies) = (&site.changes, &site.copies);
        let terms = (changes.system_count(), changes.belonging_count(), copies.terms(), site.memberships());
        if self.told.as_ref().is_some_and(|(told, at)| *told == terms && at.after(RULES) > now) {
            return Ok(());
        }
        self.followed = site.followed().await?.iter().map(|bucket| (bucket.id, bucket.clone())).collect();
        self.plans.retain(&self.followed.keys().copied().collect());
        let (ground, due) = (Ground::of(site), now.after(SETTLE).max(self.begins));
        for (number, bucket) in self.followed.values().enumerate() {
            if number % 64 == 63 {
                tokio::task::yield_now().await;
            }
            self.plans.set(bucket.id, (scope::level(bucket), ground.rules(site, bucket)), due);
        }
        self.told = Some((terms, now));
        Ok(())
    }

    /// A bucket that is due and its rules, if they still are what was told of it: others begin anew.
    fn stands(&mut self, id: BucketId) -> Option<(Bucket, Arc<(u16, Rules)>)> {
        let bucket = self.followed.get(&id).filter(|_| self.site.is_member(id))?;
        let now = (scope::level(bucket), rules(&self.site, bucket));
        let told = self.plans.rules(id)?;
        if *told == now {
            return Some((bucket.clone(), told));
        }
        self.plans.set(id, now, self.site.clock.now().after(SETTLE).max(self.begins));
        None
    }

    fn plan_next(&mut self, bucket: BucketId, pass: &Pass, begun: Instant) {
        let now = self.site.clock.now();
        let passed = Passed {
            released: pass.released.0 > 0,
            stays: pass.stay.versions > 0,
            is_unsettled: pass.is_unsettled,
            apart: pass.is_paged.then(|| apart(entropy::share())),
            unheard: pass.unheard.clone(),
        };
        self.plans.passed(bucket, &passed, &linked(&self.site), (begun, now));
    }

    /// Looks through all that is held here of a bucket.
    async fn pass(&self, bucket: &Bucket, rules: &(u16, Rules)) -> Outcome<Pass> {
        let (site, id) = (&self.site, bucket.id);
        let mut pass = Pass::default();
        let rests = site.leaving.note(id).is_some() || site.pins.any_of(id, |_| true) || rules.1.is_unread;
        pass.is_unsettled = !rules.1.demand.areas().is_empty();
        if rests {
            return Ok(pass);
        }
        let members = site.drive.ask(move |machine, _| machine.members(id)).await.unwrap_or_default();
        let counts = |other: &SiteId| rules.1.sites.contains(other) && !rules.1.lost.contains(other);
        pass.unheard = keepers(site, id).await.into_iter().filter(counts).collect();
        if !self.may_be_too_many(&members, rules) {
            // Whoever says next that it follows the bucket may hold something.
            pass.unheard.retain(|other| !members.contains(other));
            return Ok(pass);
        }
        // What is written here from now on is to go as well.
        let outside = rules.1.moves_from(site.id);
        pass.is_unsettled = outside;
        if outside && !self.may_go(bucket, &rules.1).await? {
            pass.unheard.clear();
            return Ok(pass);
        }
        for other in members.into_iter().filter(|other| site.linked(*other)) {
            if claims::ask_anew(site, id, other).await {
                pass.unheard.remove(&other);
            }
        }
        let mut from = Some(Vector::new());
        let mut waiting: Vec<Found> = Vec::new();
        while let Some(seen) = from.take() {
            let Page { mut found, lacking, next } = page(site, bucket, &rules.1, seen).await?;
            pass.wait(&rules.1, outside, lacking);
            waiting.append(&mut found);
            while waiting.len() >= limits::TRIMMED_AT_ONCE || (next.is_none() && !waiting.is_empty()) {
                let rest = waiting.split_off(waiting.len().min(limits::TRIMMED_AT_ONCE));
                let some = std::mem::replace(&mut waiting, rest);
                self.some(bucket, rules, some, &mut pass).await?;
            }
            from = next;
        }
        if pass.released.0 > 0 {
            let (versions, bytes) = pass.released;
            tracing::info!(bucket = bucket.name, versions, bytes, "let go of copies too many");
        }
        Ok(pass)
    }

    /// Whether anything is here that is to go, going by what is here: so that who holds nothing asks nobody for all that it
    /// holds.
    async fn may_go(&self, bucket: &Bucket, rules: &Rules) -> Outcome<bool> {
        let mut from = Some(Vector::new());
        while let Some(seen) = from.take() {
            let Page { found, lacking, next } = page(&self.site, bucket, rules, seen).await?;
            if !found.is_empty() || lacking.0 > 0 {
                return Ok(true);
            }
            from = next;
        }
        Ok(false)
    }

    /// Whether more places may hold something of it than are to.
    fn may_be_too_many(&self, members: &[SiteId], (copies, rules): &(u16, Rules)) -> bool {
        let counts = |other: &SiteId| rules.sites.contains(other) && !rules.lost.contains(other);
        let there = members.iter().copied().filter(counts).chain([self.site.id]);
        self.site.peers.roster.together().count(there) > usize::from(*copies)
    }

    /// A round about some of them, unless somebody was silent before.
    async fn some(
        &self,
        bucket: &Bucket,
        rules: &(u16, Rules),
        some: Vec<Found>,
        pass: &mut Pass,
    ) -> Outcome<()> {
        let mut gone = BTreeSet::new();
        if !pass.is_blocked {
            let ended = self.round(bucket, rules, &some).await?;
            gone = ended.gone;
            if let Some(why) = ended.why {
                pass.is_blocked = ended.is_silent;
                pass.is_paged = ended.is_paged;
                pass.stay.reason = why;
            }
        }
        let (mut versions, mut bytes) = (0, 0);
        for found in some {
            if gone.contains(&found.copy.dot) {
                (versions, bytes) = (versions + 1, bytes + found.bytes);
            } else {
                pass.stay.versions += 1;
                pass.stay.bytes += found.bytes;
            }
        }
        pass.released = (pass.released.0 + versions, pass.released.1 + bytes);
        self.site.copies.note_released(versions, bytes);
        Ok(())
    }

    async fn round(&self, bucket: &Bucket, rules: &(u16, Rules), some: &[Found]) -> Outcome<Ended> {
        let (site, id) = (&self.site, bucket.id);
        if site.copies.is_paged(id, site.clock.now()) {
            return Ok(Ended {
                is_paged: true,
                ..Ended::silent("another site is taking what is held here".into())
            });
        }
        if let Some(silent) = keepers(site, id).await.into_iter().find(|other| !site.linked(*other)) {
            return Ok(Ended::of(site, BTreeSet::new(), &End::Silent([silent].into())));
        }
        let tell = |input| site.copies.trim(input, site.clock.now());
        // One that a failure left behind.
        tell(Input::GiveUp);
        let demand = rules.1.at_hand.clone();
        tell(Input::Mark(id, demand, some.iter().map(|found| found.copy).collect()));
        let others = keepers(site, id).await;
        let counts = |other: &SiteId| rules.1.sites.contains(other) && !rules.1.lost.contains(other);
        let counted = others.iter().copied().filter(counts).collect();
        let mut asking = FuturesUnordered::new();
        let mut steps = tell(Input::Ask { others: others.clone(), counted });
        let mut gone = BTreeSet::new();
        loop {
            for step in std::mem::take(&mut steps) {
                match step {
                    Output::Ask(_, other, spans) => asking.push(ask(site, id, rules.0, other, spans)),
                    Output::Release(_, dots) => {
                        let released = let_go(site, id, (rules, &others), (some, &dots)).await;
                        gone =
                            released.as_ref().map(|dots| dots.iter().copied().collect()).unwrap_or_default();
                        let ended = tell(Input::Released(gone.iter().copied().collect()));
                        released?;
                        steps.extend(ended);
                    }
                    Output::Over(_, end) => return Ok(Ended::of(site, gone, &end)),
                }
            }
            if !steps.is_empty() {
                continue;
            }
            let Some((other, word)) = asking.next().await else {
                tell(Input::GiveUp);
                return Ok(Ended::silent("nobody can be asked".into()));
            };
            steps = tell(word.map_or(Input::Silent(other), |word| Input::Said(other, word)));
        }
    }
}

fn linked(site: &Site) -> BTreeSet<SiteId> {
    site.boxes.linked().into_iter().collect()
}

/// Lets go of what nobody needs here, unless something has changed since it was asked for.
async fn let_go(
    site: &Arc<Site>,
    id: BucketId,
    (rules, others): (&(u16, Rules), &BTreeSet<SiteId>),
    (some, dots): (&[Found], &[Dot]),
) -> Outcome<Vec<Dot>> {
    let stands =
        keepers(site, id).await.is_subset(others) && asked_for(site, id).await? == Some(rules.clone());
    if !stands {
        return Ok(Vec::new());
    }
    if site.copies.forget_former(id, &rules.1) {
        write_down(site, (BTreeSet::new(), [id].into())).await?;
    }
    let dots = unasked(site, id, some, dots).await?;
    release(site, id, some, &dots).await
}

/// How a round ended.
struct Ended {
    gone: BTreeSet<Dot>,
    why: Option<String>,
    is_silent: bool,
    is_paged: bool,
}

impl Ended {
    fn silent(why: String) -> Self {
        Self { gone: BTreeSet::new(), why: Some(why), is_silent: true, is_paged: false }
    }

    fn of(site: &Site, gone: BTreeSet<Dot>, end: &End) -> Self {
        match end {
            End::Silent(silent) => {
                let names: Vec<String> = silent.iter().map(|other| site.peers.roster.name(*other)).collect();
                Self::silent(format!("{} did not answer", names.join(", ")))
            }
            End::GivenUp => Self::silent("a site came while others were asked".into()),
            End::Done { stay: 0, .. } => Self { gone, why: None, is_silent: false, is_paged: false },
            End::Done { .. } => {
                let why = "others hold too few of them, or count on this site still".to_owned();
                Self { gone, why: Some(why), is_silent: false, is_paged: false }
            }
        }
    }
}

/// What is asked for of a bucket now; none if it is no more.
async fn asked_for(site: &Site, bucket: BucketId) -> Outcome<Option<(u16, Rules)>> {
    let found = site.claim_of(bucket).await?;
    Ok(found.map(|found| (scope::level(&found), rules(site, &found))))
}

/// Who keeps a book of a bucket: all but those that surely do not follow it, and lost ones that cannot be asked (these ask
/// anew when they are back).
async fn keepers(site: &Site, bucket: BucketId) -> BTreeSet<SiteId> {
    let strangers = site.drive.ask(move |machine, _| machine.strangers(bucket)).await.unwrap_or_default();
    let (lost, linked) = (site.copies.lost(), site.boxes.linked());
    let keeps = |other: &SiteId| {
        let asks = !lost.contains(other) || linked.contains(other);
        *other != site.id && asks && !strangers.contains(other)
    };
    site.peers.roster.all().into_keys().filter(keeps).collect()
}

async fn ask(
    site: &Site,
    bucket: BucketId,
    copies: u16,
    other: SiteId,
    versions: Spans,
) -> (SiteId, Option<Word>) {
    if !site.linked(other) {
        return (other, None);
    }
    let request = Request::Spare(Spare { bucket, copies, versions: versions.encode().into() });
    let answer = tokio::time::timeout(SAY, site.peers.call(other, &request)).await;
    let word = match answer.map(|answer| answer.map(|answer| answer.response)) {
        Ok(Ok(Response::Spared(said))) => {
            let decoded = (Spans::decode(&said.holds), Spans::decode(&said.keeps));
            match decoded {
                (Ok(holds), Ok(keeps)) => Some(Word { holds, keeps }),
                _ => None,
            }
        }
        _ => None,
    };
    (other, word)
}

/// Those that no write is answered for meanwhile that counts on them, nor was for more places than was known.
async fn unasked(site: &Arc<Site>, bucket: BucketId, some: &[Found], dots: &[Dot]) -> Outcome<Vec<Dot>> {
    let goes = some.iter().filter(|found| dots.contains(&found.copy.dot));
    let free = goes.filter(|found| !site.copies.is_asked(bucket, found.copy.dot));
    let free: Vec<Copy> = free.map(|found| found.copy).collect();
    let read = move |view: &dyn View| {
        let mut left = Vec::new();
        for copy in free {
            if book::promised(view, bucket, copy.dot).map_err(unreadable)? <= copy.copies {
                left.push(copy.dot);
            }
        }
        Ok(left)
    };
    site.read(read).await
}

/// Lets go of these; which of them went.
async fn release(site: &Arc<Site>, bucket: BucketId, some: &[Found], dots: &[Dot]) -> Outcome<Vec<Dot>> {
    let goes: Vec<&Found> = some.iter().filter(|found| dots.contains(&found.copy.dot)).collect();
    let chunks: Vec<Vec<ChunkId>> = goes.iter().map(|found| found.chunks.clone()).collect();
    let store = site.store.clone();
    // Who is looking for them may have asked the others before these took them: `paths/lost.rs`.
    site.copies.note_parting(bucket, None);
    let gone = tokio::task::spawn_blocking(move || store.release(bucket, &chunks)).await;
    site.copies.note_parting(bucket, Some(site.clock.now()));
    let gone = gone.map_err(refusal::task)?.map_err(refusal::storage)?;
    site.changes.happened(bucket);
    Ok(goes.iter().zip(gone).filter(|(_, gone)| *gone).map(|(found, _)| found.copy.dot).collect())
}

/// A page of what is held here.
struct Page {
    /// What may be too many.
    found: Vec<Found>,
    /// Versions that have not all the copies yet that are asked for, and their bytes.
    lacking: (u64, u64),
    /// Where it goes on.
    next: Option<Vector>,
}

impl Pass {
    /// So many versions here have not all the copies yet that are asked for. Where they are to go later, as this site is
    /// outside of the area that the bucket lives in, they are told of.
    fn wait(&mut self, rules: &Rules, outside: bool, (versions, bytes): (u64, u64)) {
        if versions == 0 || rules.demand.areas().is_empty() {
            return;
        }
        self.is_unsettled = true;
        if outside {
            self.stay.versions += versions;
            self.stay.bytes += bytes;
            self.stay.reason = "the area that the bucket is to live in has not all of them yet".into();
        }
    }
}

/// The next page of what is held here and enough places before this one are known to hold; where it goes on.
async fn page(site: &Arc<Site>, bucket: &Bucket, rules: &Rules, mut seen: Vector) -> Outcome<Page> {
    let (site, bucket) = (site.clone(), bucket.clone());
    let counted: BTreeSet<SiteId> = rules.sites.difference(&rules.lost).copied().collect();
    let demand = rules.at_hand.clone();
    let read = move || -> Outcome<_> {
        let view = site.store.view();
        let page = space::records_after(&view, bucket.id, &seen, PAGE).map_err(unreadable)?;
        seen.merge(&page.upto);
        let (mut found, mut lacking) = (Vec::new(), (0, 0));
        for item in page.items.iter().filter(|item| !item.spent) {
            let Some(object) = item.record.object() else { continue };
            if object.size <= JOURNAL_BODY_BYTES as u64 {
                continue;
            }
            let mut copy = copy_of(&bucket, &item.record);
            let promised = book::promised(&view, bucket.id, copy.dot).map_err(unreadable)?;
            copy.copies = copy.copies.max(promised);
            let keeps = site.copies.keeps(bucket.id, &demand, &copy, &counted);
            if keeps == Some(true) || !is_here(&site.store, bucket.id, object) {
                continue;
            }
            if keeps.is_none() {
                lacking = (lacking.0 + 1, lacking.1 + object.size);
            } else {
                let chunks = object.chunks.iter().map(|chunk| chunk.id).collect();
                found.push(Found { copy, bytes: object.size, chunks });
            }
        }
        Ok(Page { found, lacking, next: page.more.then_some(seen) })
    };
    tokio::task::spawn_blocking(read).await.map_err(refusal::task)?
}
