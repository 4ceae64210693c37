//! Records that find no room on their link: who waits for them is told so at once, and not left to take this site for silent.

use skerry_federation::Message;
use skerry_federation::message::{Batch, Refusal};

use super::dialects::{Release, full_bucket};
use super::world::TestWorld;
use crate::peers::mark;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_asks_for_records_that_find_no_room_is_refused_at_once() {
    let mut world = TestWorld::new(2).await;
    let bucket = full_bucket(&world.sites[0]).await;
    world.sites[1].stop().await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    let release = Release::start(one, two, Some(mark::DIALECT));
    one.until("they are linked", || async { one.site().linked(two.id()) }).await;
    let heap = one.site().boxes.fill(two.id()).unwrap();
    release.ask_for_records(one, bucket, 78).await;
    let refused = Message::PullRefused { ticket: 78, bucket, reason: Refusal::Busy };
    one.until("it is refused", || async { release.messages().contains(&refused) }).await;
    let is_given = |message: &Message| matches!(message, Message::Batch(Batch { ticket: 78, .. }));
    assert!(!release.messages().iter().any(is_given));
    drop(heap);
    release.pull(one, bucket).await;
    world.stop().await;
}
