//! What is pinned or prefetched at a site.

use skerry_gateway::service::{BucketPatch, ErrorKind, JoinRequest, Outcome, PinAct, PinRequest, PinStatus};

use super::world::{TestSite, TestWorld, context, noise};

async fn act(site: &TestSite, prefix: &str, act: PinAct) -> Outcome<Vec<PinStatus>> {
    let request = PinRequest { bucket: "photos".into(), prefix: prefix.into(), act };
    site.services().admin.set_pin(request).await.map(|list| list.pins)
}

async fn complete(site: &TestSite, objects: u64) {
    site.until("the pin is complete", || async {
        let pins = site.services().admin.pins().await.unwrap().pins;
        pins.iter().any(|pin| pin.complete && pin.objects == objects)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pinned_prefix_is_here_when_the_links_are_cut_and_stays_over_a_restart() {
    let mut world = TestWorld::new(2).await;
    {
        let [one, two] = &world.sites[..] else { panic!("two sites") };
        one.create_bucket("photos").await.unwrap();
        one.put("photos", "menu/a", noise(2_500_000, 1)).await.unwrap();
        one.put("photos", "other", noise(2_000_000, 2)).await.unwrap();
        let known = || async { two.site().bucket("photos").await.unwrap().is_some() };
        two.until("the bucket is known", known).await;
        assert_eq!(act(two, "menu/", PinAct::Unpin).await.unwrap_err().kind(), ErrorKind::Refused);
        act(two, "menu/", PinAct::Pin).await.unwrap();
        complete(two, 1).await;
        // What comes later comes by itself.
        one.put("photos", "menu/b", noise(1_200_000, 3)).await.unwrap();
        complete(two, 2).await;
        assert!(two.site().store.kept_bytes() > 3_700_000);
        let refused = two.services().admin.leave_bucket("photos").await.unwrap_err();
        assert!(refused.message().contains("unpin"), "{refused}");
        one.cut(true).await;
        assert_eq!(two.get("photos", "menu/a").await.unwrap(), noise(2_500_000, 1));
        assert_eq!(two.get("photos", "menu/b").await.unwrap(), noise(1_200_000, 3));
        assert_eq!(two.get("photos", "other").await.unwrap_err().kind(), ErrorKind::Unreachable);
    }
    world.sites[1].stop().await;
    world.sites[1].start().await;
    let two = &world.sites[1];
    complete(two, 2).await;
    assert!(act(two, "menu/", PinAct::Unpin).await.unwrap().is_empty());
    assert_eq!(two.site().store.kept_bytes(), 0);
    world.sites[0].cut(false).await;
    world.linked(two).await;
    act(two, "", PinAct::Prefetch).await.unwrap();
    complete(two, 3).await;
    assert_eq!(two.site().store.kept_bytes(), 0, "prefetched is not pinned");
    let wrong = PinRequest { bucket: "nowhere".into(), prefix: String::new(), act: PinAct::Pin };
    assert_eq!(two.services().admin.set_pin(wrong).await.unwrap_err().kind(), ErrorKind::NoSuchBucket);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pin_makes_no_member_where_none_may_join() {
    let world = TestWorld::new(2).await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    one.create_bucket("photos").await.unwrap();
    one.put("photos", "menu/a", noise(70_000, 1)).await.unwrap();
    let known = || async { two.site().bucket("photos").await.unwrap().is_some() };
    two.until("the bucket is known", known).await;
    let set = |join: &'static str| async move {
        let patch = BucketPatch { join: Some(join.into()), ..BucketPatch::default() };
        one.services().admin.update_bucket("photos", patch).await.unwrap();
        let heard =
            || async { two.site().bucket("photos").await.unwrap().unwrap().config.joins().name() == join };
        two.until("the setting is known", heard).await;
    };
    set("never").await;
    let id = two.site().bucket("photos").await.unwrap().unwrap().id;
    for wish in [PinAct::Pin, PinAct::Prefetch] {
        let refused = act(two, "menu/", wish).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::NotResident);
        assert!(refused.message().contains("--join manual"), "{refused}");
    }
    assert!(!two.site().is_member(id));
    assert!(two.services().admin.pins().await.unwrap().pins.is_empty());
    // Who follows it already goes on, pins included.
    act(one, "menu/", PinAct::Pin).await.unwrap();
    complete(one, 1).await;
    // With the rule gone it is an explicit wish like any other.
    set("manual").await;
    act(two, "menu/", PinAct::Pin).await.unwrap();
    complete(two, 1).await;
    assert!(two.site().is_member(id));
    // A rule for this site alone is named as that.
    act(two, "menu/", PinAct::Unpin).await.unwrap();
    two.services().admin.leave_bucket("photos").await.unwrap();
    two.until("it has left", || async { !two.site().is_member(id) }).await;
    // Having left says "manual" for this site; that does not outrank the bucket.
    set("never").await;
    let refused = act(two, "menu/", PinAct::Pin).await.unwrap_err();
    assert!(refused.message().contains("bucket set photos --join manual"), "{refused}");
    set("manual").await;
    let when = JoinRequest { when: Some("never".into()), ..JoinRequest::default() };
    two.services().admin.join_bucket("photos", when).await.unwrap();
    let refused = act(two, "menu/", PinAct::Pin).await.unwrap_err();
    assert!(refused.message().contains("--when manual"), "{refused}");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_does_not_fit_says_so_and_what_is_pinned_outlives_other_copies() {
    let world = TestWorld::new(2).await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    one.create_bucket("photos").await.unwrap();
    for number in 0..12 {
        one.put("photos", &format!("{}/{number}", number % 2), noise(900_000, number)).await.unwrap();
    }
    let known = || async { two.site().bucket("photos").await.unwrap().is_some() };
    two.until("the bucket is known", known).await;
    two.site().store.set_cache_cap(8_000_000);
    act(two, "0/", PinAct::Pin).await.unwrap();
    complete(two, 6).await;
    // The other six do not fit beside them; reading them evicts none that is pinned.
    act(two, "1/", PinAct::Pin).await.unwrap();
    two.until("it says what does not fit", || async {
        let pins = two.services().admin.pins().await.unwrap().pins;
        pins.iter().any(|pin| pin.reason.as_ref().is_some_and(|reason| reason.contains("storage.cache")))
    })
    .await;
    for number in (1..12).step_by(2) {
        two.get("photos", &format!("1/{number}")).await.unwrap();
    }
    one.cut(true).await;
    for number in (0..12).step_by(2) {
        assert_eq!(two.get("photos", &format!("0/{number}")).await.unwrap(), noise(900_000, number));
    }
    // What lacked room is tried again by itself.
    one.site().peers.net().set_cut(false);
    world.linked(one).await;
    two.site().store.set_cache_cap(80_000_000);
    two.until("the rest is here as well", || async {
        let pins = two.services().admin.pins().await.unwrap().pins;
        pins.iter().all(|pin| pin.complete && pin.objects == 6)
    })
    .await;
    world.stop().await;
}

/// No name says any more what is to be unpinned.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_pinned_of_a_deleted_bucket_ends_by_itself() {
    let mut world = TestWorld::new(1).await;
    {
        let one = &world.sites[0];
        one.create_bucket("photos").await.unwrap();
        act(one, "menu/", PinAct::Pin).await.unwrap();
        one.services().buckets.delete(&context(), "photos").await.unwrap();
        let pins = || async { one.services().admin.pins().await.unwrap().pins };
        one.until("the pin is gone", || async { pins().await.is_empty() }).await;
    }
    world.sites[0].stop().await;
    world.sites[0].start().await;
    assert!(world.sites[0].services().admin.pins().await.unwrap().pins.is_empty());
    world.stop().await;
}
