//! The effects of the federation machine on a running node: messages to outboxes, batches to the store.
//!
//! Invariants: what the machine wants stored goes behind what clients wait for, in the machine's order, a long batch in
//! steps of which each is committed as a whole or not at all; a record that is malformed, or of another bucket or dot than it was
//! sent as, refuses its step and what follows of the batch; `Applied` is told exactly once, after the last sync.

use std::collections::BTreeMap;
use std::iter::Peekable;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use skerry_base::codec;
use skerry_base::kv::{Table, View};
use skerry_base::{BucketId, Dot, SiteId, Vector};
use skerry_federation::budget::Class;
use skerry_federation::{Apply, Drop, FeedItem, Fresh, Input, Keep, Message, Report, limits};
use skerry_model::{Entry, Record, space};
use skerry_storage::{CommitError, SmallBody, Step, Store};
use tokio::sync::mpsc;

use super::stored::{Stored, VectorFile};
use super::{Drive, Effects, Give};
use crate::changes::Changes;
use crate::clock::Clock;
use crate::copies::Copies;
use crate::peers::Peers;
use crate::peers::outbox::Outboxes;

/// What the machine said of other sites.
#[derive(Debug, Default)]
pub(crate) struct Liveness(Mutex<BTreeMap<SiteId, Heard>>);

/// One site's liveness.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Heard {
    /// Alive, as far as anybody can say.
    pub(crate) alive: bool,
    /// When that last changed.
    pub(crate) since: skerry_base::Instant,
}

impl Liveness {
    /// What is known of a site.
    pub(crate) fn of(&self, site: SiteId) -> Option<Heard> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&site).copied()
    }

    fn set(&self, site: SiteId, heard: Heard) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(site, heard);
    }
}

/// Effects on a running node.
pub(crate) struct Live {
    pub(crate) store: Arc<Store>,
    pub(crate) boxes: Arc<Outboxes>,
    pub(crate) peers: Arc<Peers>,
    pub(crate) drive: Drive,
    pub(crate) changes: Changes,
    pub(crate) liveness: Arc<Liveness>,
    pub(crate) clock: Clock,
    /// Who holds copies: who leaves a bucket holds none.
    pub(crate) copies: Arc<Copies>,
    /// Told when a source has nothing more for this site.
    pub(crate) caught_up: mpsc::Sender<(BucketId, SiteId)>,
    /// Told what other sites want of this one.
    pub(crate) gives: mpsc::Sender<Give>,
}

impl Effects for Live {
    fn send(&mut self, to: SiteId, message: Message) {
        let is_record = message.kind() == skerry_federation::message::Kind::Record;
        if is_record
            && let Some(node) = self.peers.roster.node(to)
            && let Err(why) = self.peers.uplink.may_send(node, Class::Record)
        {
            // The machine is told of it soon; who waits meanwhile hears that nothing comes.
            tracing::debug!(%to, why, "records were not sent");
            if let Some(instead) = message.without_records() {
                self.boxes.send(to, &instead);
            }
            return;
        }
        if self.boxes.send(to, &message) {
            return;
        }
        tracing::debug!(%to, "a message was dropped: the link is full or gone");
        // Who asked for these records would wait for them until he takes this site for silent.
        if let Some(instead) = message.without_records() {
            self.boxes.send(to, &instead);
        }
    }

    fn apply(&mut self, apply: Apply) {
        let (drive, changes) = (self.drive.clone(), self.changes.clone());
        let (ticket, bucket, from) = (apply.ticket, apply.bucket, apply.from);
        let (mut batch, store) = (Batch::of(apply), self.store.clone());
        self.store.submit_steps(
            move |view| batch.step(view, store.is_full()),
            move |result: Result<(), CommitError<String>>| {
                if let Err(error) = &result {
                    let reason = reason(error);
                    tracing::warn!(%bucket, %from, reason, "a batch of a feed was not committed");
                }
                changes.fed(bucket);
                drive.tell(Input::Applied { ticket, ok: result.is_ok() });
            },
        );
    }

    fn fresh(&mut self, fresh: Fresh) {
        let (drive, changes) = (self.drive.clone(), self.changes.clone());
        let (ticket, bucket, from) = (fresh.ticket, fresh.bucket, fresh.from);
        self.store.submit_behind(
            move |view| followed(view, &fresh).map(|entries| ((), entries)),
            move |result: Result<(), CommitError<String>>| {
                if let Err(error) = &result {
                    tracing::warn!(%bucket, %from, reason = reason(error), "fresh records were not committed");
                }
                changes.fed(bucket);
                drive.tell(Input::Applied { ticket, ok: result.is_ok() });
            },
        );
    }

    fn keep(&mut self, keep: Keep) {
        let (drive, changes) = (self.drive.clone(), self.changes.clone());
        let (ticket, bucket, from) = (keep.ticket, keep.bucket, keep.from);
        self.store.submit_behind(
            move |view| kept(view, &keep).map(|entries| ((), entries)),
            move |result: Result<(), CommitError<String>>| {
                match &result {
                    Ok(()) => tracing::info!(%bucket, %from, "took records that no feed can bring"),
                    Err(error) => {
                        let reason = reason(error);
                        tracing::warn!(%bucket, %from, reason, "loose records were not committed");
                    }
                }
                changes.fed(bucket);
                drive.tell(Input::Applied { ticket, ok: result.is_ok() });
            },
        );
    }

    fn drop_dead(&mut self, dead: Drop) {
        let (drive, changes) = (self.drive.clone(), self.changes.clone());
        let (ticket, bucket) = (dead.ticket, dead.bucket);
        self.store.submit_behind(
            move |view| dropped(view, &dead).map(|entries| ((), entries)),
            move |result: Result<(), CommitError<String>>| {
                if let Err(error) = &result {
                    tracing::warn!(%bucket, reason = reason(error), "dead records were not dropped");
                }
                changes.fed(bucket);
                drive.tell(Input::Applied { ticket, ok: result.is_ok() });
            },
        );
    }

    fn give(&mut self, give: Give) {
        if let Err(error) = self.gives.try_send(give) {
            tracing::debug!(%error, "what a site wants was not given: it will ask");
        }
    }

    fn member_of(&mut self, site: SiteId, bucket: BucketId, member: bool) {
        tracing::debug!(%site, %bucket, member, "membership heard");
        if member {
            // It may have followed the bucket for long, and hold what is too many then.
            self.copies.hurry(bucket);
        } else {
            self.copies.left(bucket, site);
        }
        self.changes.happened(bucket);
    }

    fn alive(&mut self, site: SiteId, alive: bool) {
        let (name, state) = (self.peers.roster.name(site), if alive { "alive" } else { "silent" });
        tracing::info!(site = name, state, "a site was heard, or is not any more");
        self.liveness.set(site, Heard { alive, since: self.clock.now() });
        if alive {
            self.peers.heard(site);
        }
        self.changes.world();
    }

    fn rests(&mut self, site: SiteId, every: Option<Duration>, paid: bool) {
        tracing::debug!(%site, ?every, paid, "how long the link rests");
        self.peers.rests(site, every, paid);
    }

    fn report(&mut self, report: Report) {
        match report {
            Report::Unreadable { reason } => tracing::error!(reason, "the store cannot be read"),
            Report::NotFollowed { bucket } => {
                tracing::error!(%bucket, "this site follows too many buckets: this one is not fed; leave some of them");
            }
            Report::RosterCut { left_out } => {
                let most = limits::SITES;
                tracing::error!(
                    left_out,
                    "more sites belong than a site keeps in touch with ({most} others): those with the greatest ids are left out \
                     by all; expel sites that are gone"
                );
            }
            Report::CaughtUp { bucket, source } => {
                self.caught_up.try_send((bucket, source)).ok();
            }
            report => tracing::debug!(?report, "federation"),
        }
        self.changes.world();
    }
}

fn reason(error: &CommitError<String>) -> String {
    match error {
        CommitError::Refused(reason) => reason.clone(),
        CommitError::Storage(error) => error.to_string(),
    }
}

/// A batch of a feed on its way into the store. The vector follows at the end of the round: [`space::take`] says why.
struct Batch {
    steps: Peekable<Box<dyn Iterator<Item = space::Incoming<FeedItem>> + Send>>,
    /// Goes with the first step, before anything that it covers.
    horizon: Vector,
    doubt: Vector,
    /// There was no room for long bodies.
    is_full: bool,
}

impl Batch {
    fn of(apply: Apply) -> Self {
        let Apply { source, more, bucket, base, items, upto, horizon, doubt, .. } = apply;
        let whole = space::Incoming { bucket, source, base, records: items, upto, more };
        let most = (limits::STEP_RECORDS, limits::STEP_BYTES);
        let steps = space::steps(whole, most, |item: &FeedItem| item.dot, FeedItem::len);
        let steps: Box<dyn Iterator<Item = _> + Send> = Box::new(steps);
        Self { steps: steps.peekable(), horizon, doubt, is_full: false }
    }

    /// Where there is no room the bodies are left behind that another node of the site gave along: records go on as long as they
    /// find a place, and a node without room is not counted among those that hold what others write.
    fn step(&mut self, view: &dyn View, is_full: bool) -> Result<Step, String> {
        let Some(step) = self.steps.next() else { return Ok(Step::default()) };
        let space::Incoming { bucket, source, base, records: mut items, upto, more } = step;
        // Short steps find room where the next long one does not: what was short once is so for the batch.
        self.is_full |= is_full;
        if self.is_full {
            items.iter_mut().filter(|item| item.is_whole()).for_each(|item| item.bodies.clear());
        }
        let records = admitted(bucket, &items)?;
        let incoming = space::Incoming { bucket, source, base, records, upto, more };
        let taken = space::take(view, incoming).map_err(|error| error.to_string())?;
        let taken = taken.ok_or("an earlier batch of the round is missing")?;
        let mut entries = carried(&taken, &items);
        entries.extend(raised(view, Stored::Horizon, bucket, &std::mem::take(&mut self.horizon))?);
        entries.extend(raised(view, Stored::Doubt, bucket, &std::mem::take(&mut self.doubt))?);
        Ok(Step { entries, more: self.steps.peek().is_some() })
    }
}

/// What records store that came with their news.
fn followed(view: &dyn View, fresh: &Fresh) -> Result<Vec<skerry_storage::Entry>, String> {
    let records = admitted(fresh.bucket, &fresh.items)?;
    let entries = space::follow(view, fresh.bucket, records).map_err(|error| error.to_string())?;
    Ok(carried(&entries.ok_or("what lies before them is missing")?, &fresh.items))
}

/// What loose records store.
fn kept(view: &dyn View, keep: &Keep) -> Result<Vec<skerry_storage::Entry>, String> {
    let records = admitted(keep.bucket, &keep.items)?;
    let entries = space::keep(view, keep.bucket, records).map_err(|error| error.to_string())?;
    Ok(carried(&entries, &keep.items))
}

fn dropped(view: &dyn View, dead: &Drop) -> Result<Vec<skerry_storage::Entry>, String> {
    let mut entries = Vec::new();
    if !dead.dots.is_empty() {
        let drop = Entry::Drop { bucket: dead.bucket, dots: dead.dots.clone() };
        entries.push(entry(&drop).freeing());
    }
    entries.extend(raised(view, Stored::Horizon, dead.bucket, &dead.horizon)?);
    let doubt = read(view, Stored::Doubt, dead.bucket)?;
    if !doubt.is_empty() && dead.settles.includes(&doubt) {
        let key = Bytes::from(Stored::Doubt.key(dead.bucket));
        entries.push(entry(&Entry::Local { key, value: None }));
    }
    Ok(entries)
}

fn entry(entry: &Entry) -> skerry_storage::Entry {
    skerry_storage::Entry::new(entry.encode())
}

fn admitted(bucket: BucketId, items: &[FeedItem]) -> Result<Vec<Record>, String> {
    let admit = |item: &FeedItem| {
        let record = Record::admit(&item.record).map_err(|error| format!("record {}: {error}", item.dot))?;
        if record.bucket != bucket || record.dot != item.dot {
            return Err(format!("record {} came as {}", record.dot, item.dot));
        }
        Ok(record)
    };
    items.iter().map(admit).collect()
}

/// The entries with the bodies that came with their records.
fn carried(taken: &[Entry], items: &[FeedItem]) -> Vec<skerry_storage::Entry> {
    let items: BTreeMap<Dot, &FeedItem> = items.iter().map(|item| (item.dot, item)).collect();
    let stored = |taken: &Entry| match taken {
        Entry::Record(record) => match items.get(&record.dot) {
            Some(item) => with_bodies(record, item),
            None => entry(taken),
        },
        _ => entry(taken),
    };
    taken.iter().map(stored).collect()
}

/// The entry of an admitted record, with the bodies that came with it and that it names.
fn with_bodies(record: &Record, item: &FeedItem) -> skerry_storage::Entry {
    let whole = skerry_storage::Entry::new(Entry::encode_admitted(&item.record));
    let chunks = record.object().map(|object| &object.chunks[..]).unwrap_or_default();
    let bodies = item.bodies.iter().map(|bytes| SmallBody::new(record.bucket, bytes.clone()));
    bodies
        .filter(|body| chunks.iter().any(|chunk| chunk.id == body.id()))
        .fold(whole, skerry_storage::Entry::with_body)
}

/// What is stored of a bucket under a kind of facts that are vectors.
pub(crate) fn read(view: &dyn View, what: Stored, bucket: BucketId) -> Result<Vector, String> {
    let found = view.get(Table::Local, &what.key(bucket)).map_err(|error| error.to_string())?;
    let decode = |bytes: Bytes| codec::decode::<VectorFile>(&bytes).map_err(|error| error.to_string());
    Ok(found.map(decode).transpose()?.map(|file| file.0).unwrap_or_default())
}

/// The entry that merges `more` into a stored vector; none if it holds nothing new.
fn raised(
    view: &dyn View,
    what: Stored,
    bucket: BucketId,
    more: &Vector,
) -> Result<Option<skerry_storage::Entry>, String> {
    if more.is_empty() {
        return Ok(None);
    }
    let mut vector = read(view, what, bucket)?;
    if vector.includes(more) {
        return Ok(None);
    }
    vector.merge(more);
    let (key, value) = (Bytes::from(what.key(bucket)), Bytes::from(codec::encode(&VectorFile(vector))));
    Ok(Some(entry(&Entry::Local { key, value: Some(value) })))
}

/// The entry that raises the horizon over records that are dropped here.
pub(crate) fn raised_horizon(
    view: &dyn View,
    bucket: BucketId,
    dropped: &Vector,
) -> Result<Option<skerry_storage::Entry>, String> {
    raised(view, Stored::Horizon, bucket, dropped)
}

#[cfg(test)]
#[path = "live_tests.rs"]
mod tests;
