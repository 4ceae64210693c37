//! One commit group: what waits runs in order, then a little of what goes behind; one write, one sync, then the index, then
//! the answers.
//!
//! Order of durability: payload that a group refers to, its journal frames, the index (whenever it flushes).

use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};

use skerry_base::kv::View;

use super::changes::{Changes, Placed};
use super::once::Once;
use super::queue::{Asked, Job};
use super::{Core, Entry, SmallBody, Store, unwritable};
use crate::StorageError;
use crate::chunks::Key;
use crate::chunks::live::Fresh;
use crate::chunks::row::{Applied, Area, Place};
use crate::disk::Disk;
use crate::error::is_of_the_medium;
use crate::journal::frame::{BodyLine, Kind};
use crate::journal::writer::Sealed;

type Outcome = Result<(), StorageError>;

/// What ran in a group, and what became of it.
type Ran = Vec<(Box<dyn Job>, Outcome)>;

/// How far a group goes before its answers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// The operating system has it.
    System,
    /// It is on disk.
    Disk,
    /// It is, with all payload written so far.
    Everything,
}

/// A commit group while it is made.
struct Group<'c> {
    changes: Changes<'c>,
    /// Somebody wants all payload durable.
    settles: bool,
    /// Nobody needs it on the disk.
    lazy: bool,
    /// Proposals and steps that ran.
    runs: usize,
    /// What they asked for: entries, one at least for each, and what these are long ([`AS_ONE`]).
    work: usize,
}

/// What a frame may take of the journal's reserve.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Room {
    /// Nothing of it.
    Ordinary,
    /// Half of it: it lets go of something, or moves it so that its segment can go.
    Freeing,
    /// The last of it: what it notes gives room back.
    Collector,
}

/// Bytes, of entries and what lies beside them, that take the turns of one more entry of what goes behind: who waits for a group waits
/// for what it writes. A group of 128 is half a MiB at most, two hundredths of a second of a card that writes 25 MB/s.
const AS_ONE: usize = 4 << 10;

/// Of `memtable_bytes`, in halves: what the index has not flushed when writes are refused. Who commits helps as soon as it is all of
/// it, so there is more only where flushes fail (and the collector has applied something since).
const REFUSED_FROM: u64 = 3;

/// The same for what lets go of something: without deletes a full disk would stay full.
const FREEING_REFUSED_FROM: u64 = 6;

impl Store {
    /// Carries out one commit group on the calling thread and returns how many proposals and steps it took: the
    /// simulator's way. Deterministic: no clock, no randomness, no other thread.
    pub fn pump(&self) -> usize {
        if self.queue.is_empty() {
            return 0;
        }
        if self.space.is_short() {
            self.relieve_if_idle();
        }
        self.help_if_behind();
        let (count, ran) = self.group(self.queue.take(self.settings.group_proposals));
        for (job, outcome) in ran {
            if outcome.is_ok() && job.goes_on() {
                self.queue.put_back(job);
            } else {
                job.end(outcome);
            }
        }
        self.tend_if_alone();
        count
    }

    /// As [`Store::pump`]; a panic (of the index engine, on damaged files) poisons the store instead of ending the
    /// thread and leaving everyone to wait. Who proposed in that group hears nothing but the drop of `done`.
    pub(super) fn pump_guarded(&self) {
        let pumped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.pump()));
        if pumped.is_err() {
            self.note_panic();
        }
    }

    /// Code below the store panicked.
    pub(super) fn note_panic(&self) {
        self.health.note_bad();
        self.poison(&StorageError::Index("the engine panicked".into()));
    }

    /// Without a thread of its own the index is tended by who commits; with one it is told that there is something to do.
    fn tend_if_alone(&self) {
        if !self.index.wants_tending() && !self.has_new_segments() || !self.may_flush() {
            return;
        }
        if self.tended.load(Ordering::Acquire) {
            self.tend_signal.raise();
        } else {
            unflushed(self.tend());
        }
    }

    /// Where the thread that tends the index cannot keep up, who commits helps before more is added, and after those were answered
    /// who filled it.
    fn help_if_behind(&self) {
        if self.tended.load(Ordering::Acquire) && self.index.is_behind() && self.may_flush() {
            unflushed(self.help());
        }
    }

    /// One that failed a moment ago would fail again, and cost what the first one did.
    pub(super) fn may_flush(&self) -> bool {
        self.retry.is_due(|| self.disk.monotonic())
    }

    /// Large bodies make few rows: without this, bodies of hours would wait for a full memtable, and every byte of
    /// them would be read again after a crash.
    fn has_new_segments(&self) -> bool {
        *self.checked.lock().unwrap_or_else(PoisonError::into_inner) != self.active_segments()
    }

    pub(super) fn active_segments(&self) -> (u32, u32) {
        (self.payload.tail().0, self.cache.tail().0)
    }

    /// Flushes and compacts the index as it asks for, and checkpoints it once per payload or cache segment.
    pub(super) fn tend(&self) -> Outcome {
        let active = self.active_segments();
        if self.has_new_segments() {
            self.checkpoint_index()?;
            *self.checked.lock().unwrap_or_else(PoisonError::into_inner) = active;
        }
        let secure = || self.secure();
        self.flushed(self.index.tend(if self.settings.lazy { Some(&secure) } else { None }))
    }

    fn help(&self) -> Outcome {
        let secure = || self.secure();
        self.flushed(self.index.help(if self.settings.lazy { Some(&secure) } else { None }))
    }

    pub(super) fn checkpoint_index(&self) -> Outcome {
        let secure = || self.secure();
        self.flushed(self.index.checkpoint(if self.settings.lazy { Some(&secure) } else { None }))
    }

    fn flushed(&self, outcome: Outcome) -> Outcome {
        self.retry.tried(self.index.failed_flushes(), self.disk.monotonic());
        self.judged(outcome)
    }

    /// Notes an index of which a part does not read: nobody else may ever ask for that part, and the next start mends it.
    pub(super) fn judged<T>(&self, outcome: Result<T, StorageError>) -> Result<T, StorageError> {
        outcome.inspect_err(|error| {
            if matches!(error, StorageError::Index(_)) {
                self.health.note_bad();
            }
        })
    }

    /// Makes durable what was answered before it was, if anything was. Waits for no step of the collector, so that who calls
    /// it every few seconds bounds by that what a power cut may cost.
    pub fn sync_answered(&self) -> Result<(), StorageError> {
        self.check_poison()?;
        if self.settings.lazy { self.secure() } else { Ok(()) }
    }

    /// Makes durable what was answered before it was, payload before journal: called now and then, so that a power cut
    /// costs little, and before the index flushes, which must never know more than the journal.
    pub(super) fn secure(&self) -> Outcome {
        if self.unsynced.load(Ordering::Acquire) == 0 && !self.live.lock().is_trusted() {
            return Ok(());
        }
        self.sync_payload()?;
        let mut core = self.core();
        self.check_poison()?;
        let synced = core.writer.sync(&self.journal_meter);
        synced.map_err(|error| self.poison_journal(&core, &error))?;
        self.unsynced.store(core.writer.unsynced(), Ordering::Release);
        Ok(())
    }

    fn group(&self, jobs: Vec<Box<dyn Job>>) -> (usize, Ran) {
        let mut core = self.core();
        let reading = self.view();
        let once = Once::over(&reading);
        let changes = Changes::over(&once, core.mark + 1);
        let mut group = Group { changes, settles: false, lazy: self.settings.lazy, runs: 0, work: 0 };
        let behind =
            if jobs.is_empty() { self.settings.group_behind } else { self.settings.group_behind / 8 };
        let run = |mut job: Box<dyn Job>| {
            let outcome = self.run(&mut core, &mut group, &mut *job);
            (job, outcome)
        };
        let mut ran: Ran = jobs.into_iter().map(run).collect();
        self.run_behind(&mut core, &mut group, behind, &mut ran);
        let runs = group.runs;
        if core.writer.has_staged() || group.settles {
            let durable = self.check_poison().and_then(|()| self.finish(&mut core, group));
            if let Err(error) = durable {
                for (_, outcome) in ran.iter_mut().filter(|(_, outcome)| outcome.is_ok()) {
                    *outcome = Err(error.clone());
                }
            }
        }
        (runs, ran)
    }

    /// Runs a proposal, or a step of it, over what the group has so far.
    fn run(&self, core: &mut Core, group: &mut Group<'_>, job: &mut dyn Job) -> Outcome {
        (group.runs, group.work) = (group.runs + 1, group.work + 1);
        self.check_poison()?;
        match job.run(&group.changes.view()) {
            Asked::Nothing => Ok(()),
            Asked::Settle => {
                group.settles = true;
                Ok(())
            }
            Asked::Entries(entries) => {
                group.lazy &= entries.iter().all(|entry| entry.lazy);
                let bytes: usize = entries.iter().map(Entry::len).sum();
                group.work += entries.len().saturating_sub(1) + bytes / AS_ONE;
                self.judged(self.take_in(core, &mut group.changes, &entries))
            }
        }
    }

    /// Takes of what goes behind: one step at least, and no further once somebody came who waits, or so many entries are in.
    fn run_behind(&self, core: &mut Core, group: &mut Group<'_>, most: usize, ran: &mut Ran) {
        let before = group.work;
        while let Some(mut job) = self.queue.take_behind() {
            let mut is_enough;
            let outcome = loop {
                let outcome = self.run(core, group, &mut *job);
                is_enough = group.work - before >= most || self.queue.is_asked();
                if outcome.is_err() || !job.goes_on() || is_enough {
                    break outcome;
                }
                // Who serves clients may wait for this processor, and brings the next that goes ahead.
                std::thread::yield_now();
            };
            ran.push((job, outcome));
            if is_enough {
                return;
            }
        }
    }

    /// Ends a group of which something is to become durable.
    fn finish(&self, core: &mut Core, group: Group<'_>) -> Outcome {
        let reach = match (group.settles, group.lazy) {
            (true, _) => Reach::Everything,
            (_, true) => Reach::System,
            _ => Reach::Disk,
        };
        self.make_durable(core, group.changes, reach)
    }

    /// Reduces and stages the entries of one proposal. After an error nothing of it is left.
    fn take_in(&self, core: &mut Core, changes: &mut Changes<'_>, entries: &[Entry]) -> Outcome {
        let batch = changes.reduce(&*self.reducer, entries.iter().map(|entry| entry.data.as_slice()))?;
        let bodies = self.new_bodies(changes, entries)?;
        for reference in &batch.references {
            // Loaded now, so that nothing can fail once the frame is staged.
            changes.row((reference.domain, reference.chunk))?;
        }
        let parts: Vec<&[u8]> = entries.iter().map(|entry| entry.data.as_slice()).collect();
        let lines: Vec<(BodyLine, &[u8])> = bodies
            .iter()
            .map(|body| {
                let (len, crc) = (body.bytes().len() as u32, body.crc());
                (BodyLine { domain: body.domain(), id: body.id(), len, crc }, body.bytes().as_ref())
            })
            .collect();
        let frees = entries.iter().all(|entry| entry.frees);
        self.wait_for_index(if frees { FREEING_REFUSED_FROM } else { REFUSED_FROM })?;
        self.make_room(core, &parts, &lines, if frees { Room::Freeing } else { Room::Ordinary })?;
        let staged = core.writer.stage(Kind::Entries, &parts, &lines)?;
        let mut offset = staged.bodies_at;
        for (line, _) in &lines {
            let place = Place { area: Area::Journal, segment: staged.segment, offset, crc: line.crc };
            changes.place((line.domain, line.id), &leaf(place, line.len))?;
            offset += u64::from(line.len);
        }
        changes.absorb(batch)
    }

    /// What the index could not flush lies in memory: while flushes fail, writes that add to it are refused before it is all there
    /// is. Each that is refused has the flush tried again, once that is due ([`super::retry::Retry`]).
    fn wait_for_index(&self, halves: u64) -> Outcome {
        if self.index.unflushed() < self.settings.memtable_bytes / 2 * halves {
            return Ok(());
        }
        if self.space.disk_free() < self.settings.memtable_bytes {
            self.space.note_full(true);
            return Err(StorageError::Full);
        }
        Err(StorageError::Behind)
    }

    /// The bodies that are not here already, each once.
    fn new_bodies<'e>(
        &self,
        changes: &mut Changes<'_>,
        entries: &'e [Entry],
    ) -> Result<Vec<&'e SmallBody>, StorageError> {
        let mut new: Vec<&SmallBody> = Vec::new();
        for body in entries.iter().flat_map(|entry| &entry.bodies) {
            let limit = skerry_base::limits::JOURNAL_BODY_BYTES as u64;
            if body.bytes().len() as u64 > limit {
                return Err(StorageError::TooLarge { found: body.bytes().len() as u64, limit });
            }
            let key: Key = (body.domain(), body.id());
            let placed = changes.row(key)?.place.is_some_and(|place| place.area != Area::Cache);
            let damaged = self.live.lock().damaged.contains(&key);
            if (!placed || damaged) && !new.iter().any(|other| (other.domain(), other.id()) == key) {
                new.push(body);
            }
        }
        Ok(new)
    }

    /// Sees to it that a frame has a place. Ordinary writes leave the reserve alone: they are refused as long as it
    /// is not complete, so that what they free is used to complete it first. Deletes leave half of it: many free nothing
    /// here, and without a place for its notes the collector could give back nothing at all.
    pub(super) fn make_room(
        &self,
        core: &mut Core,
        entries: &[&[u8]],
        bodies: &[(BodyLine, &[u8])],
        room: Room,
    ) -> Outcome {
        let len = crate::journal::frame::frame_len(
            entries.iter().map(|entry| entry.len()),
            bodies.iter().map(|(_, bytes)| bytes.len()),
        );
        let rolls = usize::from(core.writer.would_roll(len));
        let reserve = self.settings.reserve_segments as usize;
        let wanted = match room {
            Room::Ordinary => reserve + rolls,
            Room::Freeing => rolls * (1 + reserve / 2),
            Room::Collector => rolls,
        };
        let refused = self.add_spares(core, wanted);
        if matches!(refused, Err(StorageError::Full)) {
            self.space.note_full(true);
        } else if refused.is_ok() && room == Room::Ordinary && self.space.is_full() {
            self.space.note_full(false);
        }
        refused
    }

    /// Makes spare segments until there are so many.
    pub(super) fn add_spares(&self, core: &mut Core, wanted: usize) -> Outcome {
        let added = self.try_add_spares(core, wanted);
        self.note_journal_room(core);
        added
    }

    fn try_add_spares(&self, core: &mut Core, wanted: usize) -> Outcome {
        while core.writer.spares() < wanted {
            let len = core.writer.segment_bytes();
            if !self.space.has_room(len) {
                return Err(StorageError::Full);
            }
            let number = core.writer.add_spare()?;
            self.space.resized(Area::Journal, number, len);
            self.space.lacks();
        }
        Ok(())
    }

    pub(super) fn note_journal_room(&self, core: &Core) {
        self.space.note_journal_room(core.writer.room(self.settings.reserve_segments as usize));
    }

    /// Makes what was staged and reduced durable, as far as it is asked for, and visible.
    fn make_durable(&self, core: &mut Core, mut changes: Changes<'_>, reach: Reach) -> Outcome {
        // A sealed segment is synced: what it refers to must be there.
        let waits = reach == Reach::System && !core.writer.seals();
        if waits {
            self.live.lock().trust_unsynced();
        } else if reach != Reach::Disk || self.refers_unsynced(&changes) {
            self.sync_payload()?;
        }
        let is_noted = core.writer.has_staged();
        let written = core.writer.write(&self.journal_meter, waits);
        self.note_journal_room(core);
        let sealed = written.map_err(|error| self.poison_journal(core, &error))?;
        self.unsynced.store(core.writer.unsynced(), Ordering::Release);
        self.note_sealed(&sealed);
        let is_wanted = is_noted || (reach != Reach::Everything && changes.len() > 0);
        let ready = self.entering(&mut changes, is_wanted)?;
        self.judged(self.apply(core, changes, &ready)).map_err(|error| self.poison(&error))
    }

    /// The chunks that enter the index with this group. One of which the index cannot be asked just now stays as it is and enters
    /// with a later group: what is in the journal is to be applied, and what gives space back does not wait for it. A group that is for
    /// nothing else (`is_wanted`) fails instead, so that nobody waits for what does not come.
    fn entering(
        &self,
        changes: &mut Changes<'_>,
        is_wanted: bool,
    ) -> Result<Vec<(Key, Fresh)>, StorageError> {
        let ready = self.live.lock().take_ready();
        let (mut entering, mut refused) = (Vec::with_capacity(ready.len()), Ok(()));
        for (key, fresh) in ready {
            let loaded = changes.load(key, &fresh.children);
            match loaded.and_then(|()| changes.place(key, &fresh.placed())) {
                Ok(()) => entering.push((key, fresh)),
                Err(error) => {
                    self.live.lock().enters_later(key);
                    refused = Err(error);
                }
            }
        }
        match self.judged(refused) {
            Err(error) if !is_wanted => {
                let mut inner = self.live.lock();
                entering.iter().for_each(|(key, _)| inner.enters_later(*key));
                return Err(error);
            }
            Err(error) => tracing::warn!(%error, "chunks enter the index later"),
            Ok(()) => {}
        }
        Ok(entering)
    }

    /// Whether the group refers to payload that is not on the disk yet; what a sync under way covers is not.
    pub(super) fn refers_unsynced(&self, changes: &Changes<'_>) -> bool {
        let inner = self.live.lock();
        // What was trusted is in the index, and what this group refers to may be of it.
        if inner.is_trusted() || inner.mends_unsynced() {
            return true;
        }
        // What a tree lists that was here already may have been lost, and have come again a moment ago.
        let lists = |key| inner.is_fresh_tree(key) && !inner.is_settled();
        changes.referred().any(|key| inner.is_unsynced(key) || lists(key))
            || (changes.wants_a_tree() && !inner.is_settled())
    }

    fn note_sealed(&self, sealed: &[Sealed]) {
        for segment in sealed {
            self.space.resized(Area::Journal, segment.number, segment.len);
        }
    }

    /// Brings the index to the journal's end, and the chunks that enter it with it.
    pub(super) fn apply(&self, core: &mut Core, changes: Changes<'_>, ready: &[(Key, Fresh)]) -> Outcome {
        core.mark += 1;
        {
            let mut inner = self.live.lock();
            for (_, fresh) in ready {
                inner.indexed((fresh.place.area, fresh.place.segment, fresh.place.offset));
            }
        }
        let moved = changes.moved();
        let writes = changes.finish(&self.applied(core), &self.space);
        self.index.apply(&writes, core.mark)?;
        let mut inner = self.live.lock();
        for (key, fresh) in ready {
            inner.entered(*key, fresh.place);
        }
        let mut mended = Vec::new();
        for (key, is_gone) in &moved {
            let was_damaged = inner.damaged.remove(key);
            mended.extend((was_damaged && !is_gone).then_some(key));
            inner.misnamed.remove(key);
        }
        drop(inner);
        for (domain, chunk) in mended {
            tracing::info!(%domain, %chunk, "a damaged chunk was mended: it was written anew, and reads whole");
        }
        self.lsn.store(core.writer.tail().lsn - 1, Ordering::Release);
        Ok(())
    }

    /// What the index will have taken.
    pub(super) fn applied(&self, core: &Core) -> Applied {
        let tail = core.writer.tail();
        let inner = self.live.lock();
        // Places are taken under the same lock, so none is between the list and the tails.
        let payload = inner.first_unindexed(Area::Payload);
        let cache = inner.first_unindexed(Area::Cache);
        Applied {
            segment: tail.segment,
            offset: tail.offset,
            lsn: tail.lsn,
            previous: tail.previous,
            mark: core.mark,
            payload: payload.unwrap_or_else(|| self.payload.tail()),
            cache: cache.unwrap_or_else(|| self.cache.tail()),
        }
    }

    /// Syncs payload before the commit that refers to it asks for that: for who has something else to do meanwhile. Where another is
    /// at it nothing is done. What went wrong the commit is told: nothing is durable by this alone.
    pub fn sync_ahead(&self) {
        if let Ok(one) = self.syncing.try_lock() {
            drop(self.sync_payload_alone(&one));
        }
    }

    /// Syncs all payload written so far; returns when it is durable, also when another thread was at it.
    pub(super) fn sync_payload(&self) -> Outcome {
        let one = self.syncing.lock().unwrap_or_else(PoisonError::into_inner);
        self.sync_payload_alone(&one)
    }

    fn sync_payload_alone(&self, _one: &MutexGuard<'_, ()>) -> Outcome {
        // Who was at it has taken what waited: if that sync failed there is nothing left to sync here, and nothing durable.
        self.check_poison()?;
        let (keys, files) = self.live.lock().take_unsynced();
        for file in files {
            let synced = self.payload_meter.time(&*self.disk as &dyn Disk, || file.sync());
            // The pages may be gone though a second sync would succeed: only a new start knows what is there.
            synced.map_err(|error| {
                if is_of_the_medium(&error) {
                    // Or one before it, which is not written again in any case.
                    unwritable::note(&*self.disk, Area::Payload, self.payload.tail().0);
                }
                self.poison(&StorageError::stops("sync payload", &error))
            })?;
        }
        self.live.lock().sync_ended(keys);
        Ok(())
    }

    /// The journal could not be written: the next life goes on in another segment.
    fn poison_journal(&self, core: &Core, error: &StorageError) -> StorageError {
        if let Some(number) = core.writer.failed() {
            unwritable::note(&*self.disk, Area::Journal, number);
        }
        self.poison(error)
    }

    /// Runs changes of the store's own under the lock of the groups. Nothing is applied if `make` answers none.
    pub(super) fn own_group<T>(
        &self,
        make: impl FnOnce(&mut Core, &mut Changes<'_>, &dyn View) -> Result<Option<T>, StorageError>,
    ) -> Result<Option<T>, StorageError> {
        // Nobody else looks after what these add while no client writes.
        self.help_if_behind();
        let mut core = self.core();
        self.check_poison()?;
        let reading = self.view();
        let mut changes = Changes::over(&reading, core.mark + 1);
        let Some(made) = self.judged(make(&mut core, &mut changes, &reading))? else { return Ok(None) };
        self.make_durable(&mut core, changes, Reach::Disk)?;
        if self.index.wants_tending() && self.may_flush() {
            self.tend_signal.raise();
        }
        Ok(Some(made))
    }
}

/// The journal has it all; the memtable stays and the next attempt may succeed.
fn unflushed(tended: Outcome) {
    if let Err(error) = tended {
        tracing::warn!(%error, "the index was not flushed");
    }
}

/// A leaf that came to lie here.
pub(super) fn leaf(place: Place, stored: u32) -> Placed {
    Placed { place, tree: false, stored, children: [].into() }
}

impl Fresh {
    /// As the index will know it.
    pub(super) fn placed(&self) -> Placed {
        Placed { place: self.place, tree: self.tree, stored: self.stored, children: self.children.clone() }
    }
}
