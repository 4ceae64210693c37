//! Places that are taken: once, by members, the same everywhere.

#![expect(clippy::unwrap_used, reason = "tests")]

use skerry_base::NodeId;

use super::super::NodeEntry;
use super::super::tests::{Site, exchange, system};
use super::*;
use crate::write::Ask;

const OSLO: SiteId = SiteId([1; 16]);
const BERGEN: SiteId = SiteId([2; 16]);
const TROMSO: SiteId = SiteId([3; 16]);
const NEW: SiteId = SiteId([4; 16]);

impl Site {
    fn admit_as(&mut self, site: SiteId, state: SiteState) {
        let node = NodeEntry { node: NodeId(site.0), key: [0; 32], addresses: Vec::new() };
        let (name, admissions, joined) = (format!("site-{}", site.0[0]), Vec::new(), WallTime(1));
        let document = SiteDocument { name, nodes: vec![node], admissions, state, joined };
        self.put_object(SystemKey::Site(site).to_string(), document_object(&document, WallTime(5)));
    }

    fn put_object(&mut self, key: String, object: Object) {
        self.write(system(), &key, Ask::Put(Box::new(object)));
    }

    fn replaces(&mut self, gone: SiteId, by: SiteId) -> Result<usize, ReplaceRefusal> {
        let (me, wall) = (SiteId([self.id; 16]), WallTime(9));
        let documents = replace_site(&self.tables, system(), (gone, by), me, wall)?;
        let count = documents.len();
        documents.into_iter().for_each(|(key, object)| self.put_object(key, object));
        Ok(count)
    }

    fn stands_for(&self, of: SiteId) -> Option<SiteId> {
        successor(&self.tables, system(), of).unwrap()
    }
}

fn two() -> [Site; 2] {
    let mut sites = [Site::new(1, "oslo"), Site::new(2, "bergen")];
    for id in [OSLO, BERGEN, TROMSO, NEW] {
        sites[0].admit_as(id, SiteState::Member);
    }
    let [oslo, bergen] = &mut sites;
    exchange(oslo, bergen, &[]);
    sites
}

#[test]
fn a_place_is_taken_once_and_by_a_member() {
    let [mut oslo, mut bergen] = two();
    assert!(matches!(oslo.replaces(OSLO, NEW), Err(ReplaceRefusal::Myself)));
    assert!(matches!(oslo.replaces(TROMSO, TROMSO), Err(ReplaceRefusal::Itself)));
    assert!(matches!(oslo.replaces(SiteId([9; 16]), NEW), Err(ReplaceRefusal::NoSite)));
    assert!(matches!(oslo.replaces(TROMSO, SiteId([9; 16])), Err(ReplaceRefusal::NoMember)));
    assert_eq!(oslo.replaces(TROMSO, NEW).unwrap(), 1);
    assert_eq!(oslo.replaces(TROMSO, NEW).unwrap(), 0, "it is so already");
    assert!(matches!(oslo.replaces(TROMSO, BERGEN), Err(ReplaceRefusal::By(by)) if by == NEW));
    assert!(matches!(oslo.replaces(NEW, TROMSO), Err(ReplaceRefusal::NoMember)));
    assert_eq!(oslo.stands_for(TROMSO), Some(NEW));
    assert_eq!(replacements(&oslo.tables, system(), NEW).unwrap(), [TROMSO]);
    exchange(&mut oslo, &mut bergen, &[]);
    assert_eq!(bergen.stands_for(TROMSO), Some(NEW));
    // The newcomer is gone in its turn.
    assert_eq!(bergen.replaces(NEW, OSLO).unwrap(), 1);
    assert_eq!(bergen.stands_for(TROMSO), Some(OSLO));
    assert_eq!(replacements(&bergen.tables, system(), OSLO).unwrap().len(), 2);
}

#[test]
fn an_expelled_site_is_replaced_and_stays_gone() {
    let [mut oslo, _] = two();
    oslo.admit_as(TROMSO, SiteState::Expelled);
    assert_eq!(oslo.stands_for(TROMSO), None);
    assert_eq!(oslo.replaces(TROMSO, NEW).unwrap(), 1);
    assert_eq!(oslo.stands_for(TROMSO), Some(NEW));
}

#[test]
fn the_newcomer_stands_where_the_gone_one_stood_unless_it_stands_somewhere() {
    let [mut oslo, _] = two();
    let word =
        |site, area: &str| AreaDocument { site, epoch: 0, area: area.into(), said: WallTime(1), at: OSLO };
    for (site, name) in [(TROMSO, "north"), (BERGEN, "west")] {
        let (key, object) = assign_area(&oslo.tables, system(), word(site, name)).unwrap().unwrap();
        oslo.put_object(key, object);
    }
    assert_eq!(oslo.replaces(TROMSO, NEW).unwrap(), 2);
    assert_eq!(area(&oslo.tables, system(), NEW).unwrap().unwrap().area, "north");
    assert_eq!(oslo.replaces(BERGEN, NEW).unwrap(), 1);
    assert_eq!(area(&oslo.tables, system(), NEW).unwrap().unwrap().area, "north");
}

/// Said at two sites that are cut off from each other.
#[test]
fn of_two_words_one_holds_everywhere() {
    for words in [[Some(NEW), Some(BERGEN)], [Some(NEW), None], [None, Some(NEW)]] {
        let [mut oslo, mut bergen] = two();
        for (site, word) in [&mut oslo, &mut bergen].into_iter().zip(words) {
            match word {
                Some(by) => drop(site.replaces(TROMSO, by).unwrap()),
                None => site.admit_as(TROMSO, SiteState::Expelled),
            }
        }
        exchange(&mut oslo, &mut bergen, &[]);
        assert_eq!(oslo.stands_for(TROMSO), bergen.stands_for(TROMSO), "{words:?}");
        let lesser = words.into_iter().flatten().min();
        assert_eq!(oslo.stands_for(TROMSO), lesser, "{words:?}");
    }
    let [mut oslo, mut bergen] = two();
    oslo.replaces(TROMSO, NEW).unwrap();
    bergen.replaces(NEW, TROMSO).unwrap();
    exchange(&mut oslo, &mut bergen, &[]);
    assert_eq!((oslo.stands_for(TROMSO), bergen.stands_for(NEW)), (None, None), "a circle has no end");
}
