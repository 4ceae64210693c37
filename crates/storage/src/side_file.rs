//! Small files beside the journal whose loss costs only time: written beside and renamed, so that a crash leaves
//! the old content or the new; a checksum says whether one reads.

use std::io::ErrorKind;

use skerry_base::codec::{Versioned, decode, encode};

use crate::StorageError;
use crate::checksum::crc32c;
use crate::disk::Disk;

/// What a file holds; the default if there is none.
pub(crate) fn read<T: Versioned + Default>(
    disk: &dyn Disk,
    name: &str,
    salt: &[u8; 16],
    most: u64,
) -> Result<T, String> {
    let file = match disk.open(name) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(T::default()),
        Err(error) => return Err(error.to_string()),
    };
    let len = file.len().map_err(|error| error.to_string())?;
    if len > most {
        return Err(format!("the file `{name}` has {len} bytes"));
    }
    let mut bytes = vec![0; len as usize];
    file.read_at(0, &mut bytes).map_err(|error| error.to_string())?;
    let cut = bytes.len().saturating_sub(4);
    let (body, sum) = bytes.split_at_checked(cut).ok_or("cut short")?;
    if sum != crc32c(&[salt, body]).to_le_bytes() {
        return Err(format!("the checksum of the file `{name}` does not match"));
    }
    decode(body).map_err(|error| error.to_string())
}

/// Replaces what a file holds; durable when it returns.
pub(crate) fn write<T: Versioned>(
    disk: &dyn Disk,
    name: &str,
    salt: &[u8; 16],
    content: &T,
) -> Result<(), StorageError> {
    let failed = |error: std::io::Error| StorageError::io(format!("write the file `{name}`"), &error);
    let body = encode(content);
    let sum = crc32c(&[salt, &body]).to_le_bytes();
    let staged = format!("{name}.new");
    match disk.remove(&staged) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    let file = disk.create(&staged, 0).map_err(failed)?;
    file.write_at(0, &[&body, &sum]).map_err(failed)?;
    file.sync().map_err(failed)?;
    disk.rename(&staged, name).map_err(failed)?;
    disk.sync_dir(".").map_err(failed)
}
