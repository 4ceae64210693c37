//! Bodies of conditional writes whose home is asked and does not answer.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use skerry_gateway::service::{
    ChecksumKind, ChecksumShape, CompleteUpload, CompletedPart, CreateUpload, ErrorKind, ObjectHeaders,
    PutPart, UploadBody, UploadTarget, WriteCondition,
};
use skerry_model::{Object, space};

use super::world::{TestSite, TestWorld, context, noise};
use crate::paths::held::{self, Keeper};
use crate::paths::{ingest, put};
use crate::site::unreadable;

/// More than the journal takes: the home does not ask for it.
const LARGE: usize = 100_000;
/// Bytes a second: an answer takes seconds to arrive, so that a cut comes before its end.
const SLOW: u64 = 200;
const FAST: u64 = 1 << 30;

fn matches(etag: &str) -> WriteCondition {
    WriteCondition {
        absent: false,
        matches: Some(skerry_gateway::service::EtagTest::OneOf(vec![etag.into()])),
    }
}

fn absent() -> WriteCondition {
    WriteCondition { absent: true, matches: None }
}

/// Two sites, of which the first is the home of a bucket that both follow; the link to the second is slow.
async fn home_behind_a_slow_link(key: &str) -> (TestWorld, String) {
    let world = TestWorld::new(2).await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    one.create_bucket("locks").await.unwrap();
    let etag = one.put_if("locks", key, noise(LARGE, 1), absent()).await.unwrap().etag;
    two.until("the bucket is known", || async { two.site().bucket("locks").await.unwrap().is_some() }).await;
    assert_eq!(two.get("locks", key).await.unwrap(), noise(LARGE, 1));
    world.converged("locks").await;
    let id = two.site().known("locks").await.unwrap().id;
    two.until("it follows the bucket", || async { two.site().is_complete(id) }).await;
    one.set_rate(two, SLOW);
    (world, etag)
}

async fn current_etag(site: &TestSite, key: &str) -> Option<String> {
    let (bucket, key) = (site.site().known("locks").await.unwrap().id, key.to_owned());
    let read = move |view: &dyn skerry_base::kv::View| space::current(view, bucket, &key).map_err(unreadable);
    let record = site.site().read(read).await.unwrap()?;
    record.object().map(|object| object.etag.clone())
}

async fn cut_once_decided(one: &TestSite, two: &TestSite, key: &str, before: &str) {
    let is_new = || async { current_etag(one, key).await.is_some_and(|etag| etag != before) };
    one.until("the home has decided", is_new).await;
    two.cut(true).await;
}

async fn held(site: &TestSite) -> u64 {
    held::count(site.site()).await.unwrap()
}

/// What the home decided has its body nowhere else: it is there after a restart, and nothing is held once the record is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_whose_answer_was_lost_outlives_the_process() {
    let (mut world, etag) = home_behind_a_slow_link("a").await;
    {
        let [one, two] = &world.sites[..] else { panic!("two sites") };
        let put = two.put_if("locks", "a", noise(LARGE, 2), matches(&etag));
        let (refused, ()) = tokio::join!(put, cut_once_decided(one, two, "a", &etag));
        let refused = refused.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::HomeUnreachable, "{}", refused.message());
        assert!(refused.message().contains("may have decided"), "{}", refused.message());
        one.set_rate(two, FAST);
    }
    world.sites[1].stop().await;
    world.sites[1].start().await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    two.cut(false).await;
    world.until_linked(one, two).await;
    world.converged("locks").await;
    assert_eq!(two.get("locks", "a").await.unwrap(), noise(LARGE, 2));
    assert_eq!(one.get("locks", "a").await.unwrap(), noise(LARGE, 2));
    Keeper::new(two.site().clone()).turn(Duration::MAX).await.unwrap();
    assert_eq!(held(two).await, 0, "the record counts it");
    two.delete("locks", "a").await.unwrap();
    world.converged("locks").await;
    assert!(!counts(two, 2).await, "nothing else does");
    world.stop().await;
}

/// A body whose home was asked, and nothing else is known of it.
async fn in_doubt(two: &TestSite) {
    let site = two.site();
    let bucket = site.known("locks").await.unwrap();
    let (body, digests) = ingest::ingest(site, bucket.id, UploadBody::of(noise(LARGE, 2))).await.unwrap();
    let object = Object {
        size: body.size,
        etag: digests.etag(),
        chunks: body.chunks.clone(),
        modified: site.clock.wall(),
        ..Object::default()
    };
    let mut asked = put::asked(site, (&bucket, "a".into()), &context(), object, body);
    let pins = Arc::new((None, std::mem::take(&mut asked.pins)));
    drop(held::begin(site, &asked, &pins).await.unwrap().unwrap());
    assert_eq!(held(two).await, 1);
}

/// Whether the only chunk of such a body counts at a site.
async fn counts(site: &TestSite, seed: u64) -> bool {
    let bucket = site.site().known("locks").await.unwrap().id;
    let chunk = skerry_base::ChunkId::of(&noise(LARGE, seed));
    let heads = move |view: &dyn skerry_base::kv::View| space::heads(view, bucket, "a").map_err(unreadable);
    let heads = site.site().read(heads).await.unwrap();
    let listed = |head: &skerry_model::Record| {
        head.object().is_some_and(|object| object.chunks.iter().any(|listed| listed.id == chunk))
    };
    heads.iter().any(listed)
}

/// Nothing was decided: the body goes once the home has said what it has for long enough, and not before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_nobody_decided_goes_once_the_home_was_heard() {
    let (world, _) = home_behind_a_slow_link("a").await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    one.set_rate(two, FAST);
    in_doubt(two).await;
    two.cut(true).await;
    let mut keeper = Keeper::new(two.site().clone());
    assert_eq!(keeper.turn(Duration::ZERO).await.unwrap(), 1, "the home says nothing");
    let status = two.services().admin.status().await.unwrap().storage;
    assert_eq!((status.undecided_writes, status.undecided_bytes), (1, LARGE as u64));
    assert_eq!(status.undecided_at, ["site-1"]);
    two.cut(false).await;
    world.until_linked(one, two).await;
    assert_eq!(keeper.turn(Duration::MAX).await.unwrap(), 1, "it may be deciding still");
    let is_over = || async { Keeper::new(two.site().clone()).turn(Duration::ZERO).await.unwrap() == 0 };
    two.until("it is known", is_over).await;
    assert_eq!(held(two).await, 0);
    assert_eq!(two.get("locks", "a").await.unwrap(), noise(LARGE, 1));
    world.stop().await;
}

/// What is refused, or was decided and heard, leaves nothing behind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_was_heard_leaves_nothing_held() {
    let (world, etag) = home_behind_a_slow_link("a").await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    one.set_rate(two, FAST);
    let put = two.put_if("locks", "a", noise(LARGE, 2), matches("other")).await.unwrap_err();
    assert_eq!((put.kind(), held(two).await), (ErrorKind::PreconditionFailed, 0));
    two.put_if("locks", "a", noise(LARGE, 3), matches(&etag)).await.unwrap();
    assert_eq!(held(two).await, 0);
    two.cut(true).await;
    let refused = two.put_if("locks", "a", noise(LARGE, 4), absent()).await.unwrap_err();
    assert_eq!((refused.kind(), held(two).await), (ErrorKind::HomeUnreachable, 0), "nobody was asked");
    world.stop().await;
}

/// A completion whose answer was lost: the object's trees stay as a body's chunks do, and a repeat is told what became of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_completion_whose_answer_was_lost_is_answered_when_it_is_repeated() {
    repeated_after_its_answer_was_lost(5 << 20).await;
}

/// The home has a copy of a small body, so nothing of it is kept; what became of its upload is to be known all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn so_is_one_of_a_small_body() {
    repeated_after_its_answer_was_lost(500).await;
}

/// An upload of one part at this site, to be completed in place of what has this tag.
async fn uploaded(site: &TestSite, body: &Bytes, etag: &str) -> CompleteUpload {
    let objects = &site.services().objects;
    let create = CreateUpload {
        bucket: "locks".into(),
        key: "a".into(),
        headers: ObjectHeaders::default(),
        user_metadata: Vec::new(),
        checksum: ChecksumKind::Crc64Nvme,
        shape: ChecksumShape::Full,
        declared: false,
    };
    let upload = objects.create_upload(&context(), create).await.unwrap().upload;
    let target = UploadTarget { bucket: "locks".into(), key: "a".into(), upload };
    let part = PutPart { target: target.clone(), number: 1, body: UploadBody::of(body.clone()) };
    let part = objects.put_part(&context(), part).await.unwrap();
    let parts = vec![CompletedPart { number: 1, etag: part.etag, checksums: Vec::new() }];
    CompleteUpload { target, parts, checksum: None, shape: None, size: None, condition: matches(etag) }
}

/// A client that gave up waiting and asks again is not refused for what its own first completion made.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_completion_that_is_repeated_while_its_first_is_decided_is_answered_as_that_one() {
    let (world, etag) = home_behind_a_slow_link("a").await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    // An answer takes its time, and is heard within the patience of who asked.
    one.set_rate(two, 2_000);
    let request = uploaded(two, &noise(500, 7), &etag).await;
    let objects = &two.services().objects;
    let again = async {
        let is_new = || async { current_etag(one, "a").await.is_some_and(|now| now != etag) };
        one.until("the home has decided", is_new).await;
        objects.complete_upload(&context(), request.clone()).await.unwrap()
    };
    let asked = context();
    let (first, again) = tokio::join!(objects.complete_upload(&asked, request.clone()), again);
    assert_eq!((first.unwrap().etag, held(two).await), (again.etag, 0));
    world.stop().await;
}

/// While nobody here can know what became of it the answer is not that it lost; once its object is here, that it won.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_completion_in_doubt_is_not_refused_for_its_own_object() {
    let (world, etag) = home_behind_a_slow_link("a").await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    let request = uploaded(two, &noise(500, 7), &etag).await;
    let asked = context();
    let complete = two.services().objects.complete_upload(&asked, request.clone());
    let (refused, ()) = tokio::join!(complete, cut_once_decided(one, two, "a", &etag));
    assert_eq!((refused.unwrap_err().kind(), held(two).await), (ErrorKind::HomeUnreachable, 1));
    let bucket = two.site().known("locks").await.unwrap().id;
    let id = request.target.upload.parse().unwrap();
    assert!(held::is_undecided(two.site(), bucket, id).await.unwrap());
    one.set_rate(two, FAST);
    two.cut(false).await;
    world.until_linked(one, two).await;
    world.converged("locks").await;
    // Nobody has looked for it meanwhile.
    let again = two.services().objects.complete_upload(&context(), request).await.unwrap();
    assert_eq!((Some(again.etag), held(two).await), (current_etag(two, "a").await, 0));
    world.stop().await;
}

async fn repeated_after_its_answer_was_lost(size: usize) {
    let (mut world, etag) = home_behind_a_slow_link("a").await;
    let body = noise(size, 7);
    let request;
    {
        let [one, two] = &world.sites[..] else { panic!("two sites") };
        request = uploaded(two, &body, &etag).await;
        let context = context();
        let complete = two.services().objects.complete_upload(&context, request.clone());
        let (refused, ()) = tokio::join!(complete, cut_once_decided(one, two, "a", &etag));
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::HomeUnreachable);
        one.set_rate(two, FAST);
    }
    world.sites[1].stop().await;
    world.sites[1].start().await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    two.cut(false).await;
    world.until_linked(one, two).await;
    world.converged("locks").await;
    Keeper::new(two.site().clone()).turn(Duration::MAX).await.unwrap();
    assert_eq!(held(two).await, 0);
    assert_eq!(one.get("locks", "a").await.unwrap(), body);
    let again = two.services().objects.complete_upload(&context(), request).await.unwrap();
    assert_eq!(Some(again.etag), current_etag(two, "a").await);
    let bucket = two.site().bucket("locks").await.unwrap().unwrap().id;
    let uploads = space::list_uploads(&two.site().store.view(), bucket, "", None, 9).unwrap();
    assert!(uploads.is_empty(), "the upload has ended");
    world.stop().await;
}

/// What left the bucket would hear of no decision: it waits until it is known.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bucket_is_not_left_while_a_body_in_doubt_is_held() {
    let (world, _) = home_behind_a_slow_link("a").await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    one.set_rate(two, FAST);
    in_doubt(two).await;
    let admin = &two.services().admin;
    admin.leave_bucket("locks").await.unwrap();
    let waits = || async { admin.membership("locks").await.unwrap().reason.contains("conditional write") };
    two.until("it says why it stays", waits).await;
    let is_over = || async { Keeper::new(two.site().clone()).turn(Duration::ZERO).await.unwrap() == 0 };
    two.until("it is known", is_over).await;
    let has_left = || async { admin.membership("locks").await.unwrap().standing == "none" };
    two.until("it has left", has_left).await;
    world.stop().await;
}

/// A word that can be taken back ends nothing for good: the home is there again, with what it had decided.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_whose_home_was_declared_lost_is_there_when_the_home_is_back() {
    use skerry_base::WallTime;
    use skerry_base::limits::CHUNK_REST_MS;
    use skerry_gateway::service::LossRequest;
    let (world, etag) = home_behind_a_slow_link("a").await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    let put = two.put_if("locks", "a", noise(LARGE, 2), matches(&etag));
    let (refused, ()) = tokio::join!(put, cut_once_decided(one, two, "a", &etag));
    assert!(refused.unwrap_err().message().contains("may have decided"));
    one.set_rate(two, FAST);
    two.services().admin.declare_loss("site-1", LossRequest { lost: true }).await.unwrap();
    // What it does by itself every half a minute.
    Keeper::new(two.site().clone()).turn(Duration::ZERO).await.unwrap();
    assert_eq!(held(two).await, 1);
    // Hours pass: what nothing refers to is let go of.
    for site in [one, two] {
        let (store, now) = (site.site().store.clone(), site.site().clock.wall().0);
        let later = move || {
            for turn in 1..=40 {
                store.collect(WallTime(now + turn * CHUNK_REST_MS)).unwrap();
                std::thread::sleep(Duration::from_millis(20));
            }
        };
        tokio::task::spawn_blocking(later).await.unwrap();
    }
    two.cut(false).await;
    world.until_linked(one, two).await;
    world.converged("locks").await;
    two.until("it says that it is there", || async {
        !two.site().copies.losses().values().any(|loss| loss.is_lost)
    })
    .await;
    // The first was acknowledged, and the second is what the home decided: one of them must be there.
    assert_eq!(two.get("locks", "a").await.unwrap(), noise(LARGE, 2));
    world.stop().await;
}

/// The home decided for it, the answer was lost, and before the record came here somebody replaced the object: its completion won all the
/// same, and is not told that it did not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_completion_that_won_and_was_overwritten_is_not_told_that_it_lost() {
    let (world, etag) = home_behind_a_slow_link("a").await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    let request = uploaded(two, &noise(500, 7), &etag).await;
    let asked = context();
    let complete = two.services().objects.complete_upload(&asked, request.clone());
    let (refused, ()) = tokio::join!(complete, cut_once_decided(one, two, "a", &etag));
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::HomeUnreachable);
    one.put("locks", "a", "after it").await.unwrap();
    one.set_rate(two, FAST);
    two.cut(false).await;
    world.until_linked(one, two).await;
    world.converged("locks").await;
    let mut keeper = Keeper::new(two.site().clone());
    two.until("its home was heard", || async { held(two).await == 0 || keeper_turn(two).await == 0 }).await;
    keeper.turn(Duration::ZERO).await.unwrap();
    let again = two.services().objects.complete_upload(&context(), request).await;
    let kind = again.as_ref().err().map(skerry_gateway::service::ServiceError::kind);
    assert_ne!(kind, Some(ErrorKind::PreconditionFailed), "it won: {again:?}");
    world.stop().await;
}

async fn keeper_turn(site: &TestSite) -> usize {
    Keeper::new(site.site().clone()).turn(Duration::ZERO).await.unwrap()
}
