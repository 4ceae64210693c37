//! What writes do at a site that follows a prefix: which make it a member of the whole bucket, and which do not.

use skerry_gateway::service::{
    DeleteObject, DeleteOutcome, DeleteTarget, DutyRequest, ErrorKind, Outcome, VersionId, WriteCondition,
};

use super::followed::{PREFIX, current, follow, list, say, state};
use super::followed_faults::join;
use super::world::{TestSite, TestWorld, context, noise};
use crate::following::joining;

fn absent() -> WriteCondition {
    WriteCondition { absent: true, matches: None }
}

async fn erase_null(site: &TestSite, key: &str) -> Outcome<DeleteOutcome> {
    let request = DeleteObject {
        bucket: "photos".into(),
        target: DeleteTarget {
            key: key.into(),
            version: Some(VersionId::null()),
            condition: WriteCondition::default(),
        },
    };
    site.services().objects.delete(&context(), request).await
}

async fn homed(site: &TestSite) {
    site.until("the home is named", || async {
        site.services().admin.bucket("photos").await.is_ok_and(|found| !found.home.is_empty())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_refused_or_changes_nothing_makes_no_member_and_what_is_written_says_so() {
    let mut world = TestWorld::new(2).await;
    {
        let [one, two] = &world.sites[..] else { panic!("two sites") };
        one.create_bucket("photos").await.unwrap();
        homed(one).await;
        one.put("photos", "oslo/a", "abc").await.unwrap();
        let id = follow(two, None).await;
        homed(two).await;
        for body in [noise(100, 1), noise(300_000, 1)] {
            let refused = two.put_if("photos", "oslo/a", body, absent()).await.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::PreconditionFailed);
        }
        two.delete("photos", "oslo/none").await.unwrap();
        one.put("photos", "oslo/gone", "x").await.unwrap();
        let lists_it = || async { list(two, PREFIX).await.unwrap().contains(&"oslo/gone".to_owned()) };
        two.until("it is here", lists_it).await;
        one.delete("photos", "oslo/gone").await.unwrap();
        two.until("it is gone here", || async { !lists_it().await }).await;
        two.delete("photos", "oslo/gone").await.unwrap();
        erase_null(two, "oslo/none").await.unwrap();
        assert!(!two.site().is_member(id), "{:?}", state(two).await);
        assert!(state(two).await[0].reason.is_empty());
    }
    // Nothing of it is remembered either.
    world.sites[1].stop().await;
    world.sites[1].start().await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    world.linked(two).await;
    let id = one.site().bucket("photos").await.unwrap().unwrap().id;
    current(two, PREFIX).await;
    assert!(!two.site().is_member(id));
    two.put_if("photos", "oslo/b", noise(300_000, 2), absent()).await.unwrap();
    assert!(two.site().is_member(id), "its body lies here");
    let shown = &state(two).await[0];
    assert!(shown.state == "member" && shown.reason.contains("oslo/b"), "{shown:?}");
    world.stop().await;
}

/// A home may have decided what the site wrote when it ended: then nobody else has the body.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_site_that_ends_while_a_home_decides_is_a_member_afterwards() {
    let mut world = TestWorld::new(2).await;
    let id = {
        let [one, two] = &world.sites[..] else { panic!("two sites") };
        one.create_bucket("photos").await.unwrap();
        let id = follow(two, None).await;
        let bucket = two.site().bucket("photos").await.unwrap().unwrap();
        let first = joining::begin(two.site(), &bucket).await.unwrap().unwrap();
        let _second = joining::begin(two.site(), &bucket).await.unwrap().unwrap();
        // One of two that are decided at once ends, and the other does not.
        first.end(two.site()).await.unwrap();
        assert!(!two.site().is_member(id));
        id
    };
    world.sites[1].stop().await;
    world.sites[1].start().await;
    let two = &world.sites[1];
    two.until("it has become one", || async { two.site().is_member(id) }).await;
    world.stop().await;
}

/// A site that has left, and follows: the only copy of what it wrote is a member's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_leave_a_conditional_write_makes_a_member_and_a_delete_is_seen_at_once() {
    let world = TestWorld::new(2).await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    one.create_bucket("photos").await.unwrap();
    homed(one).await;
    one.put("photos", "oslo/a", "abc").await.unwrap();
    let id = follow(two, Some("through")).await;
    homed(two).await;
    join(two).await;
    two.services().admin.leave_bucket("photos").await.unwrap();
    two.until("it has left", || async { !two.site().is_member(id) && two.site().leaving.note(id).is_none() })
        .await;
    current(two, PREFIX).await;
    assert!(two.site().stamps.is_out(id));
    for number in 0..5 {
        let key = format!("oslo/{number}");
        one.put("photos", &key, "x").await.unwrap();
        two.until("it is here", || async { list(two, PREFIX).await.unwrap().contains(&key) }).await;
        two.delete("photos", &key).await.unwrap();
        assert!(!list(two, PREFIX).await.unwrap().contains(&key), "what was deleted here is listed");
    }
    assert!(!two.site().is_member(id));
    say(two, PREFIX, Some("join"), false).await.unwrap();
    two.put_if("photos", "oslo/b", noise(300_000, 3), absent()).await.unwrap();
    assert!(two.site().is_member(id) && !two.site().stamps.is_out(id));
    world.stop().await;
}

/// The only member refuses it; who is none would take it, and all of the bucket.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_written_through_makes_nobody_a_member() {
    let world = TestWorld::new(3).await;
    let [one, two, three] = &world.sites[..] else { panic!("three sites") };
    one.create_bucket("photos").await.unwrap();
    let id = follow(two, Some("through")).await;
    two.put("photos", "oslo/a", "abc").await.unwrap();
    let freeze = DutyRequest { duty: "freeze".into(), abandon_uploads: false };
    one.services().admin.set_duty("site-1", freeze).await.unwrap();
    let refused = two.put("photos", "oslo/b", "abc").await.unwrap_err();
    assert!(refused.message().contains("frozen"), "{refused}");
    assert!(!three.site().is_member(id) && !two.site().is_member(id));
    // Said for one prefix it holds for the bucket, and is said so.
    say(two, "bergen/", Some("join"), false).await.unwrap();
    assert!(state(two).await.iter().all(|followed| followed.writes == "through"));
    world.stop().await;
}

/// A site that wants a prefix only, or has left, takes no write of another that has no room.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_others_cannot_keep_makes_no_member_of_who_wants_a_prefix_only() {
    let world = TestWorld::new(2).await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    one.create_bucket("photos").await.unwrap();
    one.put("photos", "oslo/a", "abc").await.unwrap();
    let id = follow(two, None).await;
    let drain = DutyRequest { duty: "drain".into(), abandon_uploads: false };
    one.services().admin.set_duty("site-1", drain).await.unwrap();
    assert!(one.put("photos", "oslo/b", "abc").await.is_err(), "there is nobody to take it");
    assert!(!two.site().is_member(id));
    world.stop().await;
}
