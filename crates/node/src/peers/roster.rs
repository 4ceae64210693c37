//! Who the sites are: name, node, key, addresses and seat by id, as the verified site records say. A site of several nodes
//! has an id, a record and a name for each of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{PoisonError, RwLock};

use skerry_base::{NodeId, SiteId};
use skerry_federation::site_view::{Seat, Seats};
use skerry_federation::{Together, limits};

use crate::net::PeerAddress;
use crate::trust::{PublicKey, SeatStatement};

/// One site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Known {
    /// What people call it.
    pub(crate) name: String,
    /// The key of its node.
    pub(crate) key: PublicKey,
    /// Where it is dialled.
    pub(crate) addresses: Vec<String>,
    /// Which seat of which site it fills.
    pub(crate) place: Place,
    /// The area that it stands in; empty for none.
    pub(crate) area: String,
    /// Whether it says that it pays for what crosses its link.
    pub(crate) pays: bool,
}

/// A seat of a site, as an admin key gave it. What is not a further node of a site is the first of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    /// The id of the site's first node.
    pub(crate) site: SiteId,
    /// Which seat.
    pub(crate) seat: Seat,
    /// Machines that filled it before.
    pub(crate) turn: u32,
}

impl Place {
    /// The first seat of its own site.
    pub(crate) const fn first(site: SiteId) -> Self {
        Self { site, seat: Seat::FOUNDER, turn: 0 }
    }

    /// The one that an admin key gave.
    pub(crate) const fn of(said: SeatStatement) -> Self {
        Self { site: said.site, seat: said.seat, turn: said.turn }
    }
}

/// The sites, this one included.
#[derive(Debug, Default)]
pub(crate) struct Roster {
    known: RwLock<BTreeMap<SiteId, Known>>,
    /// By site and seat, the machine that fills it and how many did before: asked for with each write that is held.
    seats: RwLock<BTreeMap<(SiteId, Seat), (SiteId, u32)>>,
    /// The site of each node: asked for with each message, and a key is hashed to its node.
    nodes: RwLock<BTreeMap<NodeId, SiteId>>,
    /// Each node that ever belonged.
    ever: RwLock<BTreeMap<SiteId, Was>>,
    /// By site and seat, the last machine that it was ever given to: how many had it before, and whether that one belongs.
    last: RwLock<BTreeMap<(SiteId, Seat), (u32, bool)>>,
}

/// Where a node is or was, and whether it belongs still.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Was {
    /// The seat that an admin key gave it.
    pub(crate) place: Place,
    /// False if it was expelled, or its place was taken.
    pub(crate) belongs: bool,
}

/// Of each seat the latest machine.
fn seats(known: &BTreeMap<SiteId, Known>) -> BTreeMap<(SiteId, Seat), (SiteId, u32)> {
    let mut seats = BTreeMap::new();
    for (member, known) in known {
        let Place { site, seat, turn } = known.place;
        let latest = seats.entry((site, seat)).or_insert((*member, turn));
        // In the order of ids: the greatest of the latest.
        if turn >= latest.1 {
            *latest = (*member, turn);
        }
    }
    seats
}

/// Of each seat the last machine that it was given to. Of two of one turn one that belongs.
fn last(ever: &BTreeMap<SiteId, Was>) -> BTreeMap<(SiteId, Seat), (u32, bool)> {
    let mut last = BTreeMap::new();
    for Was { place, belongs } in ever.values() {
        let given = last.entry((place.site, place.seat)).or_insert((place.turn, *belongs));
        *given = (*given).max((place.turn, *belongs));
    }
    last
}

/// Of sites with the same node, which no admin key admits, the first.
fn nodes(known: &BTreeMap<SiteId, Known>) -> BTreeMap<NodeId, SiteId> {
    known.iter().rev().map(|(site, known)| (known.key.node(), *site)).collect()
}

impl Roster {
    /// Replaces all; false if nothing changed.
    pub(crate) fn replace(&self, sites: BTreeMap<SiteId, Known>) -> bool {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let changed = *known != sites;
        if changed {
            *self.seats.write().unwrap_or_else(PoisonError::into_inner) = seats(&sites);
            *self.nodes.write().unwrap_or_else(PoisonError::into_inner) = nodes(&sites);
        }
        *known = sites;
        changed
    }

    /// Replaces what is known of everybody who ever belonged, also who was expelled. False if nothing changed.
    pub(crate) fn set_ever(&self, all: BTreeMap<SiteId, Was>) -> bool {
        let mut ever = self.ever.write().unwrap_or_else(PoisonError::into_inner);
        let changed = *ever != all;
        if changed {
            *self.last.write().unwrap_or_else(PoisonError::into_inner) = last(&all);
        }
        *ever = all;
        changed
    }

    /// The seats of a site whose last machine, of all that an admin key ever gave them to, belongs no more.
    pub(crate) fn left(&self, site: SiteId) -> Seats {
        let last = self.last.read().unwrap_or_else(PoisonError::into_inner);
        let is_left = |((of, _), (_, belongs)): &(&(SiteId, Seat), &(u32, bool))| *of == site && !*belongs;
        last.iter().filter(is_left).map(|((_, seat), _)| *seat).collect()
    }

    /// Who is or ever was a node of a site.
    pub(crate) fn ever_of(&self, site: SiteId) -> BTreeSet<SiteId> {
        let ever = self.ever.read().unwrap_or_else(PoisonError::into_inner);
        ever.iter().filter(|(_, was)| was.place.site == site).map(|(member, _)| *member).collect()
    }

    /// Who is or ever was beside a node that belongs or belonged.
    pub(crate) fn ever_beside(&self, member: SiteId) -> BTreeSet<SiteId> {
        let was = self.ever.read().unwrap_or_else(PoisonError::into_inner).get(&member).copied();
        let mut beside = self.ever_of(was.map_or(member, |was| was.place.site));
        beside.remove(&member);
        beside
    }

    /// Reads all.
    pub(crate) fn all(&self) -> BTreeMap<SiteId, Known> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.known.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Why no site more may belong than do; none if there is room.
    pub(crate) fn full(&self) -> Option<String> {
        let count = self.count();
        let reason = || {
            format!("{count} sites belong, and no more than {} may: expel those that are gone", limits::SITES)
        };
        (count >= limits::SITES).then(reason)
    }

    /// The node of a site.
    pub(crate) fn node(&self, site: SiteId) -> Option<NodeId> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.get(&site).map(|known| known.key.node())
    }

    /// The site of a node.
    pub(crate) fn site(&self, node: NodeId) -> Option<SiteId> {
        self.nodes.read().unwrap_or_else(PoisonError::into_inner).get(&node).copied()
    }

    /// What people call a site; its id when it is not known.
    pub(crate) fn name(&self, site: SiteId) -> String {
        self.name_of(site).unwrap_or_else(|| site.to_string())
    }

    /// The same; none when it is not known.
    pub(crate) fn name_of(&self, site: SiteId) -> Option<String> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.get(&site).map(|known| known.name.clone())
    }

    /// What people call the site of a node.
    pub(crate) fn node_name(&self, node: NodeId) -> String {
        self.site(node).map_or_else(|| node.to_string(), |site| self.name(site))
    }

    /// The machine that fills a seat now, and how many did before it; none where the last one belongs no more, though one before
    /// it may. Should two have been given the same turn, which an inviter never does, everybody finds the same one.
    pub(crate) fn turn(&self, site: SiteId, seat: Seat) -> Option<(SiteId, u32)> {
        let (member, turn) =
            self.seats.read().unwrap_or_else(PoisonError::into_inner).get(&(site, seat)).copied()?;
        let last = self.last.read().unwrap_or_else(PoisonError::into_inner).get(&(site, seat)).copied();
        last.is_none_or(|(last, _)| last <= turn).then_some((member, turn))
    }

    /// The seat of a site that a member fills now.
    pub(crate) fn seat(&self, site: SiteId, member: SiteId) -> Option<Seat> {
        let place = self.known.read().unwrap_or_else(PoisonError::into_inner).get(&member)?.place;
        let fills = |(holder, _)| place.site == site && holder == member;
        self.turn(site, place.seat).is_some_and(fills).then_some(place.seat)
    }

    /// Its id and node.
    pub(crate) fn holder(&self, site: SiteId, seat: Seat) -> Option<(SiteId, NodeId)> {
        let (member, _) = self.turn(site, seat)?;
        Some((member, self.node(member)?))
    }

    /// The other nodes of the site of `me`.
    pub(crate) fn fellows(&self, me: SiteId) -> BTreeSet<NodeId> {
        self.beside(me, |_, known| known.key.node())
    }

    /// Their ids.
    pub(crate) fn others(&self, me: SiteId) -> BTreeSet<SiteId> {
        self.beside(me, |member, _| member)
    }

    fn beside<T: Ord>(&self, me: SiteId, of: impl Fn(SiteId, &Known) -> T) -> BTreeSet<T> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let own = known.get(&me).map_or(me, |known| known.place.site);
        let near = known.iter().filter(|(member, known)| known.place.site == own && **member != me);
        near.map(|(member, known)| of(*member, known)).collect()
    }

    /// Who burns together: the further nodes of sites, each with the first.
    pub(crate) fn together(&self) -> Together {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.iter().map(|(member, known)| (*member, known.place.site)).collect()
    }

    /// How many sites there are beside that of `me`: what lies at two nodes of one lies at one.
    pub(crate) fn sites_beside(&self, me: SiteId) -> usize {
        let together = self.together();
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let mut sites = together.among(known.keys().copied());
        sites.remove(&together.of(me));
        sites.len()
    }

    /// For the network.
    pub(crate) fn peers(&self) -> Vec<PeerAddress> {
        let address = |known: Known| PeerAddress { key: known.key, addresses: known.addresses };
        self.all().into_values().map(address).collect()
    }

    /// The nodes across links that one of the ends pays for, as sites say in their records; within a site nobody pays.
    pub(crate) fn paid(&self, me: SiteId) -> BTreeSet<NodeId> {
        let known = self.all();
        let here = known.get(&me).map(|known| known.place.site);
        let payers: BTreeSet<SiteId> =
            known.values().filter(|known| known.pays).map(|known| known.place.site).collect();
        let is_paid = |known: &&Known| {
            let there = known.place.site;
            Some(there) != here
                && (payers.contains(&there) || here.is_some_and(|here| payers.contains(&here)))
        };
        known.values().filter(is_paid).map(|known| known.key.node()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(number: u8) -> SiteId {
        SiteId([number; 16])
    }

    /// Sites 1 and 5; nodes 2 and 3 are further ones of site 1, 4 took the seat of 3.
    fn roster() -> Roster {
        let seat = |number| Seat::new(number).unwrap_or_default();
        let places = [
            (1, Place::first(site(1))),
            (2, Place { site: site(1), seat: seat(1), turn: 0 }),
            (3, Place { site: site(1), seat: seat(2), turn: 0 }),
            (4, Place { site: site(1), seat: seat(2), turn: 1 }),
            (5, Place::first(site(5))),
        ];
        let known = |(number, place): (u8, Place)| {
            let (name, key) = (number.to_string(), PublicKey([number; 32]));
            let known = Known { name, key, addresses: Vec::new(), place, area: String::new(), pays: false };
            (site(number), known)
        };
        let roster = Roster::default();
        assert!(roster.replace(places.into_iter().map(known).collect()));
        roster
    }

    #[test]
    fn no_more_belong_than_each_keeps_in_touch_with() {
        let (place, key) = (Place::first(site(1)), PublicKey([1; 32]));
        let known = Known {
            name: String::new(),
            key,
            addresses: Vec::new(),
            place,
            area: String::new(),
            pays: false,
        };
        let id = |number: usize| SiteId((number as u128).to_be_bytes());
        let with = |sites| {
            let roster = Roster::default();
            roster.replace((0..sites).map(|number| (id(number), known.clone())).collect());
            roster.full()
        };
        assert_eq!(with(limits::SITES - 1), None);
        assert!(with(limits::SITES).is_some_and(|reason| reason.contains("1024 sites belong")));
    }

    #[test]
    fn links_of_who_pays_are_paid_for_but_not_those_within_a_site() {
        let roster = roster();
        let pays = |number: u8| {
            let mut known = roster.all();
            known.entry(site(number)).and_modify(|known| known.pays = true);
            let paying = Roster::default();
            paying.replace(known);
            paying
        };
        let nodes = |numbers: &[u8]| numbers.iter().map(|number| PublicKey([*number; 32]).node()).collect();
        assert_eq!(roster.paid(site(1)), BTreeSet::new());
        // The other one does; this one does, by either of its nodes.
        assert_eq!(pays(5).paid(site(1)), nodes(&[5]));
        assert_eq!(pays(1).paid(site(1)), nodes(&[5]));
        assert_eq!(pays(1).paid(site(2)), nodes(&[5]));
        assert_eq!(pays(1).paid(site(5)), nodes(&[1, 2, 3, 4]));
    }

    #[test]
    fn a_seat_is_the_last_machines() {
        let roster = roster();
        let of = |number: usize| Seat::new(number).and_then(|seat| roster.turn(site(1), seat));
        assert_eq!(
            (of(0), of(1), of(2), of(3)),
            (Some((site(1), 0)), Some((site(2), 0)), Some((site(4), 1)), None)
        );
        let fills = |member: u8| roster.seat(site(1), site(member)).map(Seat::index);
        assert_eq!([1, 2, 3, 4, 5, 9].map(fills), [Some(0), Some(1), None, Some(2), None, None]);
    }

    #[test]
    fn a_seat_is_left_when_its_last_machine_was_expelled() {
        let roster = roster();
        let was = |(member, known): (SiteId, Known), gone: &[u8]| {
            let belongs = !gone.iter().any(|number| member == site(*number));
            (member, Was { place: known.place, belongs })
        };
        let all = roster.all();
        let left_by = |gone: &[u8]| {
            roster.set_ever(all.clone().into_iter().map(|entry| was(entry, gone)).collect());
            let here =
                all.clone().into_iter().filter(|(member, _)| !gone.iter().any(|n| *member == site(*n)));
            roster.replace(here.collect());
            roster.left(site(1)).iter().map(Seat::index).collect::<Vec<_>>()
        };
        assert_eq!(left_by(&[]), Vec::<usize>::new());
        assert_eq!(left_by(&[3]), Vec::<usize>::new(), "another machine has that seat");
        assert_eq!((left_by(&[3, 4]), left_by(&[1, 2])), (vec![2], vec![0, 1]));
        assert_eq!(left_by(&[4]), vec![2], "the one that it replaced does not have it again");
        assert_eq!(left_by(&[5]), Vec::<usize>::new(), "of another site");
    }

    #[test]
    fn a_site_is_found_by_its_node_as_the_roster_says_now() {
        let roster = roster();
        let node = |number: u8| PublicKey([number; 32]).node();
        assert_eq!([1, 4, 9].map(|number| roster.site(node(number))), [Some(site(1)), Some(site(4)), None]);
        let mut all = roster.all();
        all.remove(&site(4));
        if let Some(known) = all.get_mut(&site(1)) {
            known.key = PublicKey([9; 32]);
        }
        assert!(roster.replace(all));
        let found = [1, 4, 9, 5].map(|number| roster.site(node(number)));
        assert_eq!(found, [None, None, Some(site(1)), Some(site(5))]);
    }

    #[test]
    fn the_nodes_of_one_site_are_one_place() {
        let roster = roster();
        assert_eq!(roster.together().count([1, 2, 4].map(site)), 1);
        assert_eq!((roster.sites_beside(site(5)), roster.sites_beside(site(2))), (1, 1));
        assert_eq!(
            roster.fellows(site(1)).len(),
            3,
            "also a machine that was replaced: it stands beside them"
        );
        assert!(roster.fellows(site(5)).is_empty());
    }
}
