//! What there is: four disks, a view, what is under way, and what was named. All records are of the system bucket, so those
//! of one origin are one sequence, whatever they say.

use std::collections::BTreeSet;

use skerry_base::{BucketId, NodeId, Origin, SiteId, Vector};
use skerry_model::bucket::{
    HomeDocument, Known, Later, Naming, NamingDocument, TenureDocument, Turn, Within,
};
use skerry_sim::nodes::Mistake;

/// Nodes of the site.
pub(crate) const NODES: usize = 3;
/// The node of the other site.
pub(crate) const FAR: usize = NODES;
/// The system bucket: its home is the register.
pub(crate) const SYSTEM: BucketId = BucketId([7; 16]);
/// Names that are asked for.
pub(crate) const NAMES: usize = 2;
/// Who may ask for each.
pub(crate) const CLAIMANTS: usize = 2;
const WORDS: usize = 24;

pub(crate) const fn site(node: usize) -> SiteId {
    SiteId([node as u8 + 1; 16])
}

pub(crate) fn node_of(site: SiteId) -> usize {
    usize::from(site.0[0]) - 1
}

pub(crate) fn nodes() -> BTreeSet<SiteId> {
    (0..NODES).map(site).collect()
}

/// What is to be written when a name is given to somebody: buckets of two owners are two, of which one may have the name.
pub(crate) fn naming(name: usize, claimant: usize) -> Naming {
    let bucket = BucketId([(name * CLAIMANTS + claimant) as u8; 16]);
    Naming { home: HomeDocument::first(bucket, SiteId([claimant as u8 + 40; 16]), true), claim: None }
}

/// The name of a bucket.
pub(crate) fn name_of(bucket: BucketId) -> usize {
    usize::from(bucket.0[0]) / CLAIMANTS
}

/// Records, by their number in the book.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct Set([u64; WORDS]);

impl Set {
    pub(crate) const fn put(&mut self, record: usize) {
        self.0[record / 64] |= 1 << (record % 64);
    }

    pub(crate) const fn has(&self, record: usize) -> bool {
        self.0[record / 64] & (1 << (record % 64)) != 0
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

/// What a record says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum What {
    /// Anything that concerns no name.
    Plain,
    Tenure(TenureDocument),
    Home(HomeDocument),
    /// What is about to be named.
    Said(NamingDocument),
    /// What is named.
    Given(HomeDocument),
}

/// A record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) origin: usize,
    pub(crate) seq: u64,
    /// Those of its key that it had seen, which it kills.
    pub(crate) context: Set,
    pub(crate) what: What,
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
    /// What was said is carried out.
    Name,
    /// It need not be said again.
    Given,
    /// The heir of the register is named.
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
    /// What it knows to be at all holders of its view.
    pub(crate) settled: Set,
}

/// What may still happen: the bounds of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct Left {
    pub(crate) asks: u8,
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
    pub(crate) book: Vec<Record>,
    pub(crate) mistake: Option<Mistake>,
    /// Who owns the register in a view: the first of these that is live.
    pub(crate) owners: [usize; NODES],
}

impl World {
    pub(crate) fn number(&mut self, record: Record) -> usize {
        let known = self.book.iter().position(|known| *known == record);
        known.unwrap_or_else(|| {
            self.book.push(record);
            assert!(self.book.len() <= 64 * WORDS, "the book is full: the bounds are too wide");
            self.book.len() - 1
        })
    }

    pub(crate) fn vector(&self, held: &Set) -> Vector {
        self.covered(held).iter().enumerate().filter(|(_, upto)| **upto > 0).map(entry).collect()
    }

    pub(crate) fn covered(&self, held: &Set) -> [u64; NODES + 1] {
        let mut of: [Vec<u64>; NODES + 1] = Default::default();
        for record in held.iter() {
            of[self.book[record].origin].push(self.book[record].seq);
        }
        of.map(|mut seqs| {
            seqs.sort_unstable();
            seqs.iter().zip(1..).take_while(|(seq, place)| **seq == *place).count() as u64
        })
    }

    /// Whether a record is covered by the vector.
    pub(crate) fn covers(&self, held: &Set, record: usize) -> bool {
        let Record { origin, seq, .. } = self.book[record];
        held.has(record) && self.covered(held)[origin] >= seq
    }

    /// Whether something of a node of the site is here ahead of the vector.
    pub(crate) fn is_ahead(&self, held: &Set) -> bool {
        let covered = self.covered(held);
        held.iter().any(|record| {
            let Record { origin, seq, .. } = self.book[record];
            origin != FAR && seq > covered[origin]
        })
    }

    /// The number of the next record of a node.
    pub(crate) fn next(&self, held: &Set, node: usize) -> u64 {
        self.covered(held)[node] + 1
    }

    /// What is held of a key and killed by nothing that is.
    pub(crate) fn heads(&self, held: &Set, is_of: impl Fn(&What) -> bool) -> Vec<usize> {
        let mut killed = Set::default();
        held.iter().for_each(|record| killed.merge(&self.book[record].context));
        held.minus(&killed).iter().filter(|record| is_of(&self.book[*record].what)).collect()
    }

    /// What a new record of a key has seen.
    pub(crate) fn seen(&self, held: &Set, is_of: impl Fn(&What) -> bool) -> Set {
        let mut seen = Set::default();
        for record in self.heads(held, is_of) {
            seen.merge(&self.book[record].context);
            seen.put(record);
        }
        seen
    }

    pub(crate) fn known(&self, held: &Set) -> Option<Known> {
        let mut home: Option<HomeDocument> = None;
        for record in self.heads(held, |what| matches!(what, What::Home(_))) {
            let What::Home(named) = &self.book[record].what else { continue };
            if home.as_ref().is_none_or(|home| home.epoch < named.epoch) {
                home = Some(named.clone());
            }
        }
        let tenures = self.heads(held, |what| matches!(what, What::Tenure(_))).into_iter();
        let tenures = tenures.filter_map(|record| match &self.book[record].what {
            What::Tenure(said) => Some(said.clone()),
            _ => None,
        });
        Known::new(home, tenures.collect(), &self.vector(held))
    }

    /// What was said last of what is to be named.
    pub(crate) fn said(&self, held: &Set) -> Option<NamingDocument> {
        let said = self.heads(held, |what| matches!(what, What::Said(_))).into_iter();
        let said = said.filter_map(|record| match &self.book[record].what {
            What::Said(said) => Some(said.clone()),
            _ => None,
        });
        NamingDocument::latest(said)
    }

    /// The records by which a name is given, as far as is known here.
    pub(crate) fn given(&self, held: &Set, bucket: BucketId) -> Vec<usize> {
        let is_of =
            |record: &usize| matches!(&self.book[*record].what, What::Given(home) if home.bucket == bucket);
        held.iter().filter(is_of).collect()
    }

    /// Whether a name is given, as far as is known here.
    pub(crate) fn is_taken(&self, held: &Set, name: usize) -> bool {
        let mut buckets = (0..CLAIMANTS).map(|claimant| naming(name, claimant).home.bucket);
        buckets.any(|bucket| !self.given(held, bucket).is_empty())
    }

    /// What the register says again: the word of the production machine, but for a deliberate mistake.
    pub(crate) fn carried(&self, place: &Place, node: usize, epoch: u64) -> Result<NamingDocument, Later> {
        let held = &place.held;
        let mut said = self.said(held);
        if self.mistake == Some(Mistake::ForgottenNaming) {
            said = said.filter(|said| said.epoch >= epoch);
        }
        let is_kept = |record: &usize| match (self.mistake, node) {
            (Some(Mistake::EarlyDone), _) => true,
            (Some(Mistake::LooseDone), FAR) => true,
            (_, FAR) => self.covers(held, *record),
            _ => place.settled.has(*record),
        };
        let is_done = |naming: &Naming| self.given(held, naming.home.bucket).iter().any(is_kept);
        NamingDocument::carried(said, epoch, is_done)
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

    /// The word of the production machine.
    pub(crate) fn turn(&self, state: &State, node: usize) -> Option<Turn> {
        let known = self.known(&state.places[node].held)?;
        if node == FAR {
            return Some(match (known.home.site == site(FAR), known.is_ready) {
                (false, _) => Turn::Elsewhere(known.home.site),
                (true, false) => Turn::Behind,
                (true, true) => Turn::Decide(known.home.epoch),
            });
        }
        Some(known.turn(&self.within(state, node)))
    }
}

fn entry((node, upto): (usize, &u64)) -> (Origin, u64) {
    (Origin { node: NodeId([node as u8 + 1; 16]), incarnation: 1 }, *upto)
}
