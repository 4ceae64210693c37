//! Where the sites are: seven towns in a plane, streets at right angles, an access link each. Metric, as in the proof of areas
//! (`crates/sim/examples/areas/matrix.rs`), so that stretch means the system and not a violated triangle.

use std::time::Duration;

use skerry_base::SiteId;

/// The sites of a run.
#[derive(Debug, Clone)]
pub struct Sea {
    places: Vec<[i64; 3]>,
}

/// Whole numbers below 2⁶⁴ that follow from the arguments alone.
pub const fn mix(seed: u64, one: u64, other: u64) -> u64 {
    let mut x = seed ^ one.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ other.wrapping_mul(0xC2B2_AE3D_27D4_EB4F);
    let mut turn = 0;
    while turn < 2 {
        x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        x ^= x >> 31;
        turn += 1;
    }
    x
}

/// In 0..1.
pub fn fraction(number: u64) -> f64 {
    (number >> 11) as f64 / (1u64 << 53) as f64
}

/// Normal, by the sum of twelve.
pub fn normal(seed: u64, one: u64, other: u64) -> f64 {
    (0..12).map(|turn| fraction(mix(seed.wrapping_add(turn * 7919), one, other))).sum::<f64>() - 6.0
}

/// The id of a site by its number.
pub fn site_id(number: usize) -> SiteId {
    let mut id = [0; 16];
    id[8..].copy_from_slice(&(number as u64 + 1).to_be_bytes());
    SiteId(id)
}

/// The number of a site by its id.
pub fn number(site: SiteId) -> usize {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&site.0[8..]);
    (u64::from_be_bytes(bytes) as usize).saturating_sub(1)
}

impl Sea {
    /// Of so many sites.
    pub fn new(sites: usize, seed: u64) -> Self {
        const TOWNS: [(i64, i64); 7] =
            [(0, 0), (90, 10), (75, -35), (-70, 20), (-60, -60), (140, 60), (20, 55)];
        let place = |index: u64| {
            let (x, y) = TOWNS[(mix(seed, index, 2) % 7) as usize];
            let around = |axis: u64| (normal(seed + 7, index, axis) * 10_000.0) as i64;
            let height = (3000.0 * (0.8 * normal(seed + 8, index, 3)).exp()) as i64;
            [x * 1000 + around(4), y * 1000 + around(5), height]
        };
        Self { places: (0..sites as u64).map(place).collect() }
    }

    /// How many sites there are.
    pub const fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Microseconds of a round trip.
    pub fn micros(&self, a: usize, b: usize) -> u64 {
        let ([ax, ay, ah], [bx, by, bh]) = (self.places[a], self.places[b]);
        if a == b { 0 } else { ax.abs_diff(bx) + ay.abs_diff(by) + (ah + bh) as u64 }
    }

    /// A round trip.
    pub fn rtt(&self, a: usize, b: usize) -> Duration {
        Duration::from_micros(self.micros(a, b))
    }

    /// Who else holds what a site makes: the next in a circle whose steps are as long as its number, so that it is near to nobody by
    /// design.
    pub const fn partner(&self, site: usize) -> usize {
        let n = self.places.len();
        (site + n / 3 + 1) % n
    }

    /// Whose partner a site is.
    pub const fn partner_of(&self, site: usize) -> usize {
        let n = self.places.len();
        (site + 2 * n - n / 3 - 1) % n
    }

    /// In which half of the federation a site is when it is cut: no region, so that no system is favoured.
    pub const fn side(site: usize) -> bool {
        mix(77, site as u64, 0) & 1 == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_metric_and_partners_are_mutual() {
        let sea = Sea::new(40, 3);
        for (a, b) in (0..40).flat_map(|a| (0..40).map(move |b| (a, b))) {
            assert_eq!(sea.micros(a, b), sea.micros(b, a));
            assert!((0..40).all(|c| sea.micros(a, b) <= sea.micros(a, c) + sea.micros(c, b)));
        }
        for n in [3, 10, 40] {
            let sea = Sea::new(n, 3);
            assert!(
                (0..n).all(|site| sea.partner(site) != site && sea.partner_of(sea.partner(site)) == site)
            );
            assert!((0..n).all(|site| number(site_id(site)) == site));
        }
    }
}
