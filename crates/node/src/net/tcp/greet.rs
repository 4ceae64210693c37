//! The greeting after TLS: makes exactly one link of whatever connections two nodes have between them.
//!
//! The node with the lower id is the *arbiter* of the pair: it alone decides which connection is the link and
//! numbers it, the other follows the highest number. It keeps the link that stands, unless the other end was
//! restarted since, or dialled because that very link had failed there: so two dials that cross end as one
//! link without a flap, and a half-dead link never locks a returning peer out. A link that fewer sites carry takes the
//! place of one that more do.
//!
//! Another life of a peer takes the place of a link only when the process at its other end does not answer any more: else
//! two run with one key, and the one that came is told so and turned away ([`skerry_federation::clones`]).

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use skerry_base::NodeId;
use skerry_federation::clones::{Door, door};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::super::link::{Inbound, Link};
use super::super::{Course, Meeting, Peer, pace};
use super::subflows::Beside;
use super::{PeerState, Shared, State, WAITING_STREAMS, Waiting};

const VERSION: u8 = 1;
/// In the place of the version: another process with the reader's key is linked here and answers. Releases before take it
/// for a version that they do not know, and dial again later.
const COPY: u8 = 0;
/// The same in the place of a link's number.
const COPY_NUMBER: u64 = u64::MAX;
/// How long the process at the other end of a link has to answer when another life of it comes.
const ANSWERS_WITHIN: Duration = Duration::from_secs(4);
/// Meetings that wait to be looked at.
const MEETINGS: usize = 64;
const HELLO_BYTES: usize = 25;

/// A link as its arbiter numbered it: both ends know it by this.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct LinkId {
    arbiter: u64,
    number: u64,
}

impl LinkId {
    pub(super) fn encode(self) -> [u8; 17] {
        let mut bytes = [0; 17];
        let words = [self.arbiter, self.number].map(u64::to_be_bytes);
        for (to, from) in bytes.iter_mut().zip(std::iter::once(VERSION).chain(words.into_iter().flatten())) {
            *to = from;
        }
        bytes
    }

    pub(super) async fn read(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Self> {
        let version = stream.read_u8().await?;
        if version != VERSION {
            let reason = format!("a link's name of version {version}; this release speaks version {VERSION}");
            return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
        }
        Ok(Self { arbiter: stream.read_u64().await?, number: stream.read_u64().await? })
    }
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
    since: Instant,
}

impl Standing {
    /// The life of the process at the other end.
    pub(super) const fn life(&self) -> u64 {
        self.instance
    }
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
        if version == COPY {
            return Err(io::Error::other(Copied));
        }
        if version != VERSION {
            let reason = format!("greeting of version {version}; this release speaks version {VERSION}");
            return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
        }
        let instance = stream.read_u64().await?;
        let (arbiter, number) = (stream.read_u64().await?, stream.read_u64().await?);
        Ok(Self { instance, last: LinkId { arbiter, number } })
    }
}

/// The other end is linked with another process that has this node's key, and that one answers.
#[derive(Debug, thiserror::Error)]
#[error(
    "another process with this site's key is linked there and answers: of a site and its copy only one may run"
)]
struct Copied;

/// This process is told that it runs beside another.
fn copied(shared: &Shared, peer: NodeId) -> io::Error {
    let is_new = shared.state(|state| {
        let entry = state.peers.get_mut(&peer)?;
        Some(!std::mem::replace(&mut entry.copied, true))
    });
    if is_new == Some(true) {
        tracing::warn!(%peer, "this site is refused there as a copy: {Copied}; stop one of them; see `skerry status`");
    }
    io::Error::other(Copied)
}

/// Why the other end does not take the key of this node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// It does not know it. A release before says so of those that belong no more as well.
    Unknown,
    /// It belonged once, and does no more.
    Gone,
}

/// Whether the other end said that it does not take the key of this node, and why.
pub(super) fn refusal(error: &io::Error) -> Option<Refusal> {
    use rustls::{AlertDescription, Error};
    match error.get_ref().and_then(|inner| inner.downcast_ref::<Error>())? {
        Error::AlertReceived(AlertDescription::AccessDenied) => Some(Refusal::Unknown),
        Error::AlertReceived(AlertDescription::CertificateRevoked) => Some(Refusal::Gone),
        _ => None,
    }
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
    let theirs = hellos(shared, &mut stream, peer, own).await?;
    let reserved = if shared.node < peer {
        if !is_admitted(shared, peer, theirs.instance).await {
            stream.write_u64(COPY_NUMBER).await?;
            stream.flush().await?;
            return Err(turned_away(peer));
        }
        let reserved = decide(shared, (peer, course), theirs, dialled.is_some(), &token);
        let number = reserved.as_ref().map_or(0, |reserved| reserved.standing.id.number);
        stream.write_u64(number).await?;
        stream.flush().await?;
        reserved
    } else {
        let number = stream.read_u64().await?;
        let id = LinkId { arbiter: theirs.instance, number };
        match number {
            COPY_NUMBER => return Err(copied(shared, peer)),
            0 => None,
            _ => follow(shared, (peer, course), id, &token),
        }
    };
    Ok(match reserved {
        Some(reserved) => Greeted::Link(Box::pin(install(reserved, stream, dialled.is_some()))),
        None => Greeted::Spare,
    })
}

/// Exchanges greetings. Who follows the other's decision may have to turn it away before it decides, and hears it first then;
/// the arbiter never waits, so the two never wait for each other.
async fn hellos<S>(shared: &Arc<Shared>, stream: &mut S, peer: NodeId, own: Hello) -> io::Result<Hello>
where
    S: AsyncRead + AsyncWrite + Send + Unpin,
{
    let said = |error: io::Error| match error.get_ref().is_some_and(|inner| inner.is::<Copied>()) {
        true => copied(shared, peer),
        false => error,
    };
    let may_turn_away = |state: &mut State| {
        let stands = state.peers.get(&peer).is_some_and(|peer| peer.standing.is_some());
        stands || state.refused.contains_key(&peer)
    };
    if shared.node > peer && shared.state(may_turn_away) {
        let theirs = Hello::read(stream).await.map_err(said)?;
        if !is_admitted(shared, peer, theirs.instance).await {
            let refusal = own.encode().map(|_| COPY);
            stream.write_all(&refusal).await?;
            stream.flush().await?;
            return Err(turned_away(peer));
        }
        own.write(stream).await?;
        return Ok(theirs);
    }
    if let Err(error) = own.write(stream).await {
        // Who refuses the key of this node says so and hangs up, perhaps before this was written: that says more.
        return Err(Hello::read(stream)
            .await
            .err()
            .filter(|error| refusal(error).is_some())
            .unwrap_or(error));
    }
    Hello::read(stream).await.map_err(said)
}

fn turned_away(peer: NodeId) -> io::Error {
    io::Error::other(format!("a copy of node {peer} was turned away: another process with its key is linked"))
}

/// Whether a process of this life may be linked: not while another with the same key is and answers, nor when it was found
/// beside another before.
async fn is_admitted(shared: &Arc<Shared>, peer: NodeId, came: u64) -> bool {
    let proven = pace::now();
    let look = |state: &mut State| {
        let entry = state.peers.get(&peer)?;
        let standing = entry.standing.clone().filter(|standing| !standing.token.is_cancelled());
        let none = BTreeSet::new();
        let refused = state.refused.get(&peer).unwrap_or(&none);
        Some((door(standing.as_ref().map(Standing::life), came, refused), standing, entry.link.clone()))
    };
    let Some((door, standing, link)) = shared.state(look) else { return true };
    let is_refused = match (door, standing, link) {
        (Door::Open, ..) => return true,
        (Door::Shut, ..) => true,
        // One that is not a link yet gives way: its end comes again, and finds this one.
        (Door::Ask, Some(standing), Some(link)) => {
            let answers = timeout(ANSWERS_WITHIN, link.answers()).await.unwrap_or(false);
            // Older than that link it may be the last word of a process that is over.
            if answers && standing.since <= proven {
                let meeting = Meeting { node: peer, stood: standing.instance, came };
                shared.state(|state| {
                    let is_known = state.meetings.len() >= MEETINGS || state.meetings.contains(&meeting);
                    state.meetings.extend((!is_known).then_some(meeting));
                });
            }
            answers
        }
        (Door::Ask, ..) => false,
    };
    if is_refused {
        shared.state(|state| state.turned_away.insert(peer, pace::now()));
    }
    !is_refused
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
    let since = pace::now();
    let standing = Standing { id, instance, number: state.numbers, token: token.clone(), course, since };
    entry.standing = Some(standing.clone());
    Some(Reserved { shared: shared.clone(), peer, standing })
}

/// Makes the link, tells of it, runs it; it falls when `reserved` is dropped.
async fn install<S>(reserved: Reserved, stream: S, dialler: bool)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let Reserved { shared, peer, standing } = &reserved;
    // Each link has places of its own: however many streams one peer opens, none of another is dropped for it.
    let places = Arc::new(Semaphore::new(WAITING_STREAMS));
    let inbound = inbound(shared, *peer, places.clone());
    let backlog = (&shared.backlog, standing.course.hops > 0);
    let (link, task) = Link::new(stream, dialler, standing.token.clone(), inbound, backlog);
    let current = shared.state(|state| {
        let entry = state.peers.get_mut(peer)?;
        let current = entry.standing.as_ref().is_some_and(|now| now.number == standing.number);
        if !current || standing.token.is_cancelled() {
            return None;
        }
        entry.link = Some(Arc::new(link));
        entry.beside = Beside::new(places);
        entry.take_rest();
        entry.last = standing.id;
        entry.refusals = 0;
        (entry.copied, entry.gone) = (false, false);
        shared.links.up(*peer, standing.number);
        Some(())
    });
    if current.is_some() {
        tracing::debug!(%peer, "link up");
        task.await;
        tracing::debug!(%peer, "link down");
    }
}

/// Hands the streams that the peer opens to [`super::Net::accept`], where they have these places.
pub(super) fn inbound(shared: &Arc<Shared>, peer: NodeId, places: Arc<Semaphore>) -> Inbound {
    let streams = shared.streams.clone();
    // Once for each connection: whoever floods it would write the log.
    let mut is_told = false;
    Box::new(move |stream| {
        let place = places.clone().try_acquire_owned().ok();
        let waits = place.is_some_and(|place| {
            let waiting = Waiting { peer: Peer::Known(peer), stream, _place: Some(place) };
            streams.try_send(waiting).is_ok()
        });
        if !waits && !std::mem::replace(&mut is_told, true) {
            tracing::warn!(%peer, "streams are dropped: too many of this peer wait to be served");
        }
    })
}
