//! Messages of a link come after the news of the link.
//!
//! Links are followed by one task and streams taken by others: on a busy machine the first words on a new link were heard before
//! it was known here that there is one. What they were answered went nowhere, and the other end, which had asked once, waited
//! for its next check or repetition (15 s and more). So who takes the first message of a control stream waits until all that
//! happened to links before has been told. Invariant: nobody waits for long; what comes late then is repeated, as ever.

use std::time::Duration;

use tokio::sync::watch;

/// The longest that messages of a stream wait for the news of links.
const LATE: Duration = Duration::from_secs(5);

/// Who waits for the news of links, and up to whom they were told.
#[derive(Debug)]
pub(crate) struct Heed {
    asked: watch::Sender<u64>,
    told: watch::Sender<u64>,
}

impl Default for Heed {
    fn default() -> Self {
        let [asked, told] = [0, 0].map(watch::Sender::new);
        Self { asked, told }
    }
}

impl Heed {
    /// Returns once all that has happened to links by now is told.
    pub(super) async fn wait(&self) {
        let mut number = 0;
        self.asked.send_modify(|asked| {
            *asked += 1;
            number = *asked;
        });
        let mut told = self.told.subscribe();
        tokio::time::timeout(LATE, told.wait_for(|told| *told >= number)).await.ok();
    }

    /// For who tells: changes while somebody waits.
    pub(super) fn asked(&self) -> watch::Receiver<u64> {
        let mut asked = self.asked.subscribe();
        asked.mark_changed();
        asked
    }

    /// Everything was told that had happened when so many had asked.
    pub(super) fn tell(&self, asked: u64) {
        self.told.send_replace(asked);
    }
}

#[cfg(test)]
#[path = "heed_tests.rs"]
pub(super) mod tests;
