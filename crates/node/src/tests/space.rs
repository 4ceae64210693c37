//! Where payload may lie, and what a site does that has no room or may not keep it.

use skerry_gateway::service::{BucketPatch, ErrorKind, PutPart, RequestContext, UploadBody, WriteCondition};
use skerry_model::space;

use super::uploads::begin;
use super::world::{TestSite, TestWorld, context, noise};
use crate::server::Core;
use crate::site::unreadable;

async fn bind(site: &TestSite, bucket: &str, names: &[&str]) {
    let names = names.iter().map(|name| (*name).to_owned()).collect();
    let patch = BucketPatch { residency: Some(names), ..BucketPatch::default() };
    site.services().admin.update_bucket(bucket, patch).await.unwrap();
}

/// The site that wrote the current version of a key.
async fn writer(site: &TestSite, bucket: &str, key: &str) -> skerry_base::SiteId {
    let id = site.site().bucket(bucket).await.unwrap().unwrap().id;
    let key = key.to_owned();
    let read = move |view: &dyn skerry_base::kv::View| space::current(view, id, &key).map_err(unreadable);
    site.site().read(read).await.unwrap().unwrap().site
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bucket_bound_to_a_site_leaves_no_copy_elsewhere_and_is_written_from_everywhere() {
    let world = TestWorld::new(3).await;
    let [one, two, three] = &world.sites[..] else { panic!("three sites") };
    one.create_bucket("papers").await.unwrap();
    bind(one, "papers", &["site-1"]).await;
    for site in [two, three] {
        site.until("the binding is known", || async {
            let found = site.site().bucket("papers").await.unwrap();
            found.is_some_and(|bucket| !bucket.may_lie_at(site.id()))
        })
        .await;
    }
    let body = noise(3 << 20, 1);
    one.put("papers", "a", body.clone()).await.unwrap();
    for round in 1..=2 {
        assert_eq!(two.get("papers", "a").await.unwrap(), body);
        let moved = two.payload_received();
        assert!(moved >= round * (3 << 20) && moved < round * (3 << 20) + (64 << 10), "{moved} in {round}");
    }
    // A write elsewhere becomes one of the site where the bucket may lie.
    let absent = WriteCondition { absent: true, matches: None };
    for (key, length) in [("empty", 0), ("small", 5000), ("large", 2_500_000)] {
        let body = noise(length, 2);
        let put = two.put_if("papers", key, body.clone(), absent.clone()).await.unwrap();
        assert_eq!(put.size, length as u64);
        assert_eq!(writer(one, "papers", key).await, one.id());
        assert_eq!(two.get("papers", key).await.unwrap(), body);
        let again = two.put_if("papers", key, body, absent.clone()).await.unwrap_err();
        assert_eq!(again.kind(), ErrorKind::PreconditionFailed);
    }
    // Nor does a part of an upload lie elsewhere for as long as it takes to its site.
    let target = begin(one, "papers", "parts").await;
    let part = |body: &bytes::Bytes| PutPart {
        target: target.clone(),
        number: 1,
        body: UploadBody::of(body.clone()),
    };
    let refused = two.services().objects.put_part(&context(), part(&noise(3 << 20, 9))).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotResident);
    assert!(refused.message().contains("site-1 only"), "{refused}");
    one.services().objects.put_part(&context(), part(&noise(3 << 20, 9))).await.unwrap();
    // Nobody else holds it for a scope either.
    let scoped = RequestContext { scope: Some("sites=2".into()), ..context() };
    let put = one.put_in(&scoped, "papers", "b", noise(10, 3)).await.unwrap_err();
    assert_eq!(put.kind(), ErrorKind::ScopeNotReached);
    one.cut(true).await;
    let refused = two.put("papers", "c", noise(10, 4)).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotResident);
    assert!(refused.message().contains("site-1 only"), "{refused}");
    let unknown = BucketPatch { residency: Some(vec!["atlantis".into()]), ..BucketPatch::default() };
    let unknown = one.services().admin.update_bucket("papers", unknown).await.unwrap_err();
    assert!(unknown.message().contains("atlantis"), "{unknown}");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn copies_go_when_their_bucket_is_bound_to_other_sites() {
    let world = TestWorld::new(2).await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    one.create_bucket("papers").await.unwrap();
    let body = noise(3 << 20, 1);
    one.put("papers", "a", body.clone()).await.unwrap();
    two.until("the bucket is known", || async { two.site().bucket("papers").await.unwrap().is_some() }).await;
    assert_eq!(two.get("papers", "a").await.unwrap(), body);
    let id = two.site().bucket("papers").await.unwrap().unwrap().id;
    let chunk = skerry_base::ChunkId::of(&body[..1 << 20]);
    assert!(two.site().store.has_chunk(id, chunk).unwrap());
    two.site().store.settle(|settled| settled.unwrap());
    two.until("the copies are in the index", || async { two.site().store.usage_of_cache().bytes > 3 << 20 })
        .await;
    two.site().store.drop_copies(id).unwrap();
    assert!(!two.site().store.has_chunk(id, chunk).unwrap());
    assert_eq!(two.get("papers", "a").await.unwrap(), body, "and comes again");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_put_at_a_full_site_is_written_at_one_with_room() {
    let mut world = TestWorld::new(2).await;
    world.sites[1].stop().await;
    let (mut config, options) = world.sites[1].settings();
    config.storage.capacity.0 = 100 << 20;
    world.sites[1].core = Some(Core::start(&config, options).await.unwrap());
    world.linked(&world.sites[1]).await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    two.create_bucket("photos").await.unwrap();
    two.cut(true).await;
    let mut count = 0;
    let refused = loop {
        match two.put("photos", &format!("{count}"), noise(4 << 20, count)).await {
            Ok(_) => count += 1,
            Err(error) => break error,
        }
        assert!(count < 100, "never full");
    };
    assert_eq!(refused.kind(), ErrorKind::StorageFull);
    assert!(count > 5, "{refused}");
    two.cut(false).await;
    world.linked(two).await;
    one.until("the bucket is known", || async { one.site().bucket("photos").await.unwrap().is_some() }).await;
    let body = noise(4 << 20, 1000);
    two.put("photos", "more", body.clone()).await.unwrap();
    assert_eq!(writer(one, "photos", "more").await, one.id());
    two.until("it is read where it was put", || async {
        two.get("photos", "more").await.is_ok_and(|read| read == body)
    })
    .await;
    assert_eq!(two.get("photos", "0").await.unwrap(), noise(4 << 20, 0));
    world.stop().await;
}

/// What others wrote to the disk took the room that segments of the journal are kept for; so did the site itself before it was stopped.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_site_starts_without_room_for_anything_and_deletes() {
    let mut world = TestWorld::new(1).await;
    world.sites[0].create_bucket("photos").await.unwrap();
    world.sites[0].put("photos", "a", noise(3 << 20, 1)).await.unwrap();
    world.sites[0].stop().await;
    for file in std::fs::read_dir(world.sites[0].directory.path().join("data/journal")).unwrap() {
        let path = file.unwrap().path();
        // A spare one: nothing was written to it.
        if std::fs::read(&path).unwrap().iter().all(|byte| *byte == 0) {
            std::fs::remove_file(path).unwrap();
        }
    }
    let (mut config, options) = world.sites[0].settings();
    config.storage.capacity.0 = 1;
    // It would say another address of itself than before.
    config.peer.advertise = vec!["elsewhere:1".into()];
    world.sites[0].core = Some(Core::start(&config, options).await.unwrap());
    let site = &world.sites[0];
    assert_eq!(site.get("photos", "a").await.unwrap(), noise(3 << 20, 1));
    let refused = site.put("photos", "b", noise(100, 2)).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::StorageFull, "{refused}");
    site.delete("photos", "a").await.unwrap();
    assert_eq!(site.get("photos", "a").await.unwrap_err().kind(), ErrorKind::NoSuchKey);
    world.stop().await;
}

/// Nor is a small body that is written under a condition left at the bucket's home, if it may not lie there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_home_where_its_bucket_may_not_lie_keeps_no_small_body_that_it_decides_about() {
    let world = TestWorld::new(2).await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    one.create_bucket("papers").await.unwrap();
    bind(one, "papers", &["site-2"]).await;
    for site in [one, two] {
        site.until("the binding is known", || async {
            let found = site.site().bucket("papers").await.unwrap();
            found.is_some_and(|bucket| !bucket.may_lie_at(one.id()) && bucket.may_lie_at(two.id()))
        })
        .await;
    }
    let absent = WriteCondition { absent: true, matches: None };
    two.put_if("papers", "lock", noise(20_000, 1), absent).await.unwrap();
    assert_eq!(writer(two, "papers", "lock").await, two.id());
    assert!(super::trim::holds_of(two, "papers", "lock").await);
    let home = one.site().bucket("papers").await.unwrap().unwrap();
    assert_eq!(home.home, one.id());
    assert!(!super::trim::holds_of(one, "papers", "lock").await, "payload lies where its bucket may not");
    world.stop().await;
}
