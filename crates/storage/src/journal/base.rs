//! The base: what the journal said up to a position, so that the segments before it need not be kept.
//!
//! Header, little-endian (64 bytes): `magic "SKJB" · version u32 · segment u32 · previous u32 · offset u64 · lsn u64 ·
//! salt [16] · zeros · crc u32`. Then pages: `len u32 · crc u32 · bytes`, the last with `len` 0. The checksum of a page
//! covers the salt, the header's checksum, the number of the page and its bytes: a page of another base, a page twice
//! or one left out is found. A page holds whole items, postcard.
//!
//! Invariants: there is at most one, and it is replaced by renaming a synced and verified one over it; it is part of
//! the truth, so one that does not read whole is never taken in parts.

use std::io::ErrorKind;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use skerry_base::{BucketId, ChunkId};

use super::Position;
use crate::StorageError;
use crate::checksum::crc32c;
use crate::disk::{Disk, File};
use crate::fields::Fields;

/// The file.
pub(crate) const FILE: &str = "base";
/// Where a damaged one is moved when the index is rebuilt without it.
const BAD: &str = "base.bad";
/// The file while it is written.
pub(crate) const STAGED: &str = "base.new";
const MAGIC: u32 = u32::from_le_bytes(*b"SKJB");
/// Of 2 it holds rows that a release before does not read: it refuses the store. The file itself is as of version 1, which is read
/// for ever.
const ROWS: u32 = 2;
/// Of 3 it has notes, too.
const NOTES: u32 = 3;
const VERSIONS: core::ops::RangeInclusive<u32> = 1..=NOTES;
const HEADER: usize = 64;
/// Bytes of a page, one item more or less.
const PAGE: usize = 256 << 10;
/// No page is longer: an item is a row of the index.
const PAGE_MAX: u32 = 16 << 20;

/// What it holds. The order is stored: add at the end only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Item {
    /// A row of the reducer's tables.
    Row {
        /// Number of the table.
        table: u8,
        key: Vec<u8>,
        value: Vec<u8>,
    },
    /// References to a chunk by records; those by trees are taken off, because a tree brings its own when it is found.
    Refer { domain: BucketId, id: ChunkId, delta: i64 },
    /// A body that lies in a segment of the journal.
    Body { domain: BucketId, id: ChunkId, segment: u32, offset: u64, crc: u32, stored: u32 },
    /// A note of the store's own: what the index it was made of does not know.
    Note { key: Vec<u8>, value: Vec<u8> },
}

fn encode_header(at: &Position, salt: &[u8; 16], version: u32) -> (Vec<u8>, u32) {
    let mut bytes = Vec::with_capacity(HEADER);
    bytes.extend_from_slice(&MAGIC.to_le_bytes());
    bytes.extend_from_slice(&version.to_le_bytes());
    bytes.extend_from_slice(&at.segment.to_le_bytes());
    bytes.extend_from_slice(&at.previous.to_le_bytes());
    bytes.extend_from_slice(&at.offset.to_le_bytes());
    bytes.extend_from_slice(&at.lsn.to_le_bytes());
    bytes.extend_from_slice(salt);
    bytes.resize(HEADER - 4, 0);
    let crc = crc32c(&[&bytes]);
    bytes.extend_from_slice(&crc.to_le_bytes());
    (bytes, crc)
}

fn read_header(bytes: &[u8], salt: &[u8; 16]) -> Option<(Position, u32)> {
    let (covered, crc) = bytes.get(..HEADER)?.split_at_checked(HEADER - 4)?;
    let crc = Fields::of(crc).u32()?;
    let mut fields = Fields::of(covered);
    let right = fields.u32()? == MAGIC && VERSIONS.contains(&fields.u32()?) && crc32c(&[covered]) == crc;
    let (segment, previous) = (fields.u32()?, fields.u32()?);
    let (offset, lsn) = (fields.u64()?, fields.u64()?);
    let ours = fields.array::<16>()? == *salt;
    (right && ours).then_some((Position { segment, offset, lsn, previous }, crc))
}

/// The salt of the store whose base it is, if there is one that reads.
pub(crate) fn salt(disk: &dyn Disk) -> Option<[u8; 16]> {
    let mut bytes = [0; HEADER];
    disk.open_to_read(FILE).and_then(|file| file.read_at(0, &mut bytes)).ok()?;
    let salt = Fields::of(bytes.get(32..48)?).array()?;
    read_header(&bytes, &salt).map(|_| salt)
}

/// A base that a later release wrote is not damaged: that release is to be started.
pub(crate) fn refuse_later(disk: &dyn Disk) -> Result<(), StorageError> {
    let mut bytes = [0; HEADER];
    let read = disk.open(FILE).and_then(|file| file.read_at(0, &mut bytes));
    // What does not read is judged by who needs it.
    match read.ok().and_then(|_| later(&bytes)) {
        Some(version) => Err(StorageError::Later(format!("the base of the journal is of version {version}"))),
        None => Ok(()),
    }
}

fn later(bytes: &[u8]) -> Option<u32> {
    let (covered, crc) = bytes.split_at_checked(HEADER - 4)?;
    let mut fields = Fields::of(covered);
    let ours = fields.u32()? == MAGIC && crc32c(&[covered]) == Fields::of(crc).u32()?;
    fields.u32().filter(|version| ours && VERSIONS.end() < version)
}

fn page_sum(salt: &[u8; 16], header: u32, number: u64, bytes: &[u8]) -> u32 {
    crc32c(&[salt, &header.to_le_bytes(), &number.to_le_bytes(), bytes])
}

/// A base in the making.
pub(crate) struct Writer<'a> {
    disk: &'a dyn Disk,
    salt: &'a [u8; 16],
    file: Arc<dyn File>,
    header: u32,
    at: u64,
    pages: u64,
    page: Vec<u8>,
}

fn failed(error: std::io::Error) -> StorageError {
    StorageError::io("write the base of the journal", &error)
}

impl<'a> Writer<'a> {
    /// Of the journal before this position.
    pub(crate) fn begin(
        disk: &'a dyn Disk,
        salt: &'a [u8; 16],
        position: &Position,
        has_notes: bool,
    ) -> Result<Self, StorageError> {
        discard(disk)?;
        let file = disk.create(STAGED, 0).map_err(failed)?;
        let (bytes, header) = encode_header(position, salt, if has_notes { NOTES } else { ROWS });
        file.write_at(0, &[&bytes]).map_err(failed)?;
        Ok(Self { disk, salt, file, header, at: HEADER as u64, pages: 0, page: Vec::new() })
    }

    /// Adds an item.
    pub(crate) fn put(&mut self, item: &Item) -> Result<(), StorageError> {
        let page = core::mem::take(&mut self.page);
        self.page = postcard::to_extend(item, page)
            .map_err(|error| StorageError::Damaged(format!("a row cannot be written: {error}")))?;
        if self.page.len() < PAGE { Ok(()) } else { self.end_page() }
    }

    fn end_page(&mut self) -> Result<(), StorageError> {
        let sum = page_sum(self.salt, self.header, self.pages, &self.page);
        let len = self.page.len() as u32;
        let head = [len.to_le_bytes(), sum.to_le_bytes()].concat();
        self.file.write_at(self.at, &[&head, &self.page]).map_err(failed)?;
        self.at += head.len() as u64 + u64::from(len);
        self.pages += 1;
        self.page.clear();
        Ok(())
    }

    /// Syncs it and reads it back; it is not in its place yet.
    pub(crate) fn finish(mut self) -> Result<(), StorageError> {
        if !self.page.is_empty() {
            self.end_page()?;
        }
        self.end_page()?;
        self.file.sync().map_err(failed)?;
        let reader = Reader::open_file(self.disk, STAGED, self.salt)?;
        let reader = reader.ok_or_else(|| StorageError::Damaged("the base is gone".into()))?;
        // Else the pages that were written answer, and segments go for what the medium may not have.
        reader.release();
        reader.each(&mut |_| Ok(()))
    }
}

/// Puts the finished base into its place; the one before is gone then.
pub(crate) fn publish(disk: &dyn Disk) -> Result<(), StorageError> {
    disk.rename(STAGED, FILE).map_err(failed)?;
    disk.sync_dir(".").map_err(failed)
}

/// A damaged base makes way for a new one, for whoever can read more of it.
pub(crate) fn set_aside(disk: &dyn Disk) -> Result<(), StorageError> {
    let failed = |error: std::io::Error| StorageError::io("move the base of the journal aside", &error);
    disk.rename(FILE, BAD).map_err(failed)?;
    disk.sync_dir(".").map_err(failed)
}

/// Whether one was set aside.
pub(crate) fn is_set_aside(disk: &dyn Disk) -> Result<bool, StorageError> {
    let failed = |error: std::io::Error| StorageError::io("list the directory", &error);
    Ok(disk.list(".").map_err(failed)?.iter().any(|name| name == BAD))
}

/// Removes what an attempt left behind.
pub(crate) fn discard(disk: &dyn Disk) -> Result<(), StorageError> {
    match disk.remove(STAGED) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(failed(error)),
        _ => Ok(()),
    }
}

/// A base that is there.
pub(crate) struct Reader<'a> {
    salt: &'a [u8; 16],
    file: Arc<dyn File>,
    header: u32,
    /// Where the journal goes on.
    pub(crate) position: Position,
    /// Bytes of the file.
    pub(crate) len: u64,
}

impl<'a> Reader<'a> {
    /// None: there is no base. An error: there is one that does not read.
    pub(crate) fn open(disk: &dyn Disk, salt: &'a [u8; 16]) -> Result<Option<Self>, StorageError> {
        Self::open_file(disk, FILE, salt)
    }

    fn open_file(disk: &dyn Disk, name: &str, salt: &'a [u8; 16]) -> Result<Option<Self>, StorageError> {
        let unread = |error: std::io::Error| StorageError::io("read the base of the journal", &error);
        let file = match disk.open_to_read(name) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(unread(error)),
        };
        let mut bytes = [0; HEADER];
        file.read_at(0, &mut bytes).map_err(unread)?;
        let len = file.len().map_err(unread)?;
        match read_header(&bytes, salt) {
            Some((position, header)) => Ok(Some(Self { salt, file, header, position, len })),
            None => Err(StorageError::Damaged("the header of the base of the journal does not read".into())),
        }
    }

    /// The next reading comes from the medium.
    pub(crate) fn release(&self) {
        self.file.release(0, self.len);
    }

    /// Visits all items, page by verified page. An error may come after some: whoever takes them in starts over.
    pub(crate) fn each(
        &self,
        visit: &mut dyn FnMut(Item) -> Result<(), StorageError>,
    ) -> Result<(), StorageError> {
        self.each_at(&mut |item, _| visit(item))
    }

    /// Bytes of it.
    pub(crate) const fn bytes(&self) -> u64 {
        self.len
    }

    /// The same, with about where the item lies.
    pub(crate) fn each_at(
        &self,
        visit: &mut dyn FnMut(Item, u64) -> Result<(), StorageError>,
    ) -> Result<(), StorageError> {
        let unread = |error: std::io::Error| StorageError::io("read the base of the journal", &error);
        let damaged = |page: u64| StorageError::Damaged(format!("page {page} of the base of the journal"));
        let (mut at, mut number) = (HEADER as u64, 0);
        loop {
            let mut head = [0; 8];
            let read = self.file.read_at(at, &mut head).map_err(unread)?;
            let mut fields = Fields::of(&head);
            let (Some(len), Some(sum), 8) = (fields.u32(), fields.u32(), read) else {
                return Err(damaged(number));
            };
            if len > PAGE_MAX || at + 8 + u64::from(len) > self.len {
                return Err(damaged(number));
            }
            let mut bytes = vec![0; len as usize];
            let read = self.file.read_at(at + 8, &mut bytes).map_err(unread)?;
            if read != bytes.len() || page_sum(self.salt, self.header, number, &bytes) != sum {
                return Err(damaged(number));
            }
            if len == 0 {
                return Ok(());
            }
            let mut rest = bytes.as_slice();
            while !rest.is_empty() {
                let (item, tail) = postcard::take_from_bytes(rest).map_err(|_| damaged(number))?;
                visit(item, at + (bytes.len() - rest.len()) as u64)?;
                rest = tail;
            }
            at += 8 + u64::from(len);
            number += 1;
        }
    }
}

#[cfg(test)]
#[path = "base_tests.rs"]
mod tests;
