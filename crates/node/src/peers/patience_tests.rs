//! Over a link that others carry an answer is waited for as over one of its own, while the carrying link is busy.

#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests, on a clock that stands still")]

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use async_trait::async_trait;
use prometheus_client::registry::Registry;
use skerry_base::{BucketId, ChunkId, SiteId};

use super::circuits::Circuits;
use super::heed::tests::{FAR, link};
use super::*;
use crate::net::memory::{MemoryNet, MemoryWorld};
use crate::net::{Course, LinkEvents, Peer, PeerAddress};
use crate::telemetry::Telemetry;
use crate::trust::{Identity, PublicKey};

/// A network whose link to one node is carried by another, over a link that is busy, or silent.
struct Carried {
    inner: Arc<MemoryNet>,
    via: NodeId,
    is_busy: AtomicBool,
    crossed: AtomicU64,
}

#[async_trait]
impl Net for Carried {
    fn node(&self) -> NodeId {
        self.inner.node()
    }
    fn set_peers(&self, peers: Vec<PeerAddress>) {
        self.inner.set_peers(peers);
    }
    async fn open(&self, peer: NodeId) -> Result<Stream, NetError> {
        self.inner.open(peer).await
    }
    fn course(&self, _peer: NodeId) -> Option<Course> {
        Some(Course { hops: 1, via: Some(self.via) })
    }
    async fn accept(&self) -> Option<(Peer, Stream)> {
        self.inner.accept().await
    }
    async fn join(&self, key: PublicKey, addresses: &[String]) -> Result<Stream, NetError> {
        self.inner.join(key, addresses).await
    }
    fn links(&self) -> LinkEvents {
        self.inner.links()
    }
    fn rtt(&self, peer: NodeId) -> Option<Duration> {
        self.inner.rtt(peer)
    }
    fn traffic(&self) -> Vec<PeerTraffic> {
        let more = if self.is_busy.load(Ordering::Relaxed) { 1 << 20 } else { 0 };
        let received = self.crossed.fetch_add(more, Ordering::Relaxed);
        vec![PeerTraffic { node: self.via, sent: 0, received, headers: 0 }]
    }
    fn set_cut(&self, cut: bool) {
        self.inner.set_cut(cut);
    }
    fn set_apart(&self, nodes: BTreeSet<NodeId>) {
        self.inner.set_apart(nodes);
    }
    fn is_cut(&self) -> bool {
        self.inner.is_cut()
    }
    async fn close(&self) {
        self.inner.close().await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_over_a_carried_link_is_waited_for_while_the_carrying_one_is_busy() {
    let keys = [1, 2].map(|_| Identity::generate().unwrap().public());
    let world = MemoryWorld::new();
    let [near, far] = keys.map(|key| world.node(key));
    let (is_busy, via) = (AtomicBool::new(true), NodeId([7; 16]));
    let net = Arc::new(Carried { inner: near.clone(), via, is_busy, crossed: AtomicU64::new(0) });
    let wan = Telemetry::register(&mut Registry::default(), "").wan;
    let peers = Peers::new(net.clone(), wan, Clock::default(), Circuits::new(SiteId([1; 16]), false));
    link(&peers, [&near, &far], keys);
    let late = peers.waits().answer * 3 + Duration::from_secs(1);
    tokio::spawn(async move {
        while let Some((_, mut stream)) = far.accept().await {
            frame::read(&mut stream).await.unwrap();
            tokio::time::sleep(late).await;
            // Who asked may have given up.
            frame::write(&mut stream, &codec::encode(&message::Response::NoChunk)).await.ok();
        }
    });
    let question = Request::Chunk { domain: BucketId([9; 16]), chunk: ChunkId([7; 32]) };
    let answer = peers.call_as(Class::Read, FAR, &question).await.unwrap();
    assert_eq!(answer.response, message::Response::NoChunk);
    net.is_busy.store(false, Ordering::Relaxed);
    let answer = peers.call_as(Class::Read, FAR, &question).await;
    assert!(matches!(answer, Err(PeerError::Silent)), "nothing comes, and nothing is on its way");
}
