//! Pinned prefixes: what lies below them is fetched when its record arrives and is not evicted.
//!
//! Before: `skerry bucket pin|unpin|prefetch`. After: `paths/source.rs` for what is not here. Invariants: a few objects are
//! fetched at a time, at a bounded pace, as copies in the sense of a metered link's budget; what is pinned is remembered
//! durably; never more is pinned than [`MOST_PERCENT`] of what the cache may hold, and what does not fit says so.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use skerry_base::kv::{Table, View};
use skerry_base::{BucketId, ChunkId, ChunkKind, ChunkRef, Instant, Vector};
use skerry_federation::budget::Class;
use skerry_gateway::service::{
    ErrorKind, Outcome, PinAct, PinList, PinRequest, PinStatus, ServiceError, VERSION,
};
use skerry_model::body::{Step, Walk};
use skerry_model::bucket::{Joins, all_buckets, list_buckets};
use skerry_model::space::{self, Cursor, SpaceError};
use skerry_model::{Entry, Record};
use tokio::sync::Notify;

use crate::copies::look::{lies_here, stays_here};
use crate::following;
use crate::paths::bucket::Bucket;
use crate::paths::refusal;
use crate::paths::source::Chunks;
use crate::pin_plan::{Failed, Next, Walks};
use crate::site::{Site, entry, unreadable};
use crate::tasks::rest;

/// Where pins are remembered, in the node's own table; then the bucket, then the prefix.
const PINS: &[u8] = b"pin/";
/// Kinds of entries.
const PINNED: &[u8] = &[1];
const PREFETCHED: &[u8] = &[2];
/// Pins of a site: each is walked through after changes.
const MOST: usize = 256;
/// Keys of one reading of the index.
const PAGE: usize = 256;
/// Keys of what came that are looked at together.
const CAME: usize = 1 << 16;
/// Objects that are fetched at a time.
const AT_ONCE: usize = 4;
/// Bytes fetched a second at most, of each of them.
const PACE: u64 = 8 << 20;
/// The least time between two walks: changes gather meanwhile.
const PAUSE: Duration = Duration::from_secs(1);
/// Walks without a change: links may be back, a period may have begun.
const AGAIN: Duration = Duration::from_secs(30);
/// Percent of the cache that may be pinned: the rest is for reads.
const MOST_PERCENT: u64 = 90;

/// A pin: its bucket and prefix.
type Pin = (BucketId, String);

/// How a pin stands.
#[derive(Debug, Clone, Default)]
struct Progress {
    prefetch: bool,
    objects: u64,
    bytes: u64,
    here: u64,
    walked: bool,
    /// Of what is fetched once: it was.
    done: bool,
    reason: Option<String>,
    /// Not all records were here when it was walked through, and somebody is linked who may send them.
    taking: bool,
    /// How it was walked through to its end.
    walks: Walks,
}

/// The pins of a site.
#[derive(Default)]
pub(crate) struct Pins {
    all: Mutex<BTreeMap<Pin, Progress>>,
    /// How often a pin was taken away, with marks that others may want.
    unpinned: AtomicU64,
    wake: Notify,
}

impl Pins {
    fn all(&self) -> MutexGuard<'_, BTreeMap<Pin, Progress>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was remembered.
    pub(crate) fn resume(view: &dyn View) -> Result<Self, SpaceError> {
        let pins = Self::default();
        let mut all = BTreeMap::new();
        view.scan_prefix(Table::Local, PINS, &mut |key, value| {
            let rest = key.strip_prefix(PINS).and_then(|rest| rest.split_first_chunk::<16>());
            if let Some((bucket, prefix)) = rest
                && let Ok(prefix) = String::from_utf8(prefix.to_vec())
            {
                let progress = Progress { prefetch: value == PREFETCHED, ..Progress::default() };
                all.insert((BucketId(*bucket), prefix), progress);
            }
            ControlFlow::Continue(())
        })?;
        *pins.all() = all;
        Ok(pins)
    }

    /// How long nothing is looked at without a change.
    fn idle(&self, now: Instant) -> Duration {
        let all = self.all();
        let retries = all.values().filter_map(|progress| progress.walks.retry_at());
        retries.map(|at| at.since(now)).chain([AGAIN]).min().unwrap_or(AGAIN)
    }

    /// Whether anything of a bucket is pinned here, or being fetched, below a prefix that counts.
    pub(crate) fn any_of(&self, bucket: BucketId, counts: impl Fn(&str) -> bool) -> bool {
        let all = self.all();
        all.iter().any(|((of, prefix), progress)| *of == bucket && !progress.done && counts(prefix))
    }

    /// Whether anything below a prefix of a bucket is pinned here, or being fetched.
    pub(crate) fn any_below(&self, bucket: BucketId, prefix: &str) -> bool {
        self.any_of(bucket, |pinned| pinned.starts_with(prefix))
    }

    fn status(&self, name: impl Fn(BucketId) -> String, only: Option<BucketId>) -> Vec<PinStatus> {
        let status = |((bucket, prefix), progress): (&Pin, &Progress)| PinStatus {
            bucket: name(*bucket),
            prefix: prefix.clone(),
            pinned: !progress.prefetch,
            objects: progress.objects,
            bytes: progress.bytes,
            here_bytes: progress.here,
            complete: progress.walked && progress.here >= progress.bytes && progress.reason.is_none(),
            reason: progress.reason.clone(),
            taking: progress.taking,
        };
        let all = self.all();
        all.iter().filter(|((bucket, _), _)| only.is_none_or(|only| only == *bucket)).map(status).collect()
    }
}

fn remembered((bucket, prefix): &Pin, value: Option<&'static [u8]>) -> skerry_storage::Entry {
    let key = [PINS, &bucket.0, prefix.as_bytes()].concat();
    entry(&Entry::Local { key: key.into(), value: value.map(Bytes::from_static) })
}

/// The pins of one bucket.
pub(crate) fn of_bucket(site: &Site, bucket: &Bucket) -> Vec<PinStatus> {
    site.pins.status(|_| bucket.name.clone(), Some(bucket.id))
}

/// All pins with their progress.
pub(crate) async fn list(site: &Arc<Site>) -> Outcome<PinList> {
    let system = site.system;
    let names = site.read(move |view| list_buckets(view, system, None).map_err(unreadable)).await?;
    let name = |id: BucketId| {
        let found = names.iter().find(|resolved| resolved.claim.bucket == id);
        found.map_or_else(|| id.to_string(), |resolved| resolved.name.clone())
    };
    let pinned_bytes = site.store.kept_bytes();
    Ok(PinList { version: VERSION, pinned_bytes, most_bytes: most(site), pins: site.pins.status(name, None) })
}

/// Bytes that may be pinned.
fn most(site: &Site) -> u64 {
    site.store.usage_of_cache().cap / 100 * MOST_PERCENT
}

/// Pins, unpins or prefetches.
pub(crate) async fn act(site: &Arc<Site>, request: PinRequest) -> Outcome<PinList> {
    let bucket = site.known(&request.bucket).await?;
    let pin = (bucket.id, request.prefix);
    let known = site.pins.all().get(&pin).map(|progress| progress.prefetch);
    match request.act {
        PinAct::Unpin if known.is_none() => {
            return Err(ServiceError::refused(format!(
                "{} below {:?} is not pinned here",
                bucket.name, pin.1
            )));
        }
        PinAct::Unpin => {
            keep(site, &pin, None).await?;
            site.pins.all().remove(&pin);
            unmark(site, &bucket, &pin.1).await?;
            // Other pins put theirs on again, also those that are being walked through.
            site.pins.unpinned.fetch_add(1, Ordering::AcqRel);
            site.pins.all().values_mut().for_each(|progress| progress.walks = Walks::default());
        }
        PinAct::Pin | PinAct::Prefetch => begin(site, &bucket, pin, request.act, known).await?,
    }
    site.pins.wake.notify_one();
    list(site).await
}

async fn begin(site: &Arc<Site>, bucket: &Bucket, pin: Pin, act: PinAct, known: Option<bool>) -> Outcome<()> {
    refuse_outside(site, bucket, &pin.1)?;
    if site.leaving.note(bucket.id).is_some() {
        return Err(ServiceError::refused(format!(
            "this site is about to leave {0}; `skerry bucket join {0}`",
            bucket.name
        )));
    }
    if site.store.usage_of_cache().cap == 0 {
        return Err(ServiceError::refused("this site keeps no copies: storage.cache is 0"));
    }
    if known.is_none() && !make_room(&mut site.pins.all(), MOST) {
        return Err(ServiceError::refused(format!("a site has at most {MOST} pins; unpin one")));
    }
    // What is pinned already need not be fetched once.
    let prefetch = act == PinAct::Prefetch;
    if known == Some(false) && prefetch {
        return Ok(());
    }
    if !following::covers(site, bucket.id, &pin.1) {
        site.join(bucket.id).await?;
    }
    keep(site, &pin, Some(if prefetch { PREFETCHED } else { PINNED })).await?;
    site.pins.all().insert(pin, Progress { prefetch, ..Progress::default() });
    Ok(())
}

/// Whether there is room for one more: what was fetched once and is done makes way, and is shown no more.
fn make_room(all: &mut BTreeMap<Pin, Progress>, most: usize) -> bool {
    while all.len() >= most {
        let Some(done) = all.iter().find(|(_, progress)| progress.done).map(|(pin, _)| pin.clone()) else {
            return false;
        };
        all.remove(&done);
    }
    true
}

/// A pin needs the whole bucket's records, and this site may not follow it.
fn refuse_outside(site: &Site, bucket: &Bucket, prefix: &str) -> Outcome<()> {
    if following::covers(site, bucket.id, prefix) {
        return bucket.check_lies_here(site);
    }
    // Of a bucket of which something else is followed it would take all.
    if site.follows_part(bucket.id) {
        return Err(ServiceError::refused(format!(
            "{0} follows only a prefix of {1}, and {prefix:?} does not lie below it; follow that as well: `skerry bucket \
             join {1} --prefix …`",
            site.called(),
            bucket.name
        )));
    }
    // Having left the bucket says "manual" for this site, too: that is no word of an operator against the bucket's.
    let never = bucket.config.joins() == Joins::Never && !site.is_member(bucket.id);
    if !never && !site.stays_out(bucket) {
        return bucket.check_residency(site);
    }
    let how = match site.joins_here(bucket.id) {
        Some(_) if !never => format!("`skerry bucket join {} --when manual` here", bucket.name),
        _ => format!("`skerry bucket set {} --join manual`", bucket.name),
    };
    let message = format!(
        "a pin needs all records of {0}, and {1} may not follow it (join = never): {how} first, then \
         `skerry bucket join {0}`",
        bucket.name,
        site.called()
    );
    Err(ServiceError::new(ErrorKind::NotResident, message))
}

async fn keep(site: &Site, pin: &Pin, value: Option<&'static [u8]>) -> Outcome<()> {
    let entry = remembered(pin, value);
    site.commit(site.system, (), move |_| Ok(((), vec![entry]))).await
}

/// Walks through all pins after every change, for ever.
pub(crate) async fn work(site: Arc<Site>) {
    let mut changes = site.changes.follow();
    loop {
        let pins: Vec<Pin> = site.pins.all().keys().cloned().collect();
        for pin in pins {
            let begun = site.clock.now();
            if let Err(error) = walk(&site, &pin).await {
                tracing::debug!(prefix = %pin.1, %error, "a pin waits");
                if let Some(progress) = site.pins.all().get_mut(&pin) {
                    progress.reason = Some(error.message().to_owned());
                    progress.taking = false;
                    progress.walks.broke((begun, site.clock.now()));
                }
            }
        }
        rest(PAUSE).await;
        let idle = site.pins.idle(site.clock.now());
        tokio::select! {
            changed = changes.changed() => if changed.is_err() { return },
            () = site.pins.wake.notified() => {}
            () = rest(idle) => {}
        }
    }
}

/// Fetches what is missing below a prefix.
async fn walk(site: &Arc<Site>, pin: &Pin) -> Outcome<()> {
    let id = pin.0;
    let Some(bucket) = site.claim_of(id).await? else {
        return outlived(site, pin).await;
    };
    refuse_outside(site, &bucket, &pin.1)?;
    // Before what is known: what is unmarked from here on may be this pin's.
    let unpinned = site.pins.unpinned.load(Ordering::Acquire);
    let Some(known) = site.pins.all().get(pin).cloned() else { return Ok(()) };
    let (whole, seen) = match following::pinned(site, id, &pin.1).await? {
        Some(followed) => followed,
        None => {
            let whole = site.is_complete(id);
            let vector = site.read(move |view| space::vector(view, id).map_err(unreadable)).await?;
            (whole, (vector, space::Fingerprint::default()))
        }
    };
    let begun = site.clock.now();
    match known.walks.next((whole, &seen), begun) {
        _ if known.done => return Ok(()),
        Next::Nothing => return Ok(()),
        Next::Since(before) => return came_since(site, &bucket, pin, (before, seen), unpinned).await,
        Next::Again(keys) => return again(site, &bucket, pin, keys, unpinned).await,
        Next::Whole => {}
    }
    let mut progress = Progress { prefetch: known.prefetch, ..Progress::default() };
    let mut failed = Failed::default();
    let room = Arc::new(Room { most: most(site), coming: AtomicU64::new(0) });
    let mut after: Option<String> = None;
    loop {
        let (records, next) = page(site, &bucket, &pin.1, after.take()).await?;
        for some in records.chunks(AT_ONCE * 4) {
            let some = (some.to_vec(), &room);
            if !bring_all(site, &bucket, pin, some, (&mut progress, &mut failed)).await? {
                return Ok(());
            }
        }
        after = next;
        if after.is_none() {
            break;
        }
    }
    if !whole {
        // Something that is not here for another reason stays away when all records are here.
        let waits = site.leaving.waits(bucket.id).or_else(|| site.waits_in_vain(bucket.id));
        progress.taking = progress.reason.is_none() && !site.boxes.linked().is_empty() && waits.is_none();
        let taking = || "this site is still taking the bucket's records".into();
        progress.reason.get_or_insert_with(|| waits.unwrap_or_else(taking));
    } else if progress.prefetch && progress.reason.is_none() {
        keep(site, pin, None).await?;
        progress.done = true;
    }
    progress.walked = true;
    note(site, pin, &progress);
    let spent = (begun, site.clock.now());
    walked(site, pin, unpinned, |walks| walks.whole(whole.then_some(seen), failed, spent));
    Ok(())
}

/// What is pinned of a deleted bucket ends by itself: no name says any more what is to be unpinned, and the store lets go of what
/// nothing refers to. A bucket that has no name at the moment is waited for.
async fn outlived(site: &Arc<Site>, pin: &Pin) -> Outcome<()> {
    // What says so may be among what the journal lost.
    if site.check_whole(site.system).is_err() {
        return Ok(());
    }
    let (system, bucket) = (site.system, pin.0);
    let all = site.read(move |view| all_buckets(view, system).map_err(unreadable)).await?;
    if all.iter().any(|resolved| resolved.claim.bucket == bucket) {
        return Ok(());
    }
    keep(site, pin, None).await?;
    site.pins.all().remove(pin);
    tracing::info!(%bucket, prefix = pin.1, "the bucket of a pinned prefix is no more");
    Ok(())
}

/// Takes note of a walk. What was unmarked meanwhile may be this pin's: then all is walked through again at once.
fn walked(site: &Site, pin: &Pin, unpinned: u64, note: impl FnOnce(&mut Walks)) {
    if let Some(known) = site.pins.all().get_mut(pin) {
        match site.pins.unpinned.load(Ordering::Acquire) == unpinned {
            true => note(&mut known.walks),
            false => known.walks = Walks::default(),
        }
    }
}

/// Fetches what came below a prefix since it was walked through. What is counted is left as it is: what is replaced is not
/// known any more.
async fn came_since(
    site: &Arc<Site>,
    bucket: &Bucket,
    pin: &Pin,
    (before, seen): (following::Seen, following::Seen),
    unpinned: u64,
) -> Outcome<()> {
    let Some(known) = site.pins.all().get(pin).cloned() else { return Ok(()) };
    let (mut failed, mut reason, mut after) = (Failed::default(), None, None);
    loop {
        let keys = came(site, pin, before.0.clone(), after.take()).await?;
        after = keys.last().filter(|_| keys.len() == CAME).cloned();
        let brought = bring_keys(site, bucket, pin, (&keys, &known), &mut failed).await?;
        let Some((_, why)) = brought else { return Ok(()) };
        reason = reason.or(why);
        if after.is_none() {
            break;
        }
    }
    let reason = reason.or_else(|| known.reason.clone().filter(|_| known.walks.has_failed()));
    note(site, pin, &Progress { reason, ..known });
    let now = site.clock.now();
    walked(site, pin, unpinned, |walks| walks.since(seen, failed, now));
    Ok(())
}

/// The next keys below a prefix, in order, of what came since.
async fn came(site: &Arc<Site>, pin: &Pin, before: Vector, after: Option<String>) -> Outcome<Vec<String>> {
    let (id, prefix) = (pin.0, pin.1.clone());
    let read = move |view: &dyn View| {
        let mut keys = BTreeSet::new();
        let is_next =
            |key: &str| key.starts_with(&prefix) && after.as_deref().is_none_or(|after| key > after);
        let all = space::keys_after(view, id, &before, &mut |_, key| {
            if is_next(key) {
                keys.insert(key.to_owned());
            }
            // The rest comes with the next ones.
            if keys.len() > CAME {
                keys.pop_last();
            }
        });
        all.map(|_| keys.into_iter().collect()).map_err(unreadable)
    };
    site.read(read).await
}

/// Fetches what could not be fetched before.
async fn again(
    site: &Arc<Site>,
    bucket: &Bucket,
    pin: &Pin,
    keys: Vec<String>,
    unpinned: u64,
) -> Outcome<()> {
    let Some(known) = site.pins.all().get(pin).cloned() else { return Ok(()) };
    let mut failed = Failed::default();
    let brought = bring_keys(site, bucket, pin, (&keys, &known), &mut failed).await?;
    let Some((bytes, reason)) = brought else { return Ok(()) };
    // What was replaced meanwhile is counted with the next whole walk.
    let here = known.here.saturating_add(bytes).min(known.bytes);
    note(site, pin, &Progress { here, reason, ..known });
    let now = site.clock.now();
    walked(site, pin, unpinned, |walks| walks.again(failed, now));
    Ok(())
}

/// Fetches what these keys name now: how many bytes of it are here, and why some are not; none if the pin is no more.
async fn bring_keys(
    site: &Arc<Site>,
    bucket: &Bucket,
    pin: &Pin,
    (keys, known): (&[String], &Progress),
    failed: &mut Failed,
) -> Outcome<Option<(u64, Option<String>)>> {
    let (id, mut here, mut reason) = (pin.0, 0, None);
    let room = Arc::new(Room { most: most(site), coming: AtomicU64::new(0) });
    for keys in keys.chunks(AT_ONCE * 4) {
        let keys = keys.to_vec();
        let records = site.read(move |view| current_of(view, id, &keys)).await?;
        let mut progress = Progress { reason: None, ..known.clone() };
        if !bring_all(site, bucket, pin, (records, &room), (&mut progress, failed)).await? {
            return Ok(None);
        }
        here += progress.here.saturating_sub(known.here);
        reason = reason.or(progress.reason);
    }
    Ok(Some((here, reason)))
}

fn current_of(view: &dyn View, bucket: BucketId, keys: &[String]) -> Outcome<Vec<Record>> {
    let mut records = Vec::with_capacity(keys.len());
    for key in keys {
        records.extend(space::current(view, bucket, key).map_err(unreadable)?);
    }
    Ok(records)
}

/// Some objects at a time; false if the pin is no more.
async fn bring_all(
    site: &Arc<Site>,
    bucket: &Bucket,
    pin: &Pin,
    (records, room): (Vec<Record>, &Arc<Room>),
    (progress, failed): (&mut Progress, &mut Failed),
) -> Outcome<bool> {
    let prefetch = progress.prefetch;
    let size = |record: &Record| record.object().map_or(0, |object| object.size);
    let named: Vec<(String, u64)> = records.iter().map(|record| (record.key.clone(), size(record))).collect();
    let one = |record| bring(site.clone(), bucket.clone(), record, prefetch, room.clone());
    let tasks: Vec<_> = records.into_iter().map(one).collect();
    let brought: Vec<Outcome<Vec<ChunkId>>> = futures::stream::iter(tasks).buffered(AT_ONCE).collect().await;
    let (mut marked, mut keys) = (Vec::new(), Vec::new());
    for ((key, size), brought) in named.into_iter().zip(brought) {
        progress.objects += 1;
        progress.bytes += size;
        match brought {
            Ok(chunks) => {
                progress.here += size;
                marked.extend(chunks);
                keys.push(key);
            }
            Err(error) => {
                progress.reason.get_or_insert_with(|| error.message().to_owned());
                failed.add(key);
            }
        }
    }
    if !prefetch && !marked.is_empty() && !mark(site, bucket.id, marked.clone(), true).await? {
        progress.reason.get_or_insert_with(|| "copies were evicted before they were kept".into());
        keys.into_iter().for_each(|key| failed.add(key));
    }
    if !prefetch {
        // What was to be marked is, and counts as that.
        room.coming.store(0, Ordering::Release);
    }
    note(site, pin, progress);
    let is_there = site.pins.all().contains_key(pin);
    if !is_there && !prefetch {
        // It was taken away while they were brought: nobody would take these marks off.
        mark(site, bucket.id, marked, false).await?;
    }
    Ok(is_there)
}

fn note(site: &Site, pin: &Pin, progress: &Progress) {
    if let Some(known) = site.pins.all().get_mut(pin) {
        // A pin that was taken away meanwhile may have changed them.
        let walks = core::mem::take(&mut known.walks);
        *known = Progress { walks, ..progress.clone() };
    }
}

async fn page(
    site: &Arc<Site>,
    bucket: &Bucket,
    prefix: &str,
    after: Option<String>,
) -> Outcome<(Vec<Record>, Option<String>)> {
    let (id, prefix) = (bucket.id, prefix.to_owned());
    let read = move |view: &dyn View| {
        let cursor =
            Cursor { prefix: &prefix, start_after: after.as_deref(), max: PAGE, ..Cursor::default() };
        let listing = space::list_current(view, id, cursor).map_err(unreadable)?;
        let keys: Vec<String> = listing.keys.into_iter().map(|(key, _)| key).collect();
        Ok((current_of(view, id, &keys)?, listing.next))
    };
    site.read(read).await
}

/// The room for what is pinned, while some is fetched.
struct Room {
    most: u64,
    /// Bytes of bodies that are being fetched and not marked yet; of what is fetched once, of all of them.
    coming: AtomicU64,
}

impl Room {
    /// Takes what a body needs, so that bodies on their way together do not evict each other.
    fn take(&self, kept: u64, bytes: u64, prefetch: bool) -> Outcome<()> {
        let most = self.most;
        if kept.saturating_add(self.coming.fetch_add(bytes, Ordering::AcqRel)).saturating_add(bytes) <= most {
            return Ok(());
        }
        self.coming.fetch_sub(bytes, Ordering::AcqRel);
        let what =
            if prefetch { "what is pinned leaves no room for it" } else { "what is pinned has no more room" };
        let message =
            format!("{what}: {kept} of {most} bytes ({MOST_PERCENT} % of storage.cache); raise it, or unpin");
        Err(ServiceError::new(ErrorKind::StorageFull, message))
    }
}

/// Brings all chunks of a version; those that are to be marked if it is pinned.
async fn bring(
    site: Arc<Site>,
    bucket: Bucket,
    record: Record,
    prefetch: bool,
    room: Arc<Room>,
) -> Outcome<Vec<ChunkId>> {
    let Some(object) = record.object() else { return Ok(Vec::new()) };
    let (store, id, body) = (site.store.clone(), bucket.id, object.clone());
    let look = move || if prefetch { lies_here(&store, id, &body) } else { stays_here(&store, id, &body) };
    if tokio::task::spawn_blocking(look).await.map_err(refusal::task)? {
        return Ok(Vec::new());
    }
    room.take(site.store.kept_bytes(), object.size, prefetch)?;
    let chunks = Chunks::as_urgent(Class::Copy, &site, &bucket, record.site);
    let mut walk = Walk::new(object.chunks.clone(), 0..object.size);
    let mut brought = Vec::new();
    while let Some(step) = walk.next() {
        let (Step::Tree(chunk) | Step::Leaf(chunk, _)) = step;
        let bytes = one(&site, bucket.id, &chunks, chunk).await?;
        if chunk.kind == ChunkKind::Tree {
            walk.supply(&bytes).map_err(refusal::malformed)?;
        }
        brought.push(chunk.id);
    }
    Ok(brought)
}

/// One chunk; fetched if it is not here. Of a leaf that is here nothing is read.
async fn one(site: &Arc<Site>, bucket: BucketId, chunks: &Chunks, chunk: ChunkRef) -> Outcome<Bytes> {
    let is_leaf = chunk.kind == ChunkKind::Leaf;
    if has(site, bucket, chunk.id).await? {
        return if is_leaf { Ok(Bytes::new()) } else { chunks.whole(chunk).await };
    }
    site.peers.uplink.may(Class::Copy).map_err(refusal::unreachable)?;
    let bytes = chunks.fetch(chunk, "not here").await?;
    if !has(site, bucket, chunk.id).await? {
        return Err(ServiceError::new(ErrorKind::StorageFull, "the disk has no room for copies"));
    }
    rest(Duration::from_secs_f64(bytes.len() as f64 / PACE as f64)).await;
    Ok(bytes)
}

async fn has(site: &Arc<Site>, bucket: BucketId, chunk: ChunkId) -> Outcome<bool> {
    let store = site.store.clone();
    tokio::task::spawn_blocking(move || store.has_chunk(bucket, chunk))
        .await
        .map_err(refusal::task)?
        .map_err(refusal::storage)
}

/// Marks copies, or takes the marks off; whether all of them are here.
async fn mark(site: &Arc<Site>, bucket: BucketId, chunks: Vec<ChunkId>, kept: bool) -> Outcome<bool> {
    let store = site.store.clone();
    let mark = move || {
        store.keep_copies(bucket, &chunks, kept)?;
        for chunk in &chunks {
            if !store.has_chunk(bucket, *chunk)? {
                return Ok(false);
            }
        }
        Ok(true)
    };
    tokio::task::spawn_blocking(mark).await.map_err(refusal::task)?.map_err(refusal::storage)
}

/// Takes the marks off all that lies below a prefix; other pins put theirs on again in a moment.
async fn unmark(site: &Arc<Site>, bucket: &Bucket, prefix: &str) -> Outcome<()> {
    let mut after: Option<String> = None;
    loop {
        let (records, next) = page(site, bucket, prefix, after.take()).await?;
        let (store, id) = (site.store.clone(), bucket.id);
        let read = move || {
            let mut chunks = Vec::new();
            for object in records.iter().filter_map(Record::object) {
                let mut walk = Walk::new(object.chunks.clone(), 0..object.size);
                while let Some(step) = walk.next() {
                    let (Step::Tree(chunk) | Step::Leaf(chunk, _)) = step;
                    chunks.push(chunk.id);
                    if chunk.kind == ChunkKind::Tree {
                        // Of a tree that is not here nothing is marked.
                        let Ok(bytes) = store.read_chunk(id, chunk.id, 0..u32::MAX) else { break };
                        if walk.supply(&bytes).is_err() {
                            break;
                        }
                    }
                }
            }
            chunks
        };
        let chunks = tokio::task::spawn_blocking(read).await.map_err(refusal::task)?;
        mark(site, bucket.id, chunks, false).await?;
        after = next;
        if after.is_none() {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_fetched_once_makes_way_for_what_is_to_be_pinned() {
        let pin = |number: u8| (BucketId([number; 16]), String::new());
        let standing = |done| Progress { prefetch: done, done, ..Progress::default() };
        let mut all: BTreeMap<Pin, Progress> =
            [(pin(1), standing(false)), (pin(2), standing(true)), (pin(3), standing(true))].into();
        assert!(make_room(&mut all, 3));
        assert_eq!(all.keys().cloned().collect::<Vec<_>>(), [pin(1), pin(3)]);
        assert!(make_room(&mut all, 2));
        assert!(!make_room(&mut all, 1), "what is pinned stays");
        assert_eq!(all.keys().cloned().collect::<Vec<_>>(), [pin(1)]);
    }

    #[test]
    fn bodies_on_their_way_together_find_no_more_room_than_there_is() {
        let room = Room { most: 100, coming: AtomicU64::new(0) };
        assert!(room.take(20, 50, false).is_ok());
        assert!(room.take(20, 31, false).is_err(), "50 are coming");
        assert!(room.take(20, 30, false).is_ok());
        assert_eq!(room.coming.load(Ordering::Acquire), 80, "what found none took none");
        assert!(room.take(20, u64::MAX, true).is_err());
    }
}
