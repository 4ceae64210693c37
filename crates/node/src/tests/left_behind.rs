//! What is there when a site has gone: as many copies as writes were answered for, and none counted that nobody has any more.

use std::time::Duration;

use skerry_gateway::service::{DutyRequest, JoinRequest, LossRequest, RequestContext};

use super::world::{TestSite, TestWorld, context, noise};

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
