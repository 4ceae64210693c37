//! What a well-formed message must also be: within its limits, canonical. Said once, at the door.

use std::collections::BTreeSet;

use skerry_base::{BucketId, Vector, limits as bounds};

use super::{Batch, Holding, Message, Place, Publish, Rolls, Said, Verdict};
use crate::areas::Coordinate;
use crate::limits;
use crate::replica::{FeedItem, Span};
use crate::rest::{OFTEN, SELDOM};

impl Message {
    /// Why the message is refused, if it is.
    pub(super) fn check(&self) -> Result<(), &'static str> {
        match self {
            Self::Swim(packet) => within(packet.len(), limits::SWIM_BYTES),
            Self::Pull(pull) => vectors(&[&pull.seen]),
            Self::Batch(batch) => check_batch(batch),
            Self::News { vector, .. } => vectors(&[vector]),
            Self::Check { entries, .. } => {
                within(entries.len(), limits::ENTRIES_PER_MESSAGE)?;
                let buckets: BTreeSet<BucketId> = entries.iter().map(|(bucket, _)| *bucket).collect();
                if buckets.len() == entries.len() { Ok(()) } else { Err("a bucket twice") }
            }
            Self::Compare(compare) => vectors(&[&compare.limit]),
            Self::Compared { verdict, doubt, .. } => check_verdict(verdict, doubt),
            Self::Probe(probe) => {
                check_spans(&probe.spans)?;
                check_apart(&probe.spans)
            }
            Self::Probed { holdings, doubt, .. } => {
                vectors(&[doubt])?;
                check_holdings(holdings)
            }
            Self::Dead { dots, vector, .. } => {
                vectors(&[vector])?;
                within(dots.len(), limits::DROP_DOTS)
            }
            Self::Publish(publish) => check_publish(publish),
            Self::Said { said: Said::Known(sites), .. } => within(sites.len(), limits::FOUND),
            Self::Loose { loose, .. } => {
                let ordered = loose.is_sorted_by(|a, b| a.origin < b.origin);
                within(loose.len(), limits::LOOSE_ORIGINS)?;
                if ordered { Ok(()) } else { Err("origins out of order") }
            }
            Self::Gather(gather) => {
                within(gather.have.len(), limits::LOOSE_DOTS)?;
                check_spans(core::slice::from_ref(&gather.span))
            }
            Self::Gathered(gathered) => check_items(&gathered.items, bounds::FEED_BODY_BYTES),
            Self::Said { said: Said::NotHeard(sites), .. } => within(sites.len(), limits::SITES),
            Self::Place(place) => check_place(place),
            Self::Seek(seek) | Self::SeekOn { seek, .. } => within(seek.wanted.len(), limits::WANTED_BYTES),
            Self::Census(census) => within(census.entries.len(), limits::ROLLS),
            Self::Rolls(rolls) => check_rolls(rolls),
            Self::Metered { every_secs: 0 } => Ok(()),
            Self::Metered { every_secs } => match pauses().contains(every_secs) {
                true => Ok(()),
                false => Err("a pause that nobody keeps"),
            },
            Self::PullRefused { .. }
            | Self::Published { .. }
            | Self::Locate { .. }
            | Self::PassOn { .. }
            | Self::Said { .. }
            | Self::NotMember { .. }
            | Self::Withdraw { .. } => Ok(()),
        }
    }
}

/// Pauses that are said, in seconds.
fn pauses() -> core::ops::RangeInclusive<u32> {
    OFTEN.as_secs() as u32..=SELDOM.as_secs() as u32
}

const fn within(count: usize, limit: usize) -> Result<(), &'static str> {
    if count <= limit { Ok(()) } else { Err("more entries than allowed") }
}

/// Equal vectors must be equal values: an entry of 0 would break that.
fn vectors(vectors: &[&Vector]) -> Result<(), &'static str> {
    for vector in vectors {
        within(vector.len(), limits::ORIGINS)?;
        if vector.iter().any(|(_, seq)| seq == 0) {
            return Err("a vector with an empty entry");
        }
    }
    Ok(())
}

fn check_batch(batch: &Batch) -> Result<(), &'static str> {
    vectors(&[&batch.upto, &batch.vector, &batch.horizon, &batch.doubt])?;
    // Whether the sender may send the longer ones is known to who asked it.
    let is_asked_for = batch.ticket != Batch::FRESH;
    check_items(&batch.items, if is_asked_for { bounds::JOURNAL_BODY_BYTES } else { bounds::FEED_BODY_BYTES })
}

fn check_items(items: &[FeedItem], body_bytes: usize) -> Result<(), &'static str> {
    within(items.len(), limits::BATCH_ITEMS)?;
    if items.iter().any(|item| item.dot.seq == 0) {
        return Err("a dot without seq");
    }
    if items.iter().any(|item| item.bodies.iter().map(bytes::Bytes::len).sum::<usize>() > body_bytes) {
        return Err("a body too long for a feed");
    }
    if !items.is_sorted_by(|a, b| a.dot < b.dot) {
        return Err("items out of order");
    }
    Ok(())
}

fn check_verdict(verdict: &Verdict, doubt: &Vector) -> Result<(), &'static str> {
    vectors(&[doubt])?;
    match verdict {
        Verdict::Differs(origins) => within(origins.len(), limits::ORIGINS),
        Verdict::Beyond(vector) => vectors(&[vector]),
        Verdict::Equal | Verdict::Unfit => Ok(()),
    }
}

fn check_spans(spans: &[Span]) -> Result<(), &'static str> {
    within(spans.len(), limits::SPANS_PER_PROBE)?;
    match spans.iter().all(|span| span.first >= 1 && span.first <= span.last) {
        true => Ok(()),
        false => Err("an empty span"),
    }
}

/// Each piece of what is here is looked through for one span at most: who compares cuts what differs, and asks for no part twice.
fn check_apart(spans: &[Span]) -> Result<(), &'static str> {
    let mut spans: Vec<&Span> = spans.iter().collect();
    spans.sort_unstable_by_key(|span| (span.origin, span.first));
    let is_apart = |pair: &[&Span]| match pair {
        [before, after] => before.origin != after.origin || before.last < after.first,
        _ => true,
    };
    if spans.windows(2).all(is_apart) { Ok(()) } else { Err("spans that overlap") }
}

fn check_holdings(holdings: &[Holding]) -> Result<(), &'static str> {
    within(holdings.len(), limits::SPANS_PER_PROBE)?;
    for holding in holdings {
        match holding {
            Holding::Children(children) => within(children.len(), limits::SPAN_CHILDREN)?,
            Holding::Dots(dots) => within(dots.len(), limits::SPAN_LIST as usize)?,
        }
    }
    Ok(())
}

fn check_publish(publish: &Publish) -> Result<(), &'static str> {
    within(publish.changes.len(), limits::ENTRIES_PER_MESSAGE)
}

fn check_place(place: &Place) -> Result<(), &'static str> {
    match Coordinate::from_bytes(&place.coordinate) {
        Ok(_) => Ok(()),
        Err(_) => Err("a coordinate of nowhere"),
    }
}

fn check_rolls(rolls: &Rolls) -> Result<(), &'static str> {
    within(rolls.rolls.len(), limits::ROLLS)?;
    within(rolls.unheard.as_ref().map_or(0, Vec::len), limits::SITES)?;
    rolls.rolls.iter().try_for_each(|(_, members)| within(members.len(), limits::HOLDERS))
}
