//! The transports that are compared, each behind the same few words.
//!
//! Invariants: both ends prove an Ed25519 key in TLS 1.3 with ring; streams are opened by who asks.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use async_trait::async_trait;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc::Receiver;

mod halves;
mod iroh;
mod quic;
mod tcp;

/// Streams that wait to be answered.
const WAITING: usize = 1024;
/// What a transport may hold for one peer: as our links.
const WINDOW_BYTES: u32 = 64 << 20;

/// One stream.
pub(crate) trait Pipe: AsyncRead + AsyncWrite + Send + Unpin {
    /// What is written from now on goes before what is not urgent, if the transport knows such a thing.
    fn urgent(&mut self, urgent: bool);
}

/// A connection to the answering end, made again if it breaks.
#[async_trait]
pub(crate) trait Carrier: Send + Sync {
    /// A new stream.
    async fn open(&self, urgent: bool) -> io::Result<Box<dyn Pipe>>;
}

/// Which transport, set how.
#[derive(Debug, Clone)]
pub(crate) struct Spec {
    kind: String,
    congestion: Option<String>,
    unsent: Option<u32>,
    sealed: Option<usize>,
    /// Whether one chunk after the other is asked for on the same stream.
    pub(crate) is_kept: bool,
    /// Connections over which the chunks are spread.
    pub(crate) links: usize,
}

impl Spec {
    /// Such as `tcp/cubic/unsent=16384/links=4/kept`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut words = text.split('/');
        let kind = words.next().unwrap_or_default().to_owned();
        let mut spec = Self { kind, congestion: None, unsent: None, sealed: None, is_kept: false, links: 1 };
        for word in words {
            let number = |value: &str| value.parse::<u32>().map_err(|error| format!("{word}: {error}"));
            match word.split_once('=') {
                None if word == "kept" => spec.is_kept = true,
                None => spec.congestion = Some(word.to_owned()),
                Some(("unsent", value)) => spec.unsent = Some(number(value)?),
                Some(("sealed", value)) => spec.sealed = Some(number(value)? as usize),
                Some(("links", value)) => spec.links = number(value)? as usize,
                Some(_) => return Err(format!("{text}: what is {word}?")),
            }
        }
        Ok(spec)
    }
}

/// Streams that others open, of all connections.
pub(crate) async fn listen(
    spec: &Spec,
    at: SocketAddr,
    keys: &[Vec<u8>],
) -> io::Result<Receiver<Box<dyn Pipe>>> {
    match spec.kind.as_str() {
        "tcp" => tcp::listen(spec, at, keys).await,
        "quinn" => quic::listen(spec, at, keys),
        "iroh" => iroh::listen(spec, at, keys).await,
        other => Err(unknown(other)),
    }
}

/// So many connections, of nodes with keys of their own.
pub(crate) async fn dial(
    spec: &Spec,
    to: SocketAddr,
    keys: &[Vec<u8>],
    count: usize,
) -> io::Result<Vec<Arc<dyn Carrier>>> {
    match spec.kind.as_str() {
        "tcp" => tcp::dial(spec, to, keys, count).await,
        "quinn" => quic::dial(spec, to, keys, count).await,
        "iroh" => iroh::dial(spec, to, keys, count).await,
        other => Err(unknown(other)),
    }
}

fn unknown(kind: &str) -> io::Error {
    io::Error::other(format!("{kind}: there are tcp, quinn and iroh"))
}

/// The key of a number.
fn key(keys: &[Vec<u8>], number: usize) -> io::Result<&[u8]> {
    keys.get(number).map(Vec::as_slice).ok_or_else(|| io::Error::other("too few keys"))
}
