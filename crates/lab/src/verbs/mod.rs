//! One file per verb of `skerry-lab`.

use std::process::ExitCode;

pub mod run;
pub mod trial;

/// What a verb ends with: done, failed (the message was printed), or wrongly called.
pub type Ending = Result<ExitCode, String>;
