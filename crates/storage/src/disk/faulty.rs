//! A disk in memory that loses power: what was not synced survives in part, in any order, torn at sectors.
//!
//! It fails as kernels let disks fail: a sync that failed has dropped what it was to write, says so once, and what the page
//! cache still shows is not what the medium has until it is released; a sector that cannot be read is an error to who reads
//! it. A hook runs where a test needs another thread to be: no test here waits for luck.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use skerry_base::Instant;

use super::{Disk, File, Lock};

const SECTOR: usize = 512;

/// A repeatable source of chance.
#[derive(Debug, Clone)]
pub(crate) struct Chance(pub(crate) u64);

impl Chance {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    pub(crate) fn one_in(&mut self, bound: u64) -> bool {
        self.below(bound) == 0
    }
}

#[derive(Debug, Clone)]
enum Change {
    Write(u64, Vec<u8>),
    Cut(u64),
    Punch(u64, u64),
}

/// Runs in the place of an operation, without any lock of the disk; an error is the operation's.
#[derive(Clone)]
struct Hook(Arc<dyn Fn() -> io::Result<()> + Send + Sync>);

impl core::fmt::Debug for Hook {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Hook")
    }
}

#[derive(Debug, Clone, Default)]
struct Content {
    now: Vec<u8>,
    durable: Vec<u8>,
    pending: Vec<Change>,
    /// Bytes punched out of `now`.
    punched: BTreeSet<u64>,
    /// Whether a failed sync has dropped some of what `now` shows.
    dropped: bool,
    /// What cannot be read.
    unreadable: Vec<Range<u64>>,
    /// Before a sync, a write, a hole.
    on_sync: Option<Hook>,
    on_write: Option<Hook>,
    on_punch: Option<Hook>,
}

impl Content {
    /// What the medium has once what waits is written.
    fn written_back(&self) -> Vec<u8> {
        if !self.dropped {
            return self.now.clone();
        }
        let mut bytes = self.durable.clone();
        for change in &self.pending {
            match change {
                Change::Write(offset, written) => put(&mut bytes, *offset, written),
                Change::Cut(len) => bytes.resize(*len as usize, 0),
                Change::Punch(offset, len) => blank(&mut bytes, *offset, *len),
            }
        }
        bytes
    }
}

#[derive(Debug, Default)]
struct State {
    files: BTreeMap<String, Arc<Mutex<Content>>>,
    /// Names as the last sync of their folder left them.
    durable: BTreeMap<String, Arc<Mutex<Content>>>,
    ops: u64,
    /// The power goes at this operation.
    cut_at: Option<u64>,
    fail_syncs: bool,
    /// Names made in this folder cannot be synced: there are too many open files.
    fail_folder: Option<String>,
    /// After a file was found by its name, before who opens it has it.
    on_open: Option<(String, Hook)>,
    locked: bool,
    room: Option<u64>,
    /// It is a quota that ends the room, of which the free bytes say nothing.
    quota: bool,
    no_holes: bool,
    read_only: bool,
    /// Bytes that were to begin to go to the medium.
    begun: u64,
    now: Instant,
}

/// The disk.
#[derive(Debug, Clone, Default)]
pub(crate) struct FaultyDisk(Arc<Mutex<State>>);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl FaultyDisk {
    /// Operations so far.
    pub(crate) fn ops(&self) -> u64 {
        lock(&self.0).ops
    }

    /// The power goes at this operation; none: never.
    pub(crate) fn cut_at(&self, op: Option<u64>) {
        lock(&self.0).cut_at = op;
    }

    pub(crate) fn is_cut(&self) -> bool {
        let state = lock(&self.0);
        state.cut_at.is_some_and(|at| state.ops >= at)
    }

    pub(crate) fn fail_syncs(&self, fail: bool) {
        lock(&self.0).fail_syncs = fail;
    }

    /// Names of this folder cannot be synced for want of open files; none: all can.
    pub(crate) fn fail_syncs_of_folder(&self, folder: Option<&str>) {
        lock(&self.0).fail_folder = folder.map(str::to_owned);
    }

    /// These bytes of a file cannot be read from now on, by whoever has it open, too.
    pub(crate) fn spoil(&self, name: &str, bytes: Range<u64>) {
        self.edit(name, |content| content.unreadable.push(bytes));
    }

    /// All of a file can be read again.
    pub(crate) fn heal(&self, name: &str) {
        self.edit(name, |content| content.unreadable.clear());
    }

    /// Runs in front of each sync of this file.
    pub(crate) fn on_sync(&self, name: &str, hook: impl Fn() -> io::Result<()> + Send + Sync + 'static) {
        self.edit(name, |content| content.on_sync = Some(Hook(Arc::new(hook))));
    }

    /// Runs in front of each write to this file.
    pub(crate) fn on_write(&self, name: &str, hook: impl Fn() -> io::Result<()> + Send + Sync + 'static) {
        self.edit(name, |content| content.on_write = Some(Hook(Arc::new(hook))));
    }

    /// Runs in front of each hole that is punched into this file.
    pub(crate) fn on_punch(&self, name: &str, hook: impl Fn() -> io::Result<()> + Send + Sync + 'static) {
        self.edit(name, |content| content.on_punch = Some(Hook(Arc::new(hook))));
    }

    /// Runs each time when this file was found and before who opens it has it.
    pub(crate) fn on_open(&self, name: &str, hook: impl Fn() -> io::Result<()> + Send + Sync + 'static) {
        lock(&self.0).on_open = Some((name.to_owned(), Hook(Arc::new(hook))));
    }

    fn edit(&self, name: &str, change: impl FnOnce(&mut Content)) {
        change(&mut lock(&lock(&self.0).files[name]));
    }

    /// Bytes the disk has; none: no end.
    pub(crate) fn set_room(&self, room: Option<u64>) {
        lock(&self.0).room = room;
    }

    /// The same by a quota of the file system.
    pub(crate) fn set_quota(&self, room: Option<u64>) {
        let mut state = lock(&self.0);
        (state.room, state.quota) = (room, true);
    }

    /// What time it is.
    pub(crate) fn set_time(&self, now: Instant) {
        lock(&self.0).now = now;
    }

    /// Bytes that were to begin to go to the medium before anybody waited for them.
    pub(crate) fn begun(&self) -> u64 {
        lock(&self.0).begun
    }

    /// As a file system that gives whole files back only.
    pub(crate) fn without_holes() -> Self {
        let disk = Self::default();
        lock(&disk.0).no_holes = true;
        disk
    }

    /// The disk after the power came back: unsynced changes survived by chance.
    pub(crate) fn power_cut(&self, seed: u64) -> Self {
        let mut chance = Chance(seed);
        let state = lock(&self.0);
        let mut files = BTreeMap::new();
        let names: BTreeSet<&String> = state.files.keys().chain(state.durable.keys()).collect();
        for name in names {
            let (now, durable) = (state.files.get(name), state.durable.get(name));
            let same = now.zip(durable).is_some_and(|(now, durable)| Arc::ptr_eq(now, durable));
            let kept = if same || chance.one_in(2) { now } else { durable };
            if let Some(content) = kept {
                let survived = survive(&lock(content), &mut chance);
                files.insert(name.clone(), Arc::new(Mutex::new(survived)));
            }
        }
        let durable = files.clone();
        let (room, no_holes) = (state.room, state.no_holes);
        Self(Arc::new(Mutex::new(State { files, durable, room, no_holes, ..State::default() })))
    }

    /// The disk after the end of a process: all that it did is there, and no more of it is durable than was.
    pub(crate) fn killed(&self) -> Self {
        let state = lock(&self.0);
        let (files, durable) = (state.files.clone(), state.durable.clone());
        let (room, no_holes) = (state.room, state.no_holes);
        Self(Arc::new(Mutex::new(State { files, durable, room, no_holes, ..State::default() })))
    }

    /// Another disk with the same on it, all of it durable.
    pub(crate) fn copied(&self) -> Self {
        let state = lock(&self.0);
        let copy = |content: &Arc<Mutex<Content>>| {
            let content = lock(content).clone();
            let durable = content.now.clone();
            Arc::new(Mutex::new(Content { durable, pending: Vec::new(), ..content }))
        };
        let files: BTreeMap<_, _> =
            state.files.iter().map(|(name, content)| (name.clone(), copy(content))).collect();
        let (durable, room, no_holes) = (files.clone(), state.room, state.no_holes);
        Self(Arc::new(Mutex::new(State { files, durable, room, no_holes, ..State::default() })))
    }

    /// The names of all files.
    pub(crate) fn names(&self) -> Vec<String> {
        lock(&self.0).files.keys().cloned().collect()
    }

    /// Changes bytes behind everybody's back.
    pub(crate) fn corrupt(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let state = lock(&self.0);
        let mut content = lock(&state.files[name]);
        change(&mut content.now);
        content.durable = content.now.clone();
        content.pending.clear();
        content.dropped = false;
    }

    pub(crate) fn content(&self, name: &str) -> Vec<u8> {
        lock(&lock(&self.0).files[name]).now.clone()
    }

    /// Bytes that are taken.
    pub(crate) fn taken(&self) -> u64 {
        taken(&lock(&self.0))
    }

    /// As a file system that met an error and takes no writes any more.
    pub(crate) fn become_read_only(&self) {
        lock(&self.0).read_only = true;
    }

    fn op(&self) -> io::Result<MutexGuard<'_, State>> {
        let mut state = lock(&self.0);
        if state.read_only {
            return Err(ErrorKind::ReadOnlyFilesystem.into());
        }
        if state.cut_at.is_some_and(|at| state.ops >= at) {
            return Err(io::Error::other("the power is gone"));
        }
        state.ops += 1;
        Ok(state)
    }
}

fn taken(state: &State) -> u64 {
    state
        .files
        .values()
        .map(|content| lock(content))
        .map(|content| content.now.len() as u64 - content.punched.len() as u64 * SECTOR as u64)
        .sum()
}

fn survive(content: &Content, chance: &mut Chance) -> Content {
    let mut now = content.durable.clone();
    for change in &content.pending {
        match change {
            Change::Cut(len) if chance.one_in(2) => now.resize(*len as usize, 0),
            Change::Punch(offset, len) if chance.one_in(2) => blank(&mut now, *offset, *len),
            Change::Write(offset, bytes) => match chance.below(3) {
                0 => {}
                1 => put(&mut now, *offset, bytes),
                _ => torn(&mut now, *offset, bytes, chance),
            },
            _ => {}
        }
    }
    Content { durable: now.clone(), now, ..Content::default() }
}

/// Some sectors of a write arrive.
fn torn(now: &mut Vec<u8>, offset: u64, bytes: &[u8], chance: &mut Chance) {
    let mut at = offset as usize;
    let end = at + bytes.len();
    while at < end {
        let next = ((at / SECTOR + 1) * SECTOR).min(end);
        if chance.one_in(2) {
            put(now, at as u64, &bytes[at - offset as usize..next - offset as usize]);
        }
        at = next;
    }
}

fn put(content: &mut Vec<u8>, offset: u64, bytes: &[u8]) {
    let (start, end) = (offset as usize, offset as usize + bytes.len());
    if content.len() < end {
        content.resize(end, 0);
    }
    content[start..end].copy_from_slice(bytes);
}

fn blank(content: &mut [u8], offset: u64, len: u64) {
    let end = ((offset + len) as usize).min(content.len());
    content[(offset as usize).min(end)..end].fill(0);
}

struct FaultyFile {
    disk: FaultyDisk,
    content: Arc<Mutex<Content>>,
}

impl FaultyFile {
    fn run(&self, which: impl FnOnce(&Content) -> &Option<Hook>) -> io::Result<()> {
        let hook = which(&lock(&self.content)).clone();
        hook.map_or(Ok(()), |Hook(hook)| hook())
    }
}

impl File for FaultyFile {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let content = lock(&self.content);
        let end = offset + buf.len() as u64;
        if content.unreadable.iter().any(|bad| bad.start < end && offset < bad.end) {
            return Err(io::Error::other("Input/output error"));
        }
        let bytes = content.now.get(offset as usize..).unwrap_or_default();
        let count = bytes.len().min(buf.len());
        buf[..count].copy_from_slice(&bytes[..count]);
        Ok(count)
    }

    fn read_now(&self, offset: u64, buf: &mut [u8]) -> io::Result<Option<usize>> {
        self.read_at(offset, buf).map(Some)
    }

    fn write_at(&self, offset: u64, parts: &[&[u8]]) -> io::Result<()> {
        drop(self.disk.op()?);
        self.run(|content| &content.on_write)?;
        let bytes = parts.concat();
        let mut content = lock(&self.content);
        put(&mut content.now, offset, &bytes);
        // A sector that is written anew can be read again.
        let end = offset + bytes.len() as u64;
        content.unreadable.retain(|bad| bad.start < offset || end < bad.end);
        content.pending.push(Change::Write(offset, bytes));
        Ok(())
    }

    fn begin_writing(&self, _offset: u64, len: u64) {
        lock(&self.disk.0).begun += len;
    }

    fn sync(&self) -> io::Result<()> {
        let failed = self.disk.op()?.fail_syncs;
        let hooked = self.run(|content| &content.on_sync);
        let mut content = lock(&self.content);
        if failed || hooked.is_err() {
            // The pages are clean now though nothing of them arrived; who syncs again hears nothing of it.
            content.dropped |= !content.pending.is_empty();
            content.pending.clear();
            return hooked.and(Err(io::Error::other("the sync failed")));
        }
        content.durable = content.written_back();
        content.pending.clear();
        Ok(())
    }

    fn release(&self, offset: u64, len: u64) {
        let mut content = lock(&self.content);
        if !content.dropped {
            return;
        }
        let medium = content.written_back();
        let end = ((offset + len) as usize).min(content.now.len());
        for at in (offset as usize).min(end)..end {
            content.now[at] = medium.get(at).copied().unwrap_or(0);
        }
    }

    fn punch(&self, offset: u64, len: u64) -> io::Result<()> {
        if self.disk.op()?.no_holes {
            return Err(ErrorKind::Unsupported.into());
        }
        self.run(|content| &content.on_punch)?;
        let mut content = lock(&self.content);
        blank(&mut content.now, offset, len);
        let sector = SECTOR as u64;
        content.punched.extend(offset.div_ceil(sector)..(offset + len) / sector);
        content.pending.push(Change::Punch(offset, len));
        Ok(())
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        drop(self.disk.op()?);
        let mut content = lock(&self.content);
        content.now.resize(len as usize, 0);
        let sectors = len.div_ceil(SECTOR as u64);
        content.punched.retain(|sector| *sector < sectors);
        content.pending.push(Change::Cut(len));
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(lock(&self.content).now.len() as u64)
    }
}

impl Disk for FaultyDisk {
    fn monotonic(&self) -> Instant {
        lock(&self.0).now
    }

    fn create(&self, name: &str, len: u64) -> io::Result<Arc<dyn File>> {
        let mut state = self.op()?;
        if state.files.contains_key(name) {
            return Err(ErrorKind::AlreadyExists.into());
        }
        if state.room.is_some_and(|room| taken(&state) + len > room) {
            return Err(if state.quota { ErrorKind::QuotaExceeded } else { ErrorKind::StorageFull }.into());
        }
        let bytes = vec![0; len as usize];
        let content = Content { now: bytes.clone(), durable: bytes, ..Content::default() };
        let content = Arc::new(Mutex::new(content));
        state.files.insert(name.to_owned(), content.clone());
        Ok(Arc::new(FaultyFile { disk: self.clone(), content }))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        if lock(&self.0).read_only {
            return Err(ErrorKind::ReadOnlyFilesystem.into());
        }
        self.open_to_read(name)
    }

    fn open_to_read(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let state = lock(&self.0);
        let content = state.files.get(name).ok_or(ErrorKind::NotFound)?.clone();
        let hook = state.on_open.as_ref().filter(|(hooked, _)| hooked == name).map(|(_, hook)| hook.clone());
        drop(state);
        hook.map_or(Ok(()), |Hook(hook)| hook())?;
        Ok(Arc::new(FaultyFile { disk: self.clone(), content }))
    }

    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        let state = lock(&self.0);
        let inside = |name: &String| match folder {
            "." => (!name.contains('/')).then(|| name.clone()),
            _ => name.strip_prefix(folder)?.strip_prefix('/').map(str::to_owned),
        };
        Ok(state.files.keys().filter_map(inside).collect())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.op()?.files.remove(name).map(drop).ok_or(ErrorKind::NotFound.into())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.op()?;
        let inside = format!("{from}/");
        let moved = |name: &String| Some((name.clone(), format!("{to}/{}", name.strip_prefix(&inside)?)));
        let mut names: Vec<_> = state.files.keys().filter_map(moved).collect();
        if state.files.contains_key(from) {
            names.push((from.to_owned(), to.to_owned()));
        }
        if names.is_empty() {
            return Err(ErrorKind::NotFound.into());
        }
        for (from, to) in names {
            let content = state.files.remove(&from).ok_or(ErrorKind::NotFound)?;
            state.files.insert(to, content);
        }
        Ok(())
    }

    fn sync_dir(&self, folder: &str) -> io::Result<()> {
        let mut state = self.op()?;
        if state.fail_folder.as_deref() == Some(folder) {
            return Err(io::Error::from_raw_os_error(rustix::io::Errno::MFILE.raw_os_error()));
        }
        let inside = |name: &str| match folder {
            "." => !name.contains('/'),
            _ => name.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/')),
        };
        state.durable.retain(|name, _| !inside(name));
        let now: Vec<_> = state
            .files
            .iter()
            .filter(|(name, _)| inside(name))
            .map(|(name, content)| (name.clone(), content.clone()))
            .collect();
        state.durable.extend(now);
        Ok(())
    }

    fn free_bytes(&self) -> io::Result<u64> {
        let state = lock(&self.0);
        Ok(state
            .room
            .filter(|_| !state.quota)
            .map_or(u64::MAX / 2, |room| room.saturating_sub(taken(&state))))
    }

    fn punches(&self) -> bool {
        !lock(&self.0).no_holes
    }

    fn lock(&self) -> io::Result<Lock> {
        let mut state = lock(&self.0);
        if state.locked {
            return Err(ErrorKind::WouldBlock.into());
        }
        state.locked = true;
        Ok(Box::new(Unlock(self.clone())))
    }

    fn native(&self, _folder: &str) -> Option<PathBuf> {
        None
    }
}

struct Unlock(FaultyDisk);

impl Drop for Unlock {
    fn drop(&mut self) {
        lock(&self.0.0).locked = false;
    }
}
