//! What sites say to each other, and its encoding (one version byte, then postcard).
//!
//! Invariants: every message is idempotent and makes sense alone: links lose, repeat and reorder. The order of
//! variants and fields is the wire format of version 1: add at the end, never reorder. What was added with a later
//! *dialect* is said only to who understands it ([`Message::dialect`]): others end the stream on a word they do not know.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use skerry_base::codec::{self, DecodeError, Versioned};
use skerry_base::{BucketId, Origin, SiteId, Vector, limits};

use crate::replica::{FeedItem, Fingerprint, Loose, Span};

mod check;
#[cfg(test)]
mod tests;

/// Asks for a piece of a feed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pull {
    /// Names the pull in its batches.
    pub ticket: u64,
    /// Whose records.
    pub bucket: BucketId,
    /// What the asker has, or has on the way to its store.
    pub seen: Vector,
    /// Bytes of one batch.
    pub max_bytes: u32,
    /// How many batches may be sent in a row; and [`Pull::AHEAD`] and [`Pull::WHOLE`].
    pub batches: u8,
}

impl Pull {
    /// In `batches`: the asker takes records beyond a batch's `upto`, of those that killed what it passes over. A release
    /// that does not know of it takes it for a larger number, and sends as many as it may; one that does not say it would
    /// refuse such a batch.
    pub const AHEAD: u8 = 0x80;
    /// In `batches`: the asker is another node of the answerer's site, and takes bodies of up to
    /// [`limits::JOURNAL_BODY_BYTES`] with what the answerer has written. A release that does not know of it takes it for a
    /// larger number, as above.
    pub const WHOLE: u8 = 0x40;

    /// How many batches may be sent in a row, without the marks.
    pub const fn most(&self) -> u8 {
        self.batches & !(Self::AHEAD | Self::WHOLE)
    }
}

/// A piece of a feed; or, with [`Batch::FRESH`] as its ticket, records that go with the news of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Batch {
    /// Of the pull.
    pub ticket: u64,
    /// Whose records.
    pub bucket: BucketId,
    /// The sender's life: what it stamps its own records with. Another life begins another round.
    pub source: Origin,
    /// Which of the pull's batches, from 0.
    pub index: u8,
    /// Whether it is the last one of this pull.
    pub last: bool,
    /// In order of (origin, seq). Those beyond `upto` have killed what it covers, said to who takes them ([`Pull::AHEAD`]).
    pub items: Vec<FeedItem>,
    /// What is complete with these items beyond what the batch started from.
    pub upto: Vector,
    /// Whether the sender has nothing beyond `upto`.
    pub end: bool,
    /// The sender's vector: all of it if `horizon` is not empty, else what lies beyond the start.
    pub vector: Vector,
    /// The sender's horizon, if what the batch started from does not include it; else empty.
    pub horizon: Vector,
    /// The sender's own doubt: it may pass on what is dead. Mostly empty.
    pub doubt: Vector,
}

impl Batch {
    /// The ticket of a batch that nobody asked for: `items` are all records of `source` from a seq on, `vector` is the
    /// news. A release that does not know of it takes it for a late answer and overlooks it.
    pub const FRESH: u64 = 0;
}

/// Why a pull is not answered by records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Refusal {
    /// Not a member of the bucket.
    NotMember,
    /// Too much to do, or the store cannot be read.
    Busy,
}

/// First step of a reconciliation: one fingerprint over everything that both sides cover.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compare {
    /// Names the step.
    pub ticket: u64,
    /// Whose records.
    pub bucket: BucketId,
    /// Which dots: the lesser of both vectors, by origin.
    pub limit: Vector,
    /// Over the asker's live dots within the limit.
    pub all: Fingerprint,
}

/// The answer to [`Compare`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    /// Nothing differs.
    Equal,
    /// The answerer's fingerprint for each origin of the limit, in order.
    Differs(Vec<Fingerprint>),
    /// The limit exceeds the answerer's vector, which is this: ask again within it.
    Beyond(Vector),
    /// Not a member, or unable to read its store.
    Unfit,
}

/// Next steps of a reconciliation: spans that differ.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Probe {
    /// Names the step.
    pub ticket: u64,
    /// Whose records.
    pub bucket: BucketId,
    /// Which; each within what both vectors cover.
    pub spans: Vec<Span>,
}

/// What the other side holds in a span.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Holding {
    /// Fingerprints of its children, see [`Span::children`].
    Children(Vec<Fingerprint>),
    /// The seqs of all live dots, as distances from the one before (the first from `span.first`).
    Dots(Vec<u64>),
}

/// Asks for loose records of one origin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gather {
    /// Names the question.
    pub ticket: u64,
    /// Whose records.
    pub bucket: BucketId,
    /// Which.
    pub span: Span,
    /// The seqs that the asker has, as distances from the one before (the first from `span.first`).
    pub have: Vec<u64>,
    /// Bytes of the answer.
    pub max_bytes: u32,
}

/// The answer: what the asker lacks in the span.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gathered {
    /// Of the question.
    pub ticket: u64,
    /// Whose records.
    pub bucket: BucketId,
    /// In order of seq.
    pub items: Vec<FeedItem>,
    /// Up to here of the span nothing was left out.
    pub upto: u64,
}

/// A bucket that a site became or is no longer a member of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Membership {
    /// Which.
    pub bucket: BucketId,
    /// Counts the changes in this life of the publisher: the highest is true.
    pub version: u64,
    /// Is or is not.
    pub member: bool,
}

/// "I am a member of these buckets", to a landmark.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Publish {
    /// For the acknowledgement.
    pub ticket: u64,
    /// The publisher's life: what an earlier life said is forgotten once `digest` is reached.
    pub life: u64,
    /// Changes; all of them after a reconnection.
    pub changes: Vec<Membership>,
    /// Over all memberships of the publisher.
    pub digest: u64,
}

/// What a landmark says to a question, or a member to its asker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Said {
    /// The sender is a member.
    Member,
    /// The question was passed on to a member, who will answer.
    PassedOn(SiteId),
    /// Members are known, but the sender cannot reach any.
    Known(Vec<SiteId>),
    /// Not heard of, but not all sites have been heard since the start.
    NotYet,
    /// Not heard of, and all live sites have been heard.
    No,
    /// Not heard of; but the sender is not told by everybody. From dialect 2 on.
    NotHere,
    /// Not heard of; the sender is told by everybody and has heard all but these, which are not alive. From dialect 2 on.
    NotHeard(Vec<SiteId>),
    /// The sender is a member, and what was wanted is on its way to the asker beside this word. From
    /// [`crate::limits::SEEKS`] on.
    Giving,
}

/// A question for a bucket that says what is wanted of a member. From [`crate::limits::SEEKS`] on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seek {
    /// For the answer.
    pub ticket: u64,
    /// Which bucket.
    pub bucket: BucketId,
    /// What a member is to give the asker, in words of the shell; never the thing itself.
    pub wanted: Bytes,
}

/// Where a site is and how it sees the federation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// See [`crate::areas::Coordinate::to_bytes`].
    pub coordinate: [u8; crate::areas::coordinate::BYTES],
    /// How many levels of landmarks it has.
    pub k: u8,
    /// The round trip to the receiver as the sender measures it; 0 if it has not.
    pub rtt_micros: u32,
}

/// "Who are the other members of these buckets?", of a member to a landmark that everybody tells.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Census {
    /// For the answer.
    pub ticket: u64,
    /// Bucket, and the digest of the other members that the asker knows.
    pub entries: Vec<(BucketId, u64)>,
}

/// The answer: what the asker does not know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rolls {
    /// Of the census.
    pub ticket: u64,
    /// Buckets of the census whose other members are others than the asker knows, with all of them.
    pub rolls: Vec<(BucketId, Vec<SiteId>)>,
    /// Sites that the sender has not heard: they may be members of anything. None if it has only just started.
    pub unheard: Option<Vec<SiteId>>,
    /// There was not room for all: ask again.
    pub more: bool,
}

/// Everything sites say to each other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    /// A packet of the membership protocol.
    Swim(Bytes),
    /// Asks for records.
    Pull(Pull),
    /// Records.
    Batch(Batch),
    /// No records.
    PullRefused {
        /// Of the pull.
        ticket: u64,
        /// Whose records.
        bucket: BucketId,
        /// Why.
        reason: Refusal,
    },
    /// The sender has this much, durably.
    News {
        /// Of which bucket.
        bucket: BucketId,
        /// How much.
        vector: Vector,
    },
    /// Digests of the sender's vectors: who differs answers with news. Who has the same is silent if the sender wants news, and
    /// else says so by the same message, once in a while: releases before do not. Nothing to check and nothing to listen to: the
    /// sender takes batches that it has not asked for ([`Batch::FRESH`]).
    Check {
        /// Whether the sender wants news about these buckets from now on.
        listen: bool,
        /// Bucket and digest.
        entries: Vec<(BucketId, u64)>,
    },
    /// First step of a reconciliation.
    Compare(Compare),
    /// Its answer.
    Compared {
        /// Of the comparison.
        ticket: u64,
        /// Whose records.
        bucket: BucketId,
        /// The answerer's own doubt.
        doubt: Vector,
        /// What came out.
        verdict: Verdict,
    },
    /// Next steps.
    Probe(Probe),
    /// Their answers, one per span.
    Probed {
        /// Of the probe.
        ticket: u64,
        /// Whose records.
        bucket: BucketId,
        /// The answerer's own doubt.
        doubt: Vector,
        /// In order of the spans.
        holdings: Vec<Holding>,
    },
    /// The sender's vector covers these and it lacks them: they are dead. Heeded by who includes that vector, so
    /// that what replaced them is there before they go.
    Dead {
        /// Whose records.
        bucket: BucketId,
        /// The sender's vector.
        vector: Vector,
        /// Which.
        dots: Vec<skerry_base::Dot>,
    },
    /// To a landmark.
    Publish(Publish),
    /// Of a landmark: the digest of what it holds for this publisher now.
    Published {
        /// Of the publication.
        ticket: u64,
        /// The life it holds.
        life: u64,
        /// What it holds.
        digest: u64,
    },
    /// A question to a landmark.
    Locate {
        /// For the answer.
        ticket: u64,
        /// Which bucket.
        bucket: BucketId,
    },
    /// A question passed on to a member, who answers the asker.
    PassOn {
        /// Of the question.
        ticket: u64,
        /// Which bucket.
        bucket: BucketId,
        /// Who asked.
        asker: SiteId,
    },
    /// The answer.
    Said {
        /// Of the question.
        ticket: u64,
        /// Which bucket.
        bucket: BucketId,
        /// What.
        said: Said,
    },
    /// The sender is not a member of a bucket it was taken for: forget it.
    NotMember {
        /// Which bucket.
        bucket: BucketId,
    },
    /// The sender stores these beyond its vector.
    Loose {
        /// Of which bucket.
        bucket: BucketId,
        /// Whether it wants to be told the same.
        answer: bool,
        /// What, in order of origin.
        loose: Vec<Loose>,
    },
    /// Asks for some of it.
    Gather(Gather),
    /// Gives it.
    Gathered(Gathered),
    /// Where the sender is. From dialect 2 on, like all that follows.
    Place(Place),
    /// To a landmark that is none of the sender's any more: forget what I told. Answered as a publication.
    Withdraw {
        /// For the acknowledgement.
        ticket: u64,
    },
    /// Asks for the members of buckets.
    Census(Census),
    /// Tells them.
    Rolls(Rolls),
    /// Whether the sender pays for what crosses its links. Said once on each link and when it changes, from
    /// [`crate::limits::METERED`] on.
    Metered {
        /// It asks after so many seconds of silence whether the other is there, and wants to be asked no sooner; 0: it does
        /// not pay.
        every_secs: u32,
    },
    /// A question to a landmark, which passes on with it what is wanted; a member gives that at once. From
    /// [`crate::limits::SEEKS`] on, like what follows.
    Seek(Seek),
    /// The same passed on to a member.
    SeekOn {
        /// The question.
        seek: Seek,
        /// Who asked.
        asker: SiteId,
    },
}

impl Versioned for Message {
    const NAME: &'static str = "message between sites";
    const VERSION: u8 = 1;
}

/// What a message counts as in the accounts of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Carries records.
    Record,
    /// Anything else.
    Control,
}

impl Message {
    /// The wire form.
    pub fn encode(&self) -> Vec<u8> {
        codec::encode(self)
    }

    /// Reads a wire form; refuses what is too long, not of this version, damaged or not canonical.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let malformed = |reason: &str| DecodeError::Malformed { name: Self::NAME, reason: reason.into() };
        if bytes.len() > limits::MESSAGE_BYTES {
            return Err(malformed("too long"));
        }
        let message: Self = codec::decode(bytes)?;
        match message.check() {
            Ok(()) => Ok(message),
            Err(reason) => Err(malformed(reason)),
        }
    }

    /// For the accounts of a link.
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Batch(_) | Self::Gathered(_) => Kind::Record,
            _ => Kind::Control,
        }
    }

    /// What can be said in place of this where no records may cross: that there is something, or that it is not given now.
    pub fn without_records(&self) -> Option<Self> {
        let Self::Batch(Batch { ticket, bucket, vector, .. }) = self else { return None };
        let (ticket, bucket) = (*ticket, *bucket);
        Some(match ticket {
            Batch::FRESH => Self::News { bucket, vector: vector.clone() },
            _ => Self::PullRefused { ticket, bucket, reason: Refusal::Busy },
        })
    }

    /// What the receiver must understand for this to be said to it.
    pub const fn dialect(&self) -> u8 {
        match self {
            Self::Place(_) | Self::Withdraw { .. } | Self::Census(_) | Self::Rolls(_) => 2,
            Self::Said { said: Said::NotHere | Said::NotHeard(_), .. } => 2,
            Self::Metered { .. } => crate::limits::METERED,
            Self::Seek(_) | Self::SeekOn { .. } | Self::Said { said: Said::Giving, .. } => {
                crate::limits::SEEKS
            }
            _ => 1,
        }
    }

    /// Whether it should travel as a datagram if there are any: late is as good as lost.
    pub const fn is_datagram(&self) -> bool {
        matches!(self, Self::Swim(_))
    }
}
