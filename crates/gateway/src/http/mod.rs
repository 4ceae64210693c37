//! HTTP itself: listeners, TLS, limits of time and size, shutdown.
//!
//! Why here: the only module of this crate that opens sockets, spawns tasks and reads a timer. What a request
//! means stands in `s3/` and `admin/`, which see bodies only as streams.
//!
//! Invariants: a client that sends nothing, or takes nothing, is let go; the number of connections, the size
//! of a head and the time of a shutdown are bounded; plain HTTP leaves the machine only when asked to.

#![expect(clippy::disallowed_methods, reason = "the room of this crate for sockets, tasks and timers")]

pub(crate) mod body;
mod doors;
mod faces;
mod flight;
mod leftover;
mod linger;
mod listen;
mod opening;
mod pace;
pub(crate) mod slow;
mod stream;
mod tls;
mod whole;
mod windows;

use std::net::SocketAddr;
use std::time::Duration;

pub use doors::Doors;
pub use faces::Faces;
pub use listen::{bind, serve};
pub use opening::Opening;
pub use tls::{Tls, TlsError};

/// What a connection may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Connections at once; more wait in the kernel's queue.
    pub connections: usize,
    /// Streams at once of one HTTP/2 connection.
    pub streams: u32,
    /// Bytes for the windows of HTTP/2 connections that are larger than they must be, all together: each takes a MiB as long as there
    /// is one.
    pub windows: usize,
    /// Requests beside the first one of their HTTP/2 connection, of all connections together.
    pub beside: usize,
    /// Bytes of a request head.
    pub head_bytes: usize,
    /// Time for a TLS handshake, and for a whole request head.
    pub head_time: Duration,
    /// The window in which `stall_bytes` must move while we wait for a client, either way.
    pub stall_time: Duration,
    /// See `stall_time`.
    pub stall_bytes: u64,
    /// A connection without a request is closed after this.
    pub idle_time: Duration,
    /// Requests in flight get so long to end at shutdown.
    pub shutdown_time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 1024,
            streams: 128,
            windows: 16 << 20,
            beside: 512,
            head_bytes: 32 << 10,
            head_time: Duration::from_secs(30),
            stall_time: Duration::from_secs(30),
            stall_bytes: 1 << 10,
            idle_time: Duration::from_secs(120),
            shutdown_time: Duration::from_secs(10),
        }
    }
}

/// Plain HTTP where others could read it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{address} is not loopback and would speak plain HTTP: give it a certificate, or say insecure = true"
)]
pub struct PlainHttpRefused {
    /// Where.
    pub address: SocketAddr,
}

/// Refuses plain HTTP off loopback unless the configuration says `insecure`.
pub fn check_plain(address: SocketAddr, tls: bool, insecure: bool) -> Result<(), PlainHttpRefused> {
    if tls || insecure || address.ip().is_loopback() { Ok(()) } else { Err(PlainHttpRefused { address }) }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod tls_tests;
