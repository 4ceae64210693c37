//! The bunches of all sites of a matrix, and what follows from them for every pair: how soon one finds what the
//! other holds, at what cost, and which triangle is to blame where the bound does not hold.
//!
//! The bunches are drawn by the code that ships; only the walk over all pairs is written anew, because 10⁸ pairs
//! do not want 10⁸ machines. `tests/areas/world.rs` shows that the machines take exactly the times computed here.

use core::time::Duration;
use std::collections::BTreeMap;

use skerry_base::SiteId;
use skerry_federation::areas::bunch::{Bunch, Landmark, doubtful};
use skerry_federation::areas::level::{self, Draw};
use skerry_federation::areas::{Coordinate, limits, ring};

use crate::matrix::{Matrix, mix};

/// The id of the site with this index.
pub(crate) fn id(index: usize) -> SiteId {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&(index as u64).to_be_bytes());
    SiteId(bytes)
}

/// The index of the site with this id.
pub(crate) fn index(site: SiteId) -> usize {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&site.0[..8]);
    u64::from_be_bytes(bytes) as usize
}

/// A landmark of a site, by index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Near {
    pub(crate) site: usize,
    pub(crate) level: u8,
    /// As the site believes.
    pub(crate) believed: u64,
    /// As it is.
    pub(crate) micros: u64,
}

/// All bunches.
#[derive(Debug)]
pub(crate) struct Bunches {
    pub(crate) k: u8,
    pub(crate) levels: Vec<u8>,
    pub(crate) of: Vec<Vec<Near>>,
    /// Sites left out of bunches that would have been too large, over all.
    pub(crate) left_out: usize,
    /// Round trips that had to be measured, over all.
    pub(crate) pings: usize,
}

/// Levels of the `present`; the others have none.
pub(crate) fn levels(matrix: &Matrix, present: &[bool], k: u8, seed: u64) -> Vec<u8> {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&seed.to_le_bytes());
    let there = (0..matrix.len()).filter(|site| present[*site]);
    let draws = there.map(|site| Draw::of(&key, id(site), matrix.weight(site)));
    let found = level::assign(draws, k);
    (0..matrix.len()).map(|site| found.get(&id(site)).copied().unwrap_or(0)).collect()
}

fn nears(matrix: &Matrix, v: usize, bunch: &Bunch) -> Vec<Near> {
    let near = |landmark: &Landmark| {
        let site = index(landmark.site);
        let believed = landmark.distance.as_micros() as u64;
        Near { site, level: landmark.level, believed, micros: matrix.micros(v, site) }
    };
    bunch.landmarks.iter().map(near).collect()
}

/// Bunches of sites that know every distance.
pub(crate) fn exact(matrix: &Matrix, present: &[bool], k: u8, seed: u64) -> Bunches {
    let levels = levels(matrix, present, k, seed);
    let (mut of, mut left_out) = (Vec::new(), 0);
    for v in 0..matrix.len() {
        if !present[v] {
            of.push(Vec::new());
            continue;
        }
        let sites: Vec<Landmark> = (0..matrix.len())
            .filter(|w| present[*w])
            .map(|w| Landmark { distance: matrix.rtt(v, w), site: id(w), level: levels[w] })
            .collect();
        let bunch = Bunch::of(k, sites.iter().copied());
        left_out += bunch.left_out;
        of.push(nears(matrix, v, &bunch));
    }
    Bunches { k, levels, of, left_out, pings: 0 }
}

/// Coordinates of all sites after each measured so many others, drawn anew each time, so often.
pub(crate) fn coordinates(matrix: &Matrix, rounds: u64, seed: u64) -> Vec<Coordinate> {
    let n = matrix.len();
    let mut found = vec![Coordinate::default(); n];
    // Sixteen lasting neighbours, as connections in use are, and one stranger a round.
    for round in 0..rounds {
        for v in 0..n {
            let turn = if round % 3 == 0 { round + 100 } else { round % 16 };
            let w = (mix(seed + 9, v as u64, turn) % n as u64) as usize;
            if w != v {
                let other = found[w];
                found[v].sample(id(w), matrix.rtt(v, w), &other);
            }
        }
    }
    found
}

/// Bunches of sites that estimate, and measure only what an estimate leaves open.
pub(crate) fn estimated(matrix: &Matrix, at: &[Coordinate], k: u8, seed: u64) -> Bunches {
    let n = matrix.len();
    let levels = levels(matrix, &vec![true; n], k, seed);
    let (mut of, mut pings, mut left_out) = (Vec::new(), 0, 0);
    for v in 0..n {
        let mut measured = vec![false; n];
        measured[v] = true;
        let mut sites: Vec<Landmark> = (0..n)
            .map(|w| {
                let distance = if w == v { Duration::ZERO } else { at[v].distance(&at[w]) };
                Landmark { distance, site: id(w), level: levels[w] }
            })
            .collect();
        for _ in 0..6 {
            let open =
                doubtful(k, false, sites.iter().map(|landmark| (*landmark, measured[index(landmark.site)])));
            for w in open.iter().map(|site| index(*site)) {
                (measured[w], sites[w].distance) = (true, matrix.rtt(v, w));
            }
            pings += open.len();
            if open.is_empty() {
                break;
            }
        }
        let bunch = Bunch::of(k, sites.iter().copied());
        left_out += bunch.left_out;
        of.push(nears(matrix, v, &bunch));
    }
    Bunches { k, levels, of, left_out, pings }
}

/// How one site finds what another holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Find {
    pub(crate) at_once: u64,
    pub(crate) waves: u64,
    /// At once, if the landmark of the soonest answer is dead.
    pub(crate) without_best: u64,
    /// Of the soonest answer.
    pub(crate) landmark: usize,
    /// The smallest ring that holds both, by number.
    pub(crate) ring: u32,
}

/// Looks from one site at all others.
pub(crate) struct Looker<'a> {
    matrix: &'a Matrix,
    bunches: &'a Bunches,
    u: usize,
    own: Vec<Option<Near>>,
}

impl<'a> Looker<'a> {
    pub(crate) fn new(matrix: &'a Matrix, bunches: &'a Bunches, u: usize) -> Self {
        let mut own = vec![None; matrix.len()];
        for near in &bunches.of[u] {
            own[near.site] = Some(*near);
        }
        Self { matrix, bunches, u, own }
    }

    /// Twice the time at which an answer by way of a landmark comes: out, onward, back.
    fn twice(&self, near: &Near, onward: &Near, back: u64) -> u64 {
        near.micros + onward.micros + back
    }

    /// What one holder's publication is worth.
    pub(crate) fn find(&self, v: usize) -> Option<Find> {
        let back = self.matrix.micros(self.u, v);
        let (mut best, mut second, mut waves, mut ring) = ((u64::MAX, 0), u64::MAX, u64::MAX, u32::MAX);
        for onward in &self.bunches.of[v] {
            let Some(near) = self.own[onward.site] else { continue };
            let twice = self.twice(&near, onward, back);
            if twice < best.0 {
                second = best.0;
                best = (twice, onward.site);
            } else {
                second = second.min(twice);
            }
            waves = waves.min(twice + near.believed);
            let reach = Duration::from_micros(near.micros.max(onward.micros));
            ring = ring.min(ring::reaching(reach));
        }
        let (at_once, landmark) = best;
        (at_once < u64::MAX).then_some(Find {
            at_once: at_once / 2,
            waves: waves / 2,
            without_best: if second == u64::MAX { u64::MAX } else { second / 2 },
            landmark,
            ring,
        })
    }

    /// At once, on links that are longer one way than the other.
    pub(crate) fn lopsided(&self, v: usize) -> u64 {
        let leg = |a, b| self.matrix.one_way(a, b);
        let by = |onward: &Near| {
            self.own[onward.site].map(|near| leg(self.u, near.site) + leg(near.site, v) + leg(v, self.u))
        };
        self.bunches.of[v].iter().filter_map(by).min().unwrap_or(u64::MAX)
    }

    /// Landmarks that are asked in waves until an answer comes at this time.
    pub(crate) fn asked(&self, until: u64) -> usize {
        self.bunches.of[self.u].iter().filter(|near| near.believed / 2 <= until).count()
    }

    /// With several holders, at once: if landmarks pass on to the holder nearest to them, to the one with the shortest
    /// whole way, or to both. `believed(w, y)` is what a landmark believes of the way from a holder to this site.
    pub(crate) fn several(&self, holders: &[usize], believed: impl Fn(usize, usize) -> u64) -> [u64; 3] {
        let mut told: BTreeMap<usize, Vec<Near>> = BTreeMap::new();
        for y in holders {
            for onward in &self.bunches.of[*y] {
                told.entry(onward.site).or_default().push(Near { site: *y, ..*onward });
            }
        }
        let (mut nearest, mut whole) = (u64::MAX, u64::MAX);
        for near in &self.bunches.of[self.u] {
            let Some(holders) = told.get(&near.site) else { continue };
            let answer =
                |onward: &Near| (near.micros + onward.micros + self.matrix.micros(onward.site, self.u)) / 2;
            // No way on is longer than by way of the landmark, or shorter than the difference.
            let onward = |y: &Near| {
                let (least, most) = (near.micros.abs_diff(y.micros), near.micros + y.micros);
                believed(near.site, y.site).clamp(least, most)
            };
            let by_nearest = holders.iter().min_by_key(|y| (y.micros, y.site));
            let by_way = holders.iter().min_by_key(|y| (y.micros + onward(y), y.site));
            nearest = nearest.min(by_nearest.map_or(u64::MAX, answer));
            whole = whole.min(by_way.map_or(u64::MAX, answer));
        }
        [nearest, whole, nearest.min(whole)]
    }
}

/// A triangle whose longest side is longer than the two others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Violation {
    pub(crate) landmark: usize,
    pub(crate) near: usize,
    pub(crate) far: usize,
    /// (landmark, far) by which it is too long, in microseconds.
    pub(crate) excess: u64,
}

/// Walks the proof of the bound for a pair and answers the first triangle on which it fails.
pub(crate) fn culprit(matrix: &Matrix, bunches: &Bunches, u: usize, v: usize) -> Option<Violation> {
    let (mut near, mut far, mut landmark) = (u, v, u);
    for level in 1..=bunches.k {
        let (a, b) = (matrix.micros(landmark, near), matrix.micros(near, far));
        let side = matrix.micros(landmark, far);
        if side > a + b {
            return Some(Violation { landmark, near, far, excess: side - a - b });
        }
        if bunches.of[far].iter().any(|found| found.site == landmark) {
            return None;
        }
        (near, far) = (far, near);
        let above = bunches.of[near].iter().filter(|found| found.level >= level);
        landmark = above.min_by_key(|found| (found.micros, core::cmp::Reverse(found.level)))?.site;
    }
    None
}

/// Changes of bunches between two states: (entries that came or went at sites that were there before and after,
/// sites touched).
pub(crate) fn difference(before: &Bunches, after: &Bunches, apart: usize) -> (usize, usize) {
    let (mut changes, mut touched) = (0, 0);
    for (v, (old, new)) in before.of.iter().zip(&after.of).enumerate().filter(|(v, _)| *v != apart) {
        let _ = v;
        let missing = |from: &[Near], other: &[Near]| {
            let mut names: Vec<usize> = other.iter().map(|near| near.site).collect();
            names.sort_unstable();
            from.iter().filter(|near| names.binary_search(&near.site).is_err()).count()
        };
        let here = missing(old, new) + missing(new, old);
        changes += here;
        touched += usize::from(here > 0);
    }
    (changes, touched)
}

/// Landmarks that a bunch may have at most.
pub(crate) const MOST: usize = limits::BUNCH;
