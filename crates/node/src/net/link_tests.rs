//! A link at rest is quiet, and a peer that hangs is noticed.

#![expect(clippy::disallowed_methods, reason = "tests")]

use super::*;
use crate::net::traffic::Meter;

fn link(
    socket: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    dialler: bool,
    token: &CancellationToken,
) -> Link {
    let (link, task) = Link::new(socket, dialler, token.clone(), Box::new(drop));
    tokio::spawn(task);
    link
}

#[tokio::test(start_paused = true)]
async fn an_hour_at_rest_costs_little_and_keeps_the_link() {
    let (a, b) = tokio::io::duplex(1 << 16);
    let (token, meter) = (CancellationToken::new(), Arc::new(Meter::default()));
    let a = link(Severable::new(a, &token, Some(meter.clone())), true, &token);
    let b = link(b, false, &token);
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert!(!token.is_cancelled() && a.rtt().is_some() && b.rtt().is_some());
    // Each frame becomes one TLS record of 22 bytes more and at worst one packet with 52 bytes of headers,
    // acknowledged by another of 52; the smallest frame has 12 bytes.
    let traffic = meter.read_own();
    let wire = (traffic.sent + traffic.received) * (12 + 22 + 52 + 52) / 12;
    assert!(wire / 3600 <= 40, "{} bytes a second", wire / 3600);
    assert!(wire > 0);
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_hangs_is_noticed_in_bounded_time() {
    // Nobody reads the other end.
    let (a, _hung) = tokio::io::duplex(1 << 16);
    let token = CancellationToken::new();
    let link = link(a, true, &token);
    let begun = tokio::time::Instant::now();
    token.cancelled().await;
    assert!(begun.elapsed() <= PING_EVERY + PONG_WITHIN);
    assert!(link.open().await.is_none());
}

#[tokio::test]
async fn garbage_in_place_of_the_multiplexer_ends_the_link() {
    let (a, mut b) = tokio::io::duplex(1 << 16);
    let token = CancellationToken::new();
    let _link = link(a, false, &token);
    assert!(b.write_all(&[0xff; 64]).await.is_ok());
    token.cancelled().await;
}
