//! A seat is whom the admin says, and nobody else's.

#![expect(clippy::unwrap_used, reason = "tests")]

use super::*;
use crate::trust::Identity;
use crate::trust::founding::Founding;

/// A federation, a node that was admitted to it, and the node's seat.
fn seated() -> (crate::trust::SiteTrust, SiteStatement, SignedSeat) {
    let first = Founding::new("north", WallTime(1)).unwrap().first;
    let node = SiteStatement {
        federation: first.statement.federation,
        site: SiteId([7; 16]),
        name: "north-2".into(),
        node: Identity::generate().unwrap().public(),
        admitted: WallTime(2),
    };
    let offer = SeatOffer { site: first.statement.site, seat: Seat::new(1).unwrap(), turn: 0 };
    let seat = first.admin.as_ref().unwrap().seat(offer, &node);
    (first, node, seat)
}

#[test]
fn a_seat_is_the_nodes_that_it_names() {
    let (first, node, seat) = seated();
    let said = seat.verify(&first.root, node.site, &node.node).unwrap();
    assert_eq!((said.site, said.seat.index(), said.turn), (first.statement.site, 1, 0));
    let list = [first.admission.encode(), seat.encode()];
    let found = seat_in(list.iter().map(Vec::as_slice), &first.root, node.site, &node.node);
    assert_eq!(found, Some(said));
    // Another machine that copies the admission into its own document has no seat by it.
    let thief = Identity::generate().unwrap().public();
    assert!(seat.verify(&first.root, node.site, &thief).is_err());
    assert!(seat.verify(&first.root, SiteId([8; 16]), &node.node).is_err());
    assert_eq!(seat_in(list.iter().map(Vec::as_slice), &first.root, SiteId([8; 16]), &thief), None);
}

#[test]
fn every_flipped_bit_and_every_other_root_is_refused() {
    let (first, node, seat) = seated();
    let bytes = seat.encode();
    for at in 0..bytes.len() {
        let mut bad = bytes.clone();
        bad[at] ^= 1;
        assert_eq!(seat_in([&bad[..]], &first.root, node.site, &node.node), None, "byte {at}");
    }
    let (other, ..) = seated();
    assert!(seat.verify(&other.root, node.site, &node.node).is_err());
}

#[test]
fn nobody_gives_the_first_seat() {
    let (first, node, _) = seated();
    let admin = first.admin.as_ref().unwrap();
    let offer = SeatOffer { site: first.statement.site, seat: Seat::FOUNDER, turn: 0 };
    assert!(admin.seat(offer, &node).verify(&first.root, node.site, &node.node).is_err());
    let own = SeatOffer { site: node.site, seat: Seat::new(1).unwrap(), turn: 0 };
    assert!(admin.seat(own, &node).verify(&first.root, node.site, &node.node).is_err());
}

#[test]
fn the_later_turn_of_a_node_counts() {
    let (first, node, seat) = seated();
    let offer = SeatOffer { site: first.statement.site, seat: Seat::new(2).unwrap(), turn: 3 };
    let later = first.admin.as_ref().unwrap().seat(offer, &node).encode();
    let list = [later, seat.encode()];
    let found = seat_in(list.iter().map(Vec::as_slice), &first.root, node.site, &node.node).unwrap();
    assert_eq!((found.turn, found.seat.index()), (3, 2));
}
