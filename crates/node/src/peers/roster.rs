//! Who the sites are: name, node, key and addresses by site, as the verified site records say.

use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};

use skerry_base::{NodeId, SiteId};

use crate::net::PeerAddress;
use crate::trust::PublicKey;

/// One site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Known {
    /// What people call it.
    pub(crate) name: String,
    /// The key of its node.
    pub(crate) key: PublicKey,
    /// Where it is dialled.
    pub(crate) addresses: Vec<String>,
}

/// The sites, this one included.
#[derive(Debug, Default)]
pub(crate) struct Roster(RwLock<BTreeMap<SiteId, Known>>);

impl Roster {
    /// Replaces all; false if nothing changed.
    pub(crate) fn replace(&self, sites: BTreeMap<SiteId, Known>) -> bool {
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let changed = *known != sites;
        *known = sites;
        changed
    }

    /// Reads all.
    pub(crate) fn all(&self) -> BTreeMap<SiteId, Known> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The node of a site.
    pub(crate) fn node(&self, site: SiteId) -> Option<NodeId> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        known.get(&site).map(|known| known.key.node())
    }

    /// The site of a node.
    pub(crate) fn site(&self, node: NodeId) -> Option<SiteId> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        known.iter().find(|(_, known)| known.key.node() == node).map(|(site, _)| *site)
    }

    /// What people call a site; its id when it is not known.
    pub(crate) fn name(&self, site: SiteId) -> String {
        self.name_of(site).unwrap_or_else(|| site.to_string())
    }

    /// The same; none when it is not known.
    pub(crate) fn name_of(&self, site: SiteId) -> Option<String> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        known.get(&site).map(|known| known.name.clone())
    }

    /// What people call the site of a node.
    pub(crate) fn node_name(&self, node: NodeId) -> String {
        self.site(node).map_or_else(|| node.to_string(), |site| self.name(site))
    }

    /// For the network.
    pub(crate) fn peers(&self) -> Vec<PeerAddress> {
        let address = |known: Known| PeerAddress { key: known.key, addresses: known.addresses };
        self.all().into_values().map(address).collect()
    }
}
