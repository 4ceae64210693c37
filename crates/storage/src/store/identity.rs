//! What makes a directory a store: the file that says so, and the salt in it.
//!
//! Before: who opens the store, for the first time or again. After: everything that is written, which holds the salt, so that nothing
//! of another store and nothing that a client wrote is taken for its own.
//!
//! Those 28 bytes have a second: each segment and the base begin with the salt, under a checksum of their own. Where the file is gone or does
//! not read it is taken from those, and from none of them where two say other things.

use std::collections::BTreeSet;
use std::io::ErrorKind;

use crate::StorageError;
use crate::checksum::crc32c;
use crate::chunks::row::Area;
use crate::disk::Disk;
use crate::error::is_passing;
use crate::fields::Fields;
use crate::journal::segment::{HEADER, SegmentHeader};
use crate::journal::{self, file_name, numbers};
use crate::payload::extent::segment_salt;

/// The file that makes a directory a store: `magic "SKST" · version u32 · salt [16] · crc u32`.
const FILE: &str = "store";
const MAGIC: u32 = u32::from_le_bytes(*b"SKST");
const VERSION: u32 = 1;
const LEN: usize = 28;
/// Segments that are asked for the salt, of each class.
const ASKED: usize = 64;

/// The salt of the store in this directory, and whether it was made just now, with `salt`.
pub(super) fn open(disk: &dyn Disk, salt: [u8; 16]) -> Result<([u8; 16], bool), StorageError> {
    let why = match read(disk)? {
        Found::Salt(salt) => return Ok((salt, false)),
        Found::Nothing if !holds_a_journal(disk)? => return make(disk, salt).map(|()| (salt, true)),
        Found::Nothing => format!("there is a journal but no file `{FILE}` beside it"),
        Found::Damaged(why) => why,
    };
    let salt = by_headers(disk, &why)?;
    tracing::error!(why, "the file `{FILE}` is written anew with what segments say; look after this disk");
    make(disk, salt).map(|()| (salt, false))
}

fn holds_a_journal(disk: &dyn Disk) -> Result<bool, StorageError> {
    let names = disk.list(journal::FOLDER);
    let names = names.map_err(|error| StorageError::io("list the directory", &error))?;
    Ok(!numbers(&names).is_empty())
}

/// Makes the file, or makes it anew.
fn make(disk: &dyn Disk, salt: [u8; 16]) -> Result<(), StorageError> {
    let failed = |error: std::io::Error| StorageError::io("make the store", &error);
    let mut bytes = Vec::with_capacity(LEN);
    bytes.extend_from_slice(&MAGIC.to_le_bytes());
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(&salt);
    bytes.extend_from_slice(&crc32c(&[&bytes]).to_le_bytes());
    let staged = format!("{FILE}.new");
    if let Err(error) = disk.remove(&staged)
        && error.kind() != ErrorKind::NotFound
    {
        return Err(failed(error));
    }
    let file = disk.create(&staged, 0).map_err(failed)?;
    file.write_at(0, &[&bytes]).map_err(failed)?;
    file.sync().map_err(failed)?;
    disk.rename(&staged, FILE).map_err(failed)?;
    disk.sync_dir(".").map_err(failed)
}

/// What there is of the file.
enum Found {
    Salt([u8; 16]),
    Nothing,
    Damaged(String),
}

fn read(disk: &dyn Disk) -> Result<Found, StorageError> {
    let mut bytes = [0; LEN + 1];
    let read = disk.open_to_read(FILE).and_then(|file| file.read_at(0, &mut bytes));
    let found = match read {
        Ok(found) => bytes.get(..found).unwrap_or_default(),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Found::Nothing),
        // What was refused says nothing of what lies there.
        Err(error) if is_passing(&error) || error.kind() == ErrorKind::PermissionDenied => {
            return Err(StorageError::io("read the store's identity", &error));
        }
        Err(error) => return Ok(Found::Damaged(format!("the file `{FILE}` cannot be read: {error}"))),
    };
    match (parse(found), later(found)) {
        (Some(salt), _) => Ok(Found::Salt(salt)),
        (_, Some(version)) => Err(StorageError::Later(format!("the file `{FILE}` is of version {version}"))),
        _ => Ok(Found::Damaged(format!("the file `{FILE}` is not that of a store of version {VERSION}"))),
    }
}

fn parse(bytes: &[u8]) -> Option<[u8; 16]> {
    let (covered, crc) = bytes.get(..LEN)?.split_at_checked(LEN - 4)?;
    let mut fields = Fields::of(covered);
    let right =
        fields.u32()? == MAGIC && fields.u32()? == VERSION && crc32c(&[covered]) == Fields::of(crc).u32()?;
    fields.array().filter(|_| right)
}

/// Of a later release, which is to be started: as long as this one and whole, or longer.
fn later(bytes: &[u8]) -> Option<u32> {
    let (covered, crc) = bytes.get(..LEN)?.split_at_checked(LEN - 4)?;
    let mut fields = Fields::of(covered);
    let ours = fields.u32()? == MAGIC;
    let is_whole = bytes.len() > LEN || crc32c(&[covered]) == Fields::of(crc).u32()?;
    fields.u32().filter(|version| ours && is_whole && *version > VERSION)
}

/// What all headers say that read: two at least, or that of the one segment that the journal has, for then what it would be wrong
/// for begins with it.
fn by_headers(disk: &dyn Disk, why: &str) -> Result<[u8; 16], StorageError> {
    let (mut salts, mut count) = (BTreeSet::new(), 0);
    let mut found = |salt: Option<[u8; 16]>| {
        count += usize::from(salt.is_some());
        salts.extend(salt);
    };
    found(journal::base::salt(disk));
    let journal = starts(disk, journal::FOLDER)?;
    let written: Vec<_> = journal.iter().filter(|(_, bytes)| bytes.iter().any(|byte| *byte != 0)).collect();
    written.iter().for_each(|(number, bytes)| found(SegmentHeader::salt(bytes, *number)));
    for area in [Area::Payload, Area::Cache] {
        for (number, bytes) in starts(disk, area.folder())? {
            found(segment_salt(&bytes, number, area));
        }
    }
    let (mut salts, is_one) = (salts.into_iter(), written.len() == 1);
    let damaged = |what: &str| {
        Err(StorageError::Damaged(format!("{why}; {what}: put back the file from a copy of this directory")))
    };
    match (salts.next(), salts.next()) {
        (Some(salt), None) if count > 1 || is_one => Ok(salt),
        (Some(_), Some(_)) => damaged("segments of two stores lie here"),
        (Some(_), None) => damaged("only one segment says which store this is"),
        (None, _) => damaged("no segment says which store this is"),
    }
}

/// How segments of a class begin, the first ones; those that do not read begin with nothing.
fn starts(disk: &dyn Disk, folder: &str) -> Result<Vec<(u32, [u8; HEADER])>, StorageError> {
    let names = disk.list(folder).map_err(|error| StorageError::io("list the directory", &error))?;
    let start = |number: u32| {
        let mut bytes = [0; HEADER];
        let read = disk.open_to_read(&file_name(folder, number)).and_then(|file| file.read_at(0, &mut bytes));
        // Not blank, so that it is not passed over.
        (number, if read.is_ok() { bytes } else { [0xff; HEADER] })
    };
    Ok(numbers(&names).into_iter().take(ASKED).map(start).collect())
}
