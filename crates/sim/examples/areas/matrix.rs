//! Round trips between sites that are drawn, not measured: what the proofs run on, small in the tests and large in
//! the example.
//!
//! Distances are computed from places and hashes when asked for, so that 10,000 sites need no 10⁸ numbers. Metric
//! kinds are metric to the microsecond, because they are sums of whole numbers.
//!
//! The measured-like kinds are built to have the violations that were found in measured ones: of the pairs of the
//! King set 85 % have a shorter way by a third node and 22 % one that is shorter by a fifth; of PlanetLab's 68 % and
//! about 10 % (Ledlie, Gardner, Seltzer: Network Coordinates in the Wild, 2007; Tang and Crovella, 2003).

use core::time::Duration;

use skerry_sim::scale::sea::{self, normal};

pub(crate) use skerry_sim::scale::sea::mix;

/// What a matrix is like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Towns in a plane, streets at right angles, an access link each. Metric.
    Metric,
    /// Points, a router graph, shortest ways, as seed 003's generator does. Metric.
    Graph,
    /// Every pair for itself between 1 and 400 ms.
    Random,
    /// The 20-node testbed: the graph, scaled to 400 ms, as pings saw it.
    Testbed,
    /// As between name servers all over the world.
    King,
    /// As between universities.
    PlanetLab,
    /// As metric; one region of two fifths of the sites is metered.
    Metered,
}

impl Kind {
    /// By its name on the command line.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "metric" => Self::Metric,
            "graph" => Self::Graph,
            "random" => Self::Random,
            "testbed" => Self::Testbed,
            "king" => Self::King,
            "planetlab" => Self::PlanetLab,
            "metered" => Self::Metered,
            _ => return None,
        })
    }

    /// Whether no triangle is violated.
    pub(crate) const fn is_metric(self) -> bool {
        matches!(self, Self::Metric | Self::Graph | Self::Metered)
    }
}

/// In 0..1.
fn fraction(seed: u64, one: u64, other: u64) -> f64 {
    sea::fraction(mix(seed, one, other))
}

/// Where a site is, in microseconds of round trip.
#[derive(Debug, Clone, Copy)]
struct Place {
    x: i64,
    y: i64,
    height: i64,
    town: usize,
}

/// Round trips between `n` sites.
#[derive(Debug)]
pub(crate) struct Matrix {
    pub(crate) kind: Kind,
    seed: u64,
    places: Vec<Place>,
    ways: Vec<u32>,
}

impl Matrix {
    pub(crate) fn new(kind: Kind, n: usize, seed: u64) -> Self {
        let places = (0..n).map(|index| place(kind, seed, index as u64)).collect();
        let mut matrix = Self { kind, seed, places, ways: Vec::new() };
        if matches!(kind, Kind::Graph | Kind::Testbed) {
            matrix.ways = matrix.shortest();
        }
        matrix
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// The round trip, the same both ways: both ends take the mean of what they measure.
    pub(crate) fn micros(&self, a: usize, b: usize) -> u64 {
        if a == b {
            return 0;
        }
        let (low, high) = (a.min(b) as u64, a.max(b) as u64);
        match self.kind {
            Kind::Random => 1000 + mix(self.seed, low, high) % 399_000,
            Kind::Metric | Kind::Metered => self.plane(a, b),
            Kind::Graph => u64::from(self.way(a, b)),
            Kind::Testbed => {
                let noise = 1.0 + 0.05 * normal(self.seed + 1, low, high);
                let spike = if fraction(self.seed + 2, low, high) < 0.02 { 1.25 } else { 1.0 };
                (f64::from(self.way(a, b)) * noise * spike) as u64
            }
            // A route is as long as the straight line times a detour, and a few are very long.
            Kind::King => self.inflated(a, b, 0.14, 0.12),
            Kind::PlanetLab => self.inflated(a, b, 0.05, 0.10),
        }
    }

    pub(crate) fn rtt(&self, a: usize, b: usize) -> Duration {
        Duration::from_micros(self.micros(a, b))
    }

    /// One way from a to b; the way back is the rest of the round trip. Measured-like links are lopsided.
    pub(crate) fn one_way(&self, a: usize, b: usize) -> u64 {
        let rtt = self.micros(a, b);
        let (low, high) = (a.min(b) as u64, a.max(b) as u64);
        let lopsided = match self.kind {
            Kind::King | Kind::PlanetLab | Kind::Testbed => 0.3 * fraction(self.seed + 3, low, high) - 0.15,
            _ => 0.0,
        };
        let share = if a < b { 0.5 + lopsided } else { 0.5 - lopsided };
        (rtt as f64 * share) as u64
    }

    /// Whether a site may be a landmark of many.
    pub(crate) fn weight(&self, site: usize) -> u8 {
        match self.kind {
            Kind::Metered if self.places[site].town == 0 => 0,
            _ => 1,
        }
    }

    fn plane(&self, a: usize, b: usize) -> u64 {
        let (a, b) = (&self.places[a], &self.places[b]);
        a.x.abs_diff(b.x) + a.y.abs_diff(b.y) + (a.height + b.height) as u64
    }

    fn inflated(&self, a: usize, b: usize, detour: f64, long: f64) -> u64 {
        let (low, high) = (a.min(b) as u64, a.max(b) as u64);
        let (from, to) = (&self.places[a], &self.places[b]);
        let flat = ((from.x - to.x) as f64).hypot((from.y - to.y) as f64);
        let mut factor = (detour * normal(self.seed + 4, low, high)).exp();
        if fraction(self.seed + 5, low, high) < long {
            factor *= 1.5 + 2.0 * fraction(self.seed + 6, low, high);
        }
        (flat * factor) as u64 + (from.height + to.height) as u64
    }

    fn way(&self, a: usize, b: usize) -> u32 {
        self.ways[a * self.len() + b]
    }

    /// Ways along a graph in which every point has a road to its three nearest and to the point before it.
    fn shortest(&self) -> Vec<u32> {
        let n = self.len();
        let far = u32::MAX / 4;
        let mut ways = vec![far; n * n];
        for a in 0..n {
            ways[a * n + a] = 0;
            let mut near: Vec<(u64, usize)> =
                (0..n).filter(|b| *b != a).map(|b| (self.plane(a, b), b)).collect();
            near.sort_unstable();
            let before = (a > 0).then(|| (self.plane(a, a - 1), a - 1));
            for (length, b) in near.into_iter().take(3).chain(before) {
                ways[a * n + b] = length as u32;
                ways[b * n + a] = length as u32;
            }
        }
        for by in 0..n {
            for a in 0..n {
                let first = ways[a * n + by];
                for b in 0..n {
                    ways[a * n + b] = ways[a * n + b].min(first.saturating_add(ways[by * n + b]));
                }
            }
        }
        if self.kind == Kind::Testbed {
            let longest = ways.iter().copied().max().unwrap_or(1).max(1);
            ways.iter_mut().for_each(|way| *way = (u64::from(*way) * 400_000 / u64::from(longest)) as u32);
        }
        ways
    }
}

fn place(kind: Kind, seed: u64, index: u64) -> Place {
    let towns = [(0, 0), (90, 10), (75, -35), (-70, 20), (-60, -60), (140, 60), (20, 55)];
    let town = match kind {
        Kind::Metered if fraction(seed, index, 1) < 0.4 => 0,
        Kind::Metered => 1 + (mix(seed, index, 2) % 6) as usize,
        _ => (mix(seed, index, 2) % 7) as usize,
    };
    let (x, y) = towns[town];
    let (spread, access) = match kind {
        Kind::Graph | Kind::Testbed => (60.0, 0.0),
        Kind::PlanetLab => (12.0, 1.0),
        Kind::King => (14.0, 6.0),
        _ => (10.0, 3.0),
    };
    let around = |axis: u64| (normal(seed + 7, index, axis) * spread * 1000.0) as i64;
    let height = (access * 1000.0 * (0.8 * normal(seed + 8, index, 3)).exp()) as i64;
    Place { x: x * 1000 + around(4), y: y * 1000 + around(5), height, town }
}
