//! What a site does by itself begins when there is something to be done: no change falls between a look and the wait for the
//! next, none is told before it can be seen, and nobody who is silent keeps the others waiting.

use std::time::Duration;

use skerry_gateway::service::{DutyRequest, ExpelRequest, JoinRequest};

use super::world::{TestSite, TestWorld, noise};
use crate::net::{Net, PeerAddress};

/// Much less than a site that does not answer is given, and much more than a look takes.
const SOON: Duration = Duration::from_secs(10);

fn holds(site: &TestSite) -> bool {
    site.site().store.usage().payload.live >= 70_000
}

/// A link stands over which nothing is ever answered. So long as such a site was asked what it holds, fifteen seconds each time,
/// nobody else was asked to hold anything, and no word of an operator was heard.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_expulsion_is_heard_while_another_site_does_not_answer() {
    let mut world = TestWorld::new(4).await;
    world.sites[0].create_bucket("safe").await.unwrap();
    let four = &world.sites[3];
    four.until("the bucket is known", || async { four.site().bucket("safe").await.unwrap().is_some() }).await;
    let id = four.site().bucket("safe").await.unwrap().unwrap().id;
    four.services().admin.join_bucket("safe", JoinRequest::default()).await.unwrap();
    let (one, joined) = (&world.sites[0], four.id());
    let members = async || one.site().drive.ask(move |machine, _| machine.members(id)).await.unwrap();
    one.until("it is a member", || async { members().await.contains(&joined) }).await;
    world.sites[3].stop().await;
    world.sites[1].stop().await;
    // Nobody turns to it who has a nearer one.
    world.sites[0].set_rtt(&world.sites[3], Duration::from_millis(500));
    let one = &world.sites[0];
    one.set_copies("safe", 2).await.unwrap();
    one.put("safe", "k", noise(70_000, 1)).await.unwrap();
    let unprotected = async || one.services().admin.bucket("safe").await.unwrap().unprotected_bytes;
    one.until("the third has it", || async { unprotected().await == 0 && holds(&world.sites[2]) }).await;
    // It listens, takes every question, and says nothing.
    let mute = world.sites[3].bare();
    mute.set_peers(vec![PeerAddress { key: one.key(), addresses: Vec::new() }]);
    let taken = tokio::spawn(async move {
        let mut streams = Vec::new();
        while let Some((_, stream)) = mute.accept().await {
            streams.push(stream);
        }
    });
    one.until("it is linked", || async { one.site().linked(world.sites[3].id()) }).await;
    world.sites[1].start().await;
    let (one, two, three) = (&world.sites[0], &world.sites[1], &world.sites[2]);
    world.until_linked(one, two).await;
    let begun = one.site().clock.now();
    one.services().admin.expel("site-3", ExpelRequest {}).await.unwrap();
    // Counted from that moment on, whoever looks when.
    let at_risk = one.services().admin.bucket("safe").await.unwrap().unprotected_bytes;
    assert!(at_risk == 70_000 || holds(two), "{at_risk}");
    let made_again = one.until("another has it", || async { holds(two) });
    assert!(tokio::time::timeout(SOON, made_again).await.is_ok(), "the worker heard of it too late");
    println!("{:?} from the word to the next copy", one.site().clock.now().since(begun));
    assert!(holds(three), "it was expelled, not emptied");
    taken.abort();
    world.stop().await;
}

/// Who waits is woken by the record of a word; what it sees then may be what was before. So it is told again once it is so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_looked_before_a_word_could_be_seen_is_woken_again() {
    let mut world = TestWorld::new(2).await;
    world.sites[1].stop().await;
    let (one, gone) = (&world.sites[0], world.sites[1].id());
    one.until("the link is gone", || async { !one.site().linked(gone) }).await;
    let mut changes = one.site().changes.follow_belonging();
    let leaves = || one.site().copies.uncounted().contains(&gone);
    let before = one.site().changes.system_count();
    // Whoever takes the records over is held up: the word is written, and cannot be seen yet.
    let turn = one.site().duties.turn.lock().await;
    let services = one.services().clone();
    let said = tokio::spawn(async move {
        services.admin.set_duty("site-2", DutyRequest { duty: "drain".into(), abandon_uploads: false }).await
    });
    one.until("the word is written", || async { one.site().changes.system_count() > before }).await;
    assert!(!leaves());
    changes.mark_unchanged();
    drop(turn);
    let woken = async {
        while !leaves() {
            changes.changed().await.unwrap();
        }
    };
    assert!(tokio::time::timeout(SOON, woken).await.is_ok(), "nobody was told once it could be seen");
    said.await.unwrap().unwrap();
    world.stop().await;
}

/// A link that breaks and comes back changes nobody's liveness; whoever waits for somebody to be reached is woken all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_that_comes_or_goes_is_told() {
    let world = TestWorld::new(2).await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    for apart in [true, false] {
        let mut changes = one.site().changes.follow();
        one.site().peers.net().set_apart(apart.then(|| two.node()).into_iter().collect());
        let woken = async {
            while one.site().linked(two.id()) == apart {
                changes.changed().await.unwrap();
            }
        };
        assert!(tokio::time::timeout(Duration::from_secs(2), woken).await.is_ok(), "apart: {apart}");
    }
    world.stop().await;
}
