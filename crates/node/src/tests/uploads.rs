//! Multipart uploads, at the site where they live and from others.

use std::time::Duration;

use bytes::BytesMut;
use skerry_base::limits::{CHUNK_BYTES, PUT_BYTES};
use skerry_gateway::service::{
    ChecksumKind, ChecksumShape, CompleteUpload, CompletedPart, CreateUpload, ErrorKind, ListParts,
    ObjectHeaders, PutPart, UploadBody, UploadEntry, UploadQuery, UploadTarget, WriteCondition,
};

use skerry_model::space;

use super::world::{TestSite, TestWorld, context, noise};
use crate::paths::{unfinished, upload};
use crate::peers::Waits;

pub(super) async fn begin(site: &TestSite, bucket: &str, key: &str) -> UploadTarget {
    let request = CreateUpload {
        bucket: bucket.into(),
        key: key.into(),
        headers: ObjectHeaders::default(),
        user_metadata: Vec::new(),
        checksum: ChecksumKind::Crc64Nvme,
        shape: ChecksumShape::Full,
        declared: false,
    };
    let created = site.services().objects.create_upload(&context(), request).await.unwrap();
    UploadTarget { bucket: bucket.into(), key: key.into(), upload: created.upload }
}

pub(super) async fn part(
    site: &TestSite,
    target: &UploadTarget,
    number: u32,
    body: &bytes::Bytes,
) -> CompletedPart {
    let request = PutPart { target: target.clone(), number, body: UploadBody::of(body.clone()) };
    let put = site.services().objects.put_part(&context(), request).await.unwrap();
    CompletedPart { number, etag: put.etag, checksums: Vec::new() }
}

pub(super) fn completion(target: &UploadTarget, parts: Vec<CompletedPart>) -> CompleteUpload {
    CompleteUpload {
        target: target.clone(),
        parts,
        checksum: None,
        shape: None,
        size: None,
        condition: WriteCondition::default(),
    }
}

/// Keys of uploads, and common prefixes, as one node lists them in pages of so many.
async fn listed(site: &TestSite, delimiter: Option<&str>, limit: usize) -> Vec<String> {
    let mut query = UploadQuery {
        bucket: "films".into(),
        delimiter: delimiter.map(Into::into),
        limit,
        ..UploadQuery::default()
    };
    let mut names = Vec::new();
    loop {
        let page = site.services().objects.list_uploads(&context(), query.clone()).await.unwrap();
        for entry in page.entries {
            (query.after, query.after_upload) = match entry {
                UploadEntry::Upload(upload) => (upload.key, Some(upload.upload)),
                UploadEntry::Prefix(prefix) => (prefix, None),
            };
            names.push(query.after.clone());
        }
        if !page.more {
            return names;
        }
    }
}

/// Some clients find the upload that they go on with by listing, and need not reach the node that they began it at.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_node_of_a_site_lists_the_uploads_of_all() {
    let world = TestWorld::of_nodes(2, 0).await;
    let [one, two] = &world.sites[..] else { panic!("two nodes") };
    one.create_bucket("films").await.unwrap();
    two.until("the bucket", || async { two.site().bucket("films").await.unwrap().is_some() }).await;
    world.until_linked(one, two).await;
    for (node, keys) in [(one, ["b/1", "d", "a"]), (two, ["c", "b/2", "a"])] {
        for key in keys {
            begin(node, "films", key).await;
        }
    }
    for node in [one, two] {
        for limit in [1, 2, 1000] {
            assert_eq!(listed(node, None, limit).await, ["a", "a", "b/1", "b/2", "c", "d"], "{limit} a page");
            assert_eq!(listed(node, Some("/"), limit).await, ["a", "a", "b/", "c", "d"], "{limit} a page");
        }
    }
    // Who is alone lists its own.
    two.cut(true).await;
    assert_eq!(listed(one, None, 9).await, ["a", "b/1", "d"]);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upload_is_filled_and_finished_from_any_site() {
    let world = TestWorld::new(2).await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    one.create_bucket("films").await.unwrap();
    let target = begin(one, "films", "film").await;
    let bodies = [noise(6 << 20, 1), noise(5 << 20, 2), noise(1000, 3)];
    let mut parts = vec![part(one, &target, 1, &bodies[0]).await];
    parts.push(part(two, &target, 2, &bodies[1]).await);
    parts.push(part(two, &target, 3, &bodies[2]).await);
    let query = ListParts { target: target.clone(), after: 0, limit: 2 };
    let page = two.services().objects.list_parts(&context(), query).await.unwrap();
    assert_eq!((page.parts.len(), page.more), (2, true));
    let done = two.services().objects.complete_upload(&context(), completion(&target, parts.clone())).await;
    let done = done.unwrap();
    assert!(done.etag.ends_with("-3"), "{}", done.etag);
    let again = one.services().objects.complete_upload(&context(), completion(&target, parts)).await.unwrap();
    assert_eq!(again.etag, done.etag, "a repeated completion is answered the same");
    let mut whole = BytesMut::new();
    bodies.iter().for_each(|body| whole.extend_from_slice(body));
    for site in [one, two] {
        assert!(site.get("films", "film").await.unwrap() == whole, "the parts in order");
    }
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upload_of_a_site_that_is_cut_off_says_where_it_lives() {
    let world = TestWorld::new(2).await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    one.create_bucket("films").await.unwrap();
    let target = begin(one, "films", "film").await;
    two.until("the bucket is known", || async { two.site().bucket("films").await.unwrap().is_some() }).await;
    two.cut(true).await;
    let request = PutPart { target: target.clone(), number: 1, body: UploadBody::of("x") };
    let refused = two.services().objects.put_part(&context(), request).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unreachable);
    assert!(refused.message().contains("site-1"), "{}", refused.message());
    one.services().objects.abort_upload(&context(), target.clone()).await.unwrap();
    let gone = one.services().objects.abort_upload(&context(), target).await.unwrap_err();
    assert_eq!(gone.kind(), ErrorKind::NoSuchUpload);
    world.stop().await;
}

/// A part that comes in at another site, a quarter of a second away, crosses in a few round trips and not in one for each chunk.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn chunks_of_a_part_from_another_site_are_on_their_way_beside_each_other() {
    let world = TestWorld::new(2).await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    let target = begun_at(one, two).await;
    let room = &one.site().holding;
    one.set_delay(two, Duration::from_millis(250));
    let bodies = [noise(12 << 20, 1), vec![0; 4 << 20].into()];
    let first = part(two, &target, 1, &bodies[0]).await;
    // Each of those that were asked for at once came on a stream of its own.
    let streams = one.site().peers.kept_with(two.node());
    let least = (room.bytes() / 2 / CHUNK_BYTES).min(4);
    assert!(least > 1 && (least..=8).contains(&streams), "{streams} at once");
    let before = one.payload_received();
    let second = part(two, &target, 2, &bodies[1]).await;
    let came = one.payload_received() - before;
    assert!(came < 2 << 20, "what is the same four times comes once: {came}");
    assert_eq!(room.taken(), 0, "all of it was given back");
    let completion = completion(&target, vec![first, second]);
    one.services().objects.complete_upload(&context(), completion).await.unwrap();
    two.cut(true).await;
    assert!(
        one.get("films", "film").await.unwrap() == bodies.concat(),
        "the chunks in order, all of them here"
    );
    world.stop().await;
}

/// An upload of the first site, which knows what the second understands.
async fn begun_at(one: &TestSite, two: &TestSite) -> UploadTarget {
    one.create_bucket("films").await.unwrap();
    let target = begin(one, "films", "film").await;
    two.until("the bucket is known", || async { two.site().bucket("films").await.unwrap().is_some() }).await;
    one.until("it is known what it speaks", || async { one.site().peers.has_marks(two.node()) }).await;
    target
}

/// One chunk goes on at a time where there is room for no more, and none where there is none; what fails gives back what it took.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_part_from_another_site_takes_the_room_there_is() {
    let world = TestWorld::new(2).await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    let target = begun_at(one, two).await;
    let room = &one.site().holding;
    let others = room.try_take(room.bytes() - (1 << 20)).unwrap();
    let before = room.taken();
    part(two, &target, 1, &noise(6 << 20, 1)).await;
    assert_eq!(one.site().peers.kept_with(two.node()), 1, "one after the other");
    assert_eq!(room.taken(), before);
    let rest = room.try_take(1 << 20).unwrap();
    let (body, before) = (noise(6 << 20, 2), one.payload_received());
    let mut put = Box::pin(part(two, &target, 2, &body));
    assert!(tokio::time::timeout(Duration::from_secs(1), &mut put).await.is_err(), "it waits for room");
    assert!(one.payload_received() < before + (1 << 20));
    drop((rest, others));
    put.await;
    one.set_delay(two, Duration::from_secs(1));
    // So long the link is waited for.
    one.site().peers.set_waits(Waits { stall: Duration::from_secs(1), ..Waits::default() });
    // Else those that are kept are taken.
    one.sever(two);
    world.until_linked(one, two).await;
    let request = PutPart { target, number: 3, body: UploadBody::of(noise(6 << 20, 3)) };
    let asked = context();
    let put = two.services().objects.put_part(&asked, request);
    let cut = async {
        one.until("some are on their way", || async { room.taken() >= 2 * CHUNK_BYTES }).await;
        two.cut(true).await;
    };
    let (failed, ()) = tokio::join!(put, cut);
    assert!(failed.is_err());
    one.until("all of it was given back", || async { room.taken() == 0 }).await;
    world.stop().await;
}

/// Whether an upload or a part of it is left at a site.
async fn is_left(site: &TestSite, bucket: skerry_base::BucketId, target: &UploadTarget) -> bool {
    let id = target.upload.parse().unwrap();
    let look = move |view: &dyn skerry_base::kv::View| {
        let uploads = space::list_uploads(view, bucket, "", None, 9).unwrap().len();
        Ok(uploads + space::list_parts(view, bucket, id, 0, 9).unwrap().len())
    };
    site.site().read(look).await.unwrap() > 0
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn uploads_end_with_their_bucket_wherever_they_live() {
    let world = TestWorld::new(2).await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    one.create_bucket("films").await.unwrap();
    one.create_bucket("kept").await.unwrap();
    let bucket = one.site().bucket("films").await.unwrap().unwrap().id;
    let kept = one.site().bucket("kept").await.unwrap().unwrap().id;
    two.until("the buckets are known", || async { two.site().bucket("kept").await.unwrap().is_some() }).await;
    // More than end in one commit.
    let mut here = Vec::new();
    for number in 0..20 {
        here.push(begin(one, "films", &format!("film {number}")).await);
    }
    part(one, &here[0], 1, &noise(100_000, 1)).await;
    let there = begin(two, "films", "film").await;
    part(two, &there, 1, &noise(100_000, 2)).await;
    let other = begin(two, "kept", "film").await;
    one.services().buckets.delete(&context(), "films").await.unwrap();
    for target in &here {
        assert!(!is_left(one, bucket, target).await, "{}", target.key);
    }
    two.until("the deletion is known", || async { two.site().bucket("films").await.unwrap().is_none() })
        .await;
    let mut heard = unfinished::Heard::new();
    let ended = unfinished::sweep(two.site(), unfinished::REST, &mut heard).await.unwrap();
    assert_eq!(ended, 0, "the bucket may come back, however long ago its deletion was said");
    assert!(is_left(two, bucket, &there).await);
    assert_eq!(unfinished::sweep(two.site(), Duration::ZERO, &mut heard).await.unwrap(), 1);
    assert!(!is_left(two, bucket, &there).await);
    assert!(is_left(two, kept, &other).await, "its bucket lives");
    world.stop().await;
}

/// The client goes away as soon as the object is made: whoever completes again finds it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_completion_whose_client_went_away_is_answered_when_it_is_repeated() {
    let world = TestWorld::new(1).await;
    let site = &world.sites[0];
    site.create_bucket("films").await.unwrap();
    for condition in [WriteCondition::default(), WriteCondition { absent: true, matches: None }] {
        let key = if condition.absent { "conditional" } else { "plain" };
        let target = begin(site, "films", key).await;
        let parts = vec![part(site, &target, 1, &noise(50_000, 1)).await];
        let ask = CompleteUpload { condition, ..completion(&target, parts) };
        let bucket = site.site().bucket("films").await.unwrap().unwrap().id;
        let asked = context();
        let mut first = site.services().objects.complete_upload(&asked, ask.clone());
        // Not polled any more once the upload has ended: as when the stream is reset.
        let mut changes = site.site().changes.follow();
        let ended = async {
            while is_left(site, bucket, &target).await {
                changes.mark_unchanged();
                let polled = futures::poll!(&mut first);
                assert!(polled.is_pending() || !is_left(site, bucket, &target).await, "{polled:?}");
                tokio::time::timeout(Duration::from_millis(50), changes.changed()).await.ok();
            }
        };
        assert!(tokio::time::timeout(Duration::from_secs(60), ended).await.is_ok(), "it never ends");
        drop(first);
        let again = site.services().objects.complete_upload(&context(), ask).await.unwrap();
        assert!(again.etag.ends_with("-1"), "{}", again.etag);
        assert_eq!(site.get("films", key).await.unwrap().len(), 50_000);
    }
    world.stop().await;
}

#[test]
fn a_part_that_would_be_too_large_is_refused_before_it_is_copied() {
    let large = PUT_BYTES + 1;
    let kind = |range, size| upload::copied(range, size).unwrap_err().kind();
    assert_eq!(kind(None, large), ErrorKind::InvalidRequest);
    assert_eq!(kind(Some((0, PUT_BYTES)), large), ErrorKind::InvalidRequest);
    assert_eq!(kind(Some((0, large)), large), ErrorKind::InvalidRange);
    assert_eq!(kind(Some((2, 1)), large), ErrorKind::InvalidRange);
    assert_eq!(upload::copied(Some((1, PUT_BYTES)), large).unwrap(), 1..large);
    assert_eq!(upload::copied(None, PUT_BYTES).unwrap(), 0..PUT_BYTES);
}
