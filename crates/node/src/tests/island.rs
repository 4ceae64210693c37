//! Sites that are cut off, and what comes of it afterwards.

use skerry_gateway::service::{ConflictQuery, ErrorKind, WriteCondition};

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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn islands_that_make_the_same_bucket_decide_no_condition_until_its_home_is_named() {
    let world = TestWorld::new(3).await;
    let [one, two, three] = &world.sites[..] else { panic!("three sites") };
    let absent = || WriteCondition { absent: true, matches: None };
    two.cut(true).await;
    three.cut(true).await;
    for island in [two, three] {
        island.create_bucket("locks").await.unwrap();
        island.put("locks", "plain", "plain").await.unwrap();
        let refused = island.put_if("locks", "lock", "mine", absent()).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::HomeNotNamed, "{}", refused.message());
        assert!(refused.message().contains("site-1"), "{}", refused.message());
    }
    // A name of its own needs nobody.
    three.create_bucket("locks--site-3").await.unwrap();
    three.put_if("locks--site-3", "lock", "mine", absent()).await.unwrap();
    // The site that keeps the register is no island: what it makes has a home.
    one.create_bucket("here").await.unwrap();
    one.cut(true).await;
    one.put_if("here", "lock", "mine", absent()).await.unwrap();
    one.cut(false).await;
    two.cut(false).await;
    world.until_linked(one, two).await;
    two.put_if("locks", "lock", "two", absent()).await.unwrap();
    let refused = three.put_if("locks", "lock", "three", absent()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::HomeNotNamed);
    three.cut(false).await;
    world.linked(three).await;
    let lost = three.put_if("locks", "lock", "three", absent()).await.unwrap_err();
    assert_eq!(lost.kind(), ErrorKind::PreconditionFailed, "{}", lost.message());
    for site in &world.sites {
        site.until("the lock is known", || async {
            site.get("locks", "lock").await.is_ok_and(|holder| holder == "two")
        })
        .await;
    }
    world.stop().await;
}
