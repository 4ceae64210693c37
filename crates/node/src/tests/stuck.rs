//! Memory for what is held for others, when whoever asked for it does not come back.

use std::time::Duration;

use skerry_base::kv::View;
use skerry_federation::budget::Class;
use skerry_model::space;

use super::world::{TestSite, TestWorld, noise};
use crate::paths::scope;
use crate::peers::Waits;
use crate::peers::message::{Hold, Response};
use crate::peers::serve::Asker;
use crate::site::unreadable;

/// More than the journal takes.
const LARGE: usize = 50_000;
/// Much less than a minute, for which all of them would wait.
const SOON: Duration = Duration::from_secs(30);

/// Two sites, and the question whether the second holds a version of the first.
async fn asked() -> (TestWorld, Hold) {
    let world = TestWorld::new(2).await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    one.create_bucket("held").await.unwrap();
    two.until("the bucket is known", || async { two.site().bucket("held").await.unwrap().is_some() }).await;
    one.put("held", "k", noise(LARGE, 1)).await.unwrap();
    let bucket = one.site().bucket("held").await.unwrap().unwrap();
    let id = bucket.id;
    let read = move |view: &dyn View| space::current(view, id, "k").map_err(unreadable);
    let record = one.site().read(read).await.unwrap().unwrap();
    let hold = scope::question(one.site(), &bucket, &record).await.unwrap();
    (world, hold)
}

/// Takes turns of so long.
async fn hold(site: &TestSite, from: &TestSite, turn: Duration, hold: Hold) -> Response {
    site.site().peers.set_waits(Waits { turn, ..Waits::default() });
    let asked = scope::hold(site.site(), Asker::plain(from.id(), Class::Read), hold);
    tokio::time::timeout(SOON, asked).await.unwrap().unwrap()
}

/// Who asked has gone by the time that there is memory for a body which it sent along: it is told before how far that is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_does_not_wait_for_memory_longer_than_for_a_turn() {
    let (world, question) = asked().await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    assert!(!question.payload.is_empty(), "sent along");
    let turn = Duration::from_millis(100);
    let memory = two.site().holding.wait(two.site().holding.bytes()).await.unwrap();
    let told = hold(two, one, turn, question.clone()).await;
    assert!(matches!(told, Response::Holding(0)), "{told:?}");
    drop(memory);
    assert!(matches!(hold(two, one, SOON, question).await, Response::Held));
    assert_eq!(two.site().holding.taken(), 0, "all of it was given back");
    world.stop().await;
}

/// What was fetched for a question, and is not asked for again, makes room for others that wait.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_nobody_asks_for_again_gives_its_memory_to_who_waits() {
    let (world, question) = asked().await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    let room = &two.site().holding;
    one.set_delay(two, Duration::from_millis(300));
    let before = two.payload_received();
    let question = Hold { payload: Vec::new(), ..question };
    let told = hold(two, one, Duration::from_millis(20), question.clone()).await;
    assert!(matches!(told, Response::Holding(_)), "{told:?}");
    two.until("it came all the same", || async { two.payload_received() >= before + LARGE as u64 }).await;
    assert!(room.taken() > 0, "it waits for the next question");
    let all = tokio::time::timeout(SOON, room.wait(room.bytes())).await.unwrap().unwrap();
    drop(all);
    let again = hold(two, one, SOON, question).await;
    assert!(matches!(again, Response::Held), "{again:?}: it is fetched again");
    world.stop().await;
}
