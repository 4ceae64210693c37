//! Zipfian numbers for any count without a table: rejection-inversion (Hörmann and Derflinger 1996).
//!
//! Why own: the crate that has it wants the generator itself, and every draw here comes from a seeded one of ours.

use skerry_scenario::draw::Draw;

/// Draws `n` from 0 to `count - 1` with weight `1 / (n + 1)^theta`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Zipf {
    count: f64,
    theta: f64,
    h_first: f64,
    h_last: f64,
    shortcut: f64,
}

impl Zipf {
    pub(crate) fn new(count: u64, theta: f64) -> Self {
        let count = count.max(1) as f64;
        let h_first = integral(1.5, theta) - 1.0;
        let h_last = integral(count + 0.5, theta);
        let shortcut = 2.0 - inverse(integral(2.5, theta) - 2.0_f64.powf(-theta), theta);
        Self { count, theta, h_first, h_last, shortcut }
    }

    pub(crate) fn draw(&self, draw: &mut Draw) -> u64 {
        // About one in fifty is rejected; the bound only keeps a broken float from turning for ever.
        for _ in 0..1000 {
            let uniform = (draw.number() >> 11) as f64 / (1_u64 << 53) as f64;
            let at = self.h_last + uniform * (self.h_first - self.h_last);
            let x = inverse(at, self.theta);
            let rank = x.round().clamp(1.0, self.count);
            let accepted =
                rank - x <= self.shortcut || at >= integral(rank + 0.5, self.theta) - rank.powf(-self.theta);
            if accepted {
                return rank as u64 - 1;
            }
        }
        0
    }
}

/// The integral of `x^-theta`, shifted so that it holds for theta = 1, too.
fn integral(x: f64, theta: f64) -> f64 {
    let log = x.ln();
    let exponent = (1.0 - theta) * log;
    let factor = if exponent.abs() > 1e-8 { exponent.exp_m1() / exponent } else { 1.0 + exponent / 2.0 };
    factor * log
}

fn inverse(value: f64, theta: f64) -> f64 {
    let scaled = (value * (1.0 - theta)).max(-1.0);
    let factor = if scaled.abs() > 1e-8 { scaled.ln_1p() / scaled } else { 1.0 - scaled / 2.0 };
    (factor * value).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shares_are_those_of_the_law() {
        for theta in [0.5, 0.99, 1.0, 1.5] {
            let (count, draws) = (100, 200_000);
            let zipf = Zipf::new(count, theta);
            let mut draw = Draw::from_seed(5);
            let mut seen = vec![0_u64; count as usize];
            (0..draws).for_each(|_| seen[zipf.draw(&mut draw) as usize] += 1);
            let weight = |n: usize| 1.0 / ((n + 1) as f64).powf(theta);
            let all: f64 = (0..count as usize).map(weight).sum();
            for n in [0, 1, 2, 9, 49, 99] {
                let expected = weight(n) / all * draws as f64;
                // Five standard deviations.
                let off = (seen[n] as f64 - expected).abs();
                assert!(off < 5.0 * expected.sqrt() + 1.0, "theta {theta}, {n}: {} for {expected}", seen[n]);
            }
        }
    }

    #[test]
    fn one_key_is_always_that_key() {
        let mut draw = Draw::from_seed(1);
        assert!((0..100).all(|_| Zipf::new(1, 0.99).draw(&mut draw) == 0));
    }
}
