//! Bringing a store up: lock, identity, index, replay, what was left over.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::sync::{Arc, Mutex};

use skerry_base::kv::{Reducer, Table};

use super::rebase::{Base, reads_whole};
use super::replay::{Replay, Replayed};
use super::{Core, IndexState, Recovery, Store, identity, unwritable};
use crate::chunks::row::{
    ACCOUNT, APPLIED, Account, Applied, Area, LACKING, LOST, MISSED, REBUILDING, UNREAD, decode,
    read_account_key,
};
use crate::disk::Disk;
use crate::error::is_of_the_medium;
use crate::index::health::{Health, MARKER, mark};
use crate::index::{self, Index};
use crate::journal::base::Reader;
use crate::journal::reader::walk;
use crate::journal::segment::{self, SegmentHeader};
use crate::journal::writer::Writer;
use crate::journal::{file_name, numbers};
use crate::payload::segments::Segments;
use crate::space::{Space, Use};
use crate::{Settings, StorageError};

/// The accounts of segments as an index has them.
type Accounts = Vec<((Area, u32), Account)>;

/// An index and how far it is.
pub(super) struct Opened {
    pub(super) index: Arc<dyn Index>,
    accounts: Accounts,
    /// None: it must be (re)built.
    pub(super) applied: Option<Applied>,
    /// Why an index that should be there is not used.
    why: Option<String>,
    /// It is marked as damaged and used on: the mark stays until the start is through.
    marked: bool,
    /// Where one was moved that nothing is known to be wrong with: a rebuild was asked for.
    aside: Option<&'static str>,
}

impl Store {
    /// Opens the store in this directory, or makes it: locks the directory, finds the journal's end, replays
    /// what the index lacks, rebuilds an index that is lost or damaged, drops what was never referred to.
    pub fn open(
        disk: Arc<dyn Disk>,
        reducer: Arc<dyn Reducer>,
        settings: Settings,
    ) -> Result<(Arc<Self>, Recovery), StorageError> {
        let lock = disk.lock().map_err(|error| match error.kind() {
            ErrorKind::WouldBlock => StorageError::Locked,
            _ => StorageError::io("lock the directory", &error),
        })?;
        settle_names(&*disk)?;
        let (salt, is_new) = identity::open(&*disk, settings.salt)?;
        crate::journal::base::refuse_later(&*disk)?;
        remove_leftovers(&*disk);
        let looked_at = disk.clone();
        let mut journal = Journal::look(&*looked_at, &salt);
        let opened = open_index(&*disk, &settings, is_new, &mut journal)?;
        let base = journal.base;
        let space = Space::new(disk.clone(), &settings);
        load_lengths(&*disk, &space)?;
        for &((area, number), Account { live, freed, dead }) in &opened.accounts {
            // A crash may have come between the stripping of a segment and the note of it.
            let freed = if freed > 0 && is_stripped(&*disk, &salt, area, number) { 0 } else { freed };
            // Also of a segment that is gone, as an unsynced cache segment may be: its rows are still counted.
            space.edit(area, number, |used| *used = Use { len: used.len, live, freed, dead });
        }
        let mut recovery = Recovery { index: state_of(&opened, is_new), ..Recovery::default() };
        let replay = Replay {
            disk: &disk,
            salt: &salt,
            reducer: &*reducer,
            opened: &opened,
            space: &space,
            settings: &settings,
            base,
        };
        let replayed = match replay.run(&mut recovery) {
            Ok(replayed) => replayed,
            Err(error) => {
                let error = unreadable(&opened, &mut journal, error);
                return Err(put_back(&*disk, opened, error));
            }
        };
        let durable_at_open = opened.applied.map_or(0, |applied| applied.mark);
        let marked = opened.marked;
        let index = opened.index.clone();
        let parts = Parts { disk, reducer, settings, salt, index, space, replayed, durable_at_open, lock };
        let store = assemble(parts).map_err(|error| unreadable(&opened, &mut journal, error))?;
        recovery.lsn = store.lsn();
        store.doubt(&recovery.rotten)?;
        if marked {
            store.health.take_off()?;
        }
        Ok((Arc::new(store), recovery))
    }
}

/// What the end of the journal is replayed upon does not read, or what a start reads besides: the next start gives the index up.
/// It is no error of the index where only that says what the journal said: nobody is to build it anew.
fn unreadable(opened: &Opened, journal: &mut Journal<'_>, error: StorageError) -> StorageError {
    let StorageError::Index(why) = &error else { return error };
    if opened.applied.is_none() {
        return error;
    }
    let lacking = lacking_of(&*opened.index).unwrap_or_default();
    if journal.needs_an_index(&lacking) {
        return StorageError::Damaged(format!(
            "the index: {why}; it may be all that says what damaged parts of the journal said; if it cannot be read again, move the \
            folder `index` away: that is lost then"
        ));
    }
    let Err(failed) = mark(journal.disk) else {
        return StorageError::Index(format!(
            "{why}; it is marked as damaged: start again, and it is rebuilt"
        ));
    };
    StorageError::Index(format!(
        "{why}; it could not be marked as damaged ({failed}): move the folder `index` away"
    ))
}

/// What a store is put together from once its index is up.
struct Parts {
    disk: Arc<dyn Disk>,
    reducer: Arc<dyn Reducer>,
    settings: Settings,
    salt: [u8; 16],
    index: Arc<dyn Index>,
    space: Space,
    replayed: Replayed,
    durable_at_open: u64,
    lock: crate::disk::Lock,
}

fn assemble(parts: Parts) -> Result<Store, StorageError> {
    let Parts { disk, reducer, settings, salt, index, space, replayed, durable_at_open, lock } = parts;
    let mut unwritable = unwritable::noted(&*disk, Area::Journal);
    unwritable.extend(&replayed.unwritable);
    let writer = Writer::resume(&disk, salt, settings.journal_segment_bytes, &replayed.walked, &unwritable)?;
    // They were measured before anybody knew.
    writer.discarded().iter().for_each(|number| space.removed(Area::Journal, *number));
    let segments = |area, bytes, known| Segments::resume(&disk, area, salt, bytes, known);
    let lsn = AtomicU64::new(writer.tail().lsn - 1);
    let scrub = super::scrub::Scrub::load(&*disk, &salt);
    let mut sweep = super::collect::Sweep::over(replayed.base, lacking_of(&*index)?);
    let found = replayed.walked.damage.iter().map(|damage| damage.segment);
    sweep.note_hurt(scrub.segments().chain(found));
    sweep.unread = unread_of(&*index)?;
    sweep.aside_stays =
        index.read().get(Table::Storage, MISSED)?.is_some() || crate::journal::base::is_set_aside(&*disk)?;
    let live = crate::chunks::live::Live::default();
    // Nobody is told that they are here, and who puts them writes them, before they were looked at again.
    for key in scrub.chunks() {
        live.lock().hurts(key);
    }
    let evicting = super::evict::Evicting::load(&*disk, &salt, settings.cache_bytes, &space);
    let store = Store {
        payload: segments(Area::Payload, settings.payload_segment_bytes, replayed.payload)?,
        cache: segments(Area::Cache, settings.cache_segment_bytes, replayed.cache)?,
        files: super::files::Files::new(disk.clone(), settings.open_files),
        buffers: Arc::default(),
        core: Mutex::new(Core { writer, mark: replayed.mark }),
        health: Arc::new(Health::new(disk.clone())),
        disk,
        settings,
        salt,
        reducer,
        index,
        unread: AtomicU64::new(sweep.unread.len() as u64),
        queue: Default::default(),
        live: Arc::new(live),
        space,
        journal_meter: Default::default(),
        payload_meter: Default::default(),
        base_segment: AtomicU32::new(replayed.base.segment),
        sweep: Mutex::new(sweep),
        scrub: Mutex::new(scrub),
        evicting,
        asked: AtomicU64::new(0),
        syncing: Mutex::default(),
        poison: Mutex::default(),
        is_poisoned: AtomicBool::new(false),
        moved: AtomicU64::new(0),
        moved_bodies: AtomicU64::new(0),
        unsynced: AtomicU64::new(0),
        lsn,
        durable_at_open,
        tended: AtomicBool::new(false),
        tend_signal: Default::default(),
        retry: Default::default(),
        checked: Mutex::default(),
        _lock: lock,
    };
    take_up(&store, replayed.mark)?;
    store.space.lacks(); // Whoever asks for room is told from the start.
    store.evicting.kept(super::evict::all_kept(&*store.index.read())?);
    store.space.note_index(store.index.disk_bytes());
    *store.checked.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = store.active_segments();
    Ok(store)
}

/// The end of the journal is made one that frames can go to, and what the replay took in is noted.
fn take_up(store: &Store, mark: u64) -> Result<(), StorageError> {
    let mut core = store.core();
    let wanted = store.settings.reserve_segments as usize + usize::from(core.writer.is_blank());
    match store.add_spares(&mut core, wanted) {
        Err(StorageError::Full) => store.space.note_full(true),
        other => other?,
    }
    core.writer.go_on(&store.journal_meter)?;
    unwritable::forget(&*store.disk, Area::Journal, core.writer.tail().segment);
    store.note_journal_room(&core);
    // What the replay took in, and where payload goes on.
    let reading = store.index.read();
    store.apply(&mut core, super::changes::Changes::over(&*reading, mark + 1), &[])
}

fn state_of(opened: &Opened, is_new: bool) -> IndexState {
    match &opened.why {
        _ if is_new => IndexState::New,
        Some(why) => IndexState::Rebuilt(why.clone()),
        None => IndexState::Opened,
    }
}

/// A process that was killed between a new or renamed file and the sync of its folder leaves a name that only memory has: this one
/// goes on with that file, and a power cut would take it with all that is synced in it.
fn settle_names(disk: &dyn Disk) -> Result<(), StorageError> {
    let tables = format!("{}/tables", index::FOLDER);
    for folder in [".", crate::journal::FOLDER, Area::Payload.folder(), index::FOLDER, &tables] {
        match disk.sync_dir(folder) {
            // Of a store that is made just now.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            // What it does not take it has as it was read, or not: nothing can be done about it.
            Err(error) if is_of_the_medium(&error) => {
                tracing::warn!(folder, %error, "the names of files cannot be made to last");
            }
            made => made.map_err(|error| StorageError::io("make the names of files last", &error))?,
        }
    }
    Ok(())
}

/// What was being written when the last run ended, and would be replaced only by another attempt: it takes room that this
/// may need.
fn remove_leftovers(disk: &dyn Disk) {
    let named = |folder: &str| disk.list(folder).unwrap_or_default();
    let bases = named(".").into_iter().filter(|name| name == crate::journal::base::STAGED);
    let stripped =
        named(crate::journal::FOLDER).into_iter().filter(|name| name.ends_with(super::strip::STAGED));
    let stripped = stripped.map(|name| format!("{}/{name}", crate::journal::FOLDER));
    for name in bases.chain(stripped) {
        if let Err(error) = disk.remove(&name) {
            tracing::warn!(name, %error, "what the last run left unfinished is still there");
        }
    }
}

/// What is known of the journal before the index is opened.
struct Journal<'a> {
    disk: &'a dyn Disk,
    salt: &'a [u8; 16],
    base: Base,
    /// The segments that the last scrub found damaged and the base does not make needless.
    hurt: BTreeSet<u32>,
}

impl<'a> Journal<'a> {
    fn look(disk: &'a dyn Disk, salt: &'a [u8; 16]) -> Self {
        let base = Base::load(disk, salt);
        let found = super::scrub::Scrub::load(disk, salt);
        let hurt = found.segments().filter(|number| *number >= base.segment).collect();
        Self { disk, salt, base, hurt }
    }

    /// Whether only an index can say what the journal said. The base is read whole for that, but only where the index is to
    /// be given up: a rebuild reads it in any case.
    fn needs_an_index(&mut self, lacking: &BTreeSet<u32>) -> bool {
        if !self.base.damaged && self.base.lsn > 0 {
            let read = reads_whole(self.disk, self.salt);
            self.base.damaged = matches!(read, Err(StorageError::Damaged(_)));
            if read.is_err() {
                return true;
            }
        }
        self.base.damaged || self.hurt.iter().any(|number| !lacking.contains(number))
    }

    /// Whether all of it reads, read through now: the last scrub may be a month ago, and where the index is removed nothing else
    /// says what a frame said that has rotted since.
    fn reads_whole(&self) -> bool {
        let read = || {
            let base = Reader::open(self.disk, self.salt)?.map(|reader| reader.position);
            walk(self.disk, self.salt, base, &mut |_| Ok(()))
        };
        read().is_ok_and(|walked| walked.damage.is_empty() && !walked.is_unread)
    }
}

/// An index that was opened, and what it says of itself.
type Tried = (Arc<dyn Index>, Option<Applied>, Accounts);

/// Opens the index; one that is lost, damaged or half rebuilt is moved aside for a new one.
fn open_index(
    disk: &dyn Disk,
    settings: &Settings,
    is_new: bool,
    journal: &mut Journal<'_>,
) -> Result<Opened, StorageError> {
    let path = || disk.native(index::FOLDER);
    let failed = |error: std::io::Error| StorageError::io("move the index aside", &error);
    if !settings.index_lasts() {
        let index = index::open(None, settings)?;
        return Ok(Opened {
            index,
            accounts: Vec::new(),
            applied: None,
            why: None,
            marked: false,
            aside: None,
        });
    }
    let marked = disk.list(".").map_err(failed)?.iter().any(|name| name == MARKER);
    let is_asked_for = settings.rebuild && !is_new;
    let tried = if is_asked_for {
        Err("a rebuild was asked for".to_owned())
    } else {
        try_index(disk, settings, marked, journal)?
    };
    let why = match tried {
        Ok((index, applied, accounts)) if applied.is_some() || is_new => {
            return Ok(Opened { index, accounts, applied, why: None, marked, aside: None });
        }
        Ok((index, ..)) => {
            drop(index);
            "there was none".to_owned()
        }
        Err(why) => why,
    };
    tracing::warn!(why, "the index is given up and rebuilt from the journal");
    let only_it_knows =
        |journal: &mut Journal<'_>| journal.needs_an_index(&BTreeSet::new()) || !journal.reads_whole();
    let aside = if has_room_beside(disk, settings) || only_it_knows(journal) {
        give_up(disk, settings).map_err(failed)?.filter(|_| is_asked_for && !marked)
    } else {
        tracing::warn!(
            "there is no room for a second index, and the journal says all: the old one is removed"
        );
        disk.remove_folder(index::FOLDER).map_err(failed)?;
        None
    };
    if marked {
        // The marker must not go before the index that it speaks of.
        disk.sync_dir(".").map_err(failed)?;
        disk.remove(MARKER).map_err(failed)?;
    }
    disk.sync_dir(".").map_err(failed)?;
    let index = index::open(path(), settings)?;
    Ok(Opened { index, accounts: Vec::new(), applied: None, why: Some(why), marked: false, aside })
}

/// Moves the index aside. What lies there already stays unless this one knows as much: the index that was given up first may be
/// all that says what those after it were built without.
fn give_up(disk: &dyn Disk, settings: &Settings) -> std::io::Result<Option<&'static str>> {
    let to = if has_folder(disk, index::ASIDE) {
        match look_at(disk, settings) {
            // It holds nothing that the journal does not say.
            Given::Unfinished => return disk.remove_folder(index::FOLDER).map(|()| None),
            Given::Whole => index::ASIDE,
            Given::Lacking => index::ASIDE_LATER,
        }
    } else {
        index::ASIDE
    };
    disk.remove_folder(to)?;
    match disk.rename(index::FOLDER, to) {
        Ok(()) => Ok(Some(to)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// A rebuild that was asked for came to no end: the index that was there is put back, with which the store goes on as before.
fn put_back(disk: &dyn Disk, opened: Opened, error: StorageError) -> StorageError {
    let Some(aside) = opened.aside else { return error };
    drop(opened);
    let back = disk
        .remove_folder(index::FOLDER)
        .and_then(|()| disk.rename(aside, index::FOLDER))
        .and_then(|()| disk.sync_dir("."));
    let what = match &back {
        Ok(()) => "the index could not be rebuilt and was put back as it was".to_owned(),
        Err(failed) => {
            format!("the index could not be rebuilt, nor be put back ({failed}): rename `{aside}` to `index`")
        }
    };
    tracing::error!(%error, what);
    match error {
        StorageError::Damaged(why) | StorageError::Index(why) => {
            StorageError::Damaged(format!("{what}: {why}"))
        }
        error => error.within(&what),
    }
}

impl Store {
    /// Whether a rebuild could be made beside the index that is there.
    pub fn has_room_for_a_second_index(&self) -> bool {
        has_room_beside(&*self.disk, &self.settings)
    }
}

/// Whether an index as large as the one that is given up fits beside it. A rebuild that finds no room comes to no end, at no
/// start: nothing else gives any back.
fn has_room_beside(disk: &dyn Disk, settings: &Settings) -> bool {
    let size = |name: String| disk.open(&name).and_then(|file| file.len()).unwrap_or(0);
    let held = |folder: &str| -> u64 {
        let names = disk.list(folder).unwrap_or_default().into_iter();
        names.map(|name| size(format!("{folder}/{name}"))).sum()
    };
    let taken = held(index::FOLDER) + held(&format!("{}/tables", index::FOLDER));
    taken == 0 || disk.free_bytes().is_ok_and(|free| free >= taken + settings.memtable_bytes)
}

fn has_folder(disk: &dyn Disk, folder: &str) -> bool {
    disk.list(folder).map_or(true, |names| !names.is_empty())
}

/// What an index that is given up holds.
enum Given {
    /// Its rebuild was not through, or there is none.
    Unfinished,
    /// All that was ever written, as far as anybody knows.
    Whole,
    /// It does not read, or was built while something was missing.
    Lacking,
}

fn look_at(disk: &dyn Disk, settings: &Settings) -> Given {
    let Ok(index) = index::open(disk.native(index::FOLDER), settings) else { return Given::Lacking };
    let has = |key: &[u8]| index.read().get(Table::Storage, key).map(|found| found.is_some());
    let lacks =
        || Ok::<_, StorageError>(has(MISSED)? || has(LACKING)? || crate::journal::base::is_set_aside(disk)?);
    match (has(REBUILDING), has(APPLIED)) {
        (Ok(true), _) | (Ok(false), Ok(false)) => Given::Unfinished,
        (Ok(false), Ok(true)) if matches!(lacks(), Ok(false)) => Given::Whole,
        _ => Given::Lacking,
    }
}

/// Opens the index as it is; within, why it is not to be used. One that could not be read once (that is all that a mark says)
/// is used on where only it says what the journal said: what of it reads is more than there is without it.
fn try_index(
    disk: &dyn Disk,
    settings: &Settings,
    marked: bool,
    journal: &mut Journal<'_>,
) -> Result<Result<Tried, String>, StorageError> {
    let is_marked = || Ok(Err("it was found to be damaged while in use".to_owned()));
    if marked && !journal.needs_an_index(&BTreeSet::new()) {
        return is_marked();
    }
    match use_index(disk, settings, journal.base.lsn) {
        Ok((index, ..)) if marked && !journal.needs_an_index(&lacking_of(&*index)?) => is_marked(),
        Ok(tried) => {
            if marked {
                tracing::error!(
                    "the index was found damaged; it is used on: only it says what damaged parts of the journal said"
                );
            }
            Ok(Ok(tried))
        }
        // A rebuild would lack it as well, and takes long.
        Err(error @ StorageError::Lacking { .. }) => Err(error),
        // What the file system refuses to read now it may read later.
        Err(error @ (StorageError::Io { .. } | StorageError::Full))
            if journal.needs_an_index(&BTreeSet::new()) =>
        {
            Err(error.within(
                "the index may be all that says what damaged parts of the journal said; if it cannot \
            be read again, move the folder `index` away: that is lost then",
            ))
        }
        Err(error) => Ok(Err(error.to_string())),
    }
}

fn use_index(disk: &dyn Disk, settings: &Settings, base_lsn: u64) -> Result<Tried, StorageError> {
    let index = index::open(disk.native(index::FOLDER), settings)?;
    let (applied, accounts) = (applied_of(&*index)?, accounts_of(&*index)?);
    // The journal from there on may be gone.
    if applied.is_some_and(|applied| applied.lsn < base_lsn) {
        return Err(StorageError::Index("it is older than the base of the journal".to_owned()));
    }
    Ok((index, applied, accounts))
}

fn is_stripped(disk: &dyn Disk, salt: &[u8; 16], area: Area, number: u32) -> bool {
    let mut bytes = [0; segment::HEADER];
    let mut read = || disk.open(&file_name(area.folder(), number))?.read_at(0, &mut bytes);
    area == Area::Journal
        && read().is_ok()
        && SegmentHeader::read(&bytes, salt).is_some_and(|header| header.stripped)
}

/// How far an index is; none if it is empty. One that was being rebuilt is an error.
fn applied_of(index: &dyn Index) -> Result<Option<Applied>, StorageError> {
    let view = index.read();
    if view.get(Table::Storage, REBUILDING)?.is_some() {
        return Err(StorageError::Index("its rebuild was interrupted".into()));
    }
    let noted = view.get(Table::Storage, APPLIED)?;
    noted
        .map(|bytes| Applied::read(&bytes).map_err(|error| StorageError::Index(error.to_string())))
        .transpose()
}

/// The journal segments that an index was built without.
pub(super) fn lacking_of(index: &dyn Index) -> Result<BTreeSet<u32>, StorageError> {
    numbers_at(index, LACKING)
}

/// The payload segments in which something lies that could not be read.
pub(super) fn unread_of(index: &dyn Index) -> Result<BTreeSet<u32>, StorageError> {
    numbers_at(index, UNREAD)
}

/// What damage of the journal has taken for good, as far as this index heard of it.
pub(super) fn lost_of(index: &dyn Index) -> Result<Vec<(u64, u64)>, StorageError> {
    let noted = index.read().get(Table::Storage, LOST)?.unwrap_or_default();
    let numbers: Vec<u64> = noted.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect();
    Ok(numbers.as_chunks().0.iter().map(|[from, to]| (*from, *to)).collect())
}

fn numbers_at(index: &dyn Index, key: &[u8]) -> Result<BTreeSet<u32>, StorageError> {
    let noted = index.read().get(Table::Storage, key)?.unwrap_or_default();
    Ok(noted.as_chunks().0.iter().map(|number| u32::from_le_bytes(*number)).collect())
}

/// The lengths of all segments.
fn load_lengths(disk: &dyn Disk, space: &Space) -> Result<(), StorageError> {
    let failed = |error: std::io::Error| StorageError::io("measure the segments", &error);
    for area in [Area::Journal, Area::Payload, Area::Cache] {
        for number in numbers(&disk.list(area.folder()).map_err(failed)?) {
            let name = file_name(area.folder(), number);
            match disk.open(&name).and_then(|file| file.len()) {
                Ok(len) => space.resized(area, number, len),
                // Copies may go at any time: reading one says that it is not here.
                Err(error) if area == Area::Cache && is_of_the_medium(&error) => {
                    tracing::error!(name, %error, "a segment of copies cannot be opened; it is passed over");
                }
                Err(error) => return Err(StorageError::io(format!("measure {name}"), &error)),
            }
        }
    }
    Ok(())
}

/// The accounts in an index. One that does not read is an error: a segment without is taken for empty.
fn accounts_of(index: &dyn Index) -> Result<Accounts, StorageError> {
    let mut accounts = Accounts::new();
    let mut bad = None;
    index.read().scan_prefix(Table::Storage, ACCOUNT, &mut |key, value| {
        match (read_account_key(key), decode(value)) {
            (Some(segment), Ok(account)) => accounts.push((segment, account)),
            (key, value) => bad = Some(format!("the account of {key:?} does not read: {:?}", value.err())),
        }
        std::ops::ControlFlow::Continue(())
    })?;
    bad.map_or(Ok(accounts), |why| Err(StorageError::Index(why)))
}
