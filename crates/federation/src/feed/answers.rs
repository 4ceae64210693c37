//! Answers to pulls, batch by batch.
//!
//! Why: the machine has one thread. An answer of eight batches in one piece kept all else waiting for the tenths of a second that
//! it takes to read, its own first batch as well. So the first batch goes at once, and each other after what came meanwhile.
//!
//! Invariants: each batch is read from one view and says what goes along with it, as if it had been asked for by itself: a pull
//! was always continued by another that reads a later view. A batch starts where the one before it ended, whatever was written in
//! between. Whoever asks anew, whose link ends, or whom this machine refuses gets no more of the answer before (where the shell drops a
//! batch of a full link and says so, the rest is still tried); of a bucket that is left the asker hears so. [`limits::SERVED_AT_ONCE`] answers have batches left at most.

use skerry_base::{BucketId, Instant, Origin, SiteId, Vector, limits as bounds};

use super::Feed;
use crate::context::Context;
use crate::message::{Batch, Message, Pull, Refusal};
use crate::{FeedBatch, Share, limits};

/// An answer to a pull of which batches are left.
#[derive(Debug)]
pub(super) struct Serving {
    pub(super) to: SiteId,
    pub(super) bucket: BucketId,
    ticket: u64,
    /// What the asker has, with what was given.
    seen: Vector,
    /// Bytes of a batch.
    bytes: usize,
    takes_ahead: bool,
    takes_whole: bool,
    /// The next batch, of so many.
    index: u8,
    count: u8,
    /// When it is due.
    pub(super) at: Instant,
}

impl Serving {
    /// So many batches at most of what was asked for.
    fn of(to: SiteId, pull: Pull, most: u8, at: Instant) -> Self {
        Self {
            to,
            bucket: pull.bucket,
            ticket: pull.ticket,
            bytes: pull.max_bytes as usize,
            takes_ahead: pull.batches & Pull::AHEAD != 0,
            takes_whole: pull.batches & Pull::WHOLE != 0,
            index: 0,
            count: pull.most().clamp(1, most),
            seen: pull.seen,
            at,
        }
    }

    const fn refusal(&self, reason: Refusal) -> Message {
        Message::PullRefused { ticket: self.ticket, bucket: self.bucket, reason }
    }

    /// The next batch: this piece, of a store that has this and dropped and doubts that.
    fn batch(
        &self,
        piece: FeedBatch,
        (vector, horizon, doubt): (Vector, Vector, Vector),
        source: Origin,
    ) -> Batch {
        let FeedBatch { mut items, upto, more, ahead } = piece;
        if self.takes_ahead && !ahead.is_empty() {
            items.extend(ahead);
            items.sort_by_key(|item| item.dot);
        }
        let passed = !self.seen.includes(&horizon);
        Batch {
            ticket: self.ticket,
            bucket: self.bucket,
            source,
            index: self.index,
            last: !more || self.index + 1 == self.count,
            upto: upto.beyond(&self.seen),
            end: !more,
            vector: if passed { vector } else { vector.beyond(&self.seen) },
            horizon: if passed { horizon } else { Vector::new() },
            doubt,
            items,
        }
    }
}

impl Feed {
    /// Begins an answer of so many batches at most. The last question counts: whoever asks anew has given up what went before.
    pub(super) fn answer(&mut self, from: SiteId, pull: Pull, most: u8, cx: &mut Context<'_>) {
        self.serving.retain(|other| (other.to, other.bucket) != (from, pull.bucket));
        let mut rest = self.give(Serving::of(from, pull, most, cx.now), cx);
        // Where very many ask at once the rest of the last goes at once: nothing is remembered without end.
        while self.serving.len() >= limits::SERVED_AT_ONCE
            && let Some(serving) = rest.take()
        {
            rest = self.give(serving, cx);
        }
        self.serving.extend(rest);
    }

    /// Gives the next batch to whoever has waited longest, if that is due.
    pub(super) fn answer_on(&mut self, cx: &mut Context<'_>) {
        let Some(serving) = self.serving.pop_front_if(|serving| serving.at <= cx.now) else { return };
        let rest = self.give(serving, cx);
        self.serving.extend(rest);
        // One batch at a time, whoever it is for.
        if let Some(next) = self.serving.front_mut() {
            next.at = cx.now.after(limits::SERVE_PAUSE);
        }
    }

    /// Of a bucket that is left nothing more is given: who waits for it hears so.
    pub(super) fn stop_answers(&mut self, id: BucketId, cx: &mut Context<'_>) {
        for left in self.serving.iter().filter(|serving| serving.bucket == id) {
            cx.send(left.to, left.refusal(Refusal::NotMember));
        }
        self.serving.retain(|serving| serving.bucket != id);
    }

    /// Answers with one batch, as the store is now; what is left of the answer comes back.
    fn give(&self, serving: Serving, cx: &mut Context<'_>) -> Option<Serving> {
        let to = serving.to;
        let refusal = serving.refusal(Refusal::Busy);
        let given = self.give_or_refuse(serving, cx);
        if given.is_none() {
            cx.send(to, refusal);
        }
        given?
    }

    /// None if there is nothing to be given now.
    fn give_or_refuse(&self, mut serving: Serving, cx: &mut Context<'_>) -> Option<Option<Serving>> {
        let (to, id) = (serving.to, serving.bucket);
        if self.spent.contains(&to) {
            return None;
        }
        let state = || Ok((cx.replica.vector(id)?, cx.replica.horizon(id)?, cx.replica.doubt(id)?));
        let (vector, horizon, doubt) = cx.read(state())?;
        let least = limits::BATCH_BYTES_MIN as usize;
        let room = room_beside([&vector, &vector, &horizon, &doubt], serving.takes_ahead);
        if room < least {
            cx.refuse(to, "a pull of a bucket of more origins than a message has room for");
            return None;
        }
        let max_bytes = serving.bytes.clamp(least, room.min(bounds::FEED_BATCH_BYTES));
        let is_whole = serving.takes_whole && cx.peers.is_fellow(to);
        let share = Share { max_bytes, fellow: is_whole.then_some(to), is_short: false };
        let piece = cx.read(cx.replica.after(id, &serving.seen, share))?;
        let upto = piece.upto.clone();
        let batch = serving.batch(piece, (vector, horizon, doubt), cx.replica.origin(id));
        let last = batch.last;
        cx.stats.items_out += batch.items.len() as u64;
        cx.send(to, Message::Batch(batch));
        if last {
            return Some(None);
        }
        serving.seen.merge(&upto);
        (serving.index, serving.at) = (serving.index + 1, cx.now.after(limits::SERVE_PAUSE));
        Some(Some(serving))
    }
}

/// Bytes of records that fit into a batch beside these vectors, whole as they may have to be said, and beside what goes along
/// beyond the vector. Origins are few where sites are: only many lives of many sites leave less than a batch may have.
fn room_beside(vectors: [&Vector; 4], takes_ahead: bool) -> usize {
    let seqs = |vector: &Vector| vector.iter().map(|(origin, seq)| entry_bytes(origin, seq)).sum::<usize>();
    let said: usize = vectors.into_iter().map(seqs).sum();
    let ahead = if takes_ahead { limits::AHEAD_BYTES } else { 0 };
    bounds::MESSAGE_BYTES.saturating_sub(said + ahead + HEAD_BYTES)
}

/// What a batch holds beside vectors and records; one record, which goes whatever its size, and more.
const HEAD_BYTES: usize = (64 << 10) + bounds::JOURNAL_BODY_BYTES;

/// An entry of a vector on the wire.
fn entry_bytes(origin: Origin, seq: u64) -> usize {
    let number = |value: u64| (u64::BITS - value.leading_zeros()).div_ceil(7).max(1) as usize;
    size_of_val(&origin.node) + number(origin.incarnation) + number(seq)
}
