//! What a register had begun is carried out by whoever keeps it next, and a later one is not written over.

#![expect(clippy::unwrap_used, reason = "tests")]

use skerry_base::{NodeId, Origin, Vector, codec};

use super::super::tests::{Site, exchange, feed, system};
use super::super::{BucketConfig, NewBucket, Seen, new_claim, resolve};
use super::*;
use crate::write::Ask;

const OSLO: SiteId = SiteId([1; 16]);
const BERGEN: SiteId = SiteId([2; 16]);

fn naming(bucket: u8, site: SiteId) -> Naming {
    Naming { home: HomeDocument::first(BucketId([bucket; 16]), site, false), claim: None }
}

fn said(epoch: u64, namings: &[Naming]) -> NamingDocument {
    NamingDocument { epoch, namings: namings.to_vec() }
}

#[test]
fn what_was_begun_and_is_not_done_is_said_again() {
    let (one, other) = (naming(7, OSLO), naming(8, BERGEN));
    let before = said(3, &[one.clone(), other.clone()]);
    assert_eq!(NamingDocument::carried(None, 1, |_| false), Ok(said(1, &[])));
    assert_eq!(NamingDocument::carried(Some(before.clone()), 3, |_| false), Ok(before.clone()));
    let left = NamingDocument::carried(Some(before.clone()), 5, |naming| *naming == one);
    assert_eq!(left, Ok(said(5, &[other])));
    assert_eq!(NamingDocument::carried(Some(before), 2, |_| true), Err(Later));
}

#[test]
fn the_latest_register_counts() {
    let all = [said(2, &[naming(7, OSLO)]), said(4, &[]), said(3, &[naming(7, BERGEN)])];
    assert_eq!(NamingDocument::latest(all), Some(said(4, &[])));
    assert_eq!(NamingDocument::latest([]), None);
}

#[test]
fn what_is_said_fits_into_a_document() {
    let homes = |count: u8| said(300, &(0..count).map(|bucket| naming(bucket, OSLO)).collect::<Vec<_>>());
    assert!(homes(16).fits(), "as many homes as are named together");
    assert!(homes(16).written(WallTime(1)).1.check().is_ok());
    let oslo = Site::new(1, "oslo");
    let name = |number: usize| format!("{number:x>63}");
    let claims =
        |count: usize| said(300, &(0..count).map(|number| oslo.unique(&name(number))).collect::<Vec<_>>());
    let most = (0..64).take_while(|count| claims(*count).fits()).last().unwrap();
    println!("{most} claims of long names fit into a document");
    assert!(most >= 4);
    let later = NamingDocument { epoch: u64::MAX, ..claims(most) };
    assert!(later.written(WallTime(1)).1.check().is_ok(), "whoever says it again can");
    assert!(claims(most + 8).written(WallTime(1)).1.check().is_err());
}

impl Site {
    fn puts(&mut self, (key, object): (String, Object)) {
        self.write(system(), &key, Ask::Put(Box::new(object)));
    }

    fn register(&mut self, site: SiteId, epoch: u64) {
        let document = HomeDocument { epoch, ..HomeDocument::first(system(), site, false) };
        let Named { key, object, .. } = Named::new(document, WallTime(1));
        self.puts((key, object));
    }

    fn unique(&self, name: &str) -> Naming {
        let config = BucketConfig::default();
        let new = NewBucket { name, owner: "ann", site: BERGEN, site_name: "bergen", config };
        let claim = new_claim(&self.tables, system(), new, WallTime(5)).unwrap();
        Naming { home: HomeDocument::first(claim.bucket, BERGEN, true), claim: Some(claim) }
    }

    fn begins(&mut self, epoch: u64, namings: &[Naming]) {
        self.puts(said(epoch, namings).written(WallTime(6)));
    }

    fn carries_out(&mut self, naming: &Naming) {
        for document in naming.documents(&self.tables, system(), WallTime(7)).unwrap() {
            self.puts(document);
        }
    }

    fn resumes(&self, epoch: u64) -> Result<Option<NamingDocument>, Later> {
        resumed(&self.tables, system(), epoch).unwrap()
    }
}

#[test]
fn a_name_that_was_begun_names_nobody_before_it_is_carried_out() {
    let mut oslo = Site::new(1, "oslo");
    let naming = oslo.unique("photos");
    oslo.begins(1, std::slice::from_ref(&naming));
    assert!(has_begun(&oslo.tables, system()).unwrap());
    assert!(resolve(&oslo.tables, system(), "photos").unwrap().is_none());
    assert!(!naming.is_written(&oslo.tables, system()).unwrap());
    oslo.carries_out(&naming);
    assert!(naming.is_written(&oslo.tables, system()).unwrap());
    assert!(!has_begun(&oslo.tables, system()).unwrap());
    let found = resolve(&oslo.tables, system(), "photos").unwrap().unwrap();
    assert_eq!(found.home.map(|home| (home.site, home.unique)), Some((BERGEN, true)));
    assert_eq!(naming.documents(&oslo.tables, system(), WallTime(9)).unwrap(), []);
    // It is known here, and nobody else may have heard of it.
    assert!(!naming.is_kept(&oslo.tables, system(), &|_| false).unwrap());
    assert!(naming.is_kept(&oslo.tables, system(), &|_| true).unwrap());
}

#[test]
fn a_register_that_decides_alone_says_once_that_it_is_the_one() {
    let (mut oslo, mut bergen) = (Site::new(1, "oslo"), Site::new(2, "bergen"));
    oslo.register(OSLO, 1);
    assert!(names_at_once(&oslo.tables, system(), OSLO).unwrap());
    assert_eq!(oslo.resumes(1), Ok(None), "the first one has nobody before it");
    let (begun, done) = (oslo.unique("photos"), oslo.unique("films"));
    oslo.begins(1, &[begun.clone(), done.clone()]);
    oslo.carries_out(&done);
    oslo.register(BERGEN, 2);
    feed(&oslo, &mut bergen, system());
    assert!(!names_at_once(&bergen.tables, system(), BERGEN).unwrap());
    assert_eq!(bergen.resumes(2), Ok(Some(said(2, std::slice::from_ref(&begun)))));
    bergen.begins(2, std::slice::from_ref(&begun));
    bergen.carries_out(&begun);
    assert!(names_at_once(&bergen.tables, system(), BERGEN).unwrap());
    assert_eq!(bergen.resumes(2), Ok(None));
    exchange(&mut oslo, &mut bergen, &[]);
    assert_eq!(oslo.resumes(1), Err(Later), "and the former one names nothing more");
    assert_eq!(namings(&oslo.tables, system()).unwrap().map(|said| said.epoch), Some(2));
}

#[test]
fn who_has_nobody_before_it_but_is_not_the_first_says_so_too() {
    let mut bergen = Site::new(2, "bergen");
    bergen.register(BERGEN, 3);
    assert!(!names_at_once(&bergen.tables, system(), BERGEN).unwrap());
    assert_eq!(bergen.resumes(3), Ok(Some(said(3, &[]))));
}

/// Fixtures of version 1 must decode for ever. Never regenerate them.
#[test]
fn the_document_of_namings_is_pinned() {
    let origin = Origin { node: NodeId([1; 16]), incarnation: 2 };
    let seen = Seen::of(&Vector::from_iter([(origin, 300)]));
    let oslo = Site::new(1, "oslo");
    let moved = HomeDocument {
        epoch: 4,
        seen,
        cause: super::super::HomeCause::Replaced(OSLO),
        ..HomeDocument::first(BucketId([9; 16]), BERGEN, false)
    };
    let document = said(258, &[oslo.unique("photos"), Naming { home: moved, claim: None }]);
    let hex = skerry_base::hex::text(&codec::encode(&document));
    assert_eq!(hex, include_str!("fixtures/naming.v1.hex").trim());
    let (key, object) = document.written(WallTime(1));
    assert_eq!(SystemKey::parse(&key), Some(SystemKey::Namings));
    let decoded: NamingDocument = codec::decode(&object.document.unwrap()).unwrap();
    assert_eq!(decoded, document);
}
