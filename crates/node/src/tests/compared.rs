//! What others have seen is asked by a digest: who has seen the same says no more than that, and nobody passes for having seen what
//! it has not.

use skerry_base::{BucketId, Vector};
use skerry_gateway::service::ErrorKind;
use skerry_model::space;

use super::dialects::Release;
use super::world::{TestSite, TestWorld};
use crate::paths::heard;
use crate::peers::mark;
use crate::peers::message::{Request, Response};

fn vector(site: &TestSite, bucket: BucketId) -> Vector {
    space::vector(&site.site().store.view(), bucket).unwrap()
}

async fn asked(one: &TestSite, two: &TestSite, request: Request) -> Response {
    one.site().peers.call(two.id(), &request).await.unwrap().response
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_has_seen_the_same_says_so_and_who_has_not_says_what() {
    let world = TestWorld::new(2).await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    one.create_bucket("photos").await.unwrap();
    let system = one.site().system;
    one.until("both have the claim", || async { vector(one, system) == vector(two, system) }).await;
    one.until("it is known what it speaks", || async { one.site().peers.compares(two.id()) }).await;
    let (own, seen) = (vector(one, system), |digest| Request::Seen { bucket: system, digest });
    assert!(!own.is_empty());
    assert_eq!(asked(one, two, seen(heard::digest(&own))).await, Response::Same);
    let (all, said) = heard::seen_by(one.site(), system, &[two.id()]).await;
    assert_eq!((all, said), (own.clone(), 1));
    match asked(one, two, seen(heard::digest(&Vector::new()))).await {
        Response::Size { vector, .. } => assert_eq!(vector, own),
        other => panic!("{other:?}"),
    }
    let strange = Request::Seen { bucket: BucketId([9; 16]), digest: heard::digest(&Vector::new()) };
    assert_eq!(
        asked(one, two, strange).await,
        Response::NotMember,
        "nothing seen is not the same as nothing there"
    );
    world.stop().await;
}

/// A name that nobody has: all are asked, in the words that they have.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn releases_before_are_asked_how_far_they_have_seen_as_ever() {
    for dialect in [mark::COMPARES, mark::COMPARES - 1] {
        let mut world = TestWorld::new(2).await;
        world.sites[0].create_bucket("photos").await.unwrap();
        world.sites[1].stop().await;
        let [one, two] = &world.sites[..] else { panic!("two sites") };
        let release = Release::start(one, two, Some(dialect));
        one.until("it is known what it speaks", || async { one.site().peers.has_marks(two.node()) }).await;
        // It answers nothing.
        let refused = one.list("nobody-has-it").await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::NoSuchBucket);
        let heard = release.heard.lock().unwrap().clone();
        let asked: Vec<bool> = heard
            .iter()
            .filter_map(|frame| match skerry_base::codec::decode(mark::read(frame).1) {
                Ok(Request::Seen { bucket, .. }) if bucket == one.site().system => Some(true),
                Ok(Request::Size { bucket }) if bucket == one.site().system => Some(false),
                _ => None,
            })
            .collect();
        assert!(
            !asked.is_empty() && asked.iter().all(|new| *new == (dialect == mark::COMPARES)),
            "{dialect}: {asked:?}"
        );
        world.stop().await;
    }
}
