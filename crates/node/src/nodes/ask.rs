//! What one node of a site asks another one, and the answers: a stream of its own for each question, as between sites.
//!
//! Invariants: the order of variants and fields is the wire format of version 131, add at the end; records and pages
//! travel as they do between sites; a page is bounded.

use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use skerry_base::codec;
use skerry_base::limits::MESSAGE_BYTES;
use skerry_base::{BucketId, Dot, NodeId, Vector, WallTime};
use skerry_federation::budget::Class;
use skerry_model::multipart::UploadId;

use super::word::{Word, decode};
use crate::net::frame;
use crate::peers::PeerError;
use crate::peers::message::{Hold, List, Page, Which};
use crate::site::Site;

/// A question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Ask {
    /// Hold a version: record and payload. With an epoch for scope `site`: only while the answerer is in it, both when the
    /// version becomes visible there and when it answers. Without one ahead of that, so that payload is there already.
    Hold {
        /// The epoch.
        epoch: Option<u64>,
        /// Whether a decision rests on it: then who does not keep the bucket says so instead of answering for it.
        is_bound: bool,
        /// The version.
        hold: Hold,
    },
    /// Say what you hold, in this epoch and behind everything that was let in under earlier ones.
    Holdings {
        /// The epoch.
        epoch: u64,
        /// Where the page before ended.
        after: Option<After>,
        /// Of all writers; otherwise of those of this site only.
        all: bool,
    },
    /// The heads of a key, or one version of it, read under a lease.
    Heads {
        /// The bucket.
        bucket: BucketId,
        /// The key.
        key: String,
        /// Which version.
        version: Option<Which>,
    },
    /// A page of keys, or of versions, read under a lease.
    Page {
        /// Which.
        list: List,
        /// Whether of versions.
        versions: bool,
    },
    /// Have these records durable on which a decision rests, in this epoch as [`Ask::Hold`]; bodies follow as ever.
    Have {
        /// The epoch.
        epoch: u64,
        /// Of this bucket.
        bucket: BucketId,
        /// Encoded.
        records: Vec<Bytes>,
    },
    /// Say which buckets you do not read for the site, in this epoch.
    Gaps {
        /// The epoch.
        epoch: u64,
    },
    /// A page of the uploads that live at this node.
    Uploads(Uploads),
}

/// Which uploads of a bucket, as [`skerry_gateway::service::UploadQuery`] has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Uploads {
    /// The bucket.
    pub(crate) bucket: BucketId,
    /// Only keys that begin so.
    pub(crate) prefix: String,
    /// What keys are folded at.
    pub(crate) delimiter: Option<String>,
    /// Behind this entry; with `after_upload` from this key on.
    pub(crate) after: String,
    /// Of the key `after` itself behind this id.
    pub(crate) after_upload: Option<String>,
    /// At most so many.
    pub(crate) limit: u32,
}

/// An entry of such a page.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct ListedUpload {
    /// The key, or a common prefix.
    pub(crate) key: String,
    /// The upload; none: a prefix.
    pub(crate) upload: Option<Begun>,
}

/// An upload that was begun.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Begun {
    /// Its id.
    pub(crate) id: UploadId,
    /// When.
    pub(crate) started: WallTime,
    /// Under which access key.
    pub(crate) writer: String,
}

/// Where a page of holdings ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct After {
    /// In this bucket.
    pub(crate) bucket: BucketId,
    /// In the midst of its loose records, behind this one; none: at its end.
    pub(crate) loose: Option<Dot>,
}

/// What is held of one bucket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Held {
    /// Which.
    pub(crate) bucket: BucketId,
    /// What its vector covers.
    pub(crate) vector: Vector,
    /// Records ahead of that, and whether the body is held as a copy that counts.
    pub(crate) loose: Vec<(Bytes, bool)>,
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Told {
    /// It is durable here.
    Held,
    /// So many bytes of it are here, and more is on the way: ask again.
    Holding(u64),
    /// What is held; with where to go on, if there is more.
    Holdings(Vec<Held>, Option<After>),
    /// The records of a key.
    Heads(Vec<Bytes>),
    /// The page.
    Page(Page),
    /// No, and why.
    Not(String),
    /// Not as long as this is so: nothing that a decision in this bucket rests on.
    Never(String),
    /// Of these it may lack what the site acknowledged.
    Gaps(Vec<BucketId>),
    /// Uploads by key, then by id, and whether there are more behind them.
    Uploads(Vec<ListedUpload>, bool),
}

/// Asks another node of this site.
pub(super) async fn ask(site: &Site, node: NodeId, ask: Ask, patience: Duration) -> Result<Told, PeerError> {
    let exchange = async {
        let mut stream = site.peers.net().open(node).await?;
        stream.rank(Class::Read);
        frame::write(&mut stream, &codec::encode(&Word::Ask(Box::new(ask)))).await?;
        let answer = frame::read_capped(&mut stream, MESSAGE_BYTES).await?;
        match decode(&answer.unwrap_or_default())? {
            Word::Told(told) => Ok(told),
            _ => Err(PeerError::Senseless("another word than an answer")),
        }
    };
    tokio::time::timeout(patience, exchange).await.map_err(|_| PeerError::Silent)?
}
