//! What only a site that leaves holds is held by others first: payload, version by version.
//!
//! Before: each try to leave. After: `paths/scope.rs`, by which others hold record and payload as their own. How many others
//! are to hold what is said in [`Behind`]. Invariants: a version counts as handed over once as many of those who answered in
//! this try have it as its bucket wants copies and its write was answered for; who is silent is counted for nothing, whatever
//! it is believed to hold, and where a promise needs it it is waited for; what was handed over is not asked for again in the
//! same life, but if somebody who took it is known to be lost, to leave, to have begun another life, or says nothing for long.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::future::join_all;
use skerry_base::kv::View;
use skerry_base::limits::JOURNAL_BODY_BYTES;
use skerry_base::{BucketId, Dot, Instant, Origin, SiteId, Vector};
use skerry_federation::budget::Class;
use skerry_federation::departure::{Attempt, Own};
use skerry_federation::placement::Demand;
use skerry_gateway::service::{ErrorKind, Outcome, ServiceError};
use skerry_model::{Record, space};
use skerry_storage::Store;

use super::Note;
use crate::copies::behind::{Behind, answered_for};
use crate::copies::claims;
use crate::copies::look::{Lies, lies, lies_at_all};
use crate::copies::surplus::Question;
use crate::paths::bucket::Bucket;
use crate::paths::far::first_chunks;
use crate::paths::scope::Unheld;
use crate::paths::{refusal, scope};
use crate::peers::message::{Hold, Part, Request};
use crate::site::{Site, unreadable};

/// Bytes of records of one page.
const PAGE: usize = 256 << 10;
/// Versions on their way at once.
const AT_ONCE: usize = 8;
/// Somebody who took something and is silent is waited for so long before others are asked to hold it as well.
const SILENT: Duration = Duration::from_secs(60);

/// What to do about a body that does not read whole and that too few others have.
pub(crate) const MEND: &str = "`skerry scrub start` mends what others have of it, a start rebuilds an index that does not read; \
                               delete what is lost for good";

/// What was handed over so far.
#[derive(Debug, Clone, Default)]
pub(super) struct Handed {
    pub(super) upto: Vector,
    loose: BTreeSet<Dot>,
    /// Who was relied on for it, and the life in which they said what they hold.
    pub(super) by: BTreeMap<SiteId, Option<Origin>>,
    /// What the bucket wanted.
    wish: Demand,
    /// The largest number of sites that a write was answered for.
    pub(super) places: usize,
    /// Since when somebody of them is silent.
    silent: Option<Instant>,
}

/// Whether those who were relied on can be.
#[derive(Debug, PartialEq, Eq)]
enum Reliance {
    /// All have said so in this try.
    Stands,
    /// These say nothing.
    Silent(BTreeSet<SiteId>),
    /// Somebody has less than was said, or may.
    Over,
}

impl Handed {
    /// `heard` are those who answer, with their lives.
    fn reliance(
        &self,
        stay: &BTreeSet<SiteId>,
        lost: &BTreeSet<SiteId>,
        heard: &BTreeMap<SiteId, Origin>,
    ) -> Reliance {
        let stands = self.by.iter().all(|(site, life)| {
            let is_same = heard.get(site).is_none_or(|now| Some(*now) == *life);
            stay.contains(site) && !lost.contains(site) && is_same
        });
        let silent: BTreeSet<SiteId> =
            self.by.keys().filter(|site| !heard.contains_key(site)).copied().collect();
        match (stands, silent.is_empty()) {
            (false, _) => Reliance::Over,
            (true, false) => Reliance::Silent(silent),
            (true, true) => Reliance::Stands,
        }
    }

    /// Whether it is all that this is.
    pub(super) fn includes(&self, own: &Own) -> bool {
        let known =
            |origin, seqs: &[u64]| seqs.iter().all(|seq| self.loose.contains(&Dot { origin, seq: *seq }));
        let loose =
            own.loose.iter().all(|(origin, seqs)| seqs.as_ref().is_some_and(|seqs| known(*origin, seqs)));
        self.upto.includes(&own.vector) && loose
    }
}

/// A page of what is here, and how far it goes.
struct Page {
    /// With why it does not read whole here, of those that do not.
    wants: Vec<(Record, Option<String>)>,
    upto: Vector,
    loose: Vec<Dot>,
    more: bool,
    /// The largest number of sites that one of them was answered for.
    places: usize,
}

/// What is handed over to whom.
struct Handing {
    site: Arc<Site>,
    bucket: Bucket,
    behind: Behind,
    /// Members that stay, as far as is known.
    stay: BTreeSet<SiteId>,
    /// Who can be asked: those, and who else is linked.
    near: BTreeSet<SiteId>,
    /// Who said in this try what it holds.
    heard: BTreeSet<SiteId>,
    /// What is asked for where nothing was promised, as of most versions.
    plain: Demand,
}

/// Hands over what is not yet; an error says what lacks a holder.
pub(super) async fn turn(
    site: &Arc<Site>,
    bucket: &Bucket,
    said: &Attempt,
    members: &BTreeSet<SiteId>,
) -> Outcome<()> {
    let (id, stay) = (bucket.id, said.others(members));
    let heard = heard(site, id, &stay).await;
    let mut behind = Behind::of(site, id, Some(bucket)).await?;
    let leaving: BTreeSet<SiteId> = said.leaving().collect();
    behind.all.retain(|other| !leaving.contains(other));
    let mut handed = begin(site, bucket, &behind.wish, (&stay, &heard))?;
    let linked = site.boxes.linked().into_iter().filter(|other| behind.all.contains(other));
    let near = stay.intersection(&behind.all).copied().chain(linked).collect();
    let plain = behind.demand(0, &near);
    handed.places = handed.places.max(behind.most_promised());
    let handing = Arc::new(Handing {
        site: site.clone(),
        bucket: bucket.clone(),
        behind,
        stay,
        near,
        heard: heard.into_keys().collect(),
        plain,
    });
    let lost: Arc<BTreeSet<SiteId>> = Arc::new(site.copies.losses().into_keys().collect());
    loop {
        let (store, from, done) = (site.store.clone(), handed.upto.clone(), handed.loose.clone());
        let lost = lost.clone();
        let read = tokio::task::spawn_blocking(move || page(&store, id, &from, (&done, &*lost))).await;
        let page = read.map_err(refusal::task)??;
        let fresh = page.wants.into_iter().filter(|(record, _)| !handed.loose.contains(&record.dot));
        let of = |(record, unread): (Record, Option<String>)| {
            let handing = handing.clone();
            async move { handing.one(&record, unread).await }
        };
        let results: Vec<Result<BTreeSet<SiteId>, Lacking>> =
            futures::stream::iter(fresh.map(of).collect::<Vec<_>>())
                .buffer_unordered(AT_ONCE)
                .collect()
                .await;
        let mut failed = Vec::new();
        for result in results {
            match result {
                Ok(by) => by.into_iter().for_each(|by| {
                    handed.by.entry(by).or_insert_with(|| site.copies.life(id, by));
                }),
                Err(lacks) => failed.push(lacks),
            }
        }
        if let Some(error) = lacking(site, id, &failed) {
            return Err(error);
        }
        handed.upto.merge(&page.upto);
        handed.loose.extend(page.loose);
        handed.places = handed.places.max(page.places);
        site.leaving.state().handed.insert(id, handed.clone());
        if !page.more {
            return Ok(());
        }
    }
}

/// What was handed over before, if those who took it still have it.
fn begin(
    site: &Site,
    bucket: &Bucket,
    wish: &Demand,
    (stay, heard): (&BTreeSet<SiteId>, &BTreeMap<SiteId, Origin>),
) -> Outcome<Handed> {
    let (id, now) = (bucket.id, site.clock.now());
    let fresh = || Handed { wish: wish.clone(), ..Handed::default() };
    let mut handed = site.leaving.state().handed.get(&id).cloned().unwrap_or_else(fresh);
    match handed.reliance(stay, &site.copies.lost(), heard) {
        Reliance::Stands if handed.wish == *wish => handed.silent = None,
        Reliance::Silent(silent) if now.since(*handed.silent.get_or_insert(now)) < SILENT => {
            // What it said may be so no more, and what it took others would have to be sent.
            let names: Vec<String> = silent.iter().map(|other| site.peers.roster.name(*other)).collect();
            site.leaving.state().handed.insert(id, handed);
            let why = format!("{} took payload of it and does not answer", names.join(", "));
            site.leaving.set_note(id, Note { reason: why.clone(), ..Note::default() });
            return Err(refusal::unreachable(why));
        }
        _ => {
            tracing::info!(
                bucket = bucket.name,
                "who took payload may have it no more, or more is asked for: all is looked through again"
            );
            handed = fresh();
        }
    }
    Ok(handed)
}

/// In which lives those who stay answer; what they hold is known here afterwards.
async fn heard(site: &Arc<Site>, bucket: BucketId, stay: &BTreeSet<SiteId>) -> BTreeMap<SiteId, Origin> {
    let ask = |other: SiteId| async move {
        let answered = claims::ask(site, bucket, other, &Vector::new()).await;
        let life = site.copies.life(bucket, other).filter(|_| answered == claims::Word::Said)?;
        Some((other, life))
    };
    let asked = stay.iter().copied().filter(|other| site.linked(*other)).map(ask);
    join_all(asked).await.into_iter().flatten().collect()
}

/// Versions of the page that nobody took.
fn lacking(site: &Site, bucket: BucketId, failed: &[Lacking]) -> Option<ServiceError> {
    let first = failed.first()?;
    let reason = format!("{} is held by too few others: {}", first.key, first.why);
    let (versions, bytes) = (failed.len() as u64, failed.iter().map(|one| one.bytes).sum());
    site.leaving.set_note(bucket, Note { reason: reason.clone(), versions, bytes });
    Some(refusal::unreachable(reason))
}

/// A version that too few others hold.
struct Lacking {
    key: String,
    bytes: u64,
    why: String,
}

/// What lies behind `from`; with the last pages also what lies beyond the vector, but for what is `done`. Of what a `lost`
/// site wrote a reader's copy may be all there is.
fn page(
    store: &Store,
    bucket: BucketId,
    from: &Vector,
    (done, lost): (&BTreeSet<Dot>, &BTreeSet<SiteId>),
) -> Outcome<Page> {
    let view = store.view();
    let found = space::records_after(&view, bucket, from, PAGE).map_err(unreadable)?;
    let mut page =
        Page { wants: Vec::new(), upto: found.upto, loose: Vec::new(), more: found.more, places: 0 };
    let mut items = found.items;
    if !page.more {
        for loose in space::loose(&view as &dyn View, bucket).map_err(unreadable)? {
            let first = Dot { origin: loose.origin, seq: loose.covered.saturating_add(1) };
            let last = Dot { seq: u64::MAX, ..first };
            let have: BTreeSet<u64> = done.range(first..=last).map(|dot| dot.seq).collect();
            let (beyond, upto) =
                space::records_in(&view, bucket, (first, u64::MAX), &have, PAGE).map_err(unreadable)?;
            page.more |= upto < u64::MAX;
            page.loose.extend(beyond.iter().map(|item| item.dot));
            items.extend(beyond);
        }
    }
    let living = || items.iter().filter(|item| !item.spent);
    page.places = living().map(|item| answered_for(item.record.scope)).max().unwrap_or_default();
    let bodies = items.into_iter().filter(|item| !item.spent).map(|item| item.record);
    let held = |record: Record| {
        let object = record.object().filter(|object| object.size > 0)?;
        let lies = match lost.contains(&record.site) {
            true => lies_at_all(store, bucket, object),
            false => lies(store, bucket, object),
        };
        match lies {
            Lies::Here => Some((record, None)),
            Lies::Unread(why) => Some((record, Some(why))),
            Lies::Not => None,
        }
    };
    page.wants.extend(bodies.filter_map(held));
    Ok(page)
}

impl Handing {
    /// Has enough others hold one version; who they are. What does not read here is let go of only where others have it.
    async fn one(&self, record: &Record, unread: Option<String>) -> Result<BTreeSet<SiteId>, Lacking> {
        let Self { site, bucket, stay, heard, .. } = self;
        let (id, dot, promised) = (bucket.id, record.dot, self.behind.promised(record.dot, record.scope));
        let bytes = record.object().map_or(0, |object| object.size);
        let lacks = |why: String| Lacking { key: record.key.clone(), bytes, why };
        let counts = |other: &SiteId| self.behind.all.contains(other) && heard.contains(other);
        let holders: BTreeSet<SiteId> =
            site.copies.with(|machine| machine.holders(id, dot).filter(counts).collect());
        // Of what only this site remembers that it is to be kept at more sites, those are told that have it.
        let told = scope::told(record, u16::try_from(promised).unwrap_or(u16::MAX));
        let mut have = if told == 0 || unread.is_some() { holders.clone() } else { BTreeSet::new() };
        if promised <= 1 && self.plain.is_met(&have, &self.behind.together) {
            return Ok(have);
        }
        let (mut behind, mut near) = (self.behind.clone(), self.near.clone());
        if behind.demand(promised, &near).is_met(&have, &behind.together) {
            return Ok(have);
        }
        if let Some(why) = unread {
            return Err(lacks(format!("it does not read whole here ({why}); {MEND}")));
        }
        let hold = question(site, bucket, record).await.map_err(|error| lacks(error.message().to_owned()))?;
        let request = Request::hold_for(hold, told);
        let mut able = scope::candidates(site, bucket).await;
        able.retain(|other| behind.all.contains(other) && !have.contains(other));
        able.sort_by_key(|other| !holders.contains(other));
        let mut failed = Vec::new();
        // The same page is gone through until all of it is held: who said that it takes no more is not sent it each time.
        let now = site.clock.now();
        for other in
            able.extract_if(.., |other| !holders.contains(other) && site.copies.is_capped(*other, bytes, now))
        {
            if !stay.contains(&other) {
                near.remove(&other);
            }
            failed
                .push(format!("{}: it holds as much for others as it is to", site.peers.roster.name(other)));
        }
        loop {
            let demand = behind.demand(promised, &near);
            if demand.is_met(&have, &behind.together) {
                return Ok(have);
            }
            let picked = demand.pick(&able, &|_| true, &have, &behind.together);
            let Some(at) = able.iter().position(|other| picked.contains(other)) else { break };
            let other = able.remove(at);
            let why = match self.have_held(other, &request, (dot, bytes)).await {
                Ok(()) => {
                    have.insert(other);
                    continue;
                }
                Err(why) => why,
            };
            // Who is no member need not take what the bucket wants: there is another one, or later who stays sees to it.
            if !stay.contains(&other) {
                near.remove(&other);
            }
            if why.is_for_good {
                near.remove(&other);
                behind.all.remove(&other);
            }
            failed.push(format!("{}: {}", site.peers.roster.name(other), why.text));
        }
        Err(lacks(self.why(&behind.all, &have, failed)))
    }

    async fn have_held(
        &self,
        other: SiteId,
        request: &Request,
        (dot, bytes): (Dot, u64),
    ) -> Result<(), NotHeld> {
        let (site, id) = (&self.site, self.bucket.id);
        let patience = Duration::from_secs(30 + bytes / (256 << 10));
        let _asking = site.copies.asking(id, Question::Hold(dot));
        let begun = site.clock.now();
        match tokio::time::timeout(patience, scope::held_by(site, Class::Copy, other, request)).await {
            Ok(Ok(())) => {
                site.copies.took(other, bytes, begun);
                site.copies.held(id, dot, [other]);
                Ok(())
            }
            Ok(Err(why)) => {
                if why.is_cap() {
                    site.copies.refused_by_cap(other, bytes, site.clock.now());
                }
                let is_for_good =
                    matches!(&why, Unheld::Refused(error) if error.kind() == ErrorKind::NotResident);
                Err(NotHeld { text: why.to_string(), is_for_good })
            }
            Err(_) => Err(NotHeld { text: "it does not answer".into(), is_for_good: false }),
        }
    }

    /// Why too few hold it.
    fn why(&self, all: &BTreeSet<SiteId>, have: &BTreeSet<SiteId>, mut failed: Vec<String>) -> String {
        let linked: BTreeSet<SiteId> = self.site.boxes.linked().into_iter().collect();
        let away = all.iter().filter(|other| !linked.contains(other) && !have.contains(other));
        let away: Vec<String> = away.map(|other| self.site.peers.roster.name(*other)).collect();
        if !away.is_empty() {
            failed.push(format!("no link to {}", away.join(", ")));
        }
        match failed.is_empty() {
            true => "no other member can be reached that may hold it".into(),
            false => failed.join("; "),
        }
    }
}

/// Why a site did not take a version.
struct NotHeld {
    text: String,
    /// It takes nothing of the bucket.
    is_for_good: bool,
}

/// Small payload goes along; larger is fetched by who takes it.
async fn question(site: &Arc<Site>, bucket: &Bucket, record: &Record) -> Outcome<Hold> {
    let (store, owned) = (site.store.clone(), record.clone());
    let small = record.object().is_some_and(|object| object.size <= JOURNAL_BODY_BYTES as u64);
    let read = move || if small { first_chunks(&store, &owned, Part::Whole) } else { Ok(Vec::new()) };
    let payload = tokio::task::spawn_blocking(read).await.map_err(refusal::task)??;
    Ok(Hold { bucket: bucket.id, record: record.encode().into(), payload })
}

#[cfg(test)]
mod tests {
    use skerry_base::NodeId;

    use super::*;

    fn site(number: u8) -> SiteId {
        SiteId([number; 16])
    }

    fn life(incarnation: u64) -> Origin {
        Origin { node: NodeId([2; 16]), incarnation }
    }

    #[test]
    fn what_was_handed_over_is_looked_through_again_when_who_took_it_may_have_less() {
        let handed = Handed { by: [(site(2), Some(life(1)))].into(), ..Handed::default() };
        let (stay, nobody) = (BTreeSet::from([site(2), site(3)]), BTreeSet::new());
        let heard = |incarnation| BTreeMap::from([(site(2), life(incarnation))]);
        let silence = BTreeMap::new();
        assert_eq!(handed.reliance(&stay, &nobody, &heard(1)), Reliance::Stands);
        let silent = Reliance::Silent([site(2)].into());
        assert_eq!(handed.reliance(&stay, &nobody, &silence), silent, "its disk may be gone");
        assert_eq!(handed.reliance(&stay, &nobody, &heard(2)), Reliance::Over, "its disk may be another one");
        assert_eq!(
            handed.reliance(&stay, &BTreeSet::from([site(2)]), &heard(1)),
            Reliance::Over,
            "it is lost"
        );
        let others = BTreeSet::from([site(3)]);
        assert_eq!(handed.reliance(&others, &nobody, &silence), Reliance::Over, "it leaves, or is no member");
        assert_eq!(Handed::default().reliance(&stay, &nobody, &heard(2)), Reliance::Stands);
    }
}
