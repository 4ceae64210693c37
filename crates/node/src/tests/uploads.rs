//! Multipart uploads, at the site where they live and from others.

use bytes::BytesMut;
use skerry_gateway::service::{
    ChecksumKind, ChecksumShape, CompleteUpload, CompletedPart, CreateUpload, ErrorKind, ListParts,
    ObjectHeaders, PutPart, UploadBody, UploadTarget, WriteCondition,
};

use super::world::{TestSite, TestWorld, context, noise};

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
