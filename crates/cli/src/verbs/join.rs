//! `skerry join TOKEN`: makes a site of a federation.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use serde_json::json;
use skerry_node::init::{self, InitError};
use skerry_node::trust::JoinToken;
use skerry_node::trust::join::JoinError;

use crate::arguments::Globals;
use crate::exit::{Exit, Failure, Outcome};
use crate::output;
use crate::progress::Waiting;
use crate::reach::Reach;
use crate::site_files::{DEFAULT_DIRECTORY, refuse_demo, refuse_site};

/// Make a site of a federation from a token of `skerry invite`. The inviting site must be reachable.
#[derive(Debug, Args)]
pub(crate) struct Join {
    /// The token
    token: String,
    /// Directory of the site to make
    #[arg(long, value_name = "DIR", default_value = DEFAULT_DIRECTORY, env = "SKERRY_DIR")]
    dir: PathBuf,
    #[command(flatten)]
    reach: Reach,
}

impl Join {
    pub(crate) async fn run(self, globals: Globals) -> Outcome {
        let token = read(&self.token)?;
        let dir = self.dir.display();
        refuse_demo(&self.dir)?;
        refuse_site(&self.dir)?;
        let configured = self.reach.configured(&self.dir)?;
        if output::dry_run(globals.dry_run, &format!("make the site {} in {dir}", token.site), globals.json)?
        {
            return Ok(Exit::Done);
        }
        if !self.reach.is_dialled(&configured) {
            output::note("no --advertise: this site will dial the others, they cannot dial it");
        }
        let waiting = Waiting::new(&format!("joining as {}", token.site), globals.json);
        join(&self.dir, &token, self.reach.addresses(&configured), globals.timeout).await?;
        drop(waiting);
        self.reach.keep(&self.dir, &token.site, &configured)?;
        if globals.json {
            let Reach { advertise, tls, .. } = &self.reach;
            let body =
                json!({ "site": token.site, "directory": self.dir, "tls": tls, "advertise": advertise });
            output::document("join", &body)?;
        } else {
            output::line(&format!("{} is in {dir}. Next: skerry server {dir}", token.site));
        }
        Ok(Exit::Done)
    }
}

/// What to do where it is not known whether the inviting site let this one in.
const AGAIN: &str = "say the same again, with the same token and directory";

/// Reads a token.
pub(crate) fn read(token: &str) -> Outcome<JoinToken> {
    token.parse().map_err(|error: skerry_node::trust::token::InvalidToken| Failure::usage(error.to_string()))
}

/// Joins; what stands in the way is told by kind.
pub(crate) async fn join(
    directory: &Path,
    token: &JoinToken,
    addresses: Vec<String>,
    timeout: Duration,
) -> Outcome<()> {
    let asked = token.addresses.join(", ");
    let silent = |_| Failure::unreachable(format!("no answer from {asked} within {timeout:?}; {AGAIN}"));
    let joined =
        tokio::time::timeout(timeout, init::join(directory, token, addresses)).await.map_err(silent)?;
    joined.map(drop).map_err(|error| match &error {
        InitError::Exists(_) | InitError::Join(JoinError::Refused(_)) => Failure::refused(error.to_string()),
        InitError::Net(_) => Failure::unreachable(error.to_string()),
        InitError::Join(JoinError::Frame(_) | JoinError::HungUp) => {
            Failure::failed(format!("{error}; {AGAIN}"))
        }
        _ => Failure::failed(error.to_string()),
    })
}
