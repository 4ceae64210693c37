//! Numbers with units, as people read them: three significant digits and the unit that needs no zeros.

/// What a number counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Seconds.
    Seconds,
    /// Milliseconds: parameters are named in them.
    Milliseconds,
    /// Bytes, decimal multiples.
    Bytes,
    /// Nothing in particular.
    Plain,
    /// A share of one.
    Share,
    /// Operations per second.
    PerSecond,
}

impl Unit {
    /// The number with its unit.
    pub fn show(self, value: f64) -> String {
        match self {
            Self::Seconds => seconds(value),
            Self::Milliseconds => format!("{} ms", digits(value)),
            Self::Bytes => bytes(value),
            Self::Plain => digits(value),
            Self::Share => format!("{} %", digits(value * 100.0)),
            Self::PerSecond => format!("{}/s", digits(value)),
        }
    }
}

/// Three significant digits, no trailing zeros after the point, thousands apart.
pub fn digits(value: f64) -> String {
    if !value.is_finite() {
        return "–".into();
    }
    if value == 0.0 {
        return "0".into();
    }
    let exponent = value.abs().log10().floor() as i32;
    let decimals = (2 - exponent).clamp(0, 9) as usize;
    let text = format!("{value:.decimals$}");
    if text.contains('.') {
        return text.trim_end_matches('0').trim_end_matches('.').to_owned();
    }
    group(&text)
}

/// 1234567 as 1 234 567, with narrow no-break spaces.
fn group(text: &str) -> String {
    let (sign, number) = text.strip_prefix('-').map_or(("", text), |number| ("-", number));
    if number.len() <= 4 {
        return text.to_owned();
    }
    let mut grouped = String::from(sign);
    for (place, digit) in number.chars().enumerate() {
        if place > 0 && (number.len() - place).is_multiple_of(3) {
            grouped.push('\u{202f}');
        }
        grouped.push(digit);
    }
    grouped
}

/// A whole number, thousands apart.
pub fn count(value: u64) -> String {
    group(&value.to_string())
}

/// A time.
pub fn seconds(value: f64) -> String {
    match value.abs() {
        0.0 => "0 s".into(),
        size if size < 0.000_999_5 => format!("{} µs", digits(value * 1e6)),
        size if size < 0.999_5 => format!("{} ms", digits(value * 1e3)),
        size if size < 600.0 => format!("{} s", digits(value)),
        size if size.is_finite() => format!("{} min", digits(value / 60.0)),
        _ => "–".into(),
    }
}

/// A size, decimal as the papers have them.
pub fn bytes(value: f64) -> String {
    let (divisor, unit) = match value.abs() {
        size if size < 999.5 => (1.0, "B"),
        size if size < 999.5e3 => (1e3, "kB"),
        size if size < 999.5e6 => (1e6, "MB"),
        _ => (1e9, "GB"),
    };
    format!("{} {unit}", digits(value / divisor))
}

/// A factor: ×1.04.
pub fn factor(value: f64) -> String {
    if value.is_finite() { format!("×{}", digits(value)) } else { "–".into() }
}

/// The number a label begins with, its size unit applied: `256KB` is 256 000, `0-50` is 0, `7` is 7; none if it begins with none.
pub fn leading_number(label: &str) -> Option<f64> {
    let label = label.trim();
    let end = label.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(label.len());
    let (number, unit) = label.split_at_checked(end)?;
    let scale = match unit.trim().to_ascii_lowercase().as_str() {
        "k" | "kb" => 1e3,
        "kib" => 1024.0,
        "m" | "mb" => 1e6,
        "mib" => 1_048_576.0,
        "g" | "gb" => 1e9,
        "gib" => 1_073_741_824.0,
        _ => 1.0,
    };
    number.parse::<f64>().ok().map(|number| number * scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_and_the_fitting_unit() {
        let shown: Vec<String> = [0.0, 0.000_012_34, 0.1234, 0.9999, 12.0, 5999.0].map(seconds).into();
        assert_eq!(shown, ["0 s", "12.3 µs", "123 ms", "1 s", "12 s", "100 min"]);
        let shown: Vec<String> = [0.0, 999.0, 256_000.0, 1_048_576.0, 1.5e9].map(bytes).into();
        assert_eq!(shown, ["0 B", "999 B", "256 kB", "1.05 MB", "1.5 GB"]);
        assert_eq!(digits(123_456.0), "123\u{202f}456");
        assert_eq!(digits(f64::NAN), "–");
        assert_eq!(count(1000), "1000");
        assert_eq!(factor(4.969), "×4.97");
    }

    #[test]
    fn labels_order_by_their_number() {
        assert_eq!(leading_number("256KB"), Some(256_000.0));
        assert_eq!(leading_number("8 MiB"), Some(8_388_608.0));
        assert_eq!(leading_number("100-150"), Some(100.0));
        assert_eq!(leading_number("300+"), Some(300.0));
        assert_eq!(leading_number("site"), None);
    }
}
