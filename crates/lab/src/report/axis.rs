//! Axes: which kind, which range, which ticks, and where a value lies.
//!
//! Invariants: a linear axis of times or bytes begins at 0; a logarithmic one is taken when the values span more than [`DECADE_SPAN`];
//! every value given to [`Axis::fit`] lies within the range, so that no mark leaves its panel.

use super::quantity::Unit;

/// Largest over smallest value from which on an axis is logarithmic.
pub const DECADE_SPAN: f64 = 12.0;

/// Linear or logarithmic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Equal steps are equal differences.
    Linear,
    /// Equal steps are equal ratios.
    Log,
}

/// One axis of a panel, or of several that share it.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    /// Linear or logarithmic.
    pub kind: Kind,
    low: f64,
    high: f64,
    unit: Unit,
}

impl Axis {
    /// The axis that holds all values; logarithmic when they span far.
    pub fn fit(values: impl IntoIterator<Item = f64>, unit: Unit) -> Self {
        let mut least = f64::INFINITY;
        let mut most = 0.0_f64;
        let mut with_zero = false;
        for value in values.into_iter().filter(|value| value.is_finite()) {
            with_zero |= value <= 0.0;
            most = most.max(value);
            if value > 0.0 {
                least = least.min(value);
            }
        }
        if most <= 0.0 {
            return Self { kind: Kind::Linear, low: 0.0, high: 1.0, unit };
        }
        if !with_zero && most / least > DECADE_SPAN {
            return Self { kind: Kind::Log, low: floor_nice(least), high: ceil_nice(most), unit };
        }
        let step = step_of(most, 4.0);
        Self { kind: Kind::Linear, low: 0.0, high: (most / step - 1e-9).ceil() * step, unit }
    }

    /// A linear axis of exactly this range.
    pub fn exact(low: f64, high: f64, unit: Unit) -> Self {
        Self { kind: Kind::Linear, low, high: if high > low { high } else { low + 1.0 }, unit }
    }

    /// Where a value lies, 0 at the lower end, 1 at the upper.
    pub fn place(&self, value: f64) -> f64 {
        let share = match self.kind {
            Kind::Linear => (value - self.low) / (self.high - self.low),
            Kind::Log if value <= 0.0 => 0.0,
            Kind::Log => (value / self.low).ln() / (self.high / self.low).ln(),
        };
        share.clamp(0.0, 1.0)
    }

    /// Values to mark, with their text, about `wanted` of them.
    pub fn ticks(&self, wanted: usize) -> Vec<(f64, String)> {
        let values = match self.kind {
            Kind::Linear => self.linear_ticks(wanted),
            Kind::Log => self.log_ticks(wanted),
        };
        values.into_iter().map(|value| (value, self.unit.show(value))).collect()
    }

    fn linear_ticks(&self, wanted: usize) -> Vec<f64> {
        let step = step_of(self.high - self.low, wanted.max(2) as f64);
        let first = (self.low / step - 1e-9).ceil() as i64;
        let last = (self.high / step + 1e-9).floor() as i64;
        (first..=last).map(|number| number as f64 * step).collect()
    }

    fn log_ticks(&self, wanted: usize) -> Vec<f64> {
        let decades = (self.high / self.low).log10();
        let marks: &[f64] = match decades / wanted.max(2) as f64 {
            density if density < 0.4 => &[1.0, 2.0, 5.0],
            density if density < 0.6 => &[1.0, 3.0],
            _ => &[1.0],
        };
        let first = self.low.log10().floor() as i32;
        let last = self.high.log10().ceil() as i32;
        let every = (decades / wanted.max(2) as f64).ceil().max(1.0) as i32;
        let exponents = (first..=last).filter(|exponent| (exponent - first) % every == 0);
        let values =
            exponents.flat_map(|exponent| marks.iter().map(move |mark| mark * 10_f64.powi(exponent)));
        values.filter(|value| *value >= self.low * 0.999 && *value <= self.high * 1.001).collect()
    }
}

/// A step of 1, 2 or 5 times a power of ten that divides a range into about so many.
fn step_of(range: f64, wanted: f64) -> f64 {
    let raw = range / wanted;
    let power = 10_f64.powf(raw.log10().floor());
    let mantissa = raw / power;
    let nice = [1.0, 2.0, 2.5, 5.0, 10.0].into_iter().find(|nice| mantissa <= nice * 1.000_001);
    nice.unwrap_or(10.0) * power
}

fn floor_nice(value: f64) -> f64 {
    let power = 10_f64.powf(value.log10().floor());
    let nice = [5.0, 2.0, 1.0].into_iter().find(|nice| nice * power <= value * 1.000_001);
    nice.unwrap_or(1.0) * power
}

fn ceil_nice(value: f64) -> f64 {
    let power = 10_f64.powf(value.log10().floor());
    let nice = [1.0, 2.0, 5.0, 10.0].into_iter().find(|nice| nice * power >= value * 0.999_999);
    nice.unwrap_or(10.0) * power
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_values_are_linear_from_zero() {
        let axis = Axis::fit([0.3, 0.9], Unit::Seconds);
        assert_eq!(axis.kind, Kind::Linear);
        assert_eq!(axis.place(0.0), 0.0);
        let texts: Vec<String> = axis.ticks(4).into_iter().map(|(_, text)| text).collect();
        assert_eq!(texts, ["0 s", "250 ms", "500 ms", "750 ms", "1 s"]);
    }

    #[test]
    fn far_values_are_logarithmic_and_inside() {
        let axis = Axis::fit([0.004, 7.0], Unit::Seconds);
        assert_eq!(axis.kind, Kind::Log);
        assert!(axis.place(0.004) >= 0.0 && axis.place(7.0) <= 1.0);
        let texts: Vec<String> = axis.ticks(4).into_iter().map(|(_, text)| text).collect();
        assert_eq!(texts, ["10 ms", "100 ms", "1 s", "10 s"]);
        assert_eq!(axis.place(0.0), 0.0, "a zero sits at the edge, not outside");
    }

    #[test]
    fn nothing_and_zero_make_an_axis_too() {
        assert_eq!(Axis::fit([], Unit::Plain).place(0.5), 0.5);
        assert_eq!(Axis::fit([0.0, 0.0], Unit::Bytes).kind, Kind::Linear);
        assert!(!Axis::fit([f64::NAN], Unit::Bytes).ticks(4).is_empty());
    }
}
