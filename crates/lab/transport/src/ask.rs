//! The asking end: connects, asks small questions at rest, then chunks and small questions beside each other.
//!
//! Invariants: what is printed is one JSON document a line; figures are of the steady part only, between the lines
//! `begin` and `end`; a small question does not wait for the one before.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use clap::Args;
use serde::Serialize;

use tokio::io::AsyncWriteExt;

use crate::carriers::{self, Carrier, Spec};
use crate::exchange::{self, CHUNK, SMALL, Usage};
use crate::keys;

/// Between small questions.
const EVERY: Duration = Duration::from_millis(100);
/// Small questions at rest.
const AT_REST: usize = 20;
/// How long the last small questions are waited for, and one that cannot be asked is tried again.
const PATIENCE: Duration = Duration::from_secs(60);
/// Every peer fetches so many chunks before its memory is looked at again.
const CHUNKS_PER_PEER: usize = 4;
/// Buffers go back to the system a while after they were used.
const CALM: Duration = Duration::from_secs(3);

/// Ask for chunks and small answers, and print what it was like
#[derive(Debug, Args)]
pub(crate) struct Ask {
    /// As the answering end's
    #[arg(long)]
    transport: String,
    /// Its address
    #[arg(long)]
    to: SocketAddr,
    /// File of `keys`
    #[arg(long)]
    keys: PathBuf,
    /// Chunks on their way at a time
    #[arg(long, default_value_t = 8)]
    ahead: usize,
    /// Seconds before the steady part
    #[arg(long, default_value_t = 5.0)]
    warm: f64,
    /// Seconds of it
    #[arg(long, default_value_t = 20.0)]
    seconds: f64,
    /// Instead: ask small questions only, say `move`, and measure how long no answer comes
    #[arg(long = "move")]
    moves: bool,
    /// Instead: so many peers, and what each costs the answering end in memory
    #[arg(long, value_name = "PEERS")]
    peers: Option<usize>,
}

/// What the steady part was like.
#[derive(Debug, Serialize)]
struct Steady {
    connect_ms: f64,
    at_rest_p50_ms: f64,
    seconds: f64,
    bytes: u64,
    mbit: f64,
    client_cpu_s: f64,
    server_cpu_s: f64,
    client_rss_kib: u64,
    server_rss_kib: u64,
    small_asked: usize,
    small_failed: usize,
    small_p50_ms: f64,
    small_p90_ms: f64,
    small_p99_ms: f64,
    small_max_ms: f64,
}

/// What a change of the own address was like.
#[derive(Debug, Serialize)]
struct Moved {
    /// From the change to the first answer after it.
    outage_ms: Option<f64>,
    /// Questions asked until one was answered.
    asked: usize,
}

/// What peers cost the answering end.
#[derive(Debug, Serialize)]
struct Peers {
    peers: usize,
    idle_kib_per_peer: f64,
    used_kib_per_peer: f64,
}

fn say(event: &str, with: &impl Serialize) {
    let text = serde_json::to_string(with).unwrap_or_default();
    println!("{{\"event\":\"{event}\",\"with\":{text}}}");
    // Who reads it has gone: the end is near anyway.
    let _ = io::stdout().flush();
}

/// Small questions, when they were asked and what became of them.
type Asked = Arc<Mutex<Vec<(Instant, Option<Duration>)>>>;

impl Ask {
    pub(crate) async fn run(self) -> Result<(), String> {
        self.measure().await.map_err(|error| error.to_string())
    }

    async fn measure(self) -> io::Result<()> {
        let spec = Spec::parse(&self.transport).map_err(io::Error::other)?;
        let keys = keys::read(&self.keys).map_err(io::Error::other)?;
        if let Some(peers) = self.peers {
            return self.memory(&spec, &keys, peers).await;
        }
        let begun = Instant::now();
        let links = carriers::dial(&spec, self.to, &keys, spec.links).await?;
        let connect_ms = begun.elapsed().as_secs_f64() * 1e3 / spec.links as f64;
        let first = links.first().cloned().ok_or_else(|| io::Error::other("no link"))?;
        if self.moves {
            return outage(&first).await;
        }
        let at_rest = at_rest(&first).await?;
        self.steady((&links, spec.is_kept), connect_ms, at_rest).await
    }

    async fn steady(
        &self,
        (links, is_kept): (&[Arc<dyn Carrier>], bool),
        connect_ms: f64,
        at_rest: Duration,
    ) -> io::Result<()> {
        let first = links.first().cloned().ok_or_else(|| io::Error::other("no link"))?;
        let (bytes, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        for number in 0..self.ahead {
            let link = links.get(number % links.len()).cloned().unwrap_or_else(|| first.clone());
            tokio::spawn(fetch(link, is_kept, bytes.clone(), stop.clone()));
        }
        tokio::time::sleep(Duration::from_secs_f64(self.warm)).await;
        let server = exchange::usage(first.open(true).await?).await?;
        let (begun, before, own) = (Instant::now(), bytes.load(Ordering::Relaxed), Usage::own());
        say("begin", &());
        let asked = small_questions(&first, Duration::from_secs_f64(self.seconds)).await;
        let (taken, seconds) = (bytes.load(Ordering::Relaxed) - before, begun.elapsed().as_secs_f64());
        let (own_after, server_after) = (Usage::own(), exchange::usage(first.open(true).await?).await?);
        say("end", &());
        stop.store(true, Ordering::Relaxed);
        let spans = answered(&asked).await;
        let asked = asked.lock().unwrap_or_else(PoisonError::into_inner).len();
        say(
            "steady",
            &Steady {
                connect_ms,
                at_rest_p50_ms: at_rest.as_secs_f64() * 1e3,
                seconds,
                bytes: taken,
                mbit: taken as f64 * 8e-6 / seconds,
                client_cpu_s: own_after.cpu_s - own.cpu_s,
                server_cpu_s: server_after.cpu_s - server.cpu_s,
                client_rss_kib: own_after.rss_kib,
                server_rss_kib: server_after.rss_kib,
                small_asked: asked,
                small_failed: asked - spans.len(),
                small_p50_ms: at(&spans, 0.5),
                small_p90_ms: at(&spans, 0.9),
                small_p99_ms: at(&spans, 0.99),
                small_max_ms: at(&spans, 1.0),
            },
        );
        Ok(())
    }

    async fn memory(&self, spec: &Spec, keys: &[Vec<u8>], peers: usize) -> io::Result<()> {
        // The first one pays for what all share.
        let first = carriers::dial(spec, self.to, keys, 1).await?;
        let first = first.first().cloned().ok_or_else(|| io::Error::other("no link"))?;
        exchange::ask(first.open(true).await?, true, SMALL, |_| {}).await?;
        tokio::time::sleep(CALM).await;
        let alone = exchange::usage(first.open(true).await?).await?;
        let others = keys.get(1..).unwrap_or_default();
        let others: Vec<_> = keys.iter().take(1).chain(others.iter().skip(1)).cloned().collect();
        let links = carriers::dial(spec, self.to, &others, peers).await?;
        for link in &links {
            exchange::ask(link.open(true).await?, true, SMALL, |_| {}).await?;
        }
        tokio::time::sleep(CALM).await;
        let idle = exchange::usage(first.open(true).await?).await?;
        for link in &links {
            for _ in 0..CHUNKS_PER_PEER {
                exchange::ask(link.open(false).await?, false, CHUNK, |_| {}).await?;
            }
        }
        tokio::time::sleep(CALM).await;
        let used = exchange::usage(first.open(true).await?).await?;
        let each = |usage: Usage| (usage.rss_kib as f64 - alone.rss_kib as f64) / peers as f64;
        say("peers", &Peers { peers, idle_kib_per_peer: each(idle), used_kib_per_peer: each(used) });
        Ok(())
    }
}

/// The middle of a few small questions while nothing else crosses.
async fn at_rest(link: &Arc<dyn Carrier>) -> io::Result<Duration> {
    let mut spans = Vec::new();
    for _ in 0..AT_REST {
        let begun = Instant::now();
        exchange::ask(link.open(true).await?, true, SMALL, |_| {}).await?;
        spans.push(begun.elapsed());
    }
    spans.sort();
    Ok(spans.get(AT_REST / 2).copied().unwrap_or_default())
}

/// Fetches chunk after chunk.
async fn fetch(link: Arc<dyn Carrier>, is_kept: bool, bytes: Arc<AtomicU64>, stop: Arc<AtomicBool>) {
    // Ends when the link does: nothing more is taken then, which is what is measured.
    let _ = async {
        let mut pipe = link.open(false).await?;
        while !stop.load(Ordering::Relaxed) {
            let count = |taken: usize| {
                bytes.fetch_add(taken as u64, Ordering::Relaxed);
            };
            exchange::ask_on(&mut pipe, false, CHUNK, count).await?;
            if !is_kept {
                pipe.shutdown().await?;
                pipe = link.open(false).await?;
            }
        }
        pipe.shutdown().await
    }
    .await;
}

/// Asks a small question every tenth of a second for so long.
async fn small_questions(link: &Arc<dyn Carrier>, span: Duration) -> Asked {
    let asked = Asked::default();
    let mut ticks = tokio::time::interval(EVERY);
    let begun = Instant::now();
    while begun.elapsed() < span {
        ticks.tick().await;
        let number = {
            let mut asked = asked.lock().unwrap_or_else(PoisonError::into_inner);
            asked.push((Instant::now(), None));
            asked.len() - 1
        };
        let (link, asked) = (link.clone(), asked.clone());
        tokio::spawn(async move {
            let begun = Instant::now();
            if small(&link).await.is_ok() {
                let mut asked = asked.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(entry) = asked.get_mut(number) {
                    entry.1 = Some(begun.elapsed());
                }
            }
        });
    }
    asked
}

async fn small(link: &Arc<dyn Carrier>) -> io::Result<()> {
    let asking = async { exchange::ask(link.open(true).await?, true, SMALL, |_| {}).await };
    tokio::time::timeout(PATIENCE, asking).await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
}

/// How long the answers took, sorted, once all are there or patience ends.
async fn answered(asked: &Asked) -> Vec<Duration> {
    let until = Instant::now() + PATIENCE;
    loop {
        {
            let asked = asked.lock().unwrap_or_else(PoisonError::into_inner);
            if asked.iter().all(|(_, span)| span.is_some()) || Instant::now() > until {
                let mut spans: Vec<_> = asked.iter().filter_map(|(_, span)| *span).collect();
                spans.sort();
                return spans;
            }
        }
        tokio::time::sleep(EVERY).await;
    }
}

fn at(spans: &[Duration], share: f64) -> f64 {
    let place = (spans.len().saturating_sub(1) as f64 * share).round() as usize;
    spans.get(place).map_or(f64::NAN, |span| span.as_secs_f64() * 1e3)
}

/// How long no answer comes after the own address has changed: whoever reads `move` changes it, then says so on our input.
async fn outage(link: &Arc<dyn Carrier>) -> io::Result<()> {
    at_rest(link).await?;
    say("move", &());
    let heard = tokio::task::spawn_blocking(|| io::stdin().read_line(&mut String::new())).await;
    heard.map_err(io::Error::other)??;
    let moved = Instant::now();
    let first = Arc::new(Mutex::new(None));
    let mut asked = 0;
    while moved.elapsed() < PATIENCE && first.lock().unwrap_or_else(PoisonError::into_inner).is_none() {
        asked += 1;
        let (link, first) = (link.clone(), first.clone());
        tokio::spawn(async move {
            if small(&link).await.is_ok() {
                first.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(Instant::now);
            }
        });
        tokio::time::sleep(EVERY).await;
    }
    let first = *first.lock().unwrap_or_else(PoisonError::into_inner);
    let outage_ms = first.map(|first: Instant| (first - moved).as_secs_f64() * 1e3);
    say("moved", &Moved { outage_ms, asked });
    Ok(())
}
