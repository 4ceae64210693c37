//! The inside of a disk: files by number, names, room, time, and the fuse.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use super::file::{File, Loss};
use super::image::{Image, PAGE};
use super::names::{FileId, Names};
use skerry_scenario::clock::{millis, seconds};
use skerry_scenario::draw::{Draw, Ppm};

/// What kind of disk it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manner {
    /// Bytes it takes; none is no limit.
    pub capacity: Option<u64>,
    /// Bytes that are written as a whole or not at all: 512 or 4096.
    pub sector: u64,
    /// How long a sync takes.
    pub sync: RangeInclusive<Duration>,
    /// Syncs that take very long: SD cards do that.
    pub stall: Ppm,
    /// Syncs that fail. Nothing of what they should have synced is durable then, nor with the next sync.
    pub sync_fails: Ppm,
    /// Whether syncs do nothing and say that they did.
    pub lying: bool,
}

impl Default for Manner {
    fn default() -> Self {
        Self {
            capacity: None,
            sector: 512,
            sync: millis(1)..=millis(8),
            stall: Ppm::NEVER,
            sync_fails: Ppm::NEVER,
            lying: false,
        }
    }
}

impl Manner {
    /// Any disk.
    pub fn sample(draw: &mut Draw) -> Self {
        let slowest = draw.pick(&[2, 10, 60]).copied().unwrap_or(10);
        Self {
            sector: if draw.chance(Ppm::percent(50)) { 512 } else { 4096 },
            sync: millis(1)..=millis(slowest),
            stall: if draw.chance(Ppm::percent(20)) { Ppm::percent(1) } else { Ppm::NEVER },
            ..Self::default()
        }
    }
}

/// What a backup holds: durable names with their durable bytes.
#[derive(Debug, Clone, Default)]
pub struct Snapshot(BTreeMap<String, Image>);

impl Snapshot {
    /// How many files it holds.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

struct Held {
    file: File,
    open: Arc<()>,
}

pub(super) struct State {
    pub(super) manner: Manner,
    pub(super) names: Names,
    pub(super) lock: Arc<()>,
    pub(super) life: u64,
    pub(super) busy: Duration,
    pub(super) calls: u64,
    files: BTreeMap<FileId, Held>,
    next: FileId,
    fuse: Option<u64>,
    dead: bool,
    draw: Draw,
}

impl State {
    pub(super) fn new(manner: Manner, draw: Draw) -> Self {
        Self {
            manner,
            names: Names::default(),
            lock: Arc::new(()),
            life: 0,
            busy: Duration::ZERO,
            calls: 0,
            files: BTreeMap::new(),
            next: 0,
            fuse: None,
            dead: false,
            draw,
        }
    }

    pub(super) const fn set_fuse(&mut self, calls: Option<u64>) {
        self.fuse = calls;
    }

    pub(super) const fn is_dead(&self) -> bool {
        self.dead
    }

    /// Every call passes here: it takes time, and the power may fail at it.
    pub(super) fn call(&mut self) -> io::Result<()> {
        self.calls += 1;
        self.busy += Duration::from_micros(5);
        match self.fuse {
            Some(0) => self.dead = true,
            Some(left) => self.fuse = Some(left - 1),
            None => {}
        }
        if self.dead { Err(io::Error::other("the power is gone")) } else { Ok(()) }
    }

    pub(super) fn file(&mut self, id: FileId) -> io::Result<&mut File> {
        self.files.get_mut(&id).map(|held| &mut held.file).ok_or_else(|| ErrorKind::NotFound.into())
    }

    pub(super) fn token(&self, id: FileId) -> io::Result<Arc<()>> {
        self.files.get(&id).map(|held| Arc::clone(&held.open)).ok_or_else(|| ErrorKind::NotFound.into())
    }

    pub(super) fn used(&self) -> u64 {
        let visible = |id: &FileId| self.files.get(id).map_or(0, |held| held.file.current().allocated());
        self.names.current().values().map(visible).sum()
    }

    pub(super) fn free(&self) -> u64 {
        self.manner.capacity.map_or(1 << 40, |capacity| capacity.saturating_sub(self.used()))
    }

    fn take_room(&self, bytes: u64) -> io::Result<()> {
        let enough = self.manner.capacity.is_none() || bytes <= self.free();
        if enough { Ok(()) } else { Err(ErrorKind::StorageFull.into()) }
    }

    pub(super) fn create(&mut self, name: &str, len: u64) -> io::Result<FileId> {
        self.call()?;
        if self.names.find(name).is_some() {
            return Err(ErrorKind::AlreadyExists.into());
        }
        self.take_room(len.next_multiple_of(PAGE as u64))?;
        self.next += 1;
        let mut file = File::default();
        file.allocate(0, len);
        self.files.insert(self.next, Held { file, open: Arc::new(()) });
        self.names.create(name, self.next);
        Ok(self.next)
    }

    pub(super) fn write(&mut self, id: FileId, offset: u64, parts: &[&[u8]]) -> io::Result<()> {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        let added = self.file(id)?.current().pages_added_by(offset, length);
        self.take_room(added * PAGE as u64)?;
        self.busy += Duration::from_nanos(length as u64 * 10);
        let file = self.file(id)?;
        let mut at = offset;
        for part in parts {
            file.write(at, part);
            at += part.len() as u64;
        }
        Ok(())
    }

    fn take_sync_time(&mut self) {
        let stalled = self.draw.chance(self.manner.stall);
        let usual = self.draw.span(self.manner.sync.clone());
        self.busy += if stalled { self.draw.span(millis(200)..=seconds(4)) } else { usual };
    }

    pub(super) fn sync(&mut self, id: FileId) -> io::Result<()> {
        self.take_sync_time();
        if self.draw.chance(self.manner.sync_fails) {
            self.file(id)?.fail_sync();
            return Err(io::Error::other("the disk reports an error"));
        }
        if !self.manner.lying {
            self.file(id)?.sync();
        }
        Ok(())
    }

    pub(super) fn sync_dir(&mut self, folder: &str) -> io::Result<()> {
        self.call()?;
        self.take_sync_time();
        if !self.manner.lying {
            self.names.sync(folder);
            self.sweep();
        }
        Ok(())
    }

    /// Forgets files that no name can mean any more and nobody has open.
    pub(super) fn sweep(&mut self) {
        let alive = self.names.alive();
        self.files.retain(|id, held| alive.contains(id) || Arc::strong_count(&held.open) > 1);
    }

    fn next_life(&mut self) {
        self.life += 1;
        self.fuse = None;
        self.dead = false;
        self.lock = Arc::new(());
        self.busy = Duration::ZERO;
    }

    pub(super) fn lose_process(&mut self) {
        self.next_life();
    }

    pub(super) fn lose_power(&mut self) {
        self.next_life();
        let sector = self.manner.sector;
        self.names.lose_power(&mut self.draw);
        let loss = Loss::draw(&mut self.draw);
        for held in self.files.values_mut().filter(|held| !held.file.is_clean()) {
            held.file.lose_power(loss, sector, &mut self.draw);
        }
        let alive = self.names.alive();
        self.files.retain(|id, _| alive.contains(id));
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        let image = |id: &FileId| self.files.get(id).map(|held| held.file.durable().clone());
        let files = self.names.durable().iter();
        Snapshot(files.filter_map(|(name, id)| Some((name.clone(), image(id)?))).collect())
    }

    pub(super) fn restore(&mut self, snapshot: &Snapshot) {
        self.next_life();
        self.files.clear();
        let mut names = BTreeMap::new();
        for (name, image) in &snapshot.0 {
            self.next += 1;
            names.insert(name.clone(), self.next);
            self.files.insert(self.next, Held { file: File::settled(image.clone()), open: Arc::new(()) });
        }
        self.names = Names::settled(names);
    }

    pub(super) fn rot(&mut self, prefix: &str) -> Option<(String, u64)> {
        let names = self.names.durable().iter().filter(|(name, _)| name.starts_with(prefix));
        let names: Vec<_> = names.map(|(name, id)| (name.clone(), *id)).collect();
        let (name, id) = self.draw.pick(&names)?.clone();
        let (at, bit) = (self.draw.number(), self.draw.below(8) as u32);
        Some((name, self.files.get_mut(&id)?.file.rot(at, bit)?))
    }

    /// The same within so many bytes of a place where these stand.
    pub(super) fn rot_at(&mut self, prefix: &str, mark: &[u8], within: u64) -> Option<(String, u64)> {
        let names = self.names.durable().iter().filter(|(name, _)| name.starts_with(prefix));
        let mut places = Vec::new();
        for (name, id) in names {
            let Some(stored) = self.files.get(id) else { continue };
            let mut bytes = vec![0; stored.file.current().len() as usize];
            stored.file.current().read(0, &mut bytes);
            let found = bytes.windows(mark.len()).enumerate().filter(|(_, window)| *window == mark);
            places.extend(found.map(|(at, _)| (name.clone(), *id, at as u64)));
        }
        let (name, id, at) = self.draw.pick(&places)?.clone();
        let (at, bit) = (at + self.draw.below(within), self.draw.below(8) as u32);
        self.files.get_mut(&id)?.file.rot_there(at, bit).then_some((name, at))
    }
}
