//! Who burns together: the nodes of one site have an id each and count as one wherever copies are counted.
//!
//! Invariant: who is not named here is a place of its own, so that with sites of one node everything counts as it did.

use std::collections::{BTreeMap, BTreeSet};

use skerry_base::SiteId;

/// The place of each id that is not a place of its own.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Together(BTreeMap<SiteId, SiteId>);

impl Together {
    /// Where an id stands: the id that its place is named by.
    pub fn of(&self, site: SiteId) -> SiteId {
        self.0.get(&site).copied().unwrap_or(site)
    }

    /// At how many places these are.
    pub fn count(&self, sites: impl IntoIterator<Item = SiteId>) -> usize {
        self.among(sites).len()
    }

    /// The places at which these are.
    pub fn among(&self, sites: impl IntoIterator<Item = SiteId>) -> BTreeSet<SiteId> {
        sites.into_iter().map(|site| self.of(site)).collect()
    }
}

impl FromIterator<(SiteId, SiteId)> for Together {
    fn from_iter<T: IntoIterator<Item = (SiteId, SiteId)>>(all: T) -> Self {
        Self(all.into_iter().filter(|(site, place)| site != place).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(number: u8) -> SiteId {
        SiteId([number; 16])
    }

    #[test]
    fn the_nodes_of_one_site_count_once() {
        let together: Together =
            [(1, 1), (2, 1), (3, 1), (4, 4)].map(|(one, of)| (site(one), site(of))).into_iter().collect();
        assert_eq!(together.count([1, 2, 3].map(site)), 1);
        assert_eq!(together.count([2, 4, 9].map(site)), 3, "who is not named is a place of its own");
        assert_eq!(Together::default().count([1, 2, 3].map(site)), 3);
    }
}
