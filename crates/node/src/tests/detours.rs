//! Bodies behind a link that is silent or gone, while a third site has a link with both.

use std::time::Duration;

use skerry_base::kv::View;
use skerry_gateway::service::{BucketPatch, ErrorKind};
use skerry_model::space;

use super::world::{TestSite, TestWorld, noise};
use crate::site::unreadable;

const MIB: usize = 1 << 20;

/// A body that only the first site has; the third knows its record.
async fn written(world: &TestWorld, size: usize) -> bytes::Bytes {
    let [writer, _, reader] = &world.sites[..] else { panic!("three sites") };
    let body = noise(size, 1);
    writer.create_bucket("films").await.unwrap();
    writer.set_copies("films", 1).await.unwrap();
    writer.put("films", "small", noise(100, 2)).await.unwrap();
    writer.put("films", "film", body.clone()).await.unwrap();
    reader.until("it follows the bucket", || async { reader.get("films", "small").await.is_ok() }).await;
    let id = writer.site().bucket("films").await.unwrap().unwrap().id;
    reader.until("it has what was written before", || async { reader.site().is_complete(id) }).await;
    let knows = || async { reader.list("films").await.is_ok_and(|keys| keys.len() == 2) };
    reader.until("its record", knows).await;
    body
}

async fn chunks_at(site: &TestSite, writer: &TestSite) -> usize {
    let id = writer.site().bucket("films").await.unwrap().unwrap().id;
    let read = move |view: &dyn View| space::current(view, id, "film").map_err(unreadable);
    let record = writer.site().read(read).await.unwrap().unwrap();
    let chunks = &record.object().unwrap().chunks;
    chunks.iter().filter(|chunk| site.site().store.has_chunk(id, chunk.id).unwrap()).count()
}

/// Keeps two apart from now on.
fn part(one: &TestSite, other: &TestSite) {
    for (here, there) in [(one, other), (other, one)] {
        here.site().peers.net().set_apart([there.node()].into());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_behind_a_silent_link_comes_by_way_of_a_third_site() {
    let world = TestWorld::new(3).await;
    let body = written(&world, 3 * MIB + 7).await;
    let [writer, between, reader] = &world.sites[..] else { panic!("three sites") };
    // A link on which nothing comes: what is said on it takes hours.
    writer.set_rate(reader, 1);
    writer.sever(reader);
    reader.until("it is linked again", || async { reader.site().linked(writer.id()) }).await;
    assert_eq!(reader.get("films", "film").await.unwrap(), body);
    assert!(reader.site().linked(writer.id()), "the link still stands");
    assert_eq!(chunks_at(between, writer).await, 4, "an evictable copy in between");
    assert_eq!(chunks_at(reader, writer).await, 4);
    world.stop().await;
}

/// Until the link is dead nobody says that it does not hear; what it says by itself goes on coming.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_that_talks_and_does_not_hear_is_gone_round() {
    let world = TestWorld::new(3).await;
    let body = written(&world, 3 * MIB + 7).await;
    let [writer, between, reader] = &world.sites[..] else { panic!("three sites") };
    reader.set_rate_to(writer, 1);
    writer.sever(reader);
    reader.until("it is linked again", || async { reader.site().linked(writer.id()) }).await;
    let before = reader.received_from(writer);
    let (site, asked) = (writer.site().clone(), reader.id());
    let talks = async {
        // Questions that come, and whose answers do not.
        let mut questions = tokio::task::JoinSet::new();
        loop {
            let site = site.clone();
            questions.spawn(async move { site.peers.dialect(asked).await });
            tokio::time::timeout(Duration::from_millis(100), std::future::pending::<()>()).await.ok();
        }
    };
    let read = async { tokio::time::timeout(Duration::from_secs(12), reader.get("films", "film")).await };
    tokio::select! {
        () = talks => {}
        read = read => assert_eq!(read.unwrap().unwrap(), body),
    }
    assert!(reader.received_from(writer) > before, "it was heard meanwhile");
    assert_eq!(chunks_at(between, writer).await, 4, "an evictable copy in between");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_is_read_before_a_link_by_way_of_others_was_found() {
    let world = TestWorld::over_tcp(3).await;
    let body = written(&world, 2 * MIB).await;
    let [writer, between, reader] = &world.sites[..] else { panic!("three sites") };
    part(writer, reader);
    reader.until("the link is gone", || async { reader.site().peers.course(writer.id()).is_none() }).await;
    assert_eq!(reader.get("films", "film").await.unwrap(), body);
    assert_eq!(chunks_at(between, writer).await, 2);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_may_not_keep_it_fetches_nothing_and_the_refusal_says_so() {
    let world = TestWorld::over_tcp(3).await;
    written(&world, 2 * MIB).await;
    let [writer, between, reader] = &world.sites[..] else { panic!("three sites") };
    let residency = Some(vec!["site-1".into(), "site-3".into()]);
    let patch = BucketPatch { residency, ..BucketPatch::default() };
    writer.services().admin.update_bucket("films", patch).await.unwrap();
    for site in [between, reader] {
        let knows = || async {
            let bucket = site.site().bucket("films").await.unwrap();
            bucket.is_some_and(|bucket| bucket.config.residency.len() == 2)
        };
        site.until("the setting", knows).await;
    }
    part(writer, reader);
    reader.until("the link is gone", || async { reader.site().peers.course(writer.id()).is_none() }).await;
    // On a busy machine the link by way of it may be there first.
    if let Err(refused) = reader.get("films", "film").await {
        assert_eq!(refused.kind(), ErrorKind::Unreachable);
        let said = refused.message();
        assert!(said.contains("asked to fetch it, site-2: films may lie at site-"), "{said}");
    }
    assert_eq!(chunks_at(between, writer).await, 0);
    // The link by way of the same site carries it unread.
    reader.until("a link by way of it", || async { reader.site().linked(writer.id()) }).await;
    assert_eq!(reader.get("films", "film").await.unwrap().len(), 2 * MIB);
    assert_eq!(chunks_at(between, writer).await, 0);
    world.stop().await;
}
