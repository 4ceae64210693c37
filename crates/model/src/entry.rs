//! What the journal holds, as the reducer reads it.
//!
//! Why here: storage carries entries as opaque bytes; only this crate says what they mean.
//!
//! Invariants: versioned; replaying a journal gives the same tables. Entries do not know which node reads
//! them: what is an own write is said by the entry ([`Entry::Write`]), not found out.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use skerry_base::codec::{self, DecodeError, Versioned};
use skerry_base::{BucketId, Dot, Origin, Vector};

use crate::multipart::{Part, Upload, UploadId};
use crate::record::Record;
use crate::space::Progress;

/// One change of a node's tables.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Entry {
    /// A record accepted here: also raises the bucket's vector for its origin.
    Write(Box<Record>),
    /// A record from elsewhere; leaves the vector alone.
    Record(Box<Record>),
    /// Everything up to here has been stored or is dead.
    Vector {
        /// The bucket.
        bucket: BucketId,
        /// Merged into the bucket's vector.
        upto: Vector,
    },
    /// These records go, without a trace but for the vector that covers them.
    Drop {
        /// The bucket.
        bucket: BucketId,
        /// The records.
        dots: Vec<Dot>,
    },
    /// A multipart upload began at this site.
    Upload(Box<Upload>),
    /// It ended: completed or aborted. Its parts go with it.
    UploadEnd {
        /// The bucket.
        bucket: BucketId,
        /// The key.
        key: String,
        /// The upload.
        id: UploadId,
    },
    /// A part arrived, or replaced an older one of its number.
    Part(Box<Part>),
    /// A fact of this node alone; `None` forgets it.
    Local {
        /// Its name.
        key: Bytes,
        /// Its value.
        value: Option<Bytes>,
    },
    /// A round of a feed goes on, or (none) has ended.
    Progress {
        /// The bucket.
        bucket: BucketId,
        /// The source's life.
        source: Origin,
        /// How far it has come.
        progress: Option<Progress>,
    },
    /// This node leaves the bucket: the vector and the rounds of feeds go, what is stored is loose until it is dropped.
    Leave {
        /// The bucket.
        bucket: BucketId,
    },
}

impl Versioned for Entry {
    const NAME: &'static str = "journal entry";
    const VERSION: u8 = 1;
}

impl Entry {
    /// The number of [`Entry::Record`] among the variants.
    const RECORD: u8 = 1;

    /// The stored form.
    pub fn encode(&self) -> Vec<u8> {
        codec::encode(self)
    }

    /// The stored form of [`Entry::Record`] of an admitted record, from the bytes that it was admitted from: there is one
    /// encoding of a record, so it is not made once more.
    pub fn encode_admitted(record: &[u8]) -> Vec<u8> {
        let fields = record.get(1..).unwrap_or_default();
        [&[Self::VERSION, Self::RECORD], fields].concat()
    }

    /// Reads a stored entry.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        codec::decode(bytes)
    }
}
