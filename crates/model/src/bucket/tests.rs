//! Claims on names between cut-off sites, and fixtures of the documents.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::collections::BTreeMap;

use bytes::Bytes;
use skerry_base::codec::{self, Versioned};
use skerry_base::kv::{Batch, Reducer, Tables};
use skerry_base::time::HlcClock;
use skerry_base::{BucketId, NodeId, Origin, SiteId, Vector, WallTime};

use super::*;
use crate::Entry;
use crate::object::Object;
use crate::record::{Record, Scope, Versioning};
use crate::space::{self, SpaceReducer};
use crate::write::{Ask, Conditions, Intent, Proposed, propose};

/// A site that claims and writes.
pub(super) struct Site {
    pub(super) tables: Tables,
    pub(super) id: u8,
    name: &'static str,
    clock: HlcClock,
    pub(super) wall: u64,
}

pub(super) fn system() -> BucketId {
    system_bucket(b"federation")
}

impl Site {
    pub(super) fn new(id: u8, name: &'static str) -> Self {
        Self { tables: Tables::default(), id, name, clock: HlcClock::default(), wall: u64::from(id) * 1000 }
    }

    pub(super) fn apply(&mut self, entry: &Entry) {
        let mut batch = Batch::default();
        SpaceReducer.reduce(&entry.encode(), &self.tables, &mut batch).unwrap();
        self.tables.apply(&batch);
    }

    pub(super) fn write(&mut self, bucket: BucketId, key: &str, ask: Ask) {
        self.wall += 1000;
        let intent = Intent {
            bucket,
            key,
            origin: Origin { node: NodeId([self.id; 16]), incarnation: 1 },
            site: SiteId([self.id; 16]),
            wall: WallTime(self.wall),
            present: None,
            versioning: Versioning::Off,
            writer: "w",
            scope: Scope::Node,
            home: None,
            placement: None,
            conditions: &Conditions::default(),
            ask,
        };
        match propose(&self.tables, intent, &mut self.clock).unwrap() {
            Proposed::Write { record, .. } => self.apply(&Entry::Write(record)),
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn put_claim(&mut self, claimed: Claimed) -> BucketId {
        self.put_all(claimed.blocks);
        self.write(system(), &claimed.key, Ask::Put(Box::new(claimed.object)));
        claimed.bucket
    }

    pub(super) fn put_all(&mut self, documents: Vec<(String, Object)>) {
        for (key, object) in documents {
            object.check().unwrap();
            self.write(system(), &key, Ask::Put(Box::new(object)));
        }
    }

    /// So many lives of nodes wrote here and were seen, this many records each.
    pub(super) fn lives(&mut self, bucket: BucketId, lives: impl IntoIterator<Item = u64>, each: u64) {
        let upto = lives.into_iter().map(|n| (life(n), each + n % 7)).collect();
        self.apply(&Entry::Vector { bucket, upto });
    }

    fn try_create(&self, name: &str, owner: &str) -> Result<Claimed, ClaimRefusal> {
        let site = SiteId([self.id; 16]);
        let config = BucketConfig::default();
        let new = NewBucket { name, owner, site, site_name: self.name, config };
        claim(&self.tables, system(), new, WallTime(self.wall))
    }

    pub(super) fn create(&mut self, name: &str, owner: &str) -> BucketId {
        let claimed = self.try_create(name, owner).unwrap();
        self.put_claim(claimed)
    }

    pub(super) fn delete(&mut self, name: &str) -> Result<(), ClaimRefusal> {
        let found = self.find(name).unwrap();
        let claimed = unclaim(&self.tables, system(), &found.claim, WallTime(self.wall))?;
        self.put_claim(claimed);
        Ok(())
    }

    pub(super) fn find(&self, name: &str) -> Option<Resolved> {
        resolve(&self.tables, system(), name).unwrap()
    }

    pub(super) fn id_of(&self, name: &str) -> Option<BucketId> {
        self.find(name).map(|found| found.claim.bucket)
    }

    fn names(&self) -> Vec<String> {
        list_buckets(&self.tables, system(), None).unwrap().into_iter().map(|found| found.name).collect()
    }

    pub(super) fn revive(&mut self) -> usize {
        let claims = revivals(&self.tables, system(), WallTime(self.wall)).unwrap();
        let count = claims.len();
        for claimed in claims {
            self.put_claim(claimed);
        }
        count
    }
}

pub(super) fn life(n: u64) -> Origin {
    let mut node = [7; 16];
    node[..8].copy_from_slice(&(n % 60).to_be_bytes());
    Origin { node: NodeId(node), incarnation: n }
}

pub(super) fn feed(from: &Site, to: &mut Site, bucket: BucketId) {
    let seen = space::vector(&to.tables, bucket).unwrap();
    let answer = space::records_after(&from.tables, bucket, &seen, usize::MAX).unwrap();
    for item in answer.items {
        to.apply(&Entry::Record(Box::new(item.record)));
    }
    to.apply(&Entry::Vector { bucket, upto: answer.upto });
}

pub(super) fn exchange(one: &mut Site, other: &mut Site, buckets: &[BucketId]) {
    for &bucket in [system()].iter().chain(buckets) {
        feed(one, other, bucket);
        feed(other, one, bucket);
    }
}

pub(super) fn object() -> Ask {
    Ask::Put(Box::default())
}

#[test]
fn cut_off_sites_make_the_same_bucket_for_one_owner() {
    let (mut oslo, mut bergen) = (Site::new(1, "oslo"), Site::new(2, "bergen"));
    let first = oslo.create("photos", "ann");
    assert_eq!(bergen.create("photos", "ann"), first);
    exchange(&mut oslo, &mut bergen, &[]);
    assert_eq!(oslo.names(), ["photos"]);
    assert_eq!(oslo.id_of("photos"), Some(first));
    assert!(matches!(oslo.try_create("photos", "ann"), Err(ClaimRefusal::Yours(_))));
    assert!(matches!(oslo.try_create("photos", "bob"), Err(ClaimRefusal::Taken(_))));
    assert!(matches!(oslo.try_create("Photos", "bob"), Err(ClaimRefusal::Name(_))));
}

#[test]
fn of_two_owners_the_earlier_keeps_the_name() {
    let (mut oslo, mut bergen) = (Site::new(1, "oslo"), Site::new(2, "bergen"));
    let early = oslo.create("photos", "ann");
    let late = bergen.create("photos", "bob");
    assert_ne!(early, late);
    assert_eq!(bergen.id_of("photos"), Some(late));
    exchange(&mut oslo, &mut bergen, &[]);
    for site in [&oslo, &bergen] {
        assert_eq!(site.names(), ["photos", "photos--bergen"]);
        assert_eq!(site.id_of("photos"), Some(early));
        assert_eq!(site.id_of("photos--bergen"), Some(late));
        assert_eq!(site.id_of("photos--oslo"), None);
        assert_eq!(list_buckets(&site.tables, system(), Some("bob")).unwrap().len(), 1);
    }
    oslo.delete("photos").unwrap();
    assert_eq!(oslo.id_of("photos"), Some(late), "the name falls to who is left");
}

#[test]
fn a_bucket_made_again_is_another() {
    let (mut oslo, mut bergen) = (Site::new(1, "oslo"), Site::new(2, "bergen"));
    let first = oslo.create("photos", "ann");
    oslo.delete("photos").unwrap();
    assert_eq!(oslo.find("photos"), None);
    exchange(&mut oslo, &mut bergen, &[]);
    let second = oslo.create("photos", "ann");
    assert_ne!(second, first);
    assert_eq!(bergen.create("photos", "ann"), second, "both saw the same deletion");
    exchange(&mut oslo, &mut bergen, &[]);
    assert_eq!(oslo.names(), ["photos"]);
    oslo.delete("photos").unwrap();
    assert!(![first, second].contains(&oslo.create("photos", "ann")));
}

#[test]
fn a_bucket_with_something_in_it_is_not_deleted() {
    let mut oslo = Site::new(1, "oslo");
    let bucket = oslo.create("photos", "ann");
    oslo.write(bucket, "k", object());
    assert!(matches!(oslo.delete("photos"), Err(ClaimRefusal::NotEmpty)));
    oslo.write(bucket, "k", Ask::Delete);
    oslo.delete("photos").unwrap();
    assert_eq!(oslo.revive(), 0);
}

#[test]
fn deletions_are_found() {
    let mut oslo = Site::new(1, "oslo");
    let (first, living) = (oslo.create("photos", "ann"), oslo.create("films", "ann"));
    assert_eq!(deleted_buckets(&oslo.tables, system()).unwrap(), BTreeMap::new());
    oslo.delete("photos").unwrap();
    let second = oslo.create("photos", "ann");
    let found = deleted_buckets(&oslo.tables, system()).unwrap();
    assert_eq!(found, BTreeMap::from([(first, "photos".to_owned())]));
    let is_deleted = |name, bucket| is_deleted(&oslo.tables, system(), name, bucket).unwrap();
    assert!(is_deleted("photos", first));
    assert!(!is_deleted("photos", second) && !is_deleted("films", living) && !is_deleted("none", first));
}

#[test]
fn a_deletion_where_the_bucket_is_not_kept_is_not_undone_by_a_member_that_lags() {
    let [mut oslo, mut bergen] = [Site::new(1, "oslo"), Site::new(2, "bergen")];
    let mut here = Site::new(3, "here");
    let bucket = oslo.create("photos", "ann");
    oslo.write(bucket, "old", object());
    exchange(&mut oslo, &mut bergen, &[bucket]);
    exchange(&mut oslo, &mut here, &[]);
    oslo.write(bucket, "old", Ask::Delete);
    // Oslo says that the bucket is empty, and what it has seen.
    let heard = space::vector(&oslo.tables, bucket).unwrap();
    let found = here.find("photos").unwrap().claim;
    let claimed = unclaim_after(&here.tables, system(), &found, heard, WallTime(here.wall)).unwrap();
    here.put_claim(claimed);
    feed(&here, &mut bergen, system());
    assert_eq!(
        (bergen.find("photos").is_some(), bergen.revive()),
        (false, 0),
        "it still shows the old object"
    );
    exchange(&mut oslo, &mut bergen, &[bucket]);
    assert_eq!(bergen.revive(), 0);
}

#[test]
fn a_put_that_the_deletion_had_not_seen_revives_the_bucket() {
    let (mut oslo, mut bergen) = (Site::new(1, "oslo"), Site::new(2, "bergen"));
    let bucket = oslo.create("photos", "ann");
    oslo.write(bucket, "old", object());
    exchange(&mut oslo, &mut bergen, &[bucket]);
    bergen.write(bucket, "new", object());
    oslo.write(bucket, "old", Ask::Delete);
    oslo.delete("photos").unwrap();
    feed(&oslo, &mut bergen, system());
    assert_eq!(bergen.revive(), 0, "it has not seen what the deletion saw: what it shows may be deleted");
    exchange(&mut oslo, &mut bergen, &[bucket]);
    assert_eq!(bergen.revive(), 1);
    exchange(&mut oslo, &mut bergen, &[bucket]);
    for site in [&mut oslo, &mut bergen] {
        let found = site.find("photos").unwrap().claim;
        assert_eq!((found.bucket, found.revived), (bucket, 1));
        assert_eq!(site.revive(), 0);
    }
}

#[test]
fn a_claim_of_a_name_moves_one_that_only_appears_under_it_to_a_name_of_its_own() {
    let (mut oslo, mut bergen) = (Site::new(1, "oslo"), Site::new(2, "bergen"));
    let early = oslo.create("photos", "ann");
    let late = bergen.create("photos", "bob");
    let direct = bergen.create("photos--bergen", "bob");
    exchange(&mut oslo, &mut bergen, &[]);
    let with_id = format!("photos--bergen--{late}");
    for site in [&oslo, &bergen] {
        assert_eq!(site.names(), ["photos", "photos--bergen", &*with_id]);
        assert_eq!(site.id_of("photos"), Some(early));
        assert_eq!(site.id_of("photos--bergen"), Some(direct));
        assert_eq!(site.id_of(&with_id), Some(late), "a bucket that no name finds is as good as lost");
        assert_eq!(list_buckets(&site.tables, system(), Some("bob")).unwrap().len(), 2);
    }
    bergen.delete("photos--bergen").unwrap();
    assert_eq!(bergen.names(), ["photos", "photos--bergen"]);
    assert_eq!(bergen.id_of("photos--bergen"), Some(late));
}

#[test]
fn ids_are_derived_without_ambiguity() {
    let dot = skerry_base::Dot::default();
    let ids = [
        incarnation("ab", "c", None),
        incarnation("a", "bc", None),
        incarnation("ab", "c", Some(dot)),
        system_bucket(b"abc"),
    ];
    let mut distinct = ids.to_vec();
    distinct.sort();
    distinct.dedup();
    assert_eq!(distinct.len(), ids.len());
    assert_eq!(incarnation("ab", "c", None).to_string(), "a0968c014f3fc7bd1a7d9a8d1ad1177e");
    assert_eq!(system_bucket(b"abc").to_string(), "0c277860ab83f6d30154274b0faa8968");
}

#[test]
fn system_keys_print_and_parse() {
    let keys = [
        SystemKey::Site(SiteId([7; 16])),
        SystemKey::Claim { name: "a.b--c".into(), bucket: BucketId([8; 16]) },
        SystemKey::AccessKey("AKIA/1".into()),
        SystemKey::Home(BucketId([9; 16])),
        SystemKey::Seen(BucketId([9; 16]), 0xab),
    ];
    for key in keys {
        assert_eq!(SystemKey::parse(&key.to_string()), Some(key));
    }
    let seen = format!("seen/{}/ab", BucketId([9; 16]));
    for key in ["", "site", "site/x", "claim/a", "claim/a/x", "other/a", "seen/a", &seen] {
        assert_eq!(SystemKey::parse(key), None, "{key}");
    }
}

fn pinned<T: Versioned + PartialEq + core::fmt::Debug>(fixture: &str, document: &T) {
    let hex = skerry_base::hex::text(&codec::encode(document));
    assert_eq!(hex, fixture.trim());
    let object = document_object(document, WallTime(1));
    assert_eq!(object.check(), Ok(()));
    assert_eq!(codec::decode::<T>(&object.document.unwrap()).unwrap(), *document);
}

fn key_document() -> KeyDocument {
    KeyDocument {
        secret: Bytes::from_static(b"sealed"),
        owner: "ann".into(),
        status: KeyStatus::Disabled,
        created: WallTime(5),
        expires: Some(WallTime(6)),
        sites: vec![SiteId([1; 16])],
        admin: false,
        buckets: Some(vec!["photos".into()]),
        read: true,
        write: false,
        policy: "{}".into(),
        description: "phone".into(),
    }
}

fn site_document() -> SiteDocument {
    let node = |n: u8| NodeEntry { node: NodeId([n; 16]), key: [n; 32], addresses: vec!["h:1".into()] };
    SiteDocument {
        name: "oslo".into(),
        nodes: vec![node(1), node(2)],
        admissions: vec![Bytes::from_static(b"signed")],
        state: SiteState::Replaced(SiteId([3; 16])),
        joined: WallTime(9),
    }
}

fn claim_document() -> ClaimDocument {
    let origin = Origin { node: NodeId([1; 16]), incarnation: 2 };
    let config = BucketConfig {
        home: Some((SiteId([4; 16]), 2)),
        loss_ppm: Some(100),
        residency: vec![SiteId([5; 16])],
        more: vec![("a".into(), "b".into())],
        ..BucketConfig::default()
    };
    ClaimDocument {
        name: "photos".into(),
        bucket: BucketId([6; 16]),
        owner: "ann".into(),
        created: WallTime(7),
        site: SiteId([8; 16]),
        site_name: "oslo".into(),
        state: ClaimState::Deleted(Seen::of(&Vector::from_iter([(origin, 3)]))),
        revived: 1,
        config,
    }
}

/// Fixtures of version 1 must decode for ever. Never regenerate them.
#[test]
fn document_fixtures_of_version_1() {
    pinned(include_str!("fixtures/site.v1.hex"), &site_document());
    pinned(include_str!("fixtures/claim.v1.hex"), &claim_document());
    pinned(include_str!("fixtures/key.v1.hex"), &key_document());
}

#[test]
fn a_deletion_remembers_some_hundred_and_fifty_lives() {
    let origin = |n: u64| Origin { node: NodeId([n as u8; 16]), incarnation: n };
    let vector: Vector = (1..=150).map(|n| (origin(n), 1000)).collect();
    let seen = Seen::of(&vector);
    assert!(seen.is_included_in(&vector));
    let mut more = vector.clone();
    more.advance(origin(151), 1);
    assert!(seen.is_included_in(&more) && !Seen::of(&more).is_included_in(&vector));
    let claim = ClaimDocument { state: ClaimState::Deleted(seen), ..claim_document() };
    assert_eq!(document_object(&claim, WallTime(0)).check(), Ok(()));
}

#[test]
fn rosters_and_keys_are_read_back() {
    let mut oslo = Site::new(1, "oslo");
    let site = SiteId([1; 16]);
    let put = |object| Ask::Put(Box::new(object));
    oslo.write(
        system(),
        &SystemKey::Site(site).to_string(),
        put(document_object(&site_document(), WallTime(0))),
    );
    let id = SystemKey::AccessKey("AKIA".into()).to_string();
    oslo.write(system(), &id, put(document_object(&key_document(), WallTime(0))));
    oslo.create("photos", "ann");
    assert_eq!(sites(&oslo.tables, system()).unwrap(), [(site, site_document())]);
    assert_eq!(keys(&oslo.tables, system()).unwrap(), [("AKIA".to_owned(), key_document())]);
    oslo.write(system(), &id, Ask::Delete);
    assert!(keys(&oslo.tables, system()).unwrap().is_empty());
    let current: Option<Record> = space::current(&oslo.tables, system(), &id).unwrap();
    assert_eq!(document::<KeyDocument>(&current.unwrap()).unwrap(), None);
}
