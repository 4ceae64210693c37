//! A claim that is lost while its bucket is not.

#![expect(clippy::unwrap_used, reason = "tests")]

use super::super::tests::{Site, exchange, system};
use super::super::{BucketConfig, incarnation, resolve, unclaim};
use super::*;
use crate::record::Versioning;
use skerry_base::SiteId;
use skerry_base::kv::Tables;

impl Site {
    fn spares(&mut self, followed: &[BucketId]) -> usize {
        let followed = followed.iter().copied().collect();
        let entries = spared(&self.tables, system(), &followed).unwrap();
        entries.iter().for_each(|entry| self.apply(entry));
        entries.len()
    }

    /// All that was ever said in the system bucket is lost; what lies in this node's own table is not.
    fn lose_claims(&mut self) {
        let mut kept = Tables::default();
        let mut batch = skerry_base::kv::Batch::default();
        self.tables
            .scan_prefix(Table::Local, PREFIX, &mut |key, value| {
                batch.put(Table::Local, key.to_vec(), value.to_vec());
                ControlFlow::Continue(())
            })
            .unwrap();
        kept.apply(&batch);
        self.tables = kept;
    }

    fn mend(&mut self) -> Vec<BucketId> {
        let missing = lost_claims(&self.tables, system(), WallTime(self.wall)).unwrap();
        missing.into_iter().map(|claimed| self.put_claim(claimed)).collect()
    }
}

#[test]
fn a_claim_that_is_lost_is_written_again_as_it_was() {
    let mut oslo = Site::new(1, "oslo");
    let photos = oslo.create("photos", "anna");
    let other = oslo.create("other", "anna");
    assert_eq!(oslo.spares(&[photos]), 1);
    assert_eq!(oslo.spares(&[photos]), 0, "once");
    let config = BucketConfig { versioning: Versioning::Enabled, ..BucketConfig::default() };
    let claim = ClaimDocument { config, ..oslo.find("photos").unwrap().claim };
    oslo.put_claim(Claimed::new(&claim, WallTime(9)));
    assert_eq!(oslo.spares(&[photos]), 1, "settings go along");
    assert!(oslo.mend().is_empty(), "nothing is lost");
    oslo.lose_claims();
    assert!(oslo.find("photos").is_none());
    let one = lost_claim(&oslo.tables, system(), photos, WallTime(9)).unwrap();
    assert_eq!(one.map(|claimed| claimed.bucket), Some(photos));
    assert!(lost_claim(&oslo.tables, system(), other, WallTime(9)).unwrap().is_none());
    assert_eq!(oslo.mend(), [photos], "a bucket that is not followed has no spare");
    assert_eq!(oslo.find("photos").unwrap().claim, claim);
    assert!(oslo.mend().is_empty(), "once");
}

#[test]
fn what_another_site_said_of_it_stands() {
    let (mut oslo, mut bergen) = (Site::new(1, "oslo"), Site::new(2, "bergen"));
    let photos = oslo.create("photos", "anna");
    oslo.spares(&[photos]);
    exchange(&mut oslo, &mut bergen, &[]);
    bergen.delete("photos").unwrap();
    oslo.lose_claims();
    exchange(&mut oslo, &mut bergen, &[]);
    assert!(oslo.mend().is_empty(), "it was deleted there");
    assert_eq!(oslo.spares(&[photos]), 1);
    assert!(spares(&oslo.tables, system()).unwrap().is_empty(), "with the bucket goes its spare");
}

#[test]
fn a_spare_goes_with_the_membership_and_belongs_to_one_federation() {
    let mut oslo = Site::new(1, "oslo");
    let (photos, other) = (oslo.create("photos", "anna"), oslo.create("other", "anna"));
    assert_eq!(oslo.spares(&[photos, other]), 2);
    oslo.apply(&forget_spare(photos));
    assert_eq!(oslo.spares(&[]), 1, "who finds the membership gone forgets it");
    oslo.spares(&[other]);
    let elsewhere = super::super::system_bucket(b"another federation");
    assert!(lost_claims(&oslo.tables, elsewhere, WallTime(9)).unwrap().is_empty());
    assert!(lost_claim(&oslo.tables, elsewhere, other, WallTime(9)).unwrap().is_none());
}

#[test]
fn a_spare_that_cannot_be_read_is_written_anew() {
    let mut oslo = Site::new(1, "oslo");
    let photos = oslo.create("photos", "anna");
    oslo.spares(&[photos]);
    oslo.apply(&Entry::Local { key: name(photos), value: Some(Bytes::from_static(&[9, 9])) });
    assert!(oslo.mend().is_empty());
    assert!(lost_claim(&oslo.tables, system(), photos, WallTime(9)).unwrap().is_none());
    assert_eq!((oslo.spares(&[photos]), oslo.spares(&[photos])), (1, 0));
}

/// Its id is made of name and owner: what was in it is in it again, under what it was told to be.
#[test]
fn who_makes_a_bucket_whose_claim_is_lost_gets_the_one_that_was() {
    let mut oslo = Site::new(1, "oslo");
    let photos = oslo.create("photos", "anna");
    let config = BucketConfig { versioning: Versioning::Enabled, ..BucketConfig::default() };
    let claim = ClaimDocument { config, ..oslo.find("photos").unwrap().claim };
    oslo.put_claim(Claimed::new(&claim, WallTime(9)));
    oslo.spares(&[photos]);
    assert_eq!(spared_buckets(&oslo.tables, system()).unwrap(), [photos].into());
    oslo.lose_claims();
    oslo.wall += 1;
    assert_eq!(oslo.create("photos", "anna"), photos);
    assert_eq!(oslo.find("photos").unwrap().claim, claim);
    assert_ne!(oslo.create("other", "anna"), photos);
}

/// A bucket that is made again under its name after it was deleted is another one.
#[test]
fn a_bucket_of_the_same_name_is_not_taken_for_it() {
    let mut oslo = Site::new(1, "oslo");
    let first = oslo.create("photos", "anna");
    oslo.spares(&[first]);
    let claim = oslo.find("photos").unwrap().claim;
    let gone = unclaim(&oslo.tables, system(), &claim, WallTime(9)).unwrap();
    oslo.put_claim(gone);
    let second = oslo.create("photos", "anna");
    assert_ne!(first, second);
    assert_eq!(oslo.spares(&[second]), 2, "one goes, one comes");
    assert!(oslo.mend().is_empty());
    assert_eq!(resolve(&oslo.tables, system(), "photos").unwrap().unwrap().claim.bucket, second);
}

/// Version 1: must decode for ever. Never regenerate it.
#[test]
fn v1_fixture() {
    let claim = ClaimDocument {
        name: "photos".into(),
        bucket: incarnation("photos", "anna", None),
        owner: "anna".into(),
        created: WallTime(7),
        site: SiteId([8; 16]),
        site_name: "oslo".into(),
        state: ClaimState::Live,
        revived: 1,
        config: BucketConfig::default(),
    };
    let spare = Spare { system: BucketId([9; 16]), claim };
    let bytes = codec::encode(&spare);
    let hex = skerry_base::hex::text(&bytes);
    assert_eq!(hex, include_str!("fixtures/spare.v1.hex").trim());
    assert_eq!(codec::decode::<Spare>(&bytes).unwrap(), spare);
}
