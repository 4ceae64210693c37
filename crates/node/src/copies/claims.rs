//! What sites say they hold: the answer, and the question.
//!
//! A site that was set back to a backup, or came back with an empty disk, holds less than others believe; so does one that let
//! go of copies, or found that they have rotted. So its word is asked for anew in each of its lives, begins another one when it
//! ceases to be so, and is given from its disk, not from memory.
//!
//! Invariants: a page is bounded; an answer is checked before it is believed; what a page passes over is not claimed.

use std::sync::Arc;

use skerry_base::{BucketId, Origin, SiteId, Vector};
use skerry_federation::placement::Spans;
use skerry_federation::placement::limits::RANGES;
use skerry_gateway::service::Outcome;
use skerry_model::space;

use super::look::is_here;
use super::surplus::Question;
use crate::paths::refusal;
use crate::peers::message::{Held, Holdings, Request, Response};
use crate::site::{Site, unreadable};

/// Bytes of records of one page: some thousand versions, well within the time of an answer.
const PAGE: usize = 512 << 10;
/// Pages of one word: beyond, the rest counts as not held.
const PAGES: usize = 100_000;

/// The life of this site's word on what it holds: another one with each mark, and with each chunk that is found damaged.
pub(super) fn word(site: &Site, bucket: BucketId) -> Origin {
    let life = site.stamps.origin_of(bucket);
    let ceased = site.copies.marks(bucket).wrapping_add(site.store.damage_of(bucket));
    Origin { incarnation: life.incarnation.wrapping_add(ceased), ..life }
}

/// Answers which versions are held here.
pub(crate) async fn answer(site: &Arc<Site>, asked: Holdings, asker: SiteId) -> Outcome<Response> {
    // Its vector covers next to nothing for a moment: all others would make copies anew of what is here.
    crate::anew::check_says(site, asked.bucket, asker)?;
    let life = word(site, asked.bucket);
    let nothing = Held { life, spans: Spans::default().encode().into(), upto: Vector::new(), more: false };
    if asked.life == Some(life) || !site.is_member(asked.bucket) {
        return Ok(Response::Holdings(Box::new(nothing)));
    }
    // What is claimed must be on disk, whatever was answered before it was.
    site.settle_lazy().await?;
    let (store, bucket, copies) = (site.store.clone(), asked.bucket, site.copies.clone());
    let read = move || -> Outcome<Held> {
        // What is marked may be gone, and marked no more, once the disk was looked at.
        let mut lacking = copies.marked(bucket);
        let page = space::records_after(&store.view(), bucket, &asked.from, PAGE).map_err(unreadable)?;
        let bodies = page.items.iter().filter(|item| !item.spent);
        let lacks =
            |item: &&space::Item| item.record.object().is_some_and(|object| !is_here(&store, bucket, object));
        lacking.extend(bodies.filter(lacks).map(|item| item.dot));
        // And after the disk: what was marked meanwhile is left out, and what is marked later is asked about while this answer
        // is waited for.
        lacking.extend(copies.marked(bucket));
        let spans = Spans::between(&asked.from, &page.upto, &lacking).encode().into();
        Ok(Held { life, spans, upto: page.upto, more: page.more })
    };
    let page = tokio::task::spawn_blocking(read).await.map_err(refusal::task)??;
    if page.more {
        site.copies.note_paged(bucket, site.clock.now());
    }
    Ok(Response::Holdings(Box::new(page)))
}

/// What became of a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Word {
    /// All was said.
    Said,
    /// Not yet of this bucket: of others it may be.
    Refused,
    /// No answer, or none that makes sense.
    Silent,
}

/// Asks a site what it holds of a bucket, unless it said so in this life. Of a site that never said anything only what lies behind
/// `from` matters.
pub(crate) async fn ask(site: &Arc<Site>, bucket: BucketId, other: SiteId, from: &Vector) -> Word {
    let known = site.copies.life(bucket, other);
    say_all(site, bucket, other, known, from).await
}

/// Asks a site all that it holds of a bucket, whatever it said before.
pub(crate) async fn ask_anew(site: &Arc<Site>, bucket: BucketId, other: SiteId) -> bool {
    say_all(site, bucket, other, None, &Vector::new()).await == Word::Said
}

async fn say_all(
    site: &Arc<Site>,
    bucket: BucketId,
    other: SiteId,
    known: Option<Origin>,
    from: &Vector,
) -> Word {
    let _asking = site.copies.asking(bucket, Question::Holdings(other));
    let believed = site.copies.with(|machine| machine.known(bucket, other).is_some());
    let mut from = if believed { Vector::new() } else { from.clone() };
    let mut sum = Spans::default();
    let mut life: Option<Origin> = None;
    for _ in 0..PAGES {
        let request = Request::Holdings(Holdings { bucket, life: known, from: from.clone() });
        let answer = site.peers.call(other, &request).await.map(|answer| answer.response);
        let page = match answer {
            Ok(Response::Holdings(page)) => page,
            Ok(Response::Refused { .. }) => return Word::Refused,
            _ => return Word::Silent,
        };
        if known == Some(page.life) {
            return Word::Said;
        }
        let Ok(spans) = Spans::decode(&page.spans) else { return Word::Silent };
        // It was started anew while it answered: the next turn asks again.
        if life.replace(page.life).is_some_and(|before| before != page.life) {
            return Word::Silent;
        }
        // A page that comes no further, or sums without end: one damaged site must not keep all others from copies.
        let comes_further = !from.includes(&page.upto);
        sum.merge(&spans);
        from.merge(&page.upto);
        if page.more && (!comes_further || sum.ranges() > RANGES) {
            return Word::Silent;
        }
        if !page.more {
            let is_believed = site.copies.said(bucket, other, page.life, sum, believed);
            return if is_believed { Word::Said } else { Word::Silent };
        }
    }
    Word::Silent
}
