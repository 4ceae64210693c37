//! Words about addresses, beside what a site says of itself.

#![expect(clippy::unwrap_used, reason = "tests")]

use skerry_base::{NodeId, codec};

use super::super::tests::{Site, exchange, system};
use super::super::{NodeEntry, SiteDocument, SiteState};
use super::*;
use crate::write::Ask;

const OSLO: SiteId = SiteId([1; 16]);

impl Site {
    fn move_to(&mut self, addresses: &[&str]) {
        let addresses = addresses.iter().map(|address| (*address).to_owned()).collect();
        let said = WallTime(self.wall);
        let next = AddressDocument { site: OSLO, epoch: 0, addresses, said, at: SiteId([self.id; 16]) };
        if let Some((key, object)) = assign_address(&self.tables, system(), next).unwrap() {
            self.write(system(), &key, Ask::Put(Box::new(object)));
        }
    }

    fn is_at(&mut self, address: &str) {
        let node = NodeEntry { node: NodeId([1; 16]), key: [0; 32], addresses: vec![address.into()] };
        let document = SiteDocument {
            name: "oslo".into(),
            nodes: vec![node],
            admissions: Vec::new(),
            state: SiteState::Member,
            joined: WallTime(1),
        };
        let object = document_object(&document, WallTime(self.wall));
        self.write(system(), &SystemKey::Site(OSLO).to_string(), Ask::Put(Box::new(object)));
    }

    fn dialled(&self) -> Vec<String> {
        dialled(&self.tables, system()).unwrap().remove(&OSLO).unwrap_or_default()
    }
}

#[test]
fn the_later_is_dialled_first_and_the_other_still() {
    let (mut oslo, mut bergen) = (Site::new(1, "oslo"), Site::new(2, "bergen"));
    oslo.is_at("a:1");
    exchange(&mut oslo, &mut bergen, &[]);
    assert_eq!(bergen.dialled(), [""; 0], "nobody said anything: what it says itself holds");
    bergen.move_to(&["b:1", "c:1"]);
    assert_eq!(bergen.dialled(), ["b:1", "c:1", "a:1"]);
    exchange(&mut oslo, &mut bergen, &[]);
    oslo.wall = 100_000;
    oslo.is_at("d:1");
    exchange(&mut oslo, &mut bergen, &[]);
    for site in [&oslo, &bergen] {
        assert_eq!(site.dialled(), ["d:1", "b:1", "c:1"]);
    }
    oslo.move_to(&[]);
    assert_eq!(oslo.dialled(), ["d:1"], "taken back");
}

#[test]
fn words_said_during_a_cut_come_to_the_same_everywhere() {
    let (mut oslo, mut bergen) = (Site::new(1, "oslo"), Site::new(2, "bergen"));
    oslo.move_to(&["a:1"]);
    bergen.move_to(&["b:1"]);
    exchange(&mut oslo, &mut bergen, &[]);
    assert_eq!(oslo.dialled(), bergen.dialled());
    assert_eq!(oslo.dialled().len(), 1);
    bergen.move_to(&["c:1"]);
    exchange(&mut oslo, &mut bergen, &[]);
    assert_eq!(oslo.dialled(), ["c:1"]);
}

/// Fixture of version 1: must decode for ever.
#[test]
fn v1_fixture() {
    let word = AddressDocument {
        site: OSLO,
        epoch: 2,
        addresses: vec!["a:1".into()],
        said: WallTime(5),
        at: SiteId([2; 16]),
    };
    let hex = skerry_base::hex::text(&codec::encode(&word));
    assert_eq!(hex, format!("01{}020103613a3105{}", "01".repeat(16), "02".repeat(16)));
    assert_eq!(codec::decode::<AddressDocument>(&codec::encode(&word)).unwrap(), word);
}
