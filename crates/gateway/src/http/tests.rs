//! The faces over real sockets on loopback.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use prometheus_client::registry::Registry;
use skerry_base::WallTime;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::*;
use crate::admin::Administration;
use crate::conformance::{Client, Credentials, run_all};
use crate::memory::Memory;
use crate::s3::{ClockReading, ClockRule, Documents, Front, Settings};
use crate::telemetry::Telemetry;

fn now() -> WallTime {
    WallTime(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64)
}

/// A served double.
pub(crate) struct Served {
    pub(crate) address: SocketAddr,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Served {
    pub(crate) async fn start(limits: Limits, tls: Option<Tls>) -> Self {
        let memory = Memory::new("KEY", "secret", now);
        let settings = Settings {
            domains: vec!["island.test".into()],
            region: None,
            clock_rule: ClockRule::Strict,
            clock: Arc::new(|| ClockReading { now: now(), trusted: true }),
            host_id: "site-1".into(),
            documents: Documents::new(32 << 20),
        };
        let mut registry = Registry::default();
        let telemetry = Telemetry::register(&mut registry);
        let registry = Arc::new(Mutex::new(registry));
        let administration = Administration::new(memory.services().admin, registry, "token");
        let front = Front::new(memory.services(), settings);
        let faces = Arc::new(Faces::new(Some(front), Some(administration), telemetry));
        let listener = bind(([127, 0, 0, 1], 0).into()).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let stopped = async {
            let _ = stopped.await;
        };
        let task = tokio::spawn(serve(listener, tls, faces, limits, stopped));
        Self { address, stop, task }
    }

    pub(crate) async fn stop(self) {
        self.stop.send(()).unwrap();
        self.task.await.unwrap();
    }
}

/// Sends bytes and reads until the server closes.
pub(crate) async fn exchange(address: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    let mut answer = Vec::new();
    // A reset after the answer is an end, too.
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn the_double_passes_the_suite() {
    let served = Served::start(Limits::default(), None).await;
    let credentials = Credentials { access_key: "KEY".into(), secret: "secret".into() };
    let report = run_all(&format!("http://{}", served.address), &credentials, 1).await;
    assert!(report.passed(), "{report}");
    assert!(report.findings.len() > 70, "{report}");
    served.stop().await;
}

fn hasty() -> Limits {
    let short = Duration::from_millis(200);
    Limits { head_time: short, stall_time: short, idle_time: short, ..Limits::default() }
}

#[tokio::test]
async fn a_silent_client_is_let_go() {
    let served = Served::start(hasty(), None).await;
    assert_eq!(exchange(served.address, b"").await, "");
    assert_eq!(exchange(served.address, b"GET").await, "");
    let head = exchange(served.address, b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: 1\r\n").await;
    assert!(head.is_empty() || head.starts_with("HTTP/1.1 408"), "{head}");
    served.stop().await;
}

#[tokio::test]
async fn a_head_that_is_too_large_is_refused() {
    let limits = Limits { head_bytes: 8 << 10, ..Limits::default() };
    let served = Served::start(limits, None).await;
    // What is read at once is more than a head may have, and so may it be itself.
    for length in [9_000, 40_000, 100_000] {
        let long = "x".repeat(length);
        let header = format!("GET / HTTP/1.1\r\nHost: x\r\nX-Large: {long}\r\n\r\n");
        let answer = exchange(served.address, header.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 431"), "{length}: {answer}");
    }
    for (length, refused) in [(9_000, true), (7_000, false)] {
        let long = "x".repeat(length);
        for line in [format!("GET /{long}"), format!("GET http://{long}/"), format!("{long} /")] {
            let head = format!("{line} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
            let answer = exchange(served.address, head.as_bytes()).await;
            assert_eq!(answer.starts_with("HTTP/1.1 431"), refused, "{length}: {answer}");
        }
    }
    served.stop().await;
}

#[tokio::test]
async fn health_and_metrics_answer_beside_s3() {
    let served = Served::start(Limits::default(), None).await;
    let get = async |path: &str, host: &str| {
        let head = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        exchange(served.address, head.as_bytes()).await
    };
    let ready = get("/_skerry/health/ready", "127.0.0.1").await;
    assert!(ready.starts_with("HTTP/1.1 200") && ready.contains("\"ready\":true"), "{ready}");
    get("/", "127.0.0.1").await;
    let metrics = get("/_skerry/metrics", "127.0.0.1").await;
    assert!(metrics.contains("skerry_s3_requests_total{operation=\"Unknown\",code=\"403\"} 1"), "{metrics}");
    // Under a virtual-host name it is an ordinary key, and an unsigned one.
    let key = get("/_skerry/health/ready", "bucket.island.test").await;
    assert!(key.starts_with("HTTP/1.1 403") && key.contains("<Code>AccessDenied</Code>"), "{key}");
    served.stop().await;
}

fn client(address: SocketAddr) -> Client {
    let credentials = Credentials { access_key: "KEY".into(), secret: "secret".into() };
    Client::new(&format!("http://{address}"), credentials)
}

/// The head of a signed PUT of `length` bytes.
fn put_head(address: SocketAddr, length: usize) -> String {
    client(address).head("PUT", "/abc/slow", &[("content-length", &length.to_string())])
}

async fn make_bucket(address: SocketAddr) {
    let client = client(address);
    let head = client.head("PUT", "/abc", &[("content-length", "0"), ("connection", "close")]);
    let answer = exchange(address, head.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

#[tokio::test]
async fn a_body_that_stalls_is_refused_and_stores_nothing() {
    let served = Served::start(hasty(), None).await;
    make_bucket(served.address).await;
    let answer =
        exchange(served.address, format!("{}some bytes", put_head(served.address, 1000)).as_bytes()).await;
    assert!(answer.contains("<Code>RequestTimeout</Code>"), "{answer}");
    served.stop().await;
}

#[tokio::test]
async fn who_is_not_told_to_go_on_is_told_to_leave() {
    let served = Served::start(Limits::default(), None).await;
    make_bucket(served.address).await;
    let client = client(served.address);
    let put = |target, length| {
        client.head("PUT", target, &[("content-length", length), ("expect", "100-continue")])
    };
    for (target, length, status) in [("/abc/empty", "0", "200"), ("/missing-bucket/k", "0", "404")] {
        let answer = exchange(served.address, put(target, length).as_bytes()).await.to_ascii_lowercase();
        assert!(answer.starts_with(&format!("http/1.1 {status}")), "{answer}");
        assert!(answer.contains("\r\nconnection: close\r\n"), "{answer}");
    }
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    stream.write_all(put("/abc/k", "5").as_bytes()).await.unwrap();
    let mut go_on = [0; 25];
    stream.read_exact(&mut go_on).await.unwrap();
    assert_eq!(&go_on, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(b"hello").await.unwrap();
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200");
    drop(stream);
    served.stop().await;
}

/// A refusal does not wait for the body; the client, still writing it, must get the answer and may go on.
#[tokio::test]
async fn a_refused_request_leaves_the_connection_usable_or_says_that_it_does_not() {
    let served = Served::start(Limits::default(), None).await;
    let client = client(served.address);
    for (length, goes_on) in [(5, true), (200_000, true), (300_000, false)] {
        let head = client.head("POST", "/abc/k?restore", &[("content-length", &length.to_string())]);
        let mut stream = TcpStream::connect(served.address).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        // The body comes late and in pieces.
        let (mut reader, mut writer) = stream.into_split();
        let body = tokio::spawn(async move {
            for piece in vec![0; length].chunks(50_000) {
                tokio::task::yield_now().await;
                writer.write_all(piece).await.unwrap();
            }
            writer
        });
        let mut answer = vec![0; 4096];
        let read = reader.read(&mut answer).await.unwrap();
        let answer = String::from_utf8_lossy(&answer[..read]).to_ascii_lowercase();
        assert!(answer.starts_with("http/1.1 501"), "{length}: {answer}");
        assert_eq!(!answer.contains("\r\nconnection: close\r\n"), goes_on, "{length}: {answer}");
        if goes_on {
            let mut writer = body.await.unwrap();
            writer.write_all(b"GET /_skerry/health/live HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
            let mut next = [0; 12];
            let rest = answer.split_once("\r\n\r\n").unwrap().1.len();
            assert!(rest > 0, "the refusal came with its document: {answer}");
            reader.read_exact(&mut next).await.unwrap();
            assert_eq!(&next, b"HTTP/1.1 200", "{length}");
        }
    }
    served.stop().await;
}

/// A client that writes all of a large body before it reads gets the refusal, not a reset connection.
#[tokio::test]
async fn who_is_refused_in_the_midst_of_a_large_body_can_still_read_why() {
    let served = Served::start(Limits::default(), None).await;
    let client = client(served.address);
    let body = vec![0; 16 << 20];
    for _ in 0..20 {
        let head = client.head("POST", "/abc/k?restore", &[("content-length", &body.len().to_string())]);
        let mut stream = TcpStream::connect(served.address).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(&body).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 501"), "{answer}");
    }
    served.stop().await;
}

#[tokio::test]
async fn connections_beyond_the_limit_wait_their_turn() {
    let served = Served::start(Limits { connections: 1, ..Limits::default() }, None).await;
    let first = TcpStream::connect(served.address).await.unwrap();
    let live = b"GET /_skerry/health/live HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    let mut second = tokio::spawn(exchange(served.address, live));
    let early = tokio::time::timeout(Duration::from_millis(100), &mut second).await;
    assert!(early.is_err(), "the second was served while the first held the only place");
    drop(first);
    assert!(second.await.unwrap().starts_with("HTTP/1.1 200"));
    served.stop().await;
}

/// A crowd that comes at once waits in the kernel's queue; with the usual queue of 128 the rest would not even connect.
#[tokio::test]
async fn a_crowd_finds_room_before_anyone_is_accepted() {
    let listener = bind(([127, 0, 0, 1], 0).into()).await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut crowd = Vec::new();
    for number in 0..300 {
        let stream = tokio::time::timeout(Duration::from_secs(20), TcpStream::connect(address)).await;
        assert!(stream.is_ok(), "connection {number} found no room");
        crowd.push(stream.unwrap().unwrap());
    }
}

#[tokio::test]
async fn a_shutdown_lets_requests_in_flight_end() {
    let served = Served::start(Limits::default(), None).await;
    make_bucket(served.address).await;
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    stream.write_all(format!("{}hel", put_head(served.address, 5)).as_bytes()).await.unwrap();
    // A health request on another connection shows that the server has seen what came before.
    let live = b"GET /_skerry/metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    while !exchange(served.address, live).await.contains("skerry_http_requests_in_flight 2") {}
    let address = served.address;
    let stopping = tokio::spawn(served.stop());
    while TcpStream::connect(address).await.is_ok() {}
    stream.write_all(b"lo").await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    stopping.await.unwrap();
}

#[tokio::test]
async fn a_reader_that_takes_nothing_is_let_go() {
    let served = Served::start(hasty(), None).await;
    make_bucket(served.address).await;
    let client = client(served.address);
    let body = vec![7; 32 << 20];
    let head = client.head(
        "PUT",
        "/abc/large",
        &[("content-length", &body.len().to_string()), ("connection", "close")],
    );
    let put = exchange(served.address, &[head.as_bytes(), &body].concat()).await;
    assert!(put.starts_with("HTTP/1.1 200"), "{put}");
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    stream.write_all(client.head("GET", "/abc/large", &[]).as_bytes()).await.unwrap();
    // Taking nothing, until the server has given up and its gauge shows no request but the one that asks.
    let asks = b"GET /_skerry/metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    stream.readable().await.unwrap();
    while !exchange(served.address, asks).await.contains("skerry_http_requests_in_flight 1") {}
    served.stop().await;
}

/// A client of HTTP/2 that opens no window and answers each ping.
#[tokio::test]
async fn a_reader_that_opens_no_window_is_let_go() {
    use http_body_util::Empty;
    use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};

    let served = Served::start(hasty(), None).await;
    let stream = TcpStream::connect(served.address).await.unwrap();
    let (mut sender, connection) = hyper::client::conn::http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .initial_stream_window_size(0)
        .handshake::<_, Empty<bytes::Bytes>>(TokioIo::new(stream))
        .await
        .unwrap();
    let connection = tokio::spawn(connection);
    let uri = format!("http://{}/", served.address);
    let request = hyper::Request::builder().uri(uri).body(Empty::new()).unwrap();
    let answer = sender.send_request(request).await.unwrap();
    assert_eq!(answer.status(), 403, "unsigned, with a document that is never taken");
    let ended = tokio::time::timeout(Duration::from_secs(20), connection).await;
    assert!(ended.is_ok(), "it holds its place for ever");
    drop(answer);
    served.stop().await;
}

/// The window that a server opens for a connection of HTTP/2, and for each of its streams, as its first frames say.
async fn windows(address: SocketAddr) -> (u64, u64) {
    const SETTINGS: u8 = 4;
    const WINDOW_UPDATE: u8 = 8;
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
    let (mut connection, mut each) = (65_535, 65_535);
    // Its settings, what it opens, and that it has read ours.
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).await.unwrap();
        let mut body = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
        stream.read_exact(&mut body).await.unwrap();
        match head[3] {
            SETTINGS if head[4] == 1 => return (connection, each),
            SETTINGS => {
                for setting in body.chunks(6).filter(|setting| setting[1] == 4) {
                    each = u64::from(u32::from_be_bytes(setting[2..6].try_into().unwrap()));
                }
            }
            WINDOW_UPDATE => connection += u64::from(u32::from_be_bytes(body[..4].try_into().unwrap())),
            other => panic!("a frame of type {other}"),
        }
    }
}

/// What a client may fill without anybody reading it is what the room of its connection has for it.
#[tokio::test]
async fn a_connection_that_did_not_agree_on_http_2_has_the_least_window() {
    let served = Served::start(Limits::default(), None).await;
    assert_eq!(
        windows(served.address).await,
        (65_535, 65_535 / 4),
        "three that are not read leave a fourth to move"
    );
    served.stop().await;
}

/// A connection has one request at once for nothing; more of them only while all connections together have few.
#[tokio::test]
async fn requests_beside_the_first_of_a_connection_are_bounded_over_all() {
    use http_body_util::Full;
    use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};

    let served = Served::start(Limits { beside: 1, ..Limits::default() }, None).await;
    let stream = TcpStream::connect(served.address).await.unwrap();
    let (mut sender, connection) = hyper::client::conn::http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .initial_stream_window_size(0)
        .handshake::<_, Full<bytes::Bytes>>(TokioIo::new(stream))
        .await
        .unwrap();
    let connection = tokio::spawn(connection);
    let mut ask = async || {
        let uri = format!("http://{}/", served.address);
        let request = hyper::Request::builder().uri(uri).body(Full::default()).unwrap();
        sender.send_request(request).await.unwrap()
    };
    // Each answer waits for a window that is never opened.
    let (one, two, three) = (ask().await, ask().await, ask().await);
    assert_eq!([one.status(), two.status()], [403, 403], "unsigned");
    assert_eq!(three.status(), 503);
    drop((one, two, three));
    drop(sender);
    connection.abort();
    served.stop().await;
}

/// User metadata may be many small headers.
#[tokio::test]
async fn more_than_a_hundred_headers_are_read() {
    let served = Served::start(Limits::default(), None).await;
    let many: String = (0..300).map(|n| format!("x-amz-meta-{n}: 1\r\n")).collect();
    let head = format!("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{many}\r\n");
    let answer = exchange(served.address, head.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 403") && answer.contains("AccessDenied"), "{answer}");
    served.stop().await;
}

#[test]
fn plain_http_stays_on_the_machine() {
    let address = |text: &str| text.parse::<SocketAddr>().unwrap();
    assert!(check_plain(address("127.0.0.1:1"), false, false).is_ok());
    assert!(check_plain(address("[::1]:1"), false, false).is_ok());
    let outside = address("0.0.0.0:7600");
    assert_eq!(check_plain(outside, false, false), Err(PlainHttpRefused { address: outside }));
    assert!(check_plain(outside, true, false).is_ok() && check_plain(outside, false, true).is_ok());
}
