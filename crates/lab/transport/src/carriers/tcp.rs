//! Our own links: the very `Net` that sites use, with its greeting, turns and multiplexer.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::net::tcp::{TcpNet, Tuning};
use crate::net::{LinkEvent, Net, PeerAddress, Stream};
use crate::trust::Identity;
use async_trait::async_trait;
use skerry_base::NodeId;
use skerry_federation::budget::Class;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::mpsc::{Receiver, channel};

use super::{Carrier, Pipe, Spec, WAITING, key};

struct Ours(Stream);

impl Pipe for Ours {
    fn urgent(&mut self, urgent: bool) {
        self.0.rank(if urgent { Class::Record } else { Class::Read });
    }
}

impl AsyncRead for Ours {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for Ours {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

fn tuning(spec: &Spec) -> Tuning {
    let own = Tuning::default();
    Tuning {
        congestion: spec.congestion.clone().or(own.congestion),
        unsent: spec.unsent.unwrap_or(own.unsent),
        sealed: spec.sealed.unwrap_or(own.sealed),
        ..own
    }
}

fn identity(keys: &[Vec<u8>], number: usize) -> io::Result<Identity> {
    Identity::from_pkcs8(key(keys, number)?).map_err(io::Error::other)
}

pub(super) async fn listen(
    spec: &Spec,
    at: SocketAddr,
    keys: &[Vec<u8>],
) -> io::Result<Receiver<Box<dyn Pipe>>> {
    let net = TcpNet::bind_tuned(&at.to_string(), &identity(keys, 0)?, tuning(spec)).await;
    let net = net.map_err(io::Error::other)?;
    let others = (1..keys.len())
        .map(|number| Ok(PeerAddress { key: identity(keys, number)?.public(), addresses: Vec::new() }));
    net.set_peers(others.collect::<io::Result<_>>()?);
    let (pipes, waiting) = channel::<Box<dyn Pipe>>(WAITING);
    tokio::spawn(async move {
        while let Some((_, stream)) = net.accept().await {
            if pipes.send(Box::new(Ours(stream))).await.is_err() {
                return;
            }
        }
    });
    Ok(waiting)
}

struct Link {
    net: Arc<TcpNet>,
    peer: NodeId,
}

#[async_trait]
impl Carrier for Link {
    async fn open(&self, urgent: bool) -> io::Result<Box<dyn Pipe>> {
        let mut pipe = Ours(self.net.open(self.peer).await.map_err(io::Error::other)?);
        pipe.urgent(urgent);
        Ok(Box::new(pipe))
    }
}

pub(super) async fn dial(
    spec: &Spec,
    to: SocketAddr,
    keys: &[Vec<u8>],
    count: usize,
) -> io::Result<Vec<Arc<dyn Carrier>>> {
    let server = identity(keys, 0)?.public();
    let mut links: Vec<Arc<dyn Carrier>> = Vec::new();
    for number in 1..=count {
        let net = TcpNet::bind_tuned("0.0.0.0:0", &identity(keys, number)?, tuning(spec)).await;
        let net = net.map_err(io::Error::other)?;
        let mut events = net.links();
        net.set_peers(vec![PeerAddress { key: server, addresses: vec![to.to_string()] }]);
        let up = async { while !matches!(events.next().await, Some(LinkEvent::Up(_)) | None) {} };
        let late = |_| io::Error::new(io::ErrorKind::TimedOut, "no link");
        tokio::time::timeout(Duration::from_secs(30), up).await.map_err(late)?;
        links.push(Arc::new(Link { net, peer: server.node() }));
    }
    Ok(links)
}
