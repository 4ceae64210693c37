//! Homes between cut-off sites: one register names them, one home hands over, and nobody decides in between.

#![expect(clippy::unwrap_used, reason = "tests")]

use skerry_base::codec;
use skerry_base::{BucketId, NodeId, Origin, SiteId, Vector, WallTime};

use super::super::tests::{Site, exchange, feed, object, system};
use super::super::{NodeEntry, Seen, SiteDocument, SystemKey, document_object, resolve};
use super::*;
use crate::write::Ask;

const OSLO: SiteId = SiteId([1; 16]);
const BERGEN: SiteId = SiteId([2; 16]);

impl Site {
    fn put_document(&mut self, key: &str, object: Object) {
        self.write(system(), key, Ask::Put(Box::new(object)));
    }

    fn name(&mut self, named: Named) {
        self.put_all(named.blocks);
        self.put_document(&named.key, named.object);
    }

    fn admit(&mut self, site: SiteId, joined: u64, state: SiteState) {
        let node = NodeEntry { node: NodeId(site.0), key: [0; 32], addresses: Vec::new() };
        let name = format!("site-{}", site.0[0]);
        let (nodes, admissions, joined) = (vec![node], Vec::new(), WallTime(joined));
        let document = SiteDocument { name, nodes, admissions, state, joined };
        self.put_document(&SystemKey::Site(site).to_string(), document_object(&document, WallTime(0)));
    }

    fn stands(&self, bucket: BucketId) -> Standing {
        standing(&self.tables, system(), bucket, SiteId([self.id; 16])).unwrap()
    }

    fn name_home(&mut self, bucket: BucketId) -> Result<(), HomeRefusal> {
        let me = SiteId([self.id; 16]);
        if let Some(named) = name_home(&self.tables, system(), bucket, me, WallTime(self.wall))? {
            self.name(named);
        }
        Ok(())
    }

    fn hand(&mut self, bucket: BucketId, to: SiteId) -> Result<(), HomeRefusal> {
        let me = SiteId([self.id; 16]);
        let fellows = BTreeSet::new();
        let named = hand_over(&self.tables, system(), (bucket, to), (me, &fellows), WallTime(self.wall))?;
        if let Some(named) = named {
            self.name(named);
        }
        Ok(())
    }

    fn replace(&mut self, bucket: BucketId, to: SiteId, lost: SiteId) -> Result<(), HomeRefusal> {
        let me = SiteId([self.id; 16]);
        let loss = Loss { bucket, lost, to, heard: &Vector::new(), fellows: &BTreeSet::new() };
        let named = replace_home(&self.tables, system(), loss, me, WallTime(self.wall))?;
        self.name(named);
        Ok(())
    }
}

/// Oslo keeps the register; both know both.
fn two() -> (Site, Site) {
    let (mut oslo, mut bergen) = (Site::new(1, "oslo"), Site::new(2, "bergen"));
    oslo.admit(OSLO, 1, SiteState::Member);
    oslo.admit(BERGEN, 2, SiteState::Member);
    oslo.name(Named::first(system(), OSLO, false, WallTime(1)));
    exchange(&mut oslo, &mut bergen, &[]);
    (oslo, bergen)
}

#[test]
fn islands_that_make_the_same_bucket_have_one_home_and_only_the_register_names_it() {
    let (mut oslo, mut bergen) = two();
    let bucket = oslo.create("photos", "ann");
    assert_eq!(bergen.create("photos", "ann"), bucket);
    assert_eq!((oslo.stands(bucket), bergen.stands(bucket)), (Standing::Unnamed, Standing::Unnamed));
    assert!(matches!(bergen.name_home(bucket), Err(HomeRefusal::Only(OSLO))));
    assert_eq!(unnamed(&bergen.tables, system(), BERGEN).unwrap(), []);
    assert_eq!(unnamed(&oslo.tables, system(), OSLO).unwrap(), [bucket]);
    oslo.name_home(bucket).unwrap();
    assert_eq!(oslo.stands(bucket), Standing::Decides(FIRST_EPOCH));
    assert_eq!(bergen.stands(bucket), Standing::Unnamed, "an island does not decide");
    exchange(&mut oslo, &mut bergen, &[]);
    assert_eq!(bergen.stands(bucket), Standing::Elsewhere(OSLO));
    oslo.name_home(bucket).unwrap();
    for site in [&oslo, &bergen] {
        let found = resolve(&site.tables, system(), "photos").unwrap().unwrap();
        assert_eq!(found.home.map(|home| (home.site, home.epoch)), Some((OSLO, 1)));
    }
}

#[test]
fn a_bucket_made_elsewhere_is_decided_there_once_the_register_heard_of_it() {
    let (mut oslo, mut bergen) = two();
    let bucket = bergen.create("photos", "ann");
    assert!(matches!(oslo.name_home(bucket), Err(HomeRefusal::NoBucket)));
    feed(&bergen, &mut oslo, system());
    oslo.name_home(bucket).unwrap();
    feed(&oslo, &mut bergen, system());
    assert_eq!(bergen.stands(bucket), Standing::Decides(1));
    assert_eq!(oslo.stands(bucket), Standing::Elsewhere(BERGEN));
}

#[test]
fn a_claimant_that_was_expelled_is_not_made_home() {
    let (mut oslo, mut bergen) = two();
    let bucket = bergen.create("photos", "ann");
    feed(&bergen, &mut oslo, system());
    oslo.admit(BERGEN, 2, SiteState::Expelled);
    oslo.name_home(bucket).unwrap();
    assert_eq!(oslo.stands(bucket), Standing::Decides(1));
}

#[test]
fn a_home_that_handed_over_decides_nothing_and_its_successor_waits_for_what_it_had() {
    let (mut oslo, mut bergen) = two();
    let bucket = oslo.create("photos", "ann");
    oslo.name_home(bucket).unwrap();
    exchange(&mut oslo, &mut bergen, &[]);
    oslo.write(bucket, "lock", object());
    assert!(matches!(bergen.hand(bucket, BERGEN), Err(HomeRefusal::Only(OSLO))));
    assert!(matches!(oslo.hand(bucket, SiteId([9; 16])), Err(HomeRefusal::NoSite)));
    oslo.hand(bucket, OSLO).unwrap();
    assert_eq!(oslo.stands(bucket), Standing::Decides(1), "to itself changes nothing");
    oslo.hand(bucket, BERGEN).unwrap();
    assert_eq!(oslo.stands(bucket), Standing::Elsewhere(BERGEN));
    feed(&oslo, &mut bergen, system());
    assert_eq!(bergen.stands(bucket), Standing::Behind(2), "the lock has not arrived");
    assert!(matches!(bergen.hand(bucket, OSLO), Err(HomeRefusal::Behind)));
    feed(&oslo, &mut bergen, bucket);
    assert_eq!(bergen.stands(bucket), Standing::Decides(2));
    bergen.hand(bucket, OSLO).unwrap();
    exchange(&mut oslo, &mut bergen, &[bucket]);
    assert_eq!(
        (oslo.stands(bucket), bergen.stands(bucket)),
        (Standing::Decides(3), Standing::Elsewhere(OSLO))
    );
}

/// A second home of one epoch would decide beside the first.
#[test]
fn a_home_of_the_last_epoch_there_is_stays_the_home() {
    let (mut oslo, mut bergen) = two();
    let bucket = oslo.create("photos", "ann");
    let last = HomeDocument { epoch: u64::MAX, ..HomeDocument::first(bucket, OSLO, false) };
    oslo.name(Named::new(last.clone(), WallTime(2)));
    assert!(matches!(oslo.hand(bucket, BERGEN), Err(HomeRefusal::LastEpoch)));
    assert_eq!(oslo.stands(bucket), Standing::Decides(u64::MAX));
    oslo.name(Named::new(HomeDocument { site: BERGEN, ..last }, WallTime(3)));
    assert!(matches!(oslo.replace(bucket, OSLO, BERGEN), Err(HomeRefusal::LastEpoch)));
    exchange(&mut oslo, &mut bergen, &[bucket]);
    assert_eq!(oslo.stands(bucket), Standing::Elsewhere(BERGEN));
}

/// It may be named as soon as somebody hears of its claim, and not yet of its duty.
#[test]
fn who_made_a_bucket_may_be_named_until_somebody_is() {
    let (mut oslo, mut bergen) = two();
    let bucket = bergen.create("photos", "ann");
    let may = |site: &Site, who| may_be_named(&site.tables, system(), bucket, who).unwrap();
    assert!(may(&bergen, BERGEN) && !may(&bergen, OSLO) && !may(&oslo, BERGEN));
    exchange(&mut oslo, &mut bergen, &[]);
    oslo.name_home(bucket).unwrap();
    assert!(may(&bergen, BERGEN), "it has not heard");
    exchange(&mut oslo, &mut bergen, &[]);
    assert!(!may(&bergen, BERGEN) && !may(&oslo, BERGEN));
}

#[test]
fn a_lost_home_is_replaced_by_the_register_alone() {
    let (mut oslo, mut bergen) = two();
    let bucket = bergen.create("photos", "ann");
    exchange(&mut oslo, &mut bergen, &[]);
    oslo.name_home(bucket).unwrap();
    exchange(&mut oslo, &mut bergen, &[]);
    assert!(matches!(bergen.replace(bucket, BERGEN, OSLO), Err(HomeRefusal::NoRegister)));
    assert!(matches!(oslo.replace(bucket, OSLO, OSLO), Err(HomeRefusal::NoRegister)));
    assert!(matches!(oslo.replace(bucket, OSLO, SiteId([9; 16])), Err(HomeRefusal::NotHome(BERGEN))));
    oslo.replace(bucket, OSLO, BERGEN).unwrap();
    assert_eq!(oslo.stands(bucket), Standing::Decides(2));
}

/// It gave the home away and burned before the heir had all of it.
#[test]
fn an_heir_that_waits_for_what_burned_is_named_once_more_and_nobody_else_is() {
    let (mut oslo, mut bergen) = two();
    let mut voss = Site::new(3, "voss");
    oslo.admit(SiteId([3; 16]), 3, SiteState::Member);
    let bucket = bergen.create("photos", "ann");
    exchange(&mut oslo, &mut bergen, &[]);
    oslo.name_home(bucket).unwrap();
    exchange(&mut oslo, &mut bergen, &[bucket]);
    exchange(&mut oslo, &mut voss, &[bucket]);
    assert!(
        matches!(oslo.replace(bucket, OSLO, SiteId([3; 16])), Err(HomeRefusal::NotHome(BERGEN))),
        "a home that has all it should have"
    );
    bergen.write(bucket, "lock", object());
    bergen.hand(bucket, SiteId([3; 16])).unwrap();
    feed(&bergen, &mut oslo, system());
    feed(&oslo, &mut voss, system());
    drop(bergen);
    assert_eq!(voss.stands(bucket), Standing::Behind(2));
    let refused = oslo.replace(bucket, OSLO, BERGEN);
    assert!(matches!(refused, Err(HomeRefusal::Waits(SiteId([3, ..])))), "{refused:?}");
    oslo.replace(bucket, SiteId([3; 16]), BERGEN).unwrap();
    oslo.admit(BERGEN, 2, SiteState::Expelled);
    feed(&oslo, &mut voss, system());
    assert_eq!(voss.stands(bucket), Standing::Decides(3));
    voss.hand(bucket, OSLO).unwrap();
    exchange(&mut oslo, &mut voss, &[bucket]);
    assert_eq!(oslo.stands(bucket), Standing::Decides(4));
}

#[test]
fn a_lost_register_is_replaced_by_the_eldest_that_is_left() {
    let (mut oslo, mut bergen) = two();
    let mut voss = Site::new(3, "voss");
    oslo.admit(SiteId([3; 16]), 3, SiteState::Member);
    exchange(&mut oslo, &mut bergen, &[]);
    exchange(&mut oslo, &mut voss, &[]);
    assert!(matches!(voss.replace(system(), SiteId([3; 16]), OSLO), Err(HomeRefusal::Only(BERGEN))));
    assert!(matches!(oslo.replace(system(), BERGEN, BERGEN), Err(HomeRefusal::NoSite)));
    bergen.replace(system(), BERGEN, OSLO).unwrap();
    assert_eq!(register(&bergen.tables, system()).unwrap(), Some(BERGEN));
    let bucket = bergen.create("photos", "ann");
    bergen.name_home(bucket).unwrap();
    assert_eq!(bergen.stands(bucket), Standing::Decides(1));
}

#[test]
fn a_site_that_was_expelled_stays_so_whatever_it_says_of_itself() {
    let (mut oslo, mut bergen) = two();
    oslo.admit(BERGEN, 2, SiteState::Expelled);
    bergen.wall = 1_000_000;
    bergen.admit(BERGEN, 9, SiteState::Member);
    exchange(&mut oslo, &mut bergen, &[]);
    for site in [&oslo, &bergen] {
        let found = super::super::site(&site.tables, system(), BERGEN).unwrap().unwrap();
        assert_eq!(found.state, SiteState::Expelled);
        assert_eq!(super::super::sites(&site.tables, system()).unwrap().len(), 2);
    }
}

#[test]
fn a_name_that_was_asked_for_first_is_kept_against_an_earlier_claim() {
    let (mut oslo, mut bergen) = two();
    oslo.wall = 1;
    let early = oslo.create("photos", "ann");
    let late = bergen.create("photos", "bob");
    bergen.name(Named::first(late, BERGEN, true, WallTime(9)));
    exchange(&mut oslo, &mut bergen, &[]);
    for site in [&oslo, &bergen] {
        let id = |name| resolve(&site.tables, system(), name).unwrap().map(|found| found.claim.bucket);
        assert_eq!((id("photos"), id("photos--oslo")), (Some(late), Some(early)));
    }
}

/// Fixtures of version 1 must decode for ever. Never regenerate them.
#[test]
fn the_document_of_a_home_is_pinned() {
    let origin = Origin { node: NodeId([1; 16]), incarnation: 2 };
    let document = HomeDocument {
        bucket: BucketId([6; 16]),
        site: SiteId([8; 16]),
        epoch: 3,
        unique: true,
        seen: Seen::of(&Vector::from_iter([(origin, 300)])),
        cause: HomeCause::Replaced(SiteId([4; 16])),
    };
    let hex = skerry_base::hex::text(&codec::encode(&document));
    assert_eq!(hex, include_str!("fixtures/home.v1.hex").trim());
    let decoded: HomeDocument =
        codec::decode(&document_object(&document, WallTime(1)).document.unwrap()).unwrap();
    assert_eq!(decoded, document);
}

/// The frame in which a home gave itself away is gone; a later one raised the vector over it.
#[test]
fn a_home_that_lost_part_of_its_journal_decides_nothing_before_it_has_heard_from_the_others() {
    let (mut oslo, mut bergen) = two();
    let bucket = oslo.create("photos", "ann");
    oslo.name_home(bucket).unwrap();
    exchange(&mut oslo, &mut bergen, &[bucket]);
    let before = oslo.tables.clone();
    oslo.hand(bucket, BERGEN).unwrap();
    exchange(&mut oslo, &mut bergen, &[bucket]);
    let after = space::vector(&oslo.tables, system()).unwrap();
    oslo.tables = before;
    oslo.apply(&crate::Entry::Vector { bucket: system(), upto: after });
    assert_eq!(oslo.stands(bucket), Standing::Decides(FIRST_EPOCH), "the fault: bergen decides as well");
    for of in [system(), bucket] {
        let entries = space::anew(&oslo.tables, of).unwrap();
        entries.iter().for_each(|entry| oslo.apply(entry));
    }
    assert_eq!(oslo.stands(bucket), Standing::Behind(FIRST_EPOCH));
    assert_eq!(oslo.stands(system()), Standing::Behind(FIRST_EPOCH));
    assert!(matches!(oslo.hand(bucket, BERGEN), Err(HomeRefusal::Behind)));
    assert!(matches!(oslo.replace(bucket, OSLO, BERGEN), Err(HomeRefusal::Behind)));
    assert_eq!(unnamed(&oslo.tables, system(), OSLO).unwrap(), []);
    exchange(&mut oslo, &mut bergen, &[bucket]);
    assert_eq!(oslo.stands(bucket), Standing::Elsewhere(BERGEN));
    // The register is its own again once the system bucket is whole.
    let entries = space::whole_again(&oslo.tables, system()).unwrap();
    entries.iter().for_each(|entry| oslo.apply(entry));
    assert_eq!(oslo.stands(system()), Standing::Decides(FIRST_EPOCH));
}
