//! Copies where areas ask for them, buckets that move to an area, and sites that move from one to another.

use std::collections::BTreeSet;

use skerry_gateway::service::{
    AreaCopies, AreaRequest, BucketPatch, BucketStatus, DutyRequest, ErrorKind, GetObject, JoinRequest,
    LossRequest, ReadConditions, RequestContext,
};
use skerry_model::space;

use super::trim::{BUCKET, body, holds};
use super::uploads;
use super::world::{TestSite, TestWorld, context};
use crate::paths::{buckets, lost};
use crate::site::unreadable;

async fn place(world: &TestWorld, number: usize, area: &str) {
    let admin = &world.sites[0].services().admin;
    let said = admin.set_area(&format!("site-{number}"), AreaRequest { area: area.into() }).await.unwrap();
    assert_eq!(said.area, area);
}

/// Sites 1 and 2 in oslo, the others in bergen.
async fn founded(sites: usize, copies: &str) -> TestWorld {
    let world = TestWorld::new(sites).await;
    for number in 1..=sites {
        place(&world, number, if number < 3 { "oslo" } else { "bergen" }).await;
    }
    world.sites[0].create_bucket(BUCKET).await.unwrap();
    ask(&world.sites[0], copies).await;
    world
}

async fn ask(site: &TestSite, copies: &str) {
    let patch = BucketPatch { copies_in: Some(copies.into()), ..BucketPatch::default() };
    site.services().admin.update_bucket(BUCKET, patch).await.unwrap();
}

async fn live_in(site: &TestSite, area: &str) {
    let patch = BucketPatch { lives_in: Some(area.into()), ..BucketPatch::default() };
    let said = site.services().admin.update_bucket(BUCKET, patch).await.unwrap();
    assert_eq!(said.lives_in, if area == "all" { "" } else { area });
}

async fn status(site: &TestSite) -> BucketStatus {
    site.services().admin.bucket(BUCKET).await.unwrap()
}

/// The numbers of the sites that hold a version of a key as a copy that counts.
async fn holders(world: &TestWorld, key: &str) -> BTreeSet<usize> {
    let mut found = BTreeSet::new();
    for (number, site) in world.sites.iter().enumerate().filter(|(_, site)| site.core.is_some()) {
        if holds(site, key).await {
            found.insert(number + 1);
        }
    }
    found
}

async fn until_at(world: &TestWorld, keys: std::ops::Range<u64>, at: &[usize]) {
    let at: BTreeSet<usize> = at.iter().copied().collect();
    let there = world.sites.iter().find(|site| site.core.is_some()).unwrap();
    for key in keys {
        let key = key.to_string();
        let what = format!("{key} is at {at:?} and nowhere else");
        there.until(&what, || async { holders(world, &key).await == at }).await;
    }
}

async fn write(site: &TestSite, keys: std::ops::Range<u64>) {
    for number in keys {
        site.put(BUCKET, &number.to_string(), body(number)).await.unwrap();
    }
}

async fn read_everywhere(world: &TestWorld, keys: std::ops::Range<u64>) {
    for site in world.sites.iter().filter(|site| site.core.is_some()) {
        for number in keys.clone() {
            assert_eq!(site.get(BUCKET, &number.to_string()).await.unwrap(), body(number));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn copies_are_where_areas_ask_for_them_and_follow_a_site_that_moves() {
    let world = founded(4, "2 in bergen").await;
    let one = &world.sites[0];
    write(one, 0..3).await;
    until_at(&world, 0..3, &[1, 3, 4]).await;
    one.until("nothing is lacking", || async {
        status(one).await.areas.iter().all(|area| area.lacking_versions == 0)
    })
    .await;
    let said = status(one).await;
    let bergen = AreaCopies { area: "bergen".into(), copies: 2, sites: 2, ..AreaCopies::default() };
    assert_eq!((said.copies, said.copies_in.as_str(), said.areas), (2, "2 in bergen", vec![bergen]));
    // The second site comes to bergen, the fourth is no longer there: its copy is one too many.
    place(&world, 2, "bergen").await;
    place(&world, 4, "").await;
    until_at(&world, 0..3, &[1, 2, 3]).await;
    // One in each: what was written in oslo is there already.
    ask(one, "1 in each area").await;
    one.until("bergen has one", || async { holders(&world, "0").await.len() == 2 }).await;
    write(&world.sites[3], 3..4).await;
    one.until("both have it", || async {
        let at = holders(&world, "3").await;
        at.contains(&1) && at.contains(&4) && (at.contains(&2) != at.contains(&3))
    })
    .await;
    read_everywhere(&world, 0..4).await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_area_of_too_few_sites_is_named_and_blocks_nothing() {
    let mut world = founded(3, "2 in bergen").await;
    write(&world.sites[0], 0..2).await;
    until_at(&world, 0..2, &[1, 3]).await;
    let one = &world.sites[0];
    let bytes = body(0).len() as u64 + body(1).len() as u64;
    let bergen = AreaCopies {
        bucket: BUCKET.into(),
        area: "bergen".into(),
        copies: 2,
        sites: 1,
        lacking_versions: 2,
        lacking_bytes: bytes,
    };
    // Who holds what is counted anew now and then: told soon, not at once.
    one.until("what is lacking is told", || async {
        one.services().admin.status().await.unwrap().areas == [bergen.clone()]
    })
    .await;
    // The only one there is lost: what it held is held elsewhere, as often as in all.
    world.sites[2].stop().await;
    let one = &world.sites[0];
    one.services().admin.declare_loss("site-3", LossRequest { lost: true }).await.unwrap();
    until_at(&world, 0..2, &[1, 2]).await;
    one.until("nobody counts there", || async {
        one.services().admin.status().await.unwrap().areas.iter().any(|area| area.sites == 0)
    })
    .await;
    world.sites[2].start().await;
    world.linked(&world.sites[0]).await;
    // It says so itself, unless it was declared lost before anybody had heard of this life of its disk.
    world.sites[0].services().admin.declare_loss("site-3", LossRequest { lost: false }).await.unwrap();
    place(&world, 2, "bergen").await;
    write(&world.sites[0], 2..3).await;
    until_at(&world, 0..3, &[1, 2, 3]).await;
    let one = &world.sites[0];
    one.until("nothing is lacking", || async {
        one.services().admin.status().await.unwrap().areas.is_empty()
    })
    .await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_later_release_asks_of_areas_lets_nothing_go() {
    let world = founded(3, "3").await;
    write(&world.sites[0], 0..2).await;
    until_at(&world, 0..2, &[1, 2, 3]).await;
    let site = world.sites[0].site();
    let bucket = site.known(BUCKET).await.unwrap();
    let later = |config: &mut skerry_model::bucket::BucketConfig| {
        config.copies = 1;
        config.more.push(("copies-in".into(), "2 in every cellar".into()));
        Ok(())
    };
    drop(buckets::change(site, "test", &bucket, later).await.unwrap());
    assert!(status(&world.sites[0]).await.copies_in.contains("every cellar"));
    assert!(crate::copies::wanted::rules(site, &site.known(BUCKET).await.unwrap()).is_unread);
    // Another setting passes it on; only one that says how many copies there are to be takes its place.
    let patch = BucketPatch { miss: Some("local".into()), ..BucketPatch::default() };
    world.sites[1].until("it was heard", || async { status(&world.sites[1]).await.copies == 1 }).await;
    world.sites[1].services().admin.update_bucket(BUCKET, patch).await.unwrap();
    assert!(status(&world.sites[1]).await.copies_in.contains("every cellar"));
    until_at(&world, 0..2, &[1, 2, 3]).await;
    // Nor does what it says of where the bucket lives.
    world.sites[1].set_copies(BUCKET, 1).await.unwrap();
    let site = world.sites[1].site();
    let lives = |config: &mut skerry_model::bucket::BucketConfig| {
        config.set_lives_in("oslo bergen");
        Ok(())
    };
    let bucket = site.known(BUCKET).await.unwrap();
    drop(buckets::change(site, "test", &bucket, lives).await.unwrap());
    let rules = crate::copies::wanted::rules(site, &site.known(BUCKET).await.unwrap());
    assert!(rules.is_unread && rules.needs.is_empty(), "{rules:?}");
    live_in(&world.sites[1], "all").await;
    until_at(&world, 0..2, &[1]).await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bucket_moves_to_an_area_and_on_while_it_is_read_and_written() {
    let world = founded(4, "2").await;
    let one = &world.sites[0];
    write(one, 0..6).await;
    one.until("all have two copies", || async { status(one).await.unprotected_bytes == 0 }).await;
    for (area, there) in [("bergen", [3, 4]), ("oslo", [1, 2])] {
        live_in(one, area).await;
        let moved = async { until_at(&world, 0..6, &there).await };
        let mut number = 6 + 100 * there[0] as u64;
        let used = async {
            loop {
                for site in &world.sites {
                    write(site, number..number + 1).await;
                    assert_eq!(site.get(BUCKET, &number.to_string()).await.unwrap(), body(number));
                    assert_eq!(site.get(BUCKET, &(number % 6).to_string()).await.unwrap(), body(number % 6));
                    number += 1;
                }
                tokio::time::sleep(std::time::Duration::from_millis(300)).await;
            }
        };
        tokio::select! {
            () = moved => {}
            () = used => {}
        }
        read_everywhere(&world, 0..6).await;
    }
    live_in(one, "all").await;
    assert_eq!(status(one).await.areas, []);
    world.stop().await;
}

async fn until_known(site: &TestSite) {
    site.until("the bucket is known", || async { site.site().bucket(BUCKET).await.unwrap().is_some() }).await;
}

/// Site 4 takes nothing, and what is copied to bergen is as much as bergen takes; then it does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_site_that_keeps_nothing_of_a_bucket_is_none_of_its_area() {
    let world = founded(4, "3").await;
    let four = &world.sites[3];
    until_known(four).await;
    let join = |when: &str| JoinRequest { when: Some(when.into()), ..JoinRequest::default() };
    four.services().admin.join_bucket(BUCKET, join("never")).await.unwrap();
    write(&world.sites[0], 0..3).await;
    until_at(&world, 0..3, &[1, 2, 3]).await;
    ask(&world.sites[0], "2 in bergen").await;
    until_at(&world, 0..3, &[1, 3]).await;
    let one = &world.sites[0];
    one.until("it is said", || async {
        let areas = status(one).await.areas;
        areas.iter().any(|area| (area.sites, area.lacking_versions) == (1, 3))
    })
    .await;
    four.services().admin.join_bucket(BUCKET, join("always")).await.unwrap();
    four.services().admin.join_bucket(BUCKET, JoinRequest::default()).await.unwrap();
    until_at(&world, 0..3, &[1, 3, 4]).await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_waits_for_a_frozen_site_of_an_area() {
    let world = founded(4, "3").await;
    let four = &world.sites[3];
    until_known(four).await;
    let duty = |duty: &str| DutyRequest { duty: duty.into(), abandon_uploads: false };
    let admin = &world.sites[0].services().admin;
    admin.set_duty("site-4", duty("freeze")).await.unwrap();
    for site in &world.sites {
        site.until("it is frozen", || async { !site.site().duties.frozen().is_empty() }).await;
    }
    write(&world.sites[0], 0..3).await;
    until_at(&world, 0..3, &[1, 2, 3]).await;
    ask(&world.sites[0], "2 in bergen").await;
    until_at(&world, 0..3, &[1, 3]).await;
    admin.set_duty("site-4", duty("serve")).await.unwrap();
    until_at(&world, 0..3, &[1, 3, 4]).await;
    world.stop().await;
}

/// Who asks all for a body that moves may have asked the one that took it before it did: the other must not say no.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_lets_go_of_something_does_not_say_for_a_while_that_it_lacks_anything() {
    let world = founded(3, "1").await;
    let one = &world.sites[0];
    write(one, 0..1).await;
    let id = one.site().known(BUCKET).await.unwrap().id;
    let current = move |view: &dyn skerry_base::kv::View| space::current(view, id, "0").map_err(unreadable);
    let record = one.site().read(current).await.unwrap().unwrap();
    let chunks: Vec<_> = record.object().unwrap().chunks.iter().map(|chunk| chunk.id).collect();
    let says = |site: usize| lost::has(world.sites[1].site(), world.sites[site].id(), id, &chunks);
    assert_eq!(says(0).await, Some(chunks.clone()));
    assert_eq!(says(2).await, Some(vec![]));
    live_in(one, "bergen").await;
    until_at(&world, 0..1, &[3]).await;
    assert_eq!(says(0).await, None, "it has let go a moment ago");
    assert_eq!(says(2).await, Some(chunks.clone()));
    let two = &world.sites[1];
    two.until("it says so later", || async { says(0).await == Some(vec![]) }).await;
    world.stop().await;
}

async fn lose(world: &TestWorld, number: usize) {
    let admin = &world.sites[0].services().admin;
    admin.declare_loss(&format!("site-{number}"), LossRequest { lost: true }).await.unwrap();
}

/// What GET, HEAD and a copy say of a key.
async fn answers(site: &TestSite, key: &str) -> [Option<ErrorKind>; 3] {
    let objects = &site.services().objects;
    let asked = GetObject {
        bucket: BUCKET.into(),
        key: key.into(),
        version: None,
        range: None,
        part: None,
        if_range: None,
        conditions: ReadConditions::default(),
    };
    let head = objects.head(&context(), asked).await.err().map(|error| error.kind());
    let copied = objects.copy(&context(), super::lost::copy(BUCKET, key, "copied")).await;
    let got = site.get(BUCKET, key).await.err().map(|error| error.kind());
    [got, head, copied.err().map(|error| error.kind())]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_has_moved_is_at_risk_with_its_last_holder_and_lost_with_it() {
    let mut world = founded(4, "2").await;
    live_in(&world.sites[0], "bergen").await;
    write(&world.sites[0], 0..2).await;
    until_at(&world, 0..2, &[3, 4]).await;
    let one = &world.sites[0];
    one.until("it knows", || async { status(one).await.unprotected_bytes == 0 }).await;
    // Nobody else can take what only one of them has: it is off.
    for number in [2, 3] {
        world.sites[number].stop().await;
    }
    lose(&world, 4).await;
    let bytes = body(0).len() as u64 + body(1).len() as u64;
    let one = &world.sites[0];
    one.until("one disk has it", || async { status(one).await.unprotected_bytes == bytes }).await;
    assert_eq!(answers(one, "0").await[0], Some(ErrorKind::Unreachable), "away is not lost");
    lose(&world, 3).await;
    for site in &world.sites[..2] {
        site.until("all say that it is gone", || async {
            answers(site, "0").await == [Some(ErrorKind::NoSuchKey); 3]
        })
        .await;
    }
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_answers_for_two_sites_counts_itself_only_if_it_holds_it() {
    let mut world = founded(3, "1").await;
    live_in(&world.sites[0], "bergen").await;
    let one = &world.sites[0];
    let target = uploads::begin(one, BUCKET, "0").await;
    let parts = vec![uploads::part(one, &target, 1, &body(0)).await];
    let complete = uploads::completion(&target, parts);
    one.services().objects.complete_upload(&context(), complete.clone()).await.unwrap();
    until_at(&world, 0..1, &[3]).await;
    world.sites[1].stop().await;
    let two = RequestContext { scope: Some("sites=2".into()), ..context() };
    let one = &world.sites[0];
    let done = one.services().objects.complete_upload(&two, complete).await.unwrap();
    assert_eq!(done.receipt.scope.as_deref(), Some("sites=2"));
    assert_eq!(holders(&world, "0").await, [1, 3].into());
    world.stop().await;
}
