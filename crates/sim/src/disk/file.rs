//! One file as a disk really has it: what is durable, what programs see, and the changes between the two.
//!
//! When the power goes, every sector independently holds what some moment since the last sync left in it,
//! and the length is that of some such moment. Nothing orders one sector against another; that is the point.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::image::Image;
use skerry_scenario::draw::Draw;

/// What is done to a file and not yet durable.
#[derive(Debug, Clone)]
enum Change {
    Write { offset: u64, bytes: Bytes },
    Punch { offset: u64, length: u64 },
    Length(u64),
}

/// How the power takes what was not synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// All of it.
    All,
    /// None of it: the disk had just written everything back.
    Nothing,
    /// What came after some moment, and part of what came at that moment.
    Tail,
    /// Any sectors, whatever their order.
    Scattered,
}

/// All of [`Loss`], with the weights of a draw.
const LOSSES: [(Loss, u64); 4] = [(Loss::All, 2), (Loss::Nothing, 1), (Loss::Tail, 3), (Loss::Scattered, 4)];

impl Loss {
    /// One of them.
    pub fn draw(draw: &mut Draw) -> Self {
        let weights = LOSSES.map(|(_, weight)| weight);
        LOSSES.get(draw.weighted(&weights)).map_or(Self::All, |(loss, _)| *loss)
    }
}

/// A file.
#[derive(Debug, Clone, Default)]
pub struct File {
    durable: Image,
    current: Image,
    changes: Vec<Change>,
    /// Whether a failed sync has dropped some of what programs see.
    dropped: bool,
}

impl File {
    /// A file that has lain on the disk for long.
    pub fn settled(image: Image) -> Self {
        Self { durable: image.clone(), current: image, ..Self::default() }
    }

    /// What programs see.
    pub const fn current(&self) -> &Image {
        &self.current
    }

    /// What survives any loss of power.
    pub const fn durable(&self) -> &Image {
        &self.durable
    }

    /// Whether everything is durable.
    pub fn is_clean(&self) -> bool {
        self.changes.is_empty()
    }

    /// Writes; the end moves if need be.
    pub fn write(&mut self, offset: u64, bytes: &[u8]) {
        let before = self.current.len();
        self.current.write(offset, bytes);
        self.changes.push(Change::Write { offset, bytes: Bytes::copy_from_slice(bytes) });
        if self.current.len() > before {
            self.changes.push(Change::Length(self.current.len()));
        }
    }

    /// Makes a range read as zeros.
    pub fn punch(&mut self, offset: u64, length: u64) {
        let length = length.min(self.current.len().saturating_sub(offset));
        self.current.punch(offset, length);
        self.changes.push(Change::Punch { offset, length });
    }

    /// Moves the end.
    pub fn set_len(&mut self, length: u64) {
        self.current.set_len(length);
        self.changes.push(Change::Length(length));
    }

    /// Reserves space up to the end of a range and moves the end there if need be.
    pub fn allocate(&mut self, offset: u64, length: u64) {
        self.current.allocate(offset, length);
        let end = offset.saturating_add(length);
        if end > self.current.len() {
            self.set_len(end);
        }
    }

    /// Everything done so far becomes durable, but for what a failed sync has dropped.
    pub fn sync(&mut self) {
        self.durable = self.medium();
        self.changes.clear();
    }

    /// A sync fails as in a kernel: nothing arrives, the pages are clean all the same, and programs see them on.
    pub fn fail_sync(&mut self) {
        self.dropped |= !self.changes.is_empty();
        self.changes.clear();
    }

    /// What lies in memory only is forgotten: programs see what the medium has, and what waits to be written to it.
    pub fn release(&mut self) {
        if self.dropped {
            self.current = self.medium();
            self.dropped = false;
        }
    }

    /// What the medium has once all that waits is written.
    fn medium(&self) -> Image {
        if !self.dropped {
            return self.current.clone();
        }
        let mut image = self.durable.clone();
        for change in &self.changes {
            match change {
                Change::Write { offset, bytes } => image.write(*offset, bytes),
                Change::Punch { offset, length } => image.punch(*offset, *length),
                Change::Length(length) => image.set_len(*length),
            }
        }
        image
    }

    /// The bits of a durable byte rot, unseen by anybody.
    pub fn rot(&mut self, at: u64, bit: u32) -> Option<u64> {
        self.current.flip(at, bit);
        self.durable.flip(at, bit)
    }

    /// The same of the byte at this offset; false if none is stored there.
    pub fn rot_there(&mut self, offset: u64, bit: u32) -> bool {
        self.current.flip_there(offset, bit);
        self.durable.flip_there(offset, bit)
    }

    /// The power goes: of what was not synced, some sectors stay and some do not.
    pub fn lose_power(&mut self, loss: Loss, sector: u64, draw: &mut Draw) {
        let changes = std::mem::take(&mut self.changes);
        let mut fate = Fate::new(loss, changes.len(), sector, draw);
        let mut length = self.durable.len();
        for (number, change) in changes.iter().enumerate() {
            match change {
                Change::Write { offset, bytes } => {
                    fate.write(number, *offset, bytes, &mut self.durable, draw);
                }
                Change::Punch { offset, length } if fate.metadata > number => {
                    self.durable.punch(*offset, *length);
                }
                Change::Length(new) if fate.metadata > number => {
                    length = *new;
                    if length < self.durable.len() {
                        self.durable.set_len(length);
                    }
                }
                Change::Punch { .. } | Change::Length(_) => {}
            }
        }
        self.durable.set_len(length);
        self.current = self.durable.clone();
        self.dropped = false;
    }
}

/// Up to which change each sector got.
struct Fate {
    loss: Loss,
    sector: u64,
    changes: u64,
    /// Up to which change the length and the holes got: file systems keep those in order.
    metadata: usize,
    sectors: BTreeMap<u64, usize>,
}

impl Fate {
    fn new(loss: Loss, changes: usize, sector: u64, draw: &mut Draw) -> Self {
        let metadata = match loss {
            Loss::All => 0,
            Loss::Nothing => changes,
            Loss::Tail | Loss::Scattered => draw.between(0..=changes as u64) as usize,
        };
        Self { loss, sector, changes: changes as u64, metadata, sectors: BTreeMap::new() }
    }

    fn reached(&mut self, sector: u64, draw: &mut Draw) -> usize {
        match self.loss {
            Loss::All | Loss::Nothing => self.metadata,
            Loss::Tail => self.metadata + usize::from(draw.below(2) == 0),
            Loss::Scattered => {
                let changes = self.changes;
                *self.sectors.entry(sector).or_insert_with(|| draw.between(0..=changes) as usize)
            }
        }
    }

    /// Writes those sectors of a change that got as far as it.
    fn write(&mut self, number: usize, offset: u64, bytes: &[u8], image: &mut Image, draw: &mut Draw) {
        let mut at = offset;
        let mut rest = bytes;
        while !rest.is_empty() {
            let room = self.sector - at % self.sector;
            let (part, tail) = rest.split_at(rest.len().min(room as usize));
            if self.reached(at / self.sector, draw) > number {
                image.write(at, part);
            }
            at += part.len() as u64;
            rest = tail;
        }
    }
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
