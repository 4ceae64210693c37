//! A link at rest is quiet, and a peer that hangs is noticed.

#![expect(clippy::disallowed_methods, clippy::panic, clippy::unwrap_used, reason = "tests")]

use std::sync::atomic::{AtomicU64, Ordering};

use skerry_federation::budget::Class;
use skerry_federation::rest;

use super::*;
use crate::net::traffic::Meter;

fn link(
    socket: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    dialler: bool,
    token: &CancellationToken,
) -> Link {
    let (link, task) =
        Link::new(socket, dialler, token.clone(), Box::new(drop), (&Arc::new(Backlog::new(64 << 20)), false));
    tokio::spawn(task);
    link
}

/// What crosses: each ping and each answer is a record in a packet, and every second packet is acknowledged by itself.
fn wire(meter: &Meter) -> u64 {
    let traffic = meter.read_own();
    let (bytes, word) = (traffic.sent + traffic.received, rest::FRAME + 9);
    bytes + bytes / word * (rest::RECORD + rest::PACKET) + bytes / word / 2 * rest::PACKET
}

/// Two ends of a link, and what crosses at the first.
fn linked(token: &CancellationToken) -> (Link, Link, Arc<Meter>) {
    let (a, b) = tokio::io::duplex(1 << 16);
    let meter = Arc::new(Meter::default());
    let a = link(Severable::new(a, token, Some(meter.clone())), true, token);
    (a, link(b, false, token), meter)
}

/// The ends take turns: one question in 35 s, an answer, and an acknowledgement. Before, either end asked in
/// 50 s, and the kernel beside them.
#[tokio::test(start_paused = true)]
async fn an_hour_at_rest_costs_little_and_keeps_the_link() {
    let token = CancellationToken::new();
    let (a, b, meter) = linked(&token);
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert!(!token.is_cancelled() && a.rtt().is_some() && b.rtt().is_some());
    let asked = rest::keep_alives(1, OFTEN, Duration::from_secs(3600));
    println!("an hour: {} bytes, {asked} by the constants", wire(&meter));
    assert!(wire(&meter).abs_diff(asked) <= asked / 20, "{} bytes, {asked} by the constants", wire(&meter));
}

/// Both ends measure, however long they are silent.
#[tokio::test(start_paused = true)]
async fn a_link_that_is_paid_for_is_asked_seldom() {
    let token = CancellationToken::new();
    let (a, b, meter) = linked(&token);
    tokio::time::sleep(Duration::from_secs(60)).await;
    [&a, &b].into_iter().for_each(|end| end.rest(rest::SELDOM));
    let before = wire(&meter);
    tokio::time::sleep(Duration::from_secs(86_400)).await;
    let (day, asked) =
        (wire(&meter) - before, rest::keep_alives(1, rest::SELDOM, Duration::from_secs(86_400)));
    println!("a day: {day} bytes, {asked} by the constants");
    assert!(day.abs_diff(asked) <= asked / 10, "{day} bytes, {asked} by the constants");
    // Who wants to know is answered at once, and a link that costs nothing any more is asked at once.
    assert!(tokio::time::timeout(Duration::from_secs(1), a.answers()).await.unwrap_or(false));
    tokio::time::sleep(Duration::from_secs(1000)).await;
    let before = wire(&meter);
    [&a, &b].into_iter().for_each(|end| end.rest(OFTEN));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(wire(&meter) > before);
    assert!(!token.is_cancelled());
}

/// Carries bytes one way, each piece later by what was so at its time.
async fn carry(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    late: impl Fn(Duration) -> Duration,
) {
    let (begun, mut piece) = (pace::now(), vec![0; 1 << 16]);
    while let Ok(length @ 1..) = from.read(&mut piece).await {
        tokio::time::sleep(late(begun.elapsed())).await;
        if to.write_all(&piece[..length]).await.is_err() {
            return;
        }
    }
}

/// Two ends so far apart, by the age of their link.
fn apart(
    late: impl Fn(Duration) -> Duration + Copy + Send + 'static,
    token: &CancellationToken,
) -> (Link, Link) {
    let ((a, near), (far, b)) = (tokio::io::duplex(1 << 16), tokio::io::duplex(1 << 16));
    let ((near_in, near_out), (far_in, far_out)) = (tokio::io::split(near), tokio::io::split(far));
    tokio::spawn(carry(near_in, far_out, late));
    tokio::spawn(carry(far_in, near_out, late));
    (link(a, true, token), link(b, false, token))
}

/// Who takes late answers for the distance waits four times as long for a holder whose link is silent.
#[tokio::test(start_paused = true)]
async fn a_link_on_which_answers_come_late_for_a_while_is_as_short_as_before() {
    let token = CancellationToken::new();
    let (near, late) = (Duration::from_millis(25), Duration::from_millis(800));
    let (here, _there) = apart(move |age| if age < Duration::from_secs(20) { near } else { late }, &token);
    tokio::time::sleep(Duration::from_secs(20)).await;
    for _ in 0..2 * SAMPLES {
        assert!(here.answers().await);
    }
    // Pieces wait for each other, too.
    assert!(here.rtt().is_some_and(|rtt| rtt < late / 2), "{:?}", here.rtt());
    // Once it has been long for minutes it is.
    tokio::time::sleep(OFTEN * 2 * SAMPLES as u32).await;
    assert!(here.rtt().is_some_and(|rtt| rtt >= late), "{:?}", here.rtt());
}

/// An end of a release before asks every 50 s, whatever it hears: this end still measures.
#[test]
fn who_is_asked_often_still_asks() {
    let begun = pace::now();
    let mut turns = Turns { asked: Some(begun), ..Turns::begun(begun) };
    for second in 1..200 {
        let now = begun + Duration::from_secs(second);
        turns.heard(now);
        if turns.next <= now {
            assert!(second >= 80);
            return;
        }
    }
    panic!("never asks");
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_hangs_is_noticed_in_bounded_time() {
    for every in [OFTEN, rest::SELDOM] {
        // Nobody reads the other end.
        let (a, _hung) = tokio::io::duplex(1 << 16);
        let token = CancellationToken::new();
        let link = link(a, true, &token);
        link.rest(every);
        let begun = tokio::time::Instant::now();
        token.cancelled().await;
        assert!(begun.elapsed() <= every + PONG_WITHIN);
        assert!(link.open().await.is_none());
    }
}

/// A link that rests is found dead when it is doubted.
#[tokio::test(start_paused = true)]
async fn a_link_in_doubt_is_asked_at_once() {
    let token = CancellationToken::new();
    let ((a, near), (far, b)) = (tokio::io::duplex(1 << 16), tokio::io::duplex(1 << 16));
    let (here, there) = (link(a, true, &token), link(b, false, &CancellationToken::new()));
    let (mut near, mut far) = (near, far);
    let (stop, stuck) = (CancellationToken::new(), CancellationToken::new());
    let halted = stop.clone();
    tokio::spawn(async move {
        let carried = tokio::io::copy_bidirectional(&mut near, &mut far);
        halted.run_until_cancelled(carried).await;
        // Neither end is told.
        stuck.cancelled().await;
    });
    [&here, &there].into_iter().for_each(|end| end.rest(rest::SELDOM));
    tokio::time::sleep(Duration::from_secs(60)).await;
    stop.cancel();
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert!(!token.is_cancelled());
    let begun = tokio::time::Instant::now();
    here.doubt();
    token.cancelled().await;
    assert!(begun.elapsed() <= PONG_WITHIN + Duration::from_secs(1));
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
fn line() -> (tokio::io::DuplexStream, tokio::io::DuplexStream, Arc<AtomicU64>) {
    let ((a, near), (far, b)) = (tokio::io::duplex(16 << 10), tokio::io::duplex(16 << 10));
    let crossed = Arc::new(AtomicU64::new(0));
    let ((mut up, mut back_in), (mut back, mut down)) = (tokio::io::split(near), tokio::io::split(far));
    let count = crossed.clone();
    tokio::spawn(async move {
        let mut piece = vec![0; 4 << 10];
        while let Ok(read @ 1..) = up.read(&mut piece).await {
            tokio::time::sleep(Duration::from_micros(read as u64)).await;
            if down.write_all(&piece[..read]).await.is_err() {
                return;
            }
            count.fetch_add(read as u64, Ordering::Relaxed);
        }
    });
    tokio::spawn(async move { tokio::io::copy(&mut back, &mut back_in).await });
    (a, b, crossed)
}

/// Full streams beside which something is to get through.
const STREAMS: usize = 16;
/// What lies before something urgent at most: what the multiplexer has of others (two frames), what the writer holds, what
/// the line holds (16 KiB and a piece of 4 KiB), and its own 4 KiB.
const BEFORE: u64 = 4 * (16 << 10) + 2 * (4 << 10) + 1024;

/// Bytes that came, by class.
#[derive(Default)]
struct Came([AtomicU64; 4]);

impl Came {
    fn of(&self, class: Class) -> u64 {
        self.0[class as usize].load(Ordering::Relaxed)
    }

    /// Reads a stream whose first byte is its class, to its end.
    async fn take(self: Arc<Self>, mut stream: Stream) {
        let Ok(class) = stream.read_u8().await else { return };
        let mut piece = vec![0; 64 << 10];
        while let Ok(read @ 1..) = stream.read(&mut piece).await {
            self.0[usize::from(class)].fetch_add(read as u64, Ordering::Relaxed);
        }
    }
}

/// Sends so many bytes of a class.
async fn pour(mut stream: Stream, class: Class, bytes: usize) {
    stream.rank(class);
    let mut piece = vec![7; 1 + bytes.min(64 << 10)];
    piece[0] = class as u8;
    let mut rest = 1 + bytes;
    while rest > 0 && stream.write_all(&piece[..rest.min(piece.len())]).await.is_ok() {
        rest -= rest.min(piece.len());
    }
    stream.shutdown().await.ok();
}

/// The time in which something happens is counted in bytes that cross; bounded, so that nothing hangs.
async fn until(what: &str, holds: impl Fn() -> bool) {
    for _ in 0..200_000 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("never: {what}");
}

/// A link over a line that is slow from `a` to `b`. What `a` sends is counted at `b`, whoever opened the stream: `a` by
/// itself, or `b` by a word (class and length) that `a` answers.
struct Slow {
    a: Link,
    b: Link,
    came: Arc<Came>,
    crossed: Arc<AtomicU64>,
}

impl Slow {
    fn new() -> Self {
        let (a, b, crossed) = line();
        let token = CancellationToken::new();
        let came = Arc::new(Came::default());
        let answer: Inbound = Box::new(|mut stream| {
            tokio::spawn(async move {
                let (Ok(class), Ok(bytes)) = (stream.read_u8().await, stream.read_u32().await) else {
                    return;
                };
                pour(stream, Class::ALL[usize::from(class)], bytes as usize).await;
            });
        });
        let (a, task) = Link::new(a, true, token.clone(), answer, (&Arc::new(Backlog::new(64 << 20)), false));
        tokio::spawn(task);
        let count = came.clone();
        let take: Inbound = Box::new(move |stream| drop(tokio::spawn(count.clone().take(stream))));
        let (b, task) = Link::new(b, false, token, take, (&Arc::new(Backlog::new(64 << 20)), false));
        tokio::spawn(task);
        Self { a, b, came, crossed }
    }

    /// `a` sends by itself.
    async fn send(&self, class: Class, bytes: usize) {
        let stream = self.a.open().await;
        assert!(stream.is_some(), "the link stands");
        tokio::spawn(async move {
            if let Some(stream) = stream {
                pour(stream, class, bytes).await;
            }
        });
    }

    /// `a` answers.
    async fn ask(&self, class: Class, bytes: u32) {
        let stream = self.b.open().await;
        assert!(stream.is_some(), "the link stands");
        let came = self.came.clone();
        tokio::spawn(async move {
            let Some(mut stream) = stream else { return };
            stream.write_u8(class as u8).await.ok();
            stream.write_u32(bytes).await.ok();
            stream.flush().await.ok();
            came.take(stream).await;
        });
    }

    fn crossed(&self) -> u64 {
        self.crossed.load(Ordering::Relaxed)
    }

    /// Bytes that cross before so many of a class have come beyond those that had.
    async fn crossing(&self, class: Class, bytes: u64) -> u64 {
        let (before, had) = (self.crossed(), self.came.of(class));
        until("it came", || self.came.of(class) >= had + bytes).await;
        self.crossed() - before
    }
}

/// Records before payload: what is small passes what is large, however much of that waits.
#[tokio::test(start_paused = true)]
async fn a_record_does_not_wait_behind_payload() {
    let link = Slow::new();
    for _ in 0..STREAMS {
        link.send(Class::Read, 8 << 20).await;
    }
    until("the link is busy", || link.crossed() > 4 << 20).await;
    let mut worst = 0;
    for _ in 0..20 {
        link.send(Class::Record, 200).await;
        worst = worst.max(link.crossing(Class::Record, 200).await);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    println!("a record waited for {worst} bytes of payload at most");
    assert!(worst <= BEFORE, "{worst} bytes of payload went before a record, at most {BEFORE} may");
}

/// Interactive before bulk, in both directions: what is sent, and what is answered.
#[tokio::test(start_paused = true)]
async fn an_interactive_read_passes_full_streams_of_copies() {
    for answers in [false, true] {
        let link = Slow::new();
        for _ in 0..STREAMS {
            match answers {
                true => link.ask(Class::Copy, 8 << 20).await,
                false => link.send(Class::Copy, 8 << 20).await,
            }
        }
        until("the link is busy", || link.crossed() > 4 << 20).await;
        let (mut worst, mut sum) = (0, 0);
        for _ in 0..20 {
            match answers {
                true => link.ask(Class::Read, 4 << 10).await,
                false => link.send(Class::Read, 4 << 10).await,
            }
            let waited = link.crossing(Class::Read, 4 << 10).await;
            (worst, sum) = (worst.max(waited), sum + waited);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        println!(
            "a read of 4 KiB came after {} bytes on average, {worst} at most (answers: {answers})",
            sum / 20
        );
        assert!(worst <= BEFORE, "{worst} bytes went before a read of 4 KiB, at most {BEFORE} may");
    }
}

/// Copies go on while reads take all they can get: they have one part of nine beside them.
#[tokio::test(start_paused = true)]
async fn copies_keep_their_share_beside_reads() {
    let link = Slow::new();
    for _ in 0..STREAMS {
        link.ask(Class::Copy, 16 << 20).await;
    }
    for _ in 0..4 {
        link.ask(Class::Read, 16 << 20).await;
    }
    // The first of each read is small, and still before it.
    until("the reads are large", || link.came.of(Class::Read) > 2 << 20).await;
    let (copies, reads) = (link.came.of(Class::Copy), link.came.of(Class::Read));
    until("much has come", || link.came.of(Class::Read) > reads + (8 << 20)).await;
    let copies = link.came.of(Class::Copy) - copies;
    let reads = link.came.of(Class::Read) - reads;
    let percent = 100 * copies / (copies + reads);
    println!("{percent} % of {} bytes were copies", copies + reads);
    assert!((9..=13).contains(&percent), "{percent} % of the bytes were copies, 11 are due");
}

/// Who reads from a stream of a link that breaks hears that it broke; an end of file is what the other side made. The link's task
/// stands still between two things that it does while it ends.
mod broken {
    use std::sync::Condvar;
    use std::task::{Wake, Waker};

    use tokio::io::ReadBuf;

    use super::*;

    #[derive(Default)]
    struct Moment {
        /// The stream that is told first that something happened, and what is read from it then.
        state: Mutex<(Option<usize>, Option<String>)>,
        changed: Condvar,
    }

    struct Told(Arc<Moment>, usize);

    impl Wake for Told {
        fn wake(self: Arc<Self>) {
            let mut state = self.0.state.lock().unwrap();
            if state.0.is_none() {
                state.0 = Some(self.1);
                return self.0.changed.notify_all();
            }
            // As if another thread had the processor now.
            let is_read = |state: &mut (Option<usize>, Option<String>)| state.1.is_none();
            drop(self.0.changed.wait_timeout_while(state, Duration::from_secs(5), is_read).unwrap());
        }
    }

    fn poll(stream: &mut Stream, cx: &mut Context<'_>) -> Poll<String> {
        let mut bytes = [0; 1];
        let mut buf = ReadBuf::new(&mut bytes);
        std::pin::Pin::new(stream).poll_read(cx, &mut buf).map(|read| match read {
            Ok(()) => "end of file".into(),
            Err(error) => format!("error: {error}"),
        })
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn streams_of_a_link_that_ends_fail_and_do_not_end() {
        let [token, far] = [CancellationToken::new(), CancellationToken::new()];
        let (a, b) = tokio::io::duplex(1 << 16);
        let a = link(a, true, &token);
        // The other end holds its streams: it ends none.
        let theirs = Arc::new(Mutex::new(Vec::new()));
        let held = theirs.clone();
        let inbound: Inbound = Box::new(move |stream| held.lock().unwrap().push(stream));
        let (b, task) = Link::new(b, false, far.clone(), inbound, (&Arc::new(Backlog::new(64 << 20)), false));
        tokio::spawn(task);
        let (moment, mut streams) = (Arc::new(Moment::default()), Vec::new());
        for number in 0..4 {
            let mut stream = a.open().await.unwrap();
            stream.write_all(b"asked").await.unwrap();
            let waker = Waker::from(Arc::new(Told(moment.clone(), number)));
            assert!(poll(&mut stream, &mut Context::from_waker(&waker)).is_pending());
            streams.push(stream);
        }
        let read = moment.clone();
        let reader = std::thread::spawn(move || {
            let state = read.state.lock().unwrap();
            let state = read.changed.wait_while(state, |state| state.0.is_none()).unwrap();
            let first = state.0.unwrap();
            drop(state);
            let said = poll(&mut streams[first], &mut Context::from_waker(Waker::noop()));
            let said = if let Poll::Ready(said) = said { said } else { "nothing".into() };
            read.state.lock().unwrap().1 = Some(said.clone());
            read.changed.notify_all();
            said
        });
        let all_there = async {
            while theirs.lock().unwrap().len() < 4 {
                tokio::task::yield_now().await;
            }
        };
        all_there.await;
        far.cancel();
        drop(b);
        let said = tokio::task::spawn_blocking(move || reader.join().unwrap()).await.unwrap();
        assert_eq!(said, "error: the link broke");
    }
}

/// Whoever waits for a stream of a link that has ended hears so, however many are still held.
#[tokio::test]
async fn who_waits_for_a_stream_hears_that_the_link_ended() {
    let token = CancellationToken::new();
    let (a, _b, _) = linked(&token);
    let mut held = Vec::new();
    for _ in 0..OPEN_STREAMS {
        held.push(a.open().await.unwrap());
    }
    let waiting = a.open();
    a.sever();
    let opened = tokio::time::timeout(Duration::from_secs(5), waiting).await;
    assert!(opened.is_ok_and(|opened| opened.is_none()), "it waits for as long as any of those is held");
}
