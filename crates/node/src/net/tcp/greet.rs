//! The greeting after TLS: makes exactly one link of whatever connections two nodes have between them.
//!
//! The node with the lower id is the *arbiter* of the pair: it alone decides which connection is the link and
//! numbers it, the other follows the highest number. It keeps the link that stands, unless the other end was
//! restarted since, or dialled because that very link had failed there: so two dials that cross end as one
//! link without a flap, and a half-dead link never locks a returning peer out. A link that fewer sites carry takes the
//! place of one that more do.

use std::io;
use std::sync::Arc;

use skerry_base::NodeId;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::super::link::{Inbound, Link};
use super::super::{Course, Peer};
use super::{PeerState, Shared, State, WAITING_STREAMS, Waiting};

const VERSION: u8 = 1;
const HELLO_BYTES: usize = 25;

/// A link as its arbiter numbered it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct LinkId {
    arbiter: u64,
    number: u64,
}

/// A connection that was decided to be the link.
#[derive(Debug, Clone)]
pub(super) struct Standing {
    pub(super) id: LinkId,
    /// The instance of the other end.
    instance: u64,
    /// Own number, for followers of the links.
    pub(super) number: u64,
    pub(super) token: CancellationToken,
    pub(super) course: Course,
}

/// What both ends say first.
#[derive(Debug, Clone, Copy)]
struct Hello {
    instance: u64,
    /// The dialler's last link with the other end when it began to dial.
    last: LinkId,
}

impl Hello {
    fn encode(self) -> [u8; HELLO_BYTES] {
        let mut bytes = [0; HELLO_BYTES];
        let numbers = [self.instance, self.last.arbiter, self.last.number];
        let words = numbers.iter().flat_map(|number| number.to_be_bytes());
        for (to, from) in bytes.iter_mut().zip(std::iter::once(VERSION).chain(words)) {
            *to = from;
        }
        bytes
    }

    async fn write(self, stream: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
        stream.write_all(&self.encode()).await?;
        stream.flush().await
    }

    async fn read(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Self> {
        let version = stream.read_u8().await?;
        if version != VERSION {
            let reason = format!("greeting of version {version}; this release speaks version {VERSION}");
            return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
        }
        let instance = stream.read_u64().await?;
        let (arbiter, number) = (stream.read_u64().await?, stream.read_u64().await?);
        Ok(Self { instance, last: LinkId { arbiter, number } })
    }
}

/// Whether the other end said that it does not take the key of this node.
pub(super) fn is_refusal(error: &io::Error) -> bool {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    inner == Some(&rustls::Error::AlertReceived(rustls::AlertDescription::AccessDenied))
}

/// How a greeting ended.
pub(super) enum Greeted {
    /// This connection is the link; the future runs it to its end.
    Link(std::pin::Pin<Box<dyn Future<Output = ()> + Send>>),
    /// Another connection is.
    Spare,
}

/// Greets over a proven connection with `peer`, which runs on this course. `dialled` is the last link known when this side dialled, none
/// if the other side did. `token` is the connection's.
pub(super) async fn greet<S>(
    shared: &Arc<Shared>,
    mut stream: S,
    (peer, course): (NodeId, Course),
    dialled: Option<LinkId>,
    token: CancellationToken,
) -> io::Result<Greeted>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let own = Hello { instance: shared.instance, last: dialled.unwrap_or_default() };
    if let Err(error) = own.write(&mut stream).await {
        // Who refuses the key of this node says so and hangs up, perhaps before this was written: that says more.
        return Err(Hello::read(&mut stream).await.err().filter(is_refusal).unwrap_or(error));
    }
    let theirs = Hello::read(&mut stream).await?;
    let reserved = if shared.node < peer {
        let reserved = decide(shared, (peer, course), theirs, dialled.is_some(), &token);
        let number = reserved.as_ref().map_or(0, |reserved| reserved.standing.id.number);
        stream.write_u64(number).await?;
        stream.flush().await?;
        reserved
    } else {
        let number = stream.read_u64().await?;
        let id = LinkId { arbiter: theirs.instance, number };
        if number == 0 { None } else { follow(shared, (peer, course), id, &token) }
    };
    Ok(match reserved {
        Some(reserved) => Greeted::Link(Box::pin(install(reserved, stream, dialled.is_some()))),
        None => Greeted::Spare,
    })
}

/// The right of a connection to be the link. When it is dropped, wherever that happens (a greeting that broke
/// off, a deadline, a link that ended), the place is free again, unless another connection has taken it.
struct Reserved {
    shared: Arc<Shared>,
    peer: NodeId,
    standing: Standing,
}

impl Drop for Reserved {
    fn drop(&mut self) {
        let number = self.standing.number;
        self.shared.state(|state| {
            let entry = state.peers.get_mut(&self.peer);
            let own = |entry: &&mut PeerState| {
                entry.standing.as_ref().is_some_and(|standing| standing.number == number)
            };
            if let Some(entry) = entry.filter(own) {
                entry.fall(self.peer, &self.shared.links);
            }
        });
    }
}

/// The arbiter's side.
fn decide(
    shared: &Arc<Shared>,
    (peer, course): (NodeId, Course),
    theirs: Hello,
    dialler: bool,
    token: &CancellationToken,
) -> Option<Reserved> {
    shared.state(|state| {
        let entry = state.peers.get(&peer)?;
        let keep = entry.standing.as_ref().is_some_and(|standing| {
            let failed_there = !dialler && theirs.last == standing.id;
            let shorter = course.hops < standing.course.hops;
            let same = !standing.token.is_cancelled() && standing.instance == theirs.instance;
            same && !failed_there && !shorter
        });
        let id = LinkId { arbiter: shared.instance, number: state.numbers + 1 };
        if keep { None } else { reserve(shared, state, (peer, course), (id, theirs.instance), token) }
    })
}

/// The other side: obeys, unless a later decision was heard first.
fn follow(
    shared: &Arc<Shared>,
    (peer, course): (NodeId, Course),
    id: LinkId,
    token: &CancellationToken,
) -> Option<Reserved> {
    shared.state(|state| {
        let later = state
            .peers
            .get(&peer)?
            .standing
            .as_ref()
            .is_some_and(|standing| standing.id.arbiter == id.arbiter && standing.id.number > id.number);
        if later { None } else { reserve(shared, state, (peer, course), (id, id.arbiter), token) }
    })
}

/// Takes the place of whatever stood.
fn reserve(
    shared: &Arc<Shared>,
    state: &mut State,
    (peer, course): (NodeId, Course),
    (id, instance): (LinkId, u64),
    token: &CancellationToken,
) -> Option<Reserved> {
    let entry = state.peers.get_mut(&peer).filter(|_| !token.is_cancelled())?;
    entry.fall(peer, &shared.links);
    state.numbers += 1;
    let standing = Standing { id, instance, number: state.numbers, token: token.clone(), course };
    entry.standing = Some(standing.clone());
    Some(Reserved { shared: shared.clone(), peer, standing })
}

/// Makes the link, tells of it, runs it; it falls when `reserved` is dropped.
async fn install<S>(reserved: Reserved, stream: S, dialler: bool)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let Reserved { shared, peer, standing } = &reserved;
    let inbound = inbound(shared, *peer);
    let (link, task) = Link::new(stream, dialler, standing.token.clone(), inbound);
    let current = shared.state(|state| {
        let entry = state.peers.get_mut(peer)?;
        let current = entry.standing.as_ref().is_some_and(|now| now.number == standing.number);
        if !current || standing.token.is_cancelled() {
            return None;
        }
        entry.link = Some(Arc::new(link));
        entry.last = standing.id;
        entry.refusals = 0;
        shared.links.up(*peer, standing.number);
        Some(())
    });
    if current.is_some() {
        tracing::debug!(%peer, "link up");
        task.await;
        tracing::debug!(%peer, "link down");
    }
}

/// Hands the streams that the peer opens to [`super::Net::accept`]. Each link has places of its own there: however many one
/// peer opens, none of another is dropped for it.
fn inbound(shared: &Arc<Shared>, peer: NodeId) -> Inbound {
    let (streams, places) = (shared.streams.clone(), Arc::new(Semaphore::new(WAITING_STREAMS)));
    Box::new(move |stream| {
        let place = places.clone().try_acquire_owned().ok();
        let waits = place.is_some_and(|place| {
            let waiting = Waiting { peer: Peer::Known(peer), stream, _place: Some(place) };
            streams.try_send(waiting).is_ok()
        });
        if !waits {
            tracing::warn!(%peer, "a stream was dropped: too many of this peer wait to be served");
        }
    })
}
