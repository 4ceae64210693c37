//! The checks of the gate, one file each. A check gives its findings as lines; none is a pass.

pub(crate) mod architecture;
pub(crate) mod arrows;
pub(crate) mod budgets;
pub(crate) mod clippy;
pub(crate) mod commands;
pub(crate) mod dependencies;
pub(crate) mod papers;
pub(crate) mod purity;
pub(crate) mod rows;
pub(crate) mod rustfmt;
pub(crate) mod tidy;
pub(crate) mod written;

/// A check's findings, or why it could not look.
pub(crate) type Findings = Result<Vec<String>, String>;
