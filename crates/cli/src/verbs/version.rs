//! `skerry version`: the release and what it was built as.

use clap::Args;

use crate::arguments::Globals;
use crate::exit::{Exit, Outcome};
use crate::output;

/// The commit that this binary was built from, as `build.rs` found it; empty if that is not known.
pub(crate) const COMMIT: &str = env!("SKERRY_BUILT_FROM");

/// Print the release.
#[derive(Debug, Args)]
pub(crate) struct Version {}

impl Version {
    pub(crate) fn run(&self, globals: &Globals) -> Outcome {
        let release = env!("CARGO_PKG_VERSION");
        let profile = if cfg!(debug_assertions) { "debug" } else { "release" };
        let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
        if globals.json {
            let body = serde_json::json!({ "release": release, "commit": COMMIT, "profile": profile, "os": os, "arch": arch });
            output::document("version", &body)?;
        } else {
            let commit = if COMMIT.is_empty() { "commit unknown" } else { COMMIT };
            output::line(&format!("skerry {release} ({commit}, {profile}, {arch}-{os})"));
        }
        Ok(Exit::Done)
    }
}
