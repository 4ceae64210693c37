//! Words about areas: an operator's above a configuration's, the same everywhere.

#![expect(clippy::unwrap_used, reason = "tests")]

use skerry_base::codec;

use super::super::tests::{Site, exchange, system};
use super::*;
use crate::write::Ask;

const SITE: SiteId = SiteId([1; 16]);

impl Site {
    fn word(&self, area: &str) -> AreaDocument {
        let said = WallTime(self.wall);
        AreaDocument { site: SITE, epoch: 0, area: area.into(), said, at: SiteId([self.id; 16]) }
    }

    fn place(&mut self, area: &str) -> bool {
        let word = assign_area(&self.tables, system(), self.word(area)).unwrap();
        word.map(|(key, object)| self.write(system(), &key, Ask::Put(Box::new(object)))).is_some()
    }

    fn configure(&mut self, area: &str) -> bool {
        let word = configure_area(&self.tables, system(), self.word(area)).unwrap();
        word.map(|(key, object)| self.write(system(), &key, Ask::Put(Box::new(object)))).is_some()
    }

    fn area(&self) -> Option<String> {
        areas(&self.tables, system()).unwrap().remove(&SITE)
    }
}

#[test]
fn a_configuration_holds_until_an_operator_speaks() {
    let mut site = Site::new(1, "one");
    assert!(!site.configure(""), "nothing is said for nothing");
    assert!(site.configure("oslo") && !site.configure("oslo"));
    assert_eq!(site.area().as_deref(), Some("oslo"));
    assert!(site.configure("bergen"), "it was changed before the next start");
    assert_eq!(site.area().as_deref(), Some("bergen"));
    assert!(site.place("ship") && !site.place("ship"));
    assert!(!site.configure("oslo"), "a restart does not take back what an operator said");
    assert_eq!(site.area().as_deref(), Some("ship"));
    assert!(site.place(""));
    assert_eq!(site.area(), None);
    assert!(!site.configure("oslo"));
}

#[test]
fn words_of_a_cut_come_to_one_everywhere() {
    let (mut one, mut two) = (Site::new(1, "one"), Site::new(2, "two"));
    one.configure("oslo");
    exchange(&mut one, &mut two, &[]);
    one.place("bergen");
    two.place("ship");
    two.place("cabin");
    exchange(&mut one, &mut two, &[]);
    assert_eq!(
        (one.area().as_deref(), two.area().as_deref()),
        (Some("cabin"), Some("cabin")),
        "the second word"
    );
    one.place("bergen");
    two.place("ship");
    exchange(&mut one, &mut two, &[]);
    assert!(one.area().is_some() && one.area() == two.area());
}

/// Fixture of version 1: must decode for ever.
#[test]
fn v1_fixture() {
    let word =
        AreaDocument { site: SITE, epoch: 2, area: "oslo".into(), said: WallTime(300), at: SiteId([2; 16]) };
    let hex = skerry_base::hex::text(&codec::encode(&word));
    assert_eq!(hex, format!("01{}02046f736c6fac02{}", "01".repeat(16), "02".repeat(16)));
    assert_eq!(codec::decode::<AreaDocument>(&codec::encode(&word)).unwrap(), word);
}
