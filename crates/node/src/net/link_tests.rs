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

/// A line that carries 1 MB a second in one direction; how many bytes crossed so far.
fn line() -> (tokio::io::DuplexStream, tokio::io::DuplexStream, Arc<std::sync::atomic::AtomicU64>) {
    let ((a, near), (far, b)) = (tokio::io::duplex(16 << 10), tokio::io::duplex(16 << 10));
    let crossed = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let ((mut up, mut back_in), (mut back, mut down)) = (tokio::io::split(near), tokio::io::split(far));
    let count = crossed.clone();
    tokio::spawn(async move {
        let mut piece = vec![0; 4 << 10];
        while let Ok(read @ 1..) = up.read(&mut piece).await {
            tokio::time::sleep(Duration::from_micros(read as u64)).await;
            if down.write_all(&piece[..read]).await.is_err() {
                return;
            }
            count.fetch_add(read as u64, std::sync::atomic::Ordering::Relaxed);
        }
    });
    tokio::spawn(async move { tokio::io::copy(&mut back, &mut back_in).await });
    (a, b, crossed)
}

/// Records before payload: what is small passes what is large, however much of that waits.
#[tokio::test(start_paused = true)]
async fn a_record_does_not_wait_behind_payload() {
    const STREAMS: usize = 16;
    let (a, b, crossed) = line();
    let token = CancellationToken::new();
    let a = link(a, true, &token);
    let (arrived, mut arrivals) = mpsc::channel(4);
    let inbound: Inbound = Box::new(move |mut stream| {
        let arrived = arrived.clone();
        tokio::spawn(async move {
            let payload = stream.read_u8().await.is_ok_and(|kind| kind == b'p');
            let mut bytes = vec![0; if payload { 64 << 10 } else { 200 }];
            while stream.read_exact(&mut bytes).await.is_ok() {
                if !payload {
                    arrived.send(()).await.ok();
                }
            }
        });
    });
    let (_b, task) = Link::new(b, false, token.clone(), inbound);
    tokio::spawn(task);
    let records = a.open().await;
    assert!(records.is_some(), "the link stands");
    let Some(mut records) = records else { return };
    assert!(records.write_all(b"r").await.is_ok() && records.write_all(&[1; 200]).await.is_ok());
    assert!(records.flush().await.is_ok() && arrivals.recv().await.is_some());
    for _ in 0..STREAMS {
        let payload = a.open().await;
        tokio::spawn(async move {
            let Some(mut payload) = payload else { return };
            payload.write_all(b"p").await.ok();
            payload.write_all(&vec![2; 8 << 20]).await.ok();
        });
    }
    let mut worst = 0;
    for _ in 0..20 {
        tokio::time::sleep(Duration::from_millis(900)).await;
        let before = crossed.load(std::sync::atomic::Ordering::Relaxed);
        assert!(records.write_all(&[1; 200]).await.is_ok() && records.flush().await.is_ok());
        assert!(arrivals.recv().await.is_some());
        worst = worst.max(crossed.load(std::sync::atomic::Ordering::Relaxed) - before);
    }
    println!("a record waited for {worst} bytes of payload at most");
    // One frame of each stream, and what the line and the writer hold; of payload many times that waits.
    let most = (STREAMS * FRAME_BYTES + (128 << 10)) as u64;
    assert!(worst <= most, "{worst} bytes of payload went before a record, at most {most} may");
}
