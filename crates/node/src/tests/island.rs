//! Sites that are cut off, and what comes of it afterwards.

use skerry_gateway::service::{ConflictQuery, ErrorKind};

use super::world::{TestWorld, key, noise};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_sides_of_a_cut_go_on_and_agree_afterwards() {
    let world = TestWorld::new(3).await;
    let [one, two, three] = &world.sites[..] else { panic!("three sites") };
    one.create_bucket("photos").await.unwrap();
    one.put("photos", "kept", "kept").await.unwrap();
    one.put("photos", "gone", "gone").await.unwrap();
    for site in [two, three] {
        site.until("the bucket is known", || async { site.site().bucket("photos").await.unwrap().is_some() })
            .await;
        assert_eq!(site.list("photos").await.unwrap(), ["gone", "kept"]);
    }
    world.converged("photos").await;
    three.cut(true).await;
    assert!(three.services().credentials.credential(&key().id).await.is_ok(), "an island authenticates");
    one.put("photos", "both", "from one").await.unwrap();
    three.put("photos", "both", "from three").await.unwrap();
    one.delete("photos", "gone").await.unwrap();
    three.put("photos", "mine", "mine").await.unwrap();
    three.create_bucket("island").await.unwrap();
    three.put("island", "a", "a").await.unwrap();
    assert_eq!(three.list("photos").await.unwrap(), ["both", "gone", "kept", "mine"]);
    three.cut(false).await;
    world.linked(three).await;
    world.converged("photos").await;
    let winner = one.get("photos", "both").await.unwrap();
    for site in &world.sites {
        assert_eq!(site.list("photos").await.unwrap(), ["both", "kept", "mine"]);
        assert_eq!(site.get("photos", "both").await.unwrap(), winner);
        assert_eq!(site.get("photos", "gone").await.unwrap_err().kind(), ErrorKind::NoSuchKey);
        let page = site.services().admin.conflicts(ConflictQuery::default()).await.unwrap();
        let found: Vec<_> = page.conflicts.iter().map(|found| (&*found.bucket, &*found.key)).collect();
        assert_eq!(found, [("photos", "both")]);
    }
    two.until("the island's bucket is known", || async {
        two.site().bucket("island").await.unwrap().is_some()
    })
    .await;
    assert_eq!(two.get("island", "a").await.unwrap(), "a");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_islands_that_make_the_same_bucket_make_one() {
    let world = TestWorld::new(2).await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    two.cut(true).await;
    one.create_bucket("photos").await.unwrap();
    two.create_bucket("photos").await.unwrap();
    one.put("photos", "one", "1").await.unwrap();
    two.put("photos", "two", "2").await.unwrap();
    two.cut(false).await;
    world.linked(two).await;
    world.converged("photos").await;
    for site in &world.sites {
        assert_eq!(site.list("photos").await.unwrap(), ["one", "two"]);
    }
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_reached_is_not_said_to_be_missing() {
    let world = TestWorld::new(2).await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    one.create_bucket("photos").await.unwrap();
    let body = noise(2 << 20, 1);
    one.put("photos", "large", body.clone()).await.unwrap();
    two.until("the bucket is known", || async { two.site().bucket("photos").await.unwrap().is_some() }).await;
    two.cut(true).await;
    assert_eq!(two.get("photos", "large").await.unwrap_err().kind(), ErrorKind::Unreachable);
    two.cut(false).await;
    world.linked(two).await;
    assert_eq!(two.list("photos").await.unwrap(), ["large"]);
    world.converged("photos").await;
    two.cut(true).await;
    // The record is here, its payload is not.
    let refused = two.get("photos", "large").await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unreachable, "{refused}");
    two.cut(false).await;
    world.linked(two).await;
    assert_eq!(two.get("photos", "large").await.unwrap(), body);
    two.cut(true).await;
    assert_eq!(two.get("photos", "large").await.unwrap(), body, "a copy stayed");
    world.stop().await;
}
