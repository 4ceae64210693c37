//! Sites that go in more than one way at once: emptied, about to leave a bucket, declared lost, expelled. What each of these
//! counts on must not be what another takes away.

use bytes::Bytes;
use skerry_base::BucketId;
use skerry_base::kv::View;
use skerry_gateway::service::{
    AddressRequest, DutyRequest, ErrorKind, ExpelRequest, HomeRequest, JoinRequest, LossQuery, LossRequest,
    Outcome, SiteStatus,
};
use skerry_model::bucket::SystemKey;
use skerry_model::space;

use super::world::{TestSite, TestWorld, noise};
use crate::site::unreadable;

const BUCKET: &str = "photos";

async fn say(at: &TestSite, about: &str, duty: &str) -> SiteStatus {
    let request = DutyRequest { duty: duty.into(), abandon_uploads: false };
    at.services().admin.set_duty(about, request).await.unwrap()
}

async fn shown(at: &TestSite, about: &str) -> SiteStatus {
    at.services().admin.site(about).await.unwrap()
}

async fn until_duty(at: &TestSite, about: &str, duty: &str) {
    at.until("the duty is as it should be", || async { shown(at, about).await.duty == duty }).await;
}

async fn id_of(site: &TestSite) -> BucketId {
    site.until("the bucket is known", || async { site.site().bucket(BUCKET).await.unwrap().is_some() }).await;
    site.site().bucket(BUCKET).await.unwrap().unwrap().id
}

async fn join(site: &TestSite) {
    let id = id_of(site).await;
    site.services().admin.join_bucket(BUCKET, JoinRequest::default()).await.unwrap();
    site.until("the bucket is followed whole", || async { site.site().is_complete(id) }).await;
}

async fn leave(site: &TestSite) -> Outcome<()> {
    site.services().admin.leave_bucket(BUCKET).await.map(drop)
}

async fn standing(site: &TestSite) -> (String, String) {
    let state = site.services().admin.membership(BUCKET).await.unwrap();
    (state.standing, state.reason)
}

async fn until_left(site: &TestSite) {
    site.until("the bucket is left", || async { standing(site).await.0 == "none" }).await;
}

async fn declare(at: &TestSite, about: &str, lost: bool) -> Outcome<()> {
    at.services().admin.declare_loss(about, LossRequest { lost }).await.map(drop)
}

async fn until_lost(at: &TestSite, about: &str, lost: bool) {
    at.until("the loss is known", || async { shown(at, about).await.lost_ms.is_some() == lost }).await;
}

/// A body of some size, never the same.
fn body(number: u64) -> Bytes {
    noise(30_000 + 40_000 * (number as usize % 3), number)
}

async fn write(site: &TestSite, keys: std::ops::Range<u64>) {
    for number in keys {
        site.put(BUCKET, &format!("{number}"), body(number)).await.unwrap();
    }
}

async fn has(site: &TestSite, keys: std::ops::Range<u64>) {
    for number in keys {
        assert_eq!(site.get(BUCKET, &format!("{number}")).await.unwrap(), body(number), "{number}");
    }
}

/// So many sites that all follow a bucket of `copies` copies, whose home is the first.
async fn followed(count: usize, copies: u32) -> TestWorld {
    let world = TestWorld::new(count).await;
    world.sites[0].create_bucket(BUCKET).await.unwrap();
    world.sites[0].set_copies(BUCKET, copies).await.unwrap();
    for site in &world.sites[1..] {
        join(site).await;
    }
    world.converged(BUCKET).await;
    world
}

async fn away(world: &mut TestWorld, number: usize) {
    world.sites[number].stop().await;
    let id = world.sites[number].id();
    for site in world.sites.iter().filter(|site| site.core.is_some()) {
        site.until("the link is gone", || async { !site.site().linked(id) }).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_site_that_is_emptied_may_leave_a_bucket_and_nothing_is_lost() {
    let mut world = followed(3, 1).await;
    {
        let [one, two, three] = &world.sites[..] else { panic!("three sites") };
        write(two, 0..12).await;
        let (_, left) = tokio::join!(say(one, "site-2", "drain"), leave(two));
        left.unwrap();
        until_left(two).await;
        until_duty(one, "site-2", "empty").await;
        assert!(one.site().linked(two.id()) && three.site().linked(two.id()));
        assert_eq!(two.get(BUCKET, "3").await.unwrap(), body(3), "it reads on");
    }
    away(&mut world, 1).await;
    has(&world.sites[0], 0..12).await;
    has(&world.sites[2], 0..12).await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_leaves_and_one_that_is_emptied_do_not_rest_on_each_other() {
    let mut world = followed(3, 1).await;
    {
        let [one, two, three] = &world.sites[..] else { panic!("three sites") };
        // The third is away while both go: all is at the two then.
        three.cut(true).await;
        write(one, 0..6).await;
        write(two, 6..12).await;
        two.until("it has the records", || async { two.list(BUCKET).await.unwrap().len() == 12 }).await;
        one.until("it has the records", || async { one.list(BUCKET).await.unwrap().len() == 12 }).await;
        let (_, left) = tokio::join!(say(one, "site-1", "drain"), leave(two));
        left.unwrap();
        two.until("it says who goes as well", || async {
            let (standing, reason) = standing(two).await;
            standing == "leaving" && reason.contains("site-1 is about to leave as well")
        })
        .await;
        one.until("it says who goes as well", || async {
            let drain = shown(one, "site-1").await.drain;
            drain.is_some_and(|drain| drain.waits_for.contains("site-2"))
        })
        .await;
        assert_eq!(
            (shown(one, "site-1").await.duty, standing(two).await.0),
            ("draining".into(), "leaving".into())
        );
        three.cut(false).await;
        world.linked(three).await;
        until_left(two).await;
        until_duty(three, "site-1", "empty").await;
    }
    away(&mut world, 0).await;
    world.sites[1].cut(true).await;
    has(&world.sites[2], 0..12).await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_that_are_emptied_at_once_leave_all_to_the_third() {
    let mut world = followed(3, 2).await;
    {
        let [one, two, three] = &world.sites[..] else { panic!("three sites") };
        write(one, 0..8).await;
        write(two, 8..16).await;
        // Said at each of them, before either has heard of the other.
        tokio::join!(say(one, "site-1", "drain"), say(two, "site-2", "drain"));
        until_duty(three, "site-1", "empty").await;
        until_duty(three, "site-2", "empty").await;
    }
    away(&mut world, 0).await;
    away(&mut world, 1).await;
    has(&world.sites[2], 0..16).await;
    world.sites[2].put(BUCKET, "after", "x").await.unwrap();
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_site_leaves_no_bucket_until_it_serves_again() {
    let world = followed(2, 1).await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    write(two, 0..3).await;
    say(two, "site-2", "freeze").await;
    let refused = leave(two).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotServing, "{refused}");
    say(two, "site-2", "serve").await;
    one.cut(true).await;
    leave(two).await.unwrap();
    say(two, "site-2", "freeze").await;
    one.cut(false).await;
    two.until("it says why it stays", || async {
        let (standing, reason) = standing(two).await;
        standing == "leaving" && reason.contains("skerry site resume site-2")
    })
    .await;
    say(two, "site-2", "serve").await;
    until_left(two).await;
    one.cut(true).await;
    has(one, 0..3).await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drain_goes_on_though_a_holder_is_declared_lost() {
    let mut world = followed(3, 2).await;
    write(&world.sites[0], 0..8).await;
    // Copies are at the second site alone: the third hears of the records and holds nothing.
    let at = |site: &TestSite| site.services().admin.clone();
    world.sites[0]
        .until("all have a copy", || async {
            at(&world.sites[0]).bucket(BUCKET).await.unwrap().unprotected_bytes == 0
        })
        .await;
    away(&mut world, 1).await;
    {
        let [one, _, three] = &world.sites[..] else { panic!("three sites") };
        declare(one, "site-2", true).await.unwrap();
        until_lost(three, "site-2", true).await;
        say(three, "site-1", "drain").await;
        until_duty(three, "site-1", "empty").await;
    }
    away(&mut world, 0).await;
    has(&world.sites[2], 0..8).await;
    // Both come back: the lost one takes its word back, the empty one is still empty, and serves when it is called.
    for number in [0, 1] {
        world.sites[number].start().await;
        world.linked(&world.sites[number]).await;
    }
    let [one, two, three] = &world.sites[..] else { panic!("three sites") };
    until_lost(three, "site-2", false).await;
    until_duty(two, "site-1", "empty").await;
    say(two, "site-1", "serve").await;
    until_duty(one, "site-1", "serves").await;
    one.put(BUCKET, "back", "x").await.unwrap();
    world.stop().await;
}

/// The register hears of the bucket from others, and may hear later that its maker goes: it would name one that is off.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_site_that_may_be_named_the_home_of_what_it_made_is_not_empty() {
    let mut world = followed(3, 1).await;
    {
        let [one, two, three] = &world.sites[..] else { panic!("three sites") };
        one.cut(true).await;
        two.create_bucket("late").await.unwrap();
        three
            .until("the bucket is known", || async { three.site().bucket("late").await.unwrap().is_some() })
            .await;
        say(three, "site-2", "drain").await;
        three
            .until("it says what it waits for, or that it is empty", || async {
                let status = shown(three, "site-2").await;
                status.duty == "empty"
                    || status.drain.is_some_and(|drain| drain.homes == 1 && drain.records == 0)
            })
            .await;
        let status = shown(three, "site-2").await;
        assert_eq!(status.duty, "draining", "its bucket has no home yet");
        assert!(status.drain.unwrap().waits_for.contains("site-1"), "the register is named");
        one.cut(false).await;
        world.until_linked(one, three).await;
        until_duty(three, "site-2", "empty").await;
    }
    away(&mut world, 1).await;
    let [_, _, three] = &world.sites[..] else { panic!("three sites") };
    let home = || async { three.services().admin.bucket("late").await.unwrap().home };
    three
        .until("somebody who stays decides", || async { ["site-1", "site-3"].contains(&&*home().await) })
        .await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drained_site_that_is_silent_is_not_a_lost_one() {
    let mut world = followed(3, 1).await;
    write(&world.sites[0], 0..2).await;
    world.converged(BUCKET).await;
    {
        let [one, two, three] = &world.sites[..] else { panic!("three sites") };
        // It is emptied, and cut off before anybody took anything.
        one.cut(true).await;
        for site in [two, three] {
            site.until("the link is gone", || async { !site.site().linked(one.id()) }).await;
        }
        say(two, "site-1", "drain").await;
        until_duty(three, "site-1", "draining").await;
    }
    away(&mut world, 2).await;
    let [one, two, _] = &world.sites[..] else { panic!("three sites") };
    declare(two, "site-3", true).await.unwrap();
    let refused = two.get(BUCKET, "0").await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unreachable, "what it has is not gone: {refused}");
    one.cut(false).await;
    world.until_linked(one, two).await;
    has(two, 0..2).await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_site_that_was_emptied_or_frozen_and_is_declared_lost_comes_back_as_it_was() {
    for (duty, then) in [("drain", "empty"), ("freeze", "frozen")] {
        let mut world = followed(3, 1).await;
        write(&world.sites[1], 0..4).await;
        world.converged(BUCKET).await;
        say(&world.sites[0], "site-2", duty).await;
        until_duty(&world.sites[0], "site-2", then).await;
        world.sites[0]
            .until("it has answered", || async { shown(&world.sites[0], "site-2").await.duty_heard })
            .await;
        away(&mut world, 1).await;
        {
            let [one, _, three] = &world.sites[..] else { panic!("three sites") };
            let only = one.services().admin.only_at("site-2", LossQuery { after: None, limit: None }).await;
            let only = only.unwrap().count;
            assert_eq!(
                only,
                if then == "empty" { 0 } else { 4 },
                "what nobody else has of one that is {then}"
            );
            declare(one, "site-2", true).await.unwrap();
            until_lost(three, "site-2", true).await;
            assert_eq!(shown(three, "site-2").await.duty, then);
            for site in [one, three] {
                match then {
                    "empty" => has(site, 0..4).await,
                    _ => assert_eq!(site.get(BUCKET, "0").await.unwrap_err().kind(), ErrorKind::NoSuchKey),
                }
            }
        }
        world.sites[1].start().await;
        world.linked(&world.sites[1]).await;
        let [one, two, three] = &world.sites[..] else { panic!("three sites") };
        for site in [one, three] {
            until_lost(site, "site-2", false).await;
            assert_eq!(shown(site, "site-2").await.duty, then);
            has(site, 0..4).await;
        }
        assert_eq!(two.delete(BUCKET, "0").await.unwrap_err().kind(), ErrorKind::NotServing);
        say(one, "site-2", "serve").await;
        until_duty(two, "site-2", "serves").await;
        two.put(BUCKET, "back", "x").await.unwrap();
        world.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_disk_has_not_said_that_it_is_empty() {
    let mut world = followed(2, 1).await;
    write(&world.sites[1], 0..3).await;
    say(&world.sites[0], "site-2", "drain").await;
    until_duty(&world.sites[0], "site-2", "empty").await;
    away(&mut world, 1).await;
    std::fs::remove_dir_all(world.sites[1].directory.path().join("data")).unwrap();
    world.sites[1].start().await;
    world.introduce().await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    let life = two.site().stamps.origin.incarnation;
    let (system, key) = (one.site().system, SystemKey::DutyReport(two.id()).to_string());
    one.until("the new disk says so itself", || {
        let key = key.clone();
        async move {
            let read = move |view: &dyn View| space::current(view, system, &key).map_err(unreadable);
            let said = one.site().read(read).await.unwrap();
            let by = said.map(|record| record.dot.origin.incarnation);
            by == Some(life) && shown(one, "site-2").await.duty == "empty"
        }
    })
    .await;
    has(one, 0..3).await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_site_is_expelled_and_its_homes_are_given_to_others() {
    let mut world = followed(3, 1).await;
    {
        let [one, two, _] = &world.sites[..] else { panic!("three sites") };
        let request = HomeRequest { site: "site-3".into(), destroyed: None };
        one.gives_home(BUCKET, request).await;
        write(two, 0..2).await;
        world.converged(BUCKET).await;
    }
    away(&mut world, 2).await;
    let [one, two, _] = &world.sites[..] else { panic!("three sites") };
    declare(two, "site-3", true).await.unwrap();
    until_lost(one, "site-3", true).await;
    let done = one.services().admin.expel("site-3", ExpelRequest {}).await.unwrap();
    assert_eq!((&*done.site.state, &*done.site.homes), ("expelled", &[BUCKET.to_owned()][..]));
    two.until("it is known", || async { shown(two, "site-3").await.state == "expelled" }).await;
    let refused = declare(one, "site-3", false).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Refused, "{refused}");
    let address = AddressRequest { addresses: vec!["there.example:7700".into()] };
    assert!(one.services().admin.set_address("site-3", address).await.is_err());
    // It is in no roster any more, and can still be named as the one that is gone.
    let request = HomeRequest { site: "site-2".into(), destroyed: Some("site-3".into()) };
    one.services().admin.move_home(BUCKET, request).await.unwrap();
    two.until("the home is here", || async {
        two.services().admin.bucket(BUCKET).await.is_ok_and(|bucket| bucket.home == "site-2")
    })
    .await;
    assert_eq!(shown(one, "site-3").await.homes, Vec::<String>::new());
    has(one, 0..2).await;
    assert_eq!(shown(two, "site-3").await.state, "expelled");
    world.stop().await;
}
