//! How a run of one of the small worlds went: [`crate::circuits`], [`crate::clones`], [`crate::copies`], [`crate::credentials`], [`crate::detours`], [`crate::followed`], [`crate::goings`], [`crate::nodes`], [`crate::replaced`].

use std::collections::BTreeMap;
use std::time::Duration;

/// Promises that were broken, and what happened.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Promises that were broken, by checker.
    pub violations: Vec<(&'static str, String)>,
    /// Counts of what happened.
    pub counts: BTreeMap<&'static str, u64>,
    /// The longest that a write waited which had nothing to wait for, in worlds that look at it ([`crate::nodes`]).
    pub longest: Duration,
    /// The longest that a bucket was without decisions while one node was lost or slow ([`crate::nodes`]).
    pub undecided: Duration,
}

impl Outcome {
    /// It happened once more.
    pub(crate) fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }
}
