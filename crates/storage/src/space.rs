//! Who takes how much of the disk, and whether more may be taken.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::Settings;
use crate::chunks::row::Area;
use crate::disk::Disk;
use crate::store::ClassUsage;

/// One segment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Use {
    /// Bytes of the file.
    pub(crate) len: u64,
    /// Bytes of chunks that are stored in it (journal: bodies).
    pub(crate) live: u64,
    /// Bytes whose space was given back.
    pub(crate) freed: u64,
    /// Bytes that are to be given back.
    pub(crate) dead: u64,
}

/// The account of all segments.
pub(crate) struct Space {
    disk: Arc<dyn Disk>,
    capacity: Option<u64>,
    headroom: u64,
    segments: Mutex<BTreeMap<(Area, u32), Use>>,
    index_bytes: AtomicU64,
    full: AtomicBool,
    /// With less room than this, copies make way for what is written.
    margin: u64,
    /// Room that writes leave for moving what lives, where nothing can be punched: what a segment may hold.
    moving: u64,
    no_holes: AtomicBool,
    short: AtomicBool,
    /// Bytes that ordinary frames may take in what the journal has of segments.
    journal_room: AtomicU64,
}

impl Space {
    pub(crate) fn new(disk: Arc<dyn Disk>, settings: &Settings) -> Self {
        let no_holes = AtomicBool::new(!disk.punches());
        Self {
            disk,
            capacity: settings.capacity_bytes,
            headroom: settings.headroom_bytes,
            margin: settings.payload_segment_bytes + 2 * settings.journal_segment_bytes,
            moving: settings.payload_segment_bytes,
            no_holes,
            short: AtomicBool::new(false),
            segments: Mutex::default(),
            index_bytes: AtomicU64::new(0),
            full: AtomicBool::new(false),
            journal_room: AtomicU64::new(0),
        }
    }

    fn segments(&self) -> MutexGuard<'_, BTreeMap<(Area, u32), Use>> {
        self.segments.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the account of one segment.
    pub(crate) fn edit<T>(&self, area: Area, number: u32, change: impl FnOnce(&mut Use) -> T) -> T {
        change(self.segments().entry((area, number)).or_default())
    }

    /// The account of one segment.
    pub(crate) fn of(&self, area: Area, number: u32) -> Use {
        self.segments().get(&(area, number)).copied().unwrap_or_default()
    }

    /// A file was made or cut.
    pub(crate) fn resized(&self, area: Area, number: u32, len: u64) {
        self.edit(area, number, |used| used.len = len);
    }

    /// A file is gone.
    pub(crate) fn removed(&self, area: Area, number: u32) {
        self.segments().remove(&(area, number));
    }

    /// Segments of one class, in order.
    pub(crate) fn each(&self, area: Area) -> Vec<(u32, Use)> {
        self.segments()
            .range((area, 0)..=(area, u32::MAX))
            .map(|(&(_, number), &used)| (number, used))
            .collect()
    }

    /// Bytes of copies that live.
    pub(crate) fn cached(&self) -> u64 {
        self.segments().range((Area::Cache, 0)..).map(|(_, used)| used.live).sum()
    }

    /// What the index takes, as last measured.
    pub(crate) fn note_index(&self, bytes: u64) {
        self.index_bytes.store(bytes, Ordering::Relaxed);
    }

    pub(crate) fn index_bytes(&self) -> u64 {
        self.index_bytes.load(Ordering::Relaxed)
    }

    /// The file system gives back whole files only.
    pub(crate) fn note_no_holes(&self) {
        if !self.no_holes.swap(true, Ordering::Relaxed) {
            tracing::info!("this file system cannot punch holes: what lives is moved to get space back");
        }
    }

    /// Whether whole files only come back.
    pub(crate) fn has_no_holes(&self) -> bool {
        self.no_holes.load(Ordering::Relaxed)
    }

    /// Bytes that ordinary writes may still take.
    pub(crate) fn free(&self) -> u64 {
        self.left().saturating_sub(self.kept())
    }

    /// Whether what lives may be moved into this much.
    pub(crate) fn has_room_to_move(&self, bytes: u64) -> bool {
        self.left() >= bytes
    }

    /// Whether all of the room for moving is there, but for the end of a segment that was cut to its length.
    pub(crate) fn can_move(&self) -> bool {
        let kept = self.kept();
        self.left() >= kept - kept / 8
    }

    fn kept(&self) -> u64 {
        if self.has_no_holes() { self.moving } else { 0 }
    }

    fn left(&self) -> u64 {
        let on_disk = self.disk.free_bytes().unwrap_or(0);
        let allowed = self.capacity.map_or(u64::MAX, |capacity| {
            let used: u64 = self.segments().values().map(|used| used.len.saturating_sub(used.freed)).sum();
            capacity.saturating_sub(used + self.index_bytes())
        });
        on_disk.min(allowed).saturating_sub(self.headroom)
    }

    /// Whether an ordinary write may take this much.
    pub(crate) fn has_room(&self, bytes: u64) -> bool {
        self.free() >= bytes
    }

    /// Bytes by which the room is less than a few segments: so nearly full that it would be full at once.
    pub(crate) fn lacks(&self) -> u64 {
        let lacks = self.margin.saturating_sub(self.free());
        self.short.store(lacks > 0, Ordering::Relaxed);
        lacks
    }

    /// With less room than this the disk counts as nearly full.
    pub(crate) const fn margin(&self) -> u64 {
        self.margin
    }

    /// With so much room a disk that was full is not full again at once: the margin, or an eighth of a small capacity, but no
    /// less than what the next segment of the journal takes.
    pub(crate) fn spare(&self) -> u64 {
        let eighth = self.capacity.map_or(u64::MAX, |capacity| capacity / 8);
        self.margin.min(eighth.max(self.margin - self.moving))
    }

    /// Bytes that the disk itself has left, what is kept for the index among them.
    pub(crate) fn disk_free(&self) -> u64 {
        self.disk.free_bytes().unwrap_or(0)
    }

    /// Whether room was lacking when a segment was made last, or was looked for.
    pub(crate) fn is_short(&self) -> bool {
        self.short.load(Ordering::Relaxed)
    }

    /// Remembers how much ordinary frames may take in what the journal has of segments.
    pub(crate) fn note_journal_room(&self, bytes: u64) {
        self.journal_room.store(bytes, Ordering::Relaxed);
    }

    pub(crate) fn journal_room(&self) -> u64 {
        self.journal_room.load(Ordering::Relaxed)
    }

    /// Remembers whether the last who asked for room got it.
    pub(crate) fn note_full(&self, full: bool) {
        self.full.store(full, Ordering::Relaxed);
    }

    /// Whether the last who asked for room was refused.
    pub(crate) fn is_full(&self) -> bool {
        self.full.load(Ordering::Relaxed)
    }

    /// The sums of one class.
    pub(crate) fn usage(&self, area: Area) -> ClassUsage {
        let mut sum = ClassUsage::default();
        for (_, used) in self.each(area) {
            sum.segments += 1;
            sum.allocated += used.len.saturating_sub(used.freed);
            sum.live += used.live;
            sum.dead += used.dead;
        }
        sum
    }
}
