//! A site in one of its lives, as SWIM names it.

use serde::{Deserialize, Serialize};
use skerry_base::SiteId;

/// The later life wins; a site that was declared dead while it lives goes on in its next life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Identity {
    site: SiteId,
    life: u64,
}

impl Identity {
    pub(super) const fn new(site: SiteId, life: u64) -> Self {
        Self { site, life }
    }

    /// For a greeting: taken by whatever life the site is in.
    pub(super) const fn unknown(site: SiteId) -> Self {
        Self { site, life: 0 }
    }

    pub(super) const fn site(&self) -> SiteId {
        self.site
    }
}

impl foca::Identity for Identity {
    type Addr = SiteId;

    fn renew(&self) -> Option<Self> {
        self.life.checked_add(1).map(|life| Self { site: self.site, life })
    }

    fn addr(&self) -> SiteId {
        self.site
    }

    fn win_addr_conflict(&self, adversary: &Self) -> bool {
        self.life > adversary.life
    }
}
