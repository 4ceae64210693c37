//! From a prepared directory to sites that serve: the first site, then those that have to join through it.
//!
//! Invariants: a site that is started is in `children` before anything is awaited, so whoever stops the demo
//! stops it too; joining goes the way that real boxes go, by invitation and token.

use std::time::{Duration, Instant};

use skerry_node::admin_shapes::{Invite, InviteRequest};

use super::children::Site as Child;
use super::layout::Layout;
use super::ports;
use crate::arguments::Globals;
use crate::exit::{Failure, Outcome};
use crate::place::Site;
use crate::progress::Waiting;
use crate::verbs::join;
use crate::words;

/// How often a starting site is asked whether it is ready.
const POLL: Duration = Duration::from_millis(20);
/// How long an invitation is good; it is used at once.
const INVITATION: Duration = Duration::from_secs(600);

/// Starts all sites and waits until each is ready.
pub(crate) async fn start(
    layout: &Layout,
    sites: &[Site],
    children: &mut Vec<Child>,
    globals: &Globals,
) -> Outcome<()> {
    let waiting = Waiting::new("starting", globals.json);
    let deadline = Instant::now() + globals.timeout;
    let mut newcomers = Vec::new();
    for (number, site) in (1..).zip(&layout.sites) {
        match layout.has_joined(site)? {
            true => children.push(Child::start(layout, &site.name)?),
            false => newcomers.push((number, site)),
        }
    }
    for (number, site) in newcomers {
        waiting.say(format!("joining {}", site.name));
        let Some(first) = sites.first() else { continue };
        ready(first, children, deadline).await?;
        admit(layout, first, number, &site.name, globals).await?;
        children.push(Child::start(layout, &site.name)?);
    }
    for site in sites {
        waiting.say(format!("starting {}", site.name));
        ready(site, children, deadline).await?;
    }
    Ok(())
}

/// Invites a site at the first one and makes its directory a site.
async fn admit(layout: &Layout, first: &Site, number: u16, name: &str, globals: &Globals) -> Outcome<()> {
    // The first site may have written its admin token only now.
    let first = first.reloaded(&layout.site_directory(&first.name))?;
    let request =
        InviteRequest { site: name.to_owned(), expires_seconds: Some(INVITATION.as_secs()), seat: None };
    let invited: Invite = first.client.post("/_skerry/v1/invites", &request).await?;
    let (_, peer) =
        ports::of(layout.port, layout.peer_port, number).ok_or_else(|| ports::none_left(number))?;
    let token = join::read(&invited.token)?;
    join::join(&layout.site_directory(name), &token, vec![format!("127.0.0.1:{peer}")], globals.timeout).await
}

/// Waits until a site serves; fails if any of the children ends meanwhile.
async fn ready(site: &Site, children: &mut [Child], deadline: Instant) -> Outcome<()> {
    let begin = Instant::now();
    while !site.is_there().await {
        for child in children.iter_mut() {
            if let Some(status) = child.has_ended() {
                return Err(Failure::failed(child.obituary(status)));
            }
        }
        if Instant::now() > deadline {
            let waited = words::span(begin.elapsed());
            return Err(Failure::unreachable(format!("{} is not ready after {waited}", site.name)));
        }
        tokio::time::sleep(POLL).await;
    }
    Ok(())
}
