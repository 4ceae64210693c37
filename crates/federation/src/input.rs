//! What can happen to a [`crate::Federation`].

use core::time::Duration;
use std::collections::BTreeSet;

use skerry_base::{BucketId, SiteId, Vector};

use crate::Message;

/// Ties an answer to what it answers. The machine draws those of [`crate::Output::Apply`],
/// [`crate::Output::Fresh`], [`crate::Output::Keep`] and [`crate::Output::Drop`]; the shell draws those of [`Input::Locate`].
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, serde::Serialize, serde::Deserialize,
)]
pub struct Ticket(pub u64);

/// A site of the federation, as records say that all sites read alike.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SiteEntry {
    /// Which.
    pub site: SiteId,
    /// Whether it pays for what crosses its links: then it is no landmark where others can be. Not to be taken from what is
    /// said over a link ([`Input::Metered`]), which not all hear.
    pub pays: bool,
}

/// Everything that can happen. Order of arrival is the order of the world: links may flap, messages may be
/// lost, repeated or overtaken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// All sites as the roster now says; this site may be among them. Who is not listed is forgotten.
    Roster(Vec<SiteEntry>),
    /// Messages can be sent to this site. Repeated `LinkUp` means that the connection was made anew.
    LinkUp(SiteId),
    /// Messages can no longer be sent to this site.
    LinkDown(SiteId),
    /// What the other end of the link that stands understands; said once per link, when it is known.
    Speaks {
        /// Who.
        site: SiteId,
        /// See [`crate::limits::DIALECT`]; 1 for who does not know the question.
        dialect: u8,
    },
    /// A decoded message from a site whose identity the link has proven.
    Received {
        /// Who sent it.
        from: SiteId,
        /// What it says.
        message: Message,
    },
    /// Somebody waits until all members of a followed bucket have said that they have seen so much of it: they are asked in turn,
    /// once, and those that lack it for long not each time. What they have said is told by [`crate::Federation::seen`]; who still waits says so again.
    Hear {
        /// Which.
        bucket: BucketId,
        /// Up to where.
        upto: Vector,
    },
    /// A measured round trip.
    Rtt {
        /// To whom.
        site: SiteId,
        /// How long.
        rtt: Duration,
    },
    /// This site is a member of the bucket from now on (also said once per bucket after each start).
    Join {
        /// Which.
        bucket: BucketId,
    },
    /// This site is no longer a member. The shell decides what happens to the records.
    Leave {
        /// Which.
        bucket: BucketId,
    },
    /// The store has new durable records of this bucket (own writes; applied feeds need not be told).
    Durable {
        /// Which.
        bucket: BucketId,
    },
    /// The answer to [`crate::Output::Apply`], [`crate::Output::Fresh`], [`crate::Output::Keep`] or [`crate::Output::Drop`]; exactly one each, once it is durable.
    Applied {
        /// Of the output.
        ticket: Ticket,
        /// Whether it was committed. Refused: the vector did not include `base`, or the store is full or broken.
        ok: bool,
    },
    /// Who is a member of this bucket? Answered by exactly one [`crate::Output::Located`].
    Locate {
        /// Drawn by the shell, unique among open questions.
        ticket: Ticket,
        /// Which.
        bucket: BucketId,
    },
    /// The same, with what is wanted of the nearest member: whoever it is gives that to this site at once
    /// ([`crate::Output::Give`] there). Answered by exactly one [`crate::Output::Located`] too.
    Seek {
        /// As above.
        ticket: Ticket,
        /// Which bucket.
        bucket: BucketId,
        /// What is wanted, at most [`crate::limits::WANTED_BYTES`], in words that the shell of a member reads.
        wanted: bytes::Bytes,
    },
    /// A site that was named as a member said that it is not.
    Refuted {
        /// Which.
        bucket: BucketId,
        /// Who.
        site: SiteId,
    },
    /// All sites to and from which no records may cross now, because the metered link of this site has no room left for them;
    /// replaces what was said before.
    Spent(BTreeSet<SiteId>),
    /// This site pays for what crosses its links, or does not any more.
    Metered {
        /// After how much silence it asks whether the other end of a link is there; none: it does not pay. See
        /// [`crate::rest::every`].
        every: Option<core::time::Duration>,
        /// Sites that are reached without paying.
        free: BTreeSet<SiteId>,
    },
    /// The other nodes of this site; replaces what was said before. What one of them asks for comes with its body, where that is
    /// not too large.
    Fellows(BTreeSet<SiteId>),
    /// Compare all live dots of a bucket with one member now.
    Reconcile {
        /// Which.
        bucket: BucketId,
        /// With whom.
        with: SiteId,
    },
    /// The time said by `next_wake` has come. Any input does as well.
    Wake,
}
