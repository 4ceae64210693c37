//! Incoming connections: limits first, then TLS, then either a greeting or a stranger's one stream.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustls::{CertificateError, Error as TlsError};
use skerry_base::Instant;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout_at;
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;

use super::super::pace;
use super::super::sever::Severable;
use super::super::tls::{self, peer_key};
use super::super::traffic::Meter;
use super::super::{Course, Peer, Stream};
use super::{HANDSHAKE, STRANGER, Shared, TURNING_AWAY, Waiting, greet, subflows, ways};
use crate::clock::Clock;
use crate::trust::PublicKey;

/// The pause after the kernel could not accept (no file descriptors): more tries in a row change nothing.
const EXHAUSTED: Duration = Duration::from_millis(100);

/// Said once in so long: while there are none it happens ten times a second.
const SAID: Duration = Duration::from_secs(60);

/// Accepts until the network is closed.
pub(super) async fn run(shared: Arc<Shared>, listener: TcpListener) {
    let (clock, mut said) = (Clock::default(), None::<Instant>);
    loop {
        let accepted = tokio::select! {
            () = shared.closed.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        let socket = match accepted {
            Ok((socket, _)) => socket,
            Err(error) => {
                let now = clock.now();
                if said.is_none_or(|said| now.since(said) >= SAID) {
                    tracing::warn!(%error, "cannot accept connections of other sites");
                    said = Some(now);
                }
                pace::pause(EXHAUSTED).await;
                continue;
            }
        };
        // While cut, the socket is dropped: the other side sees the connection refused at once.
        let Some(token) = shared.connected() else { continue };
        let Ok(permit) = shared.anonymous.clone().try_acquire_owned() else {
            refuse(&shared.refusals.busy, "too many unproven connections");
            continue;
        };
        let task = shared.clone();
        shared.spawn(async move {
            let serving = incoming(&task, socket, token.clone());
            let served = token.run_until_cancelled(serving).await;
            drop(permit);
            if let Some(Some(served)) = served {
                served.run(&task, token).await;
            }
        });
    }
}

fn refuse(counter: &AtomicU64, reason: impl std::fmt::Display) {
    counter.fetch_add(1, Ordering::Relaxed);
    tracing::debug!(%reason, "refused a connection at the peer port");
}

type Socket = TlsStream<Severable<TcpStream>>;

/// A connection that has proven who it is.
enum Proven {
    Link(std::pin::Pin<Box<dyn Future<Output = ()> + Send>>),
    Stranger(PublicKey, Box<Socket>),
}

impl Proven {
    async fn run(self, shared: &Arc<Shared>, token: CancellationToken) {
        match self {
            Self::Link(link) => link.await,
            Self::Stranger(key, socket) => stranger(shared, key, *socket, token).await,
        }
    }
}

async fn incoming(shared: &Arc<Shared>, socket: TcpStream, token: CancellationToken) -> Option<Proven> {
    let deadline = pace::now() + HANDSHAKE;
    let meter = Arc::new(Meter::default());
    meter.add_connection();
    shared.tuning.tune(&socket);
    let way = shared.ways.note(ways::ends(&socket), &token, &ways::Kernel);
    let socket = Severable::new(socket, &token, Some(meter.clone()));
    match timeout_at(deadline, prove(shared, (socket, way), &meter, token)).await {
        Ok(Ok(proven)) => proven,
        Ok(Err(error)) => {
            let counter =
                if wrong_identity(&error) { &shared.refusals.identity } else { &shared.refusals.garbage };
            refuse(counter, error);
            None
        }
        Err(_) => {
            refuse(&shared.refusals.slow, "no handshake in time");
            None
        }
    }
}

async fn prove(
    shared: &Arc<Shared>,
    (socket, way): (Severable<TcpStream>, Option<ways::Way>),
    meter: &Meter,
    token: CancellationToken,
) -> io::Result<Option<Proven>> {
    let start = LazyConfigAcceptor::new(rustls::server::Acceptor::default(), socket).await?;
    let joins = start.client_hello().alpn().is_some_and(|mut offered| offered.any(|name| name == tls::JOIN));
    let config = if joins { &shared.tls.join } else { &shared.tls.link };
    let mut stream = start.into_stream(config.clone()).await?;
    stream.get_mut().1.set_buffer_limit(Some(shared.tuning.sealed));
    let key = peer_key(stream.get_ref().1.peer_certificates());
    let key = key.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "no key was proven"))?;
    let agreed = stream.get_ref().1.alpn_protocol().map(<[u8]>::to_vec);
    if agreed.is_none() {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "no protocol was agreed on"));
    }
    if joins {
        return Ok(Some(Proven::Stranger(key, Box::new(stream))));
    }
    let peer = key.node();
    let wanted = |state: &mut super::State| {
        let peer = state.peers.get(&peer).filter(|_| !state.apart.contains(&peer));
        peer.map(|peer| peer.counters.clone())
    };
    let Some(counters) = shared.state(wanted) else {
        return Ok(None);
    };
    meter.belongs_to(&counters);
    if agreed.as_deref() == Some(tls::SUBFLOW) {
        let Some(subflow) = subflows::accept(shared, stream, peer).await? else { return Ok(None) };
        return Ok(Some(Proven::Link(Box::pin(async move {
            subflow.await;
            drop(way);
        }))));
    }
    let greeted = greet::greet(shared, stream, (peer, Course::default()), None, token).await?;
    match ways::while_linked(greeted, way) {
        greet::Greeted::Link(link) => Ok(Some(Proven::Link(link))),
        greet::Greeted::Spare => Ok(None),
    }
}

fn wrong_identity(error: &io::Error) -> bool {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<TlsError>());
    let refused = [CertificateError::ApplicationVerificationFailure, CertificateError::Revoked];
    refused.map(TlsError::InvalidCertificate).iter().any(|refused| inner == Some(refused))
}

/// Tells a stranger to come back later.
async fn turn_away(shared: &Arc<Shared>, socket: Socket, token: &CancellationToken) {
    refuse(&shared.refusals.busy, "too many strangers");
    let Ok(permit) = shared.turned_away.clone().try_acquire_owned() else { return };
    let stream: Stream = Box::new(Severable::new(socket, token, None).holding(permit));
    let told = tokio::time::timeout(TURNING_AWAY, crate::trust::join::turn_away(stream));
    if let Some(Ok(Err(error))) = token.run_until_cancelled(told).await {
        tracing::debug!(%error, "a stranger was not told to come back later");
    }
}

/// Hands a stranger's stream on, and ends it in time whatever is done with it.
async fn stranger(shared: &Arc<Shared>, key: PublicKey, socket: Socket, token: CancellationToken) {
    let Ok(permit) = shared.strangers.clone().try_acquire_owned() else {
        return turn_away(shared, socket, &token).await;
    };
    let stream: Stream = Box::new(Severable::new(socket, &token, None).holding(permit));
    if shared.streams.try_send(Waiting { peer: Peer::Stranger(key), stream, _place: None }).is_err() {
        return refuse(&shared.refusals.busy, "too many streams wait to be served");
    }
    tokio::select! {
        () = token.cancelled() => {}
        () = pace::pause(STRANGER) => token.cancel(),
    }
}
