//! The complete members of a bucket burn while others are still joining it.

use skerry_gateway::service::{ErrorKind, JoinRequest, LossRequest};

use super::world::{TestSite, TestWorld, noise};
use crate::paths::orphans::orphaned;

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
    let id = world.sites[1].site().bucket("photos").await.unwrap().unwrap().id;
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
    assert_eq!(orphaned(two.site(), id).await, None, "nobody said that it is lost");
    // Who is silent may have become a complete member since it said that it is none.
    four.cut(true).await;
    two.services().admin.declare_loss("site-1", LossRequest { lost: true }).await.unwrap();
    assert_eq!(orphaned(two.site(), id).await, None, "a site is silent");
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
async fn who_has_not_said_what_it_has_keeps_others_waiting() {
    let mut world = TestWorld::new(3).await;
    world.sites[0].create_bucket("photos").await.unwrap();
    for site in &world.sites[1..] {
        let known = || async { site.site().bucket("photos").await.unwrap().is_some() };
        site.until("the bucket is known", known).await;
    }
    world.sites[0].stop().await;
    let [_, two, three] = &world.sites[..] else { panic!("three sites") };
    let id = two.site().bucket("photos").await.unwrap().unwrap().id;
    for site in [two, three] {
        site.services().admin.join_bucket("photos", JoinRequest::default()).await.unwrap();
    }
    two.services().admin.declare_loss("site-1", LossRequest { lost: true }).await.unwrap();
    let member = three.id();
    let known = || async move {
        two.site()
            .drive
            .ask(move |machine, _| machine.members(id))
            .await
            .unwrap_or_default()
            .contains(&member)
    };
    two.until("it is known to follow", known).await;
    assert_eq!(orphaned(two.site(), id).await, None, "it has said that it joins, and not what it has");
    assert_eq!(standing(two).await, "joining");
    world.stop().await;
}
