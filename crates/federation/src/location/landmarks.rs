//! Which landmarks are asked, and when.
//!
//! Every linked landmark ([`crate::areas`]; with one level every linked site), a wave each, sent when the elapsed time
//! has reached half its distance, so that a near answer comes before a far question is sent.

use core::time::Duration;

use skerry_base::SiteId;

use crate::peers::Peers;

/// The landmarks of one question, nearest first.
pub(super) struct Landmarks {
    sites: Vec<SiteId>,
}

impl Landmarks {
    /// The landmarks of this site now.
    pub(super) fn of(peers: &Peers) -> Self {
        Self { sites: peers.landmarks() }
    }

    /// After how long each is asked. The first at once: nothing is nearer. If not in `waves`, all are.
    pub(super) fn waves(&self, peers: &Peers, waves: bool) -> Vec<(Duration, SiteId)> {
        let wait = |(index, site): (usize, &SiteId)| {
            let is_at_once = index == 0 || !waves;
            (if is_at_once { Duration::ZERO } else { peers.rtt(*site) / 2 }, *site)
        };
        self.sites.iter().enumerate().map(wait).collect()
    }
}
