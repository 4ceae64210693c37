//! Two sites that cannot reach each other: everything that clients do works by way of a third.

use skerry_base::kv::View;
use skerry_gateway::service::{ErrorKind, RequestContext, WriteCondition};

use skerry_model::space;

use super::world::{TestSite, TestWorld, context, noise};
use crate::peers::message::{Request, Response, Through};
use crate::site::unreadable;

/// Keeps two apart from now on.
fn part(one: &TestSite, other: &TestSite) {
    for (here, there) in [(one, other), (other, one)] {
        let node = here.site().peers.roster.node(there.id()).unwrap();
        here.site().peers.net().set_apart([node].into());
    }
}

fn course(one: &TestSite, other: &TestSite) -> Option<u8> {
    one.site().peers.course(other.id()).map(|course| course.hops)
}

/// Waits until both see the link, over so many sites.
async fn joined(one: &TestSite, other: &TestSite, hops: u8) {
    for (here, there) in [(one, other), (other, one)] {
        here.until("a way round", || async {
            course(here, there) == Some(hops) && here.site().linked(there.id())
        })
        .await;
    }
}

/// Payload bytes that a site sent so far.
fn payload_sent(site: &TestSite) -> u64 {
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &site.core.as_ref().unwrap().registry).unwrap();
    let wanted = |line: &&str| {
        line.starts_with("skerry_wan_bytes_total")
            && line.contains("direction=\"sent\"")
            && line.contains("kind=\"payload\"")
    };
    text.lines().filter(wanted).map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
}

/// How many chunks of an object of the writer are at a site, and how many there are.
async fn chunks_at(site: &TestSite, writer: &TestSite, bucket: &str, key: &str) -> (usize, usize) {
    let (id, key) = (writer.site().bucket(bucket).await.unwrap().unwrap().id, key.to_owned());
    let read = move |view: &dyn View| space::current(view, id, &key).map_err(unreadable);
    let record = writer.site().read(read).await.unwrap().unwrap();
    let chunks = &record.object().unwrap().chunks;
    let here = chunks.iter().filter(|chunk| site.site().store.has_chunk(id, chunk.id).unwrap());
    (here.count(), chunks.len())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_clients_do_works_by_way_of_a_third_site() {
    let mut world = TestWorld::over_tcp(3).await;
    part(&world.sites[0], &world.sites[2]);
    let [one, two, three] = &world.sites[..] else { panic!("three sites") };
    joined(one, three, 1).await;
    assert_eq!((course(one, two), course(two, three)), (Some(0), Some(0)));
    // The third site is no member of the bucket; records and listings come all the same.
    one.create_bucket("far").await.unwrap();
    one.put("far", "small", "small").await.unwrap();
    assert_eq!(three.get("far", "small").await.unwrap(), "small");
    assert!(!two.site().is_member(one.site().bucket("far").await.unwrap().unwrap().id));
    // Payload crosses to the site in between once, and stays there for the next reader behind it.
    let large = noise((3 << 20) + 7, 1);
    one.put("far", "large", large.clone()).await.unwrap();
    three.until("its record", || async { three.list("far").await.unwrap().len() == 2 }).await;
    let before = payload_sent(one);
    assert_eq!(three.get("far", "large").await.unwrap(), large);
    let crossed = payload_sent(one) - before;
    assert!((3 << 20..4 << 20).contains(&crossed), "{crossed} bytes of payload left the writer");
    assert_eq!(chunks_at(two, one, "far", "large").await, (4, 4), "an evictable copy in between");
    assert_eq!(two.get("far", "large").await.unwrap(), large);
    // But for the first bytes, which whoever is asked for the record sends along.
    assert!(payload_sent(one) - before < 5 << 20, "the next reader behind it found the rest there");
    // Conditions are decided at the home, deletes arrive, a write is at all three before it is answered.
    let absent = || WriteCondition { absent: true, ..WriteCondition::default() };
    three.put_if("far", "lock", "three", absent()).await.unwrap();
    let lost = three.put_if("far", "lock", "again", absent()).await.unwrap_err();
    assert_eq!(lost.kind(), ErrorKind::PreconditionFailed);
    let all = RequestContext { scope: Some("sites=3".into()), ..context() };
    let done = three.put_in(&all, "far", "everywhere", noise(100_000, 2)).await.unwrap();
    assert_eq!(done.receipt.scope.as_deref(), Some("sites=3"));
    three.delete("far", "small").await.unwrap();
    one.until("the delete", || async { one.get("far", "small").await.is_err() }).await;
    world.converged("far").await;
    // The operator sees it.
    let status = three.services().admin.status().await.unwrap();
    let peer = status.peers.iter().find(|peer| peer.name == "site-1").unwrap();
    assert_eq!((peer.state.as_str(), peer.via.as_deref(), peer.hops), ("alive", Some("site-2"), 1));
    // Without the one in between it is said what was tried.
    world.sites[1].stop().await;
    let [one, _, three] = &world.sites[..] else { panic!("three sites") };
    three.until("the link is gone", || async { !three.site().linked(one.id()) }).await;
    let refused = three.put_if("far", "lock", "late", absent()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::HomeUnreachable);
    let said = refused.message();
    assert!(said.contains("no link to it") && !said.contains("may have decided"), "{said}");
    world.sites[1].start().await;
    let [one, _, three] = &world.sites[..] else { panic!("three sites") };
    joined(one, three, 1).await;
    // Something joins them: nobody is bothered any more.
    for site in [one, three] {
        site.site().peers.net().set_apart(Default::default());
    }
    joined(one, three, 0).await;
    world.stop().await;
}

/// Chunks that a slow line brings for minutes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_site_does_not_take_all_places_for_chunks_that_are_fetched_for_others() {
    let world = TestWorld::new(4).await;
    let [writer, between, first, second] = &world.sites[..] else { panic!("four sites") };
    writer.create_bucket("films").await.unwrap();
    between
        .until("the bucket is known", || async { between.site().bucket("films").await.unwrap().is_some() })
        .await;
    let domain = writer.site().bucket("films").await.unwrap().unwrap().id;
    let mut chunks = Vec::new();
    for number in 0..10 {
        let key = format!("film-{number}");
        writer.put("films", &key, noise(900_000, number)).await.unwrap();
        let read = move |view: &dyn View| space::current(view, domain, &key).map_err(unreadable);
        let record = writer.site().read(read).await.unwrap().unwrap();
        chunks.push(record.object().unwrap().chunks[0]);
    }
    for reader in [first, second] {
        world.until_linked(reader, between).await;
    }
    world.until_linked(between, writer).await;
    writer.set_rate_to(between, 1000);
    let (told, mut answers) = tokio::sync::mpsc::unbounded_channel();
    let ask = |reader: &TestSite, chunk: usize| {
        let (site, to, told) = (reader.site().clone(), between.id(), told.clone());
        let asked = Request::Through(Through { holder: writer.id(), domain, chunk: chunks[chunk], most: 0 });
        tokio::spawn(async move {
            let answer = site.peers.call(to, &asked).await;
            let is_refused = answer.is_ok_and(|answer| matches!(answer.response, Response::Refused { .. }));
            told.send(is_refused).ok();
        })
    };
    let mut asks: Vec<_> = (0..9).map(|chunk| ask(first, chunk)).collect();
    let free = || between.site().peers.circuits.through.available_permits();
    between.until("all of it was asked for", || async { free() == 0 || answers.len() == 1 }).await;
    assert_eq!(free(), 2, "some are left for others");
    assert!(answers.recv().await.unwrap(), "it was told so");
    asks.push(ask(second, 9));
    between.until("another one has a place", || async { free() == 1 }).await;
    for asked in &asks {
        asked.abort();
    }
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_told_not_to_carry_does_not_and_the_refusal_names_it() {
    let mut world = TestWorld::over_tcp(3).await;
    world.sites[1].stop().await;
    world.sites[1].carries = false;
    world.sites[1].start().await;
    for (here, there) in [(0, 1), (1, 0), (1, 2), (2, 1)] {
        let (here, there) = (&world.sites[here], &world.sites[there]);
        here.until("they are linked", || async { here.site().linked(there.id()) }).await;
    }
    part(&world.sites[0], &world.sites[2]);
    let [one, _, three] = &world.sites[..] else { panic!("three sites") };
    let why = || three.site().peers.apart(one.id());
    three.until("it was asked", || async { why().contains("site-2 carries nothing") }).await;
    assert!(!three.site().linked(one.id()));
    one.create_bucket("here").await.unwrap();
    three
        .until("the claim came by the feed", || async {
            three.site().bucket("here").await.unwrap().is_some()
        })
        .await;
    let refused = three.get("here", "key").await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unreachable);
    assert!(refused.message().contains("site-2 carries nothing for others"), "{}", refused.message());
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_in_a_row_reach_each_other_and_what_may_not_lie_in_between_does_not() {
    let world = TestWorld::over_tcp(4).await;
    let [one, two, three, four] = &world.sites[..] else { panic!("four sites") };
    let apart = |site: &TestSite, others: &[&TestSite]| {
        let nodes = others.iter().map(|other| site.site().peers.roster.node(other.id()).unwrap());
        site.site().peers.net().set_apart(nodes.collect());
    };
    apart(one, &[three, four]);
    apart(two, &[four]);
    apart(three, &[one]);
    apart(four, &[one, two]);
    joined(one, three, 1).await;
    joined(two, four, 1).await;
    joined(one, four, 2).await;
    one.create_bucket("own").await.unwrap();
    let patch = skerry_gateway::service::BucketPatch {
        residency: Some(vec!["site-1".into(), "site-4".into()]),
        ..Default::default()
    };
    one.services().admin.update_bucket("own", patch).await.unwrap();
    let body = noise((2 << 20) + 1, 3);
    one.put("own", "key", body.clone()).await.unwrap();
    for site in [two, three, four] {
        site.until("the setting", || async {
            let bucket = site.site().bucket("own").await.unwrap();
            bucket.is_some_and(|bucket| bucket.config.residency.len() == 2)
        })
        .await;
    }
    assert_eq!(four.get("own", "key").await.unwrap(), body);
    for site in [two, three] {
        assert_eq!(chunks_at(site, one, "own", "key").await, (0, 3), "carried unread, not kept");
    }
    // A site passes a chunk on by ways that are shorter only: a question cannot run in circles.
    one.create_bucket("free").await.unwrap();
    three.until("the claim", || async { three.site().bucket("free").await.unwrap().is_some() }).await;
    let bucket = one.site().bucket("free").await.unwrap().unwrap().id;
    let chunk = skerry_base::ChunkRef {
        id: skerry_base::ChunkId([7; 32]),
        kind: skerry_base::ChunkKind::Leaf,
        stored: 10,
        length: 10,
    };
    let asked = Request::Through(Through { holder: one.id(), domain: bucket, chunk, most: 0 });
    let answer = four.site().peers.call(three.id(), &asked).await.unwrap();
    let refused = format!("{:?}", answer.response);
    assert!(refused.contains("no way to it that is shorter"), "{refused}");
    world.stop().await;
}
