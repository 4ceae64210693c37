//! Links over streams that other sites carry.
//!
//! Invariants: both ends prove their keys over the stream exactly as over a TCP connection, so that who carries it has
//! nothing but what is on any wire; its bytes are counted where they cross, on the link below, and not again here.

use std::io;
use std::sync::Arc;

use skerry_base::NodeId;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::super::sever::Severable;
use super::super::tls::{self, peer_key};
use super::super::{Course, NetError, Stream};
use super::{HANDSHAKE, Shared, greet};

/// A connection of either end, proven.
trait Proven: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Proven for T {}

/// Makes the link and starts it; an error says why there is none.
pub(super) async fn link(
    shared: &Arc<Shared>,
    (peer, course): (NodeId, Course),
    dialled: bool,
    stream: Stream,
) -> Result<(), NetError> {
    let failed = |reason: String| NetError::Dial { address: "by way of another site".into(), reason };
    let token = shared.connected().ok_or(NetError::Cut)?;
    let last = shared.state(|state| {
        let entry = state.peers.get(&peer).ok_or(NetError::NoLink(peer))?;
        let shorter = |standing: &greet::Standing| {
            !standing.token.is_cancelled() && standing.course.hops <= course.hops
        };
        // Who dials looked before; a link that came up meanwhile is kept.
        match dialled && entry.standing.as_ref().is_some_and(shorter) {
            true => Err(failed("a link as short came up meanwhile".into())),
            false => Ok(dialled.then_some(entry.last)),
        }
    })?;
    let socket = Severable::new(stream, &token, None);
    let made = async {
        let socket = prove(shared, peer, dialled, socket).await?;
        greet::greet(shared, socket, (peer, course), last, token).await
    };
    match timeout(HANDSHAKE, made).await {
        Ok(Ok(greet::Greeted::Link(link))) => {
            shared.spawn(link);
            Ok(())
        }
        Ok(Ok(greet::Greeted::Spare)) => Err(failed("another link is kept".into())),
        Ok(Err(error)) => Err(failed(error.to_string())),
        Err(_) => Err(failed("no greeting in time".into())),
    }
}

async fn prove(
    shared: &Arc<Shared>,
    peer: NodeId,
    dialled: bool,
    socket: Severable<Stream>,
) -> io::Result<Box<dyn Proven>> {
    if dialled {
        let key = shared.state(|state| state.peers.get(&peer).map(|peer| peer.address.key));
        let key = key.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the node left the set"))?;
        let config = shared.tls.client(key, tls::LINK).map_err(io::Error::other)?;
        let mut stream = TlsConnector::from(config).connect(tls::server_name(), socket).await?;
        stream.get_mut().1.set_buffer_limit(Some(shared.tuning.sealed));
        return Ok(Box::new(stream));
    }
    let mut stream = TlsAcceptor::from(shared.tls.link.clone()).accept(socket).await?;
    stream.get_mut().1.set_buffer_limit(Some(shared.tuning.sealed));
    let proven = peer_key(stream.get_ref().1.peer_certificates()).map(|key| key.node());
    if proven == Some(peer) && stream.get_ref().1.alpn_protocol().is_some() {
        return Ok(Box::new(stream));
    }
    Err(io::Error::new(io::ErrorKind::InvalidData, "another node than was announced is at the other end"))
}
