//! Nodes of one site: none hears of what another one has written before it has the body. What a lost node told of can be read and
//! decided about without it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use skerry_base::BucketId;
use skerry_federation::{Share, Span};
use skerry_gateway::service::{BucketPatch, ErrorKind, EtagTest, RequestContext, WriteCondition};
use skerry_model::bucket::Duty;
use skerry_model::space;

use super::duties;
use super::nodes::leased;
use super::tenures::ready;
use super::within::{put, sees, site_of};
use super::world::{TestSite, context, noise};
use crate::drive::Replicas;
use crate::drive::replica::StoreReplicas;
use crate::site::unreadable;

const BUCKET: &str = "photos";

fn alone() -> RequestContext {
    RequestContext { scope: Some("node".into()), ..context() }
}

async fn bucket_of(node: &TestSite) -> BucketId {
    node.site().bucket(BUCKET).await.unwrap().unwrap().id
}

/// Waits until a node has heard by the feed of all that another one has written.
async fn hears(node: &TestSite, writer: &TestSite) {
    let id = bucket_of(writer).await;
    let origin = writer.site().stamps.origin_of(id);
    let seq = |site: &TestSite| {
        let site = site.site().clone();
        async move {
            site.read(move |view| space::vector_entry(view, id, origin).map_err(unreadable)).await.unwrap()
        }
    };
    let last = seq(writer).await;
    node.until("it has heard of all", || async { seq(node).await >= last }).await;
}

/// Nobody is asked to hold a write of scope `node`: it is the moment before the others are, for as long as one likes.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_lost_node_told_of_has_its_body_at_those_that_heard() {
    let mut world = site_of(3).await;
    put(&world.sites[1], "counter", noise(20_000, 1)).await.unwrap();
    ready(&world.sites).await;
    let bodies = [257, 4096, 32 << 10].map(|len| (format!("{len}"), noise(len, len as u64)));
    let next = noise(20_000, 2);
    let one = &world.sites[0];
    for (key, body) in &bodies {
        let done = one.put_in(&alone(), BUCKET, key, body.clone()).await.unwrap();
        assert_eq!(done.receipt.scope.as_deref(), Some("node"));
    }
    let last = one.put_in(&alone(), BUCKET, "counter", next.clone()).await.unwrap();
    hears(&world.sites[1], one).await;
    hears(&world.sites[2], one).await;
    world.sites[0].stop().await;
    for node in &world.sites[1..] {
        leased(node, &[1, 2]).await;
        for (key, body) in &bodies {
            sees(node, key, body).await;
        }
        assert_eq!(node.site().store.usage().cache.live, 0, "as copies that count");
    }
    // The next is decided on what was told of, not on what it replaced.
    let condition = WriteCondition { absent: false, matches: Some(EtagTest::OneOf(vec![last.etag])) };
    let two = &world.sites[1];
    two.until("it is decided", || async {
        match two.put_if(BUCKET, "counter", "third", condition.clone()).await {
            Ok(_) => true,
            // An attempt before may have been decided.
            Err(error) => {
                let is_over = two.get(BUCKET, "counter").await.is_ok_and(|found| found == "third");
                assert!(is_over || error.kind() != ErrorKind::PreconditionFailed, "{error}");
                is_over
            }
        }
    })
    .await;
    sees(&world.sites[2], "counter", &"third".into()).await;
    world.stop().await;
}

/// Where a bucket may not lie at a node, that one has its records and no more, as ever.
#[tokio::test(flavor = "multi_thread")]
async fn bodies_go_along_to_no_node_that_may_not_have_them() {
    let world = site_of(3).await;
    let [one, two, three] = &world.sites[..] else { panic!("three nodes") };
    put(one, "first", "body").await.unwrap();
    let id = bucket_of(one).await;
    for node in [two, three] {
        node.until("it follows the bucket", || async { node.site().is_complete(id) }).await;
    }
    let patch =
        BucketPatch { residency: Some(vec!["site-1".into(), "site-1-1".into()]), ..BucketPatch::default() };
    one.services().admin.update_bucket(BUCKET, patch).await.unwrap();
    let body = noise(20_000, 3);
    one.put_in(&alone(), BUCKET, "second", body.clone()).await.unwrap();
    hears(two, one).await;
    hears(three, one).await;
    let chunk = skerry_base::ChunkId::of(&body);
    let has = |node: &TestSite| node.site().store.has_chunk(id, chunk).unwrap();
    assert_eq!([one, two, three].map(has), [true, true, false]);
    world.stop().await;
}

/// What one answer to another node, asked for all, brings of long bodies; and how many records.
fn given(node: &TestSite, fellow: &TestSite, bucket: BucketId, is_short: bool) -> (usize, usize) {
    let site = node.site();
    let replicas =
        StoreReplicas { store: site.store.clone(), stamps: site.stamps.clone(), site: Arc::downgrade(site) };
    let span = Span { origin: site.stamps.origin_of(bucket), first: 1, last: u64::MAX };
    let share = Share { max_bytes: 1 << 20, fellow: Some(fellow.id()), is_short };
    let mut items = Vec::new();
    replicas.with(&mut |replica| {
        items = replica.records_in(bucket, &span, &BTreeSet::new(), share).unwrap().0;
    });
    (items.iter().filter(|item| item.is_whole()).count(), items.len())
}

/// It would have to give them away again. What nobody else is known to hold it gets: it may be the only one that hears of it.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_being_emptied_gets_the_bodies_that_nobody_else_holds() {
    let world = site_of(3).await;
    let [one, two, three] = &world.sites[..] else { panic!("three nodes") };
    let id = bucket_of(one).await;
    let short = one.put_in(&alone(), BUCKET, "short", "x").await.unwrap();
    assert_eq!(short.receipt.scope.as_deref(), Some("node"));
    one.put_in(&alone(), BUCKET, "alone", noise(20_000, 6)).await.unwrap();
    duties::say(one, "site-1-2", "drain").await;
    let goes = || async { one.site().duties.of(three.id()).duty == Duty::Drain };
    one.until("it is known", goes).await;
    leased(one, &[0, 1]).await;
    // What others said that they hold counts for seconds only.
    one.until("two holds it, and it is known here", || async {
        put(one, "held", noise(20_000, 7)).await.unwrap();
        given(one, two, id, false) == (1, 3)
    })
    .await;
    assert_eq!(given(one, three, id, false), (1, 3), "the one that two is not known to hold");
    // What goes with the news of a record ends before the first body that would have to go along.
    assert_eq!(given(one, two, id, true), (0, 1));
    world.stop().await;
}

/// A body that its node cannot read keeps no record from the others.
#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_body_is_left_behind() {
    let mut world = site_of(2).await;
    put(&world.sites[0], "first", "body").await.unwrap();
    world.sites[1].stop().await;
    let body = noise(20_000, 4);
    world.sites[0].put_in(&alone(), BUCKET, "bad", body.clone()).await.unwrap();
    world.sites[0].put_in(&alone(), BUCKET, "good", noise(20_000, 5)).await.unwrap();
    world.sites[0].stop().await;
    world.sites[0].damage(&body);
    for node in &mut world.sites {
        node.start().await;
    }
    let [one, two] = &world.sites[..] else { panic!("two nodes") };
    two.until("all is listed", || async {
        two.list(BUCKET).await.is_ok_and(|keys| keys == ["bad", "first", "good"])
    })
    .await;
    two.until("the good one is there", || async { two.get(BUCKET, "good").await.is_ok() }).await;
    assert!(two.get(BUCKET, "bad").await.is_err() && one.get(BUCKET, "bad").await.is_err());
    world.stop().await;
}

/// What crosses between the nodes of a site, and what a PUT takes: run with `--ignored` and `--nocapture`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement"]
async fn what_a_write_of_the_site_costs() {
    let world = site_of(3).await;
    let [one, two, three] = &world.sites[..] else { panic!("three nodes") };
    put(one, "first", "body").await.unwrap();
    let received = || two.received_from(one) + three.received_from(one);
    for (at_once, len) in [(1, 100_usize), (1, 4096), (8, 4096), (32, 4096), (8, 32 << 10)] {
        let (before, count) = (received(), 400_u64);
        let write = |n: u64| async move {
            let begun = one.site().clock.now();
            let key = format!("{at_once}-{len}-{n}");
            put(one, &key, noise(len, n)).await.unwrap();
            one.site().clock.now().since(begun)
        };
        let mut times: Vec<Duration> =
            futures::stream::iter((0..count).map(write)).buffer_unordered(at_once).collect().await;
        hears(two, one).await;
        hears(three, one).await;
        times.sort();
        let bytes = (received() - before) / count / 2;
        println!(
            "{at_once} at once, {len} bytes: {bytes} bytes to each node a write; median {:?}, 99 of 100 below {:?}",
            times[times.len() / 2],
            times[times.len() * 99 / 100]
        );
    }
    world.stop().await;
}
