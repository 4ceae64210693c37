//! Areas: the rings of a landmark's cluster, by radius 1, 2, 4 … 2048 ms and without end.
//!
//! A landmark knows its cluster: the sites that publish to it. A ring with the same sites as the next smaller one
//! is not a ring of its own; a ring with fewer sites than wanted is none. Two sites at distance d share a landmark
//! within K·d of both, and so a ring of radius < max(1 ms, 2·K·d), across < max(2 ms, 4·K·d), if the triangle
//! inequality holds, distances are the same both ways, and the ring was not too small.
//!
//! Invariants: rings of one root are nested; the last one holds the whole cluster.

use core::time::Duration;

use skerry_base::SiteId;

/// Rings with a radius; one without end follows.
pub const RADII: u32 = 12;

/// How far a ring reaches; none: to everybody.
pub const fn radius(ring: u32) -> Option<Duration> {
    if ring < RADII { Some(Duration::from_millis(1 << ring)) } else { None }
}

/// The smallest ring that reaches so far.
pub fn reaching(distance: Duration) -> u32 {
    (0..RADII).find(|ring| radius(*ring).is_some_and(|radius| distance <= radius)).unwrap_or(RADII)
}

/// A ring around a landmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Area {
    /// In the middle.
    pub root: SiteId,
    /// Its ring; see [`radius`].
    pub ring: u32,
    /// Sites, the root among them.
    pub sites: usize,
}

/// The areas around `root`, smallest first; `cluster` is how far its sites are, in any order, the root apart.
pub fn around(root: SiteId, cluster: impl Iterator<Item = Duration>, fewest: usize) -> Vec<Area> {
    let mut counts = [0usize; RADII as usize + 1];
    for distance in cluster {
        if let Some(count) = counts.get_mut(reaching(distance) as usize) {
            *count += 1;
        }
    }
    let (mut areas, mut sites, mut said) = (Vec::new(), 1, 0);
    for (ring, more) in (0u32..).zip(counts) {
        sites += more;
        if sites != said && sites >= fewest {
            areas.push(Area { root, ring, sites });
            said = sites;
        }
    }
    areas
}

/// The areas of `areas` (of one root) that hold a site at this distance.
pub fn holding(areas: &[Area], distance: Duration) -> impl Iterator<Item = &Area> {
    let least = reaching(distance);
    areas.iter().filter(move |area| area.ring >= least)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_rings_are_one_and_small_ones_none() {
        let ms = |n| Duration::from_millis(n);
        let root = SiteId([1; 16]);
        let areas = around(root, [ms(1), ms(3), ms(3), ms(100), ms(5000)].into_iter(), 3);
        let shape: Vec<(u32, usize)> = areas.iter().map(|area| (area.ring, area.sites)).collect();
        assert_eq!(shape, [(2, 4), (7, 5), (RADII, 6)]);
        assert_eq!(holding(&areas, ms(100)).count(), 2);
        assert_eq!(
            (reaching(ms(0)), reaching(ms(1)), reaching(ms(2048)), reaching(ms(2049))),
            (0, 0, 11, 12)
        );
    }
}
