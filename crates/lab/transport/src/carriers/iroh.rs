//! QUIC by iroh: no relays, no lookup of addresses, only the address that is given.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use async_trait::async_trait;
use iroh::endpoint::{Connection, QuicTransportConfig, RecvStream, SendStream, VarInt, presets};
use iroh::{Endpoint, EndpointAddr, RelayMode, SecretKey};
use noq_proto::congestion::{Bbr3Config, CubicConfig};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Mutex;
use tokio::sync::mpsc::{Receiver, channel};

use super::{Carrier, Pipe, Spec, WAITING, WINDOW_BYTES, key};
use crate::keys;

const PROTOCOL: &[u8] = b"skerry-measure/1";

struct Iroh {
    send: SendStream,
    receive: RecvStream,
}

impl Pipe for Iroh {
    fn urgent(&mut self, urgent: bool) {
        // A stream that is closed already has nothing left to send.
        let _ = self.send.set_priority(i32::from(urgent));
    }
}

impl AsyncRead for Iroh {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        AsyncRead::poll_read(Pin::new(&mut self.receive), cx, buf)
    }
}

impl AsyncWrite for Iroh {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        AsyncWrite::poll_write(Pin::new(&mut self.send), cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        AsyncWrite::poll_flush(Pin::new(&mut self.send), cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        AsyncWrite::poll_shutdown(Pin::new(&mut self.send), cx)
    }
}

async fn endpoint(spec: &Spec, at: SocketAddr, keys: &[Vec<u8>], number: usize) -> io::Result<Endpoint> {
    let config = QuicTransportConfig::builder()
        .receive_window(VarInt::from_u32(WINDOW_BYTES))
        .send_window(u64::from(WINDOW_BYTES))
        .max_concurrent_bidi_streams(VarInt::from_u32(256));
    let config = match spec.congestion.as_deref() {
        None => config,
        Some("cubic") => config.congestion_controller_factory(Arc::new(CubicConfig::default())),
        Some("bbr3") => config.congestion_controller_factory(Arc::new(Bbr3Config::default())),
        Some(other) => return Err(io::Error::other(format!("iroh has no {other}"))),
    };
    Endpoint::builder(presets::Minimal)
        .relay_mode(RelayMode::Disabled)
        .secret_key(secret(keys, number)?)
        .alpns(vec![PROTOCOL.to_vec()])
        .transport_config(config.build())
        .clear_ip_transports()
        .bind_addr(at)
        .map_err(io::Error::other)?
        .bind()
        .await
        .map_err(io::Error::other)
}

fn secret(keys: &[Vec<u8>], number: usize) -> io::Result<SecretKey> {
    let seed = keys::seed(key(keys, number)?).ok_or_else(|| io::Error::other("not a key"))?;
    Ok(SecretKey::from_bytes(&seed))
}

pub(super) async fn listen(
    spec: &Spec,
    at: SocketAddr,
    keys: &[Vec<u8>],
) -> io::Result<Receiver<Box<dyn Pipe>>> {
    let endpoint = endpoint(spec, at, keys, 0).await?;
    let (pipes, waiting) = channel::<Box<dyn Pipe>>(WAITING);
    tokio::spawn(async move {
        while let Some(incoming) = endpoint.accept().await {
            let pipes = pipes.clone();
            tokio::spawn(async move {
                let Ok(connection) = incoming.await else { return };
                while let Ok((send, receive)) = connection.accept_bi().await {
                    if pipes.send(Box::new(Iroh { send, receive })).await.is_err() {
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
    to: EndpointAddr,
    connection: Mutex<Connection>,
}

#[async_trait]
impl Carrier for Dialled {
    async fn open(&self, urgent: bool) -> io::Result<Box<dyn Pipe>> {
        let connection = {
            let mut connection = self.connection.lock().await;
            if connection.close_reason().is_some() {
                *connection = connect(&self.endpoint, &self.to).await?;
            }
            connection.clone()
        };
        let (send, receive) = connection.open_bi().await?;
        let mut pipe = Iroh { send, receive };
        pipe.urgent(urgent);
        Ok(Box::new(pipe))
    }
}

async fn connect(endpoint: &Endpoint, to: &EndpointAddr) -> io::Result<Connection> {
    endpoint.connect(to.clone(), PROTOCOL).await.map_err(io::Error::other)
}

pub(super) async fn dial(
    spec: &Spec,
    to: SocketAddr,
    keys: &[Vec<u8>],
    count: usize,
) -> io::Result<Vec<Arc<dyn Carrier>>> {
    let to = EndpointAddr::new(secret(keys, 0)?.public()).with_ip_addr(to);
    let mut links: Vec<Arc<dyn Carrier>> = Vec::new();
    for number in 1..=count {
        let endpoint = endpoint(spec, SocketAddr::from(([0, 0, 0, 0], 0)), keys, number).await?;
        let connection = Mutex::new(connect(&endpoint, &to).await?);
        links.push(Arc::new(Dialled { endpoint, to: to.clone(), connection }));
    }
    Ok(links)
}
