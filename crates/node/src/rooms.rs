//! How the memory there is gets divided: payload on its way, the index, connections.
//!
//! Why: each bound by itself looks modest, and together they were more than a small machine has. Invariants: payload, the index
//! and our part of connections are together about half of the memory, so that the program itself and what the kernel holds for
//! sockets and files (`dirty` is of that) fit beside them; none is above its bound in `base::limits`; each lets at least one
//! chunk through.

use std::path::Path;

use skerry_base::limits::{ARRIVING_BYTES, BACKLOG_BYTES, HOLDING_BYTES, INCOMING_BYTES, OUTGOING_BYTES};

use crate::machine;

/// One chunk fits, and what sealing adds to it.
const LEAST: usize = 2 << 20;
/// More on its way would only wait for a processor.
const PER_PROCESSOR: usize = 8 << 20;
/// The same of uploads: half of it is for chunks that come slowly, which take their room when they begin.
const UPLOADS_PER_PROCESSOR: usize = 16 << 20;
/// The same of what came over links and waits to be read.
const BACKLOG_PER_PROCESSOR: usize = 16 << 20;
/// The same of what is read ahead: a download goes on in pieces beyond it, an upload has to wait.
const AHEAD_PER_PROCESSOR: usize = 4 << 20;
/// A connection takes at most: a small body, the head of a request, buffers of both directions.
const CONNECTION: u64 = 256 << 10;
/// So many connections are let in on the smallest machine.
const CONNECTIONS: usize = 32;
/// For so many connections one request more than one each.
const BESIDE: u64 = 8;
/// Thirty-two connections that upload over a long way.
const WINDOWS: usize = 32 << 20;
/// A stream for each so many bytes of memory, and how many at least and at most.
const STREAM: u64 = 8 << 20;
const STREAMS: (u32, u32) = (16, 128);
/// Documents of requests, twice their length: as they came and as they are read.
const DOCUMENTS: usize = 32 << 20;
/// The index gets at most one part in so many; as much is written and not synced.
const INDEX: u64 = 8;

/// Bytes, but for connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rooms {
    /// What was divided.
    pub(crate) memory: u64,
    /// Chunks of uploads.
    pub(crate) incoming: usize,
    /// Read ahead for downloads.
    pub(crate) outgoing: usize,
    /// Chunks from other sites for downloads that found no room.
    pub(crate) arriving: usize,
    /// Chunks that become copies.
    pub(crate) holding: usize,
    /// What came over links and nobody has read: as much again may lie in the shares of links.
    pub(crate) backlog: usize,
    /// At most for the index.
    pub(crate) index: u64,
    /// At most written and not synced.
    pub(crate) dirty: u64,
    /// Documents of requests that are not small.
    pub(crate) documents: usize,
    /// Connections at most.
    pub(crate) connections: usize,
    /// Streams at most of one HTTP/2 connection: each is as dear as a connection of its own.
    pub(crate) streams: u32,
    /// Requests of HTTP/2 at most that are not the only ones of their connection, all connections together.
    pub(crate) beside: usize,
    /// Windows of HTTP/2 connections that are larger than the one in the room of each connection.
    pub(crate) windows: usize,
}

impl Rooms {
    /// Says it in the log.
    pub(crate) fn tell(&self) {
        let Self {
            memory,
            incoming,
            outgoing,
            arriving,
            holding,
            backlog,
            index,
            dirty,
            documents,
            connections,
            streams,
            beside,
            windows,
        } = self;
        tracing::info!(
            memory,
            incoming,
            outgoing,
            arriving,
            holding,
            backlog,
            index,
            dirty,
            documents,
            connections,
            streams,
            beside,
            windows,
            "memory divided"
        );
    }

    /// Of this machine.
    pub(crate) fn here() -> Self {
        Self::of(machine::memory(Path::new("/")), machine::processors())
    }

    /// Divides so much memory for so many processors.
    pub(crate) fn of(memory: u64, processors: usize) -> Self {
        let part = |share: u64, most: usize, each: usize| {
            let part = usize::try_from(memory / share).unwrap_or(usize::MAX);
            part.min(most).min(processors.saturating_mul(each)).max(LEAST)
        };
        Self {
            memory,
            incoming: part(16, INCOMING_BYTES, UPLOADS_PER_PROCESSOR),
            outgoing: part(32, OUTGOING_BYTES, AHEAD_PER_PROCESSOR),
            arriving: part(32, ARRIVING_BYTES, PER_PROCESSOR),
            holding: part(64, HOLDING_BYTES, PER_PROCESSOR),
            backlog: part(64, BACKLOG_BYTES, BACKLOG_PER_PROCESSOR),
            index: (memory / INDEX).max(LEAST as u64),
            dirty: (memory / INDEX).max(LEAST as u64),
            documents: part(64, DOCUMENTS, DOCUMENTS),
            streams: u32::try_from(memory / STREAM).unwrap_or(u32::MAX).clamp(STREAMS.0, STREAMS.1),
            connections: usize::try_from(memory / CONNECTION).unwrap_or(usize::MAX).max(CONNECTIONS),
            beside: usize::try_from(memory / CONNECTION / BESIDE).unwrap_or(usize::MAX).max(CONNECTIONS),
            windows: part(64, WINDOWS, WINDOWS),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn on_a_machine_with_plenty_processors_bound_what_is_on_its_way() {
        let small = Rooms::of(24 << 30, 2);
        assert_eq!((small.incoming, small.outgoing, small.arriving), (32 << 20, 8 << 20, 16 << 20));
        let large = Rooms::of(24 << 30, 64);
        assert_eq!((large.incoming, large.outgoing), (INCOMING_BYTES, OUTGOING_BYTES));
        assert_eq!((large.arriving, large.holding), (ARRIVING_BYTES, HOLDING_BYTES));
        assert_eq!(Rooms::of(u64::MAX, usize::MAX).incoming, INCOMING_BYTES);
    }

    #[test]
    fn in_128_mib_everything_together_is_about_half() {
        for memory in [128 * MIB, 256 * MIB, 512 * MIB] {
            for processors in [1, 2, 64] {
                let rooms = Rooms::of(memory, processors);
                let payload = rooms.incoming + rooms.outgoing + rooms.arriving + rooms.holding;
                // Of a connection a fourth at most is memory of ours, the rest the kernel's.
                let connections = (rooms.connections + rooms.beside) as u64 * CONNECTION / 4;
                let payload = payload + rooms.backlog * 2;
                let all = (payload + rooms.documents + rooms.windows) as u64 + rooms.index + connections;
                assert!(all <= memory * 39 / 64, "{rooms:?} takes {all}");
            }
        }
        let rooms = Rooms::of(128 * MIB, 2);
        assert_eq!((rooms.incoming, rooms.outgoing), (8 << 20, 4 << 20));
        assert_eq!((rooms.index, rooms.dirty, rooms.connections), (16 * MIB, 16 * MIB, 512));
        assert_eq!((rooms.documents, rooms.streams), (2 << 20, 16));
        assert_eq!((rooms.windows, rooms.beside), (2 << 20, 64));
        assert_eq!(Rooms::of(1 << 30, 2).streams, 128);
    }

    #[test]
    fn on_the_smallest_a_chunk_still_gets_through() {
        let rooms = Rooms::of(0, 1);
        let least = rooms.incoming.min(rooms.outgoing).min(rooms.arriving).min(rooms.holding);
        assert!(least > skerry_base::limits::CHUNK_BYTES);
        assert!(rooms.incoming / 2 >= skerry_base::limits::CHUNK_BYTES, "each half is for whole chunks");
        assert_eq!(rooms.connections, CONNECTIONS);
    }
}
