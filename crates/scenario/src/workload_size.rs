//! Sizes as people write them: `256kB`, `1MB`, `10MiB`, or a plain number of bytes.
//!
//! Decimal units are powers of 1000, as in the papers (1 MB is 1,000,000 bytes), binary ones (`KiB`) of 1024.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// How many bytes an object has. Configurations have sizes of their own kind, written with a space.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ObjectSize(pub u64);

const UNITS: [(&str, u64); 12] = [
    ("", 1),
    ("b", 1),
    ("kb", 1_000),
    ("mb", 1_000_000),
    ("gb", 1_000_000_000),
    ("tb", 1_000_000_000_000),
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
    ("tib", 1 << 40),
    ("k", 1_000),
    ("m", 1_000_000),
];

impl FromStr for ObjectSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("{text:?} is no size; say a number of bytes, or 256kB, 1MB (10^6), 4MiB (2^20)");
        let text = text.trim();
        let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == ' ');
        let unit = text.get(digits.len()..).unwrap_or_default().trim().to_ascii_lowercase();
        let (_, factor) = UNITS.into_iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?;
        let (whole, part) = digits.split_once('.').unwrap_or((digits, "0"));
        let plain = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if !plain(whole) || !plain(part) || part.len() > 12 {
            return Err(wrong());
        }
        let number = |text: &str| text.parse::<u128>().map_err(|_| wrong());
        let scale = 10_u128.pow(part.len() as u32);
        let bytes =
            number(whole)?.saturating_mul(scale).saturating_add(number(part)?).saturating_mul(factor.into());
        u64::try_from(bytes / scale).map(Self).map_err(|_| wrong())
    }
}

impl fmt::Display for ObjectSize {
    /// The shortest exact form.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [
            ("TiB", 1_u64 << 40),
            ("TB", 1_000_000_000_000),
            ("GiB", 1 << 30),
            ("GB", 1_000_000_000),
            ("MiB", 1 << 20),
            ("MB", 1_000_000),
            ("KiB", 1 << 10),
            ("kB", 1_000),
        ];
        match units.into_iter().find(|(_, factor)| self.0 >= *factor && self.0.is_multiple_of(*factor)) {
            Some((unit, factor)) => write!(f, "{}{unit}", self.0 / factor),
            None => write!(f, "{}", self.0),
        }
    }
}

impl<'de> Deserialize<'de> for ObjectSize {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Visitor)
    }
}

struct Visitor;

impl de::Visitor<'_> for Visitor {
    type Value = ObjectSize;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number of bytes or a size such as \"1MB\"")
    }

    fn visit_u64<E: de::Error>(self, bytes: u64) -> Result<ObjectSize, E> {
        Ok(ObjectSize(bytes))
    }

    fn visit_i64<E: de::Error>(self, bytes: i64) -> Result<ObjectSize, E> {
        u64::try_from(bytes).map(ObjectSize).map_err(|_| E::custom("a size is not negative"))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<ObjectSize, E> {
        text.parse().map_err(E::custom)
    }
}

impl Serialize for ObjectSize {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.0)
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn decimal_is_decimal_and_binary_is_binary() {
        let cases = [
            ("512", 512),
            ("256kB", 256_000),
            ("1MB", 1_000_000),
            ("1 MB", 1_000_000),
            ("4MiB", 4 << 20),
            ("1.5KiB", 1536),
            ("0.25MB", 250_000),
            ("2GB", 2_000_000_000),
        ];
        for (text, bytes) in cases {
            assert_eq!(text.parse::<ObjectSize>().unwrap(), ObjectSize(bytes), "{text}");
        }
        for wrong in ["", "MB", "-1", "1XB", "1.2.3", "1e6", "99999999999999TB", "1 000"] {
            assert!(wrong.parse::<ObjectSize>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_printed_is_read_as_the_same() {
        for bytes in [0, 1, 512, 1000, 1024, 1_000_000, 8 << 20, 1_234_567, u64::MAX] {
            assert_eq!(ObjectSize(bytes).to_string().parse::<ObjectSize>().unwrap(), ObjectSize(bytes));
        }
        assert_eq!([ObjectSize(1_000_000).to_string(), ObjectSize(8 << 20).to_string()], ["1MB", "8MiB"]);
    }
}
