//! The complete members of a bucket burn while others are still joining it.

use std::time::Duration;

use skerry_base::codec;
use skerry_gateway::service::{BucketPatch, ErrorKind, ExpelRequest, JoinRequest, LossRequest};

use super::dialects::Release;
use super::world::{TestSite, TestWorld, noise};
use crate::peers::mark;
use crate::peers::message::Request;

/// More than two looks take.
const LOOKS: Duration = Duration::from_secs(7);

async fn standing(site: &TestSite) -> String {
    site.services().admin.membership("photos").await.unwrap().standing
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_was_joining_holds_what_there_is_once_the_complete_members_are_declared_lost() {
    let mut world = TestWorld::new(4).await;
    {
        let one = &world.sites[0];
        one.create_bucket("photos").await.unwrap();
        one.put("photos", "lost", noise(100, 1)).await.unwrap();
        world.sites[3].create_bucket("busy").await.unwrap();
        for site in &world.sites[1..] {
            let known = || async { site.site().bucket("photos").await.unwrap().is_some() };
            site.until("the bucket is known", known).await;
        }
    }
    // Nobody has taken a record of it when it burns.
    world.sites[0].stop().await;
    let [_, two, three, four] = &world.sites[..] else { panic!("four sites") };
    for site in [two, three] {
        site.until("the bucket is known", || async { site.site().bucket("busy").await.unwrap().is_some() })
            .await;
        site.services().admin.join_bucket("busy", JoinRequest::default()).await.unwrap();
        site.services().admin.join_bucket("photos", JoinRequest::default()).await.unwrap();
    }
    two.put("photos", "new", noise(100, 2)).await.unwrap();
    three.until("it has come", || async { three.get("photos", "new").await.is_ok() }).await;
    let both =
        |word: &'static str| async move { standing(two).await == word && standing(three).await == word };
    assert!(both("joining").await);
    let waited = || async { waits(two).await.contains("site-1 is not linked") };
    two.until("nobody said that it is lost", waited).await;
    // Who is silent may have become a complete member since it said that it is none.
    four.cut(true).await;
    two.services().admin.declare_loss("site-1", LossRequest { lost: true }).await.unwrap();
    let waited = || async {
        let waits = waits(two).await;
        waits.contains("site-4 is not linked") && !waits.contains("site-1")
    };
    two.until("a site is silent", waited).await;
    assert!(both("joining").await);
    four.cut(false).await;
    // There is never a silence: something comes all the time, of another bucket.
    let busy = || async {
        four.put("busy", "key", noise(100, 3)).await.unwrap();
        both("member").await
    };
    two.until("both are complete members", busy).await;
    assert_eq!(two.get("photos", "lost").await.unwrap_err().kind(), ErrorKind::NoSuchKey);
    // And may go.
    three.services().admin.leave_bucket("photos").await.unwrap();
    three.until("it has left", || async { standing(three).await == "none" }).await;
    assert_eq!(two.get("photos", "new").await.unwrap(), noise(100, 2));
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_joins_and_has_nothing_says_so_when_it_is_asked() {
    let mut world = TestWorld::new(3).await;
    world.sites[0].create_bucket("photos").await.unwrap();
    for site in &world.sites[1..] {
        let known = || async { site.site().bucket("photos").await.unwrap().is_some() };
        site.until("the bucket is known", known).await;
    }
    world.sites[0].stop().await;
    let [_, two, three] = &world.sites[..] else { panic!("three sites") };
    for site in [two, three] {
        site.services().admin.join_bucket("photos", JoinRequest::default()).await.unwrap();
    }
    two.services().admin.declare_loss("site-1", LossRequest { lost: true }).await.unwrap();
    for site in [two, three] {
        site.until("nobody is waited for", || async { standing(site).await == "member" }).await;
    }
    world.stop().await;
}

/// Three sites, of which the second made a bucket and wrote to it, and was begun anew; who `reads` did before.
async fn begun_anew(reads: bool) -> TestWorld {
    let mut world = TestWorld::new(3).await;
    let [one, two, three] = &world.sites[..] else { panic!("three sites") };
    two.create_bucket("photos").await.unwrap();
    let patch = BucketPatch { join: Some("manual".into()), ..BucketPatch::default() };
    two.services().admin.update_bucket("photos", patch).await.unwrap();
    two.put("photos", "k", "body").await.unwrap();
    let is_manual = |site: &TestSite| {
        let admin = site.services().admin.clone();
        async move { admin.bucket("photos").await.is_ok_and(|bucket| bucket.join == "manual") }
    };
    for site in [one, three] {
        site.until("the bucket is known", || is_manual(site)).await;
    }
    if reads {
        assert_eq!(three.get("photos", "k").await.unwrap(), "body");
    }
    world.sites[1].stop().await;
    std::fs::remove_dir_all(world.sites[1].directory.path().join("data")).unwrap();
    world.sites[1].start().await;
    world.introduce().await;
    let two = &world.sites[1];
    two.until("the bucket is known again", || is_manual(two)).await;
    // Who is cut off before that is waited for by what begins anew, which has words of its own.
    let is_heard = || async { two.services().admin.status().await.unwrap().anew.is_none() };
    two.until("all others were heard", is_heard).await;
    world
}

async fn waits(site: &TestSite) -> String {
    let status = site.services().admin.status().await.unwrap();
    let state = site.services().admin.membership("photos").await.unwrap();
    let said = status.joining.iter().find(|joining| joining.bucket == "photos");
    said.map(|joining| joining.reason.clone()).filter(|reason| *reason == state.reason).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_begun_anew_answers_again_once_all_others_say_that_they_have_nothing() {
    let world = begun_anew(false).await;
    let [one, two, three] = &world.sites[..] else { panic!("three sites") };
    three.cut(true).await;
    two.until("the link is gone", || async { !two.site().linked(three.id()) }).await;
    two.put("photos", "new", "another").await.unwrap();
    let named = || async { waits(two).await.contains("site-3 is not linked") };
    two.until("it says for whom it waits", named).await;
    assert!(waits(two).await.contains("`skerry site declare-lost site-3`"));
    let missed = one.get("photos", "k").await.unwrap_err();
    assert_eq!(missed.kind(), ErrorKind::Unreachable, "{missed}");
    assert!(missed.message().contains("`skerry status` there"), "{missed}");
    assert_eq!(standing(two).await, "joining");
    three.cut(false).await;
    two.until("all others have said it", || async { standing(two).await == "member" }).await;
    for site in [one, three] {
        let missing = || async { site.get("photos", "k").await.unwrap_err().kind() == ErrorKind::NoSuchKey };
        site.until("it is known that it is gone", missing).await;
        assert_eq!(site.get("photos", "new").await.unwrap(), "another");
    }
    assert_eq!(waits(two).await, "");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_begun_anew_waits_for_what_was_read_elsewhere_and_takes_it() {
    let world = begun_anew(true).await;
    let [_, two, three] = &world.sites[..] else { panic!("three sites") };
    two.put("photos", "new", "another").await.unwrap();
    let named = || async { waits(two).await.contains("records of it lie at site-3") };
    two.until("it says for what it waits", named).await;
    assert!(waits(two).await.contains("`skerry bucket join photos` there"));
    assert_eq!(standing(two).await, "joining");
    assert_eq!(three.get("photos", "k").await.unwrap(), "body", "nobody denies it");
    three.services().admin.join_bucket("photos", JoinRequest::default()).await.unwrap();
    for site in [two, three] {
        site.until("both have it all", || async { standing(site).await == "member" }).await;
    }
    for site in [two, three] {
        assert_eq!(site.get("photos", "k").await.unwrap(), "body");
        assert_eq!(site.list("photos").await.unwrap(), ["k", "new"]);
    }
    world.stop().await;
}

/// Whatever an operator said of another site: records of it lie at one that is no member, and would be denied.
async fn waits_for_what_was_read_elsewhere(expels: bool) {
    let mut world = begun_anew(true).await;
    world.sites[0].stop().await;
    let [_, two, three] = &world.sites[..] else { panic!("three sites") };
    two.put("photos", "new", "another").await.unwrap();
    let admin = &two.services().admin;
    admin.declare_loss("site-1", LossRequest { lost: true }).await.unwrap();
    if expels {
        admin.expel("site-1", ExpelRequest {}).await.unwrap();
    }
    let named = || async { waits(two).await.contains("records of it lie at site-3") };
    two.until("it says for what it waits", named).await;
    // Two looks more: who is sure takes itself for a whole member.
    let begun = two.site().clock.now();
    let looked = || async { two.site().clock.now().since(begun) > LOOKS || standing(two).await == "member" };
    two.until("it has looked again", looked).await;
    assert_eq!(standing(two).await, "joining", "what was read at another site would be denied");
    assert!(!waits(two).await.contains("site-1"), "it is lost");
    let unknown = two.get("photos", "k").await.unwrap_err();
    assert_eq!(unknown.kind(), ErrorKind::Unreachable, "{unknown}");
    assert!(unknown.message().contains("records of it lie at site-3"), "{unknown}");
    assert_eq!(three.get("photos", "k").await.unwrap(), "body", "nobody denies it");
    three.services().admin.join_bucket("photos", JoinRequest::default()).await.unwrap();
    for site in [two, three] {
        site.until("both have it all", || async { standing(site).await == "member" }).await;
        assert_eq!(site.get("photos", "k").await.unwrap(), "body");
        assert_eq!(site.list("photos").await.unwrap(), ["k", "new"]);
    }
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_read_elsewhere_is_waited_for_though_a_site_is_declared_lost() {
    waits_for_what_was_read_elsewhere(false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_read_elsewhere_is_waited_for_though_a_site_is_expelled() {
    waits_for_what_was_read_elsewhere(true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_that_does_not_know_the_question_is_named_and_its_link_stands() {
    let mut world = begun_anew(false).await;
    world.sites[2].stop().await;
    let [_, two, three] = &world.sites[..] else { panic!("three sites") };
    // It closes the stream of each question that it cannot read, and no other.
    let release = Release::start(two, three, Some(mark::DIALECT));
    two.until("they are linked", || async { two.site().linked(three.id()) }).await;
    let link = two.site().boxes.links()[&three.id()];
    two.put("photos", "new", "another").await.unwrap();
    let named = || async { waits(two).await.contains("site-3 does not say what lies there") };
    two.until("it says for whom it waits", named).await;
    let asked = || {
        let is_asked =
            |frame: &&Vec<u8>| matches!(codec::decode(mark::read(frame).1), Ok(Request::Remains { .. }));
        release.heard.lock().unwrap().iter().filter(is_asked).count()
    };
    let (before, begun) = (asked(), two.site().clock.now());
    two.until("it was asked again", || async { asked() >= before + 2 }).await;
    let looks = two.site().clock.now().since(begun).as_secs() / 3 + 2;
    assert!(asked() - before <= looks as usize, "asked {} times in {looks} looks", asked() - before);
    assert_eq!(two.site().boxes.links().get(&three.id()), Some(&link), "the link was closed");
    assert_eq!(release.signs.lock().unwrap().len(), 2, "control streams: one of them was closed");
    assert_eq!(standing(two).await, "joining");
    world.stop().await;
}
