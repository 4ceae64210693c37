//! The law by which a figure grows with the number of sites.
//!
//! Least squares of relative errors: the power law by a line through the logarithms, the others weighted by 1/y². What explains the
//! figures with the least error is named; a constant, if it is within a tenth, before anything else.

use std::fmt;

/// How something grows with n.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Law {
    /// a
    Constant,
    /// a + b·ln n
    Logarithm,
    /// a + b·n
    Linear,
    /// a·n^b
    Power,
}

/// A law with its numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fit {
    /// Which.
    pub law: Law,
    /// Its first number.
    pub a: f64,
    /// Its second; 0 for a constant.
    pub b: f64,
    /// Root mean square of the relative errors.
    pub error: f64,
}

/// A constant is one that is off by so much at most.
const CONSTANT: f64 = 0.1;

impl Fit {
    /// What it says for so many sites.
    pub fn at(&self, n: f64) -> f64 {
        match self.law {
            Law::Constant => self.a,
            Law::Logarithm => self.a + self.b * n.ln(),
            Law::Linear => self.a + self.b * n,
            Law::Power => self.a * n.powf(self.b),
        }
    }

    fn judged(law: Law, (a, b): (f64, f64), points: &[(f64, f64)]) -> Self {
        let fit = Self { law, a, b, error: 0.0 };
        let square = |(n, y): &(f64, f64)| ((fit.at(*n) - y) / y).powi(2);
        let mean = points.iter().map(square).sum::<f64>() / points.len() as f64;
        Self { error: mean.sqrt(), ..fit }
    }
}

impl fmt::Display for Fit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { law, a, b, error } = *self;
        let off = error * 100.0;
        match law {
            Law::Constant => write!(f, "constant {} (± {off:.0} %)", short(a)),
            Law::Logarithm => write!(f, "{} + {}·ln n (± {off:.0} %)", short(a), short(b)),
            Law::Linear => write!(f, "{} + {}·n (± {off:.0} %)", short(a), short(b)),
            Law::Power => write!(f, "{}·n^{b:.2} (± {off:.0} %)", short(a)),
        }
    }
}

/// Three digits that count.
pub fn short(value: f64) -> String {
    let digits = (2 - value.abs().max(1e-9).log10().floor() as i32).clamp(0, 6) as usize;
    format!("{value:.digits$}")
}

/// a and b of y = a + b·x with these weights.
fn line(points: impl Iterator<Item = (f64, f64, f64)>) -> (f64, f64) {
    let [mut w, mut wx, mut wy, mut wxx, mut wxy] = [0.0; 5];
    for (x, y, weight) in points {
        w += weight;
        wx += weight * x;
        wy += weight * y;
        wxx += weight * x * x;
        wxy += weight * x * y;
    }
    let spread = w * wxx - wx * wx;
    if spread.abs() < 1e-12 * (w * wxx).abs().max(1e-300) {
        return (wy / w, 0.0);
    }
    let b = (w * wxy - wx * wy) / spread;
    ((wy - b * wx) / w, b)
}

/// The slope in logarithms: the exponent of the power law, and its factor.
pub fn power(points: &[(f64, f64)]) -> Option<Fit> {
    let points: Vec<(f64, f64)> = points.iter().copied().filter(|(n, y)| *n > 0.0 && *y > 0.0).collect();
    if points.len() < 2 {
        return None;
    }
    let (a, b) = line(points.iter().map(|(n, y)| (n.ln(), y.ln(), 1.0)));
    Some(Fit::judged(Law::Power, (a.exp(), b), &points))
}

/// The law that says it best; none for fewer than three figures.
pub fn best(points: &[(f64, f64)]) -> Option<Fit> {
    let points: Vec<(f64, f64)> = points.iter().copied().filter(|(n, y)| *n > 0.0 && *y > 0.0).collect();
    if points.len() < 3 {
        return None;
    }
    let weighted = |x: fn(f64) -> f64| line(points.iter().map(|(n, y)| (x(*n), *y, 1.0 / (y * y))));
    let constant = Fit::judged(Law::Constant, (weighted(|_| 1.0).0, 0.0), &points);
    if constant.error <= CONSTANT {
        return Some(constant);
    }
    let logarithm = Fit::judged(Law::Logarithm, weighted(f64::ln), &points);
    let linear = Fit::judged(Law::Linear, weighted(|n| n), &points);
    let others = [logarithm, linear].into_iter().chain(power(&points));
    others.min_by(|one, other| one.error.total_cmp(&other.error))
}

#[cfg(test)]
mod tests {
    use super::*;

    const N: [f64; 6] = [3.0, 10.0, 30.0, 100.0, 300.0, 1000.0];

    fn law(of: impl Fn(f64) -> f64) -> Fit {
        let points: Vec<(f64, f64)> = N.iter().map(|n| (*n, of(*n))).collect();
        best(&points).unwrap_or(Fit { law: Law::Constant, a: 0.0, b: 0.0, error: 1.0 })
    }

    #[test]
    fn each_law_is_told_from_the_others() {
        let constant = law(|n| if n < 50.0 { 7.2 } else { 6.9 });
        assert!(constant.law == Law::Constant && (constant.a - 7.0).abs() < 0.2, "{constant}");
        let logarithm = law(|n| 2.0 + 3.0 * n.ln());
        assert!(logarithm.law == Law::Logarithm && (logarithm.b - 3.0).abs() < 1e-6, "{logarithm}");
        let linear = law(|n| 40.0 + 0.5 * n);
        assert!(linear.law == Law::Linear && (linear.at(10_000.0) - 5040.0).abs() < 1e-3, "{linear}");
        let power = law(|n| 4.0 * n.powf(0.6));
        assert!(power.law == Law::Power && (power.b - 0.6).abs() < 1e-9, "{power}");
    }

    #[test]
    fn too_little_is_no_law() {
        assert_eq!(best(&[(3.0, 1.0), (10.0, 2.0)]), None);
        assert_eq!(best(&[(3.0, 1.0), (10.0, 2.0), (30.0, 0.0)]), None);
        assert_eq!(power(&[(3.0, 1.0)]), None);
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!([0.01234, 1.2345, 123.45, 12_345.0].map(short), ["0.0123", "1.23", "123", "12345"]);
    }
}
