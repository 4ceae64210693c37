//! One link: a proven TLS connection that carries many streams, and the pings that measure it.
//!
//! Invariants: one task owns the connection; when it ends, for whatever reason, the token is cancelled before
//! anything else, so that streams fail instead of ending; the memory of a link is bounded by its windows, that of all links by
//! what is left unread ([`super::backlog`]); what streams write waits for its turn ([`super::turns`]), pings do not.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufWriter};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};
use tokio::time::Instant;
use tokio_util::compat::{Compat, FuturesAsyncReadCompatExt, TokioAsyncReadCompatExt};
use tokio_util::sync::CancellationToken;

use skerry_federation::rest::{OFTEN, turn};

use super::backlog::{Backlog, Counted, Held, Inlet};
use super::mux::HEAD_BYTES;
use super::sever::Severable;
use super::turns::{FRAME_BYTES, Gate, Outlet, Turned};
use super::{Stream, pace};

/// Streams that this side holds open on a link; more wait.
const OPEN_STREAMS: usize = 64;
/// Streams that carry links of others, opened by this side; more are refused.
const CIRCUITS: usize = skerry_federation::circuits::CARRIED_PER_SITE;
/// Streams of both sides together before the multiplexer ends the link: room for those that one side has
/// dropped and the other not yet.
const ALL_STREAMS: usize = 256;
/// What streams that are read quickly may have of receive window beyond what each begins with: without it a stream carries
/// a quarter of a MiB per round trip at most, however fast the line.
const GROWTH_BYTES: usize = 16 << 20;
/// Receive windows of all streams of a link, where the backlog has room for them. The multiplexer sets aside what
/// every stream that there may be begins with; only what is beyond that lets a window grow.
const WINDOW_BYTES: usize = ALL_STREAMS * yamux::DEFAULT_CREDIT as usize + GROWTH_BYTES;
/// A ping that is not answered in this time ends the link. The kernel notices sooner when packets get lost;
/// this is for a process that hangs.
const PONG_WITHIN: Duration = Duration::from_secs(60);
/// Spans of which the shortest round trip counts: the others waited in queues.
const SAMPLES: usize = 5;
/// So long they are: who asks again and again while nothing comes, and is answered in the end, has not found out that the way is long.
const SPAN: Duration = Duration::from_secs(10);
/// The number of the dialler's first stream: the control stream.
const CONTROL: u32 = 1;

/// Questions whether the other end is there that may wait for their answers.
const PROBES: usize = 8;

/// Asks the other end of the link whether it is there, now.
type Probe = oneshot::Sender<()>;

/// Asks the task of the link for a stream.
type Ask = oneshot::Sender<Result<yamux::Stream, yamux::ConnectionError>>;

/// A link as others hold it.
pub(super) struct Link {
    asks: mpsc::Sender<Ask>,
    probes: mpsc::Sender<Probe>,
    permits: Arc<Semaphore>,
    circuits: Arc<Semaphore>,
    served: Arc<Semaphore>,
    gate: Arc<Gate>,
    held: Arc<Held>,
    token: CancellationToken,
    rtt: Arc<Mutex<RoundTrips>>,
    /// How long it may be silent before the other end is asked whether it is there.
    rests: watch::Sender<Duration>,
}

/// What a link does with streams that the other side opens.
pub(super) type Inbound = Box<dyn FnMut(Stream) + Send>;

impl Link {
    /// The link over `socket` and its task, which runs until the link ends or `token` is cancelled. What is not read of it counts
    /// in the backlog; where others carry it what nobody reads is closed sooner.
    pub(super) fn new<S>(
        socket: S,
        dialler: bool,
        token: CancellationToken,
        inbound: Inbound,
        (backlog, is_carried): (&Arc<Backlog>, bool),
    ) -> (Self, impl Future<Output = ()> + Send + use<S>)
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let mut config = yamux::Config::default();
        config.set_max_num_streams(ALL_STREAMS);
        config.set_max_connection_receive_window(Some(WINDOW_BYTES));
        config.set_split_send_size(FRAME_BYTES);
        let mode = if dialler { yamux::Mode::Client } else { yamux::Mode::Server };
        // The writer joins a frame's header and body into one record.
        let socket = BufWriter::with_capacity(FRAME_BYTES + HEAD_BYTES, socket);
        let gate = Gate::new();
        let held = Held::new(backlog, is_carried);
        let socket = Outlet::new(socket, gate.clone(), CONTROL);
        let socket = Inlet::new(socket, held.clone(), token.clone()).compat();
        let connection = yamux::Connection::new(socket, config, mode);
        let (asks, asked) = mpsc::channel(OPEN_STREAMS);
        let (control, controlled) = oneshot::channel();
        let (probes, probed) = mpsc::channel(PROBES);
        let rtt = Arc::new(Mutex::new(RoundTrips::default()));
        let [permits, circuits, served] =
            [OPEN_STREAMS, CIRCUITS, ALL_STREAMS].map(|most| Arc::new(Semaphore::new(most)));
        let (turns, control) = (gate.clone(), Some(control));
        let (reads, serves) = (held.clone(), served.clone());
        let driver = Driver {
            connection,
            asked,
            waiting: None,
            control,
            dialler,
            turns,
            held: reads,
            serves,
            inbound,
        };
        let (rests, rest) = watch::channel(OFTEN);
        let pinger = Pinger { probed, rest, rtt: rtt.clone(), dialler };
        let task = run(driver, token.clone(), controlled, pinger);
        (Self { asks, probes, permits, circuits, served, gate, held, token, rtt, rests }, task)
    }

    /// Lets it be silent for so long from now on, before it asks whether the other end is there.
    pub(super) fn rest(&self, every: Duration) {
        self.rests.send_if_modified(|now| std::mem::replace(now, every) != every);
    }

    /// Asks now, and waits for nothing: a link whose other end is gone ends by it.
    pub(super) fn doubt(&self) {
        // With as many questions under way it is in doubt already.
        self.probes.try_send(oneshot::channel().0).ok();
    }

    /// Opens a stream; `None` when the link has ended.
    pub(super) async fn open(&self) -> Option<Stream> {
        let permit = self.token.run_until_cancelled(self.permits.clone().acquire_owned()).await?.ok()?;
        self.open_with(permit).await
    }

    /// Opens one that carries a link of others; `None` also when there is no room.
    pub(super) async fn open_circuit(&self) -> Option<Stream> {
        let permit = self.circuits.clone().try_acquire_owned().ok()?;
        self.open_with(permit).await
    }

    async fn open_with(&self, permit: OwnedSemaphorePermit) -> Option<Stream> {
        let (ask, answer) = oneshot::channel();
        let open = async {
            self.asks.send(ask).await.ok()?;
            answer.await.ok()?.ok()
        };
        let stream = self.token.run_until_cancelled(open).await??;
        Some(Box::new(turned(stream, (&self.gate, &self.held), &self.token).holding(permit)))
    }

    /// Streams that this side holds open.
    pub(super) fn opened(&self) -> usize {
        OPEN_STREAMS - self.permits.available_permits()
    }

    /// Whether a stream of either side is open.
    pub(super) fn is_used(&self) -> bool {
        self.opened() > 0 || self.served.available_permits() < ALL_STREAMS
    }

    pub(super) fn rtt(&self) -> Option<Duration> {
        self.rtt.lock().unwrap_or_else(PoisonError::into_inner).shortest()
    }

    /// Waits until the process at the other end has answered a ping that is sent now; false when the link ends before.
    pub(super) async fn answers(&self) -> bool {
        let (probe, answered) = oneshot::channel();
        self.probes.send(probe).await.is_ok() && answered.await.is_ok()
    }

    /// Ends the link; its streams fail.
    pub(super) fn sever(&self) {
        self.token.cancel();
    }
}

/// A stream whose bytes count until they are read.
type Read = Counted<Compat<yamux::Stream>>;

fn counted(stream: yamux::Stream, held: &Arc<Held>) -> Read {
    let number = stream.id().val();
    Counted::new(stream.compat(), held, number)
}

/// A stream that waits for its turn, and fails with the link.
fn turned(
    stream: yamux::Stream,
    (gate, held): (&Arc<Gate>, &Arc<Held>),
    token: &CancellationToken,
) -> Severable<Turned<Read>> {
    let number = stream.id().val();
    let stream = Turned::new(counted(stream, held), gate, number);
    let seat = stream.seat();
    Severable::new(stream, token, None).seated(seat)
}

async fn run<S>(
    mut driver: Driver<S>,
    token: CancellationToken,
    control: oneshot::Receiver<Read>,
    pinger: Pinger,
) where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let mut ended = None;
    {
        let pinging = async {
            match control.await {
                Ok(stream) => pinger.ping(stream).await,
                Err(_) => std::future::pending().await,
            }
        };
        tokio::select! {
            () = token.cancelled() => {}
            () = pinging => tracing::debug!("a peer did not answer a ping"),
            error = poll_fn(|cx| driver.poll(cx, &token)) => ended = error,
        }
    }
    token.cancel();
    if let Some(error) = ended {
        tracing::debug!(%error, "link ended");
    }
}

/// Owns the connection.
struct Driver<S> {
    connection: yamux::Connection<Compat<Inlet<Outlet<BufWriter<S>>>>>,
    asked: mpsc::Receiver<Ask>,
    waiting: Option<Ask>,
    /// Where the control stream goes once it is there.
    control: Option<oneshot::Sender<Read>>,
    dialler: bool,
    turns: Arc<Gate>,
    held: Arc<Held>,
    /// A permit for each stream that the other side opened.
    serves: Arc<Semaphore>,
    inbound: Inbound,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Driver<S> {
    /// Ready when the connection has ended, with the reason if there is one.
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        token: &CancellationToken,
    ) -> Poll<Option<yamux::ConnectionError>> {
        loop {
            if let Some(error) = self.poll_outbound(cx) {
                return Poll::Ready(Some(error));
            }
            match self.connection.poll_next_inbound(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(error)),
                Poll::Ready(Some(Ok(stream))) => self.take(stream, token),
            }
        }
    }

    fn take(&mut self, stream: yamux::Stream, token: &CancellationToken) {
        if !self.dialler && stream.id().val() == CONTROL {
            if let Some(control) = self.control.take() {
                // Refused only when the link is ending.
                let _ = control.send(counted(stream, &self.held));
            }
        } else {
            let stream = turned(stream, (&self.turns, &self.held), token);
            // There are as many as the multiplexer lets be.
            (self.inbound)(match self.serves.clone().try_acquire_owned() {
                Ok(permit) => Box::new(stream.holding(permit)),
                Err(_) => Box::new(stream),
            });
        }
    }

    /// Opens what was asked for; the dialler's control stream before anything else.
    fn poll_outbound(&mut self, cx: &mut Context<'_>) -> Option<yamux::ConnectionError> {
        if self.dialler && self.control.is_some() {
            match self.connection.poll_new_outbound(cx) {
                Poll::Pending => return None,
                Poll::Ready(Err(error)) => return Some(error),
                Poll::Ready(Ok(stream)) => {
                    let stream = counted(stream, &self.held);
                    let _ = self.control.take().map(|control| control.send(stream));
                }
            }
        }
        loop {
            if self.waiting.is_none() {
                match self.asked.poll_recv(cx) {
                    Poll::Ready(Some(ask)) => self.waiting = Some(ask),
                    Poll::Ready(None) | Poll::Pending => return None,
                }
            }
            match self.connection.poll_new_outbound(cx) {
                Poll::Pending => return None,
                Poll::Ready(stream) => {
                    // Whoever asked may have gone; the stream is closed by its drop then.
                    let _ = self.waiting.take().map(|ask| ask.send(stream));
                }
            }
        }
    }
}

const PING: u8 = 0;
const PONG: u8 = 1;

/// What the task that pings wakes up for.
enum Woken {
    Word([u8; 9]),
    Probe(Probe),
    Rest,
    Time,
}

/// When this end asks next: at first at once, to measure. The ends take turns: who was asked asks next, a little sooner than
/// the other would again.
struct Turns {
    every: Duration,
    asked: Option<Instant>,
    heard: Option<Instant>,
    next: Instant,
}

impl Turns {
    const fn begun(now: Instant) -> Self {
        Self { every: OFTEN, asked: None, heard: None, next: now }
    }

    /// The other end asked. However often it does, this end asks in time to measure the round trip.
    fn heard(&mut self, now: Instant) {
        self.heard = Some(now);
        if let Some(asked) = self.asked {
            self.next = (now + turn(self.every)).min(asked + self.every * 2);
        }
    }

    /// The other end answered. If both had asked at once the dialler's turn comes first.
    fn answered(&mut self, now: Instant, dialler: bool) {
        let crossed = self.heard >= self.asked;
        self.next = now + if crossed && dialler { turn(self.every) } else { self.every };
    }

    /// Another pause; what is overdue by it comes now.
    fn rest(&mut self, every: Duration) {
        self.every = every;
        if let Some(asked) = self.asked {
            self.next = self.heard.map_or(asked, |heard| heard.max(asked)) + every;
        }
    }
}

/// Pings and answers pings on the control stream.
struct Pinger {
    probed: mpsc::Receiver<Probe>,
    rest: watch::Receiver<Duration>,
    rtt: Arc<Mutex<RoundTrips>>,
    dialler: bool,
}

impl Pinger {
    /// Returns when the other side does not answer.
    async fn ping(self, stream: Read) {
        let Self { mut probed, mut rest, rtt, dialler } = self;
        let (mut reader, mut writer) = tokio::io::split(stream);
        let start = pace::now();
        let since = || pace::now().saturating_duration_since(start).as_nanos() as u64;
        let (mut turns, mut deadline): (Turns, Option<Instant>) = (Turns::begun(start), None);
        // Those that wait, with the time of the ping that was sent for each: only its answer, or a later one's, says that the
        // other end was there after the question.
        let mut waiting: VecDeque<(u64, Probe)> = VecDeque::new();
        let (words, mut heard) = mpsc::channel(4);
        let reading = async {
            let mut word = [0; 9];
            while reader.read_exact(&mut word).await.is_ok() && words.send(word).await.is_ok() {}
        };
        let talking = async {
            loop {
                let wake = deadline.unwrap_or(turns.next);
                let woken = tokio::select! {
                    word = heard.recv() => word.map_or(Woken::Time, Woken::Word),
                    Some(probe) = probed.recv(), if waiting.len() < PROBES => Woken::Probe(probe),
                    Ok(()) = rest.changed() => Woken::Rest,
                    () = tokio::time::sleep_until(wake) => Woken::Time,
                };
                match woken {
                    Woken::Word([PING, rest @ ..]) => {
                        writer.write_all(&said(PONG, rest)).await?;
                        writer.flush().await?;
                        turns.heard(pace::now());
                    }
                    Woken::Word([PONG, rest @ ..]) => {
                        let sent = u64::from_be_bytes(rest);
                        while let Some((_, probe)) = waiting.pop_front_if(|(asked, _)| *asked <= sent) {
                            // Who asked may have gone.
                            let _ = probe.send(());
                        }
                        let took = Duration::from_nanos(since().saturating_sub(sent));
                        rtt.lock().unwrap_or_else(PoisonError::into_inner).note(took, pace::now());
                        turns.answered(pace::now(), dialler);
                        deadline = None;
                    }
                    Woken::Word(_) => return Err(std::io::ErrorKind::InvalidData.into()),
                    Woken::Rest => turns.rest(*rest.borrow_and_update()),
                    Woken::Time if deadline.is_some() => return Err(std::io::ErrorKind::TimedOut.into()),
                    Woken::Probe(_) | Woken::Time => {
                        let nanos = since();
                        if let Woken::Probe(probe) = woken {
                            waiting.push_back((nanos, probe));
                        }
                        writer.write_all(&said(PING, nanos.to_be_bytes())).await?;
                        writer.flush().await?;
                        turns.asked = Some(pace::now());
                        deadline.get_or_insert(pace::now() + PONG_WITHIN);
                    }
                }
            }
        };
        let ended: std::io::Result<()> = tokio::select! {
            () = reading => Err(std::io::ErrorKind::UnexpectedEof.into()),
            ended = talking => ended,
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "control stream ended");
        }
    }
}

fn said(kind: u8, rest: [u8; 8]) -> [u8; 9] {
    let mut word = [kind; 9];
    for (to, from) in word.iter_mut().skip(1).zip(rest) {
        *to = from;
    }
    word
}

/// Round trips that were measured: the shortest of each span, by its begin.
#[derive(Debug, Default)]
struct RoundTrips(VecDeque<(Instant, Duration)>);

impl RoundTrips {
    fn note(&mut self, took: Duration, now: Instant) {
        match self.0.back_mut().filter(|(begun, _)| now < *begun + SPAN) {
            Some((_, shortest)) => *shortest = took.min(*shortest),
            None => self.0.push_back((now, took)),
        }
        if self.0.len() > SAMPLES {
            self.0.pop_front();
        }
    }

    fn shortest(&self) -> Option<Duration> {
        self.0.iter().map(|(_, took)| *took).min()
    }
}

#[cfg(test)]
#[path = "link_tests.rs"]
mod tests;
