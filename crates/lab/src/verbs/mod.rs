//! One file per verb of `skerry-lab`.

use std::process::ExitCode;

pub mod check;
pub mod clean;
pub mod client;
pub mod compare;
pub mod export;
pub mod keep;
pub mod papers;
pub mod report;
pub mod run;
pub mod transport;
pub mod trial;

/// What a verb ends with: done, failed (the message was printed), or wrongly called.
pub type Ending = Result<ExitCode, String>;
