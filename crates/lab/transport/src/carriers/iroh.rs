//! iroh, told where the other end is: no relays and no look-up of addresses, with windows as our links have them.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use iroh::endpoint::{Builder, Connection, QuicTransportConfig, SendStream, VarInt, presets};
use iroh::{Endpoint, EndpointAddr, RelayMode, SecretKey};
use noq_proto::congestion::{Bbr3Config, CubicConfig};
use tokio::sync::Mutex;
use tokio::sync::mpsc::{Receiver, channel};

use super::halves::{Halves, Ranked};
use super::{Carrier, Pipe, Spec, WAITING, WINDOW_BYTES, key};

const PROTOCOL: &[u8] = b"skerry-measure/1";
/// Where the seed lies in PKCS #8 as ring writes it.
const SEED: std::ops::Range<usize> = 16..48;

impl Ranked for SendStream {
    fn rank(&mut self, rank: i32) {
        // A stream that is closed already has nothing left to send.
        let _ = self.set_priority(rank);
    }
}

fn secret(keys: &[Vec<u8>], number: usize) -> io::Result<SecretKey> {
    let seed = key(keys, number)?.get(SEED).and_then(|seed| <&[u8; 32]>::try_from(seed).ok());
    seed.map(SecretKey::from_bytes).ok_or_else(|| io::Error::other("not a key"))
}

fn transport(spec: &Spec) -> io::Result<QuicTransportConfig> {
    let config = QuicTransportConfig::builder()
        .receive_window(VarInt::from_u32(WINDOW_BYTES))
        .send_window(u64::from(WINDOW_BYTES))
        .max_concurrent_bidi_streams(VarInt::from_u32(256))
        .keep_alive_interval(Duration::from_secs(15));
    Ok(match spec.congestion.as_deref() {
        None | Some("cubic") => config.congestion_controller_factory(Arc::new(CubicConfig::default())),
        Some("bbr") => config.congestion_controller_factory(Arc::new(Bbr3Config::default())),
        Some(other) => return Err(io::Error::other(format!("iroh has no {other}"))),
    }
    .build())
}

fn builder(spec: &Spec, at: SocketAddr, secret: SecretKey) -> io::Result<Builder> {
    let builder = Endpoint::builder(presets::Minimal)
        .relay_mode(RelayMode::Disabled)
        .secret_key(secret)
        .alpns(vec![PROTOCOL.to_vec()])
        .transport_config(transport(spec)?)
        .clear_ip_transports();
    builder.bind_addr(at).map_err(io::Error::other)
}

pub(super) async fn listen(
    spec: &Spec,
    at: SocketAddr,
    keys: &[Vec<u8>],
) -> io::Result<Receiver<Box<dyn Pipe>>> {
    let endpoint = builder(spec, at, secret(keys, 0)?)?.bind().await.map_err(io::Error::other)?;
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
        let (send, receive) = connection.open_bi().await.map_err(io::Error::other)?;
        let mut pipe = Halves { send, receive };
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
        let anywhere = SocketAddr::from(([0, 0, 0, 0], 0));
        let endpoint = builder(spec, anywhere, secret(keys, number)?)?.bind().await.map_err(io::Error::other)?;
        let connection = Mutex::new(connect(&endpoint, &to).await?);
        links.push(Arc::new(Dialled { endpoint, to: to.clone(), connection }));
    }
    Ok(links)
}
