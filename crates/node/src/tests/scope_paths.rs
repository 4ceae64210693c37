//! Scopes `area` and `durable` of a bucket, in all that writes.

use bytes::BytesMut;
use skerry_gateway::service::{
    BucketPatch, CopyObject, DeleteObject, DeleteTarget, ErrorKind, MetadataDirective, RequestContext,
    Source, WriteCondition,
};
use skerry_model::record::Scope;
use skerry_model::space;

use super::scope_areas::{BUCKET, answered, asking, founded, holders, put, set};
use super::uploads::{begin, completion, part};
use super::world::{TestSite, TestWorld, context, noise};
use crate::copies::book;
use crate::paths::scope;
use crate::site::unreadable;

async fn ask_for(site: &TestSite, scope: &str) {
    let patch = BucketPatch { ack_scope: Some(scope.into()), ..BucketPatch::default() };
    let said = site.services().admin.update_bucket(BUCKET, patch).await.unwrap();
    assert_eq!(said.ack_scope, scope);
}

async fn known(world: &TestWorld, scope: &str) {
    for site in &world.sites {
        site.until("the setting is known", || async {
            let found = site.site().bucket(BUCKET).await.unwrap();
            found.is_some_and(|found| scope::shown(&found.config) == scope)
        })
        .await;
    }
}

/// At how many sites the current version of a key is to be kept, as this one knows.
async fn kept_at(site: &TestSite, key: &str) -> usize {
    let bucket = site.site().bucket(BUCKET).await.unwrap().unwrap();
    let (id, key) = (bucket.id, key.to_owned());
    let read = move |view: &dyn skerry_base::kv::View| {
        let record = space::current(view, id, &key).map_err(unreadable)?.unwrap();
        let promised = book::promised(view, id, record.dot).map_err(unreadable)?;
        Ok(scope::kept_at(&bucket, &record).max(promised))
    };
    site.site().read(read).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_that_writes_waits_for_the_scope_of_its_bucket() {
    let world = founded(&["oslo", "oslo", "bergen", "bergen"], "1").await;
    let [one, _, three, _] = &world.sites[..] else { panic!("four sites") };
    ask_for(one, "area").await;
    known(&world, "area").await;
    let is = |at: &[usize]| at.iter().copied().collect();
    // A plain PUT, and the same again, at its site and at another, which keeps it in its own area.
    let done = one.put(BUCKET, "k", noise(60_000, 1)).await.unwrap();
    assert_eq!((done.receipt.scope.as_deref(), holders(&world, "k").await), (Some("area"), is(&[1, 2])));
    let again = one.put(BUCKET, "k", noise(60_000, 1)).await.unwrap();
    assert_eq!((again.receipt.token, again.receipt.scope), (done.receipt.token.clone(), Some("area".into())));
    assert_eq!(kept_at(one, "k").await, 2, "its record says so");
    let again = three.put(BUCKET, "k", noise(60_000, 1)).await.unwrap();
    assert_eq!((again.receipt.token, again.receipt.scope), (done.receipt.token, Some("area".into())));
    assert_eq!(holders(&world, "k").await, is(&[1, 2, 3, 4]));
    // A condition is decided at the home, in oslo, and the write is bergen's.
    let absent = WriteCondition { absent: true, ..WriteCondition::default() };
    let done = three.put_if(BUCKET, "once", noise(40_000, 2), absent).await.unwrap();
    assert_eq!((done.receipt.scope.as_deref(), holders(&world, "once").await), (Some("area"), is(&[3, 4])));
    assert_eq!(kept_at(three, "once").await, 2, "its record was made in oslo and says so");
    // A copy, an upload in parts, a delete.
    let source =
        Source { bucket: BUCKET.into(), key: "k".into(), version: None, conditions: Default::default() };
    let request = CopyObject {
        source,
        bucket: BUCKET.into(),
        key: "copied".into(),
        metadata: MetadataDirective::Copy,
        checksum: None,
        condition: WriteCondition::default(),
    };
    let done = one.services().objects.copy(&context(), request).await.unwrap();
    assert_eq!(done.put.receipt.scope.as_deref(), Some("area"));
    assert!(holders(&world, "copied").await.is_superset(&is(&[1, 2])), "bergen has the same chunks already");
    let target = begin(three, BUCKET, "film").await;
    let parts = [noise(5 << 20, 3), noise(1000, 4)];
    let uploaded = vec![part(three, &target, 1, &parts[0]).await, part(three, &target, 2, &parts[1]).await];
    let done =
        three.services().objects.complete_upload(&context(), completion(&target, uploaded)).await.unwrap();
    assert_eq!((done.receipt.scope.as_deref(), holders(&world, "film").await), (Some("area"), is(&[3, 4])));
    let target = DeleteTarget { key: "copied".into(), version: None, condition: WriteCondition::default() };
    let request = DeleteObject { bucket: BUCKET.into(), target };
    let done = one.services().objects.delete(&context(), request).await.unwrap();
    assert_eq!(done.receipt.scope.as_deref(), Some("area"));
    let mut whole = BytesMut::new();
    parts.iter().for_each(|part| whole.extend_from_slice(part));
    three.cut(true).await;
    assert!(world.sites[3].get(BUCKET, "film").await.unwrap() == whole);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn durable_is_what_the_bucket_wants_and_no_more() {
    let world = founded(&["oslo", "oslo", "bergen"], "1").await;
    let [one, ..] = &world.sites[..] else { panic!("three sites") };
    ask_for(one, "durable").await;
    one.cut(true).await;
    let done = one.put(BUCKET, "one", noise(50_000, 1)).await.unwrap();
    assert_eq!(done.receipt.scope.as_deref(), Some("durable"), "one copy is here");
    set(one, BucketPatch { copies_in: Some("2".into()), ..BucketPatch::default() }).await;
    let refused = one.put(BUCKET, "two", noise(50_000, 2)).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ScopeNotReached);
    assert!(
        refused.message().contains("durable at site-1; for the scope durable it lacks 1 of 2 in all"),
        "{}",
        refused.message()
    );
    ask_for(one, "durable or less").await;
    let done = one.put(BUCKET, "two", noise(50_000, 2)).await.unwrap();
    assert_eq!(done.receipt.scope.as_deref(), Some("site"), "it says what was reached");
    ask_for(one, "durable").await;
    one.cut(false).await;
    world.linked(one).await;
    let done = one.put(BUCKET, "two", noise(50_000, 2)).await.unwrap();
    assert_eq!(done.receipt.scope.as_deref(), Some("durable"));
    assert_eq!(holders(&world, "two").await.len(), 2);
    // The record says no number: what the bucket wants is what is kept.
    let record = record(one, "two").await;
    assert_eq!((record.scope, kept_at(one, "two").await), (Scope::Durable, 2));
    one.set_copies(BUCKET, 1).await.unwrap();
    assert_eq!(kept_at(one, "two").await, 1);
    world.stop().await;
}

async fn record(site: &TestSite, key: &str) -> skerry_model::Record {
    let (id, key) = (site.site().bucket(BUCKET).await.unwrap().unwrap().id, key.to_owned());
    let read = move |view: &dyn skerry_base::kv::View| space::current(view, id, &key).map_err(unreadable);
    site.site().read(read).await.unwrap().unwrap()
}

/// What areas and AT RISK count as lacking is what `durable` waits for: right behind its answer both are nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn behind_an_answer_nothing_is_at_risk_and_no_area_lacks_anything() {
    let world = founded(&["oslo", "oslo", "bergen", "bergen"], "3, 2 in bergen").await;
    let one = &world.sites[0];
    for number in 0..4 {
        assert_eq!(answered(one, "durable", &number.to_string(), 40_000 + number).await, "durable");
        let at = holders(&world, &number.to_string()).await;
        assert!(at.is_superset(&[1, 3, 4].into()), "{at:?}");
    }
    let said = one.services().admin.bucket(BUCKET).await.unwrap();
    assert_eq!(said.unprotected_bytes, 0);
    assert!(said.areas.iter().all(|area| area.lacking_bytes == 0), "{:?}", said.areas);
    world.stop().await;
}

/// Nodes of a site are one place; what one place is enough for all of its live nodes have.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_nodes_of_a_site_are_no_two_places_for_a_scope() {
    let world = TestWorld::of_nodes(2, 1).await;
    let [one, two, other] = &world.sites[..] else { panic!("two nodes and a site") };
    one.create_bucket(BUCKET).await.unwrap();
    for name in ["site-1", "site-2"] {
        let said = skerry_gateway::service::AreaRequest { area: "oslo".into() };
        one.services().admin.set_area(name, said).await.unwrap();
    }
    one.set_copies(BUCKET, 2).await.unwrap();
    for scope in ["area", "durable"] {
        let done = put(one, scope, scope, 50_000).await.unwrap();
        assert_eq!(done.receipt.scope.as_deref(), Some(scope));
        assert!(holders(&world, scope).await.is_superset(&[1, 3].into()));
    }
    other.cut(true).await;
    one.until("the cut is seen", || async { one.site().boxes.linked().len() == 1 }).await;
    for scope in ["area", "durable"] {
        let refused = put(one, scope, "apart", 50_000).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ScopeNotReached, "{}", refused.message());
    }
    // One copy is the site's, with all of its live nodes.
    one.set_copies(BUCKET, 1).await.unwrap();
    let mut tries = 0;
    loop {
        match put(one, "durable", "one", 50_000).await {
            Ok(done) => break assert_eq!(done.receipt.scope.as_deref(), Some("durable")),
            Err(error) => {
                assert!(error.kind() == ErrorKind::ScopeNotReached && tries < 10, "{}", error.message())
            }
        }
        tries += 1;
    }
    assert!(holders(&world, "one").await.is_superset(&[1, 2].into()));
    two.cut(true).await;
    world.stop().await;
}

/// A site of a release before hears the nearest that it knows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_before_waits_for_as_many_sites() {
    let world = founded(&["oslo", "oslo", "bergen"], "1").await;
    let one = &world.sites[0];
    for (scope, copies, heard) in [
        ("area", "1", Scope::Sites(2)),
        ("durable", "2 in oslo", Scope::Sites(2)),
        ("durable", "1", Scope::Site),
        ("sites=3", "1", Scope::Sites(3)),
    ] {
        ask_for(one, scope).await;
        set(one, BucketPatch { copies_in: Some(copies.into()), ..BucketPatch::default() }).await;
        let config = one.site().bucket(BUCKET).await.unwrap().unwrap().config;
        assert_eq!((config.scope, scope::shown(&config).as_str()), (heard, scope), "{copies}");
    }
    world.stop().await;
}

/// A full site hands what it cannot keep to its own area.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_site_cannot_keep_stays_in_its_area() {
    let world = founded(&["oslo", "oslo", "oslo", "bergen"], "1").await;
    let one = &world.sites[0];
    let patch = BucketPatch {
        residency: Some(["site-2", "site-3", "site-4"].map(Into::into).into()),
        ..BucketPatch::default()
    };
    set(one, patch).await;
    let asks: RequestContext = asking("area");
    for number in 0..3 {
        let key = number.to_string();
        let done = one.put_in(&asks, BUCKET, &key, noise(50_000, number)).await.unwrap();
        assert_eq!(done.receipt.scope.as_deref(), Some("area"));
        assert_eq!(holders(&world, &key).await, [2, 3].into());
    }
    world.stop().await;
}
