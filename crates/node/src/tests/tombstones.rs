//! Deletes are remembered for a day that no clock on a wall shortens, and until all members have seen them.

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

/// The worker's first turn comes with a start, the next a minute later.
async fn restart(site: &mut TestSite) {
    site.stop().await;
    site.start().await;
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
    assert_eq!((remembered(site, id), row(site, id)), (2, None));
    restart(site).await;
    site.until("they begin to rest", || async { row(site, id).is_some() }).await;
    assert_eq!(remembered(site, id), 2, "both are of this minute");
    counts(site, DAY_MS - 60_000).await;
    restart(site).await;
    delete_at(site, id, "late", 0).await;
    counts(site, DAY_MS + 60_000).await;
    restart(site).await;
    site.until("what rested for a day is gone", || async { remembered(site, id) == 1 }).await;
    // The turn ends by writing down what it found and counted: over what is said here, if that came before.
    let is_written = || async { row(site, id).is_some_and(|row| !row.rested().is_empty()) };
    site.until("the turn is over", is_written).await;
    counts(site, 2 * DAY_MS + 180_000).await;
    restart(site).await;
    site.until("so is what came then", || async { remembered(site, id) == 0 }).await;
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
    restart(one).await;
    one.until("it begins to rest", || async { row(one, id).is_some() }).await;
    counts(one, DAY_MS + 60_000).await;
    restart(one).await;
    let seen = space::vector(&one.site().store.view(), id).unwrap();
    one.until("it has rested", || async { row(one, id).is_some_and(|row| *row.rested() == seen) }).await;
    assert_eq!(remembered(one, id), 1, "nobody has heard the other");
    let odd = Entry::Local { key: Bytes::from_static(COUNTED), value: Some(Bytes::from_static(b"odd")) };
    let say = move |_: &dyn View| Ok(((), vec![entry(&odd)]));
    one.site().commit(one.site().system, (), say).await.unwrap();
    restart(one).await;
    one.until("it begins anew", || async { row(one, id).is_some_and(|row| row.rested().is_empty()) }).await;
    world.stop().await;
}
