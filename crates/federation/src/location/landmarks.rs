//! Which landmarks are asked, and when.
//!
//! One level today: every linked site, a wave each, sent when the elapsed time has reached half its distance,
//! so that a near answer comes before a far question is sent. More levels change what `of` is made from, not
//! who uses it.

use core::time::Duration;

use skerry_base::SiteId;

use crate::peers::Peers;

/// The landmarks of one question, by level, nearest first.
pub(super) struct Landmarks {
    levels: Vec<Vec<SiteId>>,
}

impl Landmarks {
    /// The landmarks of this site now.
    pub(super) fn of(peers: &Peers) -> Self {
        Self { levels: vec![peers.near()] }
    }

    /// After how long each is asked. The first at once: nothing is nearer.
    pub(super) fn waves(&self, peers: &Peers) -> Vec<(Duration, SiteId)> {
        let sites = self.levels.iter().flatten();
        sites
            .enumerate()
            .map(
                |(index, site)| {
                    if index == 0 { (Duration::ZERO, *site) } else { (peers.rtt(*site) / 2, *site) }
                },
            )
            .collect()
    }
}
