//! Deletes are remembered for a day that no clock on a wall shortens, and until all members have seen them.

use std::cell::Cell;

use bytes::Bytes;
use skerry_base::kv::View;
use skerry_base::time::HlcClock;
use skerry_base::{BucketId, WallTime, codec};
use skerry_gateway::service::JoinRequest;
use skerry_model::record::{Scope, Versioning};
use skerry_model::rest::Rest;
use skerry_model::retire::{Settled, Sweep, droppable};
use skerry_model::write::{Ask, Conditions, Intent, Proposed, propose};
use skerry_model::{Entry, space};

use super::world::{TestSite, TestWorld};
use crate::drive::stored::Stored;
use crate::site::entry;
use crate::workers::resting::{COUNTED, REST};
use crate::workers::tombstones;

const DAY_MS: u64 = 24 * 3600 * 1000;

/// Writes as one whose clock says so.
async fn write(site: &TestSite, bucket: BucketId, key: &'static str, (wall, ask): (u64, Ask)) {
    let owner = site.site().clone();
    let decide = move |view: &dyn View| {
        let intent = Intent {
            bucket,
            key,
            origin: owner.stamps.origin_of(bucket),
            site: owner.id,
            wall: WallTime(wall),
            present: None,
            versioning: Versioning::Off,
            writer: "test",
            scope: Scope::Node,
            home: None,
            placement: None,
            conditions: &Conditions::default(),
            ask,
        };
        let Ok(Proposed::Write { record, .. }) = propose(view, intent, &mut HlcClock::default()) else {
            panic!("nothing to write");
        };
        Ok(((), vec![entry(&Entry::Write(record))]))
    };
    site.site().commit(bucket, (), decide).await.unwrap();
}

async fn delete_at(site: &TestSite, bucket: BucketId, key: &'static str, wall: u64) {
    write(site, bucket, key, (wall, Ask::Put(Box::default()))).await;
    write(site, bucket, key, (wall, Ask::Delete)).await;
}

/// How many deletes a site remembers, if it alone were asked.
fn remembered(site: &TestSite, bucket: BucketId) -> usize {
    let view = site.site().store.view();
    let seen = space::vector(&view, bucket).unwrap();
    droppable(&view, bucket, Settled { covered_by_all: &seen }, &Sweep::START, 100).unwrap().0.len()
}

fn row(site: &TestSite, bucket: BucketId) -> Option<Rest> {
    let row = space::local(&site.site().store.view(), &Stored::Rest.key(bucket)).unwrap();
    row.map(|row| codec::decode(&row).unwrap())
}

async fn counts(site: &TestSite, ms: u64) {
    let value = Some(Bytes::copy_from_slice(&ms.to_be_bytes()));
    let counted = Entry::Local { key: Bytes::from_static(COUNTED), value };
    let say = move |_: &dyn View| Ok(((), vec![entry(&counted)]));
    site.site().commit(site.site().system, (), say).await.unwrap();
}

/// The site itself looks a minute after its start again: here, when so much time was counted.
async fn looks_at(site: &TestSite, ms: u64) {
    counts(site, ms).await;
    tombstones::turn(site.site().clone()).await;
}

/// Looks until something holds: the machine is told after a start who is a member, and nothing goes before. Each look is a
/// second later than the one before, for time that goes back makes it begin anew.
async fn looks_from(site: &TestSite, ms: u64, what: &str, holds: impl Fn() -> bool) {
    let at = Cell::new(ms);
    let looks = || async {
        looks_at(site, at.replace(at.get() + 1000)).await;
        holds()
    };
    site.until(what, looks).await;
}

/// One delete by a clock that was never set, one by a clock that is ahead by 200 days.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_wall_clock_shortens_or_lengthens_the_day_for_which_deletes_are_remembered() {
    assert_eq!(REST.as_millis(), u128::from(DAY_MS));
    let mut world = TestWorld::new(1).await;
    let [site] = &mut world.sites[..] else { panic!("one site") };
    site.create_bucket("photos").await.unwrap();
    let id = site.site().bucket("photos").await.unwrap().unwrap().id;
    delete_at(site, id, "never-set", 0).await;
    let ahead = site.site().clock.wall().0 + 200 * DAY_MS;
    delete_at(site, id, "ahead", ahead).await;
    looks_at(site, 0).await;
    assert!(row(site, id).is_some(), "they begin to rest");
    assert_eq!(remembered(site, id), 2, "both are of this minute");
    // What was counted and what rests is kept over a stop.
    site.stop().await;
    site.start().await;
    looks_at(site, DAY_MS - 60_000).await;
    assert_eq!(remembered(site, id), 2, "not for a day yet");
    delete_at(site, id, "late", 0).await;
    looks_from(site, DAY_MS + 60_000, "what rested for a day is gone", || remembered(site, id) == 1).await;
    looks_at(site, 2 * DAY_MS).await;
    assert_eq!(remembered(site, id), 1, "it came later");
    looks_from(site, 2 * DAY_MS + 7_200_000, "so is what came then", || remembered(site, id) == 0).await;
    world.stop().await;
}

/// Members that are away have not seen it, however long it has rested; a count that is no number begins anew.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_has_rested_stays_while_a_member_is_away() {
    let mut world = TestWorld::new(2).await;
    let [one, two] = &mut world.sites[..] else { panic!("two sites") };
    one.create_bucket("photos").await.unwrap();
    two.until("the bucket is known", || async { two.site().bucket("photos").await.unwrap().is_some() }).await;
    let id = one.site().bucket("photos").await.unwrap().unwrap().id;
    two.services().admin.join_bucket("photos", JoinRequest::default()).await.unwrap();
    two.until("the bucket is followed whole", || async { two.site().is_complete(id) }).await;
    two.stop().await;
    delete_at(one, id, "k", 0).await;
    looks_at(one, 0).await;
    assert!(row(one, id).is_some(), "it begins to rest");
    let seen = space::vector(&one.site().store.view(), id).unwrap();
    looks_at(one, DAY_MS + 60_000).await;
    assert!(row(one, id).is_some_and(|row| *row.rested() == seen), "it has rested");
    assert_eq!(remembered(one, id), 1, "nobody has heard the other");
    let odd = Entry::Local { key: Bytes::from_static(COUNTED), value: Some(Bytes::from_static(b"odd")) };
    let say = move |_: &dyn View| Ok(((), vec![entry(&odd)]));
    one.site().commit(one.site().system, (), say).await.unwrap();
    tombstones::turn(one.site().clone()).await;
    assert!(row(one, id).is_some_and(|row| row.rested().is_empty()), "it begins anew");
    world.stop().await;
}
