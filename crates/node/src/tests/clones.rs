//! A site whose directory was copied, and the copy runs beside it: over real links.

use skerry_base::Origin;
use skerry_base::kv::View;
use skerry_gateway::service::{ErrorKind, LinkRequest, StatusReport};
use skerry_model::space;

use super::world::{TestSite, TestWorld};
use crate::clones;
use crate::site::unreadable;

async fn status(site: &TestSite) -> StatusReport {
    site.services().admin.status().await.unwrap()
}

/// How one site sees another: its state, and whether it turned a copy of it away.
async fn sees(site: &TestSite, other: &TestSite) -> (String, bool) {
    let report = status(site).await;
    let peer = report.peers.into_iter().find(|peer| peer.site == other.id().to_string()).unwrap();
    (peer.state, peer.copy_ms.is_some())
}

async fn cut(site: &TestSite, cut: bool) {
    site.services().admin.set_link(LinkRequest { cut, from: None }).await.unwrap();
}

async fn apart(site: &TestSite, from: &str, cut: bool) {
    site.services().admin.set_link(LinkRequest { cut, from: Some(from.into()) }).await.unwrap();
}

/// Who wrote what a site has of a key, as far as versions are kept.
async fn writers(site: &TestSite, bucket: &str, key: &str) -> Vec<Origin> {
    let (id, key) = (site.site().bucket(bucket).await.unwrap().unwrap().id, key.to_owned());
    let read = move |view: &dyn View| space::heads(view, id, &key).map_err(unreadable);
    let heads = site.site().read(read).await.unwrap();
    heads.iter().map(|head| head.dot.origin).collect()
}

/// Whatever it was told, it takes no writes.
async fn is_told(copy: &TestSite) {
    copy.until("it is told that it is a copy", || async { copy.site().duties.is_copied() }).await;
    let refused = copy.put("shared", "late", "x").await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotServing);
    assert!(refused.message().contains("another process runs with the key of site-3"), "{refused}");
    assert!(copy.get("shared", "both").await.is_ok(), "it reads");
    let report = status(copy).await;
    assert!(report.copied && report.peers.iter().any(|peer| peer.state == "copied"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_site_and_its_copy_the_first_is_served_and_what_both_wrote_merges() {
    let mut world = TestWorld::over_tcp(3).await;
    world.sites[0].create_bucket("shared").await.unwrap();
    world.sites[0].put("shared", "both", "before").await.unwrap();
    for site in &world.sites[1..] {
        assert_eq!(site.get("shared", "both").await.unwrap(), "before");
    }
    world.converged("shared").await;
    // The card is copied while the site is cut off, so that the copy is, too, until somebody heals it.
    cut(&world.sites[2], true).await;
    world.sites[2].stop().await;
    let mut copy = world.sites[2].copy();
    world.sites[2].start().await;
    cut(&world.sites[2], false).await;
    copy.start().await;
    let [one, two, first] = &world.sites[..] else { panic!("three sites") };
    for other in [one, two] {
        world.until_linked(first, other).await;
    }
    // Neither knows of the other: both take writes, also of one key.
    assert_ne!(first.site().stamps.origin, copy.site().stamps.origin);
    first.put("shared", "both", "by the first").await.unwrap();
    first.put("shared", "first", "1").await.unwrap();
    copy.put("shared", "both", "by the copy").await.unwrap();
    copy.put("shared", "copy", "2").await.unwrap();
    cut(&copy, false).await;
    is_told(&copy).await;
    for site in [one, two] {
        site.until("the copy was turned away", || async {
            sees(site, first).await == ("alive".into(), true)
        })
        .await;
    }
    assert!(first.put("shared", "more", "3").await.is_ok(), "the first goes on");
    assert!(!status(first).await.copied);
    // It hears of it from the others, and is not in doubt about itself.
    clones::hear(first.site(), one.id()).await.unwrap();
    assert!(status(first).await.copy_ms.is_some());
    // A start anew changes nothing while the other runs, for either.
    copy.stop().await;
    copy.start().await;
    is_told(&copy).await;
    // The operator stops both and has the copy run alone: it is served, and what it wrote is everywhere.
    world.sites[2].stop().await;
    copy.stop().await;
    copy.start().await;
    let [one, two, first] = &world.sites[..] else { panic!("three sites") };
    for other in [one, two] {
        copy.until("it is linked", || async { copy.site().linked(other.id()) }).await;
        other.until("the copy's write", || async { other.get("shared", "copy").await.is_ok() }).await;
    }
    assert!(!copy.site().duties.is_copied());
    let _ = first;
    copy.stop().await;
    world.sites[2].start().await;
    world.linked(&world.sites[2]).await;
    world.converged("shared").await;
    for site in &world.sites {
        for (key, body) in [("copy", "2"), ("first", "1"), ("more", "3")] {
            assert_eq!(site.get("shared", key).await.unwrap(), body);
        }
        let mut writers = writers(site, "shared", "both").await;
        writers.dedup();
        assert_eq!(writers.len(), 2, "both versions are there, under origins of their own");
        assert!(!status(site).await.copied);
    }
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn copies_that_no_site_sees_both_of_are_found_when_two_sites_compare() {
    let mut world = TestWorld::over_tcp(3).await;
    world.sites[0].create_bucket("shared").await.unwrap();
    world.sites[0].put("shared", "both", "before").await.unwrap();
    for site in &world.sites[1..] {
        assert_eq!(site.get("shared", "both").await.unwrap(), "before");
    }
    world.converged("shared").await;
    for number in 0..3 {
        // Nobody carries links for others: then each would meet both. One after the other, as each starts at another address.
        world.sites[number].stop().await;
        world.sites[number].carries = false;
        world.sites[number].start().await;
        world.linked(&world.sites[number]).await;
    }
    // What is kept apart stays so over a start: who meets both, if only for a moment, is told at once.
    apart(&world.sites[2], "site-1", true).await;
    world.sites[2].stop().await;
    let mut copy = world.sites[2].copy();
    world.sites[2].start().await;
    apart(&world.sites[2], "site-2", true).await;
    apart(&world.sites[2], "site-1", false).await;
    let [one, two, first] = &world.sites[..] else { panic!("three sites") };
    first.until("the first is linked with one", || async { first.site().linked(one.id()) }).await;
    // So that this one has been linked for longer, as is noticed a moment later.
    let noticed = || async { clones::word(one.site()).linked.iter().any(|(node, _)| *node == first.node()) };
    one.until("that is noticed", noticed).await;
    copy.start().await;
    // On a slow machine two may be due to ask one by itself, and find it at once.
    let is_met = || async { copy.site().linked(two.id()) || copy.site().duties.is_copied() };
    copy.until("the copy is linked with two", is_met).await;
    first.put("shared", "a", "1").await.unwrap();
    let is_written = copy.put("shared", "b", "2").await.is_ok();
    // By its tables: a read would fetch it itself.
    let arrived = || async { two.list("shared").await.is_ok_and(|keys| keys.contains(&"b".to_owned())) };
    let is_done = || async { !is_written || arrived().await || copy.site().duties.is_copied() };
    two.until("the copy's write arrives, unless it is found before", is_done).await;
    let is_safe = is_written && arrived().await;
    // Two compares with one: the copy is linked for less long.
    let found = || async {
        clones::hear(two.site(), one.id()).await.ok();
        copy.site().duties.is_copied()
    };
    two.until("the copy is found", found).await;
    is_told(&copy).await;
    assert!(first.site().linked(one.id()) && !two.site().linked(first.id()));
    // What came to the others while it was linked stays there.
    if is_safe {
        one.until("the copy's write", || async { one.get("shared", "b").await.is_ok() }).await;
    }
    two.until("the first's write", || async { two.get("shared", "a").await.is_ok_and(|body| body == "1") })
        .await;
    copy.stop().await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_a_moved_site_and_a_backup_are_no_copies() {
    let mut world = TestWorld::over_tcp(2).await;
    world.sites[0].create_bucket("shared").await.unwrap();
    world.sites[0].put("shared", "one", "1").await.unwrap();
    assert_eq!(world.sites[1].get("shared", "one").await.unwrap(), "1");
    world.sites[1].stop().await;
    let backup = world.sites[1].copy();
    // Each start is at another address.
    world.sites[1].start().await;
    world.linked(&world.sites[1]).await;
    world.sites[1].put("shared", "two", "2").await.unwrap();
    world.converged("shared").await;
    world.sites[1].stop().await;
    let lost = std::mem::replace(&mut world.sites[1], backup);
    world.sites[1].start().await;
    world.linked(&world.sites[1]).await;
    world.converged("shared").await;
    assert_eq!(world.sites[1].get("shared", "two").await.unwrap(), "2", "what the backup lacked");
    world.sites[1].put("shared", "three", "3").await.unwrap();
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    assert_eq!(sees(one, two).await, ("alive".into(), false));
    assert!(!status(two).await.copied);
    drop(lost);
    world.stop().await;
}
