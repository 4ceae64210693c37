//! What comes before its time waits; what a peer has waiting is bounded; who has gone is not answered.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use prometheus_client::registry::Registry;
use skerry_base::codec;
use skerry_base::{BucketId, ChunkId, NodeId, SiteId};
use skerry_federation::Message;
use tokio::sync::Semaphore;

use super::super::circuits::Circuits;
use super::super::message::{Request, Response};
use super::super::roster::{Known, Place};
use super::super::serve::{self, Answerer, Asker, QUESTIONS};
use super::super::{PeerError, Peers, outbox};
use super::*;
use crate::changes::Changes;
use crate::clock::Clock;
use crate::drive;
use crate::net::memory::{MemoryNet, MemoryWorld};
use crate::net::{Net, PeerAddress, Stream, frame};
use crate::tasks::Tasks;
use crate::telemetry::Telemetry;
use crate::trust::{Identity, PublicKey};

struct Nobody;

#[async_trait]
impl Answerer for Nobody {
    async fn answer(&self, _: Asker, _: Request, _: Stream) -> Result<Option<Stream>, PeerError> {
        Ok(None)
    }

    async fn fellow(&self, _: NodeId, _: Vec<u8>, _: Stream) -> Result<(), PeerError> {
        Ok(())
    }

    async fn stranger(&self, _: PublicKey, _: Stream) {}
}

/// Begins to answer, and goes on when it is let.
struct Slow {
    begun: AtomicUsize,
    go: Semaphore,
}

#[async_trait]
impl Answerer for Slow {
    async fn answer(&self, _: Asker, _: Request, mut stream: Stream) -> Result<Option<Stream>, PeerError> {
        self.begun.fetch_add(1, Ordering::SeqCst);
        self.go.acquire().await.unwrap().forget();
        frame::write(&mut stream, &codec::encode(&Response::Done)).await?;
        Ok(None)
    }

    async fn fellow(&self, _: NodeId, _: Vec<u8>, _: Stream) -> Result<(), PeerError> {
        Ok(())
    }

    async fn stranger(&self, _: PublicKey, _: Stream) {}
}

/// The site of the second node.
pub(in crate::peers) const FAR: SiteId = SiteId([2; 16]);

/// Two nodes that are linked, and what the first one knows of the other.
fn pair() -> (Arc<Peers>, Arc<MemoryNet>, [PublicKey; 2]) {
    let keys = [1, 2].map(|_| Identity::generate().unwrap().public());
    let world = MemoryWorld::new();
    let [near, far] = keys.map(|key| world.node(key));
    let telemetry = Telemetry::register(&mut Registry::default(), "");
    let circuits = Circuits::new(SiteId([1; 16]), false);
    let peers = Arc::new(Peers::new(near.clone(), telemetry.wan, Clock::default(), circuits));
    link(&peers, [&near, &far], keys);
    (peers, far, keys)
}

/// Has the second node be known to the first, as a site, and both link.
pub(in crate::peers) fn link(peers: &Peers, [near, far]: [&Arc<MemoryNet>; 2], keys: [PublicKey; 2]) {
    let (name, place) = ("far".into(), Place::first(FAR));
    let known = Known { name, key: keys[1], addresses: Vec::new(), place, area: String::new(), pays: false };
    assert!(peers.roster.replace([(FAR, known)].into()));
    for (net, key) in [(near, keys[1]), (far, keys[0])] {
        net.set_peers(vec![PeerAddress { key, addresses: Vec::new() }]);
    }
}

/// Runs all that can go on.
async fn settle() {
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_message_that_overtakes_the_news_of_its_link_waits_for_it() {
    let (peers, far, keys) = pair();
    let (drive, inbox) = drive::new();
    let tasks = Tasks::default();
    tasks.spawn(serve::accept(peers.clone(), drive.clone(), Arc::new(Nobody), tasks.clone()));
    let mut stream = far.open(keys[0].node()).await.unwrap();
    frame::write(&mut stream, &codec::encode(&Request::Control)).await.unwrap();
    frame::write(&mut stream, &Message::Withdraw { ticket: 1 }.encode()).await.unwrap();
    // All but the news of links comes as far as it can.
    settle().await;
    let told = (tasks.clone(), Changes::new(BucketId([9; 16])));
    tasks.spawn(outbox::follow(peers, Arc::default(), drive, told));
    let mut heard = Vec::new();
    let both = async {
        while heard.len() < 2 {
            tokio::task::yield_now().await;
            heard.extend(inbox.waiting());
        }
    };
    tokio::time::timeout(Duration::from_secs(60), both).await.unwrap();
    assert_eq!(heard, ["link", "message"]);
    tasks.end().await;
}

/// Each may be four megabytes, packed a few kilobytes on the way here.
#[tokio::test]
async fn what_a_peer_has_waiting_is_bounded_over_all_its_streams() {
    let (peers, far, keys) = pair();
    let (drive, inbox) = drive::new();
    let tasks = Tasks::default();
    tasks.spawn(serve::accept(peers.clone(), drive.clone(), Arc::new(Nobody), tasks.clone()));
    let told = (tasks.clone(), Changes::new(BucketId([9; 16])));
    tasks.spawn(outbox::follow(peers, Arc::default(), drive, told));
    let mut streams = Vec::new();
    for _ in 0..3 {
        let mut stream = far.open(keys[0].node()).await.unwrap();
        frame::write(&mut stream, &codec::encode(&Request::Control)).await.unwrap();
        for ticket in 0..17 {
            frame::write(&mut stream, &Message::Withdraw { ticket }.encode()).await.unwrap();
        }
        streams.push(stream);
    }
    settle().await;
    let messages = |heard: Vec<&str>| heard.into_iter().filter(|word| *word == "message").count();
    let first = messages(inbox.waiting());
    assert_eq!(first, 16, "of 51");
    // As they are done others follow, up to the last.
    let mut all = first;
    let rest = async {
        while all < 51 {
            tokio::task::yield_now().await;
            all += messages(inbox.waiting());
        }
    };
    tokio::time::timeout(Duration::from_secs(60), rest).await.unwrap();
    tasks.end().await;
}

/// Who gives up and asks again, while a disk hangs, is answered what it asked last.
#[tokio::test]
async fn a_question_whose_asker_has_gone_takes_no_turn() {
    let (peers, far, keys) = pair();
    let (drive, _inbox) = drive::new();
    let tasks = Tasks::default();
    let slow = Arc::new(Slow { begun: AtomicUsize::new(0), go: Semaphore::new(0) });
    let answers = || -> Arc<dyn Answerer> { slow.clone() };
    tasks.spawn(serve::accept(peers, drive, answers(), tasks.clone()));
    let ask = async || {
        let mut stream = far.open(keys[0].node()).await.unwrap();
        let question = Request::Chunk { domain: BucketId([9; 16]), chunk: ChunkId([7; 32]) };
        frame::write(&mut stream, &codec::encode(&question)).await.unwrap();
        stream
    };
    let mut answered = Vec::new();
    for _ in 0..QUESTIONS {
        answered.push(ask().await);
    }
    settle().await;
    let mut given_up = Vec::new();
    for _ in 0..20 {
        given_up.push(ask().await);
    }
    answered.push(ask().await);
    settle().await;
    assert_eq!(slow.begun.load(Ordering::SeqCst), QUESTIONS);
    drop(given_up);
    settle().await;
    slow.go.add_permits(1000);
    for mut stream in answered {
        let answer = tokio::time::timeout(Duration::from_secs(60), frame::read(&mut stream));
        assert!(answer.await.unwrap().unwrap().is_some());
    }
    settle().await;
    assert_eq!(slow.begun.load(Ordering::SeqCst), QUESTIONS + 1);
    tasks.end().await;
}
