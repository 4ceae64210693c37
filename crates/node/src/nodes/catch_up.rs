//! What a node fetches from the live ones before it counts: what they hold, said in one epoch and behind all that they let
//! in before.
//!
//! The answer names, by bucket, what the vector covers and the records ahead of it. The feeds bring the former, as always
//! and from whoever is nearest; the latter come with the answer. Who joins the view fetches the bodies, too, that its
//! source holds as copies that count; who is live already was asked to hold each, and has only to see what others let in
//! at the end of the former view.
//!
//! Invariants: an answer is given within the epoch asked for, behind a barrier in the commit queue, or not at all; nothing
//! is said to have been fetched before it is durable here; pages are bounded; what goes wrong is begun anew by the machine.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use skerry_base::kv::View;
use skerry_base::{BucketId, Dot, NodeId, SiteId, Vector};
use skerry_federation::site_view::{Input, Seat};
use skerry_gateway::service::{ErrorKind, Outcome, ServiceError};
use skerry_model::{Record, space};
use skerry_storage::{CommitError, Store};
use tokio::sync::oneshot;

use super::ask::{After, Ask, Held, Told, ask};
use super::bodies::{bodies, hold};
use super::{Event, Nodes, gaps, holding, lock};
use crate::copies::look::is_here;
use crate::paths::{far, refusal};
use crate::site::{Site, unreadable};

/// How long a node that has not heard of an epoch yet may take to.
pub(super) const TURNED: Duration = Duration::from_secs(1);
/// How long a page of what is held may take.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
/// How long the feeds may take for what was named; then what is held is asked for anew.
const FED: Duration = Duration::from_secs(60);
/// Bytes of one page.
const PAGE: usize = 1 << 20;
/// Bytes of records ahead of vectors that are heard before any is kept.
const AHEAD: usize = 8 * PAGE;
/// What an entry of a vector takes, roughly.
const ENTRY: usize = 48;

/// Whether to begin: once per node and epoch at a time.
pub(super) fn begin(nodes: &Nodes, from: Seat, epoch: u64) -> bool {
    lock(&nodes.fetching).insert(from, epoch) != Some(epoch)
}

/// Fetches all that a live node holds, and tells the machine.
pub(super) async fn fetch(site: Arc<Site>, from: Seat, epoch: u64) {
    let nodes = &site.nodes;
    let mut turned = nodes.turned.subscribe();
    let is_over = async {
        turned.wait_for(|now| *now != Some(epoch)).await.ok();
    };
    tokio::select! {
        () = is_over => {}
        fetched = fetched(&site, from, epoch) => {
            nodes.note_room(&fetched);
            match fetched {
                Ok(()) => tell(nodes, Input::CaughtUp { from, epoch }).await,
                Err(error) => {
                    tracing::debug!(seat = from.index(), epoch, %error, "what a node holds was not fetched; it is asked again");
                }
            }
        }
    }
    let mut fetching = lock(&nodes.fetching);
    if fetching.get(&from) == Some(&epoch) {
        fetching.remove(&from);
    }
}

async fn tell(nodes: &Nodes, input: Input) {
    if let Some(events) = &nodes.events {
        events.send(Event::input(input)).await.ok();
    }
}

async fn fetched(site: &Arc<Site>, from: Seat, epoch: u64) -> Outcome<()> {
    let nodes = &site.nodes;
    let holder = site.peers.roster.holder(nodes.site, from);
    let (member, node) = holder.ok_or_else(|| refusal::unreachable("nobody fills its seat"))?;
    let joins = nodes.holders().is_some_and(|view| view.joining.contains(nodes.me));
    let all = joins || !nodes.has_caught_up.load(Ordering::Acquire) || site.follows_gaps();
    let said = gaps::asked(site, (from, node), epoch).await?;
    let arrived = Input::Arrived { from, epoch };
    let asked = Exchange::of(site, joins.then_some(member)).ask(node, (epoch, all), Some(arrived)).await?;
    let mut held = asked.kept().await?;
    // Which buckets there are is told by the system bucket.
    let system = held.remove(&site.system).unwrap_or_default();
    covered(site, BTreeMap::from([(site.system, system)])).await?;
    let (is_new, unkept) = joined(site, held.keys().copied().collect()).await?;
    if is_new {
        // Records ahead of vectors were passed over where the bucket was not followed.
        let asked = Exchange::of(site, joins.then_some(member)).ask(node, (epoch, all), None).await?;
        held = asked.kept().await?;
    }
    held.retain(|bucket, _| *bucket == site.system || site.is_member(*bucket));
    covered(site, held.clone()).await?;
    if joins {
        for bucket in held.into_keys().filter(|bucket| *bucket != site.system) {
            bodies(site, member, bucket).await?;
        }
    }
    gaps::fetched(site, said, &unkept).await
}

/// What a node holds, as it comes: what vectors cover, and records ahead of them, which are kept here with their bodies from
/// `bodies` if it names a node.
struct Exchange<'a> {
    site: &'a Arc<Site>,
    bodies: Option<SiteId>,
    covered: BTreeMap<BucketId, Vector>,
    /// Not kept yet: who is asked is not to be found late because this disk is slow.
    heard: Vec<(BucketId, Vec<(bytes::Bytes, bool)>)>,
    bytes: usize,
}

impl<'a> Exchange<'a> {
    const fn of(site: &'a Arc<Site>, bodies: Option<SiteId>) -> Self {
        Self { site, bodies, covered: BTreeMap::new(), heard: Vec::new(), bytes: 0 }
    }

    /// Asks for all of it. `arrived` is told with the first page: whoever answers is not late, however many pages its buckets take.
    async fn ask(
        mut self,
        node: NodeId,
        (epoch, all): (u64, bool),
        mut arrived: Option<Input>,
    ) -> Outcome<Self> {
        let mut after = None;
        loop {
            let told = ask(self.site, node, Ask::Holdings { epoch, after, all }, PATIENCE).await;
            let (page, more) = match told.map_err(|error| refusal::unreachable(error.to_string()))? {
                Told::Holdings(page, more) => (page, more),
                Told::Not(why) => return Err(refusal::unreachable(why)),
                _ => return Err(refusal::unreachable("it answered something else")),
            };
            if let Some(arrived) = arrived.take() {
                tell(&self.site.nodes, arrived).await;
            }
            page.into_iter().for_each(|held| self.hear(held));
            match more {
                None => return Ok(self),
                // A page that comes no further would be asked for ever.
                Some(next) if Some(key(next)) <= after.map(key) => {
                    return Err(refusal::unreachable("its pages come no further"));
                }
                more => after = more,
            }
            if self.bytes > AHEAD {
                self.keep().await?;
            }
        }
    }

    fn hear(&mut self, held: Held) {
        let Held { bucket, vector, loose } = held;
        self.covered.entry(bucket).or_default().merge(&vector);
        if bucket == self.site.system || self.site.is_member(bucket) {
            self.bytes += loose.iter().map(|(bytes, _)| bytes.len()).sum::<usize>();
            self.heard.push((bucket, loose));
        }
    }

    async fn keep(&mut self) -> Outcome<()> {
        self.bytes = 0;
        for (bucket, loose) in std::mem::take(&mut self.heard) {
            keep(self.site, bucket, loose, self.bodies).await?;
        }
        Ok(())
    }

    /// What the vectors cover, once the rest is durable here.
    async fn kept(mut self) -> Outcome<BTreeMap<BucketId, Vector>> {
        self.keep().await?;
        Ok(self.covered)
    }
}

/// The order of pages: the end of a bucket lies behind its loose records.
fn key(after: After) -> (BucketId, bool, Option<Dot>) {
    (after.bucket, after.loose.is_none(), after.loose)
}

/// Keeps records that no vector covers where they come from.
async fn keep(
    site: &Arc<Site>,
    bucket: BucketId,
    loose: Vec<(bytes::Bytes, bool)>,
    bodies: Option<SiteId>,
) -> Outcome<()> {
    let mut plain = Vec::new();
    for (bytes, is_held) in loose {
        let record = Record::admit(&bytes).map_err(refusal::malformed)?;
        if record.bucket != bucket {
            return Err(refusal::malformed("a record of another bucket"));
        }
        // What is said of homes and names is its own body, and in no bucket that anybody could follow.
        let has_body = is_held && bucket != site.system && record.object().is_some();
        match bodies.filter(|_| has_body) {
            Some(member) => hold(site, member, &record).await?,
            None => plain.push(record),
        }
    }
    if plain.is_empty() { Ok(()) } else { far::keep(site, bucket, (), plain).await }
}

/// Waits until the feeds have brought all of this.
async fn covered(site: &Arc<Site>, mut goals: BTreeMap<BucketId, Vector>) -> Outcome<()> {
    let mut changes = site.changes.follow();
    let wait = async {
        loop {
            changes.mark_unchanged();
            goals = site.read(move |view| lacking(view, goals)).await?;
            if goals.is_empty() || changes.changed().await.is_err() {
                return Ok(());
            }
        }
    };
    let late = || refusal::unreachable("the feeds have not brought all of it yet");
    tokio::time::timeout(FED, wait).await.map_err(|_| late())?
}

fn lacking(view: &dyn View, mut goals: BTreeMap<BucketId, Vector>) -> Outcome<BTreeMap<BucketId, Vector>> {
    let mut covered = BTreeSet::new();
    for (bucket, goal) in &goals {
        if space::vector(view, *bucket).map_err(unreadable)?.includes(goal) {
            covered.insert(*bucket);
        }
    }
    goals.retain(|bucket, _| !covered.contains(bucket));
    Ok(goals)
}

/// Becomes a member of those that this node may keep; whether there was one, and which it does not keep.
async fn joined(site: &Arc<Site>, mut buckets: Vec<BucketId>) -> Outcome<(bool, BTreeSet<BucketId>)> {
    let (mut any, mut unkept) = (false, BTreeSet::new());
    buckets.retain(|id| !site.is_member(*id));
    for id in buckets {
        let bucket = site.bucket_of(id).await?;
        if bucket.is_some_and(|bucket| holding::keeps(site, &bucket)) {
            site.join(id).await?;
            any = true;
        } else {
            // Should it follow it later, that is from somebody who may know less.
            unkept.insert(id);
        }
    }
    Ok((any, unkept))
}

/// Says what is held here, in this epoch.
pub(super) async fn answer(site: &Arc<Site>, epoch: u64, after: Option<After>, all: bool) -> Outcome<Told> {
    let nodes = &site.nodes;
    nodes.turns(epoch, TURNED).await;
    if after.is_none() {
        barrier(site, epoch).await?;
    }
    let near = (!all).then(|| {
        let mut near = site.peers.roster.fellows(site.id);
        near.insert(site.peers.net().node());
        near
    });
    let mut buckets: BTreeSet<BucketId> = site.memberships().into_iter().collect();
    buckets.insert(site.system);
    let store = site.store.clone();
    let read = move || Pager { store: &store, near, left: PAGE, page: Vec::new() }.read(&buckets, after);
    let (page, more) = tokio::task::spawn_blocking(read).await.map_err(refusal::task)??;
    check(nodes, epoch)?;
    Ok(Told::Holdings(page, more))
}

pub(super) fn check(nodes: &Nodes, epoch: u64) -> Outcome<()> {
    let another = || ServiceError::new(ErrorKind::Unavailable, "this node is in another view");
    nodes.is_in(epoch).then_some(()).ok_or_else(another)
}

/// Returns in this epoch, when all that was let in under earlier ones is durable: what is let in asks for its epoch on
/// the commit thread, as this does, and whatever ran there before this is on disk when this is answered.
async fn barrier(site: &Arc<Site>, epoch: u64) -> Outcome<()> {
    let (answer, answered) = oneshot::channel();
    let nodes = site.nodes.clone();
    let done = |result: Result<bool, CommitError<Infallible>>| {
        answer.send(result).ok();
    };
    site.store.submit(move |_| Ok((nodes.is_in(epoch), Vec::new())), done);
    let is_in = answered.await.map_err(|_| refusal::stopping())?;
    if !is_in.is_ok_and(|is_in| is_in) {
        return Err(ServiceError::new(ErrorKind::Unavailable, "this node is in another view"));
    }
    site.settle_lazy().await
}

/// Gathers one page.
struct Pager<'a> {
    store: &'a Store,
    /// Only what these nodes wrote; none: all.
    near: Option<BTreeSet<NodeId>>,
    left: usize,
    page: Vec<Held>,
}

impl Pager<'_> {
    fn read(
        mut self,
        buckets: &BTreeSet<BucketId>,
        after: Option<After>,
    ) -> Outcome<(Vec<Held>, Option<After>)> {
        let view = self.store.view();
        let begins = |bucket: &&BucketId| {
            after.is_none_or(|after| match after.loose {
                Some(_) => **bucket >= after.bucket,
                None => **bucket > after.bucket,
            })
        };
        for bucket in buckets.iter().filter(begins) {
            let behind = after.filter(|after| after.bucket == *bucket).and_then(|after| after.loose);
            let more = self.bucket(&view, *bucket, behind)?;
            if more.is_some() || self.left == 0 {
                return Ok((self.page, Some(After { bucket: *bucket, loose: more })));
            }
        }
        Ok((self.page, None))
    }

    /// One bucket; behind which loose record to go on, if there was no room for all.
    fn bucket(&mut self, view: &dyn View, bucket: BucketId, behind: Option<Dot>) -> Outcome<Option<Dot>> {
        let mut vector = space::vector(view, bucket).map_err(unreadable)?;
        if let Some(near) = &self.near {
            let of_near = vector.iter().filter(|(origin, _)| near.contains(&origin.node));
            vector = of_near.collect();
        }
        self.take(vector.iter().count() * ENTRY);
        let mut held = Held { bucket, vector, loose: Vec::new() };
        let more = self.loose(view, &mut held, behind);
        self.page.push(held);
        more
    }

    fn loose(&mut self, view: &dyn View, held: &mut Held, behind: Option<Dot>) -> Outcome<Option<Dot>> {
        let bucket = held.bucket;
        for origin in space::marked(view, bucket).map_err(unreadable)? {
            let from = Dot { origin, seq: space::vector_entry(view, bucket, origin).map_err(unreadable)? };
            let from = behind.filter(|dot| dot.origin >= origin).map_or(from, |dot| from.max(dot));
            if from.origin != origin {
                continue;
            }
            let first = Dot { seq: from.seq.saturating_add(1), ..from };
            let found = space::records_in(view, bucket, (first, u64::MAX), &BTreeSet::new(), self.left);
            let (items, upto) = found.map_err(unreadable)?;
            let last = items.last().map(|item| item.dot);
            for item in items {
                let body = item.record.object().filter(|_| !item.spent);
                let is_held = body.is_some_and(|object| is_here(self.store, bucket, object));
                let bytes = item.encoded;
                self.take(bytes.len());
                held.loose.push((bytes, is_held));
            }
            if last.is_some() && (upto < u64::MAX || self.left == 0) {
                return Ok(last);
            }
        }
        Ok(None)
    }

    const fn take(&mut self, bytes: usize) {
        self.left = self.left.saturating_sub(bytes);
    }
}
