//! The real disk: the only place of the product that opens data files.
//!
//! Positioned reads and writes through the page cache, `fdatasync`, `fallocate`. Direct I/O was refused: no
//! gain on SD cards and SATA, and it would forbid unaligned frames.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{FallocateFlags, SeekFrom};
use rustix::io::Errno;

use skerry_base::Instant;

use super::{Disk, File, Lock};

/// Parts that the kernel is given at once: it refuses more than 1024, and we have two.
const AT_ONCE: usize = 16;

/// A directory of the file system.
#[derive(Debug)]
pub struct RealDisk {
    root: PathBuf,
    opened: std::time::Instant,
}

impl RealDisk {
    /// The directory is made when missing.
    #[expect(clippy::disallowed_methods, reason = "statistics of syncs are measured, never decided on")]
    pub fn new(root: impl Into<PathBuf>) -> io::Result<Self> {
        let root = root.into();
        fs::create_dir_all(&root)?;
        Ok(Self { root, opened: std::time::Instant::now() })
    }

    /// Bytes of the file system that a directory is on, taken or not.
    pub fn total_bytes(directory: &Path) -> io::Result<u64> {
        let stat = rustix::fs::statvfs(directory)?;
        Ok(stat.f_blocks.saturating_mul(stat.f_frsize))
    }

    /// Bytes that can still be taken of the file system that a directory is on.
    pub(crate) fn free_at(directory: &Path) -> io::Result<u64> {
        let stat = rustix::fs::statvfs(directory)?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }
}

/// Syncs a directory, so that names made or removed in it last.
fn sync_path(path: &Path) -> io::Result<()> {
    fs::File::open(path)?.sync_all()
}

impl Disk for RealDisk {
    fn create(&self, name: &str, len: u64) -> io::Result<Arc<dyn File>> {
        let path = self.path(name);
        if let Some(folder) = path.parent()
            && !folder.exists()
        {
            fs::create_dir_all(folder)?;
            sync_path(&self.root)?;
        }
        let file = fs::OpenOptions::new().read(true).write(true).create_new(true).open(&path)?;
        if let Err(error) = preallocate(&file, len) {
            drop(file);
            fs::remove_file(&path)?;
            return Err(error);
        }
        Ok(Arc::new(RealFile { file }))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let file = fs::OpenOptions::new().read(true).write(true).open(self.path(name))?;
        Ok(Arc::new(RealFile { file }))
    }

    fn open_to_read(&self, name: &str) -> io::Result<Arc<dyn File>> {
        Ok(Arc::new(RealFile { file: fs::File::open(self.path(name))? }))
    }

    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        let entries = match fs::read_dir(self.path(folder)) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry?;
            if entry.file_type()?.is_file()
                && let Ok(name) = entry.file_name().into_string()
            {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.path(name))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path(from), self.path(to))
    }

    fn sync_dir(&self, folder: &str) -> io::Result<()> {
        sync_path(&self.path(folder))
    }

    fn free_bytes(&self) -> io::Result<u64> {
        Self::free_at(&self.root)
    }

    /// Tried with a small file: file systems do not say.
    fn punches(&self) -> bool {
        const NAME: &str = "probe";
        const LEN: u64 = 64 << 10;
        fs::remove_file(self.path(NAME)).ok();
        let tried = self.create(NAME, LEN).and_then(|file| file.punch(0, LEN / 2));
        fs::remove_file(self.path(NAME)).ok();
        // A disk that is full tells nothing; the first hole will.
        !tried.is_err_and(|error| error.kind() == ErrorKind::Unsupported)
    }

    fn lock(&self) -> io::Result<Lock> {
        let file = fs::OpenOptions::new().write(true).create(true).truncate(false).open(self.path("lock"))?;
        match file.try_lock() {
            Ok(()) => Ok(Box::new(file)),
            Err(fs::TryLockError::WouldBlock) => Err(ErrorKind::WouldBlock.into()),
            Err(fs::TryLockError::Error(error)) => Err(error),
        }
    }

    fn remove_folder(&self, folder: &str) -> io::Result<()> {
        match fs::remove_dir_all(self.path(folder)) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    fn monotonic(&self) -> Instant {
        Instant(self.opened.elapsed().as_nanos() as u64)
    }

    fn native(&self, folder: &str) -> Option<PathBuf> {
        Some(self.path(folder))
    }
}

/// Takes the space now, so that a later write within it cannot fail for want of room. A file system without
/// `fallocate` gets a sparse file, and fullness shows at the write.
fn preallocate(file: &fs::File, len: u64) -> io::Result<()> {
    if len == 0 {
        return Ok(());
    }
    match rustix::fs::fallocate(file, FallocateFlags::empty(), 0, len) {
        Ok(()) => Ok(()),
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => file.set_len(len),
        Err(error) => Err(error.into()),
    }
}

struct RealFile {
    file: fs::File,
}

impl File for RealFile {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let mut done = 0;
        while let Some(rest) = buf.get_mut(done..).filter(|rest| !rest.is_empty()) {
            match self.file.read_at(rest, offset + done as u64) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    #[cfg(target_os = "linux")]
    fn read_now(&self, offset: u64, buf: &mut [u8]) -> io::Result<Option<usize>> {
        let wanted = buf.len();
        let parts = &mut [io::IoSliceMut::new(buf)];
        match rustix::io::preadv2(&self.file, parts, offset, rustix::io::ReadWriteFlags::NOWAIT) {
            Ok(read) if read == wanted => Ok(Some(read)),
            // The rest is not in memory (or the file system does not know the question).
            Ok(_) | Err(Errno::AGAIN | Errno::OPNOTSUPP | Errno::NOSYS | Errno::INTR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn write_at(&self, offset: u64, parts: &[&[u8]]) -> io::Result<()> {
        let all: Vec<io::IoSlice<'_>> =
            parts.iter().take(AT_ONCE).map(|part| io::IoSlice::new(part)).collect();
        let mut written = match rustix::io::pwritev(&self.file, &all, offset) {
            Ok(written) => written,
            Err(Errno::INTR) => 0,
            Err(error) => return Err(error.into()),
        };
        // Nearly always that was all of it.
        let mut at = offset;
        for part in parts {
            let (_, rest) = part.split_at(written.min(part.len()));
            self.file.write_all_at(rest, at + (part.len() - rest.len()) as u64)?;
            written -= part.len() - rest.len();
            at += part.len() as u64;
        }
        Ok(())
    }

    fn begin_writing(&self, offset: u64, len: u64) {
        // Linux begins to write what is dirty in the range before it looks for clean pages to drop, and these are none yet.
        // `sync_file_range` says it by name, but only by `unsafe`.
        self.release(offset, len);
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn punch(&self, offset: u64, len: u64) -> io::Result<()> {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match rustix::fs::fallocate(&self.file, flags, offset, len) {
            Ok(()) => Ok(()),
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => Err(ErrorKind::Unsupported.into()),
            Err(error) => Err(error.into()),
        }
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn release(&self, offset: u64, len: u64) {
        let len = std::num::NonZeroU64::new(len);
        // Only a hint: where it is not heard, the memory is read.
        let _ = rustix::fs::fadvise(&self.file, offset, len, rustix::fs::Advice::DontNeed);
    }

    fn next_data(&self, offset: u64) -> io::Result<Option<u64>> {
        match rustix::fs::seek(&self.file, SeekFrom::Data(offset)) {
            Ok(found) => Ok(Some(found)),
            Err(Errno::NXIO) => Ok(None),
            Err(_) => Ok(Some(offset)),
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    /// However many there are, and whichever are empty.
    #[test]
    fn parts_are_written_one_behind_the_other() {
        let folder = tempfile::tempdir().unwrap();
        let disk = RealDisk::new(folder.path()).unwrap();
        for (name, count) in [("none", 0), ("one", 1), ("two", 2), ("at-once", AT_ONCE), ("many", 3000)] {
            let parts: Vec<Vec<u8>> = (0..count).map(|n| vec![n as u8; n * 7 % 11]).collect();
            let file = disk.create(name, 0).unwrap();
            file.write_at(5, &parts.iter().map(Vec::as_slice).collect::<Vec<_>>()).unwrap();
            let expected = parts.concat();
            let mut found = vec![9; expected.len() + 9];
            let len = if expected.is_empty() { 0 } else { expected.len() + 5 };
            assert_eq!(file.read_at(0, &mut found).unwrap(), len, "{name}");
            assert_eq!(found.get(5..len).unwrap_or_default(), expected, "{name}");
        }
    }
}
