//! `skerry server`: runs a site until it is told to stop.

use clap::Args;

use crate::arguments::Globals;
use crate::exit::{Failure, Outcome};
use crate::site_files::Source;

/// Run a site until SIGTERM or Ctrl-C.
#[derive(Debug, Args)]
pub(crate) struct Server {
    #[command(flatten)]
    source: Source,
    /// Stop when standard input closes: how a demo's sites end with it
    #[arg(long, hide = true)]
    stop_with_stdin: bool,
}

impl Server {
    pub(crate) fn run(&self, _globals: &Globals) -> Outcome {
        Err(Failure::failed("x"))
    }
}
