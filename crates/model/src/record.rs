//! The record: one immutable statement about a key, format v1.
//!
//! Why here: it is what the journal holds, feeds carry and merge judges. Later work changes what is done with
//! a field, not the format, so v1 holds every field the design names, used yet or not.
//!
//! Invariants: a record is at most [`limits::RECORD_BYTES`] encoded, key and user metadata apart; there is one
//! encoding of a record ([`Record::admit`] refuses any other), so equal records are equal bytes everywhere.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use skerry_base::codec::{self, DecodeError, Versioned};
use skerry_base::limits;
use skerry_base::{BucketId, Dot, Hlc, SiteId, Vector};

use crate::object::{Object, ObjectError};

/// The longest encoded record.
pub const RECORD_BYTES_MAX: usize = limits::RECORD_BYTES + limits::KEY_BYTES + limits::USER_METADATA_BYTES;

/// One statement about a key of a bucket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The incarnation of the bucket.
    pub bucket: BucketId,
    /// Identity within the bucket.
    pub dot: Dot,
    /// The key, at most [`limits::KEY_BYTES`] bytes.
    pub key: String,
    /// Orders concurrent heads.
    pub clock: Hlc,
    /// What of this key had been seen when it was accepted. Of an `Erase`: its target and what that had seen.
    pub context: Vector,
    /// In force when it was accepted. Of an `Erase` or a `Note`: that of its target.
    pub versioning: Versioning,
    /// Versions that this covers but that must stay readable. Of an `Erase`: those of its target.
    pub keeps: Vec<Kept>,
    /// The acknowledgement scope reached when it was written.
    pub scope: Scope,
    /// The home's decision, when it was a conditional operation.
    pub home: Option<HomeDecision>,
    /// The placement that was planned for it.
    pub placement: Option<PlacementRef>,
    /// The access key it was written under.
    pub writer: String,
    /// Where the payload was stored first.
    pub site: SiteId,
    /// What it says.
    pub statement: Statement,
}

impl Versioned for Record {
    const NAME: &'static str = "record";
    const VERSION: u8 = 1;
}

/// Whether a bucket keeps older versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub enum Versioning {
    /// Never switched on.
    #[default]
    Off,
    /// Every write makes a version.
    Enabled,
    /// Was on; writes replace the null version.
    Suspended,
}

/// A conflict's loser that a later write covers and keeps readable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Kept {
    /// The loser.
    pub dot: Dot,
    /// Since when it is kept: the clock of the first write that covered it.
    pub since: Hlc,
}

/// How far a write was durable when it was acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum Scope {
    /// On the node.
    #[default]
    Node,
    /// On all live nodes of the site.
    Site,
    /// At the sites of the area.
    Area,
    /// At so many sites.
    Sites(u16),
    /// As the bucket's reliability asks.
    Durable,
}

/// What the home of a bucket decided, in its order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct HomeDecision {
    /// Epoch of the home.
    pub epoch: u64,
    /// Which decision of that epoch.
    pub n: u64,
}

/// A placement record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PlacementRef {
    /// The record that places.
    pub dot: Dot,
    /// Its epoch.
    pub epoch: u64,
}

/// What a record says about its key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Statement {
    /// This version exists.
    Put(Box<Object>),
    /// What the context covers is deleted.
    Delete,
    /// That one version is gone for good.
    Erase {
        /// The version.
        target: Dot,
    },
    /// A fact about one version, kept and fed as long as that lives (placement, lock, tags).
    Note {
        /// The version.
        target: Dot,
        /// What kind of fact; releases that do not know it carry it on.
        topic: u16,
        /// The fact.
        content: Bytes,
    },
}

/// Why a record is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// Not a record of a version this release reads.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// Its object is malformed.
    #[error(transparent)]
    Object(#[from] ObjectError),
    /// Not the one encoding of what it says.
    #[error("record is not in its canonical encoding")]
    NotCanonical,
    /// Larger than a feed carries.
    #[error("record of {found} bytes, key and user metadata apart; at most {most} are carried")]
    TooLarge {
        /// What was found.
        found: usize,
        /// The bound.
        most: usize,
    },
    /// Empty, or longer than S3 has it.
    #[error("key of {0} bytes; 1 to 1024 are allowed")]
    Key(usize),
    /// A dot of seq 0, more kept versions than allowed, an `Erase` of itself.
    #[error("record contradicts itself: {0}")]
    Contradiction(&'static str),
}

impl Record {
    /// The stored form.
    pub fn encode(&self) -> Vec<u8> {
        codec::encode(self)
    }

    /// How long that is.
    pub fn encoded_len(&self) -> usize {
        codec::encoded_len(self)
    }

    /// Reads what this node stored.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        codec::decode(bytes)
    }

    /// Reads what came from elsewhere: bounded, canonical, and no contradiction in it.
    pub fn admit(bytes: &[u8]) -> Result<Self, RecordError> {
        if bytes.len() > RECORD_BYTES_MAX {
            return Err(RecordError::TooLarge { found: bytes.len(), most: RECORD_BYTES_MAX });
        }
        let record = Self::decode(bytes)?;
        let again = record.encode();
        record.check_of(again.len())?;
        if again == bytes { Ok(record) } else { Err(RecordError::NotCanonical) }
    }

    /// Refuses what breaks a bound or an invariant.
    pub fn check(&self) -> Result<(), RecordError> {
        self.check_of(self.encoded_len())
    }

    /// The same of a record that takes so many bytes.
    fn check_of(&self, encoded: usize) -> Result<(), RecordError> {
        if self.key.is_empty() || self.key.len() > limits::KEY_BYTES {
            return Err(RecordError::Key(self.key.len()));
        }
        if self.dot.seq == 0 {
            return Err(RecordError::Contradiction("seq 0"));
        }
        if self.keeps.len() > limits::CONFLICTS_PER_KEY {
            return Err(RecordError::Contradiction("too many kept versions"));
        }
        if self.subject() == self.dot && self.target().is_some() {
            return Err(RecordError::Contradiction("aims at itself"));
        }
        if self.target().is_none() && self.context.covers(self.dot) {
            return Err(RecordError::Contradiction("has seen itself"));
        }
        if let Statement::Put(object) = &self.statement {
            object.check()?;
        }
        let found = self.budgeted_of(encoded);
        let most = limits::RECORD_BYTES;
        if found > most { Err(RecordError::TooLarge { found, most }) } else { Ok(()) }
    }

    /// Encoded bytes that count against [`limits::RECORD_BYTES`].
    pub fn budgeted_bytes(&self) -> usize {
        self.budgeted_of(self.encoded_len())
    }

    fn budgeted_of(&self, encoded: usize) -> usize {
        let metadata = self.object().map_or(0, Object::user_metadata_bytes);
        encoded.saturating_sub(self.key.len() + metadata)
    }

    /// The object of a `Put`.
    pub fn object(&self) -> Option<&Object> {
        match &self.statement {
            Statement::Put(object) => Some(object),
            _ => None,
        }
    }

    /// Whether it is a tombstone or delete marker.
    pub const fn is_delete(&self) -> bool {
        matches!(self.statement, Statement::Delete)
    }

    /// Whether it is a version of the key: a `Put` or a `Delete`.
    pub const fn is_version(&self) -> bool {
        matches!(self.statement, Statement::Put(_) | Statement::Delete)
    }

    /// The version an `Erase` or a `Note` speaks of.
    pub const fn target(&self) -> Option<Dot> {
        match self.statement {
            Statement::Erase { target } | Statement::Note { target, .. } => Some(target),
            Statement::Put(_) | Statement::Delete => None,
        }
    }

    /// The version whose life decides about this record: its target, else itself.
    pub fn subject(&self) -> Dot {
        self.target().unwrap_or(self.dot)
    }

    /// Whether it belongs to the null version of the key: replaced by the next write, not kept beside it.
    pub fn is_null(&self) -> bool {
        self.versioning != Versioning::Enabled
    }

    /// Whether it lists this dot among what it keeps.
    pub fn keeps(&self, dot: Dot) -> bool {
        self.keeps.iter().any(|kept| kept.dot == dot)
    }
}

#[cfg(test)]
mod tests;
