//! The configuration of a node: `skerry.toml`, the environment over it, defaults below it.
//!
//! Why one table: [`table`] declares every field once with its type, default and doc; the file format, the
//! environment variables, `skerry config show --defaults` and docs/configuration.md derive from it.
//!
//! Invariants: an unknown field or a bad value is an error that names it and, in a file, its line; a
//! configuration that was loaded has been checked as a whole.

use std::path::Path;

use crate::trust::files;

mod check;
pub mod kinds;
mod ports;
pub mod table;
mod text;

pub use crate::fitting::Fitted;
pub use check::is_dialable;
pub use kinds::{BucketScope, Cap, Clock, Copies, Engine, Fit, LogFormat, Seal, Size, Span, Sync};
pub use ports::ports;
pub use table::{Config, Scrub};
pub use text::{reference, show};

/// What every environment variable starts with.
const PREFIX: &str = "SKERRY";

/// The configuration is wrong; the text says where and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The file could not be read.
    #[error("{0}")]
    File(String),
    /// The file has an unknown field, a bad value, or is no TOML.
    #[error("{path}: {reason}")]
    Toml {
        /// The file.
        path: String,
        /// With line and column.
        reason: String,
    },
    /// An environment variable has a bad value or names no field.
    #[error("environment variable {name}: {reason}")]
    Environment {
        /// The variable.
        name: String,
        /// Why.
        reason: String,
    },
    /// The values do not go together.
    #[error("{place}{field}: {reason}")]
    Value {
        /// Where the value comes from, with a colon; empty if it is the default.
        place: String,
        /// `section.field`.
        field: &'static str,
        /// Why.
        reason: String,
    },
}

impl Config {
    /// Loads `file` (none: defaults) and lays the environment over it. Relative paths stay as they are: they
    /// are meant from the working directory, `token_file` from `node.dir`.
    pub fn load(
        file: Option<&Path>,
        environment: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, ConfigError> {
        let (mut config, mut text) = (Self::default(), String::new());
        let path = file.map(|path| path.display().to_string()).unwrap_or_default();
        if let Some(file) = file {
            text = files::read_text(file).map_err(|error| ConfigError::File(error.to_string()))?;
            config = Self::from_toml(&path, &text)?;
        }
        let environment: Vec<(String, String)> = environment.into_iter().collect();
        config.overlay(environment.clone())?;
        config.check().map_err(|error| error.placed(&path, &text, &environment))?;
        Ok(config)
    }

    /// Reads TOML; `path` is for errors. Not checked as a whole yet.
    fn from_toml(path: &str, text: &str) -> Result<Self, ConfigError> {
        toml::from_str(text).map_err(|error| {
            let reason = error.to_string().trim_end().to_string();
            ConfigError::Toml { path: path.into(), reason }
        })
    }

    /// Takes over the variables `SKERRY_SECTION_FIELD`. A variable of a known section with an unknown field is
    /// an error; others (`SKERRY_CONFIG`, `SKERRY_ACCESS_KEY`) are not ours.
    fn overlay(
        &mut self,
        environment: impl IntoIterator<Item = (String, String)>,
    ) -> Result<(), ConfigError> {
        for (name, value) in environment {
            let Some((section, field)) = split(&name) else { continue };
            let wrong = |reason| ConfigError::Environment { name: name.clone(), reason };
            self.set(&section, &field, &value).map_err(wrong)?;
        }
        Ok(())
    }
}

impl ConfigError {
    /// The same with the place that the value comes from.
    fn placed(self, path: &str, text: &str, environment: &[(String, String)]) -> Self {
        let Self::Value { field, reason, .. } = self else { return self };
        let variable = format!("{PREFIX}_{}", field.replace('.', "_").to_uppercase());
        let place = match environment.iter().any(|(name, _)| *name == variable) {
            true => format!("environment variable {variable}: "),
            false => match line_of(text, field) {
                Some(line) => format!("{path}, line {line}: "),
                None => String::new(),
            },
        };
        Self::Value { place, field, reason }
    }
}

/// The line on which a file gives a field, as `field = …` below its section or as `section.field = …` before any.
fn line_of(text: &str, field: &str) -> Option<usize> {
    let (section, name) = field.split_once('.')?;
    let mut inside = String::new();
    for (number, line) in (1..).zip(text.lines().map(str::trim)) {
        if let Some(header) = line.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            inside = header.0.trim().to_owned();
        } else if let Some((key, _)) = line.split_once('=') {
            let key = key.trim();
            if (inside == section && key == name) || (inside.is_empty() && key == field) {
                return Some(number);
            }
        }
    }
    None
}

/// Section and field of a variable of ours.
fn split(name: &str) -> Option<(String, String)> {
    let rest = name.strip_prefix(PREFIX)?.strip_prefix('_')?.to_ascii_lowercase();
    let (section, field) = rest.split_once('_')?;
    Config::FIELDS.iter().any(|known| known.section == section).then(|| (section.into(), field.into()))
}

#[cfg(test)]
mod tests;
