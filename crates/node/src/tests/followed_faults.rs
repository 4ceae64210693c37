//! Sites that follow a prefix: faults that were found by reading. Each test fails without what mends its fault.

use std::time::Duration;

use bytes::Bytes;
use skerry_base::BucketId;
use skerry_base::kv::View;
use skerry_federation::budget::Class;
use skerry_gateway::service::{JoinRequest, PinAct, PinRequest};
use skerry_model::Record;
use skerry_model::space::{self, Below};

use super::followed::{PREFIX, current, follow, held, id_of, list, say, state};
use super::world::{TestSite, TestWorld, context, noise};
use crate::following::{Trust, work};
use crate::paths::scope;
use crate::peers::message::Hold;
use crate::peers::serve::Asker;
use crate::site::unreadable;

fn below(id: BucketId) -> Below {
    Below { bucket: id, prefix: PREFIX.into() }
}

pub(super) async fn join(site: &TestSite) -> BucketId {
    let id = id_of(site).await;
    site.services().admin.join_bucket("photos", JoinRequest::default()).await.unwrap();
    site.until("it is a whole member", || async { site.site().is_complete(id) }).await;
    id
}

/// Back to what is followed of it.
async fn leave(site: &TestSite, id: BucketId) {
    site.services().admin.leave_bucket("photos").await.unwrap();
    site.until("it has left", || async {
        !site.site().is_member(id)
            && !site.site().leaving.sweeps(id)
            && site.site().leaving.note(id).is_none()
    })
    .await;
    current(site, PREFIX).await;
}

async fn record_of(site: &TestSite, id: BucketId, key: &'static str) -> Record {
    let read = move |view: &dyn View| space::current(view, id, key).map_err(unreadable);
    site.site().read(read).await.unwrap().unwrap()
}

/// While a bucket is let go its site is no member in memory any more and still one on disk.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_told_while_the_bucket_is_let_go_is_not_believed_and_not_asked_for_again_at_once() {
    let world = TestWorld::new(2).await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    one.create_bucket("photos").await.unwrap();
    one.put("photos", "oslo/a", "abc").await.unwrap();
    let id = follow(two, None).await;
    join(two).await;
    one.put("photos", "oslo/b", "def").await.unwrap();
    world.converged("photos").await;
    two.site().close(id).await;
    two.site().following.begin_anew(id);
    let begun = two.site().clock.now();
    work::step(two.site(), &below(id)).await.unwrap();
    let took = two.site().clock.now().since(begun);
    assert_eq!(two.site().trusts(id, "oslo/a"), None, "it was asked for and told");
    assert!(took > Duration::from_secs(1), "it is asked for again after {took:?}");
    two.site().joined(id, true);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_holds_what_its_prefix_called_dead_and_its_store_goes_on() {
    let world = TestWorld::new(2).await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    one.create_bucket("photos").await.unwrap();
    one.put("photos", "oslo/a", "first").await.unwrap();
    let id = id_of(one).await;
    let dead = record_of(one, id, "oslo/a").await;
    one.put("photos", "oslo/a", "second").await.unwrap();
    follow(two, None).await;
    join(two).await;
    let hold = Hold { bucket: id, record: dead.encode().into(), payload: vec![Bytes::from("first")] };
    let asked = scope::hold(two.site(), Asker::plain(one.id(), Class::Read), hold).await;
    println!("{asked:?}");
    two.put("photos", "oslo/b", "x").await.unwrap();
    assert_eq!(two.get("photos", "oslo/a").await.unwrap(), "second");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_leave_what_is_dead_below_the_prefix_is_told_from_what_was_dropped() {
    let world = TestWorld::new(2).await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    one.create_bucket("photos").await.unwrap();
    one.put("photos", "oslo/a", "abc").await.unwrap();
    one.put("photos", "bergen/a", "abc").await.unwrap();
    let id = follow(two, None).await;
    assert!(!two.site().outlives(id, "bergen/a", false), "it has not left it");
    join(two).await;
    leave(two, id).await;
    assert!(two.site().stamps.is_out(id));
    // What lives elsewhere is answered though it is being dropped here, or was; below the prefix it would be here.
    assert!(two.site().outlives(id, "bergen/a", false) && two.site().outlives(id, "oslo/a", true));
    assert!(!two.site().outlives(id, "oslo/a", false));
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_prefixes_that_overlap_are_not_followed_when_both_are_said_at_once() {
    let world = TestWorld::new(2).await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    one.create_bucket("photos").await.unwrap();
    id_of(two).await;
    for number in 0..4 {
        let (wide, narrow) = (format!("{number}/"), format!("{number}/narrow/"));
        let (first, second) = tokio::join!(say(two, &wide, None, false), say(two, &narrow, None, false));
        assert!(first.is_ok() != second.is_ok(), "{first:?} and {second:?}");
    }
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_miss_is_the_last_word_only_while_who_said_so_is_linked() {
    let world = TestWorld::new(2).await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    one.create_bucket("photos").await.unwrap();
    let id = follow(two, None).await;
    assert_eq!(two.site().trusts(id, "oslo/a"), Some(Trust::Current));
    two.cut(true).await;
    assert_eq!(two.site().trusts(id, "oslo/a"), Some(Trust::Whole));
    assert_eq!(two.site().trusts(id, "bergen/a"), None);
    world.stop().await;
}

/// Whoever changes something else wakes no question that waits for a prefix.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_buckets_cost_no_look_for_who_waits_and_other_keys_few() {
    let world = TestWorld::new(2).await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    one.create_bucket("photos").await.unwrap();
    one.create_bucket("music").await.unwrap();
    follow(two, None).await;
    let looks = || one.site().following.looks();
    one.until("the question waits", || async { one.site().following.waiting() == 1 }).await;
    let before = looks();
    for number in 0..120 {
        one.put("music", &format!("{number}"), "x").await.unwrap();
    }
    // One may have been asked anew meanwhile.
    assert!(looks() - before <= 2, "{} looks for another bucket", looks() - before);
    let before = looks();
    for number in 0..120 {
        one.put("photos", &format!("bergen/{number}"), "x").await.unwrap();
    }
    assert!(looks() - before <= 40, "{} looks for other keys", looks() - before);
    one.put("photos", "oslo/a", "x").await.unwrap();
    two.until("it comes", || async { list(two, PREFIX).await.unwrap() == ["oslo/a"] }).await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_followed_of_a_deleted_bucket_ends_by_itself() {
    let world = TestWorld::new(2).await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    one.create_bucket("photos").await.unwrap();
    one.put("photos", "oslo/a", "x").await.unwrap();
    let id = follow(two, None).await;
    assert_eq!(two.site().following.counts(), (1, 0));
    one.delete("photos", "oslo/a").await.unwrap();
    one.services().buckets.delete(&context(), "photos").await.unwrap();
    two.until("nothing is followed", || async { two.site().following.counts() == (0, 0) }).await;
    assert_eq!(held(two, id).await.1, 0);
    // One of the same name is another.
    one.create_bucket("photos").await.unwrap();
    two.until("it is known", || async {
        two.site().bucket("photos").await.unwrap().is_some_and(|bucket| bucket.id != id)
    })
    .await;
    assert!(state(two).await.is_empty());
    world.stop().await;
}

/// A pin below a followed prefix holds back nobody who has become a member: what it rests on is followed afterwards.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_leaves_though_something_below_its_prefix_is_pinned() {
    let world = TestWorld::new(2).await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    one.create_bucket("photos").await.unwrap();
    one.put("photos", "oslo/a", noise(300_000, 1)).await.unwrap();
    let id = follow(two, None).await;
    let pin = |prefix: &str, act| {
        let request = PinRequest { bucket: "photos".into(), prefix: prefix.into(), act };
        two.services().admin.set_pin(request)
    };
    pin("oslo/", PinAct::Pin).await.unwrap();
    two.put("photos", "oslo/b", noise(300_000, 2)).await.unwrap();
    two.until("it is whole", || async { two.site().is_complete(id) }).await;
    pin("bergen/", PinAct::Pin).await.unwrap();
    let refused = two.services().admin.leave_bucket("photos").await.unwrap_err();
    assert!(refused.message().contains("unpin"), "{refused}");
    pin("bergen/", PinAct::Unpin).await.unwrap();
    leave(two, id).await;
    two.until("the pin is complete", || async {
        let pins = two.services().admin.pins().await.unwrap().pins;
        pins.iter().any(|pin| pin.complete && pin.objects == 2)
    })
    .await;
    two.cut(true).await;
    assert_eq!(two.get("photos", "oslo/b").await.unwrap(), noise(300_000, 2));
    world.stop().await;
}
