//! A file that is refused: which file, which line, why.

use std::fmt;
use std::ops::Range;

use serde::de::DeserializeOwned;

/// Why a file was not accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The file.
    pub path: String,
    /// The line, from 1; 0 if the whole file is meant.
    pub line: usize,
    /// What is wrong with it.
    pub reason: String,
}

impl Refusal {
    /// Refuses what stands at a span of the text.
    pub fn at(path: &str, text: &str, span: Range<usize>, reason: String) -> Self {
        let before = text.get(..span.start).unwrap_or(text);
        Self { path: path.into(), line: before.matches('\n').count() + 1, reason }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.reason)
    }
}

impl std::error::Error for Refusal {}

/// Reads TOML; an error names the line.
pub fn parse<T: DeserializeOwned>(path: &str, text: &str) -> Result<T, Refusal> {
    toml::from_str(text).map_err(|error| match error.span() {
        Some(span) => Refusal::at(path, text, span, error.message().into()),
        None => Refusal { path: path.into(), line: 0, reason: error.message().into() },
    })
}
