//! `skerry link cut|heal SITE`: fault injection. The site loses every connection to other sites, not its clients.

use clap::{Args, Subcommand};
use skerry_node::admin_shapes::{LinkRequest, LinkState};

use crate::arguments::Globals;
use crate::exit::{Exit, Failure, Outcome};
use crate::output;
use crate::place::{Place, Site};

/// Cut and heal the links of a site.
#[derive(Debug, Subcommand)]
pub(crate) enum Link {
    /// Drop every connection of a site to other sites and open none; its clients are served
    Cut(Which),
    /// Connect it again
    Heal(Which),
}

/// Which site.
#[derive(Debug, Args)]
pub(crate) struct Which {
    /// The site
    #[arg(value_name = "SITE")]
    target: String,
    #[command(flatten)]
    place: Place,
}

impl Link {
    pub(crate) async fn run(self, globals: Globals) -> Outcome {
        let (which, cut) = match self {
            Self::Cut(which) => (which, true),
            Self::Heal(which) => (which, false),
        };
        let site = which.site(&globals)?;
        let verb = if cut { "cut" } else { "heal" };
        if output::dry_run(globals.dry_run, &format!("{verb} the links of {}", which.target), globals.json)? {
            return Ok(Exit::Done);
        }
        let state: LinkState = site.client.post("/_skerry/v1/link", &LinkRequest { cut }).await?;
        if globals.json {
            output::document("link", &serde_json::json!({ "site": which.target, "cut": state.cut }))?;
        } else {
            let word =
                if state.cut { "is cut off from the other sites" } else { "is linked to the other sites" };
            output::line(&format!("{} {word}", which.target));
        }
        if state.cut == cut {
            Ok(Exit::Done)
        } else {
            Err(Failure::failed(format!("{} did not {verb}", which.target)))
        }
    }
}

impl Which {
    /// The site of the directory that is named; an endpoint names it already.
    fn site(&self, globals: &Globals) -> Outcome<Site> {
        let named = Globals { only_site: Some(self.target.clone()), ..globals.clone() };
        let sites = self.place.sites(&named)?;
        sites.into_iter().next().ok_or_else(|| Failure::usage(format!("there is no site {}", self.target)))
    }
}
