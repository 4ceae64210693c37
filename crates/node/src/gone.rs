//! Whether this site itself belongs no more: it was expelled, or replaced by another.
//!
//! Those who have heard drop their links to it, so its own records say so only if it was quick to hear. Whoever refuses it for
//! that says so at the greeting, and tells it from a site that it has not heard of yet. Before: the network, the roster.
//! After: `duties.rs` refuses what clients would write, for it would reach nobody.
//!
//! Invariants: silence is no word, nor is the refusal of one who has not heard of this site: an island goes on; who said it
//! is stored before it counts, so that a start on an island forgets nothing; a site that links again takes its own word back.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use skerry_base::NodeId;
use skerry_base::codec::{self, Versioned};
use skerry_base::kv::{Table, View};
use skerry_gateway::service::Outcome;
use skerry_model::Entry;
use skerry_model::space::SpaceError;

use crate::site::{Site, entry};
use crate::tasks::rest;

/// Its name in this node's own table.
const KEY: &[u8] = b"gone";
/// How often it is seen who says so.
const LOOK: Duration = Duration::from_millis(250);
/// Nodes that are remembered: one is enough.
const MOST: usize = 16;

/// Who said that this site belongs no more, and was not linked since.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
struct GoneFile(BTreeSet<NodeId>);

impl Versioned for GoneFile {
    const NAME: &'static str = "who said that this site is gone";
    const VERSION: u8 = 1;
}

/// The same.
#[derive(Debug, Default)]
pub(crate) struct Told(Mutex<BTreeSet<NodeId>>);

impl Told {
    /// A process begins with what was said to the one before.
    pub(crate) fn resume(view: &dyn View) -> Result<Self, SpaceError> {
        let stored = view.get(Table::Local, KEY)?;
        let told = stored.and_then(|bytes| codec::decode::<GoneFile>(&bytes).ok()).unwrap_or_default();
        Ok(Self(Mutex::new(told.0)))
    }

    /// Who says so.
    pub(crate) fn by(&self) -> BTreeSet<NodeId> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, by: BTreeSet<NodeId>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = by;
    }
}

/// Runs until the server stops.
pub(crate) async fn work(site: Arc<Site>) {
    loop {
        if let Err(error) = look(&site).await {
            tracing::warn!(%error, "it could not be stored who says that this site belongs no more");
        }
        rest(LOOK).await;
    }
}

/// Takes note of what the network was told since, and of what the records say.
pub(crate) async fn look(site: &Site) -> Outcome<()> {
    let before = site.told_gone.by();
    let is_linked = |node: &NodeId| site.peers.roster.site(*node).is_some_and(|other| site.linked(other));
    let told = before.iter().copied().chain(site.peers.net().gone_by());
    let told: BTreeSet<NodeId> = told.filter(|node| !is_linked(node)).take(MOST).collect();
    if told != before {
        let value = (!told.is_empty()).then(|| codec::encode(&GoneFile(told.clone())).into());
        let kept = Entry::Local { key: Bytes::from_static(KEY), value };
        site.commit(site.system, (), move |_: &dyn View| Ok(((), vec![entry(&kept)]))).await?;
        site.told_gone.set(told.clone());
    }
    let is_recorded = site.copies.losses().get(&site.id).is_some_and(|loss| loss.is_gone);
    site.duties.set_gone(is_recorded || !told.is_empty());
    Ok(())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    /// Fixture of version 1: must decode for ever.
    #[test]
    fn v1_fixture() {
        let file = GoneFile([NodeId([7; 16])].into());
        let bytes = codec::encode(&file);
        assert_eq!((bytes[0], bytes[1], bytes.len()), (1, 1, 18), "{bytes:?}");
        assert_eq!(codec::decode::<GoneFile>(&bytes).unwrap(), file);
    }
}
