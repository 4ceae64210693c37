//! What a run is judged by: one promise, one file.
//!
//! A checker looks at what sites show ([`crate::standing`]) and at the checkers' own [`crate::history`]; where
//! it needs to know which record wins it asks [`crate::verdict`], never the product. Each has caught at least
//! one canary (see `tests/canaries.rs`); one that has not does not count.

use std::fmt;

pub mod acknowledged;
pub mod bodies;
pub mod claims;
pub mod convergence;
pub mod dots;
pub mod durability;
pub mod kept;
pub mod own_writes;
pub mod races;
pub mod resurrection;
pub mod scopes;
pub mod vectors;

/// A promise that was broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The checker that found it.
    pub checker: &'static str,
    /// At which site, if at one.
    pub site: Option<usize>,
    /// What is wrong, with the dots and keys to look for in the trace.
    pub what: String,
}

impl Violation {
    /// Found at a site.
    pub fn at(checker: &'static str, site: usize, what: String) -> Self {
        Self { checker, site: Some(site), what }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.checker)?;
        if let Some(site) = self.site {
            write!(f, " at site-{}", site + 1)?;
        }
        write!(f, ": {}", self.what)
    }
}
