//! What a scenario asks for: its file, checked, and the cells that its parameters make.
//!
//! Invariants: a file is understood whole or refused with the line at fault; the cells of a file and a scale are
//! always the same, in the same order.

pub mod cell;
pub mod deed;
mod file;
pub mod network;
pub mod phase;
pub mod places;
pub mod setting;
pub mod statistic;

pub use cell::PlannedCell;
pub use file::Scenario;
pub use phase::{Action, Phase, Whose};
pub use setting::Setting;

/// Which sizes of a scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Scale {
    /// What fits minutes of a small machine.
    Small,
    /// The paper's own size.
    Paper,
}

impl Scale {
    /// Its name in files and results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Small => "small",
            Self::Paper => "paper",
        }
    }
}

#[cfg(test)]
mod tests;
