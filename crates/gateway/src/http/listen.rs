//! Listeners: accept, hand to hyper, end in order.

use core::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Version};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use super::faces::Peer;
use super::flight::Activity;
use super::linger::Lingering;
use super::stream::PacedStream;
use super::windows::{READY, Shared, Window};
use super::{Doors, Faces, Limits, Tls};
use crate::s3::Scheme;

/// How long accepting rests after an error.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Connections that the kernel keeps for us before we take them. The 128 that are usual are too few: of 1000
/// clients that came at once a third was reset (cookies for the handshakes, then no room for the connections).
const BACKLOG: u32 = 4096;

/// Bytes that are taken from a connection at once. As many as a head may have would be few for a body: each reading is a frame of
/// its own on the way to the disk.
const READ: usize = 64 << 10;

/// Headers of a request: the 100 that are usual are fewer than 2 KiB of user metadata may be.
const HEADERS: usize = 512;

/// Binds an address; the error names it.
pub async fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let listen = || {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(BACKLOG)
    };
    listen().map_err(|error: io::Error| {
        io::Error::new(error.kind(), format!("cannot listen on {address}: {error}"))
    })
}

/// Serves until `shutdown` is ready; then takes no more connections and lets the requests in flight end.
pub async fn serve(
    listener: TcpListener,
    tls: Option<Tls>,
    faces: Arc<Faces>,
    doors: impl Into<Doors>,
    shutdown: impl Future<Output = ()>,
) {
    let Doors { limits, room, shared } = doors.into();
    let graceful = GracefulShutdown::new();
    let mut shutdown = pin!(shutdown);
    loop {
        let next = async {
            let permit = Arc::clone(&room).acquire_owned().await;
            (permit, listener.accept().await)
        };
        let (permit, accepted) = tokio::select! {
            biased;
            () = &mut shutdown => break,
            next = next => next,
        };
        match accepted {
            Ok((stream, peer)) => {
                let connection =
                    Connection { faces: Arc::clone(&faces), limits, shared: shared.clone(), peer };
                let (tls, watcher) = (tls.clone(), graceful.watcher());
                tokio::spawn(async move {
                    connection.open(stream, tls, watcher).await;
                    drop(permit);
                });
            }
            // A lack of descriptors passes when connections end; until then accepting again would spin.
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    if timeout(limits.shutdown_time, graceful.shutdown()).await.is_err() {
        tracing::warn!("some requests did not end in time and were cut off");
    }
}

struct Connection {
    faces: Arc<Faces>,
    limits: Limits,
    shared: Shared,
    peer: SocketAddr,
}

impl Connection {
    async fn open(self, stream: TcpStream, tls: Option<Tls>, watcher: Watcher) {
        // Answers are often one small write; it should not wait for more.
        let _ = stream.set_nodelay(true);
        let watched = Arc::new(Activity::default());
        let stream = Lingering::new(stream, Arc::clone(&watched));
        let Some(tls) = tls else {
            // Who speaks HTTP/2 here without having agreed on it does so on a machine of its own.
            return self.run(stream, (watched, Shared::narrow()), Scheme("http"), watcher).await;
        };
        match timeout(self.limits.head_time, tls.acceptor().accept(stream)).await {
            Ok(Ok(stream)) => {
                let speaks_two = stream.get_ref().1.alpn_protocol() == Some(b"h2");
                let window = if speaks_two { self.shared.window() } else { Shared::narrow() };
                self.run(stream, (watched, window), Scheme("https"), watcher).await;
            }
            Ok(Err(error)) => tracing::debug!(peer = %self.peer, %error, "a TLS handshake failed"),
            Err(_) => tracing::debug!(peer = %self.peer, "a TLS handshake took too long"),
        }
    }

    async fn run<S>(
        self,
        stream: S,
        (watched, window): (Arc<Activity>, Window),
        scheme: Scheme,
        watcher: Watcher,
    ) where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let Self { faces, limits, shared, peer } = self;
        let speaker = Peer { address: peer, scheme, activity: Arc::clone(&watched) };
        let requests = shared.requests();
        let service = service_fn(move |mut request: Request<Incoming>| {
            if request.version() == Version::HTTP_2 {
                request.extensions_mut().insert(requests.unread());
            }
            // In a place of its own: hyper moves what it is given, and holds room for it while nothing is asked.
            let answer =
                Box::pin(Arc::clone(&faces).answer(request, (speaker.clone(), requests.place()), limits));
            async move { Ok::<_, Infallible>(answer.await) }
        });
        let builder = builder(&limits, &window);
        let stream = TokioIo::new(PacedStream::new(stream, &limits));
        let mut connection = pin!(watcher.watch(builder.serve_connection(stream, service).into_owned()));
        let mut idle = interval(limits.idle_time);
        idle.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut stall = interval(limits.stall_time);
        stall.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut seen = None;
        loop {
            tokio::select! {
                ended = &mut connection => {
                    if let Err(error) = ended {
                        tracing::debug!(%peer, %error, "a connection ended early");
                    }
                    return;
                }
                _ = idle.tick() => match watched.look() {
                    (begun, true) if seen == Some(begun) => return,
                    (begun, _) => seen = Some(begun),
                },
                _ = stall.tick() => if watched.is_stuck(limits.stall_time) {
                    tracing::debug!(%peer, "a client takes nothing of an answer: it is let go");
                    return;
                },
            }
        }
    }
}

fn builder(limits: &Limits, window: &Window) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        // A client may say that it has nothing more to send and still wants its answer.
        .half_close(true)
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head_time)
        // The head of a request may have less: `faces.rs` counts it.
        .max_buf_size(limits.head_bytes.max(READ))
        .max_headers(HEADERS)
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(u32::try_from(limits.head_bytes).unwrap_or(u32::MAX))
        .max_concurrent_streams(limits.streams)
        .initial_connection_window_size(window.bytes())
        .initial_stream_window_size(window.stream_bytes())
        .max_send_buf_size(READY)
        .keep_alive_interval(limits.stall_time)
        .keep_alive_timeout(limits.stall_time);
    builder
}
