//! Journal segments full of dead bodies are written anew without bodies: the living are moved on first.
//!
//! Punching gives back whole blocks only, which small bodies do not fill. So when moving what lives costs little
//! against what is gained, it is appended again (a note with bodies), and once the index of that group survives a crash
//! the segment is replaced by its heads: the records stay, the truth stays whole.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use skerry_base::codec::encode;

use super::Store;
use super::collect::Sweep;
use super::commit::{Room, leaf};
use super::report::Collected;
use crate::StorageError;
use crate::chunks::Key;
use crate::chunks::row::{Area, Note, Place};
use crate::disk::File;
use crate::fields::round_up;
use crate::journal::file_name;
use crate::journal::frame::{BODY_LINE, BodyLine, Kind};
use crate::journal::reader::{Met, walk_sealed};
use crate::journal::segment::{self, Footer, Line, SegmentHeader};
use crate::space::Use;

/// How the name of a segment ends while its heads are written.
pub(super) const STAGED: &str = ".stripped";
/// Bytes of bodies and their lines moved by one frame, in segments that hold two of them.
const FRAME: u64 = 256 << 10;
/// The least part of a segment that is worth writing it anew: one in this many.
const WORTH: u64 = 4;

/// Segments that one step measures: each is read whole.
const MEASURED: u32 = 4;

/// What is known of a sealed journal segment.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Strip {
    /// Bytes that a stripped one takes; none: not measured yet.
    heads: Option<u64>,
    /// Nothing lives in it since the group of this mark.
    empty_since: Option<u64>,
    /// Stripped already, or not whole: leave it.
    done: bool,
    /// What lived in it when some of that could not be moved: tried again once that has changed.
    stuck: Option<u64>,
}

impl Strip {
    /// Whether it is to be stripped.
    pub(super) const fn is_emptied(&self) -> bool {
        !self.done && self.empty_since.is_some()
    }

    /// Whether it is to be stripped once the index survives a crash.
    pub(super) fn waits_for(&self, durable: u64) -> bool {
        !self.done && self.empty_since.is_some_and(|mark| mark > durable)
    }

    /// Bytes that come back when it is.
    pub(super) fn gain(&self, used: Use) -> u64 {
        used.len.saturating_sub(used.freed + self.heads.unwrap_or(0))
    }
}

/// A body that lives in a segment.
struct Living {
    key: Key,
    place: Place,
    len: u32,
}

impl Store {
    /// Whether this file is a stripped segment.
    pub(super) fn is_stripped(&self, file: &Arc<dyn File>) -> Result<bool, StorageError> {
        let mut bytes = [0; segment::HEADER];
        file.read_at(0, &mut bytes).map_err(|error| StorageError::io("read a journal segment", &error))?;
        Ok(SegmentHeader::read(&bytes, &self.salt).is_none_or(|header| header.stripped))
    }

    /// None: there is no such file, so there is nothing to be had from it.
    fn journal_file(&self, number: u32) -> Result<Option<Arc<dyn File>>, StorageError> {
        match self.files.get(Area::Journal, number) {
            Ok(file) => Ok(Some(file)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(StorageError::io("open a journal segment", &error)),
        }
    }

    /// Moves what lives out of at most one segment: the one that gives most back for what has to be moved.
    pub(super) fn move_living(&self, sweep: &mut Sweep, done: &mut Collected) -> Result<(), StorageError> {
        let active = self.core().writer.tail().segment;
        let pressed = done.pressed && self.must_move(sweep)?;
        let mut best: Option<(u32, u64, u64)> = None;
        let mut measures = MEASURED;
        for (number, used) in self.space.each(Area::Journal) {
            if number >= active {
                break;
            }
            let Some(gain) = self.gain(sweep, number, used, pressed, &mut measures)? else { continue };
            if used.live > 0 {
                let is_better = |&(_, live, most): &(u32, u64, u64)| {
                    u128::from(used.live) * u128::from(most) < u128::from(live) * u128::from(gain)
                };
                if best.as_ref().is_none_or(is_better) {
                    best = Some((number, used.live, gain));
                }
            } else if number >= sweep.base.segment {
                let known = sweep.journal.entry(number).or_default();
                known.empty_since.get_or_insert(self.core().mark);
            }
        }
        // There may be others.
        done.more |= measures == 0;
        let Some((number, ..)) = best else { return Ok(()) };
        let living = self.living(number);
        if !living.as_ref().is_ok_and(|living| !living.is_empty()) {
            // Counted, but not there, or not to be read: never tried twice.
            sweep.journal.entry(number).or_default().done = true;
            return living.map(drop);
        }
        let living = living?;
        done.more = true;
        let mut all = true;
        for group in groups(&living, FRAME.min(self.settings.journal_segment_bytes / 2)) {
            all &= self.move_group(group)?;
        }
        if !all {
            let left = self.space.of(Area::Journal, number).live;
            sweep.journal.entry(number).or_default().stuck = Some(left);
        }
        Ok(())
    }

    /// On a disk that is nearly full: whether more has to be moved than is worth it in itself. Not while there are bodies
    /// to let go of, which would be moved as well, nor as long as what was moved and is not back yet relieves it.
    fn must_move(&self, sweep: &Sweep) -> Result<bool, StorageError> {
        if sweep.has_more_to_let_go() {
            return Ok(false);
        }
        let coming = self.waiting(sweep)?;
        Ok(self.space.is_full() || self.space.lacks() > coming.bytes + coming.ready)
    }

    /// Bytes that come back if what lives in a segment is moved out of it; none if that is not worth it.
    fn gain(
        &self,
        sweep: &mut Sweep,
        number: u32,
        used: Use,
        pressed: bool,
        measures: &mut u32,
    ) -> Result<Option<u64>, StorageError> {
        let is_obsolete = number < sweep.base.segment;
        let known = sweep.journal.entry(number).or_default();
        // The cheap test first: most segments are full of life.
        let most = used.len.saturating_sub(used.freed + used.live);
        if known.done || known.stuck == Some(used.live) || most * WORTH < used.len {
            return Ok(None);
        }
        let heads = match known.heads {
            // What a segment before the base says is not needed: it goes whole.
            _ if is_obsolete => 0,
            Some(heads) => heads,
            None if *measures == 0 => return Ok(None),
            None => {
                *measures -= 1;
                let measured = match self.measure(number) {
                    // It stays as it is, and keeps no other waiting.
                    Err(error @ StorageError::Io { .. }) => {
                        tracing::warn!(segment = number, %error, "a journal segment is not stripped");
                        None
                    }
                    measured => measured?,
                };
                known.done = measured.is_none();
                let Some(heads) = measured else { return Ok(None) };
                *known.heads.insert(heads)
            }
        };
        let gain = most.saturating_sub(heads);
        // Under pressure whatever gives a good part of a segment back: a store is not full while it holds dead bytes.
        let bearable = pressed || used.live * WORTH <= gain;
        Ok((gain * WORTH >= used.len && bearable).then_some(gain))
    }

    /// Bytes that a segment would take without bodies; none if it is not to be stripped.
    fn measure(&self, number: u32) -> Result<Option<u64>, StorageError> {
        match self.journal_file(number)? {
            Some(file) if !self.is_stripped(&file)? => self.heads_of(&file, number),
            _ => Ok(None),
        }
    }

    /// Bytes of the segment without bodies; none if it is not whole.
    fn heads_of(&self, file: &Arc<dyn File>, number: u32) -> Result<Option<u64>, StorageError> {
        let mut heads = 0;
        let walked = walk_sealed(file, number, &self.salt, &mut |met| {
            heads += met.head.stripped_len();
            Ok(())
        })?;
        let ends = |lines: usize| (segment::HEADER + lines * segment::LINE + segment::TRAILER) as u64;
        Ok(walked.map(|(_, footer)| heads + ends(footer.lines.len())))
    }

    /// The bodies of a segment that live. Those of a damaged one are known to the index alone.
    fn living(&self, number: u32) -> Result<Vec<Living>, StorageError> {
        let Some(file) = self.journal_file(number)? else { return Ok(Vec::new()) };
        let view = self.index.read();
        let mut living = Vec::new();
        let walked = walk_sealed(&file, number, &self.salt, &mut |met: &Met<'_>| {
            for (at, line) in met.head.body_offsets() {
                let offset = met.at.offset + at;
                let place = Place { area: Area::Journal, segment: number, offset, crc: line.crc };
                let key = (line.domain, line.id);
                if super::changes::load_row(&*view, key)?.place == Some(place) {
                    living.push(Living { key, place, len: line.len });
                }
            }
            Ok(())
        })?;
        if walked.is_some() {
            return Ok(living);
        }
        let rows = self.rows_in(Area::Journal, number)?.into_iter();
        Ok(rows.map(|(key, place, row)| Living { key, place, len: row.stored }).collect())
    }

    /// Appends some bodies again, those that still live. What cannot be read stays where it is, for who can mend it: false then.
    fn move_group(&self, group: &[Living]) -> Result<bool, StorageError> {
        let mut all = true;
        self.own_group(|core, changes, _| {
            let mut bodies = Vec::new();
            for body in group {
                if changes.row(body.key)?.place == Some(body.place) {
                    let Ok(bytes) = self.read_chunk(body.key.0, body.key.1, 0..u32::MAX) else {
                        all = false;
                        continue;
                    };
                    let (domain, id) = body.key;
                    bodies.push((BodyLine { domain, id, len: body.len, crc: body.place.crc }, bytes));
                }
            }
            if bodies.is_empty() {
                return Ok(None);
            }
            let lines: Vec<(BodyLine, &[u8])> =
                bodies.iter().map(|(line, bytes)| (*line, bytes.as_ref())).collect();
            let note = encode(&Note::Moved);
            self.make_room(core, &[&note], &lines, Room::Freeing)?;
            let staged = core.writer.stage(Kind::Note, &[&note], &lines)?;
            let mut offset = staged.bodies_at;
            for (line, _) in &lines {
                let place = Place { area: Area::Journal, segment: staged.segment, offset, crc: line.crc };
                changes.place((line.domain, line.id), &leaf(place, line.len))?;
                offset += u64::from(line.len);
            }
            self.moved_bodies.fetch_add(offset - staged.bodies_at, Ordering::Relaxed);
            Ok(Some(()))
        })?;
        Ok(all)
    }

    /// Replaces segments in which nothing lives, and which no index that survives a crash still needs, by their heads.
    pub(super) fn strip(&self, sweep: &mut Sweep, done: &mut Collected) -> Result<(), StorageError> {
        let durable = self.durable_mark();
        let due = sweep
            .journal
            .iter()
            .find(|(_, known)| !known.done && known.empty_since.is_some_and(|mark| mark <= durable));
        let Some(number) = due.map(|(&number, _)| number) else { return Ok(()) };
        let before = self.space.of(Area::Journal, number);
        let written = self.write_stripped(number);
        if matches!(written, Err(StorageError::Io { .. })) {
            // What cannot be written now keeps no other waiting.
            sweep.journal.insert(number, Strip { done: true, ..Strip::default() });
        }
        if let Some(len) = written? {
            self.own_group(|_, changes, _| {
                changes.rewritten(Area::Journal, number, before.freed);
                Ok(Some(()))
            })?;
            done.bytes += before.len.saturating_sub(before.freed + len);
            done.more = true;
        }
        sweep.journal.insert(number, Strip { done: true, ..Strip::default() });
        Ok(())
    }

    /// Writes the heads beside the segment and puts them in its place; none if the segment is not whole.
    fn write_stripped(&self, number: u32) -> Result<Option<u64>, StorageError> {
        let failed = |error: std::io::Error| StorageError::io("strip a journal segment", &error);
        let Some(file) = self.journal_file(number)? else { return Ok(None) };
        let (mut bytes, mut lines) = (vec![0; segment::HEADER], Vec::new());
        let walked = walk_sealed(&file, number, &self.salt, &mut |met| {
            lines.push(Line { offset: bytes.len() as u32, head_len: met.head.head_len as u32 });
            bytes.extend_from_slice(met.bytes);
            bytes.resize(round_up(bytes.len() as u64, 8) as usize, 0);
            Ok(())
        })?;
        let Some((header, footer)) = walked else { return Ok(None) };
        let header = SegmentHeader { stripped: true, ..header }.encode(&self.salt);
        for (place, byte) in bytes.iter_mut().zip(header) {
            *place = byte;
        }
        let footer = Footer { stripped: true, lines, ..footer };
        let table = footer.encode(bytes.len() as u64, &self.salt);
        bytes.extend_from_slice(&table);
        let staged = format!("{}/{number:010}{STAGED}", Area::Journal.folder());
        match self.disk.remove(&staged) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        let new = self.disk.create(&staged, 0).map_err(failed)?;
        new.write_at(0, &[&bytes]).map_err(failed)?;
        new.sync().map_err(failed)?;
        self.disk.rename(&staged, &file_name(Area::Journal.folder(), number)).map_err(failed)?;
        // The other file is behind the name now, be it that this does not last: the one that is open would be kept.
        self.files.forget(Area::Journal, number);
        self.space.resized(Area::Journal, number, bytes.len() as u64);
        self.disk.sync_dir(Area::Journal.folder()).map_err(failed)?;
        Ok(Some(bytes.len() as u64))
    }
}

/// Bodies by the frame, of at most so many bytes. A segment may be from when they were larger than a frame may be now.
fn groups(living: &[Living], most: u64) -> impl Iterator<Item = &[Living]> {
    let mut rest = living;
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fits = |body: &&Living| {
            bytes += BODY_LINE as u64 + u64::from(body.len);
            bytes <= most
        };
        let count = rest.iter().take_while(fits).count().max(1);
        let (group, tail) = rest.split_at_checked(count)?;
        rest = tail;
        Some(group)
    })
}
