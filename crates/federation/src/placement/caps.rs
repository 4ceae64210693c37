//! Sites that hold as much for others as their owners let them: who is left alone, for how much, and for how long.
//!
//! Invariants: what is smaller than the smallest body that a site refused is still offered to it; a cap makes nobody a holder
//! and nobody none, so nothing is let go of for it; a new link to a site ends all that it said.

use std::collections::{BTreeMap, BTreeSet};

use core::time::Duration;
use skerry_base::{Instant, SiteId};

use super::limits;

/// What one site said.
#[derive(Debug, Clone, Copy)]
struct Said {
    /// The smallest body that it refused.
    least: u64,
    /// When it refused one last.
    at: Instant,
    until: Instant,
    pause: Duration,
}

/// Of all of them.
#[derive(Debug, Clone, Default)]
pub(super) struct Caps(BTreeMap<SiteId, Said>);

impl Caps {
    /// A site refused a body of this size: it is left alone for the first pause, then for twice as long each time up to the longest.
    pub(super) fn refused(
        &mut self,
        site: SiteId,
        bytes: u64,
        (first, longest): (Duration, Duration),
        now: Instant,
    ) {
        let before = self.0.get(&site).copied();
        let said = match before {
            // What was asked at once is answered at once.
            Some(said) if said.until > now => Said { least: said.least.min(bytes), at: now, ..said },
            _ => {
                let pause = before.map_or(first, |said| (said.pause * 2).min(longest));
                Said { least: bytes, at: now, until: now.after(pause), pause }
            }
        };
        self.0.insert(site, said);
    }

    /// It took one after all that it was asked for then. What was under way when it refused another one says nothing of now.
    pub(super) fn took(&mut self, site: SiteId, bytes: u64, asked: Instant) {
        if self.0.get(&site).is_some_and(|said| bytes >= said.least && asked > said.at) {
            self.0.remove(&site);
        }
    }

    /// It may be another process, with another cap.
    pub(super) fn met(&mut self, site: SiteId) {
        self.0.remove(&site);
    }

    /// Whether it is left alone for a body of this size.
    pub(super) fn refuses(&self, site: SiteId, bytes: u64, now: Instant) -> bool {
        self.0.get(&site).is_some_and(|said| said.until > now && bytes >= said.least)
    }

    /// Those that said so, until they are asked again. Who has not been asked for as long again says nothing of now.
    pub(super) fn sites(&self, now: Instant) -> BTreeSet<SiteId> {
        let stands = |said: &Said| said.until.after(limits::CAPPED) > now;
        self.0.iter().filter(|(_, said)| stands(said)).map(|(site, _)| *site).collect()
    }

    /// When the next one may be asked again.
    pub(super) fn next_wake(&self, now: Instant) -> Option<Instant> {
        self.0.values().map(|said| said.until).filter(|until| *until > now).min()
    }
}
