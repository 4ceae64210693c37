//! No warning of rustc or clippy in any target of the workspace.

use super::Findings;
use crate::run;

pub(crate) fn check() -> Findings {
    let arguments = ["clippy", "--workspace", "--all-targets", "--locked", "--quiet", "--", "-D", "warnings"];
    match run::show(&mut run::cargo(&arguments)) {
        Ok(()) => Ok(Vec::new()),
        Err(reason) => Ok(vec![reason]),
    }
}
