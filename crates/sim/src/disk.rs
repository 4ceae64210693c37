//! Disks that lie as disks do: what was not synced may be lost or torn when the power goes.
//!
//! [`SimDisk`] stands below the production store as `storage::Disk`. It keeps two truths, what programs see and
//! what is durable, for the bytes of files and for their names, and it decides at a loss of power what becomes
//! of the difference. The power can be set to fail at any call to come (the fuse), so that a crash hits the
//! store in the middle of whatever it does.
//!
//! Invariant: nothing here makes durable what the store did not sync, except by the lottery of a power loss.

use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use skerry_storage::disk::Lock;

pub mod file;
pub mod image;
mod names;
mod state;

pub use state::{Manner, Snapshot};

use names::FileId;
use skerry_scenario::draw::Draw;
use state::State;

/// A disk. Clones are handles on the same one.
#[derive(Clone)]
pub struct SimDisk {
    state: Arc<Mutex<State>>,
}

/// One open file of one life of the process; after a crash it fails for ever.
struct Handle {
    state: Arc<Mutex<State>>,
    id: FileId,
    life: u64,
    /// Keeps a removed file while it is open.
    _open: Arc<()>,
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl SimDisk {
    /// An empty disk.
    pub fn new(manner: Manner, draw: Draw) -> Self {
        Self { state: Arc::new(Mutex::new(State::new(manner, draw))) }
    }

    /// The power fails at the call after so many more.
    pub fn set_fuse(&self, calls: u64) {
        lock(&self.state).set_fuse(Some(calls));
    }

    /// Takes the fuse out if it has not blown.
    pub fn clear_fuse(&self) {
        lock(&self.state).set_fuse(None);
    }

    /// Whether the fuse has blown: the machine is down.
    pub fn is_dead(&self) -> bool {
        lock(&self.state).is_dead()
    }

    /// The power goes (if the fuse has not taken it already) and comes back: what was not synced meets its fate.
    pub fn lose_power(&self) {
        lock(&self.state).lose_power();
    }

    /// The process dies and the machine does not: nothing is lost, and nothing becomes durable.
    pub fn lose_process(&self) {
        lock(&self.state).lose_process();
    }

    /// What is durable now: what a backup taken at this moment holds.
    pub fn snapshot(&self) -> Snapshot {
        lock(&self.state).snapshot()
    }

    /// Somebody puts a backup back, or clones a card: everything else on it is gone.
    pub fn restore(&self, snapshot: &Snapshot) {
        lock(&self.state).restore(snapshot);
    }

    /// How many bytes it takes; none is no limit.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        lock(&self.state).manner.capacity = bytes;
    }

    /// How often syncs fail.
    pub fn set_sync_fails(&self, share: skerry_scenario::draw::Ppm) {
        lock(&self.state).manner.sync_fails = share;
    }

    /// Whether syncs fail now and then.
    pub fn fails_syncs(&self) -> bool {
        lock(&self.state).manner.sync_fails != skerry_scenario::draw::Ppm::NEVER
    }

    /// Whether syncs do nothing and say that they did: the canary of the durability checkers.
    pub fn set_lying(&self, lying: bool) {
        lock(&self.state).manner.lying = lying;
    }

    /// Flips a durable bit in some file whose name starts with `prefix`; says where.
    pub fn rot(&self, prefix: &str) -> Option<(String, u64)> {
        lock(&self.state).rot(prefix)
    }

    /// The same within so many bytes of some place where these stand.
    pub fn rot_at(&self, prefix: &str, mark: &[u8], within: u64) -> Option<(String, u64)> {
        lock(&self.state).rot_at(prefix, mark, within)
    }

    /// How long the calls since the last question took.
    pub fn take_busy(&self) -> Duration {
        std::mem::take(&mut lock(&self.state).busy)
    }

    /// Bytes taken.
    pub fn used(&self) -> u64 {
        lock(&self.state).used()
    }

    /// Calls so far: the clock of the fuse.
    pub fn calls(&self) -> u64 {
        lock(&self.state).calls
    }

    fn handle(&self, id: FileId, state: &State) -> io::Result<Arc<dyn skerry_storage::File>> {
        let open = state.token(id)?;
        Ok(Arc::new(Handle { state: Arc::clone(&self.state), id, life: state.life, _open: open }))
    }
}

impl skerry_storage::Disk for SimDisk {
    fn create(&self, name: &str, len: u64) -> io::Result<Arc<dyn skerry_storage::File>> {
        let mut state = lock(&self.state);
        let id = state.create(name, len)?;
        self.handle(id, &state)
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn skerry_storage::File>> {
        let mut state = lock(&self.state);
        state.call()?;
        let id = state.names.find(name).ok_or(ErrorKind::NotFound)?;
        self.handle(id, &state)
    }

    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        let mut state = lock(&self.state);
        state.call()?;
        Ok(state.names.list(folder))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = lock(&self.state);
        state.call()?;
        state.names.remove(name)?;
        state.sweep();
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = lock(&self.state);
        state.call()?;
        state.names.rename(from, to)
    }

    fn sync_dir(&self, folder: &str) -> io::Result<()> {
        lock(&self.state).sync_dir(folder)
    }

    fn free_bytes(&self) -> io::Result<u64> {
        let mut state = lock(&self.state);
        state.call()?;
        Ok(state.free())
    }

    fn lock(&self) -> io::Result<Lock> {
        let mut state = lock(&self.state);
        state.call()?;
        if Arc::strong_count(&state.lock) > 1 {
            return Err(ErrorKind::WouldBlock.into());
        }
        Ok(Box::new(Arc::clone(&state.lock)))
    }

    fn native(&self, _folder: &str) -> Option<PathBuf> {
        None
    }
}

impl Handle {
    /// The disk, if this life of the process still has it.
    fn enter(&self) -> io::Result<MutexGuard<'_, State>> {
        let mut state = lock(&self.state);
        if state.life != self.life {
            return Err(io::Error::other("the process that opened this file is gone"));
        }
        state.call()?;
        Ok(state)
    }
}

impl skerry_storage::File for Handle {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        Ok(self.enter()?.file(self.id)?.current().read(offset, buf))
    }

    fn write_at(&self, offset: u64, parts: &[&[u8]]) -> io::Result<()> {
        self.enter()?.write(self.id, offset, parts)
    }

    fn sync(&self) -> io::Result<()> {
        self.enter()?.sync(self.id)
    }

    fn punch(&self, offset: u64, len: u64) -> io::Result<()> {
        self.enter()?.file(self.id)?.punch(offset, len);
        Ok(())
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.enter()?.file(self.id)?.set_len(len);
        Ok(())
    }

    fn release(&self, _offset: u64, _len: u64) {
        // All of the file: who asks for a part may get more, never less.
        if let Ok(mut state) = self.enter()
            && let Ok(file) = state.file(self.id)
        {
            file.release();
        }
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.enter()?.file(self.id)?.current().len())
    }

    fn next_data(&self, offset: u64) -> io::Result<Option<u64>> {
        Ok(self.enter()?.file(self.id)?.current().next_data(offset))
    }
}

#[cfg(test)]
#[path = "disk_tests.rs"]
mod tests;
