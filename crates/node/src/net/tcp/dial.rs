//! Outgoing connections: one task per peer that dials whenever there is no link.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use skerry_base::NodeId;
use skerry_base::limits::ADDRESSES;
use tokio::net::TcpStream;
use tokio::sync::{Notify, Semaphore};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::sync::CancellationToken;

use super::super::pace;
use super::super::sever::Severable;
use super::super::tls;
use super::super::traffic::{Counters, Meter};
use super::super::{Course, Duplex, NetError, PeerAddress, Stream};
use super::greet::Refusal;
use super::{HANDSHAKE, REFUSALS, Shared, greet, ways};
use crate::trust::{PublicKey, entropy};

/// Time for TCP to connect to one address.
const CONNECT: Duration = Duration::from_secs(5);
/// The pause before the second try; doubles up to what [`longest`] says.
const SHORTEST: Duration = Duration::from_millis(200);
/// The longest pause, for each peer that is away: all of them together are dialled once in it, at some 250 bytes.
const EACH: Duration = Duration::from_secs(1);
/// No pause is longer while there is no link, and those on links that are paid for become so long.
const LONGEST: Duration = Duration::from_secs(30);
/// While a link stands that others carry.
const LONGEST_CARRIED: Duration = Duration::from_secs(600);
/// Between two that dial one of whom they have heard.
const APART: Duration = Duration::from_millis(5);
/// A link that lived this long has earned a quick redial.
const STEADY: Duration = Duration::from_secs(10);
/// Addresses tried per round: those that an operator said never keep the site's own from being tried.
const TRIED: usize = 2 * ADDRESSES;

/// Names that are looked up at once.
pub(super) const NAMES: usize = 2;

pub(super) type Socket = TlsStream<Severable<TcpStream>>;

impl Duplex for Socket {}

/// Keeps a link to `node` until told to stop.
pub(super) async fn keep(shared: Arc<Shared>, node: NodeId, wakers: Wakers, stop: CancellationToken) {
    let mut pause = SHORTEST;
    // The arbiter of the pair dials first; the other gives its dial a moment to arrive.
    if shared.node > node {
        let _ = timeout(jittered(SHORTEST), stop.cancelled()).await;
    }
    while !stop.is_cancelled() {
        let Some(want) = wanted(&shared, node) else {
            pause = SHORTEST;
            tokio::select! {
                () = stop.cancelled() => return,
                () = wakers.change.notified() => continue,
            }
        };
        // How long the link stood: dialling in vain takes long, too, and is no reason to dial sooner.
        let mut stood = Duration::ZERO;
        let (counters, sent) = (want.counters.clone(), want.counters.read(node).sent);
        let round = async {
            let token = want.token.clone();
            match token.run_until_cancelled(dial(&shared, node, want)).await {
                Some(Ok(greet::Greeted::Link(link))) => {
                    let begun = pace::now();
                    link.await;
                    stood = pace::now().saturating_duration_since(begun);
                }
                Some(Ok(greet::Greeted::Spare)) | None => {}
                Some(Err(error)) => tracing::debug!(peer = %node, %error, "could not dial"),
            }
        };
        tokio::select! {
            () = stop.cancelled() => return,
            () = round => {}
        }
        pause = if stood > STEADY {
            SHORTEST
        } else {
            // Somebody is there and did not take the link, or breaks it: trying costs handshakes, and is not what helps.
            let least = if counters.read(node).sent > sent { LONGEST } else { Duration::ZERO };
            (pause * 2).min(shared.state(|state| longest(state, node)).max(least))
        };
        tokio::select! {
            () = stop.cancelled() => return,
            () = wakers.hurry.notified() => pause = SHORTEST,
            () = heard(&shared, &wakers) => pause = SHORTEST,
            () = dropped(&shared, &wakers, node), if pause > LONGEST || is_carried(&shared, node) => pause = SHORTEST,
            () = pace::pause(jittered(pause)) => {}
        }
    }
}

/// Somebody has heard the peer, and it is this one's turn. All hear of one that returns at the same time, and it dials them
/// all as well: they come one after the other.
async fn heard(shared: &Shared, wakers: &Wakers) {
    wakers.heard.notified().await;
    let peers = u32::try_from(shared.state(|state| state.peers.len())).unwrap_or(u32::MAX);
    pace::pause(jittered(APART.saturating_mul(peers).min(LONGEST))).await;
}

fn is_carried(shared: &Shared, node: NodeId) -> bool {
    shared.state(|state| {
        let standing = state.peers.get(&node).and_then(|peer| peer.standing.as_ref());
        standing.is_some_and(|standing| standing.course.hops > 0)
    })
}

/// Who carried a link does not any more: a direct one is wanted as soon as ever, however long the pause is by now.
pub(super) async fn dropped(shared: &Shared, wakers: &Wakers, node: NodeId) {
    while is_carried(shared, node) {
        wakers.change.notified().await;
    }
}

/// How long the pause between two tries becomes. A cut that ends is noticed by nobody else where all links ran through it: who
/// is away is tried often as long as they are few and nobody pays for it.
fn longest(state: &super::State, node: NodeId) -> Duration {
    let Some(peer) = state.peers.get(&node) else { return LONGEST };
    match &peer.standing {
        Some(standing) if standing.course.hops > 0 => LONGEST_CARRIED,
        _ if peer.rest.is_some() || state.paid.contains(&node) => LONGEST,
        _ => {
            let away = state.peers.values().filter(|peer| peer.standing.is_none()).count();
            EACH.saturating_mul(u32::try_from(away).unwrap_or(u32::MAX).max(1)).min(LONGEST)
        }
    }
}

/// What wakes a dialling task.
#[derive(Debug, Clone, Default)]
pub(super) struct Wakers {
    /// Anything changed: look again whether to dial.
    pub(super) change: Arc<Notify>,
    /// Dial now: healed, or a new address.
    pub(super) hurry: Arc<Notify>,
    /// Dial soon: somebody has heard it.
    pub(super) heard: Arc<Notify>,
}

impl Wakers {
    pub(super) fn hurry(&self) {
        self.change.notify_one();
        self.hurry.notify_one();
    }
}

/// What to dial.
struct Wanted {
    address: PeerAddress,
    counters: Arc<Counters>,
    last: greet::LinkId,
    token: CancellationToken,
}

/// Whether `node` is to be dialled now, and how.
fn wanted(shared: &Shared, node: NodeId) -> Option<Wanted> {
    shared.state(|state| {
        let token = (!state.cut).then(|| state.connected.child_token())?;
        let peer = state.peers.get(&node)?;
        let direct = peer.standing.as_ref().is_some_and(|standing| standing.course.hops == 0);
        if direct || state.apart.contains(&node) || peer.address.addresses.is_empty() {
            return None;
        }
        let (address, counters) = (peer.address.clone(), peer.counters.clone());
        Some(Wanted { address, counters, last: peer.last, token })
    })
}

async fn dial(shared: &Arc<Shared>, node: NodeId, want: Wanted) -> Result<greet::Greeted, NetError> {
    let Wanted { address: PeerAddress { key, addresses }, counters, last, token } = want;
    let meter = Arc::new(Meter::default());
    meter.belongs_to(&counters);
    let connection = connect(shared, key, &addresses, tls::LINK, meter, &token).await?;
    let way = shared.ways.note(connection.ends, &token, &ways::Kernel);
    let greeting = greet::greet(shared, connection.socket, (node, Course::default()), Some(last), token);
    let failed = |reason: String| NetError::Dial { address: connection.address.clone(), reason };
    match timeout(HANDSHAKE, greeting).await {
        Ok(Ok(greeted)) => {
            shared.state(|state| {
                let is_link = matches!(greeted, greet::Greeted::Link(_));
                let standing = |peer: &&mut super::PeerState| is_link && peer.standing.is_some();
                if let Some(peer) = state.peers.get_mut(&node).filter(standing) {
                    peer.dialled = Some(connection.address);
                }
            });
            Ok(ways::while_linked(greeted, way))
        }
        Ok(Err(error)) => match greet::refusal(&error) {
            Some(why) => {
                refused(shared, node, &connection.address, why);
                Err(NetError::Refused { address: connection.address })
            }
            None => Err(failed(error.to_string())),
        },
        Err(_) => Err(failed("no greeting in time".into())),
    }
}

/// Takes note of a refusal; one that is meant is said once.
fn refused(shared: &Shared, node: NodeId, address: &str, why: Refusal) {
    let refusals = shared.state(|state| {
        let peer = state.peers.get_mut(&node)?;
        let was_gone = std::mem::replace(&mut peer.gone, why == Refusal::Gone);
        peer.refusals = peer.refusals.saturating_add(1);
        if peer.gone {
            // That is meant at once: nobody says so of one that it has not heard of yet.
            peer.refusals = peer.refusals.max(REFUSALS + 1);
            return (!was_gone).then_some((REFUSALS, true));
        }
        Some((peer.refusals, false))
    });
    match refusals {
        Some((_, true)) => tracing::warn!(
            peer = %node,
            address,
            "this site is refused there because it was expelled or replaced; see `skerry status`"
        ),
        Some((REFUSALS, false)) => tracing::warn!(
            peer = %node,
            address,
            "this site is refused there: it was expelled or replaced, or that site has not heard of it; see `skerry status`"
        ),
        _ => {}
    }
}

/// Opens a stranger's stream.
pub(super) async fn join(
    shared: &Arc<Shared>,
    key: PublicKey,
    addresses: &[String],
) -> Result<Stream, NetError> {
    if shared.closed.is_cancelled() {
        return Err(NetError::Closed);
    }
    let token = shared.connected().ok_or(NetError::Cut)?;
    let dialling = connect(shared, key, addresses, tls::JOIN, Arc::default(), &token);
    let connection = token.run_until_cancelled(dialling).await.ok_or(NetError::Cut)??;
    Ok(Box::new(connection.socket))
}

/// A connection whose other end has proven its key.
pub(super) struct Connection {
    pub(super) socket: Socket,
    pub(super) ends: Option<ways::Ends>,
    address: String,
}

/// Tries all addresses in order.
pub(super) async fn connect(
    shared: &Shared,
    key: PublicKey,
    addresses: &[String],
    protocol: &[u8],
    meter: Arc<Meter>,
    token: &CancellationToken,
) -> Result<Connection, NetError> {
    let mut last = NetError::Dial { address: String::new(), reason: "there is no address to dial".into() };
    let config = shared.tls.client(key, protocol);
    let config =
        config.map_err(|error| NetError::Dial { address: String::new(), reason: error.to_string() })?;
    for address in addresses.iter().take(TRIED) {
        let connector = TlsConnector::from(config.clone());
        match connect_one(shared, connector, address, &meter, token).await {
            Ok((socket, ends)) => return Ok(Connection { socket, ends, address: address.clone() }),
            Err(error) => {
                last = NetError::Dial { address: address.clone(), reason: reason(&error) };
            }
        }
    }
    Err(last)
}

#[expect(clippy::disallowed_methods, reason = "this is where other nodes are dialled")]
async fn connect_one(
    shared: &Shared,
    connector: TlsConnector,
    address: &str,
    meter: &Arc<Meter>,
    token: &CancellationToken,
) -> io::Result<(Socket, Option<ways::Ends>)> {
    let late = |what: &str| io::Error::new(io::ErrorKind::TimedOut, format!("{what} in time"));
    let resolved = resolve(&shared.names, address).await?;
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for resolved in resolved {
        let socket = match timeout(CONNECT, TcpStream::connect(resolved)).await {
            Ok(Ok(socket)) => socket,
            Ok(Err(error)) => {
                last = error;
                continue;
            }
            Err(_) => {
                last = late("no answer");
                continue;
            }
        };
        meter.add_connection();
        shared.tuning.tune(&socket);
        let ends = ways::ends(&socket);
        let socket = Severable::new(socket, token, Some(meter.clone()));
        return match timeout(HANDSHAKE, connector.connect(tls::server_name(), socket)).await {
            Ok(result) => result.map(|mut socket| {
                socket.get_mut().1.set_buffer_limit(Some(shared.tuning.sealed));
                (socket, ends)
            }),
            Err(_) => Err(late("no TLS handshake")),
        };
    }
    Err(last)
}

/// The addresses of a name. Looking it up holds a thread for as long as the resolver takes, whoever still waits: with few
/// threads a resolver that is away must not take all of them. Names wait in order, and their time begins with their turn.
async fn resolve(names: &Arc<Semaphore>, address: &str) -> io::Result<Vec<SocketAddr>> {
    if let Ok(address) = address.parse() {
        return Ok(vec![address]);
    }
    let permit = names.clone().acquire_owned().await.map_err(io::Error::other)?;
    let address = address.to_owned();
    let look = move || {
        let _permit = permit;
        address.to_socket_addrs().map(|found| found.take(ADDRESSES).collect())
    };
    let late = |_| io::Error::new(io::ErrorKind::TimedOut, "the name was not resolved in time");
    timeout(CONNECT, tokio::task::spawn_blocking(look)).await.map_err(late)?.map_err(io::Error::other)?
}

/// A reason that a person understands.
fn reason(error: &io::Error) -> String {
    let wrong = rustls::Error::InvalidCertificate(rustls::CertificateError::ApplicationVerificationFailure);
    match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        Some(found) if *found == wrong => "another node answers there (its key is not the wanted one)".into(),
        _ => error.to_string(),
    }
}

/// Between a half and one and a half of a pause, so that many sites do not dial in step.
fn jittered(pause: Duration) -> Duration {
    pause.mul_f64(0.5 + entropy::share())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::super::super::Net;
    use super::super::TcpNet;
    use super::*;
    use crate::trust::Identity;

    #[tokio::test]
    async fn few_that_are_away_are_tried_often_unless_somebody_pays() {
        let net = TcpNet::bind("127.0.0.1:0", &Identity::generate().unwrap()).await.unwrap();
        let silent = || PeerAddress { key: Identity::generate().unwrap().public(), addresses: Vec::new() };
        let peers: Vec<PeerAddress> = (0..40).map(|_| silent()).collect();
        let node = peers[0].key.node();
        let longest = || net.shared.state(|state| longest(state, node));
        for (away, pause) in [(1, EACH), (3, EACH * 3), (40, LONGEST)] {
            net.set_peers(peers[..away].to_vec());
            assert_eq!(longest(), pause, "{away} are away");
        }
        net.set_peers(peers[..1].to_vec());
        net.set_paid([node].into());
        assert_eq!(longest(), LONGEST, "never linked");
        net.set_paid(std::collections::BTreeSet::new());
        assert_eq!(longest(), EACH);
        net.set_rest(node, Some(Duration::from_secs(600)));
        assert_eq!(longest(), LONGEST, "its links rest");
    }

    #[tokio::test]
    async fn a_spare_connection_is_not_taken_for_the_one_that_was_dialled() {
        use super::super::tests::linked;
        for _ in 0..8 {
            let (a, b) = linked().await;
            for (site, other) in [(&a, &b), (&b, &a)] {
                let shared = &site.net.shared;
                let dialled =
                    |shared: &Shared| shared.state(|state| state.peers[&other.node()].dialled.clone());
                if dialled(shared).is_some() {
                    continue;
                }
                // As one that was under way when the link came up.
                let want = shared.state(|state| Wanted {
                    address: PeerAddress {
                        key: other.identity.public(),
                        addresses: vec![other.net.address().to_string()],
                    },
                    counters: state.peers[&other.node()].counters.clone(),
                    last: greet::LinkId::default(),
                    token: state.connected.child_token(),
                });
                let greeted = dial(shared, other.node(), want).await.unwrap();
                assert!(matches!(greeted, greet::Greeted::Spare));
                assert_eq!(dialled(shared), None, "the other end dialled the link");
            }
        }
    }
}
