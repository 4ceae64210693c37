//! How far every site is: measured before estimated, the median before the last, both ends before one.
//!
//! Two numbers per site. [`Distances::to`] is the best guess now and orders who is nearest. The *anchor*
//! ([`Distances::anchor`]) is what the bunch is drawn from: it follows only when the guess has left it by an eighth
//! and 2 ms, so that jitter changes no membership.
//!
//! Invariants: this site is at distance zero; a measured distance is never replaced by an estimate; a link that is
//! longer one way than the other counts as its mean, because a round trip crosses both.

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use skerry_base::SiteId;

use super::coordinate::Coordinate;
use super::limits;

/// Where a distance comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// Nothing is known: [`limits::UNKNOWN`].
    Assumed,
    /// From the coordinates of both sites.
    Estimated,
    /// From round trips on a connection.
    Measured,
}

/// A distance and what it is worth.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Distance {
    /// The round trip.
    pub rtt: Duration,
    /// Where it comes from.
    pub source: Source,
}

#[derive(Debug, Default)]
struct Known {
    samples: VecDeque<Duration>,
    theirs: Option<Duration>,
    coordinate: Option<Coordinate>,
    anchor: Option<(Duration, Source)>,
}

impl Known {
    fn median(&self) -> Option<Duration> {
        let mut sorted: Vec<Duration> = self.samples.iter().copied().collect();
        sorted.sort_unstable();
        sorted.get(sorted.len().saturating_sub(1) / 2).copied()
    }
}

/// The distances of one site.
#[derive(Debug)]
pub struct Distances {
    me: SiteId,
    own: Coordinate,
    known: BTreeMap<SiteId, Known>,
}

impl Distances {
    /// Knows nothing yet.
    pub fn new(me: SiteId) -> Self {
        Self { me, own: Coordinate::default(), known: BTreeMap::new() }
    }

    /// Where this site is; goes with its gossip.
    pub const fn own(&self) -> &Coordinate {
        &self.own
    }

    /// Where a site says it is; none if it has not said.
    pub fn coordinate(&self, site: SiteId) -> Option<&Coordinate> {
        self.known.get(&site)?.coordinate.as_ref()
    }

    /// A round trip on a connection. Answers whether the anchor moved.
    pub fn measured(&mut self, site: SiteId, rtt: Duration) -> bool {
        if site == self.me || rtt > limits::LONGEST {
            return false;
        }
        let Some(known) = self.entry(site) else { return false };
        if known.samples.len() >= limits::SAMPLES {
            known.samples.pop_front();
        }
        known.samples.push_back(rtt);
        let at = known.median().zip(known.coordinate);
        if let Some((median, other)) = at {
            self.own.sample(site, median, &other);
        }
        self.weigh_anchor(site)
    }

    /// What the other end of a connection measures.
    pub fn theirs(&mut self, site: SiteId, rtt: Duration) -> bool {
        if site == self.me || rtt > limits::LONGEST {
            return false;
        }
        let Some(known) = self.entry(site) else { return false };
        known.theirs = Some(rtt);
        self.weigh_anchor(site)
    }

    /// Where a site says it is.
    pub fn located(&mut self, site: SiteId, coordinate: Coordinate) -> bool {
        if site == self.me {
            return false;
        }
        let Some(known) = self.entry(site) else { return false };
        known.coordinate = Some(coordinate);
        self.weigh_anchor(site)
    }

    /// Sites that left are remembered, because most come back; but not without end.
    fn entry(&mut self, site: SiteId) -> Option<&mut Known> {
        if self.known.len() >= 2 * limits::SITES && !self.known.contains_key(&site) {
            return None;
        }
        Some(self.known.entry(site).or_default())
    }

    /// A site that moved its machine to another network: what was measured there says nothing any more.
    pub fn forget(&mut self, site: SiteId) {
        self.known.remove(&site);
    }

    /// The median of what was measured here, before the other end's word.
    pub fn measured_here(&self, site: SiteId) -> Option<Duration> {
        self.known.get(&site)?.median()
    }

    /// The best guess now.
    pub fn to(&self, site: SiteId) -> Distance {
        if site == self.me {
            return Distance { rtt: Duration::ZERO, source: Source::Measured };
        }
        let known = self.known.get(&site);
        if let Some((known, median)) = known.and_then(|known| Some((known, known.median()?))) {
            let rtt = known.theirs.map_or(median, |theirs| (median + theirs) / 2);
            return Distance { rtt, source: Source::Measured };
        }
        match known.and_then(|known| known.coordinate.as_ref()) {
            Some(other) => Distance { rtt: self.own.distance(other), source: Source::Estimated },
            None => Distance { rtt: limits::UNKNOWN, source: Source::Assumed },
        }
    }

    /// What the bunch is drawn from.
    pub fn anchor(&self, site: SiteId) -> Duration {
        let anchor = self.known.get(&site).and_then(|known| known.anchor);
        anchor.map_or_else(|| self.to(site).rtt, |(rtt, _)| rtt)
    }

    /// From a site on to another, which is at `at` if it says so: by their coordinates, but neither longer than by
    /// way of here nor shorter than the difference of the two.
    pub fn onward(&self, from: SiteId, (to, at): (SiteId, Option<&Coordinate>)) -> Duration {
        let (one, other) = (self.to(from).rtt, self.to(to).rtt);
        let (shortest, longest) = (one.abs_diff(other), one + other);
        match (self.coordinate(from), at.or_else(|| self.coordinate(to))) {
            (Some(from), Some(to)) => from.distance(to).clamp(shortest, longest),
            _ => longest,
        }
    }

    /// Lets all anchors of estimates follow: this site's own coordinate has moved.
    pub fn weigh_estimates(&mut self) -> bool {
        let estimated = |known: &Known| known.samples.is_empty();
        let sites: Vec<SiteId> =
            self.known.iter().filter(|(_, known)| estimated(known)).map(|(site, _)| *site).collect();
        // All of them, whether or not one has moved already.
        sites.into_iter().filter(|site| self.weigh_anchor(*site)).count() > 0
    }

    fn weigh_anchor(&mut self, site: SiteId) -> bool {
        let now = self.to(site);
        let Some(known) = self.known.get_mut(&site) else { return false };
        let moved = known.anchor.is_none_or(|(anchor, source)| {
            let by = now.rtt.abs_diff(anchor);
            source < now.source || (by > limits::MOVED_MIN && by > anchor / limits::MOVED_PART)
        });
        if moved {
            known.anchor = Some((now.rtt, now.source));
        }
        moved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn site(n: u8) -> SiteId {
        SiteId([n; 16])
    }

    const fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn measured_before_estimated_before_assumed() {
        let mut distances = Distances::new(site(1));
        assert_eq!(distances.to(site(2)).source, Source::Assumed);
        assert!(distances.located(site(2), Coordinate::default()));
        assert_eq!(distances.to(site(2)).source, Source::Estimated);
        assert!(distances.measured(site(2), ms(40)));
        assert_eq!((distances.to(site(2)).rtt, distances.to(site(2)).source), (ms(40), Source::Measured));
        distances.located(site(2), Coordinate::default());
        assert_eq!(distances.to(site(2)).rtt, ms(40));
        assert_eq!(distances.to(site(1)).rtt, Duration::ZERO);
    }

    #[test]
    fn an_outlier_moves_nothing_and_a_lasting_change_moves_the_anchor() {
        let mut distances = Distances::new(site(1));
        assert_eq!((0..5).filter(|_| distances.measured(site(2), ms(40))).count(), 1);
        assert!(!distances.measured(site(2), ms(900)));
        assert!(!distances.measured(site(2), ms(43)));
        assert_eq!(distances.anchor(site(2)), ms(40));
        let moved = (0..5).filter(|_| distances.measured(site(2), ms(80))).count();
        assert_eq!((moved, distances.anchor(site(2))), (1, ms(80)));
        assert!(!distances.measured(site(2), ms(100_000)), "a pause is no distance");
    }

    #[test]
    fn both_ends_come_to_the_same_distance() {
        let (mut one, mut other) = (Distances::new(site(1)), Distances::new(site(2)));
        one.measured(site(2), ms(40));
        other.measured(site(1), ms(60));
        one.theirs(site(2), ms(60));
        other.theirs(site(1), ms(40));
        assert_eq!((one.to(site(2)).rtt, other.to(site(1)).rtt), (ms(50), ms(50)));
    }
}
