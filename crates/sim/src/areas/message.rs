//! What sites say to each other about who holds what. Shapes only, for the proof in the simulator: what goes over
//! wires is said by `skerry_federation::Message`.
//!
//! Every message fits one datagram; none needs a session.

use serde::{Deserialize, Serialize};
use skerry_base::{BucketId, SiteId};

use skerry_federation::areas::Coordinate;

/// One bucket of a publisher: in one life the highest version is true.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Membership {
    /// Which.
    pub bucket: BucketId,
    /// Rises with every change of the publisher.
    pub version: u64,
    /// Holds it, or holds it no more.
    pub member: bool,
}

/// To a landmark.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Publish {
    /// For the acknowledgement.
    pub ticket: u64,
    /// Of the publisher: rises with every start.
    pub life: u64,
    /// Some of its memberships.
    pub changes: Vec<Membership>,
    /// Of all its memberships.
    pub digest: u64,
    /// The landmark is none of the publisher's any more: forget it.
    pub withdraw: bool,
}

/// What a landmark or a holder says to a question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Said {
    /// The sender holds it; on the wire record and data come with this.
    Member,
    /// The question went on to these holders: one, or two that race.
    PassedOn(Vec<SiteId>),
    /// Nobody who told the sender holds it.
    No {
        /// The sender is of the top level and has heard everybody who lives.
        whole: bool,
    },
    /// The sender has not heard yet what it should know.
    NotYet,
}

/// Between two sites.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Message {
    /// To a landmark: what I hold.
    Publish(Publish),
    /// Of a landmark: what it holds for this publisher now.
    Published {
        /// Of the publication.
        ticket: u64,
        /// Of the publisher.
        life: u64,
        /// What it holds.
        digest: u64,
    },
    /// To a landmark: who holds this bucket?
    Ask {
        /// For the answer.
        ticket: u64,
        /// Which.
        bucket: BucketId,
        /// Where the asker is: the landmark chooses the holder by the whole way.
        from: Coordinate,
        /// Holders that did not answer.
        except: Vec<SiteId>,
    },
    /// Of a landmark to a holder: answer this question.
    PassOn {
        /// Of the question.
        ticket: u64,
        /// Which.
        bucket: BucketId,
        /// Who asked.
        asker: SiteId,
    },
    /// To the asker.
    Answer {
        /// Of the question.
        ticket: u64,
        /// Which.
        bucket: BucketId,
        /// The answer.
        said: Said,
    },
    /// Of a holder to the landmark that passed a question on: it does not hold that.
    NotMember {
        /// Which.
        bucket: BucketId,
    },
    /// Of the asker: it has its answer.
    Cancel {
        /// Of the question.
        ticket: u64,
    },
}
