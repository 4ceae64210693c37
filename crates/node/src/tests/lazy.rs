//! A site that answers plain writes before they are on disk: it says so, and claims nothing that is not.

use skerry_gateway::service::{RequestContext, WriteCondition};

use super::uploads::{begin, completion, part};
use super::world::{TestSite, TestWorld, context, noise};
use crate::config::Sync;
use crate::server::Core;

/// Starts it again with `storage.sync = os`.
async fn make_lazy(site: &mut TestSite) {
    site.stop().await;
    let (mut config, options) = site.settings();
    config.storage.sync = Sync::Os;
    site.core = Some(Core::start(&config, options).await.unwrap());
}

/// Two sites that know a bucket, of which the first does not wait for its disk.
async fn lazy_and_another() -> TestWorld {
    let mut world = TestWorld::new(2).await;
    world.sites[0].create_bucket("loose").await.unwrap();
    make_lazy(&mut world.sites[0]).await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    world.until_linked(one, two).await;
    two.until("the bucket is known", || async { two.site().bucket("loose").await.unwrap().is_some() }).await;
    world
}

async fn scope_of(site: &TestSite, scope: Option<&str>, key: &str, seed: u64) -> String {
    let asking = RequestContext { scope: scope.map(Into::into), ..context() };
    // Around what is kept in the journal.
    let body = noise(if seed.is_multiple_of(2) { 5_000 } else { 90_000 }, seed);
    site.put_in(&asking, "loose", key, body).await.unwrap().receipt.scope.unwrap()
}

fn unsynced(site: &TestSite) -> u64 {
    site.site().store.usage().unsynced
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plain_write_says_that_it_is_not_on_disk_and_a_named_scope_waits_for_it() {
    let mut world = TestWorld::new(1).await;
    world.sites[0].create_bucket("loose").await.unwrap();
    make_lazy(&mut world.sites[0]).await;
    let site = &world.sites[0];
    assert!(site.services().admin.status().await.unwrap().storage.lazy);
    let mut seen = false;
    for seed in 0..20 {
        assert_eq!(scope_of(site, None, "plain", seed).await, "unsynced");
        // What the site does by itself may have synced it meanwhile.
        seen |= unsynced(site) > 0;
        assert_eq!(scope_of(site, Some("site"), "named", seed).await, "site");
        assert_eq!(unsynced(site), 0, "a sync covers all before it");
    }
    assert!(seen, "every plain write was synced");
    let condition = WriteCondition { absent: true, ..WriteCondition::default() };
    scope_of(site, None, "plain", 31).await;
    site.put_if("loose", "once", noise(70_000, 9), condition).await.unwrap();
    assert_eq!(unsynced(site), 0, "a decision is never forgotten");
    site.delete("loose", "plain").await.unwrap();
    world.sites[0].stop().await;
    world.sites[0].start().await;
    let site = &world.sites[0];
    assert_eq!(site.list("loose").await.unwrap(), ["named", "once"], "the end of a process loses nothing");
    assert_eq!(site.get("loose", "once").await.unwrap(), noise(70_000, 9));
    assert!(!site.services().admin.status().await.unwrap().storage.lazy);
    assert_eq!(scope_of(site, None, "plain", 1).await, "site");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_part_that_came_by_way_of_another_site_is_on_disk_before_that_answers() {
    let world = lazy_and_another().await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    let target = begin(one, "loose", "film").await;
    for number in 1..4 {
        part(two, &target, number, &noise(90_000, number.into())).await;
        assert_eq!(unsynced(one), 0, "{number}");
    }
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn so_is_the_object_of_an_upload_that_is_completed_by_way_of_another_site() {
    let world = lazy_and_another().await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    for number in 0..3_u64 {
        let target = begin(one, "loose", &format!("film {number}")).await;
        let mut parts = vec![part(two, &target, 1, &noise(5 << 20, number)).await];
        parts.push(part(two, &target, 2, &noise(90_000, number + 10)).await);
        let objects = &two.services().objects;
        for _ in 0..2 {
            let asked = completion(&target, parts.clone());
            objects.complete_upload(&context(), asked).await.unwrap();
            assert_eq!(unsynced(one), 0, "{number}");
        }
    }
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_site_holds_for_others_is_on_disk_before_it_says_so() {
    let mut world = TestWorld::new(2).await;
    world.sites[0].create_bucket("loose").await.unwrap();
    for index in 0..2 {
        make_lazy(&mut world.sites[index]).await;
    }
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    world.until_linked(one, two).await;
    for seed in 0..6 {
        assert_eq!(scope_of(one, Some("sites=2"), "held", seed).await, "sites=2");
        assert_eq!((unsynced(one), unsynced(two)), (0, 0));
    }
    // As its own writes, which it is asked for: what it claims to hold it has synced.
    assert_eq!(scope_of(one, None, "own", 7).await, "unsynced");
    let id = one.site().bucket("loose").await.unwrap().unwrap().id;
    let asked = crate::peers::message::Holdings { bucket: id, life: None, from: skerry_base::Vector::new() };
    crate::copies::claims::answer(one.site(), asked, two.id()).await.unwrap();
    assert_eq!(unsynced(one), 0);
    world.stop().await;
}
