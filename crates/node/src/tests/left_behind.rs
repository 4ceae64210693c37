//! What is there when a site has gone: as many copies as writes were answered for, and none counted that nobody has any more.

use std::time::Duration;

use skerry_base::kv::{Table, View};
use skerry_gateway::service::{DutyRequest, JoinRequest, LossRequest, RequestContext};
use skerry_model::space;

use super::world::{TestSite, TestWorld, context, noise};
use crate::copies::wanted::rules;
use crate::site::unreadable;

const BYTES: usize = 80_000;

fn holds(site: &TestSite) -> bool {
    site.site().store.usage().payload.live >= BYTES as u64
}

async fn put(site: &TestSite, scope: &str) {
    let asking = RequestContext { scope: Some(scope.into()), ..context() };
    site.put_in(&asking, "photos", "k", noise(BYTES, 1)).await.unwrap();
}

async fn join(site: &TestSite) {
    site.until("the bucket is known", || async { site.site().bucket("photos").await.unwrap().is_some() })
        .await;
    let id = site.site().bucket("photos").await.unwrap().unwrap().id;
    site.services().admin.join_bucket("photos", JoinRequest::default()).await.unwrap();
    site.until("the bucket is followed whole", || async { site.site().is_complete(id) }).await;
}

async fn until_left(site: &TestSite) {
    site.until("the bucket is left", || async {
        site.services().admin.membership("photos").await.unwrap().standing == "none"
    })
    .await;
}

/// Its holder is silent, and may have burned: what it is believed to hold is handed to who answers, and the leave waits for as
/// many as were promised.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_site_is_not_counted_on_by_one_that_leaves() {
    let mut world = TestWorld::new(3).await;
    {
        let [one, two, three] = &world.sites[..] else { panic!("three sites") };
        one.create_bucket("photos").await.unwrap();
        join(two).await;
        join(three).await;
        // The one that is asked first.
        two.set_rtt(one, Duration::from_millis(300));
        put(two, "sites=2").await;
        assert!(holds(two));
    }
    world.sites[2].stop().await;
    let [one, two, three] = &world.sites[..] else { panic!("three sites") };
    two.until("the link is gone", || async { !two.site().linked(three.id()) }).await;
    two.services().admin.leave_bucket("photos").await.unwrap();
    one.until("it is handed to who answers", || async { holds(one) }).await;
    two.until("it says for whom it waits", || async {
        let state = two.services().admin.membership("photos").await.unwrap();
        assert_eq!(state.standing, "leaving", "two were promised, and one has it for sure");
        state.reason.contains("site-3")
    })
    .await;
    two.services().admin.declare_loss("site-3", LossRequest { lost: true }).await.unwrap();
    until_left(two).await;
    two.cut(true).await;
    assert_eq!(one.get("photos", "k").await.unwrap(), noise(BYTES, 1));
    world.stop().await;
}

/// Answered for three sites, of which one goes: the fourth takes it, though it follows nothing and the bucket wants one copy.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn as_many_are_left_as_a_write_was_answered_for() {
    for drains in [false, true] {
        let world = TestWorld::new(4).await;
        let [one, two, three, four] = &world.sites[..] else { panic!("four sites") };
        one.create_bucket("photos").await.unwrap();
        join(two).await;
        one.set_rtt(four, Duration::from_millis(300));
        put(one, "sites=3").await;
        assert!(holds(one));
        if drains {
            let drain = DutyRequest { duty: "drain".into(), abandon_uploads: false };
            one.services().admin.set_duty("site-2", drain).await.unwrap();
            let empty = async || one.services().admin.site("site-2").await.unwrap().duty == "empty";
            one.until("it is empty", || async { empty().await }).await;
        } else {
            two.services().admin.leave_bucket("photos").await.unwrap();
            until_left(two).await;
        }
        assert!([one, three, four].into_iter().all(holds), "drains: {drains}");
        world.stop().await;
    }
}

async fn unprotected(site: &TestSite) -> u64 {
    site.services().admin.bucket("photos").await.unwrap().unprotected_bytes
}

/// Whether a site has looked through all that it knows of the bucket, and wrote that down.
async fn is_looked_through(site: &TestSite) -> bool {
    let bucket = site.site().bucket("photos").await.unwrap().unwrap();
    let id = bucket.id;
    let own = site.site().read(move |view: &dyn View| space::vector(view, id).map_err(unreadable));
    let covered = site.site().copies.covered(id, &rules(site.site(), &bucket));
    let written = site.site().store.view().get(Table::Local, &[b"covered/", &id.0[..]].concat());
    covered.includes(&own.await.unwrap()) && !covered.is_empty() && written.unwrap().is_some()
}

/// The writer saw to the copies of what it wrote, and whoever held them passed over that. It is at one place when the writer
/// has gone: the holder says so, and makes another copy when it can.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_writer_that_left_saw_to_is_at_risk_until_another_site_holds_it() {
    for restarts in [false, true] {
        let mut world = TestWorld::new(3).await;
        world.sites[2].stop().await;
        {
            let [one, two, _] = &world.sites[..] else { panic!("three sites") };
            two.create_bucket("photos").await.unwrap();
            two.set_copies("photos", 2).await.unwrap();
            join(one).await;
            let id = two.site().bucket("photos").await.unwrap().unwrap().id;
            let asked = || async { two.site().copies.life(id, one.id()).is_some() };
            two.until("it knows that the other one holds nothing", asked).await;
            one.put("photos", "k", noise(BYTES, 1)).await.unwrap();
            two.until("it holds it", || async { holds(two) }).await;
            two.until("it has passed over it", || async { is_looked_through(two).await }).await;
            assert_eq!(unprotected(two).await, 0, "the writer sees to it");
            one.services().admin.leave_bucket("photos").await.unwrap();
            until_left(one).await;
        }
        if restarts {
            world.sites[1].stop().await;
            world.sites[1].start().await;
        }
        let two = &world.sites[1];
        two.until("it is at risk", || async { unprotected(two).await == BYTES as u64 }).await;
        world.sites[2].start().await;
        world.introduce().await;
        let [_, two, three] = &world.sites[..] else { panic!("three sites") };
        three.until("it is held again", || async { holds(three) }).await;
        two.until("nothing is at risk", || async { unprotected(two).await == 0 }).await;
        world.stop().await;
    }
}
