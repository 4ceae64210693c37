//! The kinds of values that a configuration holds, each with one text form for files, environment and docs.

use std::fmt;
use std::time::Duration;

use serde::Deserialize;
use serde::de::{self, Deserializer, Visitor};

/// A value that can be read from a variable and written as TOML.
pub trait Setting: Sized {
    /// What a person may write, for docs.
    const FORM: &'static str;
    /// Reads the text of an environment variable.
    fn parse(text: &str) -> Result<Self, String>;
    /// The value as TOML.
    fn toml(&self) -> String;
}

/// Text as a TOML string.
fn quoted(text: &str) -> String {
    toml::Value::String(text.into()).to_string()
}

impl Setting for String {
    const FORM: &'static str = "text";

    fn parse(text: &str) -> Result<Self, String> {
        Ok(text.into())
    }

    fn toml(&self) -> String {
        quoted(self)
    }
}

impl Setting for bool {
    const FORM: &'static str = "true or false";

    fn parse(text: &str) -> Result<Self, String> {
        text.parse().map_err(|_| format!("`{text}` is not true or false"))
    }

    fn toml(&self) -> String {
        self.to_string()
    }
}

impl Setting for u32 {
    const FORM: &'static str = "number";

    fn parse(text: &str) -> Result<Self, String> {
        text.parse().map_err(|_| format!("`{text}` is not a number from 0 to {}", Self::MAX))
    }

    fn toml(&self) -> String {
        self.to_string()
    }
}

impl Setting for Vec<String> {
    const FORM: &'static str = "list of texts (in a variable: separated by commas)";

    fn parse(text: &str) -> Result<Self, String> {
        let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
        Ok(items.map(String::from).collect())
    }

    fn toml(&self) -> String {
        let items = self.iter().map(|item| quoted(item));
        format!("[{}]", items.collect::<Self>().join(", "))
    }
}

/// Reads a [`Setting`] from a TOML string, or from a bare number as if it were quoted.
struct AsText<T>(std::marker::PhantomData<T>);

impl<T: Setting> Visitor<'_> for AsText<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::FORM)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        T::parse(text).map_err(E::custom)
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<T, E> {
        T::parse(&number.to_string()).map_err(E::custom)
    }
}

/// Bytes: `64 MiB`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(pub u64);

/// Units of sizes, the largest first.
const SIZES: [(&str, u64); 9] = [
    ("TiB", 1 << 40),
    ("TB", 1_000_000_000_000),
    ("GiB", 1 << 30),
    ("GB", 1_000_000_000),
    ("MiB", 1 << 20),
    ("MB", 1_000_000),
    ("KiB", 1 << 10),
    ("kB", 1000),
    ("B", 1),
];

impl Setting for Size {
    const FORM: &'static str = "bytes, as `64 MiB` or `500 MB`";

    fn parse(text: &str) -> Result<Self, String> {
        measured(text, &SIZES).map(Self).ok_or_else(|| {
            format!("`{text}` is not a size like `64 MiB` (B, kB, KiB, MB, MiB, GB, GiB, TB, TiB)")
        })
    }

    fn toml(&self) -> String {
        quoted(&self.to_string())
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fitting = SIZES.iter().find(|(_, unit)| self.0 >= *unit && self.0.is_multiple_of(*unit));
        let (name, unit) = fitting.unwrap_or(&("B", 1));
        write!(f, "{} {name}", self.0 / unit)
    }
}

/// A cap on what a class of copies takes of the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cap {
    /// The default part of the disk.
    Auto,
    /// So many percent of the disk, or of `storage.capacity` if that is less.
    Percent(u8),
    /// So many bytes.
    Bytes(Size),
}

impl Cap {
    /// In bytes, on a disk of this size.
    pub fn of(self, disk: u64, auto: u8) -> u64 {
        let part = |percent: u8| disk / 100 * u64::from(percent);
        match self {
            Self::Auto => part(auto),
            Self::Percent(percent) => part(percent),
            Self::Bytes(size) => size.0,
        }
    }
}

impl Setting for Cap {
    const FORM: &'static str = "auto, a percentage of the disk as `30%`, or bytes as `64 GiB`";

    fn parse(text: &str) -> Result<Self, String> {
        if text == "auto" {
            return Ok(Self::Auto);
        }
        if let Some(percent) = text.strip_suffix('%') {
            let percent = percent.trim().parse().ok().filter(|percent| *percent <= 100);
            return percent
                .map(Self::Percent)
                .ok_or_else(|| format!("`{text}` is not a whole percentage from 0% to 100%"));
        }
        Size::parse(text).map(Self::Bytes).map_err(|error| format!("{error}, nor `auto`, nor a percentage"))
    }

    fn toml(&self) -> String {
        quoted(&match self {
            Self::Auto => "auto".into(),
            Self::Percent(percent) => format!("{percent}%"),
            Self::Bytes(size) => size.to_string(),
        })
    }
}

/// Bytes, or what suits the machine ([`super::Fitted`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fit {
    /// What suits the machine.
    Auto,
    /// So many bytes.
    Bytes(Size),
}

impl Fit {
    /// In bytes, where so many suit the machine.
    pub fn of(self, auto: u64) -> u64 {
        match self {
            Self::Auto => auto,
            Self::Bytes(size) => size.0,
        }
    }
}

impl Setting for Fit {
    const FORM: &'static str = "auto, or bytes as `64 MiB` or `500 MB`";

    fn parse(text: &str) -> Result<Self, String> {
        if text == "auto" {
            return Ok(Self::Auto);
        }
        Size::parse(text).map(Self::Bytes).map_err(|error| format!("{error}, nor `auto`"))
    }

    fn toml(&self) -> String {
        match self {
            Self::Auto => quoted("auto"),
            Self::Bytes(size) => size.toml(),
        }
    }
}

/// At how many sites what is in a new bucket is to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Copies {
    /// At two where there are two.
    Auto,
    /// At so many.
    Number(u8),
}

impl Copies {
    /// The most that can be asked for.
    pub const MOST: u8 = 16;
}

impl Setting for Copies {
    const FORM: &'static str = "auto, or a number from 1 to 16";

    fn parse(text: &str) -> Result<Self, String> {
        if text == "auto" {
            return Ok(Self::Auto);
        }
        let number = text.parse().ok().filter(|copies| (1..=Self::MOST).contains(copies));
        number
            .map(Self::Number)
            .ok_or_else(|| format!("`{text}` is neither `auto` nor a number from 1 to 16"))
    }

    fn toml(&self) -> String {
        match self {
            Self::Auto => quoted("auto"),
            Self::Number(copies) => copies.to_string(),
        }
    }
}

/// A span of time: `30s`, `24h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(pub Duration);

/// Units of spans in milliseconds, the largest first.
const SPANS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];

impl Setting for Span {
    const FORM: &'static str = "span of time, as `30s`, `15m` or `24h`";

    fn parse(text: &str) -> Result<Self, String> {
        let bare = text.trim().chars().all(|letter| letter.is_ascii_digit());
        let millis = if bare { None } else { measured(text, &SPANS) };
        millis
            .map(|millis| Self(Duration::from_millis(millis)))
            .ok_or_else(|| format!("`{text}` is not a span of time like `30s` (ms, s, m, h, d)"))
    }

    fn toml(&self) -> String {
        quoted(&self.to_string())
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX);
        let fitting = SPANS.iter().find(|(_, unit)| millis >= *unit && millis.is_multiple_of(*unit));
        let (name, unit) = fitting.unwrap_or(&("ms", 1));
        write!(f, "{}{name}", millis / unit)
    }
}

/// A whole or decimal number with a unit; a bare number counts the smallest unit.
fn measured(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let text = text.trim();
    let end = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let unit = match unit.trim() {
        "" => 1,
        unit => units.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit))?.1,
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    if fraction.is_empty() || fraction.len() > 9 {
        return None;
    }
    let parts = u128::from(unit) * fraction.parse::<u128>().ok()? / 10_u128.pow(fraction.len() as u32);
    let whole = u128::from(whole.parse::<u64>().ok()?) * u128::from(unit);
    u64::try_from(whole + parts).ok()
}

/// Declares a choice among words.
macro_rules! choice {
    ($(#[$doc:meta])* $name:ident, $form:literal { $($(#[$item_doc:meta])* $item:ident = $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name { $($(#[$item_doc])* $item,)* }

        impl Setting for $name {
            const FORM: &'static str = $form;

            fn parse(text: &str) -> Result<Self, String> {
                match text {
                    $($word => Ok(Self::$item),)*
                    other => Err(format!("`{other}` is none of {}", $form)),
                }
            }

            fn toml(&self) -> String {
                quoted(match self { $(Self::$item => $word,)* })
            }
        }
    };
}

choice! {
    /// When an answered write is on disk.
    Sync, "full or os" {
        /// Before it is answered.
        Full = "full",
        /// When the operating system sees fit: a power cut loses what was answered lately.
        Os = "os",
    }
}
choice! {
    /// The index engine.
    Engine, "lsm or memory" {
        /// On disk.
        Lsm = "lsm",
        /// In memory, rebuilt from the journal at each start.
        Memory = "memory",
    }
}
choice! {
    /// The rule for clock skew of signed requests.
    Clock, "island or strict" {
        /// A site whose clock was never set serves on.
        Island = "island",
        /// As in the cloud: 15 minutes.
        Strict = "strict",
    }
}
choice! {
    /// Whose the names are that buckets get at a site.
    BucketScope, "federation or site" {
        /// Everybody's.
        Federation = "federation",
        /// The site's own: `pos` is `pos--SITE`.
        Site = "site",
    }
}
choice! {
    /// How secrets at rest are sealed.
    Seal, "file" {
        /// Not beyond file permissions: whoever has the disk has the keys.
        File = "file",
    }
}
choice! {
    /// The form of log lines.
    LogFormat, "text or json" {
        /// For people.
        Text = "text",
        /// For programs.
        Json = "json",
    }
}

/// Reads kinds that are written as text.
macro_rules! read_as_text {
    ($($name:ident),*) => {$(
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                from.deserialize_any(AsText(std::marker::PhantomData))
            }
        }
    )*};
}

read_as_text!(Size, Span, Sync, Engine, Clock, BucketScope, Seal, LogFormat, Cap, Copies, Fit);
