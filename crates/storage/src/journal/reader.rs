//! Walking the journal: from a position to its end, telling a torn tail from damage.
//!
//! A sealed segment that does not read as its table says is damage; the walk goes on behind it. In the active
//! segment the first bad frame is the end, unless a later frame proves that it had been durable: then it is
//! damage as well. A frame that the disk cannot read is no end: it may have been acknowledged, and may be read again; what
//! lies behind it is taken, and nothing is written over it. Bodies are read only where a tail may be torn. What is damaged costs what lies there: the walk goes on
//! at the next frame that reads, whatever a table or an index says of the frames between.

use std::sync::Arc;

use crate::checksum::crc32c;
use crate::disk::{Disk, File};
use crate::store::{Damage, TornTail};
use crate::{StorageError, journal};

use super::frame::{self, Head, Header};
use super::segment::{self, Footer, Line, SegmentHeader};
use super::{FOLDER, Position, file_name};

/// Bytes read at once.
const WINDOW: usize = 128 << 10;
/// What is passed over where the disk cannot read.
const SECTOR: u64 = 4096;

/// A frame met on the walk.
pub(crate) struct Met<'a> {
    /// Where it begins.
    pub(crate) at: Position,
    /// Where the next one begins, if in the same segment.
    pub(crate) next: Position,
    pub(crate) head: &'a Head,
    /// Whether the bodies lie behind the head.
    pub(crate) has_bodies: bool,
    /// The head as it lies there.
    pub(crate) bytes: &'a [u8],
}

impl<'a> Met<'a> {
    /// The entries in order.
    pub(crate) fn entries(&self) -> impl Iterator<Item = &'a [u8]> + use<'a, '_> {
        self.head.entries.iter().filter_map(|range| self.bytes.get(range.clone()))
    }
}

/// What a walk finds besides frames.
#[derive(Default)]
pub(crate) struct Walked {
    /// The end: where the next frame goes. None: there is no segment in use.
    pub(crate) tail: Option<Position>,
    /// The frames of the active segment, for its table.
    pub(crate) lines: Vec<Line>,
    /// LSN of the first of them.
    pub(crate) first_lsn: u64,
    /// Blank segments behind the active one.
    pub(crate) spares: Vec<u32>,
    /// Segments in use, the active one last.
    pub(crate) used: Vec<u32>,
    pub(crate) torn: Option<TornTail>,
    pub(crate) damage: Vec<Damage>,
    /// The disk cannot read what lies at the end of the last segment, so nothing is to be written there.
    pub(crate) is_unread: bool,
}

/// What is done with each frame.
pub(crate) type Sink<'a> = dyn FnMut(&Met<'_>) -> Result<(), StorageError> + 'a;

/// Walks from `from` (or the first segment) to the end.
pub(crate) fn walk(
    disk: &dyn Disk,
    salt: &[u8; 16],
    from: Option<Position>,
    sink: &mut Sink<'_>,
) -> Result<Walked, StorageError> {
    let names = disk.list(FOLDER).map_err(|error| StorageError::io("list the journal", &error))?;
    let mut walked = Walked { used: journal::numbers(&names), ..Walked::default() };
    while let Some(&last) = walked.used.last() {
        // What the index has taken is in use, however it reads now.
        if from.is_some_and(|from| last <= from.segment) || in_use(disk, salt, last)? {
            break;
        }
        walked.used.pop();
        walked.spares.insert(0, last);
    }
    let (first, active) = match (walked.used.first(), walked.used.last(), from) {
        (Some(&first), Some(&active), _) => (first, active),
        (_, _, None) => (1, 0),
        (_, _, Some(from)) => {
            let frames = from.lsn - 1;
            return Err(StorageError::Damaged(format!(
                "the journal is gone; the index knows {frames} frames"
            )));
        }
    };
    let start = from.unwrap_or(Position { segment: first, offset: 0, lsn: 1, previous: 0 });
    let (stripped, anchored, unsealed) = (false, false, false);
    let mut walk =
        Walk { salt, sink, expected: start, sunk_from: start, stripped, anchored, unsealed, walked };
    if start.segment > active && active > 0 {
        return Err(StorageError::Damaged(format!("journal segment {} is missing", start.segment)));
    }
    for number in start.segment..=active {
        match disk.open(&file_name(FOLDER, number)) {
            Ok(file) => walk.segment(&file, number, number == active)?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => walk.missing(number),
            Err(error) => return Err(StorageError::io("open a journal segment", &error)),
        }
    }
    walk.no_spares(disk)?;
    walk.walked.tail = (!walk.walked.used.is_empty()).then_some(walk.expected);
    Ok(walk.walked)
}

/// Whether a segment holds anything: a header, or a frame behind a damaged header.
fn in_use(disk: &dyn Disk, salt: &[u8; 16], number: u32) -> Result<bool, StorageError> {
    let file = disk
        .open(&file_name(FOLDER, number))
        .map_err(|error| StorageError::io("open a journal segment", &error))?;
    let mut window = Window::new(&file)?;
    refuse_later(&mut window, segment::HEADER as u64, salt, number)?;
    // One that the disk cannot read may be anything: it is not taken for blank, and written over.
    let headed =
        window.get(0, segment::HEADER).map_or(true, |bytes| SegmentHeader::read(bytes, salt).is_some());
    let framed = read_head(&mut window, segment::HEADER as u64, salt, false).is_ok();
    Ok(headed || framed)
}

struct Walk<'a, 'b> {
    salt: &'a [u8; 16],
    sink: &'a mut Sink<'b>,
    /// Where the walk is and what must come next.
    expected: Position,
    /// Frames before this are only counted.
    sunk_from: Position,
    /// Whether the segment at hand holds no bodies.
    stripped: bool,
    /// Whether it is known which frame lies where the walk is: the header of the segment reads, or a frame did.
    anchored: bool,
    /// Whether the segment before had no table: nothing was written to it any more, for what could not be read or written.
    unsealed: bool,
    walked: Walked,
}

impl Walk<'_, '_> {
    fn damage(&mut self, offset: u64, to: u64, why: &str) {
        let (segment, from) = (self.expected.segment, self.expected.lsn);
        self.walked.damage.push(Damage { segment, offset, from, to, why: why.to_owned() });
    }

    /// Spares that were not needed leave gaps in the numbers. Whether frames are gone, and how many, shows at the
    /// header of the next segment: the first frame that it names is not the one expected.
    const fn missing(&mut self, number: u32) {
        self.expected = Position { segment: number, offset: 0, ..self.expected };
    }

    /// A blank header and a first frame that does not read make no spare: one that holds a frame which says that all before it
    /// was durable has lost its beginning. What a torn group left behind never says so.
    fn no_spares(&mut self, disk: &dyn Disk) -> Result<(), StorageError> {
        let mut blank = Vec::new();
        for number in core::mem::take(&mut self.walked.spares) {
            let file = disk
                .open(&file_name(FOLDER, number))
                .map_err(|error| StorageError::io("open a journal segment", &error))?;
            let lsn = self.expected.lsn;
            let proves = |sought: &Sought| (lsn..sought.stamp.lsn).contains(&sought.stamp.after);
            let begins = segment::HEADER as u64;
            if search(&mut Window::new(&file)?, begins, self.salt, false, &proves)?.is_none() {
                blank.push(number);
                continue;
            }
            // Where the one before seemed to end was no end.
            self.walked.torn = None;
            self.walked.used.append(&mut blank);
            self.walked.used.push(number);
            self.segment(&file, number, true)?;
        }
        self.walked.spares = blank;
        Ok(())
    }

    fn segment(&mut self, file: &Arc<dyn File>, number: u32, active: bool) -> Result<(), StorageError> {
        let mut window = Window::new(file)?;
        let (header, footer) = ends(&mut window, self.salt);
        self.walked.is_unread = false;
        self.stripped = header.is_some_and(|header| header.stripped)
            || footer.as_ref().is_some_and(|footer| footer.stripped);
        let resumed = self.sunk_from.segment == number && self.sunk_from.offset > 0;
        self.anchored = header.is_some() || resumed;
        let mut at = Position { segment: number, offset: segment::HEADER as u64, ..self.expected };
        match header {
            Some(header) => {
                (at.lsn, at.previous) = (header.first_lsn, header.previous);
                // Fewer were counted as lost at the end of the one before than read now.
                let is_more = self.unsealed && at.lsn < self.expected.lsn;
                if !resumed && at.lsn != self.expected.lsn && !is_more {
                    self.expected.segment = number;
                    self.damage(0, at.lsn, "frames before this segment are missing");
                }
            }
            None if resumed => {}
            None => {
                self.expected = at;
                self.damage(0, at.lsn, "segment header damaged");
                // The chain goes on over segments, so the first frame is still proven by its predecessor.
            }
        }
        // An active segment is walked from its beginning, because its table must name all its frames.
        // So is a stripped one: its frames lie elsewhere than when the position was noted (by a base).
        if resumed && !self.stripped && (!active || header.is_none()) {
            at = self.sunk_from;
        }
        self.expected = at;
        self.walked.first_lsn = at.lsn;
        self.walked.lines.clear();
        self.unsealed = footer.is_none();
        self.frames(&mut window, footer.as_ref(), active)
    }

    fn frames(
        &mut self,
        window: &mut Window<'_>,
        footer: Option<&Footer>,
        active: bool,
    ) -> Result<(), StorageError> {
        let end = match footer {
            Some(footer) => window.len - (footer.lines.len() * segment::LINE + segment::TRAILER) as u64,
            None => window.len,
        };
        while self.expected.offset < end {
            match self.frame(window, end, active)? {
                Ok(next) => self.expected = next,
                Err(why) => {
                    let found = self.resync(window, footer, &why, active)?;
                    if !found {
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    /// Reads the frame that is expected and hands it on; the inner error says why there is none.
    fn frame(
        &mut self,
        window: &mut Window<'_>,
        end: u64,
        open: bool,
    ) -> Result<Result<Position, String>, StorageError> {
        let at = self.expected;
        window.unread = false;
        let head = match read_head(window, at.offset, self.salt, self.stripped) {
            Ok(head) => head,
            Err(why) => {
                refuse_later(window, at.offset, self.salt, at.segment)?;
                return Ok(Err(why));
            }
        };
        if head.stamp.lsn != at.lsn || head.stamp.previous != at.previous {
            return Ok(Err("a leftover of an earlier life".into()));
        }
        let frame_len = if self.stripped { head.stripped_len() } else { head.frame_len };
        if at.offset + frame_len > end {
            return Ok(Err("the frame is longer than its segment".into()));
        }
        let next = Position {
            segment: at.segment,
            offset: at.offset + frame_len,
            lsn: at.lsn + 1,
            previous: head.crc,
        };
        let wanted = at.lsn >= self.sunk_from.lsn;
        if open && wanted && !bodies_whole(window, at.offset, &head) {
            // Damaged after it was durable, or it may have been and may be read again: the head still counts, and reading the
            // body will say so.
            let unread = core::mem::take(&mut window.unread);
            if !unread && !self.proven(window)? {
                window.unread = false;
                return Ok(Err("a body of the frame is incomplete".into()));
            }
        }
        self.walked.lines.push(Line { offset: at.offset as u32, head_len: head.head_len as u32 });
        if wanted {
            let bytes = window.get(at.offset, head.head_len)?;
            (self.sink)(&Met { at, next, head: &head, has_bodies: !self.stripped, bytes })?;
        }
        Ok(Ok(next))
    }

    /// Decides what a bad frame means; true if the walk goes on behind it.
    fn resync(
        &mut self,
        window: &mut Window<'_>,
        footer: Option<&Footer>,
        why: &str,
        active: bool,
    ) -> Result<bool, StorageError> {
        let at = self.expected;
        // The table of the last segment may have come to the disk before the frames it names.
        if let Some(footer) = footer.filter(|_| !active) {
            let next = match self.listed(window, footer) {
                // A table may leave frames out: of a segment that was damaged before it was sealed.
                None => self.next_frame(window, u64::MAX)?,
                listed => listed,
            };
            if let Some((offset, head)) = next {
                return Ok(self.resume(offset, &head, why));
            }
            let lsn = (footer.first_lsn + footer.lines.len() as u64).max(at.lsn + 1);
            self.damage(at.offset, lsn, why);
            self.expected = Position { lsn, previous: footer.last_crc, ..at };
            return Ok(false);
        }
        let taken = self.sunk_from;
        // In a stripped segment they lie elsewhere than when the position was noted.
        let known = !self.stripped && at.segment == taken.segment && at.offset < taken.offset;
        if known {
            // The index has taken what lies here, so it was durable: damage, and the rest is after it.
            if let Some((offset, head)) = self.next_frame(window, taken.offset)? {
                return Ok(self.resume(offset, &head, why));
            }
            self.damage(at.offset, taken.lsn, why);
            self.pass_over(taken.offset, taken.lsn);
            self.expected = taken;
            return Ok(true);
        }
        let unread = window.unread;
        if active && !unread && !self.proven(window)? {
            let is_blank = |rest: &[u8]| rest.iter().all(|&byte| byte == 0);
            let is_blank = window.get(at.offset, frame::HEADER).is_ok_and(is_blank);
            if !is_blank && !why.starts_with("a leftover") {
                let why = why.to_owned();
                self.walked.torn = Some(TornTail { segment: at.segment, offset: at.offset, why });
            }
            return Ok(false);
        }
        // Where the disk cannot read, a power cut may have left such a sector, but it may as well have been durable, and what
        // lies behind it with it: frames that nobody was told of may be taken, those that somebody was may not be left.
        if let Some((offset, head)) = self.next_frame(window, u64::MAX)? {
            return Ok(self.resume(offset, &head, why));
        }
        if active && unread {
            self.damage(at.offset, at.lsn + 1, why);
            self.expected.lsn += 1;
            self.walked.is_unread = true;
            return Ok(false);
        }
        // Where one is blank behind its frames, the next says whether any are missing.
        let is_blank =
            window.get(at.offset, frame::HEADER).is_ok_and(|rest| rest.iter().all(|&byte| byte == 0));
        if !active && !is_blank {
            self.damage(at.offset, at.lsn, "the segment is not sealed though others follow");
        }
        Ok(false)
    }

    /// The next frame that reads as the table says. A line that fits proves that none is left out before it, unless the table
    /// begins later: that of a segment without a header has what was walked since the index knew of it.
    fn listed(&self, window: &mut Window<'_>, footer: &Footer) -> Option<(u64, Head)> {
        let at = self.expected;
        let lines = footer.lines.iter().enumerate().filter(|_| at.lsn >= footer.first_lsn);
        lines.skip_while(|(_, line)| u64::from(line.offset) <= at.offset).find_map(|(index, line)| {
            let head = read_head(window, u64::from(line.offset), self.salt, self.stripped).ok()?;
            let fits = head.stamp.lsn == footer.first_lsn + index as u64;
            fits.then_some((u64::from(line.offset), head))
        })
    }

    /// The next frame that reads, wherever it lies before `end`.
    fn next_frame(&self, window: &mut Window<'_>, end: u64) -> Result<Option<(u64, Head)>, StorageError> {
        let wanted = |sought: &Sought| sought.offset < end && self.may_follow(sought);
        search(window, self.expected.offset + 8, self.salt, self.stripped, &wanted)
    }

    /// Whether a frame may lie there, behind the one that is expected: between the two there are no more frames than have
    /// room. Bytes that a client stored can say anything, and each head that is believed so far costs a checksum over it.
    fn may_follow(&self, sought: &Sought) -> bool {
        let at = self.expected;
        let most = sought.offset.saturating_sub(at.offset) / frame::HEADER as u64;
        let ahead = sought.stamp.lsn.saturating_sub(at.lsn);
        ahead > 0 && sought.stamp.after < sought.stamp.lsn && (!self.anchored || ahead <= most)
    }

    /// Whether a frame behind the expected one says that this was durable when it was written.
    fn proven(&self, window: &mut Window<'_>) -> Result<bool, StorageError> {
        let at = self.expected;
        let proves = |sought: &Sought| sought.stamp.after >= at.lsn && self.may_follow(sought);
        Ok(search(window, at.offset + 8, self.salt, self.stripped, &proves)?.is_some())
    }

    /// The walk goes on there, with this LSN. The table has a line for each frame that it passed over, so that the number of a
    /// line goes on to tell the LSN.
    fn pass_over(&mut self, offset: u64, lsn: u64) {
        let at = self.expected;
        let ahead = lsn.saturating_sub(at.lsn);
        if ahead <= offset.saturating_sub(at.offset) / frame::HEADER as u64 {
            let line = Line { offset: at.offset as u32, head_len: 0 };
            self.walked.lines.extend(std::iter::repeat_n(line, ahead as usize));
        } else {
            // Which frame was to lie here was not known.
            self.walked.lines.clear();
            self.walked.first_lsn = lsn;
        }
        self.anchored = true;
    }

    fn resume(&mut self, offset: u64, head: &Head, why: &str) -> bool {
        let at = self.expected;
        self.damage(at.offset, head.stamp.lsn, why);
        self.pass_over(offset, head.stamp.lsn);
        self.expected = Position { offset, lsn: head.stamp.lsn, previous: head.stamp.previous, ..at };
        true
    }
}

/// Walks one sealed segment. None: it is not whole, so it is not to be rewritten.
pub(crate) fn walk_sealed(
    file: &Arc<dyn File>,
    number: u32,
    salt: &[u8; 16],
    sink: &mut Sink<'_>,
) -> Result<Option<(SegmentHeader, Footer)>, StorageError> {
    let mut window = Window::new(file)?;
    let (header, footer) = ends(&mut window, salt);
    let (Some(header), Some(footer)) = (header, footer) else { return Ok(None) };
    let (lsn, previous) = (header.first_lsn, header.previous);
    let start = Position { segment: number, offset: segment::HEADER as u64, lsn, previous };
    let (stripped, anchored, unsealed) = (header.stripped, true, false);
    let walked = Walked::default();
    let mut walk =
        Walk { salt, sink, expected: start, sunk_from: start, stripped, anchored, unsealed, walked };
    walk.frames(&mut window, Some(&footer), false)?;
    let whole = walk.walked.damage.is_empty() && walk.walked.lines.len() == footer.lines.len();
    Ok(whole.then_some((header, footer)))
}

/// Reads and verifies a head. The error says what is wrong, I/O errors included.
fn read_head(window: &mut Window<'_>, offset: u64, salt: &[u8; 16], stripped: bool) -> Result<Head, String> {
    let header = window.get(offset, frame::HEADER).map_err(|error| error.to_string())?;
    let header = Header::read(header)?;
    let len = if stripped { header.head_len() } else { header.frame_len() };
    if offset.saturating_add(len) > window.len {
        return Err("the frame is longer than its segment".into());
    }
    let bytes = window.get(offset, header.head_len() as usize).map_err(|error| error.to_string())?;
    Head::read(bytes, salt)
}

/// What a later release wrote is neither torn nor damaged: it is to be started, and nothing is written over.
fn refuse_later(
    window: &mut Window<'_>,
    offset: u64,
    salt: &[u8; 16],
    number: u32,
) -> Result<(), StorageError> {
    let later = |version: u32, what: &str| {
        StorageError::Later(format!("journal segment {number} has {what} of version {version}"))
    };
    if let Some(version) = window.get(0, segment::HEADER).ok().and_then(SegmentHeader::later) {
        return Err(later(version, "a header"));
    }
    let len = window.get(offset, frame::HEADER).ok().and_then(frame::later_len);
    let Some(len) = len.filter(|len| offset.saturating_add(*len) <= window.len) else { return Ok(()) };
    match window.get(offset, len as usize).ok().and_then(|head| frame::later(head, salt)) {
        Some(version) => Err(later(u32::from(version), "frames")),
        None => Ok(()),
    }
}

/// Header and table of a segment; what the disk cannot read is as damaged.
fn ends(window: &mut Window<'_>, salt: &[u8; 16]) -> (Option<SegmentHeader>, Option<Footer>) {
    let footer = read_footer(window, salt);
    let header = window.get(0, segment::HEADER).ok().and_then(|bytes| SegmentHeader::read(bytes, salt));
    (header, footer)
}

fn read_footer(window: &mut Window<'_>, salt: &[u8; 16]) -> Option<Footer> {
    let at = window.len.checked_sub(segment::TRAILER as u64)?;
    let file_len = window.len;
    let (at, len) = Footer::locate(window.get(at, segment::TRAILER).ok()?, file_len)?;
    Footer::read(window.get(at, len).ok()?, salt)
}

fn bodies_whole(window: &mut Window<'_>, offset: u64, head: &Head) -> bool {
    head.body_offsets().all(|(at, line)| {
        let bytes = window.get(offset + at, line.len as usize);
        bytes.is_ok_and(|bytes| bytes.len() == line.len as usize && crc32c(&[bytes]) == line.crc)
    })
}

/// What looks like the head of a frame, its checksum not looked at yet.
struct Sought {
    offset: u64,
    stamp: frame::Stamp,
}

/// The first readable head at or after `offset` (a multiple of 8) of those that are wanted.
fn search(
    window: &mut Window<'_>,
    offset: u64,
    salt: &[u8; 16],
    stripped: bool,
    wanted: &dyn Fn(&Sought) -> bool,
) -> Result<Option<(u64, Head)>, StorageError> {
    let magic = frame::MAGIC.to_le_bytes();
    let mut at = offset;
    while at < window.len {
        let Some(most) = window.readable(at) else {
            at = (at + SECTOR) & !(SECTOR - 1);
            continue;
        };
        let bytes = window.get(at, most)?;
        if bytes.is_empty() {
            break;
        }
        let step = bytes.len() as u64;
        let hits: Vec<u64> = bytes
            .chunks(8)
            .enumerate()
            .filter(|(_, word)| word.starts_with(&magic))
            .map(|(index, _)| at + index as u64 * 8)
            .collect();
        let blank = bytes.iter().all(|&byte| byte == 0);
        for hit in hits {
            let header = window.get(hit, frame::HEADER).ok().and_then(|bytes| Header::read(bytes).ok());
            if !header.is_some_and(|header| wanted(&Sought { offset: hit, stamp: header.stamp })) {
                continue;
            }
            if let Ok(head) = read_head(window, hit, salt, stripped) {
                return Ok(Some((hit, head)));
            }
        }
        at = if blank { window.next_data(at + step)? } else { at + step };
    }
    Ok(None)
}

/// Overwrites what a torn write left behind `offset` with zeros, so that it is not met again at the next open.
pub(crate) fn blank(file: &Arc<dyn File>, offset: u64) -> Result<(), StorageError> {
    let mut window = Window::new(file)?;
    let mut at = offset;
    while at < window.len {
        let Some(most) = window.readable(at) else {
            // The disk may read it again once it was written.
            let end = ((at + SECTOR) & !(SECTOR - 1)).min(window.len);
            let zeros = vec![0; (end - at) as usize];
            file.write_at(at, &[&zeros]).map_err(|error| StorageError::io("blank a torn tail", &error))?;
            at = end;
            continue;
        };
        let bytes = window.get(at, most)?;
        let len = bytes.len();
        if bytes.iter().any(|&byte| byte != 0) {
            let zeros = vec![0; len];
            file.write_at(at, &[&zeros]).map_err(|error| StorageError::io("blank a torn tail", &error))?;
        }
        at = window.next_data(at + len as u64)?;
    }
    Ok(())
}

/// A buffered reading of one file.
struct Window<'a> {
    file: &'a Arc<dyn File>,
    len: u64,
    start: u64,
    bytes: Vec<u8>,
    /// Whether something could not be read since this was reset.
    unread: bool,
}

impl<'a> Window<'a> {
    fn new(file: &'a Arc<dyn File>) -> Result<Self, StorageError> {
        let len = file.len().map_err(|error| StorageError::io("measure a journal segment", &error))?;
        Ok(Self { file, len, start: 0, bytes: Vec::new(), unread: false })
    }

    /// How much can be read from here on at once; none if the disk cannot read what lies here. Ends where pages end: of one that
    /// was read in part nobody can tell whether the rest was ever written.
    fn readable(&mut self, at: u64) -> Option<usize> {
        let upto = |whole: usize| whole - (at % whole as u64) as usize;
        [upto(WINDOW), upto(SECTOR as usize)].into_iter().find(|most| self.get(at, *most).is_ok())
    }

    /// These bytes, or fewer at the end of the file.
    fn get(&mut self, offset: u64, len: usize) -> Result<&[u8], StorageError> {
        let end = offset.saturating_add(len as u64).min(self.len);
        let offset = offset.min(end);
        let held = self.start + self.bytes.len() as u64;
        if offset < self.start || end > held {
            let needed = (end - offset) as usize;
            let want = needed.max(WINDOW).min((self.len - offset) as usize);
            self.bytes.resize(want, 0);
            self.start = offset;
            let read = self.file.read_at(offset, &mut self.bytes).or_else(|_| {
                // What cannot be read may lie behind what is asked for.
                self.bytes.truncate(needed);
                self.file.read_at(offset, &mut self.bytes)
            });
            self.unread |= read.is_err();
            self.bytes.truncate(*read.as_ref().unwrap_or(&0));
            read.map_err(|error| StorageError::io("read the journal", &error))?;
        }
        let from = (offset - self.start) as usize;
        let to = ((end - self.start) as usize).min(self.bytes.len());
        Ok(self.bytes.get(from..to).unwrap_or_default())
    }

    /// Skips a hole; the result is a multiple of 8. Room that was set aside and never written counts as one, but not where the
    /// kernel has read ahead into it, which it does for as long as somebody reads on: all of three segments at each start.
    fn next_data(&self, offset: u64) -> Result<u64, StorageError> {
        self.file.release(offset, self.len.saturating_sub(offset));
        let found =
            self.file.next_data(offset).map_err(|error| StorageError::io("read the journal", &error))?;
        Ok(found.map_or(self.len, |found| found.max(offset) & !7))
    }
}
