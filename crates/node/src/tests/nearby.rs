//! Payload that is not here comes from who is near and has it, also when somebody far surely has it.

use std::time::Duration;

use super::world::{TestSite, TestWorld, noise};

const BYTES: usize = 2_500_000;

/// Whoever wrote it is far; `near` reads it first, then `reader`. Gives what `reader` got from either.
async fn read_twice(far: &TestSite, near: &TestSite, reader: &TestSite) -> (u64, u64) {
    far.create_bucket("photos").await.unwrap();
    far.put("photos", "view", noise(BYTES, 1)).await.unwrap();
    let had = || async { near.get("photos", "view").await.is_ok() };
    near.until("the object is here", had).await;
    // Once it has the records it asks nobody else who has the object.
    assert_eq!(reader.list("photos").await.unwrap(), ["view"]);
    let bucket = reader.site().bucket("photos").await.unwrap().unwrap().id;
    reader.until("the records are here", || async { reader.site().is_complete(bucket) }).await;
    let before = (reader.received_from(far), reader.received_from(near));
    assert_eq!(reader.get("photos", "view").await.unwrap(), noise(BYTES, 1));
    (reader.received_from(far) - before.0, reader.received_from(near) - before.1)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_fellow_has_read_does_not_come_from_another_site_again() {
    let world = TestWorld::of_nodes(2, 1).await;
    let [one, fellow, far] = &world.sites[..] else { panic!("two nodes and a site") };
    let (from_far, from_fellow) = read_twice(far, one, fellow).await;
    assert!(from_far < BYTES as u64 / 10, "{from_far} bytes came from the other site");
    assert!(from_fellow > BYTES as u64, "{from_fellow} bytes came from the fellow");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_neighbour_has_read_does_not_come_from_afar() {
    let world = TestWorld::new(3).await;
    let [far, near, reader] = &world.sites[..] else { panic!("three sites") };
    reader.set_rtt(far, Duration::from_secs(1));
    reader.set_rtt(near, Duration::from_millis(2));
    let (from_far, from_near) = read_twice(far, near, reader).await;
    assert!(from_far < BYTES as u64 / 10, "{from_far} bytes came from afar");
    assert!(from_near > BYTES as u64, "{from_near} bytes came from next door");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_neighbour_without_it_or_not_much_nearer_is_passed_by() {
    let world = TestWorld::new(3).await;
    let [far, near, reader] = &world.sites[..] else { panic!("three sites") };
    reader.set_rtt(far, Duration::from_millis(20));
    reader.set_rtt(near, Duration::from_millis(15));
    let (from_far, _) = read_twice(far, near, reader).await;
    assert!(from_far > BYTES as u64, "{from_far} bytes came from who surely has it");
    // Now it is much nearer, and has nothing of this one.
    reader.set_rtt(far, Duration::from_secs(1));
    far.put("photos", "sea", noise(BYTES, 2)).await.unwrap();
    let known = || async { reader.list("photos").await.is_ok_and(|keys| keys.len() == 2) };
    reader.until("the record is here", known).await;
    assert_eq!(reader.get("photos", "sea").await.unwrap(), noise(BYTES, 2));
    world.stop().await;
}
