//! Frames of Cassandra's native protocol, version 4: what the target needs and no more.
//!
//! Why of our own: starting, querying, preparing and executing with blobs are some 200 lines; a driver would bring
//! dozens of crates, a pool and retries between the clock and the wire that we would have to switch off.
//! Invariants: a request is one frame; an answer is read to its end before the next request, and never beyond the
//! length that its header names; hostile lengths end in an error, not in memory.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt};

const REQUEST: u8 = 0x04;
const RESPONSE: u8 = 0x84;
const WITH_WARNINGS: u8 = 0x08;
const WITH_TRACE: u8 = 0x02;
/// Of a header.
const HEADER: usize = 9;
/// The protocol's own limit of a frame.
const FRAME_BYTES: u32 = 256 << 20;
/// Texts and states in answers; values are streamed and may be longer.
const PIECE_BYTES: u32 = 1 << 20;

/// Kinds of frames.
pub(super) mod opcode {
    pub(in crate::rivals) const ERROR: u8 = 0x00;
    pub(in crate::rivals) const STARTUP: u8 = 0x01;
    pub(in crate::rivals) const READY: u8 = 0x02;
    pub(in crate::rivals) const AUTHENTICATE: u8 = 0x03;
    pub(in crate::rivals) const QUERY: u8 = 0x07;
    pub(in crate::rivals) const RESULT: u8 = 0x08;
    pub(in crate::rivals) const PREPARE: u8 = 0x09;
    pub(in crate::rivals) const EXECUTE: u8 = 0x0A;
}

/// Kinds of results.
pub(super) mod result {
    pub(in crate::rivals) const ROWS: i32 = 2;
    pub(in crate::rivals) const PREPARED: i32 = 4;
}

/// How many replicas must answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Consistency(u16);

impl Consistency {
    /// By the name that CQL has for it.
    pub(super) fn of_word(word: &str) -> Option<Self> {
        let known = [
            ("ANY", 0),
            ("ONE", 1),
            ("TWO", 2),
            ("THREE", 3),
            ("QUORUM", 4),
            ("ALL", 5),
            ("LOCAL_QUORUM", 6),
            ("EACH_QUORUM", 7),
            ("LOCAL_ONE", 10),
        ];
        known.iter().find(|(name, _)| *name == word).map(|(_, code)| Self(*code))
    }
}

/// How a statement is to be carried out, beside its text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Options<'a> {
    pub(super) consistency: Consistency,
    pub(super) page: Option<i32>,
    pub(super) state: Option<&'a [u8]>,
}

/// The first frame of a connection.
pub(super) fn startup() -> Vec<u8> {
    let mut body = 1_u16.to_be_bytes().to_vec();
    string(&mut body, "CQL_VERSION");
    string(&mut body, "3.0.0");
    frame(opcode::STARTUP, &body)
}

/// A statement without values.
pub(super) fn query(text: &str, options: Options<'_>) -> Vec<u8> {
    let mut body = length(text.len()).to_vec();
    body.extend_from_slice(text.as_bytes());
    parameters(&mut body, options, 0);
    frame(opcode::QUERY, &body)
}

/// A statement to be executed later.
pub(super) fn prepare(text: &str) -> Vec<u8> {
    let mut body = length(text.len()).to_vec();
    body.extend_from_slice(text.as_bytes());
    frame(opcode::PREPARE, &body)
}

/// A prepared statement with a text and, if `blob` says how long, a blob whose bytes the caller sends afterwards.
pub(super) fn execute(id: &[u8], options: Options<'_>, text: &str, blob: Option<u64>) -> Vec<u8> {
    let mut body = u16::try_from(id.len()).unwrap_or(u16::MAX).to_be_bytes().to_vec();
    body.extend_from_slice(id);
    parameters(&mut body, options, 1 + u16::from(blob.is_some()));
    body.extend_from_slice(&length(text.len()));
    body.extend_from_slice(text.as_bytes());
    let mut follows = 0;
    if let Some(bytes) = blob {
        follows = usize::try_from(bytes).unwrap_or(usize::MAX);
        body.extend_from_slice(&length(follows));
    }
    let mut whole = header(opcode::EXECUTE, body.len().saturating_add(follows));
    whole.append(&mut body);
    whole
}

fn frame(opcode: u8, body: &[u8]) -> Vec<u8> {
    let mut frame = header(opcode, body.len());
    frame.extend_from_slice(body);
    frame
}

fn header(opcode: u8, bytes: usize) -> Vec<u8> {
    let mut header = Vec::with_capacity(HEADER + bytes.min(PIECE_BYTES as usize));
    // Version, no flags, stream 0: one request at a time on a connection.
    header.extend_from_slice(&[REQUEST, 0, 0, 0, opcode]);
    header.extend_from_slice(&length(bytes));
    header
}

fn length(bytes: usize) -> [u8; 4] {
    i32::try_from(bytes).unwrap_or(i32::MAX).to_be_bytes()
}

fn string(body: &mut Vec<u8>, text: &str) {
    body.extend_from_slice(&u16::try_from(text.len()).unwrap_or(u16::MAX).to_be_bytes());
    body.extend_from_slice(text.as_bytes());
}

fn parameters(body: &mut Vec<u8>, options: Options<'_>, values: u16) {
    const VALUES: u8 = 0x01;
    const PAGE: u8 = 0x04;
    const STATE: u8 = 0x08;
    body.extend_from_slice(&options.consistency.0.to_be_bytes());
    let flag = |set: bool, flag: u8| if set { flag } else { 0 };
    body.push(
        flag(values > 0, VALUES) | flag(options.page.is_some(), PAGE) | flag(options.state.is_some(), STATE),
    );
    if values > 0 {
        body.extend_from_slice(&values.to_be_bytes());
    } else if let Some(page) = options.page {
        body.extend_from_slice(&page.to_be_bytes());
        if let Some(state) = options.state {
            body.extend_from_slice(&length(state.len()));
            body.extend_from_slice(state);
        }
    }
}

/// An answer, read a piece at a time.
#[derive(Debug)]
pub(super) struct Answer<'a, R> {
    pub(super) opcode: u8,
    reader: &'a mut R,
    left: u32,
}

impl<'a, R: AsyncRead + Unpin + Send> Answer<'a, R> {
    /// Waits for the header of an answer.
    pub(super) async fn read(reader: &'a mut R) -> io::Result<Self> {
        let mut header = [0; HEADER];
        reader.read_exact(&mut header).await?;
        let [version, flags, _, _, opcode, length @ ..] = header;
        let left = u32::from_be_bytes(length);
        if version != RESPONSE {
            return Err(wrong(format!("version byte {version:#04x}, not {RESPONSE:#04x}")));
        }
        if left > FRAME_BYTES {
            return Err(wrong(format!("a frame of {left} bytes")));
        }
        let mut answer = Self { opcode, reader, left };
        if flags & WITH_TRACE != 0 {
            answer.skip(16).await?;
        }
        if flags & WITH_WARNINGS != 0 {
            for _ in 0..answer.short().await? {
                answer.text().await?;
            }
        }
        Ok(answer)
    }

    fn count(&mut self, bytes: u32) -> io::Result<()> {
        self.left = self.left.checked_sub(bytes).ok_or_else(|| wrong("more than the frame holds".into()))?;
        Ok(())
    }

    /// An unsigned number of two bytes.
    pub(super) async fn short(&mut self) -> io::Result<u16> {
        self.count(2)?;
        self.reader.read_u16().await
    }

    /// A number of four bytes.
    pub(super) async fn int(&mut self) -> io::Result<i32> {
        self.count(4)?;
        self.reader.read_i32().await
    }

    /// Bytes with their length in two bytes before them.
    pub(super) async fn short_bytes(&mut self) -> io::Result<Vec<u8>> {
        let length = self.short().await?;
        self.piece(u32::from(length)).await
    }

    /// A text with its length in two bytes before it.
    pub(super) async fn text(&mut self) -> io::Result<String> {
        Ok(String::from_utf8_lossy(&self.short_bytes().await?).into_owned())
    }

    /// The length of a value; none if it is null.
    pub(super) async fn value(&mut self) -> io::Result<Option<u32>> {
        Ok(u32::try_from(self.int().await?).ok())
    }

    /// So many bytes; not for payload.
    pub(super) async fn piece(&mut self, length: u32) -> io::Result<Vec<u8>> {
        if length > PIECE_BYTES {
            return Err(wrong(format!("a piece of {length} bytes")));
        }
        self.count(length)?;
        let mut piece = vec![0; length as usize];
        self.reader.read_exact(&mut piece).await?;
        Ok(piece)
    }

    /// Payload, given on as it comes.
    pub(super) async fn stream(&mut self, length: u32, mut take: impl FnMut(&[u8]) + Send) -> io::Result<()> {
        self.count(length)?;
        let mut buffer = vec![0; 64 << 10];
        let mut left = length as usize;
        while left > 0 {
            let room = left.min(buffer.len());
            let Some(piece) = buffer.get_mut(..room) else { break };
            let read = self.reader.read(piece).await?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            take(piece.get(..read).unwrap_or_default());
            left -= read;
        }
        Ok(())
    }

    async fn skip(&mut self, length: u32) -> io::Result<()> {
        self.stream(length, |_| ()).await
    }

    /// Reads what is left, so that the connection can be used again.
    pub(super) async fn finish(&mut self) -> io::Result<()> {
        self.skip(self.left).await
    }

    /// What stands before the rows of a result: its columns and where the next page begins.
    pub(super) async fn rows(&mut self) -> io::Result<Rows> {
        const GLOBAL: i32 = 1;
        const MORE: i32 = 2;
        const BARE: i32 = 4;
        let flags = self.int().await?;
        let columns = self.int().await?;
        let mut state = None;
        if flags & MORE != 0 {
            let length = self.value().await?.unwrap_or(0);
            state = Some(self.piece(length).await?);
        }
        if flags & BARE == 0 {
            if flags & GLOBAL != 0 {
                self.text().await?;
                self.text().await?;
            }
            for _ in 0..columns {
                if flags & GLOBAL == 0 {
                    self.text().await?;
                    self.text().await?;
                }
                self.text().await?;
                self.plain_type().await?;
            }
        }
        let count = self.int().await?;
        Ok(Rows { count, state })
    }

    /// The type of a column. Ours have types without parameters.
    async fn plain_type(&mut self) -> io::Result<()> {
        match self.short().await? {
            kind @ (0x00 | 0x20..) => Err(wrong(format!("a column of type {kind:#06x}"))),
            _ => Ok(()),
        }
    }
}

/// What is known of rows before they come.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Rows {
    pub(super) count: i32,
    pub(super) state: Option<Vec<u8>>,
}

fn wrong(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("not Cassandra's protocol version 4: {what}"))
}

#[cfg(test)]
#[path = "cql_tests.rs"]
mod tests;
