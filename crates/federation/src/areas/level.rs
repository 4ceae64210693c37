//! Levels: who is a landmark of how many.
//!
//! A site's draw is for life: it follows from the federation's seed, the site's id and its weight. The weighted
//! draw is the highest of `weight` hashes, which is exactly a draw with chances in proportion to the weight, and
//! integers only, so that every machine ranks alike. A site whose weight rises keeps its draw or betters it.
//! By rank the sites fill quotas: |A_i| = n^((K-i)/K). So one join or leave moves at most one site over each of the
//! K−1 borders.
//!
//! Invariants: A_i of fewer levels contains the top of more levels (all are prefixes of one ranking), so that sites
//! that disagree on K still share landmarks; sites of weight 0 stay at level 0 unless fewer than [`FEW`] others are there:
//! then so many of them, by their draws, that a level has as many. One site whose weight changes moves at most two sites
//! over each border: itself, and who takes its place or makes room.

use std::collections::BTreeMap;

use skerry_base::SiteId;

/// Levels at most.
pub const LEVELS_MAX: u8 = 8;
/// Weights go up to this.
pub const WEIGHT_MAX: u8 = 16;
/// Of a site that is no landmark where others can be.
pub const WEIGHT_NONE: u8 = 0;
/// Of a site that has not said what it can carry.
pub const WEIGHT_ONE: u8 = 1;
/// One level for so many sites.
pub const ONE_LEVEL: usize = 16;
/// Two levels for so many sites.
pub const TWO_LEVELS: usize = 256;
/// Landmarks that a level has whatever they weigh: one may be away and another just come, and somebody still knows.
pub const FEW: usize = 3;

/// What a site can carry, as it says itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capacity {
    /// Memory of the machine.
    pub memory_mib: u32,
    /// Towards the other sites.
    pub uplink_kbit: u32,
    /// Whether bytes cost money.
    pub metered: bool,
}

/// 0: never a landmark of many. Else 1 for the smallest that may be one, doubling for four times the uplink.
pub fn weigh(capacity: Capacity) -> u8 {
    if capacity.metered || capacity.memory_mib < 900 || capacity.uplink_kbit < 2_000 {
        return 0;
    }
    let by_link = (capacity.uplink_kbit / 2_000).max(1).ilog2() / 2;
    let by_memory = (capacity.memory_mib / 900).max(1).ilog2() + 1;
    (1u8 << by_link.min(by_memory).min(4)).min(WEIGHT_MAX)
}

/// A site's place in the ranking; higher is nearer to the top.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Draw {
    eligible: bool,
    number: u64,
    site: SiteId,
}

impl Draw {
    /// Of this site, for life.
    pub fn of(seed: &[u8; 32], site: SiteId, weight: u8) -> Self {
        let one = |turn: u8| {
            let mut hasher = blake3::Hasher::new_keyed(seed);
            hasher.update(&site.0).update(&[turn]);
            hasher
                .finalize()
                .as_bytes()
                .iter()
                .take(8)
                .fold(0, |number, byte| (number << 8) | u64::from(*byte))
        };
        let turns = weight.clamp(1, WEIGHT_MAX);
        Self { eligible: weight > 0, number: (0..turns).map(one).max().unwrap_or(0), site }
    }
}

/// K for so many sites, if it was `before`: it rises at once and falls at three quarters of the border.
pub const fn levels(sites: usize, before: u8) -> u8 {
    let risen = if sites <= ONE_LEVEL {
        1
    } else if sites <= TWO_LEVELS {
        2
    } else {
        3
    };
    let fallen = if sites <= ONE_LEVEL * 3 / 4 {
        1
    } else if sites <= TWO_LEVELS * 3 / 4 {
        2
    } else {
        3
    };
    if risen >= before {
        risen
    } else if fallen < before {
        fallen
    } else {
        before
    }
}

/// |A_i|, nearest whole number to n^((K-i)/K), at least one.
pub fn quota(sites: usize, levels: u8, level: u8) -> usize {
    let (k, below) = (u32::from(levels.clamp(1, LEVELS_MAX)), u32::from(levels.saturating_sub(level)));
    // The greatest r with (2r − 1)^K ≤ 2^K · n^(K−i): rounded to the nearest in integers.
    let goal = (sites as u128).saturating_pow(below).saturating_mul(1 << k);
    let fits = |root: u128| (2 * root - 1).checked_pow(k).is_some_and(|power| power <= goal);
    let (mut low, mut high) = (1u128, sites as u128 + 1);
    while high - low > 1 {
        let middle = low.midpoint(high);
        if fits(middle) { low = middle } else { high = middle }
    }
    low as usize
}

/// The level of everybody above 0.
pub fn assign(draws: impl Iterator<Item = Draw>, levels: u8) -> BTreeMap<SiteId, u8> {
    let mut ranked: Vec<Draw> = draws.collect();
    ranked.sort_unstable_by(|one, other| other.cmp(one));
    let eligible = ranked.iter().take_while(|draw| draw.eligible).count().max(FEW);
    let mut found = BTreeMap::new();
    for level in 1..levels {
        let quota = quota(ranked.len(), levels, level).min(eligible);
        found.extend(ranked.iter().take(quota).map(|draw| (draw.site, level)));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(n: u32) -> SiteId {
        let mut id = [0; 16];
        id.iter_mut().zip(n.to_be_bytes()).for_each(|(into, byte)| *into = byte);
        SiteId(id)
    }

    #[test]
    fn quotas_are_the_roots() {
        assert_eq!((quota(17, 2, 1), quota(256, 2, 1), quota(100, 2, 1)), (4, 16, 10));
        assert_eq!((quota(10_000, 3, 1), quota(10_000, 3, 2)), (464, 22));
        assert_eq!((quota(1, 3, 1), quota(1, 3, 2), quota(0, 3, 2)), (1, 1, 1));
        for sites in 1..2000 {
            for (k, level) in [(2, 1), (3, 1), (3, 2), (4, 3)] {
                let exact = (sites as f64).powf(f64::from(k - level) / f64::from(k)).max(1.0);
                assert!((quota(sites, k, level) as f64 - exact).abs() <= 0.501, "{sites} {k} {level}");
            }
        }
    }

    #[test]
    fn levels_rise_at_once_and_fall_late() {
        assert_eq!([3, 16, 17, 256, 257, 10_000].map(|n| levels(n, 1)), [1, 1, 2, 2, 3, 3]);
        assert_eq!((levels(16, 2), levels(13, 2), levels(12, 2)), (2, 2, 1));
        assert_eq!((levels(193, 3), levels(192, 3), levels(5, 3)), (3, 2, 1));
    }

    #[test]
    fn a_draw_wins_in_proportion_to_its_weight() {
        let seed = [7; 32];
        let wins = |a: u8, b: u8| {
            let beats = |n: &u32| Draw::of(&seed, site(2 * n), a) > Draw::of(&seed, site(2 * n + 1), b);
            (0..4000).filter(beats).count()
        };
        assert!((1900..2100).contains(&wins(1, 1)));
        assert!((3100..3300).contains(&wins(4, 1)), "{}", wins(4, 1));
        assert_eq!(wins(0, 1), 0);
        assert!(Draw::of(&seed, site(1), 5) >= Draw::of(&seed, site(1), 4));
    }

    #[test]
    fn weights_follow_memory_and_link() {
        let weight = |memory_mib, uplink_kbit, metered| weigh(Capacity { memory_mib, uplink_kbit, metered });
        assert_eq!(weight(64_000, 1_000_000, true), 0);
        assert_eq!((weight(512, 100_000, false), weight(4096, 1_000, false)), (0, 0));
        assert_eq!((weight(1024, 2_000, false), weight(4096, 94_000, false)), (1, 4));
        assert_eq!(weight(64_000, 10_000_000, false), 16);
    }

    #[test]
    fn the_top_is_never_empty_and_small_sites_stay_below() {
        let seed = [1; 32];
        let top = |weight| assign((0..40).map(|n| Draw::of(&seed, site(n), weight)), 2);
        assert_eq!((top(0).len(), top(1).len()), (FEW, 6));
        let mixed = assign((0..40).map(|n| Draw::of(&seed, site(n), u8::from(n % 2 == 0))), 2);
        assert!(mixed.keys().all(|found| (0..40).step_by(2).any(|n| site(n) == *found)));
    }

    /// The first so many of 40 sites weigh something.
    fn top_of(seed: u8, free: u32) -> BTreeMap<SiteId, u8> {
        assign((0..40).map(|n| Draw::of(&[seed; 32], site(n), u8::from(n < free))), 2)
    }

    #[test]
    fn where_few_weigh_anything_they_are_landmarks_and_some_others_with_them() {
        for seed in 0..20 {
            for (free, landmarks) in [(0, FEW), (1, FEW), (2, FEW), (3, 3), (4, 4), (6, 6), (40, 6)] {
                let top = top_of(seed, free);
                assert_eq!(top.len(), landmarks, "of {free}");
                let above = (0..free.min(6)).filter(|n| top.contains_key(&site(*n)));
                assert!(free > 6 || above.count() == free as usize, "who weighs something comes first");
            }
        }
    }

    #[test]
    fn one_weight_that_changes_moves_two_sites_at_most_over_a_border() {
        for seed in 0..20 {
            for free in 0..40 {
                let (before, after) = (top_of(seed, free), top_of(seed, free + 1));
                let moved = |one: &BTreeMap<SiteId, u8>, other: &BTreeMap<SiteId, u8>| {
                    one.keys().filter(|site| !other.contains_key(*site)).count()
                };
                assert!(moved(&before, &after) <= 1 && moved(&after, &before) <= 1, "seed {seed}, {free}");
            }
        }
    }
}
