//! Writes at a site that does not hold all of the bucket yet: whom they wait for, and for how long.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;

use skerry_base::BucketId;

use super::world::{TestSite, TestWorld};

/// Objects that a site has asked others for.
fn asked(site: &TestSite) -> u64 {
    site.site().peers.reads.load(Ordering::Relaxed)
}

/// Two sites that hold a bucket, of which the second thinks that it does not have all of it.
async fn half_joined() -> (TestWorld, BucketId) {
    let world = TestWorld::new(2).await;
    let [home, other] = &world.sites[..] else { unreachable!() };
    home.create_bucket("tide").await.unwrap();
    home.put("tide", "old", "first").await.unwrap();
    other.until("the name is known", || async { other.site().bucket("tide").await.unwrap().is_some() }).await;
    let id = other.site().bucket("tide").await.unwrap().unwrap().id;
    other.site().join(id).await.unwrap();
    other.until("the site has it all", || async { other.site().is_complete(id) }).await;
    other.site().members.write().unwrap_or_else(PoisonError::into_inner).insert(id, false);
    (world, id)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_put_asks_a_member_before_it_overwrites() {
    let (world, _) = half_joined().await;
    let [home, other] = &world.sites[..] else { unreachable!() };
    for _ in 0..2 {
        let before = asked(other);
        other.put("tide", "old", "second").await.unwrap();
        assert!(asked(other) > before, "it is heard what the home has of the key");
    }
    home.until("the overwrite is known", || async { home.get("tide", "old").await.unwrap() == "second" })
        .await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn puts_behind_one_that_nobody_answered_do_not_wait_for_the_same_silence() {
    let (world, _) = half_joined().await;
    let [home, other] = &world.sites[..] else { unreachable!() };
    // The member is there and does not answer.
    home.set_delay(other, Duration::from_secs(600));
    other.put("tide", "new", "goes on").await.unwrap();
    let more = async {
        for n in 0..20 {
            other.put("tide", &format!("new-{n}"), "goes on").await.unwrap();
        }
    };
    // Each would wait for two seconds.
    let in_time = tokio::time::timeout(Duration::from_secs(20), more).await;
    assert!(in_time.is_ok(), "they wait for nobody");
    // What deletes must know what there is: it asks, and says so when nobody answers.
    assert!(other.delete("tide", "never-seen").await.is_err());
    world.stop().await;
}
