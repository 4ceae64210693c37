//! Buckets that are deleted while somebody writes to them.

use bytes::Bytes;
use futures::StreamExt;
use futures::channel::oneshot;
use skerry_gateway::service::{
    Expected, GetObject, ObjectHeaders, Outcome, PutObject, PutOutcome, ReadConditions, UploadBody,
    VersionId, Versioning, WriteCondition,
};
use tokio::task::JoinHandle;

use super::world::{TestSite, TestWorld, context};

async fn knows(site: &TestSite, bucket: &str, exists: bool) {
    site.until("it is known whether the bucket exists", || async {
        site.site().bucket(bucket).await.unwrap().is_some() == exists
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_written_to_a_bucket_before_its_deletion_is_heard_of_brings_it_back() {
    let world = TestWorld::new(2).await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    for bucket in ["gone", "back"] {
        one.create_bucket(bucket).await.unwrap();
        knows(two, bucket, true).await;
    }
    two.put("back", "first", "1").await.unwrap();
    two.delete("back", "first").await.unwrap();
    world.converged("back").await;
    two.cut(true).await;
    for bucket in ["gone", "back"] {
        one.services().buckets.delete(&context(), bucket).await.unwrap();
    }
    two.put("back", "key", "2").await.unwrap();
    two.cut(false).await;
    world.linked(two).await;
    knows(two, "gone", false).await;
    for site in [one, two] {
        knows(site, "back", true).await;
        site.until("what was written is there", || async { site.get("back", "key").await.is_ok() }).await;
    }
    assert!(one.site().bucket("gone").await.unwrap().is_none());
    world.stop().await;
}

/// An upload of two bytes of which the second comes when it is told to.
async fn begun(site: &TestSite, bucket: &str) -> (oneshot::Sender<()>, JoinHandle<Outcome<PutOutcome>>) {
    let ((rest, waits), (begun, begins)) = (oneshot::channel(), oneshot::channel());
    let first = futures::stream::once(async move {
        begun.send(()).ok();
        Ok(Bytes::from("1"))
    });
    let last = futures::stream::once(async move {
        waits.await.ok();
        Ok(Bytes::from("2"))
    });
    let expected = Expected { length: Some(2), ..Expected::default() };
    let request = PutObject {
        bucket: bucket.into(),
        key: "key".into(),
        headers: ObjectHeaders::default(),
        user_metadata: Vec::new(),
        condition: WriteCondition::default(),
        body: UploadBody::new(first.chain(last), expected),
    };
    let (objects, caller) = (site.services().objects.clone(), context());
    let upload = tokio::spawn(async move { objects.put(&caller, request).await });
    begins.await.unwrap();
    (rest, upload)
}

/// Else it would take the place of what versioning was to keep.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upload_is_written_under_the_versioning_of_its_end() {
    let world = TestWorld::new(1).await;
    let one = &world.sites[0];
    one.create_bucket("kept").await.unwrap();
    let before = one.put("kept", "key", "0").await.unwrap();
    assert_eq!(before.version, None);
    let (rest, upload) = begun(one, "kept").await;
    one.services().buckets.set_versioning(&context(), "kept", Versioning::Enabled).await.unwrap();
    rest.send(()).unwrap();
    let written = upload.await.unwrap().unwrap();
    assert!(written.version.is_some_and(|version| version != VersionId::null()), "a version of its own");
    let null = GetObject {
        bucket: "kept".into(),
        key: "key".into(),
        version: Some(VersionId::null()),
        range: None,
        part: None,
        if_range: None,
        conditions: ReadConditions::default(),
    };
    let kept = one.services().objects.head(&context(), null).await.unwrap();
    assert_eq!(kept.info.etag, before.etag);
    assert_eq!(one.get("kept", "key").await.unwrap(), "12");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upload_that_ends_after_its_bucket_was_deleted_brings_it_back_though_nobody_else_is_there() {
    let world = TestWorld::new(1).await;
    let one = &world.sites[0];
    one.create_bucket("back").await.unwrap();
    let (rest, upload) = begun(one, "back").await;
    one.services().buckets.delete(&context(), "back").await.unwrap();
    knows(one, "back", false).await;
    rest.send(()).unwrap();
    // Refused is as good: acknowledged and nowhere is not.
    if upload.await.unwrap().is_ok() {
        knows(one, "back", true).await;
        assert_eq!(one.get("back", "key").await.unwrap(), "12");
    }
    world.stop().await;
}
