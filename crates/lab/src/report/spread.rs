//! Quantiles, the five numbers of a box, and how sure a ratio of medians is.
//!
//! Invariants: nothing here is silent about few samples: [`Spread::of`] of nothing is `None`, an interval that cannot be
//! drawn is as wide as the samples. All draws come from a fixed seed, so a report of the same result is the same bytes.

use skerry_scenario::draw::Draw;

/// Resamples of a bootstrap: the 2.5 % and 97.5 % quantiles of 500 are steady to about the second digit.
const RESAMPLES: usize = 500;
/// Larger samples are thinned evenly by rank before they are resampled; the interval gets a little wider, never narrower.
const RESAMPLED_MAX: usize = 2000;
/// From so many trials on, whole trials are resampled: operations of one trial are not independent of each other.
const TRIALS_MIN: usize = 5;

/// The value below which a share of sorted samples lies, interpolated linearly between neighbours (type 7).
pub fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let place = share.clamp(0.0, 1.0) * last as f64;
    let low = sorted.get(place.floor() as usize)?;
    let high = sorted.get(place.ceil() as usize)?;
    Some(low + (high - low) * place.fract())
}

/// Sorted copy; what is not a number is left out.
pub fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// What a box plot and a table's row need of some samples.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// How many.
    pub count: usize,
    /// The smallest.
    pub min: f64,
    /// 5 % lie below.
    pub p5: f64,
    /// 25 % lie below.
    pub p25: f64,
    /// Half lie below.
    pub median: f64,
    /// 75 % lie below.
    pub p75: f64,
    /// 95 % lie below.
    pub p95: f64,
    /// 99 % lie below.
    pub p99: f64,
    /// The largest.
    pub max: f64,
    /// The mean.
    pub mean: f64,
}

impl Spread {
    /// Of samples in any order; none if there are none.
    pub fn of(values: &[f64]) -> Option<Self> {
        let sorted = sorted(values);
        let at = |share| quantile(&sorted, share);
        Some(Self {
            count: sorted.len(),
            min: at(0.0)?,
            p5: at(0.05)?,
            p25: at(0.25)?,
            median: at(0.5)?,
            p75: at(0.75)?,
            p95: at(0.95)?,
            p99: at(0.99)?,
            max: at(1.0)?,
            mean: sorted.iter().sum::<f64>() / sorted.len() as f64,
        })
    }
}

/// A ratio of two medians with its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ratio {
    /// Median of the second over median of the first.
    pub value: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
}

impl Ratio {
    /// Whether the interval leaves no difference open.
    pub fn is_clear(&self) -> bool {
        self.low > 1.0 || self.high < 1.0
    }
}

/// How the medians of two sets of trials compare: `second / first`. None if either is empty or the first median is 0.
///
/// With at least five trials on both sides whole trials are resampled, else single operations.
pub fn ratio_of_medians(first: &[Vec<f64>], second: &[Vec<f64>]) -> Option<Ratio> {
    let by_trial = first.len() >= TRIALS_MIN && second.len() >= TRIALS_MIN;
    let mut draw = Draw::from_seed(95).fork("ratio of medians");
    let (below, mut below_draws) = medians(first, by_trial, &mut draw)?;
    let (above, above_draws) = medians(second, by_trial, &mut draw)?;
    if below <= 0.0 || below_draws.iter().any(|median| *median <= 0.0) {
        return None;
    }
    for (below, above) in below_draws.iter_mut().zip(above_draws) {
        *below = above / *below;
    }
    let ratios = sorted(&below_draws);
    Some(Ratio { value: above / below, low: quantile(&ratios, 0.025)?, high: quantile(&ratios, 0.975)? })
}

/// The median and its resampled likes.
fn medians(trials: &[Vec<f64>], by_trial: bool, draw: &mut Draw) -> Option<(f64, Vec<f64>)> {
    let pooled = sorted(&trials.concat());
    let median = quantile(&pooled, 0.5)?;
    let thinned = thin(&pooled);
    let mut draws = Vec::with_capacity(RESAMPLES);
    for _ in 0..RESAMPLES {
        let mut picked: Vec<f64> = if by_trial {
            let pick = trials.iter().filter_map(|_| draw.pick(trials));
            thin(&sorted(&pick.flatten().copied().collect::<Vec<_>>()))
        } else {
            thinned.iter().filter_map(|_| draw.pick(&thinned)).copied().collect()
        };
        picked.sort_by(f64::total_cmp);
        draws.push(quantile(&picked, 0.5).unwrap_or(median));
    }
    Some((median, draws))
}

/// At most so many samples as are resampled, evenly by rank.
fn thin(sorted: &[f64]) -> Vec<f64> {
    if sorted.len() <= RESAMPLED_MAX {
        return sorted.to_vec();
    }
    let share = |rank: usize| (rank as f64 + 0.5) / RESAMPLED_MAX as f64;
    (0..RESAMPLED_MAX).filter_map(|rank| quantile(sorted, share(rank))).collect()
}

#[cfg(test)]
#[expect(clippy::expect_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn quantiles_interpolate_and_empty_has_none() {
        assert_eq!(quantile(&[], 0.5), None);
        assert_eq!(quantile(&[3.0], 0.99), Some(3.0));
        assert_eq!(quantile(&[1.0, 2.0, 3.0, 4.0], 0.5), Some(2.5));
        assert_eq!(quantile(&[0.0, 10.0], 0.95), Some(9.5));
        let spread = Spread::of(&[4.0, f64::NAN, 1.0, 3.0, 2.0, 5.0]).expect("five samples");
        assert_eq!((spread.count, spread.p25, spread.median, spread.p75), (5, 2.0, 3.0, 4.0));
        assert_eq!((spread.min, spread.max, spread.mean), (1.0, 5.0, 3.0));
        assert_eq!(Spread::of(&[]), None);
    }

    fn noisy(around: f64, seed: u64, count: usize) -> Vec<f64> {
        let mut draw = Draw::from_seed(seed);
        (0..count).map(|_| around * (0.8 + draw.below(400) as f64 / 1000.0)).collect()
    }

    #[test]
    fn the_interval_holds_the_ratio_and_shrinks_with_samples() {
        let few = ratio_of_medians(&[noisy(1.0, 1, 20)], &[noisy(2.0, 2, 20)]).expect("samples");
        let many = ratio_of_medians(&[noisy(1.0, 3, 1500)], &[noisy(2.0, 4, 1500)]).expect("samples");
        assert!(few.low < 2.0 && 2.0 < few.high, "{few:?}");
        assert!(many.low < 2.0 && 2.0 < many.high, "{many:?}");
        assert!(many.high - many.low < (few.high - few.low) / 2.0, "{few:?} {many:?}");
        assert!(few.is_clear());
        let again = ratio_of_medians(&[noisy(1.0, 1, 20)], &[noisy(2.0, 2, 20)]);
        assert_eq!(again, Some(few), "the same samples give the same interval");
    }

    #[test]
    fn trials_that_differ_widen_the_interval() {
        let steady: Vec<Vec<f64>> = (0..6).map(|trial| noisy(1.0, trial, 300)).collect();
        let moody: Vec<Vec<f64>> = (0..6).map(|trial| noisy(1.0 + trial as f64 / 5.0, trial, 300)).collect();
        let pooled = ratio_of_medians(&[steady.concat()], &[moody.concat()]).expect("samples");
        let honest = ratio_of_medians(&steady, &moody).expect("samples");
        assert!(honest.high - honest.low > 3.0 * (pooled.high - pooled.low), "{pooled:?} {honest:?}");
    }

    #[test]
    fn no_ratio_over_nothing() {
        assert_eq!(ratio_of_medians(&[], &[vec![1.0]]), None);
        assert_eq!(ratio_of_medians(&[vec![0.0, 0.0]], &[vec![1.0]]), None);
    }
}
