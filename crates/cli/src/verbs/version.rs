//! `skerry version`: the release and what it was built as.

use clap::Args;

use crate::arguments::Globals;
use crate::exit::{Exit, Outcome};
use crate::output;

/// Print the release.
#[derive(Debug, Args)]
pub(crate) struct Version {}

impl Version {
    pub(crate) fn run(&self, globals: &Globals) -> Outcome {
        let release = env!("CARGO_PKG_VERSION");
        let profile = if cfg!(debug_assertions) { "debug" } else { "release" };
        let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
        if globals.json {
            let body = serde_json::json!({ "release": release, "profile": profile, "os": os, "arch": arch });
            output::document("version", &body)?;
        } else {
            output::line(&format!("skerry {release} ({profile}, {arch}-{os})"));
        }
        Ok(Exit::Done)
    }
}
