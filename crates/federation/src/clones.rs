//! Two processes with one key: a directory, a card or a machine was copied and both run. Which of them is served.
//!
//! A process draws a number at its start, its *life*, and says it in the greeting of every connection. Another life of a
//! known key is a restart, a moved machine, a backup put back: then the life before is over. It is a clone only if that one
//! goes on, which is never guessed: it must answer a question put *after* the other had proven the key. Sites that are each
//! linked with another of the two learn of it from each other's [`Word`], and prove it in three questions ([`Suspicion`]).
//!
//! Of two that were alive at once one is *kept* and the other *refused*: who is linked for longest is kept. Sites that
//! decide apart may decide otherwise; of two findings about one pair that of the lowest id holds, everywhere.
//!
//! Invariants: nobody is refused that was not proven to run beside another; what is found spreads and does not depend on the
//! order in which it is heard; a life that was refused stays refused until its process ends, and no longer; nothing here
//! touches data: each life writes under an origin of its own, and what both wrote merges like any concurrent writes.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use skerry_base::codec::Versioned;
use skerry_base::{Instant, NodeId};

/// Findings that are kept of one node: each start of a clone beside the other makes one.
pub const FOUND: usize = 64;
/// Nodes that a word speaks of: beyond what a roster holds.
pub const NODES: usize = 2048;

/// What is done with a connection whose end says which life it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Door {
    /// It may be the link.
    Open,
    /// Another life is linked: this one is refused if that one answers now, and takes its place if it does not.
    Ask,
    /// It runs beside another and was refused before.
    Shut,
}

/// Decides at the door, before anything else is said.
pub fn door(standing: Option<u64>, came: u64, refused: &BTreeSet<u64>) -> Door {
    match standing {
        _ if refused.contains(&came) => Door::Shut,
        Some(standing) if standing != came => Door::Ask,
        _ => Door::Open,
    }
}

/// Two lives of a node that were alive at once, and which of them is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Found {
    /// Who found it. Of two findings about the same two lives the lower one holds.
    pub by: NodeId,
    /// The one that is served.
    pub kept: u64,
    /// The other.
    pub refused: u64,
}

impl Found {
    fn is_of(&self, other: &Self) -> bool {
        (self.kept, self.refused) == (other.kept, other.refused)
            || (self.kept, self.refused) == (other.refused, other.kept)
    }
}

/// A life, and for how long somebody has been linked with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Linked {
    /// Which.
    pub life: u64,
    /// Milliseconds since then.
    pub for_ms: u64,
}

/// What a site says of the others' lives.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Word {
    /// With which life of each node it is linked.
    pub linked: Vec<(NodeId, Linked)>,
    /// What it knows to have been found.
    pub found: Vec<(NodeId, Found)>,
    /// Nodes of which it turned a clone away, so many milliseconds ago.
    pub turned_away: Vec<(NodeId, u64)>,
}

/// Another site says that it is linked with another life of a node than this one: one of the two may just be over. Proven
/// only if the life here answers this site, then the one there answers that site *when asked now*, then the one here again:
/// so the one there was alive between two moments in which the one here was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Suspicion {
    /// Of which node.
    pub node: NodeId,
    /// The life that is linked here.
    pub here: Linked,
    /// The one that is linked there.
    pub there: Linked,
}

/// What is found of all nodes, as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Findings(pub Vec<(NodeId, Found)>);

impl Versioned for Findings {
    const NAME: &'static str = "stored clones";
    const VERSION: u8 = 1;
}

/// What one site knows of clones.
#[derive(Debug, Default)]
pub struct Clones {
    me: NodeId,
    /// The life that was linked last, since when, and whether it is now.
    lives: BTreeMap<NodeId, (u64, Instant, bool)>,
    found: BTreeMap<NodeId, Vec<Found>>,
}

impl Clones {
    /// A process begins, with what was found before.
    pub fn resume(me: NodeId, findings: Findings) -> Self {
        let mut clones = Self { me, ..Self::default() };
        findings.0.into_iter().for_each(|(node, found)| {
            clones.learn(node, found);
        });
        clones
    }

    /// What is to be stored.
    pub fn findings(&self) -> Findings {
        let all = self.found.iter().flat_map(|(node, found)| found.iter().map(|found| (*node, *found)));
        Findings(all.collect())
    }

    /// These links stand, and no others. A life that comes back after a cut has been known ever since, unless another was
    /// linked in between. Whether another life of a node is linked than before.
    pub fn set_linked(&mut self, linked: &BTreeMap<NodeId, u64>, now: Instant) -> bool {
        let mut is_other = false;
        for (_, _, is_now) in self.lives.values_mut() {
            *is_now = false;
        }
        for (&node, &life) in linked {
            let known = self.lives.entry(node).or_insert((life, now, true));
            is_other |= known.0 != life;
            *known = if known.0 == life { (life, known.1, true) } else { (life, now, true) };
        }
        is_other
    }

    /// The life of a node that is linked now.
    pub fn linked(&self, node: NodeId, now: Instant) -> Option<Linked> {
        let (life, since, _) = self.lives.get(&node).filter(|(.., is_now)| *is_now)?;
        Some(Linked { life: *life, for_ms: millis(now, *since) })
    }

    /// What was found of a node.
    pub fn found(&self, node: NodeId) -> &[Found] {
        self.found.get(&node).map(Vec::as_slice).unwrap_or_default()
    }

    /// The lives of a node that are refused.
    pub fn refused(&self, node: NodeId) -> BTreeSet<u64> {
        refused(self.found(node))
    }

    /// Those of all nodes.
    pub fn all_refused(&self) -> BTreeMap<NodeId, BTreeSet<u64>> {
        self.found.iter().map(|(node, found)| (*node, refused(found))).collect()
    }

    /// Two lives of a node were proven to be alive at once. The one that was linked for longer is kept, unless it was decided
    /// before; in doubt the one here. Whether that is new.
    pub fn prove(&mut self, node: NodeId, here: Linked, there: Linked) -> bool {
        let (kept, refused) = if there.for_ms > here.for_ms { (there, here) } else { (here, there) };
        let found = Found { by: self.me, kept: kept.life, refused: refused.life };
        let is_known = self.found(node).iter().any(|known| known.is_of(&found));
        here.life != there.life && !is_known && self.learn(node, found)
    }

    /// What this site says to who asks; `turned_away` as the network counts it.
    pub fn word(&self, turned_away: &BTreeMap<NodeId, u64>, now: Instant) -> Word {
        let linked = self.lives.keys().filter_map(|node| Some((*node, self.linked(*node, now)?)));
        Word {
            linked: linked.take(NODES).collect(),
            found: self.findings().0,
            turned_away: turned_away.iter().take(NODES).map(|(node, ago)| (*node, *ago)).collect(),
        }
    }

    /// Another site's word: what is to be proven, and whether anything new was found.
    pub fn hear(&mut self, word: &Word, now: Instant) -> (Vec<Suspicion>, bool) {
        let mut is_news = false;
        for (node, found) in word.found.iter().take(NODES) {
            is_news |= found.kept != found.refused && self.learn(*node, *found);
        }
        let suspects = word.linked.iter().take(NODES).filter_map(|&(node, there)| {
            let here = self.linked(node, now).filter(|here| here.life != there.life)?;
            let pair = Found { by: self.me, kept: here.life, refused: there.life };
            let is_known = self.found(node).iter().any(|found| found.is_of(&pair));
            (!is_known).then_some(Suspicion { node, here, there })
        });
        (suspects.collect(), is_news)
    }

    /// Takes a finding over; whether it says anything new.
    fn learn(&mut self, node: NodeId, found: Found) -> bool {
        if !self.found.contains_key(&node) && self.found.len() >= NODES {
            return false;
        }
        let known = self.found.entry(node).or_default();
        if let Some(same) = known.iter_mut().find(|known| known.is_of(&found)) {
            let is_lower = found < *same;
            *same = found.min(*same);
            return is_lower;
        }
        // Who has just been found is alive: what others still tell of lives long over finds no room then.
        if known.len() >= FOUND {
            if found.by != self.me {
                return false;
            }
            known.remove(0);
        }
        known.push(found);
        true
    }
}

/// Which lives are refused. Whom a refused one was preferred to is not: a process that is started again while its clone has
/// slipped into its place is served all the same. In a ring, which only sites that decided apart can make, the lowest is kept.
fn refused(found: &[Found]) -> BTreeSet<u64> {
    let mut open: BTreeSet<u64> = found.iter().flat_map(|found| [found.kept, found.refused]).collect();
    let mut refused = BTreeSet::new();
    while let Some(&lowest) = open.first() {
        let is_first = |life: &u64| !found.iter().any(|f| f.refused == *life && open.contains(&f.kept));
        let kept = open.iter().copied().find(is_first).unwrap_or(lowest);
        open.remove(&kept);
        for found in found.iter().filter(|found| found.kept == kept || found.refused == kept) {
            let other = if found.kept == kept { found.refused } else { found.kept };
            if open.remove(&other) {
                refused.insert(other);
            }
        }
    }
    refused
}

fn millis(now: Instant, since: Instant) -> u64 {
    u64::try_from(now.since(since).as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[path = "clones_tests.rs"]
mod tests;
