//! `skerry invite SITE`: a one-time token by which a new site joins the federation.

use std::time::Duration;

use clap::Args;
use serde_json::json;
use skerry_node::admin_shapes::{Invite as Invited, InviteRequest, SeatRequest};

use crate::arguments::Globals;
use crate::exit::{Exit, Outcome};
use crate::look;
use crate::output;
use crate::place::Place;
use crate::words;

/// Make a one-time token for a new site.
#[derive(Debug, Args)]
pub(crate) struct Invite {
    /// Name of the site that will join
    #[arg(value_name = "SITE", value_parser = words::site_name)]
    newcomer: String,
    /// It is a further node of this site, on its LAN, with the name SITE for the node
    #[arg(long, value_name = "NAME", requires = "seat", value_parser = words::site_name)]
    node_of: Option<String>,
    /// Which of the site's seats the node fills: 1 to 3; the site's first node has seat 0
    #[arg(long, value_name = "N", requires = "node_of", value_parser = clap::value_parser!(u32).range(1..=3))]
    seat: Option<u32>,
    /// The machine that fills the seat is gone for good, or will be: this one takes its place
    #[arg(long, requires = "seat")]
    replace: bool,
    /// How long the token is good for
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = words::lifetime)]
    expires: Duration,
    #[command(flatten)]
    place: Place,
}

impl Invite {
    pub(crate) async fn run(self, globals: Globals) -> Outcome {
        let what = format!("invite {} for {}", self.newcomer, words::span(self.expires));
        let site = self.place.site(&globals).await?;
        let about = async {
            if let Some(of) = &self.node_of {
                // Named by its first node, also where that was expelled.
                look::site(&site, of).await?;
                look::seat(&site, of, self.seat.unwrap_or_default(), self.replace).await?;
            }
            look::free_name(&site, &self.newcomer, None).await
        };
        about.await?;
        if output::dry_run(globals.dry_run, &what, globals.json)? {
            return Ok(Exit::Done);
        }
        let expires_seconds = Some(self.expires.as_secs().max(1));
        let of = self.node_of.clone().zip(self.seat);
        let seat = of.map(|(of, seat)| SeatRequest { of, seat, replace: self.replace });
        let several = seat.is_some();
        let request = InviteRequest { site: self.newcomer.clone(), expires_seconds, seat };
        let invited: Invited = site.client.post("/_skerry/v1/invites", &request).await?;
        if globals.json {
            let body = json!({
                "site": self.newcomer, "token": invited.token, "expires_ms": invited.expires_ms,
                "took_back": invited.took_back,
            });
            output::document("invite", &body)?;
        } else {
            if invited.took_back {
                let before =
                    format!("the token that was given out for {} before is good no more", self.newcomer);
                output::note(&before);
            }
            output::note(&format!(
                "good once, until {}; on the new machine:",
                words::wall(invited.expires_ms)
            ));
            output::line(&format!("skerry join {}", invited.token));
            if several {
                output::note("then set site.seats in its skerry.toml as at the site's other nodes");
            }
        }
        output::check_shown(match several {
            true => "the token is lost, and the seat has to wait until it expires",
            false => "the token is lost; say the same again, which takes it back",
        })?;
        Ok(Exit::Done)
    }
}
