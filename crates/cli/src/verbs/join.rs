//! `skerry join TOKEN`: makes a site of a federation.

use std::path::PathBuf;

use clap::Args;

use crate::arguments::Globals;
use crate::exit::{Failure, Outcome};

/// Make a site of a federation from a token of `skerry invite`.
#[derive(Debug, Args)]
pub(crate) struct Join {
    /// The token
    token: String,
    /// Directory of the site to make
    #[arg(long, value_name = "DIR", default_value = "skerry", env = "SKERRY_DIR")]
    dir: PathBuf,
}

impl Join {
    pub(crate) async fn run(self, _globals: Globals) -> Outcome {
        Err(Failure::failed("x"))
    }
}
