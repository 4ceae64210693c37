//! What there is: four disks, a view, what is under way, and what clients were told. Records are numbers in one book, so that
//! a state is small and two ways to the same one are found to be the same.

use std::collections::BTreeSet;

use skerry_base::{BucketId, NodeId, Origin, SiteId, Vector};
use skerry_model::bucket::{HomeDocument, Known, TenureDocument, Turn, Within};
use skerry_sim::nodes::Mistake;

/// Nodes of the site.
pub(crate) const NODES: usize = 3;
/// The node of the other site.
pub(crate) const FAR: usize = NODES;
pub(crate) const BUCKET: BucketId = BucketId([7; 16]);
const WORDS: usize = 16;

pub(crate) const fn site(node: usize) -> SiteId {
    SiteId([node as u8 + 1; 16])
}

pub(crate) fn node_of(site: SiteId) -> usize {
    usize::from(site.0[0]) - 1
}

pub(crate) fn nodes() -> BTreeSet<SiteId> {
    (0..NODES).map(site).collect()
}

/// Records, by their number in the book.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct Set([u64; WORDS]);

impl Set {
    pub(crate) const fn put(&mut self, record: usize) {
        self.0[record / 64] |= 1 << (record % 64);
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(word, other)| *word |= other);
    }

    pub(crate) fn minus(mut self, other: &Self) -> Self {
        self.0.iter_mut().zip(other.0).for_each(|(word, other)| *word &= !other);
        self
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = usize> {
        self.0.into_iter().enumerate().flat_map(|(index, mut word)| {
            std::iter::from_fn(move || {
                let bit = word.trailing_zeros() as usize;
                word &= word.wrapping_sub(1);
                (bit < 64).then_some(index * 64 + bit)
            })
        })
    }
}

/// A record. Those of one origin in the bucket are a sequence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum What {
    Plain { origin: usize, seq: u64 },
    Decision { origin: usize, seq: u64, expected: Option<usize>, order: (u64, u64) },
    Tenure { said: TenureDocument, context: Set },
    Home { named: HomeDocument, context: Set },
}

/// Something that is to be at all holders of a view.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Job {
    pub(crate) record: usize,
    pub(crate) why: Why,
    pub(crate) view: u64,
    pub(crate) holders: u8,
    pub(crate) held: u8,
}

/// What follows when it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Why {
    Decided,
    Refused,
    Pass,
}

/// A node.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(crate) struct Place {
    pub(crate) held: Set,
    /// The view that it is in.
    pub(crate) view: u64,
    /// Whether it has fetched what it needs there.
    pub(crate) is_synced: bool,
    pub(crate) jobs: Vec<Job>,
}

/// What may still happen: the bounds of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct Left {
    pub(crate) decisions: u8,
    pub(crate) refusals: u8,
    pub(crate) moves: u8,
    pub(crate) plains: u8,
    pub(crate) views: u8,
    pub(crate) feeds: u8,
    /// Single records that travel alone.
    pub(crate) loose: u8,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct State {
    pub(crate) view: u64,
    pub(crate) live: u8,
    pub(crate) joining: u8,
    pub(crate) places: [Place; NODES + 1],
    /// Values that clients were told: that they won, or that they are current.
    pub(crate) told: Set,
    pub(crate) left: Left,
}

impl State {
    pub(crate) const fn holders(&self) -> u8 {
        self.live | self.joining
    }

    /// Whether a node reads for its site: no later view exists, and it has what the others let in before.
    pub(crate) const fn is_leased(&self, node: usize) -> bool {
        let place = &self.places[node];
        node < NODES && self.live & (1 << node) != 0 && place.view == self.view && place.is_synced
    }
}

/// What all states share.
pub(crate) struct World {
    pub(crate) book: Vec<What>,
    pub(crate) mistake: Option<Mistake>,
    /// Who owns the bucket in a view: the first of these that is live.
    pub(crate) owners: [usize; NODES],
}

impl World {
    pub(crate) fn number(&mut self, what: What) -> usize {
        let known = self.book.iter().position(|known| *known == what);
        known.unwrap_or_else(|| {
            self.book.push(what);
            assert!(self.book.len() <= 64 * WORDS, "the book is full: the bounds are too wide");
            self.book.len() - 1
        })
    }

    pub(crate) fn vector(&self, held: &Set) -> Vector {
        self.covered(held).iter().enumerate().filter(|(_, upto)| **upto > 0).map(entry).collect()
    }

    fn covered(&self, held: &Set) -> [u64; NODES + 1] {
        let mut of: [Vec<u64>; NODES + 1] = Default::default();
        for record in held.iter() {
            if let What::Plain { origin, seq } | What::Decision { origin, seq, .. } = self.book[record] {
                of[origin].push(seq);
            }
        }
        of.map(|mut seqs| {
            seqs.sort_unstable();
            seqs.iter().zip(1..).take_while(|(seq, place)| **seq == *place).count() as u64
        })
    }

    pub(crate) fn has_decisions_ahead(&self, held: &Set) -> bool {
        let covered = self.covered(held);
        held.iter().any(|record| match self.book[record] {
            What::Decision { origin, seq, .. } => seq > covered[origin],
            _ => false,
        })
    }

    /// The number of the next record of a node.
    pub(crate) fn next(&self, held: &Set, node: usize) -> u64 {
        self.covered(held)[node] + 1
    }

    /// The decision that is current where this is held, and what orders it.
    pub(crate) fn current(&self, held: &Set) -> Option<((u64, u64), usize)> {
        let order = |record| match self.book[record] {
            What::Decision { order, .. } => Some((order, record)),
            _ => None,
        };
        held.iter().filter_map(order).max()
    }

    /// Whether a value has seen another.
    pub(crate) fn descends(&self, mut from: Option<usize>, to: usize) -> bool {
        while let Some(value) = from {
            if value == to {
                return true;
            }
            let What::Decision { expected, .. } = self.book[value] else { return false };
            from = expected;
        }
        false
    }

    const fn context(&self, record: usize) -> Option<&Set> {
        match &self.book.as_slice()[record] {
            What::Tenure { context, .. } | What::Home { context, .. } => Some(context),
            _ => None,
        }
    }

    /// What is held and killed by nothing that is.
    fn heads(&self, held: &Set) -> Set {
        let mut killed = Set::default();
        held.iter().filter_map(|record| self.context(record)).for_each(|context| killed.merge(context));
        held.minus(&killed)
    }

    /// What a new tenure, or home document, has seen of its kind.
    pub(crate) fn seen(&self, held: &Set, is_tenure: bool) -> Set {
        let mut seen = Set::default();
        for record in self.heads(held).iter() {
            let is_kind = match self.book[record] {
                What::Tenure { .. } => is_tenure,
                What::Home { .. } => !is_tenure,
                _ => false,
            };
            if let Some(context) = self.context(record).filter(|_| is_kind) {
                seen.merge(context);
                seen.put(record);
            }
        }
        seen
    }

    pub(crate) fn known(&self, held: &Set) -> Option<Known> {
        let (mut home, mut tenures): (Option<HomeDocument>, _) = (None, Vec::new());
        for record in self.heads(held).iter() {
            match &self.book[record] {
                What::Home { named, .. } if home.as_ref().is_none_or(|home| home.epoch < named.epoch) => {
                    home = Some(named.clone());
                }
                What::Tenure { said, .. } => tenures.push(said.clone()),
                _ => {}
            }
        }
        if self.mistake == Some(Mistake::UnheardHome) {
            tenures.retain(|said| home.as_ref().is_some_and(|home| said.epoch <= home.epoch));
        }
        let mut known = Known::new(home, tenures, &self.vector(held))?;
        known.is_ready |= self.mistake == Some(Mistake::NoWait);
        Some(known)
    }

    pub(crate) fn within(&self, state: &State, node: usize) -> Within {
        let is_live = |node: &usize| state.live & (1 << *node) != 0;
        let owner = self.owners.into_iter().find(is_live).unwrap_or(node);
        Within {
            me: site(node),
            view: state.places[node].view,
            reads: state.is_leased(node),
            nodes: nodes(),
            live: (0..NODES).filter(is_live).map(site).collect(),
            owner: site(owner),
        }
    }

    /// The word of the production machine, but for a deliberate mistake.
    pub(crate) fn turn(&self, state: &State, node: usize) -> Option<Turn> {
        let mut known = self.known(&state.places[node].held)?;
        if node == FAR {
            return Some(match (known.home.site == site(FAR), known.is_ready) {
                (false, _) => Turn::Elsewhere(known.home.site),
                (true, false) => Turn::Behind,
                (true, true) => Turn::Decide(known.home.epoch),
            });
        }
        let mut within = self.within(state, node);
        let is_home = known.home.site == within.me;
        match self.mistake {
            Some(Mistake::OldHome) if is_home => forget(&mut known),
            Some(Mistake::OtherHeir) if !is_home => forget(&mut known),
            Some(Mistake::HastyTakeover) if !is_home => within.live.clear(),
            Some(Mistake::LowestView) => {
                let heirs = known.tenures.iter().filter(|said| said.heir.is_some());
                let lowest = heirs.map(|said| said.view).min();
                known.tenures.retain(|said| said.heir.is_none() || Some(said.view) == lowest);
            }
            _ => {}
        }
        Some(known.turn(&within))
    }
}

fn forget(known: &mut Known) {
    known.tenures.iter_mut().for_each(|said| said.heir = None);
}

fn entry((node, upto): (usize, &u64)) -> (Origin, u64) {
    (Origin { node: NodeId([node as u8 + 1; 16]), incarnation: 1 }, *upto)
}
