//! The twin keeps the promises of [`Net`].

#![expect(clippy::unwrap_used, reason = "tests")]

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;
use crate::net::LinkEvent;
use crate::trust::Identity;

fn address(key: PublicKey) -> PeerAddress {
    PeerAddress { key, addresses: Vec::new() }
}

async fn pair() -> (Arc<MemoryNet>, Arc<MemoryNet>) {
    let world = MemoryWorld::new();
    let [a, b] = [0; 2].map(|_| world.node(Identity::generate().unwrap().public()));
    a.set_peers(vec![address(b.key)]);
    b.set_peers(vec![address(a.key), address(b.key)]);
    assert_eq!(a.links().next().await, Some(LinkEvent::Up(b.node())));
    (a, b)
}

#[tokio::test]
async fn streams_carry_bytes_and_are_counted() {
    let (a, b) = pair().await;
    let mut ours = a.open(b.node()).await.unwrap();
    let (peer, mut theirs) = b.accept().await.unwrap();
    assert_eq!(peer, Peer::Known(a.node()));
    ours.write_all(b"hello").await.unwrap();
    drop(ours);
    let mut text = String::new();
    theirs.read_to_string(&mut text).await.unwrap();
    assert_eq!(text, "hello");
    assert_eq!(a.traffic(), [PeerTraffic { node: b.node(), sent: 5, received: 0, headers: 104 }]);
    assert_eq!(b.traffic(), [PeerTraffic { node: a.node(), sent: 0, received: 5, headers: 104 }]);
}

#[tokio::test]
async fn a_cut_breaks_streams_and_refuses_until_healed() {
    let (a, b) = pair().await;
    let mut events = a.links();
    assert_eq!(events.next().await, Some(LinkEvent::Up(b.node())));
    let mut stream = a.open(b.node()).await.unwrap();
    b.set_cut(true);
    assert_eq!(events.next().await, Some(LinkEvent::Down(b.node())));
    assert!(stream.read_u8().await.is_err());
    assert!(matches!(a.open(b.node()).await, Err(NetError::NoLink(_))));
    assert!(matches!(b.open(a.node()).await, Err(NetError::Cut)));
    assert!(a.join(b.key, &[]).await.is_err());
    b.set_cut(false);
    assert_eq!(events.next().await, Some(LinkEvent::Up(b.node())));
    assert!(a.open(b.node()).await.is_ok());
}

#[tokio::test]
async fn a_stranger_gets_one_stream_and_its_key_is_told() {
    let (a, b) = pair().await;
    let stranger = a.world.node(Identity::generate().unwrap().public());
    let mut ours = stranger.join(b.key, &[]).await.unwrap();
    let (peer, mut theirs) = b.accept().await.unwrap();
    assert_eq!(peer, Peer::Stranger(stranger.key));
    ours.write_u8(7).await.unwrap();
    assert_eq!(theirs.read_u8().await.unwrap(), 7);
    assert!(matches!(stranger.open(b.node()).await, Err(NetError::NoLink(_))));
}

#[tokio::test]
async fn close_ends_accept_and_the_links() {
    let (a, b) = pair().await;
    let mut events = a.links();
    events.next().await;
    b.close().await;
    assert!(b.accept().await.is_none());
    assert_eq!(events.next().await, Some(LinkEvent::Down(b.node())));
    assert!(matches!(b.open(a.node()).await, Err(NetError::Closed)));
}
