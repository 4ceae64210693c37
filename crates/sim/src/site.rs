//! One site: a disk, a clock on the wall, and while its process is up the production store and the production
//! federation machine, driven as the node drives them.
//!
//! Commits go through [`Store::submit`], its like and [`Store::pump`]; their answers lie on the [`Desk`] until the world
//! has let the time pass that the disk took.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use skerry_base::kv::{Table, View};
use skerry_base::time::HlcClock;
use skerry_base::{BucketId, Dot, Instant, NodeId, Origin, SiteId, WallTime};
use skerry_federation::anew::Anew;
use skerry_federation::departure::Departures;
use skerry_federation::{Config, Federation, Ticket};
use skerry_model::Entry;
use skerry_model::space::{self, SpaceReducer};
use skerry_storage::{Engine, Recovery, Settings, StorageError, Store};

use crate::disk::{SimDisk, Snapshot};
use crate::history::Memory;
use crate::ledger;
use skerry_scenario::clock::WallClock;
use skerry_scenario::draw::Draw;

/// One site.
pub struct Site {
    /// Which.
    pub id: SiteId,
    /// Its node.
    pub node: NodeId,
    /// The clock on its wall.
    pub wall: WallClock,
    /// Its disk.
    pub disk: SimDisk,
    /// Counts the starts of its process.
    pub boot: u64,
    /// Its process, while it is up.
    pub running: Option<Running>,
    /// A backup of its disk, with what the history knew of it then.
    pub backup: Option<(Snapshot, Memory)>,
}

/// A process that is up.
pub struct Running {
    /// The production store.
    pub store: Arc<Store>,
    /// The production machine.
    pub federation: Federation,
    /// What proposals share.
    pub desk: Arc<Mutex<Desk>>,
    /// Buckets this site is a member of.
    pub members: BTreeSet<BucketId>,
    /// Buckets it is about to leave.
    pub departures: Departures,
    /// Those of them whose last commit was submitted: memberships begin and end one after the other.
    pub letting_go: BTreeSet<BucketId>,
    /// Buckets of which it lost something.
    pub anew: Anew,
    /// When the machine is woken next, as planned.
    pub wake_at: Option<Instant>,
    /// Whether a pump is planned.
    pub pump_planned: bool,
    /// The disk works until then.
    pub busy_until: Instant,
}

/// What the proposals of one life share: they run within the store's commit.
pub struct Desk {
    /// This life.
    pub origin: Origin,
    /// In buckets that were left in this life: another.
    pub origins: BTreeMap<BucketId, Origin>,
    /// Buckets that were left and not joined since.
    pub left: BTreeSet<BucketId>,
    /// Its stamps.
    pub clock: HlcClock,
    /// What the wall shows at this commit.
    pub wall: WallTime,
    /// Answers of this commit.
    pub answers: Vec<Answer>,
    /// Writes of the commit group that is being decided.
    pub deciding: Vec<Deciding>,
    /// Batches that are being stored.
    pub underway: Vec<Arc<Mutex<Underway>>>,
    /// Writes that were decided and whose commit failed.
    pub failed: Vec<Decided>,
    /// Records that were to go in commits that failed.
    pub not_gone: Vec<(BucketId, Dot)>,
}

impl Desk {
    /// What this site stamps its own records of a bucket with.
    pub fn origin_of(&self, bucket: BucketId) -> Origin {
        self.origins.get(&bucket).copied().unwrap_or(self.origin)
    }
}

/// What was decided about a write: where, which record, and its bytes.
pub type Decided = (crate::history::Place, Dot, Vec<u8>);

/// A decision that waits for the end of its commit; none once its fate is known.
pub type Deciding = Arc<Mutex<Option<Decided>>>;

/// What a commit does to the history once it is done.
#[derive(Debug, Default)]
pub struct Fates {
    /// Of which bucket.
    pub bucket: BucketId,
    /// Records that are stored.
    pub stored: Vec<(crate::history::Place, Dot)>,
    /// Records that go.
    pub gone: Vec<Dot>,
}

impl Fates {
    /// Records that go.
    pub fn drops(bucket: BucketId, gone: Vec<Dot>) -> Self {
        Self { bucket, gone, stored: Vec::new() }
    }
}

/// A batch that is being stored, step by step.
#[derive(Debug, Default)]
pub struct Underway {
    /// What the step does that is in the commit group, until that is durable.
    pub step: Fates,
    /// What the steps before it have stored.
    pub stored: Vec<(BucketId, Dot)>,
}

/// Who waits for a write, and for how much.
#[derive(Debug, Clone, Copy, Default)]
pub struct Asked {
    /// Which client, if any waits.
    pub client: Option<usize>,
    /// At how many sites it is to be held; 0 if nobody looks.
    pub scope: usize,
    /// The operation of a history that it is.
    pub operation: Option<usize>,
}

/// Why a write did not become a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unwritten {
    /// Its condition did not hold.
    Missed(String),
    /// It was refused before anything was written.
    Refused(String),
    /// The disk failed: it may be there or not.
    Failed(String),
}

impl<E: std::fmt::Display> From<E> for Unwritten {
    fn from(error: E) -> Self {
        Self::Refused(error.to_string())
    }
}

/// What a commit answers.
#[derive(Debug, Clone)]
pub enum Answer {
    /// To a client.
    Wrote {
        /// Who, if anybody waits.
        asked: Asked,
        /// What became of it, or why nothing did.
        result: Result<Wrote, Unwritten>,
    },
    /// To the federation machine.
    Applied {
        /// Of its output.
        ticket: Ticket,
        /// Whether it was committed.
        ok: bool,
        /// Why not.
        why: String,
        /// The records that it stored.
        stored: Vec<(BucketId, Dot)>,
    },
    /// To a site that wants a version held.
    Holds {
        /// Its wish.
        id: u64,
        /// Whether it was committed.
        ok: bool,
        /// Whether its payload was made durable by itself.
        settled: bool,
    },
    /// The site became a member.
    Joined(BucketId),
    /// The site has left a bucket, or not.
    Left {
        /// Which.
        bucket: BucketId,
        /// Whether it has.
        ok: bool,
    },
    /// All that others have of a bucket is here again.
    Whole(BucketId),
    /// Records of a bucket that was left are gone.
    Swept {
        /// Which.
        bucket: BucketId,
        /// Whether there may be more.
        more: bool,
    },
    /// Housekeeping that nobody waits for.
    Kept,
}

/// What became of a write.
#[derive(Debug, Clone)]
pub enum Wrote {
    /// A record was made.
    Record(crate::history::Place, Dot),
    /// The same object was there already.
    Again(crate::history::Place, Dot),
    /// That was so already.
    Nothing,
}

impl Answer {
    /// The disk failed after all.
    #[must_use]
    pub fn spoilt(self, why: &str) -> Self {
        match self {
            Self::Wrote { asked, .. } => Self::Wrote { asked, result: Err(Unwritten::Failed(why.into())) },
            Self::Holds { id, .. } => Self::Holds { id, ok: false, settled: true },
            other => other,
        }
    }
}

/// Locks what only one thread ever locks.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Name of the node-local fact that counts the lives of this node.
const LIFE: &str = "life";
/// First bytes of the names of memberships.
const MEMBER: &[u8] = b"member/";

/// The name of a membership among the node-local facts.
pub fn membership(bucket: BucketId) -> Vec<u8> {
    [MEMBER, &bucket.0].concat()
}

/// The name of the fact that records of a bucket that was left are still to go.
pub fn left_name(bucket: BucketId) -> Vec<u8> {
    [b"left/", &bucket.0[..]].concat()
}

/// Has entries durable before the process does anything else.
fn commit(store: &Store, entries: &[Entry]) -> Result<(), StorageError> {
    let entries = entries.iter().map(|entry| skerry_storage::Entry::new(entry.encode())).collect();
    let kept = Arc::new(Mutex::new(None));
    let answer = Arc::clone(&kept);
    store.submit::<(), StorageError>(
        move |_| Ok(((), entries)),
        move |result| *lock(&answer) = Some(result.map_err(|error| error.to_string())),
    );
    while lock(&kept).is_none() && store.pump() > 0 {}
    match lock(&kept).take() {
        Some(Ok(())) => Ok(()),
        Some(Err(why)) => Err(StorageError::Poisoned(why)),
        None => Err(StorageError::Closed),
    }
}

/// What makes the site a member; what is left of a former membership stays.
pub fn joined(bucket: BucketId) -> [Entry; 2] {
    let member = Entry::Local { key: membership(bucket).into(), value: Some(vec![1].into()) };
    [member, Entry::Local { key: left_name(bucket).into(), value: None }]
}

fn memberships(view: &dyn View) -> Result<BTreeSet<BucketId>, StorageError> {
    let mut found = BTreeSet::new();
    view.scan_prefix(Table::Local, MEMBER, &mut |key, _| {
        found.extend(key.last_chunk::<16>().map(|id| BucketId(*id)));
        ControlFlow::Continue(())
    })?;
    Ok(found)
}

/// Small segments, so that a short run meets their ends often.
pub fn settings(draw: &mut Draw) -> Settings {
    Settings {
        engine: Engine::Memory,
        journal_segment_bytes: draw.pick(&[64 << 10, 128 << 10, 512 << 10]).copied().unwrap_or(256 << 10),
        payload_segment_bytes: draw.pick(&[256 << 10, 1 << 20]).copied().unwrap_or(1 << 20),
        cache_segment_bytes: 256 << 10,
        cache_bytes: 1 << 20,
        // So that bases of the journal are written and read in runs of seconds.
        journal_heads_bytes: 32 << 10,
        headroom_bytes: 64 << 10,
        dirty_bytes: 1 << 20,
        // One step of a batch, so that everything may come between two of them.
        group_behind: 1,
        salt: *b"a simulated disk",
        ..Settings::default()
    }
}

/// How a process starts.
#[derive(Debug, Clone, Copy)]
pub struct Start {
    /// Drawn anew for each life.
    pub incarnation: u64,
    /// Of its machine's chance.
    pub seed: u64,
    /// Whether it takes and gives records with the news of them.
    pub fresh: bool,
    /// Whether it begins anew in buckets of which its journal lost something.
    pub mends: bool,
    /// Levels of landmarks whatever the number of sites.
    pub levels: Option<u8>,
    /// The words that it uses.
    pub dialect: u8,
    /// Whether it asks landmarks all at once.
    pub at_once: bool,
}

impl Site {
    /// A site with an empty disk.
    pub fn new(wall: WallClock, disk: SimDisk, draw: &mut Draw) -> Self {
        let (id, node) = (SiteId(draw.identity()), NodeId(draw.identity()));
        Self { id, node, wall, disk, boot: 0, running: None, backup: None }
    }

    /// Opens the store and starts the process, as the node does at its start.
    pub fn start(
        &mut self,
        settings: Settings,
        system: BucketId,
        start: Start,
    ) -> Result<(u64, Recovery), StorageError> {
        let Start { incarnation, seed, fresh, mends, levels, dialect, at_once } = start;
        let (store, recovery) = Store::open(Arc::new(self.disk.clone()), Arc::new(SpaceReducer), settings)?;
        let unreadable = |error: skerry_model::space::SpaceError| StorageError::Index(error.to_string());
        let life = ledger::number(&store.view(), LIFE).map_err(unreadable)? + 1;
        let mut members = memberships(&store.view())?;
        members.insert(system);
        // Each bucket by itself, so that a run dies between two of them: the last entry says that it was done.
        if mends && space::is_new_loss(&store.view(), &recovery.lost).map_err(unreadable)? {
            // A membership may be among what was lost.
            let followed = space::followed_whole(&store.view()).map_err(unreadable)?;
            let found: Vec<BucketId> = followed.difference(&members).copied().collect();
            for bucket in found {
                members.insert(bucket);
                commit(&store, &joined(bucket))?;
            }
            let vouched = space::vouched(&store.view()).map_err(unreadable)?;
            for bucket in members.iter().copied().chain(vouched).collect::<BTreeSet<_>>() {
                let mut entries = space::anew(&store.view(), bucket).map_err(unreadable)?;
                entries.extend((!members.contains(&bucket)).then(|| space::not_anew(bucket)));
                commit(&store, &entries)?;
            }
            let begun = space::begun_anew(&store.view(), &recovery.lost).map_err(unreadable)?;
            commit(&store, &[begun])?;
        }
        commit(&store, &[ledger::set_number(LIFE, life)])?;
        let formers = space::all_anew(&store.view()).map_err(unreadable)?;
        let origin = Origin { node: self.node, incarnation };
        let desk = Desk {
            origin,
            origins: BTreeMap::new(),
            left: BTreeSet::new(),
            clock: HlcClock::default(),
            wall: WallTime::default(),
            answers: Vec::new(),
            deciding: Vec::new(),
            underway: Vec::new(),
            failed: Vec::new(),
            not_gone: Vec::new(),
        };
        self.boot += 1;
        let config = Config {
            levels,
            dialect,
            waves: !at_once,
            ..Config::new(self.id, life, seed).with_system(system).with_fresh(fresh)
        };
        self.running = Some(Running {
            store,
            federation: Federation::new(config),
            desk: Arc::new(Mutex::new(desk)),
            members,
            departures: Departures::default(),
            letting_go: BTreeSet::new(),
            anew: Anew::new(self.node, formers),
            wake_at: None,
            pump_planned: false,
            busy_until: Instant::default(),
        });
        Ok((life, recovery))
    }

    /// The process is gone.
    pub fn stop(&mut self) {
        self.running = None;
        self.boot += 1;
    }
}
