//! What the drive thread does to the world.

use std::time::Duration;

use bytes::Bytes;
use skerry_base::{BucketId, SiteId};
use skerry_federation::{Apply, Drop, Fresh, Keep, Message, Report};

/// What a site wants of a bucket that is followed here.
#[derive(Debug)]
pub(crate) struct Give {
    /// Who.
    pub(crate) to: SiteId,
    /// Of which bucket.
    pub(crate) bucket: BucketId,
    /// What: its words, unread.
    pub(crate) wanted: Bytes,
}

/// Carries out what the machine wants. None of these may wait for long: the machine stands still meanwhile.
pub(crate) trait Effects: Send + 'static {
    /// Send, best effort.
    fn send(&mut self, to: SiteId, message: Message);
    /// Commit a batch; answered by `Applied`.
    fn apply(&mut self, apply: Apply);
    /// Commit what came with its news; answered by `Applied`.
    fn fresh(&mut self, fresh: Fresh);
    /// Commit what no feed brings; answered by `Applied`.
    fn keep(&mut self, keep: Keep);
    /// Drop dots; answered by `Applied`.
    fn drop_dead(&mut self, dead: Drop);
    /// Give a site what it wants, in the background; best effort.
    fn give(&mut self, give: Give);
    /// A site is, or is no longer, a member.
    fn member_of(&mut self, site: SiteId, bucket: BucketId, member: bool);
    /// A site is heard of, or silent.
    fn alive(&mut self, site: SiteId, alive: bool);
    /// How long the link to a site rests, and whether one of its ends pays for it.
    fn rests(&mut self, site: SiteId, every: Option<Duration>, paid: bool);
    /// For logs and metrics.
    fn report(&mut self, report: Report);
}
