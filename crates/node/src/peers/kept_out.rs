//! Sites that this process does not speak with: it went on without what they have, as their operator had declared them lost.
//!
//! Why: what this site says of its records holds only for those that it heard when it began anew (`crate::anew`). Who was not
//! among them and comes back would be told that what it alone holds is dead. So its messages and questions are passed over, and
//! its link is not told to anybody, until this process is started anew, which hears it first.
//!
//! Invariants: who is kept out stays so until the process ends, unless it was linked before it could be kept out; that it
//! came is not forgotten.

use std::collections::BTreeSet;

use skerry_base::SiteId;
use tokio::sync::watch;

/// Who they are.
#[derive(Debug, Default)]
struct Sites {
    all: BTreeSet<SiteId>,
    /// Who of them had a link.
    came: BTreeSet<SiteId>,
}

/// Sites that are kept out.
#[derive(Debug)]
pub(crate) struct KeptOut(watch::Sender<Sites>);

impl Default for KeptOut {
    fn default() -> Self {
        Self(watch::Sender::new(Sites::default()))
    }
}

impl KeptOut {
    /// Whether nothing of this site is heard.
    pub(crate) fn contains(&self, site: SiteId) -> bool {
        self.0.borrow().all.contains(&site)
    }

    /// Who they are.
    pub(crate) fn all(&self) -> BTreeSet<SiteId> {
        self.0.borrow().all.clone()
    }

    /// From now on.
    pub(crate) fn add(&self, sites: &BTreeSet<SiteId>) {
        self.0.send_modify(|kept| kept.all.extend(sites));
    }

    /// Not after all: it is heard by this process.
    pub(crate) fn spare(&self, sites: &BTreeSet<SiteId>) {
        self.0.send_modify(|kept| kept.all.retain(|site| !sites.contains(site)));
    }

    /// A site has a link; whether it is kept out.
    pub(super) fn knocks(&self, site: SiteId) -> bool {
        let is_out = self.contains(site);
        if is_out {
            self.0.send_modify(|kept| kept.came.extend([site]));
        }
        is_out
    }

    /// Who of them had a link.
    pub(crate) fn came(&self) -> BTreeSet<SiteId> {
        self.0.borrow().came.clone()
    }

    /// Follows all of this.
    pub(crate) fn follow(&self) -> watch::Receiver<impl Sized + use<>> {
        self.0.subscribe()
    }
}
