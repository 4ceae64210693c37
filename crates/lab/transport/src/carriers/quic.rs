//! QUIC by quinn, with windows as our links have them.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use quinn::congestion::{BbrConfig, CubicConfig};
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{Connection, Endpoint, EndpointConfig, SendStream, TransportConfig, VarInt};
use tokio::sync::Mutex;
use tokio::sync::mpsc::{Receiver, channel};

use super::halves::{Halves, Ranked};
use super::{Carrier, Pipe, Spec, WAITING, WINDOW_BYTES, key};
use crate::keys;

/// What the socket may hold, if the kernel allows it: a burst of datagrams must not be lost at our own door.
const SOCKET_BYTES: usize = 4 << 20;

impl Ranked for SendStream {
    fn rank(&mut self, rank: i32) {
        // A stream that is closed already has nothing left to send.
        let _ = self.set_priority(rank);
    }
}

fn transport(spec: &Spec) -> io::Result<Arc<TransportConfig>> {
    let mut config = TransportConfig::default();
    config.receive_window(VarInt::from_u32(WINDOW_BYTES)).send_window(u64::from(WINDOW_BYTES));
    config.max_concurrent_bidi_streams(VarInt::from_u32(256));
    config.keep_alive_interval(Some(Duration::from_secs(15)));
    match spec.congestion.as_deref() {
        None | Some("cubic") => config.congestion_controller_factory(Arc::new(CubicConfig::default())),
        Some("bbr") => config.congestion_controller_factory(Arc::new(BbrConfig::default())),
        Some(other) => return Err(io::Error::other(format!("quinn has no {other}"))),
    };
    Ok(Arc::new(config))
}

fn socket(at: SocketAddr) -> io::Result<std::net::UdpSocket> {
    let socket = std::net::UdpSocket::bind(at)?;
    let options = socket2::SockRef::from(&socket);
    options.set_recv_buffer_size(SOCKET_BYTES)?;
    options.set_send_buffer_size(SOCKET_BYTES)?;
    Ok(socket)
}

fn endpoint(at: SocketAddr, server: Option<quinn::ServerConfig>) -> io::Result<Endpoint> {
    let runtime = Arc::new(quinn::TokioRuntime);
    Endpoint::new(EndpointConfig::default(), server, socket(at)?, runtime)
}

pub(super) fn listen(spec: &Spec, at: SocketAddr, keys: &[Vec<u8>]) -> io::Result<Receiver<Box<dyn Pipe>>> {
    let tls = keys::server(key(keys, 0)?).map_err(io::Error::other)?;
    let tls = QuicServerConfig::try_from(tls).map_err(io::Error::other)?;
    let mut config = quinn::ServerConfig::with_crypto(Arc::new(tls));
    config.transport_config(transport(spec)?);
    let endpoint = endpoint(at, Some(config))?;
    let (pipes, waiting) = channel::<Box<dyn Pipe>>(WAITING);
    tokio::spawn(async move {
        while let Some(incoming) = endpoint.accept().await {
            let pipes = pipes.clone();
            tokio::spawn(async move {
                let Ok(connection) = incoming.await else { return };
                while let Ok((send, receive)) = connection.accept_bi().await {
                    if pipes.send(Box::new(Halves { send, receive })).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    Ok(waiting)
}

struct Dialled {
    endpoint: Endpoint,
    to: SocketAddr,
    connection: Mutex<Connection>,
}

#[async_trait]
impl Carrier for Dialled {
    async fn open(&self, urgent: bool) -> io::Result<Box<dyn Pipe>> {
        let connection = {
            let mut connection = self.connection.lock().await;
            if connection.close_reason().is_some() {
                *connection = connect(&self.endpoint, self.to).await?;
            }
            connection.clone()
        };
        let (send, receive) = connection.open_bi().await?;
        let mut pipe = Halves { send, receive };
        pipe.urgent(urgent);
        Ok(Box::new(pipe))
    }
}

async fn connect(endpoint: &Endpoint, to: SocketAddr) -> io::Result<Connection> {
    Ok(endpoint.connect(to, "localhost").map_err(io::Error::other)?.await?)
}

pub(super) async fn dial(
    spec: &Spec,
    to: SocketAddr,
    keys: &[Vec<u8>],
    count: usize,
) -> io::Result<Vec<Arc<dyn Carrier>>> {
    let mut links: Vec<Arc<dyn Carrier>> = Vec::new();
    for number in 1..=count {
        let tls = keys::client(key(keys, number)?).map_err(io::Error::other)?;
        let tls = QuicClientConfig::try_from(tls).map_err(io::Error::other)?;
        let mut config = quinn::ClientConfig::new(Arc::new(tls));
        config.transport_config(transport(spec)?);
        let mut endpoint = endpoint(SocketAddr::from(([0, 0, 0, 0], 0)), None)?;
        endpoint.set_default_client_config(config);
        let connection = Mutex::new(connect(&endpoint, to).await?);
        links.push(Arc::new(Dialled { endpoint, to, connection }));
    }
    Ok(links)
}
