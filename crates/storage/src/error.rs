//! What can go wrong, by what the caller should do about it.

use rustix::io::Errno;

/// The store could not do it.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StorageError {
    /// No room: refuse the write; reads, deletes and the collector go on, and freed space lets writes resume.
    #[error("the disk is full: writes are refused until space is freed")]
    Full,
    /// More waits than the store lets in: try again shortly.
    #[error("too many writes wait for the disk")]
    Busy,
    /// The index cannot flush what was written before: try again shortly.
    #[error("too much that was written waits for the disk to take the index")]
    Behind,
    /// A write or sync of the journal failed earlier: nothing is written until the store is opened anew.
    #[error("writes stopped after a failed write or sync: {0}")]
    Poisoned(String),
    /// Another process has this directory.
    #[error("the directory is in use by another process")]
    Locked,
    /// A single entry is larger than a journal segment can hold, or a chunk larger than a chunk may be.
    #[error("too large: {found} bytes, at most {limit}")]
    TooLarge {
        /// What was handed in.
        found: u64,
        /// What is allowed.
        limit: u64,
    },
    /// The reducer refused an entry: a fault of the caller, or (at open) a journal of a newer release.
    #[error(transparent)]
    Reduce(#[from] skerry_base::kv::ReduceError),
    /// Bytes that are not what they should be, where the store cannot go on without them.
    #[error("damaged: {0}")]
    Damaged(String),
    /// A later release wrote it: nothing is damaged, and nothing is written over.
    #[error("{0}, which this release does not know: it was written by a later release, start that one")]
    Later(String),
    /// The index failed.
    #[error("index: {0}")]
    Index(String),
    /// The file system failed.
    #[error("{what}: {error}")]
    Io {
        /// What was being done.
        what: String,
        /// What the system said.
        error: String,
    },
    /// The machine lacks something that it may have again in a moment (open files, memory), which says nothing of what lies on
    /// the disk: try again.
    #[error("{what}: {error}; the machine lacks it just now: try again")]
    Lacking {
        /// What was being done.
        what: String,
        /// What the system said.
        error: String,
    },
    /// The store is shutting down.
    #[error("the store is closed")]
    Closed,
}

impl StorageError {
    /// A failed call to the file system; no room is told apart, and what passes.
    pub(crate) fn io(what: impl Into<String>, error: &std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => Self::Full,
            _ if is_passing(error) => Self::Lacking { what: what.into(), error: error.to_string() },
            _ => Self::Io { what: what.into(), error: error.to_string() },
        }
    }
}

/// Whether it is about the place that is written, and not about room or what the machine lacks.
pub(crate) fn is_of_the_medium(error: &std::io::Error) -> bool {
    matches!(StorageError::io("", error), StorageError::Io { .. })
}

/// Whether it is the process or the machine that lacks something, and not the file.
pub(crate) fn is_passing(error: &std::io::Error) -> bool {
    let lacks = [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::NOBUFS, Errno::AGAIN, Errno::INTR];
    lacks.iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
        || error.kind() == std::io::ErrorKind::OutOfMemory
}

impl StorageError {
    /// A failed call that stops the store, for want of room, too: the room that comes back does not start it again.
    pub(crate) fn stops(what: impl Into<String>, error: &std::io::Error) -> Self {
        Self::Io { what: what.into(), error: format!("{error}; start it again once that is mended") }
    }

    /// With what it kept from being done, and what to do.
    pub(crate) fn within(self, what: &str) -> Self {
        match self {
            Self::Io { what: cause, error } => Self::Io { what: format!("{what}: {cause}"), error },
            Self::Full => Self::Io { what: what.to_owned(), error: "the disk is full".to_owned() },
            other => other,
        }
    }
}

impl From<skerry_base::kv::ViewError> for StorageError {
    fn from(error: skerry_base::kv::ViewError) -> Self {
        use skerry_base::kv::ViewError;
        match error {
            ViewError::Unreadable(why) => Self::Index(why),
            ViewError::Refused(error) => Self::Lacking { what: "read the index".to_owned(), error },
        }
    }
}

/// Why a proposal was not carried out. Nothing of it is visible.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CommitError<E> {
    /// The proposal itself said no.
    #[error("refused")]
    Refused(E),
    /// The store could not.
    #[error(transparent)]
    Storage(#[from] StorageError),
}

/// Why a chunk was not read.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ReadError {
    /// It is not on this node.
    #[error("the chunk is not here")]
    Absent,
    /// It is here but not what was stored: fetch it elsewhere and put it again, which mends it.
    #[error("the chunk is damaged: {0}")]
    Damaged(String),
    /// The range is not within the chunk.
    #[error("range outside of a chunk of {0} bytes")]
    Range(u32),
    /// Nobody could say where it lies.
    #[error(transparent)]
    Store(#[from] StorageError),
}
