//! Fault injection by an operator: a site cut off from all others, or kept apart from one of them.
//!
//! Invariant: what is cut is durable before the links go, and cut again after a start.

use std::sync::Arc;

use bytes::Bytes;
use skerry_base::NodeId;
use skerry_gateway::service::{LinkRequest, LinkState, Outcome, ServiceError, VERSION};
use skerry_model::{Entry, space};

use crate::drive::stored::{APART, CUT, nodes};
use crate::site::{Site, entry, unreadable};
use crate::sites_admin::refuse_several;

/// Cuts or heals.
pub(crate) async fn set(site: &Arc<Site>, request: LinkRequest) -> Outcome<LinkState> {
    let LinkRequest { cut, from } = request;
    let read = move |view: &dyn skerry_base::kv::View| space::local(view, APART).map_err(unreadable);
    let mut apart = site.read(read).await?.map(|bytes| nodes(&bytes)).unwrap_or_default();
    let (before, net) = (apart.clone(), site.peers.net());
    match &from {
        None if !cut => apart.clear(),
        None => {}
        Some(from) => {
            let node = node(site, from)?;
            if cut {
                apart.insert(node)
            } else {
                apart.remove(&node)
            };
        }
    }
    let mut entries = Vec::new();
    if from.is_none() {
        let value = cut.then(|| Bytes::from_static(&[1]));
        entries.push(entry(&Entry::Local { key: Bytes::from_static(CUT), value }));
    }
    if apart != before {
        let ids: Vec<u8> = apart.iter().flat_map(|node| node.0).collect();
        let value = (!ids.is_empty()).then(|| Bytes::from(ids));
        entries.push(entry(&Entry::Local { key: Bytes::from_static(APART), value }));
    }
    site.commit(site.system, (), move |_| Ok(((), entries))).await?;
    net.set_apart(apart.clone());
    if from.is_none() {
        net.set_cut(cut);
    }
    tracing::info!(cut, from, "links");
    let apart = apart.into_iter().map(|node| site.peers.roster.node_name(node)).collect();
    Ok(LinkState { version: VERSION, cut: net.is_cut(), apart })
}

/// The node of another site by its name or id.
fn node(site: &Site, name: &str) -> Outcome<NodeId> {
    let mut all = site.peers.roster.all();
    all.retain(|id, known| (known.name == name || id.to_string() == name) && *id != site.id);
    refuse_several(name, all.keys().map(ToString::to_string))?;
    let found = all.iter().next();
    found.map(|(_, known)| known.key.node()).ok_or_else(|| ServiceError::no_such_site(name))
}
