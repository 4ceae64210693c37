//! What only a site that leaves holds is held by others first: payload, version by version.
//!
//! Before: each try to leave. After: `paths/scope.rs`, by which others hold record and payload as their own. Invariants:
//! a version counts as handed over once as many members that stay have said that they hold it as the bucket wants copies,
//! or all of them if they are fewer, one at least (of several nodes of a site one); what was handed over is not asked for again in the same life, but
//! if somebody who took it is known to be lost, to leave, or to have begun another life.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::future::join_all;
use skerry_base::kv::View;
use skerry_base::limits::JOURNAL_BODY_BYTES;
use skerry_base::{BucketId, Dot, Origin, SiteId, Vector};
use skerry_federation::budget::Class;
use skerry_federation::departure::Own;
use skerry_gateway::service::{Outcome, ServiceError};
use skerry_model::{Record, space};
use skerry_storage::Store;

use super::Note;
use crate::copies::claims;
use crate::copies::look::{is_here, lies_here};
use crate::copies::surplus::Question;
use crate::paths::bucket::Bucket;
use crate::paths::far::first_chunks;
use crate::paths::{refusal, scope};
use crate::peers::message::{Hold, Part, Request};
use crate::site::{Site, unreadable};

/// Bytes of records of one page.
const PAGE: usize = 256 << 10;
/// Versions on their way at once.
const AT_ONCE: usize = 8;

/// What was handed over so far.
#[derive(Debug, Clone, Default)]
pub(super) struct Handed {
    upto: Vector,
    loose: BTreeSet<Dot>,
    /// Who was relied on for it, and the life in which they said what they hold.
    by: BTreeMap<SiteId, Option<Origin>>,
}

impl Handed {
    /// Whether nobody who was relied on is known to have less now: `heard` are those who answer, with their lives.
    /// Silence says nothing: what was said stays true until something else is heard.
    fn stands(
        &self,
        stay: &BTreeSet<SiteId>,
        lost: &BTreeSet<SiteId>,
        heard: &BTreeMap<SiteId, Origin>,
    ) -> bool {
        self.by.iter().all(|(site, life)| {
            let is_same = heard.get(site).is_none_or(|now| Some(*now) == *life);
            stay.contains(site) && !lost.contains(site) && is_same
        })
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
    wants: Vec<Record>,
    upto: Vector,
    loose: Vec<Dot>,
    more: bool,
}

/// Hands over what is not yet; an error says what lacks a holder.
pub(super) async fn turn(site: &Arc<Site>, bucket: &Bucket, stay: &BTreeSet<SiteId>) -> Outcome<()> {
    let id = bucket.id;
    let mut handed = site.leaving.state().handed.get(&id).cloned().unwrap_or_default();
    let heard = heard(site, id, stay).await;
    if !handed.stands(stay, &site.copies.lost(), &heard) {
        tracing::info!(
            bucket = bucket.name,
            "who took payload may have it no more: all is looked through again"
        );
        handed = Handed::default();
    }
    let lost: Arc<BTreeSet<SiteId>> = Arc::new(site.copies.losses().into_keys().collect());
    loop {
        let (store, from, done) = (site.store.clone(), handed.upto.clone(), handed.loose.clone());
        let lost = lost.clone();
        let read = tokio::task::spawn_blocking(move || page(&store, id, &from, (&done, &*lost))).await;
        let page = read.map_err(refusal::task)??;
        let fresh = page.wants.into_iter().filter(|record| !handed.loose.contains(&record.dot));
        let handing: Vec<_> =
            fresh.map(|record| one(site.clone(), bucket.clone(), record, stay.clone())).collect();
        let results: Vec<Result<BTreeSet<SiteId>, Lacking>> =
            futures::stream::iter(handing).buffer_unordered(AT_ONCE).collect().await;
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
        site.leaving.state().handed.insert(id, handed.clone());
        if !page.more {
            return Ok(());
        }
    }
}

/// In which lives those who stay answer; what they hold is known here afterwards.
async fn heard(site: &Arc<Site>, bucket: BucketId, stay: &BTreeSet<SiteId>) -> BTreeMap<SiteId, Origin> {
    let ask = |other: SiteId| async move {
        let answered = claims::ask(site, bucket, other, &Vector::new()).await;
        let life = site.copies.life(bucket, other).filter(|_| answered)?;
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
    let mut page = Page { wants: Vec::new(), upto: found.upto, loose: Vec::new(), more: found.more };
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
    let bodies = items.into_iter().filter(|item| !item.spent).map(|item| item.record);
    let holds = |record: &Record| {
        let lies = |object| lost.contains(&record.site) && lies_here(store, bucket, object);
        let is_whole = |object| is_here(store, bucket, object) || lies(object);
        record.object().is_some_and(|object| object.size > 0 && is_whole(object))
    };
    page.wants.extend(bodies.filter(holds));
    Ok(page)
}

/// Has enough others hold one version; who they are.
async fn one(
    site: Arc<Site>,
    bucket: Bucket,
    record: Record,
    stay: BTreeSet<SiteId>,
) -> Result<BTreeSet<SiteId>, Lacking> {
    let (site, bucket, record) = (&site, &bucket, &record);
    let (id, dot) = (bucket.id, record.dot);
    let bytes = record.object().map_or(0, |object| object.size);
    let lacks = |why: String| Lacking { key: record.key.clone(), bytes, why };
    let may: BTreeSet<SiteId> = stay.iter().copied().filter(|other| bucket.may_lie_at(*other)).collect();
    // The nodes of one site hold it once, whichever they are.
    let together = site.peers.roster.together();
    let there = together.count(may.iter().copied());
    let wanted = usize::from(bucket.config.copies_in_all()).clamp(1, there.max(1));
    let mut have: BTreeSet<SiteId> =
        site.copies.with(|machine| machine.holders(id, dot).filter(|other| may.contains(other)).collect());
    let mut at = together.among(have.iter().copied());
    if at.len() >= wanted {
        return Ok(have);
    }
    let request = question(site, bucket, record).await.map_err(|error| lacks(error.message().to_owned()))?;
    let mut failed = Vec::new();
    for other in scope::candidates(site, bucket).await {
        if at.len() >= wanted {
            break;
        }
        if !may.contains(&other) || at.contains(&together.of(other)) {
            continue;
        }
        let patience = Duration::from_secs(30 + bytes / (256 << 10));
        let _asking = site.copies.asking(id, Question::Hold(dot));
        match tokio::time::timeout(patience, scope::held_by(site, Class::Copy, other, &request)).await {
            Ok(Ok(())) => {
                site.copies.held(id, dot, [other]);
                have.insert(other);
                at.insert(together.of(other));
            }
            Ok(Err(why)) => failed.push(format!("{}: {why}", site.peers.roster.name(other))),
            Err(_) => failed.push(format!("{} does not answer", site.peers.roster.name(other))),
        }
    }
    match at.len() >= wanted {
        true => Ok(have),
        false if failed.is_empty() => Err(lacks("no other member can be reached that may hold it".into())),
        false => Err(lacks(failed.join("; "))),
    }
}

/// Small payload goes along; larger is fetched by who takes it.
async fn question(site: &Arc<Site>, bucket: &Bucket, record: &Record) -> Outcome<Request> {
    let (store, owned) = (site.store.clone(), record.clone());
    let small = record.object().is_some_and(|object| object.size <= JOURNAL_BODY_BYTES as u64);
    let read = move || if small { first_chunks(&store, &owned, Part::Whole) } else { Ok(Vec::new()) };
    let payload = tokio::task::spawn_blocking(read).await.map_err(refusal::task)??;
    Ok(Request::Hold(Hold { bucket: bucket.id, record: record.encode().into(), payload }))
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
        assert!(handed.stands(&stay, &nobody, &heard(1)));
        assert!(handed.stands(&stay, &nobody, &BTreeMap::new()), "silence says nothing");
        assert!(!handed.stands(&stay, &nobody, &heard(2)), "its disk may be another one");
        assert!(!handed.stands(&stay, &BTreeSet::from([site(2)]), &heard(1)), "it is declared lost");
        assert!(!handed.stands(&BTreeSet::from([site(3)]), &nobody, &heard(1)), "it leaves, or is no member");
        assert!(Handed::default().stands(&stay, &nobody, &heard(2)));
    }
}
