//! What people are shown of the nodes of this site.

use skerry_federation::site_view::{Seat, Standing, View};
use skerry_gateway::service::{NodeStatus, NodesReport};

use super::{lock, refusing};
use crate::site::Site;

/// As one word.
const fn word(standing: Standing) -> &'static str {
    match standing {
        Standing::Blank => "blank",
        Standing::Apart => "apart",
        Standing::Holding => "holding",
        Standing::Leased => "leased",
    }
}

/// The view as this node knows it; none where a site is one node.
pub(crate) fn report(site: &Site) -> Option<NodesReport> {
    let nodes = &site.nodes;
    if !nodes.are_several() {
        return None;
    }
    let shown = *lock(&nodes.shown);
    Some(NodesReport {
        site: nodes.site.to_string(),
        site_name: site.peers.roster.name(nodes.site),
        seats: nodes.all.len() as u32,
        seat: nodes.me.index() as u32,
        standing: word(shown.standing).into(),
        epoch: shown.view.map(|view| view.epoch),
        nodes: nodes.all.iter().map(|seat| node(site, seat, shown.view.as_ref())).collect(),
    })
}

fn node(site: &Site, seat: Seat, view: Option<&View>) -> NodeStatus {
    let nodes = &site.nodes;
    let holder = site.peers.roster.holder(nodes.site, seat);
    let is_in = |pick: fn(&View) -> skerry_federation::site_view::Seats| {
        view.is_some_and(|view| pick(view).contains(seat))
    };
    let role = match (is_in(|view| view.live), is_in(|view| view.joining), holder) {
        (true, ..) => "live",
        (_, true, _) => "joining",
        (.., Some(_)) => "out",
        (.., None) => "vacant",
    };
    let now = site.clock.since_boot();
    let heard = nodes.heard(seat).map(|at| now.since(at).as_millis() as u64);
    let refused = lock(&nodes.doors).get(seat.index()).and_then(|door| door.refused.clone());
    NodeStatus {
        seat: seat.index() as u32,
        name: holder.map(|(member, _)| site.peers.roster.name(member)).unwrap_or_default(),
        node: holder.map(|(_, node)| node.to_string()).unwrap_or_default(),
        role: role.into(),
        heard_ms: if seat == nodes.me { None } else { heard },
        refuses: refused,
        unable: refusing::why(site, seat),
    }
}
