//! Scope `site` at a site of several nodes: what is acknowledged through one node is read through every other one, also
//! when one is gone, and by a node that was away only once it has it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use skerry_gateway::service::{
    DeleteObject, DeleteTarget, ErrorKind, GetObject, ListQuery, Outcome, ReadConditions, ReadMode,
    RequestContext, WriteCondition,
};

use super::nodes::leased;
use super::uploads::{begin, completion, part};
use super::world::{TestSite, TestWorld, context, noise};

fn asking() -> RequestContext {
    RequestContext { scope: Some("site".into()), ..context() }
}

/// Tries on a machine that has much else to do: leases and two seconds end there as well.
const TRIES: usize = 10;

/// Writes in scope `site`; the same again is no second version.
pub(super) async fn put(node: &TestSite, key: &str, body: impl Into<Bytes>) -> Outcome<()> {
    let body = body.into();
    for _ in 1..TRIES {
        match node.put_in(&asking(), "photos", key, body.clone()).await {
            Err(error) if error.kind() == ErrorKind::ScopeNotReached => {}
            done => return done.map(|done| assert_eq!(done.receipt.scope.as_deref(), Some("site"))),
        }
    }
    node.put_in(&asking(), "photos", key, body).await.map(drop)
}

/// Reads through a node what it must see at once, and then also as the site's.
pub(super) async fn sees(node: &TestSite, key: &str, body: &Bytes) {
    node.until("it reads for the site", || async {
        let (found, scope) = get(node, key).await.unwrap();
        assert_eq!(found, body, "{key}");
        scope == "site"
    })
    .await;
}

fn key(key: &str) -> GetObject {
    GetObject {
        bucket: "photos".into(),
        key: key.into(),
        version: None,
        range: None,
        part: None,
        if_range: None,
        conditions: ReadConditions::default(),
    }
}

/// The body of a key, and in which scope it was answered.
pub(super) async fn get(node: &TestSite, name: &str) -> Outcome<(Bytes, String)> {
    let read = node.services().objects.get(&context(), key(name)).await?;
    let scope = read.info.receipt.scope.clone().unwrap();
    let mut stream = read.body.into_stream();
    let mut bytes = BytesMut::new();
    while let Some(next) = stream.next().await {
        bytes.extend_from_slice(&next?);
    }
    Ok((bytes.freeze(), scope))
}

pub(super) async fn list(node: &TestSite) -> (Vec<String>, String) {
    let query = ListQuery { bucket: "photos".into(), limit: 1000, ..ListQuery::default() };
    let page = node.services().objects.list(&context(), query).await.unwrap();
    (page.entries.iter().map(|entry| entry.name().to_owned()).collect(), page.receipt.scope.unwrap())
}

/// Deletes in scope `site`.
async fn delete(node: &TestSite, key: &str) {
    for _ in 0..TRIES {
        let target = DeleteTarget { key: key.into(), version: None, condition: WriteCondition::default() };
        let request = DeleteObject { bucket: "photos".into(), target };
        match node.services().objects.delete(&asking(), request).await {
            Err(error) if error.kind() == ErrorKind::ScopeNotReached => leased(node, &[0, 1, 2]).await,
            done => return assert_eq!(done.unwrap().receipt.scope.as_deref(), Some("site")),
        }
    }
    panic!("{key} was not deleted");
}

pub(super) async fn site_of(count: usize) -> TestWorld {
    let world = TestWorld::of_nodes(count, 0).await;
    let all: Vec<u32> = (0..count as u32).collect();
    for node in &world.sites {
        leased(node, &all).await;
    }
    world.sites[0].create_bucket("photos").await.unwrap();
    world
}

/// Of hundreds that share the way to the other nodes each would come too late, and have been sent for nothing.
#[tokio::test(flavor = "multi_thread")]
async fn large_bodies_go_to_the_other_nodes_as_far_as_there_is_room() {
    let world = site_of(2).await;
    let [one, two] = &world.sites[..] else { panic!("two nodes") };
    let (room, body) = (&one.site().staging, noise(300_000, 1));
    let others = room.wait(room.bytes()).await.unwrap();
    let mut put = Box::pin(put(one, "large", body.clone()));
    assert!(tokio::time::timeout(Duration::from_millis(500), &mut put).await.is_err(), "it waits for room");
    drop(others);
    put.await.unwrap();
    sees(two, "large", &body).await;
    one.until("all of it was given back", || async { room.taken() == 0 }).await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_written_through_one_node_is_read_through_every_other_at_once() {
    let mut world = site_of(3).await;
    let bodies = [noise(0, 1), noise(100, 2), noise(20_000, 3), noise(700_000, 4), noise((5 << 20) + 3, 5)];
    for (n, body) in bodies.iter().enumerate() {
        let name = format!("{n}");
        put(&world.sites[n % 3], &name, body.clone()).await.unwrap();
        for node in &world.sites {
            sees(node, &name, body).await;
            let head = node.services().objects.head(&context(), key(&name)).await.unwrap();
            assert!(head.info.size == body.len() as u64 && head.info.receipt.scope.is_some());
            let names: Vec<String> = (0..=n).map(|n| n.to_string()).collect();
            assert_eq!(list(node).await.0, names, "{n}");
        }
    }
    // An overwrite, a delete, and a delete of what is not there.
    put(&world.sites[1], "0", "second").await.unwrap();
    sees(&world.sites[2], "0", &"second".into()).await;
    delete(&world.sites[2], "0").await;
    let [one, two, _] = &world.sites[..] else { panic!("three nodes") };
    one.until("it is gone for the site", || async {
        let gone = get(one, "0").await.unwrap_err();
        assert_eq!(gone.kind(), ErrorKind::NoSuchKey);
        gone.headers().iter().find(|(name, _)| *name == "x-skerry-scope").unwrap().1 == "site"
    })
    .await;
    delete(two, "nothing").await;
    two.until("it lists for the site", || async {
        let (names, scope) = list(two).await;
        assert_eq!(names, ["1", "2", "3", "4"]);
        scope == "site"
    })
    .await;
    // Nobody asked for it: it is the site's all the same.
    one.until("a plain write is the site's", || async {
        let plain = one.put("photos", "plain", "body").await.unwrap();
        plain.receipt.scope.as_deref() == Some("site")
    })
    .await;
    let asks = RequestContext { scope: Some("node".into()), ..context() };
    let own = world.sites[0].put_in(&asks, "photos", "own", "body").await.unwrap();
    assert_eq!(own.receipt.scope.as_deref(), Some("node"));
    // Each has all payload as its own, whoever wrote it.
    for node in 0..3 {
        let others: Vec<usize> = (0..3).filter(|other| *other != node).collect();
        for other in &others {
            world.sites[*other].stop().await;
        }
        for (n, body) in bodies.iter().enumerate().skip(1) {
            assert_eq!(get(&world.sites[node], &format!("{n}")).await.unwrap().0, *body, "{n} at {node}");
        }
        assert_eq!(world.sites[node].site().store.usage().cache.live, 0, "no cached copy");
        for other in &others {
            world.sites[*other].start().await;
        }
    }
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_that_lives_at_another_node_is_completed_for_the_site() {
    let world = site_of(2).await;
    let [one, two] = &world.sites[..] else { panic!("two nodes") };
    put(one, "first", "body").await.unwrap();
    let target = begin(two, "photos", "large").await;
    let bodies = [noise(5 << 20, 7), noise(100, 8)];
    let parts = vec![part(one, &target, 1, &bodies[0]).await, part(two, &target, 2, &bodies[1]).await];
    let complete = completion(&target, parts);
    let done = one.services().objects.complete_upload(&asking(), complete).await.unwrap();
    assert_eq!(done.receipt.scope.as_deref(), Some("site"));
    let whole: Bytes = bodies.concat().into();
    for node in [one, two] {
        sees(node, "large", &whole).await;
        assert_eq!(node.site().store.usage().cache.live, 0, "a copy that counts is no cached one");
    }
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_of_the_site_go_on_without_a_node_that_is_gone() {
    let mut world = site_of(3).await;
    put(&world.sites[0], "before", "body").await.unwrap();
    world.sites[2].stop().await;
    put(&world.sites[0], "after", "body").await.unwrap();
    put(&world.sites[1], "large", noise(3 << 20, 1)).await.unwrap();
    for node in &world.sites[..2] {
        leased(node, &[0, 1]).await;
        sees(node, "after", &"body".into()).await;
    }
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_cut_off_answers_for_itself_and_comes_back_with_what_it_missed() {
    let world = site_of(3).await;
    let [one, two, three] = &world.sites[..] else { panic!("three nodes") };
    put(one, "k", "first").await.unwrap();
    three.cut(true).await;
    three.until("its lease has run out", || async { !three.site().is_leased() }).await;
    put(one, "k", "second").await.unwrap();
    sees(two, "k", &"second".into()).await;
    assert_eq!(get(three, "k").await.unwrap(), ("first".into(), "node".into()));
    assert_eq!(list(three).await, (vec!["k".into()], "node".into()));
    let refused = put(three, "apart", "body").await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ScopeNotReached);
    assert!(refused.message().contains("durable at site-1-2"), "{refused}");
    let plain = three.put("photos", "apart", "body").await.unwrap();
    assert_eq!(plain.receipt.scope.as_deref(), Some("node"), "the same again: an island goes on");
    three.cut(false).await;
    leased(three, &[0, 1, 2]).await;
    sees(three, "k", &"second".into()).await;
    // What it took in alone reaches the others, as that of any site.
    one.until("it has arrived", || async { get(one, "apart").await.is_ok() }).await;
    put(three, "apart", "body").await.unwrap();
    sees(two, "apart", &"body".into()).await;
    world.stop().await;
}

/// That the write of the token is here says nothing of what the others acknowledged while this node was not in their view.
#[tokio::test(flavor = "multi_thread")]
async fn who_has_a_token_sees_through_a_node_without_a_lease_what_the_others_acknowledged() {
    let world = site_of(3).await;
    let [one, _, three] = &world.sites[..] else { panic!("three nodes") };
    let token = three.put_in(&asking(), "photos", "k", "first").await.unwrap().receipt.token.unwrap();
    let after = RequestContext { read: ReadMode::After(token), ..context() };
    three.cut(true).await;
    three.until("its lease has run out", || async { !three.site().is_leased() }).await;
    for key in ["k", "l"] {
        put(one, key, "second").await.unwrap();
    }
    // Nothing is pulled there from now on; questions between nodes go their own way.
    let (resume, held) = std::sync::mpsc::channel::<()>();
    let drive = three.site().drive.clone();
    let rests = tokio::spawn(async move { drive.ask(move |_, _| held.recv().is_err()).await });
    three.cut(false).await;
    let head = async |context: &RequestContext, name| {
        let head = three.services().objects.head(context, key(name)).await.unwrap();
        (head.info.size, head.info.receipt.scope)
    };
    let sites = Some("site".to_owned());
    three.until("one that has a lease is asked", || async { head(&context(), "k").await.1 == sites }).await;
    assert_eq!(head(&context(), "k").await, (6, sites), "that of the second write");
    for key in ["k", "l"] {
        assert_eq!(head(&after, key).await.0, 6, "{key}");
    }
    let query = ListQuery { bucket: "photos".into(), limit: 1000, ..ListQuery::default() };
    let page = three.services().objects.list(&after, query).await.unwrap();
    assert_eq!(page.entries.iter().map(|entry| entry.name()).collect::<Vec<_>>(), ["k", "l"]);
    assert!(!three.site().is_leased(), "it was asked for");
    drop(resume);
    rests.await.unwrap();
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_was_away_has_records_and_bodies_before_it_counts() {
    let mut world = site_of(3).await;
    world.sites[2].stop().await;
    let bodies = [noise(300, 1), noise(20_000, 2), noise(900_000, 3), noise((3 << 20) + 3, 4)];
    for (n, body) in bodies.iter().enumerate() {
        put(&world.sites[n % 2], &format!("{n}"), body.clone()).await.unwrap();
    }
    // And a bucket that it has never heard of.
    world.sites[0].create_bucket("more").await.unwrap();
    let done = world.sites[0].put_in(&asking(), "more", "k", "body").await.unwrap();
    assert_eq!(done.receipt.scope.as_deref(), Some("site"));
    world.sites[2].start().await;
    leased(&world.sites[2], &[0, 1, 2]).await;
    for node in &mut world.sites[..2] {
        node.stop().await;
    }
    let alone = &world.sites[2];
    for (n, body) in bodies.iter().enumerate() {
        assert_eq!(get(alone, &format!("{n}")).await.unwrap().0, *body, "{n}");
    }
    assert_eq!(alone.get("more", "k").await.unwrap(), "body");
    assert_eq!(alone.site().store.usage().cache.live, 0, "as copies that count");
    world.stop().await;
}

/// One key, written by one client through whichever node; another reads it through any node.
struct Story {
    key: String,
    /// What was acknowledged for the site last.
    acked: AtomicU64,
    /// What was asked for last.
    asked: AtomicU64,
}

/// Between two requests of a client: six of them that never rest leave a small machine no time for the nodes to be prompt,
/// and a node that is late is rightly left out.
const PACE: Duration = Duration::from_millis(10);

/// Writes ever higher numbers until told to stop; how many were acknowledged.
async fn write(world: &TestWorld, story: &Story, ends: &AtomicBool, seed: u64) -> u64 {
    let mut done = 0;
    let mut ticks = tokio::time::interval(PACE);
    for number in 1.. {
        ticks.tick().await;
        if ends.load(Ordering::Relaxed) {
            break;
        }
        story.asked.store(number, Ordering::SeqCst);
        let node = &world.sites[(seed + number * number) as usize % world.sites.len()];
        match node.put_in(&asking(), "photos", &story.key, number.to_string()).await {
            Ok(_) => {
                story.acked.store(number, Ordering::SeqCst);
                done += 1;
            }
            Err(error) => assert_eq!(error.kind(), ErrorKind::ScopeNotReached, "{error}"),
        }
    }
    done
}

/// Reads until told to stop; how many reads were the site's.
async fn read(world: &TestWorld, story: &Story, ends: &AtomicBool, seed: usize) -> u64 {
    let mut done = 0;
    let mut ticks = tokio::time::interval(PACE);
    for turn in seed.. {
        ticks.tick().await;
        if ends.load(Ordering::Relaxed) {
            break;
        }
        let least = story.acked.load(Ordering::SeqCst);
        let node = turn * turn % world.sites.len();
        let (body, scope) = match get(&world.sites[node], &story.key).await {
            Ok(found) => found,
            // A link may be cut between the record and its body: refused, and not said to be gone.
            Err(error) => {
                let is_gone = error.kind() == ErrorKind::NoSuchKey;
                assert!(least == 0 || !is_gone, "{} is gone at node {node}: {error}", story.key);
                continue;
            }
        };
        let found: u64 = std::str::from_utf8(&body).unwrap().parse().unwrap();
        assert!(found <= story.asked.load(Ordering::SeqCst));
        if scope == "site" {
            assert!(found >= least, "node {node} read {found} of {}, {least} was acknowledged", story.key);
            done += 1;
        }
    }
    done
}

/// Whatever is cut: what is read for the site has seen what was acknowledged for the site before.
#[tokio::test(flavor = "multi_thread")]
async fn reads_of_the_site_see_its_writes_through_cuts() {
    let world = site_of(3).await;
    put(&world.sites[0], "first", "body").await.unwrap();
    let stories: Vec<Story> = (0..3)
        .map(|n| Story { key: format!("story-{n}"), acked: AtomicU64::new(0), asked: AtomicU64::new(0) })
        .collect();
    let ends = AtomicBool::new(false);
    let faults = async {
        for cut in [2, 0, 1] {
            let node = &world.sites[cut];
            node.cut(true).await;
            node.until("its lease has run out", || async { !node.site().is_leased() }).await;
            let others: Vec<u32> = (0..3).filter(|seat| *seat != cut as u32).collect();
            for other in &others {
                leased(&world.sites[*other as usize], &others).await;
            }
            node.cut(false).await;
            leased(node, &[0, 1, 2]).await;
        }
        ends.store(true, Ordering::Relaxed);
    };
    let writers = futures::future::join_all((0..).zip(&stories).map(|(n, of)| write(&world, of, &ends, n)));
    let readers = futures::future::join_all((0..).zip(&stories).map(|(n, of)| read(&world, of, &ends, n)));
    let (_, written, seen) = tokio::join!(faults, writers, readers);
    println!("acknowledged {written:?}, read for the site {seen:?}");
    assert!(written.iter().chain(&seen).all(|count| *count > 5), "{written:?} {seen:?}");
    world.stop().await;
}
