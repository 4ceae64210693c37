//! What makes a directory a store: the file that says so, and the salt in it.
//!
//! Before: who opens the store, for the first time or again. After: everything that is written, which holds the salt, so that nothing
//! of another store and nothing that a client wrote is taken for its own.

use std::io::ErrorKind;

use crate::StorageError;
use crate::checksum::crc32c;
use crate::disk::Disk;
use crate::fields::Fields;
use crate::journal::numbers;

/// The file that makes a directory a store: `magic "SKST" · version u32 · salt [16] · crc u32`.
const FILE: &str = "store";
const MAGIC: u32 = u32::from_le_bytes(*b"SKST");
const LEN: usize = 28;

/// Whether the directory is a store. One that holds a journal but no identity is not to be overwritten.
pub(super) fn exists(disk: &dyn Disk) -> Result<bool, StorageError> {
    let listed =
        |folder: &str| disk.list(folder).map_err(|error| StorageError::io("list the directory", &error));
    let found = listed(".")?.iter().any(|name| name == FILE);
    if !found && !numbers(&listed(crate::journal::FOLDER)?).is_empty() {
        return Err(StorageError::Damaged(format!("there is a journal but no file `{FILE}` beside it")));
    }
    Ok(found)
}

pub(super) fn make(disk: &dyn Disk, salt: [u8; 16]) -> Result<[u8; 16], StorageError> {
    let failed = |error: std::io::Error| StorageError::io("make the store", &error);
    let mut bytes = Vec::with_capacity(LEN);
    bytes.extend_from_slice(&MAGIC.to_le_bytes());
    bytes.extend_from_slice(&1_u32.to_le_bytes());
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
    disk.sync_dir(".").map_err(failed)?;
    Ok(salt)
}

pub(super) fn read(disk: &dyn Disk) -> Result<[u8; 16], StorageError> {
    let failed = |error: std::io::Error| StorageError::io("read the store's identity", &error);
    let file = disk.open(FILE).map_err(failed)?;
    let mut bytes = [0; LEN];
    file.read_at(0, &mut bytes).map_err(failed)?;
    parse(&bytes).ok_or_else(|| {
        StorageError::Damaged(format!("the file `{FILE}` is not that of a store of version 1"))
    })
}

fn parse(bytes: &[u8]) -> Option<[u8; 16]> {
    let (covered, crc) = bytes.split_at_checked(LEN - 4)?;
    let mut fields = Fields::of(covered);
    let right =
        fields.u32()? == MAGIC && fields.u32()? == 1 && crc32c(&[covered]) == Fields::of(crc).u32()?;
    fields.array().filter(|_| right)
}
