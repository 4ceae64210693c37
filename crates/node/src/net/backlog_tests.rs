//! However much comes, no more is held than there is room for; who reads goes on.

#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests")]

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio_util::compat::{FuturesAsyncReadCompatExt as _, TokioAsyncReadCompatExt as _};
use tokio_util::sync::CancellationToken;

use super::super::Stream;
use super::super::link::Link;
use super::*;

const MOST: usize = 1 << 20;
/// The largest frame that the other ends here send.
const FRAME: usize = 16 << 10;

/// A link of this node, and the streams that the other end opens.
struct Here {
    _link: Link,
    token: CancellationToken,
    streams: tokio::sync::mpsc::UnboundedReceiver<Stream>,
}

fn here(socket: DuplexStream, backlog: &Arc<Backlog>) -> Here {
    let (opened, streams) = tokio::sync::mpsc::unbounded_channel();
    let inbound = Box::new(move |stream| {
        let _ = opened.send(stream);
    });
    let token = CancellationToken::new();
    let (link, task) = Link::new(socket, false, token.clone(), inbound, (backlog, false));
    tokio::spawn(task);
    Here { _link: link, token, streams }
}

/// The other end, that of a member: as it opens so many streams and writes all it may to each. It answers pings.
fn floods(socket: DuplexStream, streams: usize) -> tokio::task::JoinHandle<()> {
    let mut config = yamux::Config::default();
    config.set_split_send_size(FRAME);
    let mut connection = yamux::Connection::new(socket.compat(), config, yamux::Mode::Client);
    tokio::spawn(async move {
        // The first is that of pings.
        for number in 0..=streams {
            let opened = std::future::poll_fn(|cx| connection.poll_new_outbound(cx)).await;
            let mut stream = opened.unwrap().compat();
            tokio::spawn(async move {
                if number == 0 {
                    // The other end hears of a stream with its first byte.
                    stream.write_all(&[0; 9]).await.unwrap();
                    return answers(stream).await;
                }
                while stream.write_all(&[7; FRAME]).await.is_ok() {}
            });
        }
        std::future::poll_fn(|cx| connection.poll_next_inbound(cx)).await;
    })
}

async fn answers(mut stream: impl AsyncRead + AsyncWrite + Unpin) {
    let mut word = [0; 9];
    while stream.read_exact(&mut word).await.is_ok() {
        if word[0] == 0 {
            word[0] = 1;
            stream.write_all(&word).await.unwrap();
            stream.flush().await.unwrap();
        }
    }
}

async fn settle() {
    tokio::time::sleep(Duration::from_millis(100)).await;
}

async fn read_in(time: Duration, stream: &mut Stream, bytes: usize) -> bool {
    let mut read = vec![0; bytes];
    tokio::time::timeout(time, stream.read_exact(&mut read)).await.is_ok_and(|read| read.is_ok())
}

const MIB: usize = 1 << 20;

#[tokio::test(start_paused = true)]
async fn what_nobody_reads_is_bounded_and_who_is_read_goes_on() {
    let backlog = Arc::new(Backlog::new(MOST));
    let mut links = Vec::new();
    for _ in 0..3 {
        let (a, b) = tokio::io::duplex(1 << 16);
        let flood = floods(b, 60);
        links.push((here(a, &backlog), flood));
    }
    settle().await;
    let bound = MOST + MOST + 3 * FRAME;
    assert!((MOST..=bound).contains(&backlog.taken()), "{}", backlog.taken());
    // Its bytes lie behind those of streams that nobody reads: they pause it for a moment, and are closed.
    let (first, _) = links.first_mut().unwrap();
    let mut stream = first.streams.recv().await.unwrap();
    assert!(!read_in(Duration::from_secs(1), &mut stream, 8 * MIB).await, "it is not waited for room");
    assert!(read_in(Duration::from_secs(60), &mut stream, 64 * MIB).await);
    assert!(backlog.taken() <= bound, "{}", backlog.taken());
    let mut other = first.streams.recv().await.unwrap();
    let mut read = Vec::new();
    let end = tokio::time::timeout(Duration::from_secs(1), other.read_to_end(&mut read)).await.unwrap();
    assert!(end.unwrap_err().to_string().contains("no room"));
    assert!(links.iter().all(|(here, _)| !here.token.is_cancelled()));
    links.iter().for_each(|(here, _)| here.token.cancel());
    settle().await;
    drop((stream, other, links));
    settle().await;
    assert_eq!(backlog.taken(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_link_below_its_share_goes_on_while_another_has_filled_the_backlog() {
    let backlog = Arc::new(Backlog::new(MOST));
    let (a, b) = tokio::io::duplex(1 << 16);
    let (_full, _flood) = (here(a, &backlog), floods(b, 60));
    settle().await;
    assert!(backlog.taken() >= MOST);
    let (a, b) = tokio::io::duplex(1 << 16);
    let (mut other, _others) = (here(a, &backlog), floods(b, 1));
    let mut stream = other.streams.recv().await.unwrap();
    assert!(read_in(Duration::from_secs(1), &mut stream, 32 * MIB).await);
}

/// Streams are closed as room is wanted; whoever reads all that comes is none of them, and the link stands.
#[tokio::test(start_paused = true)]
async fn a_link_outlives_streams_that_nobody_reads() {
    let backlog = Arc::new(Backlog::new(MOST));
    let (a, b) = tokio::io::duplex(1 << 16);
    let (mut here, _flood) = (here(a, &backlog), floods(b, 60));
    let mut stream = here.streams.recv().await.unwrap();
    let begun = Instant::now();
    let mut came = 0_usize;
    let reading = async {
        let mut piece = vec![0; FRAME];
        while begun.elapsed() < Duration::from_secs(300) {
            came += stream.read(&mut piece).await.unwrap();
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    reading.await;
    assert!(came > 2900 * FRAME / 2, "{came}");
    assert!(!here.token.is_cancelled() && backlog.taken() <= 2 * MOST + FRAME);
}

fn head(kind: u8, flags: u16, stream: u32, length: u32) -> Vec<u8> {
    let mut bytes = vec![0, kind];
    bytes.extend(flags.to_be_bytes());
    bytes.extend(stream.to_be_bytes());
    bytes.extend(length.to_be_bytes());
    bytes
}

/// What the multiplexer takes no note of is not taken note of here either, or it would stay for ever: frames that end what they
/// begin, and those that it refuses (another's number, one that is there, too many, more than a window) and tells the other end to go away.
#[tokio::test(start_paused = true)]
async fn frames_of_no_stream_leave_nothing_behind() {
    let backlog = Arc::new(Backlog::new(MOST));
    let held = Held::new(&backlog, false);
    let (a, mut b) = tokio::io::duplex(1 << 16);
    let mut inlet = Inlet::new(a, held.clone(), tokio_util::sync::CancellationToken::new());
    let mut bytes = Vec::new();
    for stream in 3..10_003 {
        for (kind, flags, body) in
            [(DATA, SYN | RST, 8), (WINDOW, SYN | RST, 8), (DATA, 0, 8), (DATA, SYN, 8)]
        {
            bytes.extend(head(kind, flags, stream, body));
            bytes.extend(vec![0; if kind == DATA { body as usize } else { 0 }]);
        }
        // A window, a ping, and a farewell.
        for kind in 1..4 {
            bytes.extend(head(kind, SYN, stream, 77));
        }
    }
    let (due, sent) = (bytes.len(), async move {
        b.write_all(&bytes).await.unwrap();
        drop(b);
    });
    let mut all = Vec::new();
    let (read, ()) = tokio::join!(inlet.read_to_end(&mut all), sent);
    assert_eq!(read.unwrap(), due);
    assert_eq!((lock(&held.streams).open.len(), backlog.taken()), (0, 0));
}

#[tokio::test]
async fn a_frame_longer_than_frames_are_ends_the_link_and_counts_nothing() {
    let backlog = Arc::new(Backlog::new(MOST));
    let held = Held::new(&backlog, false);
    let (a, mut b) = tokio::io::duplex(1 << 16);
    b.write_all(&head(DATA, SYN, 3, u32::MAX)).await.unwrap();
    let refused =
        Inlet::new(a, held, tokio_util::sync::CancellationToken::new()).read_exact(&mut [0; 12]).await;
    assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::InvalidData);
    assert_eq!(backlog.taken(), 0);
}

#[test]
fn of_a_stream_that_is_dropped_nothing_counts_any_more() {
    let backlog = Arc::new(Backlog::new(MOST));
    let held = Held::new(&backlog, false);
    let data = |flags, length| held.begins(Head { kind: DATA, flags, stream: 3, length }).unwrap();
    data(SYN, 100);
    let stream = Counted::new(tokio::io::empty(), &held, 3);
    data(0, 50);
    let close = stream.close.clone();
    held.read(3, &close, 30);
    assert_eq!(backlog.taken(), 120);
    // One of the same number takes its place; the end of the first is not the second's.
    data(SYN, 10);
    let next = Counted::new(tokio::io::empty(), &held, 3);
    drop(stream);
    data(0, 50);
    assert_eq!(backlog.taken(), 60);
    drop(next);
    data(0, 50);
    assert_eq!(backlog.taken(), 0);
    // More than came cannot be read; it would free what others hold.
    held.read(3, &close, 30);
    assert_eq!(backlog.taken(), 0);
}
