//! Who is there and has not told this landmark what it holds: waited for, and then named.
//!
//! A site tells a landmark within moments of its coming, or of this site's having become one. Some never do: of a release that
//! draws other landmarks, without the records by which the others draw (its disk is full, or it has not heard of this site), or
//! no link leads to it though others hear it. As long as such a one is waited for nobody learns that something is not there.
//! Named, it is asked directly by who can, and named to the client by who cannot.
//!
//! Invariant: whoever is there is waited for [`limits::TELLS`] from when it was first seen not to have told, but for those that
//! are known to draw otherwise; who is not there is waited for by nobody.

use std::collections::BTreeMap;

use skerry_base::{Instant, SiteId};

use crate::context::Context;
use crate::limits;

/// Until when each is waited for.
#[derive(Debug, Default)]
pub(super) struct Untold(BTreeMap<SiteId, Instant>);

impl Untold {
    /// Takes who is there and has not told; nobody at a site that is not told by everybody.
    pub(super) fn look(&mut self, there: Vec<SiteId>, now: Instant) {
        let before = core::mem::take(&mut self.0);
        let until = |site: &SiteId| before.get(site).copied().unwrap_or(now.after(limits::TELLS));
        self.0 = there.into_iter().map(|site| (site, until(&site))).collect();
    }

    /// Whether a site that has not told is expected to.
    pub(super) fn waits_for(&self, site: SiteId, cx: &Context<'_>) -> bool {
        cx.peers.view().knows(site)
            && !cx.peers.draws_otherwise(site)
            && self.0.get(&site).is_none_or(|until| cx.now < *until)
    }
}
