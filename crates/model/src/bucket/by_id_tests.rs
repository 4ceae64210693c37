//! What a look among many buckets costs, counted in reads; and what comes while nobody looks.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::cell::Cell;
use std::collections::BTreeSet;
use std::ops::{Bound, ControlFlow};

use bytes::Bytes;
use skerry_base::kv::{Table, Tables, View, ViewError, Visit};
use skerry_base::{BucketId, Instant, Vector, WallTime};

use super::{ClaimNames, Deleted, LATE, claimed_since, resolve_id};
use crate::bucket::tests::{Site, exchange, feed, object, system};
use crate::bucket::{list_buckets, revival, revivals};
use crate::space;
use crate::write::Ask;

/// Counts look-ups and rows.
struct Counted<'a>(&'a Tables, Cell<usize>);

impl View for Counted<'_> {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Bytes>, ViewError> {
        self.1.set(self.1.get() + 1);
        self.0.get(table, key)
    }

    fn scan(
        &self,
        table: Table,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        visit: &mut Visit<'_>,
    ) -> Result<(), ViewError> {
        self.1.set(self.1.get() + 1);
        self.0.scan(table, from, to, &mut |name, value| -> ControlFlow<()> {
            self.1.set(self.1.get() + 1);
            visit(name, value)
        })
    }
}

fn counted<T>(site: &Site, look: impl FnOnce(&dyn View) -> Result<T, space::SpaceError>) -> (T, usize) {
    let view = Counted(&site.tables, Cell::new(0));
    let answer = look(&view).unwrap();
    (answer, view.1.get())
}

const MANY: usize = 1000;

fn many() -> (Site, Vec<BucketId>) {
    let mut oslo = Site::new(1, "oslo");
    let buckets = (0..MANY).map(|number| oslo.create(&format!("bucket-{number:06}"), "ann")).collect();
    (oslo, buckets)
}

#[test]
fn a_bucket_is_found_by_its_id_among_many_for_what_came_since() {
    let (mut oslo, buckets) = many();
    let mut names = ClaimNames::default();
    let find = |names: &mut ClaimNames, site: &Site, bucket| {
        counted(site, |view| {
            let name = names.name_of(view, system(), bucket)?;
            let found = name.map(|name| resolve_id(view, system(), (&name, bucket))).transpose()?;
            Ok(found.flatten().map(|found| found.name))
        })
    };
    let (all, cost) = counted(&oslo, |view| list_buckets(view, system(), None));
    let (found, first) = find(&mut names, &oslo, buckets[17]);
    assert_eq!((all.len(), found.as_deref()), (MANY, Some("bucket-000017")));
    assert!(first < 2 * MANY && cost > 4 * MANY, "{first} of {cost}");
    let (found, cost) = find(&mut names, &oslo, buckets[MANY - 1]);
    assert!(found.is_some() && cost < 20, "{cost}");
    let one_more = oslo.create("one-more", "ann");
    let (found, cost) = find(&mut names, &oslo, one_more);
    assert_eq!(found.as_deref(), Some("one-more"));
    assert!(cost < 30, "{cost}");
    // What it is called now is read, not remembered.
    oslo.delete("one-more").unwrap();
    assert_eq!(find(&mut names, &oslo, one_more).0, None);
}

#[test]
fn beyond_the_names_that_are_remembered_all_are_looked_through() {
    let (mut oslo, bergen) = (Site::new(1, "oslo"), Site::new(2, "bergen"));
    let buckets = ["ants", "bees", "cats"].map(|name| oslo.create(name, "ann"));
    let mut names = ClaimNames::at_most(1);
    for (bucket, name) in buckets.iter().chain(&buckets).zip(["ants", "bees", "cats"].iter().cycle()) {
        let found = names.name_of(&oslo.tables, system(), *bucket).unwrap();
        assert_eq!(found.as_deref(), Some(*name));
    }
    assert_eq!(names.name_of(&oslo.tables, system(), BucketId([9; 16])).unwrap(), None);
    assert_eq!(resolve_id(&bergen.tables, system(), ("ants", buckets[0])).unwrap(), None, "not here yet");
}

#[test]
fn a_claim_that_came_before_its_feed_is_told_and_told_again_once_that_has_come() {
    let (mut oslo, mut bergen) = (Site::new(1, "oslo"), Site::new(2, "bergen"));
    oslo.create("ants", "ann");
    let bees = oslo.create("bees", "ann");
    let record =
        space::records_after(&oslo.tables, system(), &Vector::new(), usize::MAX).unwrap().items.pop();
    bergen.apply(&crate::Entry::Record(Box::new(record.unwrap().record)));
    let mut seen = Vector::new();
    let mut since = |site: &Site| {
        claimed_since(&site.tables, system(), &mut seen).unwrap().into_values().collect::<Vec<_>>()
    };
    assert_eq!(
        (since(&bergen), since(&bergen)),
        (vec!["bees".into()], vec!["bees".into()]),
        "ahead of the vector"
    );
    feed(&oslo, &mut bergen, system());
    assert_eq!(since(&bergen), ["ants", "bees"]);
    assert_eq!(since(&bergen), [""; 0]);
    assert_eq!(
        ClaimNames::default().name_of(&bergen.tables, system(), bees).unwrap().as_deref(),
        Some("bees")
    );
}

#[test]
fn a_deleted_bucket_among_many_comes_back_for_what_came_since() {
    let (mut oslo, mut buckets) = many();
    let mut bergen = Site::new(2, "bergen");
    exchange(&mut oslo, &mut bergen, &[]);
    let of = buckets.pop().unwrap();
    let name = format!("bucket-{:06}", MANY - 1);
    let mut deleted = Deleted::default();
    assert!(!deleted.follow(&oslo.tables, system()).unwrap(), "none is");
    oslo.delete(&name).unwrap();
    bergen.write(of, "key", object());
    let (is_other, cost) = counted(&oslo, |view| deleted.follow(view, system()));
    assert!(is_other && cost < 20, "{cost}");
    assert_eq!(deleted.all().collect::<Vec<_>>(), [of]);
    let none = BTreeSet::new();
    let look = |deleted: &mut Deleted, site: &Site, changed: &[BucketId]| {
        let changed = changed.iter().copied().chain(buckets.iter().copied()).collect();
        counted(site, |view| deleted.revivals(view, system(), &changed, (WallTime(9), Instant(0))))
    };
    assert_eq!(look(&mut deleted, &oslo, &[of]).0, [], "nothing has come");
    feed(&bergen, &mut oslo, of);
    assert_eq!(look(&mut deleted, &oslo, &[]).0, [], "nobody says that something came");
    let (found, cost) = look(&mut deleted, &oslo, &[of]);
    assert!(cost < 20, "{cost}");
    assert_eq!(
        found.iter().map(|(found, claimed)| (found.as_str(), claimed.bucket)).collect::<Vec<_>>(),
        [(name.as_str(), of)]
    );
    assert_eq!(revivals(&oslo.tables, system(), WallTime(9)).unwrap(), [found[0].1.clone()]);
    // Its claim was not written: it is found again.
    assert_eq!(deleted.revivals(&oslo.tables, system(), &none, (WallTime(9), Instant(0))).unwrap(), found);
    oslo.put_claim(found[0].1.clone());
    assert!(deleted.follow(&oslo.tables, system()).unwrap());
    assert_eq!((deleted.all().count(), look(&mut deleted, &oslo, &[of]).0.len()), (0, 0));
}

#[test]
fn what_was_written_before_the_word_of_the_deletion_came_is_seen_with_that_word() {
    let (mut oslo, mut bergen) = (Site::new(1, "oslo"), Site::new(2, "bergen"));
    let of = oslo.create("ants", "ann");
    exchange(&mut oslo, &mut bergen, &[of]);
    oslo.delete("ants").unwrap();
    bergen.write(of, "key", object());
    let mut deleted = Deleted::default();
    deleted.follow(&bergen.tables, system()).unwrap();
    feed(&oslo, &mut bergen, system());
    deleted.follow(&bergen.tables, system()).unwrap();
    let found =
        deleted.revivals(&bergen.tables, system(), &BTreeSet::new(), (WallTime(9), Instant(0))).unwrap();
    assert_eq!(found.len(), 1);
}

/// A bucket whose site emptied and deleted it and burned, and the other site, which heard of the deletion of the bucket alone.
fn burned() -> (BucketId, Site) {
    let (mut oslo, mut bergen) = (Site::new(1, "oslo"), Site::new(2, "bergen"));
    let of = oslo.create("ants", "ann");
    oslo.write(of, "old", object());
    exchange(&mut oslo, &mut bergen, &[of]);
    oslo.write(of, "old", Ask::Delete);
    oslo.delete("ants").unwrap();
    feed(&oslo, &mut bergen, system());
    (of, bergen)
}

#[test]
fn a_deleted_bucket_comes_back_by_an_unseen_write_though_what_its_deletion_saw_burned() {
    let (of, mut bergen) = burned();
    let mut deleted = Deleted::default();
    let mut look = |site: &Site, changed: &[BucketId], hours: u64| {
        let now = Instant(0).after(LATE * u32::try_from(hours).unwrap());
        deleted.follow(&site.tables, system()).unwrap();
        let changed = changed.iter().copied().collect();
        let found = deleted.revivals(&site.tables, system(), &changed, (WallTime(9), now)).unwrap();
        (found.len(), deleted.next_look().map(|at| at.0 / Instant(0).after(LATE).0))
    };
    assert_eq!(look(&bergen, &[of], 1), (0, None), "what is visible was seen by the deletion");
    bergen.write(of, "new", object());
    assert_eq!(look(&bergen, &[of], 2), (0, Some(3)), "what the deletion saw may be on its way");
    assert_eq!(look(&bergen, &[of], 2), (0, Some(3)));
    assert_eq!(look(&bergen, &[], 3).0, 1, "an acknowledged write is not left invisible");
    let claimed = revival(&bergen.tables, system(), ("ants", of), (WallTime(9), true)).unwrap();
    bergen.put_claim(claimed.unwrap());
    assert_eq!(look(&bergen, &[of], 4), (0, None));
    assert_eq!(bergen.id_of("ants"), Some(of));
}

#[test]
fn what_a_deletion_had_not_seen_and_is_deleted_by_now_brings_nothing_back() {
    let (of, mut bergen) = burned();
    for ask in [object(), Ask::Delete] {
        bergen.write(of, "late", ask);
    }
    assert_eq!(revival(&bergen.tables, system(), ("ants", of), (WallTime(9), true)).unwrap(), None);
}
