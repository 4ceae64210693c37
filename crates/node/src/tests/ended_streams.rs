//! A control stream that ends, and a question that is hung up on, while their link stands.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use skerry_base::codec;
use skerry_federation::Message;
use tokio::io::AsyncWriteExt;

use super::world::{TestSite, TestWorld};
use crate::net::memory::MemoryNet;
use crate::net::{Net, PeerAddress, Stream, frame};
use crate::peers::message::{Request, Response};
use crate::peers::{mark, packed};

/// What came on control streams of another site.
type Heard = Arc<Mutex<Vec<Message>>>;

/// In the place of `two`: drops so many streams that are opened to it, as one does at which too many wait.
fn busy(one: &TestSite, two: &TestSite, drops: usize) -> (Arc<MemoryNet>, Heard, Arc<AtomicUsize>) {
    let (net, heard, opened) = (two.bare(), Heard::default(), Arc::new(AtomicUsize::new(0)));
    net.set_peers(vec![PeerAddress { key: one.key(), addresses: Vec::new() }]);
    let (accepting, all, count) = (net.clone(), heard.clone(), opened.clone());
    tokio::spawn(async move {
        while let Some((_, stream)) = accepting.accept().await {
            if count.fetch_add(1, Ordering::SeqCst) >= drops {
                tokio::spawn(hear(stream, all.clone()));
            }
        }
    });
    (net, heard, opened)
}

async fn hear(mut stream: Stream, heard: Heard) {
    let Ok(Some(first)) = frame::read(&mut stream).await else { return };
    match codec::decode(mark::read(&first).1) {
        Ok(Request::Words { .. }) => {
            let words = codec::encode(&Response::Words { dialect: mark::DIALECT });
            frame::write(&mut stream, &words).await.ok();
            stream.shutdown().await.ok();
        }
        Ok(Request::Control) => {
            while let Ok(Some(frame)) = frame::read(&mut stream).await {
                heard.lock().unwrap().push(Message::decode(&packed::open(frame).unwrap()).unwrap());
            }
        }
        _ => {}
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn control_streams_that_are_dropped_are_opened_again_and_what_was_lost_is_asked_for() {
    let mut world = TestWorld::new(2).await;
    world.sites[0].create_bucket("photos").await.unwrap();
    world.sites[1].stop().await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    let (_net, heard, _) = busy(one, two, 4);
    one.until("there is a sign of life", || async { heard.lock().unwrap().iter().any(Message::is_datagram) })
        .await;
    // What a new link begins with was said on the streams that were dropped.
    let checks = || {
        heard
            .lock()
            .unwrap()
            .iter()
            .any(|said| matches!(said, Message::Check { entries, .. } if !entries.is_empty()))
    };
    one.until("the vectors are compared", || async { checks() }).await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_hangs_up_on_the_question_what_it_understands_is_asked_again() {
    let mut world = TestWorld::new(2).await;
    world.sites[1].stop().await;
    let [one, two] = &world.sites[..] else { panic!("two sites") };
    let (_net, _, opened) = busy(one, two, 3);
    one.until("it is known what it speaks", || async { one.site().peers.has_marks(two.node()) }).await;
    assert!(opened.load(Ordering::SeqCst) > 3);
    world.stop().await;
}
