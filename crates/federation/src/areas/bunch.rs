//! The bunch: whom a site tells and asks.
//!
//! B(v) = the sites w of level i that are nearer to v than the nearest of level i+1; everybody of the top level.
//! Expected size K·n^(1/K) if levels do not depend on where sites are. A region full of sites that may not be
//! landmarks breaks that expectation; then the farthest below the top are left out ([`limits::BUNCH`]): the pair
//! bound may suffer, finding does not.
//!
//! Invariants: nearest first, equal distances by id; the whole top level is in it; this site is in its own bunch
//! unless a landmark is at distance zero.

use core::time::Duration;

use skerry_base::SiteId;

use super::level::LEVELS_MAX;
use super::limits;

/// A landmark of one site.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Landmark {
    /// How far.
    pub distance: Duration,
    /// Which.
    pub site: SiteId,
    /// Of which level.
    pub level: u8,
}

/// Landmarks of one site, nearest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bunch {
    /// Nearest first.
    pub landmarks: Vec<Landmark>,
    /// How many were left out because there were too many.
    pub left_out: usize,
}

/// δ(A_i, v) for i in 0..=K; nothing is nearer than the level above the top.
pub fn reach(levels: u8, sites: impl Iterator<Item = Landmark>) -> [Duration; LEVELS_MAX as usize + 1] {
    let mut reach = [Duration::MAX; LEVELS_MAX as usize + 1];
    for landmark in sites {
        let own = landmark.level.min(levels.saturating_sub(1));
        for nearest in reach.iter_mut().take(usize::from(own) + 1) {
            *nearest = (*nearest).min(landmark.distance);
        }
    }
    reach
}

/// How near a landmark of a level must be.
fn bound(reach: &[Duration], levels: u8, level: u8) -> Duration {
    if level + 1 >= levels {
        return Duration::MAX;
    }
    reach.get(usize::from(level) + 1).copied().unwrap_or(Duration::MAX)
}

impl Bunch {
    /// Of a site to which `sites` (itself among them, at distance zero) are as far as they say.
    pub fn of(levels: u8, sites: impl Iterator<Item = Landmark> + Clone) -> Self {
        let reach = reach(levels, sites.clone());
        let top = levels.saturating_sub(1);
        let near = |landmark: &Landmark| {
            landmark.level >= top || landmark.distance < bound(&reach, levels, landmark.level)
        };
        let mut landmarks: Vec<Landmark> = sites.filter(near).collect();
        landmarks.sort_unstable();
        let mut bunch = Self { landmarks, left_out: 0 };
        bunch.shorten(top);
        bunch
    }

    fn shorten(&mut self, top: u8) {
        let over = self.landmarks.len().saturating_sub(limits::BUNCH);
        let lower = self.landmarks.iter().filter(|landmark| landmark.level < top).count();
        self.left_out = over.min(lower);
        let mut room = lower - self.left_out;
        self.landmarks.retain(|landmark| {
            let keep = landmark.level >= top || room > 0;
            room -= usize::from(keep && landmark.level < top);
            keep
        });
    }

    /// Whether a site is among them.
    pub fn get(&self, site: SiteId) -> Option<&Landmark> {
        self.landmarks.iter().find(|landmark| landmark.site == site)
    }
}

/// Estimated sites that might be in the bunch if their estimates were too long: worth measuring. All of them, while
/// this site is `lost`: it does not know yet where it is itself.
pub fn doubtful(
    levels: u8,
    lost: bool,
    sites: impl Iterator<Item = (Landmark, bool)> + Clone,
) -> Vec<SiteId> {
    let reach = reach(levels, sites.clone().map(|(landmark, _)| landmark));
    let mut found: Vec<Landmark> = sites
        .filter(|(landmark, measured)| {
            let shortest =
                (landmark.distance / 8 * limits::MEASURE_EIGHTHS).saturating_sub(limits::MEASURE_LESS);
            !measured && (lost || shortest <= bound(&reach, levels, landmark.level))
        })
        .map(|(landmark, _)| landmark)
        .collect();
    found.sort_unstable();
    found.into_iter().map(|landmark| landmark.site).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(n: u8, level: u8, ms: u64) -> Landmark {
        Landmark { distance: Duration::from_millis(ms), site: SiteId([n; 16]), level }
    }

    fn names(bunch: &Bunch) -> Vec<u8> {
        bunch.landmarks.iter().map(|landmark| landmark.site.0[0]).collect()
    }

    #[test]
    fn nearer_than_the_next_level_and_all_of_the_top() {
        let sites = [
            at(0, 0, 0),
            at(1, 0, 5),
            at(2, 1, 10),
            at(3, 0, 10),
            at(4, 1, 15),
            at(5, 2, 20),
            at(6, 1, 30),
            at(7, 2, 90),
        ];
        assert_eq!(names(&Bunch::of(3, sites.into_iter())), [0, 1, 2, 4, 5, 7]);
        assert_eq!(names(&Bunch::of(1, sites.into_iter())), [0, 1, 2, 3, 4, 5, 6, 7]);
    }

    #[test]
    #[expect(clippy::unwrap_used, reason = "tests")]
    fn too_many_lose_the_farthest_below_the_top() {
        let far = u16::try_from(limits::BUNCH).unwrap();
        let id = |n: u16| SiteId([n.to_be_bytes(); 8].concat().try_into().unwrap());
        let near = (0..far + 10).map(|n| Landmark {
            distance: Duration::from_micros(n.into()),
            site: id(n),
            level: 0,
        });
        let top = Landmark { distance: Duration::from_secs(9), site: id(u16::MAX), level: 1 };
        let bunch = Bunch::of(2, near.chain([top]));
        assert_eq!((bunch.landmarks.len(), bunch.left_out), (limits::BUNCH, 11));
        assert_eq!(bunch.landmarks.last(), Some(&top));
    }

    #[test]
    fn what_an_estimate_leaves_open_is_measured() {
        let sites = [
            (at(0, 0, 0), true),
            (at(1, 0, 12), false),
            (at(2, 1, 10), true),
            (at(3, 0, 30), false),
            (at(4, 1, 400), false),
        ];
        let doubtful: Vec<u8> =
            doubtful(2, false, sites.into_iter()).into_iter().map(|site| site.0[0]).collect();
        assert_eq!(doubtful, [1, 4]);
    }
}
