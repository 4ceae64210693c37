//! Links on which a chunk takes longer than silence may last, and that break before a chunk is through.
//!
//! What is waited for is scaled down with the chunks' time: a second of silence here is a minute there.

use std::time::Duration;

use skerry_base::kv::View;
use skerry_base::limits::CHUNK_REST_MS;
use skerry_base::{ChunkId, WallTime};
use skerry_federation::budget::Class;
use skerry_model::space;
use tokio::sync::oneshot;

use super::nodes::leased;
use super::scope::put;
use super::world::{TestSite, TestWorld, noise};
use crate::peers::Waits;
use crate::peers::message::{Part, Read, Request, Response, Which};
use crate::site::unreadable;

const MIB: usize = 1 << 20;
/// Bytes a second of a slow link.
const RATE: u64 = MIB as u64;
/// A chunk is there after a second if it is alone; four at once take as long as silence may last.
const WAITS: Waits = Waits {
    answer: Duration::from_millis(1500),
    stall: Duration::from_secs(4),
    back: Duration::from_secs(3),
    turn: Duration::from_millis(500),
    next: Duration::from_secs(4),
    reached: Duration::from_secs(45),
    staged: Duration::from_secs(3),
    levelled: Duration::from_millis(200),
};

/// Two nodes take a body at once, the third is slow with it: it is not asked for what it cannot have, and stays in the view.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_slow_with_a_large_body_is_not_left_out_for_it() {
    let world = TestWorld::of_nodes(3, 0).await;
    let [one, two, three] = &world.sites[..] else { panic!("three nodes") };
    for node in [one, two, three] {
        leased(node, &[0, 1, 2]).await;
    }
    one.create_bucket("photos").await.unwrap();
    let id = one.site().bucket("photos").await.unwrap().unwrap().id;
    for node in [two, three] {
        node.until("it follows the bucket", || async { node.site().is_complete(id) }).await;
    }
    slow_from_now_on(&world, one, three, RATE).await;
    let scope = scope_in_one_view(&world.sites, 12 * MIB).await;
    assert_eq!(scope.as_deref(), Some("node"), "it takes twelve seconds, and has three");
    one.until("a small one is the site's", || async {
        let put = one.put("photos", "small", noise(200, 2)).await.unwrap();
        put.receipt.scope.as_deref() == Some("site")
    })
    .await;
    assert_eq!(three.get("photos", "small").await.unwrap(), noise(200, 2));
    world.stop().await;
}

/// What a write through the first node is answered for while nobody is left out: on a busy machine a node is silent for
/// too long now and then, whatever is written, and the write says nothing then.
async fn scope_in_one_view(nodes: &[TestSite], bytes: usize) -> Option<String> {
    for attempt in 0..20 {
        let epoch = nodes[0].site().nodes.epoch();
        for node in nodes {
            leased(node, &[0, 1, 2]).await;
        }
        let put = nodes[0].put("photos", &format!("large-{attempt}"), noise(bytes, attempt)).await.unwrap();
        if nodes[0].site().nodes.epoch() == epoch {
            return put.receipt.scope;
        }
    }
    panic!("a node was left out during each of twenty writes")
}

fn slow(one: &TestSite, other: &TestSite, rate: u64) {
    one.set_rate(other, rate);
    for site in [one, other] {
        site.site().peers.set_waits(WAITS);
    }
}

/// Makes streams that are open already as slow as others.
async fn slow_from_now_on(world: &TestWorld, one: &TestSite, other: &TestSite, rate: u64) {
    slow(one, other, rate);
    one.sever(other);
    world.until_linked(one, other).await;
    for (here, there) in [(one, other), (other, one)] {
        here.until("it is known what it speaks", || async { here.site().peers.has_marks(there.node()) })
            .await;
    }
}

/// Breaks the link between two sites again and again while something is done.
async fn while_it_breaks<T>(
    (one, other): (&TestSite, &TestSite),
    every: Duration,
    done: impl Future<Output = T>,
) -> (T, usize) {
    let mut breaks = 0;
    let mut done = std::pin::pin!(done);
    loop {
        match tokio::time::timeout(every, &mut done).await {
            Ok(result) => return (result, breaks),
            Err(_) => {
                one.sever(other);
                breaks += 1;
            }
        }
    }
}

/// The record is at the reader, the body is not.
async fn written(world: &TestWorld, size: usize) -> bytes::Bytes {
    let [reader, writer, ..] = &world.sites[..] else { panic!("two sites") };
    let body = noise(size, 1);
    writer.create_bucket("films").await.unwrap();
    // Small, so that reading it makes the reader a member.
    writer.put("films", "small", noise(100, 2)).await.unwrap();
    writer.put("films", "film", body.clone()).await.unwrap();
    reader.until("the bucket is known", || async { reader.get("films", "small").await.is_ok() }).await;
    world.converged("films").await;
    body
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_body_comes_over_a_link_on_which_it_takes_longer_than_silence_may_last() {
    let world = TestWorld::new(2).await;
    let body = written(&world, 8 * MIB).await;
    let [reader, writer] = &world.sites[..] else { panic!("two sites") };
    slow_from_now_on(&world, reader, writer, RATE).await;
    let before = reader.payload_received();
    assert_eq!(reader.get("films", "film").await.unwrap(), body);
    let came = reader.payload_received() - before;
    let once = body.len() as u64..(body.len() + 10_000) as u64;
    assert!(once.contains(&came), "every byte came once: {came}");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_comes_over_a_link_that_breaks_before_a_chunk_is_through() {
    let world = TestWorld::new(2).await;
    let body = written(&world, 4 * MIB).await;
    let [reader, writer] = &world.sites[..] else { panic!("two sites") };
    slow_from_now_on(&world, reader, writer, RATE / 2).await;
    let before = reader.payload_received();
    let read = reader.get("films", "film");
    let every = Duration::from_millis(1600);
    let (read, breaks) = while_it_breaks((reader, writer), every, read).await;
    assert_eq!(read.unwrap(), body);
    assert!(breaks >= 4, "{breaks} breaks");
    let came = reader.payload_received() - before;
    assert!(came < (body.len() + MIB) as u64, "{came} bytes came, of {}", body.len());
    world.stop().await;
}

/// Who is on an island hears so at once, however patient it is with links that give something.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_of_which_nothing_came_is_not_waited_for() {
    let world = TestWorld::new(2).await;
    written(&world, 2 * MIB).await;
    let [reader, _] = &world.sites[..] else { panic!("two sites") };
    reader.cut(true).await;
    let read = tokio::time::timeout(Duration::from_secs(5), reader.get("films", "film")).await;
    assert!(matches!(read, Ok(Err(_))), "refused at once");
    world.stop().await;
}

const COPY: usize = 1_000_000;

/// The first of it goes along with the question, which is asked again and again while the rest is fetched.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_another_site_is_to_hold_crosses_a_slow_link_once() {
    let world = TestWorld::new(2).await;
    let [one, other] = &world.sites[..] else { panic!("two sites") };
    one.create_bucket("safe").await.unwrap();
    one.put("safe", "small", noise(100, 1)).await.unwrap();
    other.until("it follows the bucket", || async { other.get("safe", "small").await.is_ok() }).await;
    world.converged("safe").await;
    slow_from_now_on(&world, one, other, RATE).await;
    let (body, before) = (noise(5 * MIB, 2), other.payload_received());
    let put = put(one, "sites=2", "film", body.clone()).await.unwrap();
    assert_eq!(put.receipt.scope.as_deref(), Some("sites=2"));
    let came = other.payload_received() - before;
    let once = body.len() as u64..(body.len() + 10_000) as u64;
    assert!(once.contains(&came), "{came} bytes of a body of {}", body.len());
    world.stop().await;
}

/// Bodies of the first site to be held at the second, which is near and slow; the third is far and fast. What those two had
/// received before.
async fn to_be_copied(world: &TestWorld, count: usize) -> (u64, u64) {
    let [one, two, three] = &world.sites[..] else { panic!("three sites") };
    one.set_rtt(two, Duration::from_millis(5));
    one.set_rtt(three, Duration::from_millis(300));
    one.create_bucket("safe").await.unwrap();
    one.put("safe", "small", noise(100, 99)).await.unwrap();
    for other in [two, three] {
        other.until("it is a member", || async { other.get("safe", "small").await.is_ok() }).await;
    }
    for n in 0..count {
        one.put("safe", &format!("{n}"), noise(COPY, n as u64)).await.unwrap();
    }
    world.converged("safe").await;
    slow_from_now_on(world, one, two, RATE).await;
    let before = (two.payload_received(), three.payload_received());
    one.set_copies("safe", 2).await.unwrap();
    before
}

async fn are_copied(one: &TestSite) {
    are_copied_in(one, "safe").await;
}

async fn are_copied_in(one: &TestSite, bucket: &str) {
    let unprotected = || async { one.services().admin.bucket(bucket).await.unwrap().unprotected_bytes };
    let done = async {
        while unprotected().await > 0 {
            let mut changes = one.site().changes.follow();
            tokio::time::timeout(Duration::from_millis(50), changes.changed()).await.ok();
        }
    };
    let made = tokio::time::timeout(Duration::from_secs(60), done).await;
    assert!(made.is_ok(), "the copies are made");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn copies_cross_a_slow_link_and_go_nowhere_else() {
    let world = TestWorld::new(3).await;
    let before = to_be_copied(&world, 12).await;
    let [one, two, three] = &world.sites[..] else { panic!("three sites") };
    are_copied(one).await;
    let came = two.payload_received() - before.0;
    let once = 12 * COPY as u64..12 * COPY as u64 + 10_000;
    assert!(once.contains(&came), "every byte crossed once: {came}");
    assert_eq!(three.payload_received(), before.1, "a slow site is not a silent one");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn copies_cross_a_link_that_breaks_and_go_nowhere_else() {
    let world = TestWorld::new(3).await;
    let before = to_be_copied(&world, 6).await;
    let [one, two, three] = &world.sites[..] else { panic!("three sites") };
    // A body takes a second if it is alone.
    let (_, breaks) = while_it_breaks((one, two), Duration::from_millis(1300), are_copied(one)).await;
    assert!(breaks >= 4, "{breaks} breaks");
    let came = two.payload_received() - before.0;
    assert!(came < 8 * COPY as u64, "{came} bytes crossed, of {}", 6 * COPY);
    assert_eq!(three.payload_received(), before.1, "nor is one whose link breaks");
    world.stop().await;
}

/// A ship that is in port for an hour a day: what came of a body that takes longer is there the next day.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_goes_on_after_a_silence_in_which_the_collector_came_by() {
    let world = TestWorld::new(2).await;
    let body = written(&world, 12 * MIB).await;
    let [two, one] = &world.sites[..] else { panic!("two sites") };
    slow_from_now_on(&world, one, two, RATE).await;
    let before = two.payload_received();
    one.set_copies("films", 2).await.unwrap();
    two.until("half of it is here", || async { two.payload_received() > before + 6 * MIB as u64 }).await;
    one.site().peers.net().set_apart([two.node()].into());
    two.site().peers.net().set_apart([one.node()].into());
    two.until("nobody asked for more", || async { two.site().parts.resting() > 4 * MIB as u64 }).await;
    let (store, now) = (two.site().store.clone(), two.site().clock.wall().0);
    let hour_later = move || {
        // Noted as unwanted, let go of when they have rested, given back after that.
        for turn in 1..=6 {
            store.collect(WallTime(now + turn * CHUNK_REST_MS)).unwrap();
        }
    };
    tokio::task::spawn_blocking(hour_later).await.unwrap();
    one.site().peers.net().set_apart([].into());
    two.site().peers.net().set_apart([].into());
    are_copied_in(one, "films").await;
    let came = two.payload_received() - before;
    assert!(came < (body.len() + 2 * MIB) as u64, "{came} bytes came, of {}", body.len());
    one.cut(true).await;
    assert_eq!(two.get("films", "film").await.unwrap(), body);
    world.stop().await;
}

/// What one holder gave of a chunk is not asked of the next one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_rest_of_a_chunk_comes_from_another_holder() {
    let world = TestWorld::new(3).await;
    let [reader, slow_one, fast_one] = &world.sites[..] else { panic!("three sites") };
    let body = noise(MIB, 1);
    slow_one.create_bucket("films").await.unwrap();
    slow_one.put("films", "film", body.clone()).await.unwrap();
    let had = || async { fast_one.get("films", "film").await.is_ok() };
    fast_one.until("it has it, too", had).await;
    slow_from_now_on(&world, reader, slow_one, RATE / 2).await;
    let domain = reader.site().bucket("films").await.unwrap().unwrap().id;
    let look = move |view: &dyn View| space::current(view, domain, "film").map_err(unreadable);
    let record = slow_one.site().read(look).await.unwrap().unwrap();
    let chunk = record.object().unwrap().chunks[0];
    let peers = reader.site().peers.clone();
    let ask = |from: &TestSite| {
        let (peers, site) = (peers.clone(), from.id());
        async move { peers.chunk_unless_silent(peers.errand(Class::Read), site, domain, &chunk).await }
    };
    let broken = {
        let (sent, is_broken) = oneshot::channel();
        let asked = ask(slow_one);
        tokio::spawn(async move { sent.send(asked.await.is_err()) });
        reader
            .until("half of it is here", || async { peers.has_of(domain, chunk.id) > MIB as u64 / 2 })
            .await;
        reader.site().peers.net().set_apart([slow_one.node()].into());
        is_broken.await.unwrap()
    };
    let had = peers.has_of(domain, chunk.id);
    assert!(broken && had > MIB as u64 / 2 && had < MIB as u64, "{had} bytes");
    let before = reader.payload_received();
    assert_eq!(ask(fast_one).await.unwrap().unwrap(), body);
    assert_eq!(reader.payload_received() - before, MIB as u64 - had);
    world.stop().await;
}

/// The first read of a body goes on a stream whose window has grown, if one was used within the last minute.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_are_asked_for_on_streams_that_are_kept() {
    let world = TestWorld::new(2).await;
    let [reader, writer] = &world.sites[..] else { panic!("two sites") };
    writer.create_bucket("photos").await.unwrap();
    for n in 0..4 {
        writer.put("photos", &format!("{n}"), noise(300_000, n)).await.unwrap();
    }
    reader
        .until("it is known what it speaks", || async { reader.site().peers.has_marks(writer.node()) })
        .await;
    let bucket = writer.site().bucket("photos").await.unwrap().unwrap().id;
    let (peers, node) = (reader.site().peers.clone(), writer.node());
    for n in 0..4 {
        let kept = peers.kept_with(node);
        assert_eq!(kept, usize::from(n > 0));
        let (key, which, part) = (n.to_string(), Which::Current, Part::Whole);
        let question = Request::Read(Read { bucket, key, which, part });
        let mut answer = peers.call(writer.id(), &question).await.unwrap();
        assert_eq!(peers.kept_with(node), 0, "the one that was kept is in use");
        let Response::Object(found) = answer.response.clone() else { panic!("an object") };
        let body = noise(300_000, n);
        let of = (ChunkId::of(&body), found.inline[0]);
        let errand = peers.errand(Class::Read);
        assert_eq!(peers.receive(&mut answer, errand, bucket, of).await.unwrap(), body);
        peers.keep_object_stream(answer);
    }
    world.stop().await;
}
