//! What a [`crate::Federation`] wants done.

use skerry_base::{BucketId, Dot, Origin, SiteId, Vector};

use crate::{FeedItem, Message, Ticket};

/// One batch of a feed, to be committed as a whole or not at all.
///
/// The shell does this in one proposal, in the order of outputs of one bucket:
/// 1. refuse (answer `ok: false`) unless what is seen of this round ([`crate::Replica::seen`]) includes `base`: an
///    earlier batch failed;
/// 2. store the items (a stored dot again changes nothing; a dot that the vector covers and that is not stored
///    is dead and is not stored again);
/// 3. every dot that is stored, not yet seen, covered by `upto` and *not* among `items` is dead at the source
///    (these come from reads of single objects): remember it, and at the end of the round drop it as
///    [`Output::Drop`] says;
/// 4. remember `upto` as seen in this round; only at its end (`more` is false) advance the vector by all that the
///    round was complete to. Before, what killed a record that the source passed over may still be on its way: a
///    vector that covered it would call it dead to others;
/// 5. merge `horizon` and `doubt` into what is stored of each.
///
/// Answered by [`crate::Input::Applied`] when durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Apply {
    /// For the answer.
    pub ticket: Ticket,
    /// The site that gave them, for accounts and for fetching payload.
    pub from: SiteId,
    /// The life of that site: a round is the answers of one life of one source until it has no more.
    pub source: Origin,
    /// Whether the source has more: the round goes on, and the vector does not advance yet.
    pub more: bool,
    /// Whose records.
    pub bucket: BucketId,
    /// What the source took as seen when it chose the items.
    pub base: Vector,
    /// In order of (origin, seq).
    pub items: Vec<FeedItem>,
    /// What is complete once the items are durable.
    pub upto: Vector,
    /// Merged into the bucket's horizon: tombstones that the source lacks and we now cover. Mostly empty.
    pub horizon: Vector,
    /// Merged into the bucket's stored doubt ([`crate::Replica::doubt`]). Mostly empty.
    pub doubt: Vector,
}

/// Records that no feed brings, because their origin has lost them. One commit: store each as a record of its own
/// (a stored dot again changes nothing, one that the vector covers is dead); leave the vector alone. Those that an
/// unfinished round has passed over (its `upto` covers them, they were not among its items and are not stored) are
/// dead at its source: they go when that round ends. Reads of single objects store what they bring in the same
/// way. Answered by [`crate::Input::Applied`] when durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keep {
    /// For the answer.
    pub ticket: Ticket,
    /// The site that gave them.
    pub from: SiteId,
    /// Whose records.
    pub bucket: BucketId,
    /// In order of seq, of one origin.
    pub items: Vec<FeedItem>,
}

/// Records of one origin, seq after seq, that came with the news of them. One commit: refuse (answer `ok: false`) unless
/// the vector reaches the seq before the first; store each as [`Keep`] does; raise the vector's entry to the last. All
/// between is here, so nothing was passed over; rounds go on as they were. Answered by [`crate::Input::Applied`] when
/// durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fresh {
    /// For the answer.
    pub ticket: Ticket,
    /// The site that wrote them.
    pub from: SiteId,
    /// Whose records.
    pub bucket: BucketId,
    /// In order of seq, of one origin, without gaps; never empty.
    pub items: Vec<FeedItem>,
}

/// Dots that are dead: a member that has seen everything up to them lacks them. One commit: remove those that
/// are stored (as if they had never come: no tombstone, no successor is touched), leave the vector alone, merge
/// `horizon`, clear the doubt. Answered by [`crate::Input::Applied`] when durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drop {
    /// For the answer.
    pub ticket: Ticket,
    /// Whose records.
    pub bucket: BucketId,
    /// Which; may be empty.
    pub dots: Vec<Dot>,
    /// Merged into the bucket's horizon.
    pub horizon: Vector,
    /// If this includes the stored doubt, the doubt is cleared.
    pub settles: Vector,
}

/// What is known about the members of a bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// These are members and can be reached, nearest first; never empty.
    Found {
        /// At most [`crate::limits::FOUND`].
        sites: Vec<SiteId>,
    },
    /// To [`crate::Input::Seek`]: the same; and the first of these, which is the first that was heard, has said that it gives
    /// what was wanted.
    Given {
        /// At most [`crate::limits::FOUND`].
        sites: Vec<SiteId>,
    },
    /// Members are known, but none can be reached now.
    Unreachable {
        /// The members.
        sites: Vec<SiteId>,
    },
    /// Nobody named a member, but not everybody who could be asked has heard of all others since its start, or
    /// did not answer: ask again.
    NotYetKnown,
    /// Everybody who can be reached says that nobody who can be reached is a member.
    Unknown {
        /// Sites of the roster that could not be asked: one of them may be a member.
        unasked: Vec<SiteId>,
    },
}

/// What an operator or a metric may want to know. No effect is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Report {
    /// A source has nothing more for us and everything taken from it is durable.
    CaughtUp {
        /// Of which bucket.
        bucket: BucketId,
        /// Which source.
        source: SiteId,
    },
    /// A pull failed; another source is tried.
    PullFailed {
        /// Of which bucket.
        bucket: BucketId,
        /// Which source.
        source: SiteId,
        /// Why.
        reason: &'static str,
    },
    /// All live dots that both sides cover were compared and are equal now (drops included).
    Reconciled {
        /// Of which bucket.
        bucket: BucketId,
        /// With whom.
        with: SiteId,
        /// Dots dropped here.
        dropped: u64,
        /// Dots the other side was told to drop.
        told: u64,
        /// Round trips it took.
        rounds: u32,
    },
    /// A message made no sense and was dropped.
    Refused {
        /// Who sent it.
        from: SiteId,
        /// Why.
        reason: &'static str,
    },
    /// This site is a member of more buckets than [`crate::limits::BUCKETS`]: nothing of this one is fed, and nobody is told that
    /// it is a member.
    NotFollowed {
        /// Which.
        bucket: BucketId,
    },
    /// The roster names more sites than [`crate::limits::SITES`] others: the last of it count as none, and where they count
    /// others are the last.
    RosterCut {
        /// How many are left out here.
        left_out: usize,
    },
    /// The replica could not be read; what needed it was left undone and will be tried again.
    Unreadable {
        /// The store's words.
        reason: String,
    },
}

/// What is to be done, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// Send, best effort; what cannot be sent at once within the link's bounds is dropped.
    Send {
        /// A site whose link is up.
        to: SiteId,
        /// What.
        message: Message,
    },
    /// Commit a batch.
    Apply(Apply),
    /// Commit what came with its news.
    Fresh(Fresh),
    /// Commit what no feed brings.
    Keep(Keep),
    /// Remove what is dead.
    Drop(Drop),
    /// The answer to [`crate::Input::Locate`].
    Located {
        /// Of the question.
        ticket: Ticket,
        /// What is known.
        answer: Answer,
    },
    /// Give a site what it wants of a bucket of which this site is a member; it was told that it comes. Who cannot lets it be:
    /// the asker asks again, itself.
    Give {
        /// The asker.
        to: SiteId,
        /// Of which bucket.
        bucket: BucketId,
        /// What, as it was said to [`crate::Input::Seek`] there: bytes of another site, to be refused if they make no sense.
        wanted: bytes::Bytes,
    },
    /// A site became (or is no longer) a member of a bucket, as far as heard here.
    MemberOf {
        /// Which site.
        site: SiteId,
        /// Of which bucket.
        bucket: BucketId,
        /// Is or is not.
        member: bool,
    },
    /// A site of the roster is alive: it was heard of, directly or through others.
    SiteAlive(SiteId),
    /// A site of the roster is silent for all who could ask. It stays in the roster.
    SiteDead(SiteId),
    /// How long the link to a site rests before either end asks whether the other is there: one of them pays for it, or there are
    /// very many. Said with each new link, and when it changes.
    Rests {
        /// Which.
        site: SiteId,
        /// None: as links do that are few and cost nothing.
        every: Option<core::time::Duration>,
        /// Whether one of the ends pays for what crosses.
        paid: bool,
    },
    /// For metrics and logs.
    Report(Report),
    /// An invariant of the machine's own state does not hold: a bug of ours, to be logged as an error.
    Violation(&'static str),
}
