//! What sites say of their links: each of itself, the same everywhere.

#![expect(clippy::unwrap_used, reason = "tests")]

use skerry_base::hex;

use super::super::tests::{Site, exchange, system};
use super::*;
use crate::write::Ask;

const OSLO: SiteId = SiteId([1; 16]);

impl Site {
    fn pays(&mut self, pays: bool) -> bool {
        let of = (SiteId([self.id; 16]), pays);
        let word = say_metered(&self.tables, system(), of, WallTime(self.wall)).unwrap();
        word.map(|(key, object)| self.write(system(), &key, Ask::Put(Box::new(object)))).is_some()
    }

    fn payers(&self) -> Vec<SiteId> {
        metered(&self.tables, system()).unwrap().into_iter().collect()
    }

    /// Writes these bytes where a site says whether it pays.
    fn scrawl(&mut self, about: SiteId, bytes: Vec<u8>) {
        let object = Object { document: Some(bytes.into()), ..Object::default() };
        self.write(system(), &SystemKey::Metered(about).to_string(), Ask::Put(Box::new(object)));
    }
}

#[test]
fn a_site_says_it_once_and_takes_it_back() {
    let (mut oslo, mut bergen) = (Site::new(1, "oslo"), Site::new(2, "bergen"));
    assert!(!oslo.pays(false), "who never paid says nothing");
    assert!(oslo.pays(true) && !oslo.pays(true));
    exchange(&mut oslo, &mut bergen, &[]);
    assert_eq!(bergen.payers(), [OSLO]);
    assert!(bergen.pays(true));
    exchange(&mut oslo, &mut bergen, &[]);
    assert_eq!(oslo.payers(), [OSLO, SiteId([2; 16])]);
    assert!(oslo.pays(false) && !oslo.pays(false));
    exchange(&mut oslo, &mut bergen, &[]);
    assert_eq!((oslo.payers(), bergen.payers()), (vec![SiteId([2; 16])], vec![SiteId([2; 16])]));
}

/// A disk that burned: what the site says then does not know what it said before.
#[test]
fn of_words_that_did_not_know_of_each_other_one_holds_everywhere() {
    let (mut before, mut bergen) = (Site::new(1, "oslo"), Site::new(2, "bergen"));
    before.pays(true);
    before.pays(false);
    exchange(&mut before, &mut bergen, &[]);
    let mut anew = Site::new(3, "oslo again");
    let word = say_metered(&anew.tables, system(), (OSLO, true), WallTime(9)).unwrap();
    let (key, object) = word.unwrap();
    anew.write(system(), &key, Ask::Put(Box::new(object)));
    assert_eq!(anew.payers(), [OSLO]);
    exchange(&mut anew, &mut bergen, &[]);
    assert_eq!((anew.payers(), bergen.payers()), (vec![], vec![]), "the later of its words");
    let word = say_metered(&anew.tables, system(), (OSLO, true), WallTime(9)).unwrap();
    let (key, object) = word.unwrap();
    anew.write(system(), &key, Ask::Put(Box::new(object)));
    exchange(&mut anew, &mut bergen, &[]);
    assert_eq!(
        (anew.payers(), bergen.payers()),
        (vec![OSLO], vec![OSLO]),
        "once it has heard that, it says it again"
    );
}

#[test]
fn what_cannot_be_read_is_passed_over_and_written_right_by_its_site() {
    let mut oslo = Site::new(1, "oslo");
    let word = |site, pays| codec::encode(&MeteredDocument { site, epoch: 7, pays, said: WallTime(0) });
    let mut later = word(OSLO, true);
    later[0] = 2;
    let other = word(SiteId([9; 16]), true);
    for odd in [later, other, vec![1, 2, 3], Vec::new(), vec![255; 300]] {
        oslo.scrawl(OSLO, odd.clone());
        assert!(oslo.payers().is_empty(), "{odd:?}");
        oslo.scrawl(SiteId([3; 16]), word(SiteId([3; 16]), true));
        assert_eq!(oslo.payers(), [SiteId([3; 16])], "the others are read");
        oslo.scrawl(SiteId([3; 16]), word(SiteId([3; 16]), false));
        assert!(oslo.pays(false) && !oslo.pays(false), "it is said anew, once");
    }
    // A record that says nothing where a site would.
    let key = "metered/nobody".to_owned();
    assert_eq!(SystemKey::parse(&key), None);
    oslo.scrawl(OSLO, word(OSLO, true));
    assert_eq!(oslo.payers(), [OSLO]);
    assert!(oslo.pays(false) && oslo.payers().is_empty());
}

/// Fixture of version 1: must decode for ever.
#[test]
fn v1_fixture() {
    let word = MeteredDocument { site: OSLO, epoch: 3, pays: true, said: WallTime(300) };
    let fixture = include_str!("fixtures/metered.v1.hex").trim();
    assert_eq!(hex::text(&codec::encode(&word)), fixture);
    assert_eq!(codec::decode::<MeteredDocument>(&codec::encode(&word)).unwrap(), word);
    let key = SystemKey::Metered(OSLO);
    assert_eq!(SystemKey::parse(&key.to_string()), Some(key));
}
