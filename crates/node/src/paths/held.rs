//! Bodies of writes that another site decides: on this site's disk before that one is asked, and here until it is known what it
//! decided.
//!
//! Before: `write.rs`, which asks the bucket's home. After: [`Keeper`], for what was not answered, and
//! [`skerry_federation::undecided`], which says when it is known. A body is held as a part of an upload that has no row of its own:
//! it counts its chunks, over restarts, and no client can name it.
//!
//! Invariants: nobody is asked to decide on a body that a power cut could take; a body goes only once all that the home decided
//! is here (what refers to it counts it by itself then), or the home has said that it refused; how many wait is bounded.

use std::collections::{BTreeMap, BTreeSet, btree_map};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use skerry_base::codec::{self, Versioned};
use skerry_base::kv::{Table, View};
use skerry_base::limits::{JOURNAL_BODY_BYTES, UNDECIDED_WRITES};
use skerry_base::{BucketId, ChunkRef, SiteId, Vector, WallTime};
use skerry_federation::undecided::{SPELL, Undecided, Verdict, Word};
use skerry_gateway::service::{ErrorKind, Outcome, ServiceError};
use skerry_model::multipart::{Part, UploadId};
use skerry_model::write::Ask;
use skerry_model::{Entry, Object, Record, space};
use skerry_storage::Pin;
use tokio::sync::{Notify, watch};

use super::write::Asked;
use super::{refusal, upload};
use crate::following::joining;
use crate::peers::message::{Request, Response};
use crate::site::{Site, entry, unreadable};
use crate::trust::entropy;

/// What all keys of such facts begin with.
const HELD: &[u8] = b"held/";
/// How often homes are asked while something waits.
const PERIOD: Duration = Duration::from_secs(30);
/// How long another site may take to say what it has.
const SAY: Duration = Duration::from_secs(5);
/// How long who repeats a completion waits for what a home says to the one before; less than who relays it waits.
const REPEATED: Duration = Duration::from_secs(10);
/// Others that are asked at once.
const AT_ONCE: usize = 16;

/// Names one body among those of its bucket.
type Draw = [u8; 16];
/// What keeps a body until it is counted: of a small one, and of a large one.
pub(crate) type Pins = Arc<(Option<Pin>, Vec<Pin>)>;

/// What is remembered of a write that another site decides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Held {
    key: String,
    /// Who was asked.
    home: SiteId,
    etag: String,
    size: u64,
    modified: WallTime,
    /// The upload that it completes.
    upload: Option<UploadId>,
}

impl Versioned for Held {
    const NAME: &'static str = "held body";
    const VERSION: u8 = 1;
}

impl Held {
    /// Whether a record is what was asked for.
    fn became(&self, record: &Record, me: SiteId) -> bool {
        record.site == me
            && record.object().is_some_and(|object| {
                (object.size, object.modified) == (self.size, self.modified) && object.etag == self.etag
            })
    }
}

/// Bodies that are held, in memory.
#[derive(Debug, Default)]
pub(crate) struct Bodies {
    state: Mutex<State>,
    /// Something was not answered.
    wake: Notify,
    /// Counts what is not asked about any more.
    heard: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct State {
    /// Homes are being asked about these.
    asking: BTreeSet<Draw>,
    /// Bytes of those of which it is not known what became of them.
    doubtful: BTreeMap<Draw, u64>,
    /// Who is waited for.
    waits: BTreeSet<SiteId>,
}

impl Bodies {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many writes it is of which that is not known, and bytes of their bodies.
    pub(crate) fn counts(&self) -> (u64, u64) {
        let state = self.state();
        (state.doubtful.len() as u64, state.doubtful.values().sum())
    }

    /// For whom they wait.
    pub(crate) fn waits(&self) -> Vec<SiteId> {
        self.state().waits.iter().copied().collect()
    }

    /// Until homes are asked about none of these any more.
    async fn answered(&self, draws: &BTreeSet<Draw>) {
        let mut heard = self.heard.subscribe();
        // The sender lives as long as this does.
        heard.wait_for(|_| self.state().asking.is_disjoint(draws)).await.ok();
    }

    /// Its home is not asked any more; of a body that is in doubt, its bytes.
    fn end(&self, draw: Draw, doubtful: Option<u64>) {
        let mut state = self.state();
        state.asking.remove(&draw);
        if let Some(bytes) = doubtful {
            state.doubtful.insert(draw, bytes);
            self.wake.notify_one();
        }
        drop(state);
        self.heard.send_modify(|count| *count += 1);
    }

    fn begin(&self, draw: Draw) -> Outcome<()> {
        let mut state = self.state();
        if state.doubtful.len() >= UNDECIDED_WRITES {
            let message = format!(
                "of {UNDECIDED_WRITES} conditional writes of this site it is not known whether their bucket's home decided \
                 them, and their bodies are kept until it is: see `skerry status` for whom they wait; write without the condition"
            );
            return Err(ServiceError::new(ErrorKind::HomeUnreachable, message));
        }
        state.asking.insert(draw);
        Ok(())
    }
}

/// A body that is held while its home is asked. Dropped without [`end`] or [`ended`] it is kept until it is
/// known what became of it.
pub(crate) struct Holding {
    site: Arc<Site>,
    bucket: BucketId,
    key: String,
    draw: Draw,
    size: u64,
    is_over: bool,
}

impl Holding {
    /// What lets it go, to be committed with what refers to it.
    pub(crate) fn ends(&self) -> Vec<Entry> {
        ends(self.site.id, self.bucket, &self.key, self.draw)
    }

    async fn end(mut self) {
        match self.site.note_down(self.ends()).await {
            Ok(()) => self.is_over = true,
            Err(error) => tracing::warn!(%error, "a body that was refused stays for a while"),
        }
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        self.site.bodies.end(self.draw, (!self.is_over).then_some(self.size));
    }
}

/// Nothing was decided that needs what is held, if something is.
pub(crate) async fn end(holding: Option<Holding>) {
    if let Some(holding) = holding {
        holding.end().await;
    }
}

/// What was held was let go with what refers to it.
pub(crate) fn ended(holding: Option<Holding>) {
    if let Some(mut holding) = holding {
        holding.is_over = true;
    }
}

fn ends(me: SiteId, bucket: BucketId, key: &str, draw: Draw) -> Vec<Entry> {
    let id = UploadId { site: me, draw };
    vec![
        Entry::UploadEnd { bucket, key: key.into(), id },
        Entry::Local { key: fact_key(bucket, draw), value: None },
    ]
}

fn fact_key(bucket: BucketId, draw: Draw) -> Bytes {
    [HELD, &bucket.0, &draw].concat().into()
}

/// Has a body on disk and counted before its home is asked; none where the home takes it itself, or there is none. A completed
/// upload is remembered whatever its size: who repeats it is told what became of it, and it ends.
pub(crate) async fn begin(site: &Arc<Site>, asked: &Asked, pins: &Pins) -> Outcome<Option<Holding>> {
    let object = match &asked.ask {
        Ask::Put(object)
            if object.size > JOURNAL_BODY_BYTES as u64
                || asked.upload.is_some()
                || !asked.bucket.may_lie_at(asked.bucket.home) =>
        {
            object
        }
        _ => return Ok(None),
    };
    let draw = entropy::bytes().map_err(|error| ServiceError::new(ErrorKind::Internal, error.to_string()))?;
    site.bodies.begin(draw)?;
    let (bucket, key) = (asked.bucket.id, asked.key.clone());
    let holding = Holding { site: site.clone(), bucket, key, draw, size: object.size, is_over: false };
    let held = Held {
        key: asked.key.clone(),
        home: asked.bucket.home,
        etag: object.etag.clone(),
        size: object.size,
        modified: object.modified,
        upload: asked.upload,
    };
    let part = part_of(UploadId { site: site.id, draw }, bucket, object);
    let entries = [
        Entry::Part(Box::new(part)),
        Entry::Local { key: fact_key(bucket, draw), value: Some(codec::encode(&held).into()) },
    ];
    let written = site.commit(bucket, pins.clone(), move |_| Ok(((), entries.iter().map(entry).collect())));
    if let Err(error) = written.await {
        // Whatever of it is on disk: nobody was asked.
        holding.end().await;
        return Err(error);
    }
    Ok(Some(holding))
}

fn part_of(upload: UploadId, bucket: BucketId, object: &Object) -> Part {
    let chunks: Vec<ChunkRef> = object.chunks.clone();
    Part {
        bucket,
        upload,
        number: 1,
        size: object.size,
        md5: [0; 16],
        chunks,
        checksums: Vec::new(),
        modified: object.modified,
    }
}

/// Whether a body of the bucket is held.
pub(crate) fn any_of(view: &dyn View, bucket: BucketId) -> Outcome<bool> {
    let mut found = false;
    let prefix = [HELD, &bucket.0].concat();
    let all = view.scan_prefix(Table::Local, &prefix, &mut |_, _| {
        found = true;
        ControlFlow::Break(())
    });
    all.map_err(|error| unreadable(error.into()))?;
    Ok(found)
}

/// Finds out whether an upload has an object already, as far as what is here tells: waits for a home that is just asked about it.
/// Whether that is still not known.
pub(crate) async fn is_undecided(site: &Arc<Site>, bucket: BucketId, upload: UploadId) -> Outcome<bool> {
    let of_upload = move |view: &dyn View| {
        let mut held = all(view)?;
        held.retain(|(of, _), held| *of == bucket && held.upload == Some(upload));
        Ok(held)
    };
    let draws: BTreeSet<Draw> = site.read(of_upload).await?.into_keys().map(|(_, draw)| draw).collect();
    if draws.is_empty() {
        return Ok(false);
    }
    drop(tokio::time::timeout(REPEATED, site.bodies.answered(&draws)).await);
    let mut is_open = false;
    for ((_, draw), held) in site.read(of_upload).await? {
        if is_known(site, bucket, draw, &held).await? {
            site.bodies.state().doubtful.remove(&draw);
        } else {
            is_open = true;
        }
    }
    Ok(is_open)
}

/// All that are held, by name.
fn all(view: &dyn View) -> Outcome<BTreeMap<(BucketId, Draw), Held>> {
    let mut found = Vec::new();
    let scanned = view.scan_prefix(Table::Local, HELD, &mut |key, value| {
        let name = key.strip_prefix(HELD).and_then(|name| name.split_first_chunk::<16>());
        let name = name.and_then(|(bucket, draw)| Some((BucketId(*bucket), draw.try_into().ok()?)));
        found.extend(name.map(|name: (BucketId, Draw)| (name, Bytes::copy_from_slice(value))));
        ControlFlow::Continue(())
    });
    scanned.map_err(|error| unreadable(error.into()))?;
    let read = |value: Bytes| codec::decode(&value).map_err(|error| unreadable(error.into()));
    found.into_iter().map(|(name, value)| Ok((name, read(value)?))).collect()
}

/// How many bodies are held.
pub(crate) async fn count(site: &Arc<Site>) -> Outcome<u64> {
    site.read(|view| Ok(all(view)?.len() as u64)).await
}

/// Lets a body go whose record is here: that counts it. Whoever repeats a completion is told what became of it.
async fn is_known(site: &Site, bucket: BucketId, draw: Draw, held: &Held) -> Outcome<bool> {
    let (me, held, wall) = (site.id, held.clone(), site.clock.wall());
    let propose = move |view: &dyn View| {
        let heads = space::heads(view, bucket, &held.key).map_err(unreadable)?;
        let Some(record) = heads.iter().find(|head| held.became(head, me)) else {
            return Ok((false, Vec::new()));
        };
        let mut entries = ends(me, bucket, &held.key, draw);
        if let Some(id) = held.upload
            && space::upload(view, bucket, &held.key, id).map_err(unreadable)?.is_some()
        {
            entries.push(Entry::UploadEnd { bucket, key: held.key.clone(), id });
            entries.push(upload::completed(id, record.dot, wall));
        }
        Ok((true, entries.iter().map(|one| entry(one).freeing()).collect()))
    };
    site.commit(bucket, (), propose).await
}

/// Finds out what became of writes whose answer was lost, also in a life before.
pub(crate) struct Keeper {
    site: Arc<Site>,
    waiting: BTreeMap<Draw, Undecided>,
}

impl Keeper {
    pub(crate) const fn new(site: Arc<Site>) -> Self {
        Self { site, waiting: BTreeMap::new() }
    }

    /// Runs until the site stops.
    pub(crate) async fn work(mut self) {
        loop {
            match self.turn(SPELL).await {
                Ok(0) => self.site.clone().bodies.wake.notified().await,
                Ok(_) => crate::tasks::rest(PERIOD).await,
                Err(error) => {
                    tracing::warn!(%error, "what became of conditional writes could not be found out");
                    crate::tasks::rest(PERIOD).await;
                }
            }
        }
    }

    /// Looks once; how many are left. `spell`: for how long a home is to go on answering.
    pub(crate) async fn turn(&mut self, spell: Duration) -> Outcome<usize> {
        let mut held = self.site.read(all).await?;
        {
            let mut state = self.site.bodies.state();
            held.retain(|(_, draw), _| !state.asking.contains(draw));
            state.doubtful = held.iter().map(|((_, draw), held)| (*draw, held.size)).collect();
        }
        self.waiting.retain(|draw, _| held.keys().any(|(_, other)| other == draw));
        let (mut words, mut waits, mut left) = (Words::default(), BTreeSet::new(), 0);
        for ((bucket, draw), held) in held {
            if is_known(&self.site, bucket, draw, &held).await? {
                self.site.bodies.state().doubtful.remove(&draw);
                continue;
            }
            // What may have been written, and has its body here only, makes a member: else nothing would be heard of it.
            if let Err(error) = joining::join(&self.site, bucket, &held.key).await {
                tracing::debug!(%bucket, %error, "not a member, and so what was decided is not heard");
            }
            let waiting = self.waiting.entry(draw).or_insert_with(|| Undecided::new(held.home));
            let said = words.of(&self.site, bucket, waiting.home()).await;
            let own = self.site.read(move |view| space::vector(view, bucket).map_err(unreadable)).await?;
            match waiting.hear(said, &own, (self.site.clock.now(), spell)) {
                Verdict::Settled => {
                    let goal = together(said);
                    self.let_go(bucket, draw, &held, goal).await?;
                    self.site.bodies.state().doubtful.remove(&draw);
                }
                Verdict::Waits(sites) => {
                    left += 1;
                    waits.extend(sites);
                }
            }
        }
        self.site.bodies.state().waits = waits;
        Ok(left)
    }

    /// Lets a body go that nothing refers to, as long as all is here that was said to be there.
    async fn let_go(&self, bucket: BucketId, draw: Draw, held: &Held, goal: Vector) -> Outcome<()> {
        let key = held.key.as_str();
        let mut entries = ends(self.site.id, bucket, key, draw);
        // It may have been decided and be replaced since: who repeats the completion of an upload is not told that it lost.
        let unknown = |id| upload::completed(id, upload::UNKNOWN, self.site.clock.wall());
        entries.extend(held.upload.map(unknown));
        let propose = move |view: &dyn View| {
            if !space::vector(view, bucket).map_err(unreadable)?.includes(&goal) {
                return Err(refusal::just_left());
            }
            Ok(((), entries.iter().map(|one| entry(one).freeing()).collect()))
        };
        self.site.commit(bucket, (), propose).await?;
        tracing::info!(%bucket, key, "a conditional write whose answer was lost was not decided, or is superseded");
        Ok(())
    }
}

fn together(said: &BTreeMap<SiteId, Word>) -> Vector {
    let mut all = Vector::new();
    for word in said.values() {
        if let Word::Said(vector) = word {
            all.merge(vector);
        }
    }
    all
}

/// What was said in one turn, by bucket and home: asked once for all that wait for the same.
#[derive(Default)]
struct Words(BTreeMap<(BucketId, SiteId), BTreeMap<SiteId, Word>>);

impl Words {
    async fn of(&mut self, site: &Arc<Site>, bucket: BucketId, home: SiteId) -> &BTreeMap<SiteId, Word> {
        match self.0.entry((bucket, home)) {
            btree_map::Entry::Occupied(said) => said.into_mut(),
            btree_map::Entry::Vacant(place) => place.insert(ask(site, bucket, home).await),
        }
    }
}

/// The word of the home, and of all others where it can say nothing.
async fn ask(site: &Arc<Site>, bucket: BucketId, home: SiteId) -> BTreeMap<SiteId, Word> {
    let word = say(site, bucket, home).await;
    let mut said = BTreeMap::new();
    if Undecided::asks_others(&word) {
        let others: Vec<SiteId> =
            site.peers.roster.all().into_keys().filter(|other| ![home, site.id].contains(other)).collect();
        for some in others.chunks(AT_ONCE) {
            let asked = some.iter().map(|other| async { (*other, say(site, bucket, *other).await) });
            said.extend(futures::future::join_all(asked).await);
        }
    }
    said.insert(home, word);
    said
}

async fn say(site: &Arc<Site>, bucket: BucketId, other: SiteId) -> Word {
    // Only who is gone: one that is declared lost may come back with what it has decided.
    let is_gone = || site.copies.losses().get(&other).is_some_and(|loss| loss.is_gone);
    if !site.linked(other) && (site.peers.roster.node(other).is_none() || is_gone()) {
        return Word::Gone;
    }
    let request = Request::Size { bucket };
    match tokio::time::timeout(SAY, site.peers.call(other, &request)).await {
        Ok(Ok(answer)) => match answer.response {
            Response::Size { vector, .. } => Word::Said(vector),
            Response::NotMember => Word::Nothing,
            _ => Word::Silent,
        },
        _ => Word::Silent,
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[tokio::test]
    async fn who_repeats_waits_for_the_homes_that_are_asked_and_for_no_others() {
        let (bodies, draws) = (Bodies::default(), BTreeSet::from([[1; 16], [2; 16]]));
        [[1; 16], [2; 16], [3; 16]].into_iter().for_each(|draw| bodies.begin(draw).unwrap());
        let mut answered = std::pin::pin!(bodies.answered(&draws));
        assert!(futures::poll!(&mut answered).is_pending());
        bodies.end([1; 16], None);
        assert!(futures::poll!(&mut answered).is_pending(), "another is asked yet");
        // What is in doubt is not waited for: nobody is asked just now.
        bodies.end([2; 16], Some(300));
        assert!(futures::poll!(&mut answered).is_ready());
        assert_eq!(bodies.counts(), (1, 300));
    }

    #[test]
    fn v1_fixture() {
        let held = Held {
            key: "a".into(),
            home: SiteId([1; 16]),
            etag: "e".into(),
            size: 300,
            modified: WallTime(5),
            upload: Some(UploadId { site: SiteId([2; 16]), draw: [3; 16] }),
        };
        let bytes = codec::encode(&held);
        let hex = skerry_base::hex::text(&bytes);
        let (ones, twos, threes) = ("01".repeat(16), "02".repeat(16), "03".repeat(16));
        assert_eq!(hex, format!("010161{ones}0165ac020501{twos}{threes}"));
        assert_eq!(codec::decode::<Held>(&bytes).unwrap(), held);
    }
}
