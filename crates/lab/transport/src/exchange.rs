//! What is said, whatever carries it: a question of five bytes on a stream of its own, and an answer of so many bytes.
//!
//! Invariants: both ends say how urgent what they write is; an answer has exactly the length that was asked for.

use std::io;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::carriers::Pipe;

/// A chunk of a body, as sites ask for them.
pub(crate) const CHUNK: u32 = 1 << 20;
/// The answer to a question that somebody waits for.
pub(crate) const SMALL: u32 = 100;
/// How long a stream waits for its next question, and an answer may take.
const IDLE: Duration = Duration::from_secs(120);
const BULK: u8 = b'b';
const URGENT: u8 = b's';
const USAGE: u8 = b'u';

/// What one end has used since it started.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct Usage {
    /// Processor seconds, its own and the kernel's on its behalf.
    pub(crate) cpu_s: f64,
    /// Resident memory.
    pub(crate) rss_kib: u64,
}

impl Usage {
    /// This process's.
    pub(crate) fn own() -> Self {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        let cpu_s = time.tv_sec as f64 + time.tv_nsec as f64 / 1e9;
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let rss_kib = line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or_default();
        Self { cpu_s, rss_kib }
    }
}

/// Answers the questions of one stream.
pub(crate) async fn answer(mut pipe: Box<dyn Pipe>) {
    // A stream that ends or breaks has nobody left to tell.
    while let Ok(Ok(())) = tokio::time::timeout(IDLE, answer_to(&mut pipe)).await {}
}

async fn answer_to(pipe: &mut Box<dyn Pipe>) -> io::Result<()> {
    let kind = pipe.read_u8().await?;
    let bytes = pipe.read_u32().await?;
    pipe.urgent(kind != BULK);
    if kind == USAGE {
        let text = serde_json::to_vec(&Usage::own())?;
        pipe.write_u32(text.len() as u32).await?;
        pipe.write_all(&text).await?;
    } else {
        pipe.write_all(&vec![7; bytes.min(CHUNK) as usize]).await?;
    }
    pipe.flush().await
}

/// Asks for bytes on a stream of its own; `taken` hears of each piece as it comes.
pub(crate) async fn ask(
    mut pipe: Box<dyn Pipe>,
    urgent: bool,
    bytes: u32,
    taken: impl FnMut(usize),
) -> io::Result<()> {
    ask_on(&mut pipe, urgent, bytes, taken).await?;
    pipe.shutdown().await
}

/// The same on a stream on which others were asked before, or will be.
pub(crate) async fn ask_on(
    pipe: &mut Box<dyn Pipe>,
    urgent: bool,
    bytes: u32,
    mut taken: impl FnMut(usize),
) -> io::Result<()> {
    let mut question = [if urgent { URGENT } else { BULK }, 0, 0, 0, 0];
    question[1..].copy_from_slice(&bytes.to_be_bytes());
    pipe.write_all(&question).await?;
    pipe.flush().await?;
    let mut piece = vec![0; bytes.min(64 << 10) as usize];
    let mut left = bytes as usize;
    while left > 0 {
        let room = left.min(piece.len());
        let got = pipe.read(&mut piece[..room]).await?;
        if got == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        left -= got;
        taken(got);
    }
    Ok(())
}

/// What the other end has used.
pub(crate) async fn usage(mut pipe: Box<dyn Pipe>) -> io::Result<Usage> {
    pipe.write_all(&[USAGE, 0, 0, 0, 0]).await?;
    pipe.flush().await?;
    let mut text = vec![0; pipe.read_u32().await?.min(4096) as usize];
    pipe.read_exact(&mut text).await?;
    pipe.shutdown().await?;
    Ok(serde_json::from_slice(&text)?)
}
