//! A site's directory looked through while nobody runs on it: what is damaged, by the names that people know.
//!
//! Before: `skerry check`. After: storage reads everything. Invariants: opens the store as a start of the site does
//! and changes no more than that, unless a repair is asked for; a repair leaves a whole index alone (a rebuild does not),
//! throws nothing away (the old index is moved aside) and leaves what it cannot mend on the list that the running site mends
//! from others; no index is rebuilt while only that index says what a damaged base or segment of the journal said.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use serde::Serialize;
use skerry_base::chunk::Tree;
use skerry_base::kv::ViewError;
use skerry_base::{BucketId, ChunkId, ChunkKind, SiteId};
use skerry_model::Record;
use skerry_model::bucket::{list_buckets, system_bucket};
use skerry_model::space::{self, SpaceError, SpaceReducer};
use skerry_storage::{Damage, IndexState, RealDisk, Recovery, ScrubStep, Settings, StorageError, Store};
pub use skerry_storage::{Progress, Stage, Watch};

use crate::config::Config;
use crate::paths::shape;
use crate::rooms::Rooms;
use crate::server::{DATA, settings};
use crate::trust::{SiteTrust, TrustError, admission};

/// Versions looked at in one step.
const PAGE: usize = 1000;
/// Entries of each list; more are only counted.
const LISTED: usize = 10_000;

/// How the word on a part begins that does not read.
const DAMAGED: &str = "damaged: ";

/// Why nothing was checked.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// There is no site, or no store in it.
    #[error("{0} holds no data of a site")]
    NoStore(String),
    /// A site runs on it.
    #[error("{0} is in use: stop the site first")]
    InUse(String),
    /// Keys or trust files.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// The store cannot be opened.
    #[error("{directory}: {error}")]
    Storage {
        /// Where.
        directory: String,
        /// What.
        error: StorageError,
    },
    /// A whole index was to be built anew.
    #[error(
        "{0}: the index is whole and was left as it is: the disk has no room for a second one beside it, and only a rebuild \
         that comes to its end may replace it; make room and run it again"
    )]
    NoRoom(String),
    /// The base of the journal, or a segment of it, is damaged, and no base can be written anew.
    #[error(
        "{directory}: the journal is damaged ({why}) and no new base could be written ({error}); nothing was rebuilt, \
         because only the index says what that part of the journal said: make room on the disk and run it again"
    )]
    Base {
        /// Where.
        directory: String,
        /// What is wrong.
        why: String,
        /// Why there is no new one.
        error: StorageError,
    },
}

/// Something of an object that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Hurt {
    /// The bucket's name here, or its id.
    pub bucket: String,
    /// The key.
    pub key: String,
    /// Readable by this version id.
    pub version_id: String,
    /// Where it was written.
    pub site: String,
    /// The chunk.
    pub chunk: String,
    /// What is wrong with it.
    pub why: String,
}

/// Part of the journal that does not read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HurtJournal {
    /// The segment.
    pub segment: u32,
    /// Journal positions that are lost, if they are: from, and the first that reads again.
    pub lost: Option<(u64, u64)>,
    /// What it lost was lost at a start before, and what else it says is known: nothing is left to be done here.
    pub settled: bool,
    /// What is wrong.
    pub why: String,
}

/// What a check found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct CheckReport {
    /// The site.
    pub site: String,
    /// Whether nothing is damaged.
    pub is_well: bool,
    /// `whole`, `rebuilt: …` or `damaged: …`.
    pub index: String,
    /// What the journal said before its first segment: `whole`, `damaged: …` or `rewritten: …`.
    pub base: String,
    /// Journal frames that the index lacked.
    pub replayed: u64,
    /// A write cut short by the end of the last run: normal after a crash.
    pub torn_tail: Option<String>,
    /// Chunks read.
    pub chunks: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Copies of other sites' objects that were torn: fetched again when asked for.
    pub torn_copies: u64,
    /// Damaged chunks.
    pub damaged_chunks: u64,
    /// The versions that they belong to.
    pub damaged: Vec<Hurt>,
    /// Damaged chunks that no version names (uploads in progress, chunks about to be collected).
    pub unnamed: Vec<String>,
    /// Versions written here whose bytes are not: copied from another site's object, or lost before.
    pub absent: Vec<Hurt>,
    /// Entries that the lists had no room for.
    pub unlisted: u64,
    /// Damaged parts of the journal.
    pub journal: Vec<HurtJournal>,
    /// Whether what is damaged is noted for the site to mend, and the index was rebuilt if it asked for it.
    pub repaired: bool,
}

/// Opens the store of a site that does not run, as a start does.
pub(crate) fn open_offline(
    config: &Config,
    watch: Option<Watch>,
) -> Result<(Arc<Store>, SiteTrust), CheckError> {
    let directory = Path::new(&config.node.dir);
    let data = directory.join(DATA);
    if !holds_a_store(&data) {
        return Err(CheckError::NoStore(directory.display().to_string()));
    }
    let trust = SiteTrust::load(directory)?;
    let look = Look { settings: Settings { watch, ..settings(config, &data, &Rooms::here()) }, data: &data };
    let (store, _) = look.open(false)?;
    Ok((store, trust))
}

/// Where the file that says so is gone its segments say it, too.
fn holds_a_store(data: &Path) -> bool {
    data.join("store").is_file() || data.join("journal").is_dir()
}

/// What is done about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mending {
    /// Nothing.
    Nothing,
    /// What is damaged is noted, and an index that lacks something is rebuilt.
    Repair,
    /// The same, and the index is rebuilt whatever it is like.
    Rebuild,
}

/// Looks through the directory of a site that does not run.
pub fn check(config: &Config, mending: Mending, watch: Watch) -> Result<CheckReport, CheckError> {
    let repair = mending != Mending::Nothing;
    let directory = Path::new(&config.node.dir);
    let data = directory.join(DATA);
    if !holds_a_store(&data) {
        return Err(CheckError::NoStore(directory.display().to_string()));
    }
    let trust = SiteTrust::load(directory)?;
    let look = Look {
        settings: Settings { watch: Some(watch), ..settings(config, &data, &Rooms::here()) },
        data: &data,
    };
    let mut report = CheckReport { site: trust.statement.name.clone(), ..CheckReport::default() };
    let (store, recovery) = look.open_or_rebuild(repair, &mut report)?;
    let names =
        Names { system: system_bucket(&admission::federation_id(&trust.root)), own: trust.statement.site };
    let mut examined = look.examine(&store, &names, &mut report)?;
    report.pass_by(&store);
    if repair {
        note(&look, &store, examined.as_ref())?;
        look.renew_base(&store, &recovery, examined.as_ref(), &mut report)?;
        // One that was built a moment ago is not built again: it would take the place of the one that was given up for it.
        let is_built = matches!(recovery.index, IndexState::Rebuilt(_)) && examined.is_some();
        // A whole one is left alone unless somebody wants it: a rebuild takes long, and may come to no end.
        let has_to = examined.is_none() || report.index.starts_with(DAMAGED) || store.asks_for_a_rebuild();
        let asks = has_to || mending == Mending::Rebuild;
        // What is whole is not given up for one that may come to no end.
        if asks && !has_to && !is_built && !store.has_room_for_a_second_index() {
            return Err(CheckError::NoRoom(directory.display().to_string()));
        }
        drop(store);
        if !is_built && asks {
            let (store, recovery) = look.open(true)?;
            report.opened(&recovery);
            report.pass_by(&store);
            if examined.is_none() {
                examined = look.examine(&store, &names, &mut report)?;
                note(&look, &store, examined.as_ref())?;
            }
        }
        report.repaired = true;
    }
    let has_base = !report.base.starts_with(DAMAGED);
    report.is_well = examined.is_some()
        && report.damaged_chunks == 0
        && report.journal.iter().all(|hurt| hurt.settled)
        && has_base;
    Ok(report)
}

fn note(look: &Look<'_>, store: &Store, step: Option<&ScrubStep>) -> Result<(), CheckError> {
    let Some(step) = step else { return Ok(()) };
    store.note_damaged(step.damaged.clone()).map_err(|error| look.failed(error))
}

/// By what things are called.
struct Names {
    system: BucketId,
    own: SiteId,
}

/// What is looked at and how.
struct Look<'a> {
    settings: Settings,
    data: &'a Path,
}

impl Look<'_> {
    fn failed(&self, error: StorageError) -> CheckError {
        let directory = self.data.display().to_string();
        match error {
            StorageError::Locked => CheckError::InUse(directory),
            error => CheckError::Storage { directory, error },
        }
    }

    fn open(&self, rebuild: bool) -> Result<(Arc<Store>, Recovery), CheckError> {
        let disk = RealDisk::new(self.data).map_err(|error| {
            let what = "open the directory".to_owned();
            self.failed(StorageError::Io { what, error: error.to_string() })
        })?;
        let settings = Settings { rebuild, ..self.settings.clone() };
        Store::open(Arc::new(disk), Arc::new(SpaceReducer), settings).map_err(|error| self.failed(error))
    }

    /// As a start does; for a repair also where the index does not read and is to be rebuilt. One that is needed for what the
    /// journal does not say is not: then the error is none of the index.
    fn open_or_rebuild(
        &self,
        repair: bool,
        report: &mut CheckReport,
    ) -> Result<(Arc<Store>, Recovery), CheckError> {
        let (opened, why) = match self.open(false) {
            Err(CheckError::Storage { error: StorageError::Index(why), .. }) if repair => {
                (self.open(true)?, Some(why))
            }
            opened => (opened?, None),
        };
        report.opened(&opened.1);
        if let Some(why) = why {
            report.index = format!("rebuilt: {why}");
        }
        Ok(opened)
    }

    /// What only the index says is written into a new base: what a base that does not read said, if the index is whole and
    /// was not just built without it, and what damaged segments said, if it was not built without them.
    fn renew_base(
        &self,
        store: &Store,
        recovery: &Recovery,
        examined: Option<&ScrubStep>,
        report: &mut CheckReport,
    ) -> Result<(), CheckError> {
        let Some(step) = examined else { return Ok(()) };
        let is_rebuilt = matches!(recovery.index, IndexState::Rebuilt(_));
        let base = step.base.clone().filter(|_| !is_rebuilt);
        // An index that was built without a damaged base is put over it in no case.
        let segments = || store.only_the_index_says(step).filter(|_| step.base.is_none());
        let Some(why) = base.or_else(segments) else { return Ok(()) };
        store.renew_base().map_err(|error| CheckError::Base {
            directory: self.data.display().to_string(),
            why: why.clone(),
            error,
        })?;
        report.base = format!("rewritten: {why}");
        report.pass_by(store);
        Ok(())
    }

    /// None: the index does not read, which the report says.
    fn examine(
        &self,
        store: &Store,
        names: &Names,
        report: &mut CheckReport,
    ) -> Result<Option<ScrubStep>, CheckError> {
        match store.examine() {
            Ok(step) => {
                report.read(store, &step, names).map_err(|error| self.failed(error))?;
                Ok(Some(step))
            }
            Err(StorageError::Index(why)) => {
                report.index = format!("{DAMAGED}{why}");
                Ok(None)
            }
            Err(error) => Err(self.failed(error)),
        }
    }
}

impl CheckReport {
    fn opened(&mut self, recovery: &Recovery) {
        self.index = match &recovery.index {
            IndexState::Rebuilt(why) => format!("rebuilt: {why}"),
            IndexState::New | IndexState::Opened => "whole".into(),
        };
        self.replayed += recovery.replayed;
        if let Some(torn) = &recovery.torn {
            self.torn_tail = Some(format!("segment {} from {}: {}", torn.segment, torn.offset, torn.why));
        }
        for Damage { segment, from, to, why, .. } in &recovery.damage {
            // An index that was written before may know all that the segment said.
            let is_lost = recovery.lost.iter().any(|(first, end)| first < to && from < end);
            let lost = is_lost.then_some((*from, *to));
            self.hurt_journal(HurtJournal { segment: *segment, lost, settled: false, why: why.clone() });
        }
    }

    /// What segments before the base said is in it, but for what was lost, and bodies in them are read as chunks. What this
    /// start did not find lost, and the index lacks, was lost before.
    fn pass_by(&mut self, store: &Store) {
        for hurt in &mut self.journal {
            let is_old = hurt.lost.is_none() && store.lacks(hurt.segment);
            hurt.settled = is_old || store.is_before_base(hurt.segment);
        }
        self.journal.retain(|hurt| hurt.lost.is_some() || store.lacks(hurt.segment) || !hurt.settled);
    }

    /// The same segment may be found by opening, by reading and by rebuilding.
    fn hurt_journal(&mut self, hurt: HurtJournal) {
        let known = |other: &&mut HurtJournal| {
            other.segment == hurt.segment
                && (other.lost.is_none() || hurt.lost.is_none() || other.lost == hurt.lost)
        };
        match self.journal.iter_mut().find(known) {
            Some(other) if other.lost.is_none() => *other = hurt,
            Some(_) => {}
            None => list(&mut self.journal, &mut self.unlisted, hurt),
        }
    }

    /// An error: not all could be looked at just now.
    fn read(&mut self, store: &Store, step: &ScrubStep, names: &Names) -> Result<(), StorageError> {
        (self.chunks, self.bytes, self.torn_copies) = (step.chunks, step.bytes, step.torn_copies);
        self.damaged_chunks = step.damaged.len() as u64;
        self.base = step.base.as_ref().map_or_else(|| "whole".into(), |why| format!("{DAMAGED}{why}"));
        for found in &step.segments {
            self.hurt_journal(HurtJournal {
                segment: found.segment,
                lost: None,
                settled: false,
                why: found.why.clone(),
            });
        }
        let mut naming = Naming {
            store,
            own: names.own,
            names: BTreeMap::new(),
            damaged: step
                .damaged
                .iter()
                .map(|chunk| ((chunk.domain, chunk.id), (chunk.why.as_str(), false)))
                .collect(),
        };
        match naming.run(names.system, self) {
            Ok(()) => {}
            Err(SpaceError::View(error @ ViewError::Refused(_))) => return Err(error.into()),
            Err(error) => self.index = format!("{DAMAGED}{error}"),
        }
        for ((domain, chunk), (why, named)) in naming.damaged {
            if !named {
                list(&mut self.unnamed, &mut self.unlisted, format!("{domain}/{chunk}: {why}"));
            }
        }
        Ok(())
    }
}

fn list<T>(entries: &mut Vec<T>, more: &mut u64, entry: T) {
    if entries.len() < LISTED {
        entries.push(entry);
    } else {
        *more += 1;
    }
}

/// Finds whose chunks they are.
struct Naming<'a> {
    store: &'a Store,
    own: SiteId,
    names: BTreeMap<BucketId, String>,
    /// What is wrong, and whether somebody named it.
    damaged: BTreeMap<(BucketId, ChunkId), (&'a str, bool)>,
}

impl Naming<'_> {
    fn run(&mut self, system: BucketId, report: &mut CheckReport) -> Result<(), SpaceError> {
        let view = self.store.view();
        for resolved in list_buckets(&view, system, None)? {
            self.names.insert(resolved.claim.bucket, resolved.name);
        }
        let mut after: Option<Vec<u8>> = None;
        loop {
            let page = space::census(&view, after.as_deref(), PAGE)?;
            for (record, _) in &page.versions {
                self.version(record, report);
            }
            after = page.next;
            if after.is_none() {
                return Ok(());
            }
        }
    }

    fn version(&mut self, record: &Record, report: &mut CheckReport) {
        let Some(object) = record.object() else { return };
        let mut missing = None;
        for top in &object.chunks {
            let mut chunks = vec![top.id];
            if top.kind == ChunkKind::Tree {
                chunks.extend(self.children(record.bucket, top.id));
            }
            for id in chunks {
                if let Some((why, named)) = self.damaged.get_mut(&(record.bucket, id)) {
                    *named = true;
                    let hurt = hurt(&self.names, record, id, why);
                    list(&mut report.damaged, &mut report.unlisted, hurt);
                } else if record.site == self.own
                    && matches!(self.store.has_chunk(record.bucket, id), Ok(false))
                {
                    missing = Some(id);
                }
            }
        }
        if let Some(id) = missing {
            let hurt = hurt(&self.names, record, id, "not here");
            list(&mut report.absent, &mut report.unlisted, hurt);
        }
    }

    /// Of a tree that is not here or damaged, none are known.
    fn children(&self, domain: BucketId, tree: ChunkId) -> Vec<ChunkId> {
        let bytes = self.store.read_chunk(domain, tree, 0..u32::MAX).ok();
        let tree = bytes.and_then(|bytes| Tree::decode(&bytes).ok());
        tree.map_or_else(Vec::new, |tree| tree.children.iter().map(|child| child.id).collect())
    }
}

fn hurt(names: &BTreeMap<BucketId, String>, record: &Record, chunk: ChunkId, why: &str) -> Hurt {
    Hurt {
        bucket: names.get(&record.bucket).cloned().unwrap_or_else(|| record.bucket.to_string()),
        key: record.key.clone(),
        version_id: shape::dot_id(record).to_string(),
        site: record.site.to_string(),
        chunk: chunk.to_string(),
        why: why.to_owned(),
    }
}
