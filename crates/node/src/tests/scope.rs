//! Writes that wait for other sites: scope `sites=n`.

use std::time::Duration;

use skerry_base::kv::View;
use skerry_gateway::service::{BucketPatch, DeleteObject, DeleteTarget, ErrorKind, ObjectHeaders, Outcome};
use skerry_gateway::service::{PutObject, PutOutcome, RequestContext, UploadBody, WriteCondition};
use skerry_model::space;

use super::refusing::Hung;
use super::world::{TestSite, TestWorld, context, noise};
use crate::peers::Waits;
use crate::site::unreadable;

fn asking(scope: &str) -> RequestContext {
    RequestContext { scope: Some(scope.into()), ..context() }
}

pub(super) async fn put(site: &TestSite, scope: &str, key: &str, body: bytes::Bytes) -> Outcome<PutOutcome> {
    let request = PutObject {
        bucket: "safe".into(),
        key: key.into(),
        headers: ObjectHeaders::default(),
        user_metadata: Vec::new(),
        condition: WriteCondition::default(),
        body: UploadBody::of(body),
    };
    site.services().objects.put(&asking(scope), request).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_two_sites_hold_outlives_the_one_that_wrote_it() {
    let mut world = TestWorld::new(3).await;
    world.sites[0].create_bucket("safe").await.unwrap();
    let bodies = [noise(0, 1), noise(100, 2), noise(20_000, 3), noise(700_000, 4), noise((5 << 20) + 3, 5)];
    for (n, body) in bodies.iter().enumerate() {
        let done = put(&world.sites[0], "sites=3", &format!("{n}"), body.clone()).await.unwrap();
        assert_eq!(done.receipt.scope.as_deref(), Some("sites=3"));
    }
    world.sites[0].stop().await;
    for site in &mut world.sites[1..] {
        site.stop().await;
        site.start().await;
        site.cut(true).await;
        for (n, body) in bodies.iter().enumerate() {
            assert_eq!(site.get("safe", &format!("{n}")).await.unwrap(), *body, "{n}");
        }
        assert_eq!(site.payload_received(), 0, "all of it was there");
        assert_eq!(site.site().store.usage().cache.live, 0, "a copy that counts is no cached one");
    }
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_that_reaches_too_few_sites_is_kept_and_says_so() {
    let world = TestWorld::new(3).await;
    let [one, two, three] = &world.sites[..] else { panic!("three sites") };
    one.create_bucket("safe").await.unwrap();
    three.cut(true).await;
    one.until("the cut is seen", || async { one.site().boxes.linked().len() == 1 }).await;
    let refused = put(one, "sites=3", "k", noise(50_000, 1)).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ScopeNotReached);
    assert!(refused.message().contains("2 of 3 sites"), "{}", refused.message());
    assert_eq!(one.get("safe", "k").await.unwrap(), noise(50_000, 1));
    assert_eq!(put(one, "sites=2", "k", noise(50_000, 1)).await.unwrap().receipt.scope.unwrap(), "sites=2");
    three.cut(false).await;
    world.linked(three).await;
    let done = put(one, "sites=3", "k", noise(50_000, 1)).await.unwrap();
    assert_eq!(done.receipt.scope.as_deref(), Some("sites=3"));
    world.converged("safe").await;
    for site in [two, three] {
        assert_eq!(site.get("safe", "k").await.unwrap(), noise(50_000, 1));
    }
    world.stop().await;
}

/// The refusal says what a repeat does, and that is what it does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_said_of_a_repeat_is_so_in_each_state_of_versioning() {
    let world = TestWorld::new(2).await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    one.create_bucket("safe").await.unwrap();
    two.cut(true).await;
    one.until("the cut is seen", || async { one.site().boxes.linked().is_empty() }).await;
    for (state, makes_another) in [(None, false), (Some("enabled"), true), (Some("suspended"), false)] {
        if let Some(state) = state {
            let patch = BucketPatch { versioning: Some(state.into()), ..BucketPatch::default() };
            one.services().admin.update_bucket("safe", patch).await.unwrap();
        }
        let key = state.unwrap_or("off");
        let id = one.site().bucket("safe").await.unwrap().unwrap().id;
        let count = || async {
            let read = move |view: &dyn View| space::sums(view, id).map_err(unreadable);
            one.site().read(read).await.unwrap().records
        };
        let refused = put(one, "sites=2", key, noise(100, 1)).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ScopeNotReached, "{refused}");
        let before = count().await;
        put(one, "sites=2", key, noise(100, 1)).await.unwrap_err();
        assert_eq!(count().await > before, makes_another, "{key}");
        assert_eq!(refused.message().contains("writes one more"), makes_another, "{key}: {refused}");
        assert_eq!(refused.message().contains("no second write"), !makes_another, "{key}: {refused}");
    }
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scope_that_cannot_be_is_refused_before_anything_is_written() {
    let world = TestWorld::new(2).await;
    let one = &world.sites[0];
    one.create_bucket("safe").await.unwrap();
    for (scope, kind) in [
        ("sites=3", ErrorKind::ScopeNotReached),
        ("sites=0", ErrorKind::InvalidArgument),
        ("sites=many", ErrorKind::InvalidArgument),
        ("everywhere", ErrorKind::InvalidArgument),
        ("durable or less", ErrorKind::InvalidArgument),
        ("2 in oslo", ErrorKind::InvalidArgument),
        ("area", ErrorKind::ScopeNotReached),
    ] {
        assert_eq!(put(one, scope, "k", noise(10, 1)).await.unwrap_err().kind(), kind, "{scope}");
    }
    assert_eq!(one.list("safe").await.unwrap(), Vec::<String>::new());
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bucket_has_a_scope_and_deletes_wait_as_well() {
    let world = TestWorld::new(2).await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    one.create_bucket("safe").await.unwrap();
    let patch = BucketPatch { ack_scope: Some("sites=2".into()), ..BucketPatch::default() };
    let set = one.services().admin.update_bucket("safe", patch).await.unwrap();
    assert_eq!(set.ack_scope, "sites=2");
    assert_eq!(one.put("safe", "k", noise(100, 1)).await.unwrap().receipt.scope.unwrap(), "sites=2");
    let target = DeleteTarget { key: "k".into(), version: None, condition: WriteCondition::default() };
    let request = DeleteObject { bucket: "safe".into(), target };
    let done = one.services().objects.delete(&context(), request).await.unwrap();
    assert_eq!(done.receipt.scope.as_deref(), Some("sites=2"));
    two.cut(true).await;
    assert_eq!(two.list("safe").await.unwrap(), Vec::<String>::new());
    world.stop().await;
}

/// All deletes of one request wait together, however many batches they are carried out in.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deletes_of_one_request_wait_for_a_silent_site_once() {
    const WAITS: Duration = Duration::from_secs(3);
    let world = TestWorld::new(2).await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    one.create_bucket("safe").await.unwrap();
    // More than four times as many as are brought to others at once.
    let keys: Vec<String> = (0..300).map(|n| format!("{n}")).collect();
    for key in &keys {
        one.put("safe", key, "x").await.unwrap();
    }
    assert_eq!(put(one, "sites=2", "k", noise(100, 1)).await.unwrap().receipt.scope.unwrap(), "sites=2");
    one.site().peers.set_waits(Waits { reached: WAITS, ..Waits::default() });
    // It takes questions and answers none.
    let hung = Hung::of(two);
    let target =
        |key: &String| DeleteTarget { key: key.clone(), version: None, condition: WriteCondition::default() };
    let targets = keys.iter().map(target).collect();
    let asking = asking("sites=2");
    let begun = one.site().clock.now();
    let deleting = one.services().objects.delete_many(&asking, "safe", targets);
    let outcomes = tokio::time::timeout(WAITS * 4, deleting).await.unwrap().unwrap();
    assert!(one.site().clock.now().since(begun) >= WAITS);
    assert_eq!(outcomes.len(), keys.len());
    for outcome in outcomes {
        let refused = outcome.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ScopeNotReached);
        assert!(refused.message().contains("no answer within 3 s"), "{refused}");
    }
    assert_eq!(one.list("safe").await.unwrap(), ["k"], "they are deleted here, as each says");
    drop(hung);
    world.converged("safe").await;
    world.stop().await;
}

/// An equal PUT makes no new record: that the first writer holds its payload is asked, not believed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_writer_of_an_equal_object_counts_only_if_it_can_be_asked() {
    let world = TestWorld::new(3).await;
    let [one, two, _] = &world.sites[..] else { panic!("three sites") };
    one.create_bucket("safe").await.unwrap();
    one.put("safe", "k", noise(50_000, 1)).await.unwrap();
    two.until("the bucket is known", || async { two.site().bucket("safe").await.unwrap().is_some() }).await;
    assert_eq!(two.get("safe", "k").await.unwrap(), noise(50_000, 1));
    let done = put(two, "sites=3", "k", noise(50_000, 1)).await.unwrap();
    assert_eq!(done.receipt.scope.as_deref(), Some("sites=3"), "the site that is asked counts as well");
    one.cut(true).await;
    two.until("the cut is seen", || async { two.site().boxes.linked().len() == 1 }).await;
    let refused = put(two, "sites=3", "k", noise(50_000, 1)).await.unwrap_err();
    assert!(refused.message().contains("2 of 3 sites"), "{}", refused.message());
    let done = put(two, "sites=2", "k", noise(50_000, 1)).await.unwrap();
    assert_eq!(done.receipt.scope.as_deref(), Some("sites=2"));
    world.stop().await;
}

/// Makes it a member of the bucket, so that records come to it by feeds.
async fn member(site: &TestSite) {
    site.until("the bucket is known", || async { site.site().bucket("safe").await.unwrap().is_some() }).await;
    site.put("safe", "its own", "x").await.unwrap();
}

/// The record comes first by the feed, so the commit of the hold itself has nothing new to sync.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_site_says_it_holds_is_synced_though_its_record_was_there_before() {
    let world = TestWorld::new(2).await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    one.create_bucket("safe").await.unwrap();
    member(two).await;
    for n in 0..5 {
        let (key, body) = (format!("{n}"), noise(2_500_000, n));
        one.put("safe", &key, body.clone()).await.unwrap();
        world.converged("safe").await;
        let done = put(one, "sites=2", &key, body).await.unwrap();
        assert_eq!(done.receipt.scope.as_deref(), Some("sites=2"));
        assert!(two.site().store.is_settled(), "{n}");
    }
    world.stop().await;
}

/// Who puts what another site has written before wants it here.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_written_elsewhere_and_is_put_here_lies_here() {
    let world = TestWorld::new(2).await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    one.create_bucket("safe").await.unwrap();
    member(two).await;
    let bodies = [noise(100, 1), noise(20_000, 2), noise(2_500_000, 3)];
    for (n, body) in bodies.iter().enumerate() {
        one.put("safe", &format!("{n}"), body.clone()).await.unwrap();
    }
    world.converged("safe").await;
    for (n, body) in bodies.iter().enumerate() {
        put(two, "site", &format!("{n}"), body.clone()).await.unwrap();
        assert!(two.site().store.is_settled(), "{n}");
    }
    one.cut(true).await;
    for (n, body) in bodies.iter().enumerate() {
        assert_eq!(two.get("safe", &format!("{n}")).await.unwrap(), *body, "{n}");
    }
    assert_eq!((two.payload_received(), two.site().store.usage().cache.live), (0, 0));
    world.stop().await;
}

/// What a site decided for another, whose client brought the body there, it has written itself: that says nothing of where the
/// body lies.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_put_over_an_own_record_is_synced_before_it_is_answered() {
    let world = TestWorld::new(2).await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    one.create_bucket("safe").await.unwrap();
    member(two).await;
    for n in 0..5 {
        let (key, body) = (format!("{n}"), noise(2_500_000, n));
        let absent = WriteCondition { absent: true, matches: None };
        let first = two.put_if("safe", &key, body.clone(), absent).await.unwrap();
        assert_eq!(one.payload_received(), 0, "its home has decided it, and not its body");
        let again = put(one, "site", &key, body).await.unwrap();
        assert_eq!(again.receipt.token, first.receipt.token, "no second version");
        assert!(one.site().store.is_settled(), "{n}");
    }
    world.stop().await;
}

/// The record of a PUT travels by itself; a client that puts the same bytes elsewhere is answered once they are there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_put_again_at_another_site_is_kept_there() {
    let mut world = TestWorld::new(2).await;
    let bodies = [noise(20_000, 3), noise(50_000, 4), noise((5 << 20) + 3, 5)];
    {
        let [one, two] = &world.sites[..] else { panic!("two sites") };
        one.create_bucket("safe").await.unwrap();
        two.until("the bucket is known", || async { two.site().bucket("safe").await.unwrap().is_some() })
            .await;
        two.put("safe", "member", noise(10, 1)).await.unwrap();
        for (n, body) in bodies.iter().enumerate() {
            one.put("safe", &format!("{n}"), body.clone()).await.unwrap();
        }
        world.converged("safe").await;
        for (n, body) in bodies.iter().enumerate() {
            let first = one.put("safe", &format!("{n}"), body.clone()).await.unwrap();
            let again = two.put("safe", &format!("{n}"), body.clone()).await.unwrap();
            assert_eq!(again.receipt.token, first.receipt.token, "no second version");
        }
        assert_eq!(two.payload_received(), 0, "its own client brought it");
    }
    world.sites[0].stop().await;
    let two = &mut world.sites[1];
    two.stop().await;
    two.start().await;
    for (n, body) in bodies.iter().enumerate() {
        assert_eq!(two.get("safe", &format!("{n}")).await.unwrap(), *body, "{n}");
    }
    world.stop().await;
}

fn deleting(key: &str) -> DeleteObject {
    let target = DeleteTarget { key: key.into(), version: None, condition: WriteCondition::default() };
    DeleteObject { bucket: "safe".into(), target }
}

/// A delete that has not reached its scope has not when it is repeated either.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delete_that_is_repeated_is_no_more_durable_than_it_was() {
    let world = TestWorld::new(2).await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    one.create_bucket("safe").await.unwrap();
    put(one, "sites=2", "k", noise(100, 1)).await.unwrap();
    one.cut(true).await;
    one.until("the link is gone", || async { !one.site().linked(two.id()) }).await;
    let first = one.services().objects.delete(&asking("sites=2"), deleting("k")).await;
    assert_eq!(first.unwrap_err().kind(), ErrorKind::ScopeNotReached);
    // As its message says: repeat it.
    let again = one.services().objects.delete(&asking("sites=2"), deleting("k")).await;
    let again = again.map(|done| done.receipt.scope);
    assert!(again.is_err(), "answered as done in scope {again:?}, and it is here alone");
    world.stop().await;
}

/// Who keeps no records of a bucket holds nothing for it: what it has of a delete is given to nobody.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_site_that_is_no_member_is_none_of_the_sites_that_hold_a_delete() {
    let world = TestWorld::new(3).await;
    let [one, two, three] = &world.sites[..] else { panic!("three sites") };
    one.create_bucket("safe").await.unwrap();
    put(one, "site", "k", noise(100, 1)).await.unwrap();
    member(two).await;
    two.has_all_of(one, "safe").await;
    let patch = BucketPatch { join: Some("never".into()), ..BucketPatch::default() };
    one.services().admin.update_bucket("safe", patch).await.unwrap();
    for site in [two, three] {
        site.until("it is known that nobody may join", || async {
            let found = site.site().bucket("safe").await.unwrap();
            found.is_some_and(|found| site.site().joins(&found) == skerry_model::bucket::Joins::Never)
        })
        .await;
    }
    two.cut(true).await;
    for site in [one, three] {
        site.until("the link is gone", || async { !site.site().linked(two.id()) }).await;
    }
    // The home burning after it, the delete would be at nobody who lists the bucket.
    let done = three.services().objects.delete(&asking("sites=2"), deleting("k")).await;
    assert_eq!(done.map(|done| done.receipt.scope).unwrap_err().kind(), ErrorKind::ScopeNotReached);
    let done = three.services().objects.delete(&asking("site"), deleting("k")).await;
    assert!(done.is_ok(), "{done:?}");
    world.stop().await;
}
