//! Takes the streams that other sites open: control streams go to the machine, questions to the answerer,
//! strangers to the door.
//!
//! Invariants: a peer has a bounded number of questions here at once, and of messages that wait for the machine, over all its
//! streams, and what is large is not read before there is room for it; a stream that says nothing is closed, and a question whose
//! asker has gone before its turn came is not answered; nothing a peer sends can end this loop.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::FutureExt as _;
use skerry_base::codec;
use skerry_base::{NodeId, SiteId};
use skerry_federation::Message;
use skerry_federation::budget::Class;
use skerry_federation::message::Kind as MessageKind;
use skerry_gateway::service::ErrorKind;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::message::{Request, Response};
use super::{Peers, circuits, mark, packed, uplink};
use crate::drive::Drive;
use crate::net::tcp::STRANGERS;
use crate::net::{Peer, Stream, frame};
use crate::nodes::is_word;
use crate::tasks::Tasks;
use crate::telemetry::Kind;
use crate::trust::PublicKey;

/// Questions of one peer that are answered at once; more wait in the link.
pub(crate) const QUESTIONS: usize = 64;
/// Messages of one peer that may wait for the machine, over all its streams.
const WAITING: usize = 16;
/// Streams of one peer for messages: it uses two, and twice as many where a link takes the place of another.
const CONTROLS: usize = 4;
/// A question above this is read when its turn has come: as many as there are streams would be a gigabyte.
const LARGE_BYTES: usize = 64 << 10;
/// How long a stream may be open without a word.
pub(super) const FIRST_WORD: Duration = Duration::from_secs(30);
/// The same after an answer behind which another question may follow. Who asked keeps it half as long.
pub(super) const NEXT_WORD: Duration = Duration::from_secs(120);

/// Who asks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asker {
    /// The site.
    pub(crate) site: SiteId,
    /// How urgent it is. What this site has to fetch for the answer is as urgent.
    pub(crate) class: Class,
    /// Whether it reads packed answers.
    pub(crate) unpacks: bool,
}

impl Asker {
    /// Who takes what it is told as it is.
    pub(crate) const fn plain(site: SiteId, class: Class) -> Self {
        Self { site, class, unpacks: false }
    }
}

/// Answers questions.
#[async_trait]
pub(crate) trait Answerer: Send + Sync + 'static {
    /// Answers on the stream; an error is logged and closes it. Gives it back where another question may follow.
    async fn answer(
        &self,
        from: Asker,
        request: Request,
        stream: Stream,
    ) -> Result<Option<Stream>, super::PeerError>;

    /// Another node of this site, or one that takes itself for it, with the first word on its stream.
    async fn fellow(&self, node: NodeId, first: Vec<u8>, stream: Stream) -> Result<(), super::PeerError>;

    /// A node that wants to join.
    async fn stranger(&self, key: PublicKey, stream: Stream);
}

/// What one peer may have here at once.
struct Room {
    questions: Arc<Semaphore>,
    controls: Semaphore,
    waiting: Arc<Semaphore>,
}

impl Default for Room {
    fn default() -> Self {
        let [questions, waiting] = [QUESTIONS, WAITING].map(|most| Arc::new(Semaphore::new(most)));
        Self { questions, controls: Semaphore::new(CONTROLS), waiting }
    }
}

/// A question as it came, and its turn if it had to have that to be read.
type Read = (Vec<u8>, Option<OwnedSemaphorePermit>);

impl Room {
    /// The turn of a question that has come over this stream; none where the asker has gone meanwhile. What nobody waits for any
    /// more would keep those waiting who ask now: a disk that hangs for a minute leaves a minute of questions behind.
    async fn turn(&self, stream: &mut Stream) -> Result<Option<OwnedSemaphorePermit>, super::PeerError> {
        if let Ok(turn) = self.questions.clone().try_acquire_owned() {
            return Ok(Some(turn));
        }
        tokio::select! {
            turn = self.questions.clone().acquire_owned() => Ok(turn.ok()),
            ended = ended(stream) => ended.map(|()| None),
        }
    }

    /// The next question of a stream; none where the peer ended it.
    async fn question(
        &self,
        stream: &mut Stream,
        patience: Duration,
    ) -> Result<Option<Read>, super::PeerError> {
        let silent = |_| super::PeerError::Silent;
        let head = tokio::time::timeout(patience, frame::read_length(stream));
        let Some(length) = head.await.map_err(silent)?? else { return Ok(None) };
        let turn = match length > LARGE_BYTES {
            true => self.questions.clone().acquire_owned().await.ok(),
            false => None,
        };
        let message = tokio::time::timeout(FIRST_WORD, frame::read_message(stream, length));
        Ok(Some((message.await.map_err(silent)??, turn)))
    }
}

/// Returns when nothing more comes: who asks says nothing before it has its answer.
pub(crate) async fn ended(stream: &mut Stream) -> Result<(), super::PeerError> {
    match stream.read(&mut [0]).await {
        Ok(0) | Err(_) => Ok(()),
        Ok(_) => Err(super::PeerError::Senseless("more than a question before its answer")),
    }
}

/// Serves until the network closes.
pub(crate) async fn accept(peers: Arc<Peers>, drive: Drive, answerer: Arc<dyn Answerer>, tasks: Tasks) {
    let mut room: BTreeMap<NodeId, Arc<Room>> = BTreeMap::new();
    let doors = Arc::new(Semaphore::new(STRANGERS));
    while let Some((peer, stream)) = peers.net().accept().await {
        match peer {
            Peer::Known(node) => {
                let room = room.entry(node).or_default().clone();
                let (peers, drive, answerer) = (peers.clone(), drive.clone(), answerer.clone());
                tasks.spawn(async move {
                    if let Err(error) = one(&peers, &drive, answerer, room, node, stream).await {
                        tracing::debug!(%node, %error, "a question was not answered");
                    }
                });
            }
            Peer::Stranger(key) => {
                let Ok(permit) = doors.clone().try_acquire_owned() else { continue };
                let answerer = answerer.clone();
                tasks.spawn(async move {
                    tokio::time::timeout(FIRST_WORD, answerer.stranger(key, stream)).await.ok();
                    drop(permit);
                });
            }
        }
    }
}

async fn one(
    peers: &Peers,
    drive: &Drive,
    answerer: Arc<dyn Answerer>,
    room: Arc<Room>,
    node: NodeId,
    mut stream: Stream,
) -> Result<(), super::PeerError> {
    let Some((first, turn)) = room.question(&mut stream, FIRST_WORD).await? else { return Ok(()) };
    if peers.roster.site(node).is_some_and(|site| peers.kept_out.contains(site)) {
        return Err(super::PeerError::Senseless("the site is not heard before this one was started anew"));
    }
    if is_word(&first) {
        drop(turn);
        return answerer.fellow(node, first, stream).await;
    }
    let site = peers.roster.site(node).ok_or(super::PeerError::Senseless("the site left the roster"))?;
    let (marked, question) = mark::read(&first);
    match codec::decode(question)? {
        Request::Control => {
            // Those of a link that is no more end by themselves. Whoever opens others beside them gets no further.
            let turn = tokio::time::timeout(FIRST_WORD, room.controls.acquire());
            let _turn = turn.await.map_err(|_| super::PeerError::Silent)?;
            control((peers, drive), &room, (site, node), stream).await
        }
        Request::Circuit(circuit) => {
            stream.rank(Class::Read);
            circuits::serve(peers, (site, node), circuit, stream).await
        }
        Request::Give { token } => peers.given((site, node), token, stream).await,
        Request::Words { .. } => {
            let words = codec::encode(&Response::Words { dialect: mark::DIALECT });
            Ok(frame::write(&mut stream, &words).await?)
        }
        request => {
            let asked = (marked, request, turn);
            questions((peers, &*answerer), &room, (site, node), asked, stream).await
        }
    }
}

/// A question, how urgent it says that it is, and its turn if it has that already.
type Asked = (Option<Class>, Request, Option<OwnedSemaphorePermit>);

/// Answers one question, and those that follow where one gives its stream back: for chunks and objects, one after the other.
/// Each is as urgent as it says.
async fn questions(
    (peers, answerer): (&Peers, &dyn Answerer),
    room: &Room,
    (site, node): (SiteId, NodeId),
    first: Asked,
    mut stream: Stream,
) -> Result<(), super::PeerError> {
    let mut next = Some(first);
    while let Some((marked, request, turn)) = next {
        let class = marked.or(uplink::class(&request)).unwrap_or(Class::Read);
        stream.rank(class);
        // Who says marks reads them.
        let asker = Asker { site, class, unpacks: marked.is_some() };
        let held = match peers.uplink.may_ask(node, &request, class) {
            Ok(held) => held,
            Err(message) => return refuse(&mut stream, class, message).await,
        };
        let turn = match turn {
            // What is large had its turn before it was read.
            Some(turn) => ended(&mut stream).now_or_never().is_none().then_some(turn),
            None => room.turn(&mut stream).await?,
        };
        let Some(turn) = turn else { return Ok(()) };
        let Some(kept) = answerer.answer(asker, request, stream).await? else { return Ok(()) };
        stream = kept;
        // A stream that waits takes nothing from questions that are asked.
        drop((held, turn));
        next = another(room, &mut stream).await?;
    }
    Ok(())
}

/// The next question for a chunk or an object; none where the asker has ended the stream, or has asked nothing for long.
async fn another(room: &Room, stream: &mut Stream) -> Result<Option<Asked>, super::PeerError> {
    let (frame, turn) = match room.question(stream, NEXT_WORD).await {
        Err(super::PeerError::Silent) => return Ok(None),
        asked => match asked? {
            Some(asked) => asked,
            None => return Ok(None),
        },
    };
    let (marked, question) = mark::read(&frame);
    match codec::decode(question)? {
        request @ (Request::Chunk { .. } | Request::Through(_) | Request::Tail(_) | Request::Read(_)) => {
            Ok(Some((marked, request, turn)))
        }
        _ => Err(super::PeerError::Senseless("another question than for payload behind one")),
    }
}

/// This end of the link is metered, too. Who has copies made asks another site for a while.
async fn refuse(stream: &mut Stream, class: Class, message: String) -> Result<(), super::PeerError> {
    let kind = if class == Class::Copy { ErrorKind::Unavailable } else { ErrorKind::Unreachable };
    let code = kind.code().to_owned();
    frame::write(stream, &codec::encode(&Response::Refused { code, message })).await?;
    Ok(stream.shutdown().await?)
}

async fn control(
    (peers, drive): (&Peers, &Drive),
    room: &Room,
    (site, node): (SiteId, NodeId),
    mut stream: Stream,
) -> Result<(), super::PeerError> {
    // An answer to what is heard before the link is known goes nowhere.
    peers.heed.wait().await;
    while let Some(length) = frame::read_length(&mut stream).await? {
        // Before it is read and unpacked: both take memory.
        let Ok(permit) = room.waiting.clone().acquire_owned().await else { return Ok(()) };
        let bytes = frame::read_message(&mut stream, length).await?;
        peers.hear(site);
        let crossed = bytes.len();
        // One of a later release, or damage of its making: what comes after it may be understood.
        let message = match read(bytes).await {
            Some(Ok(message)) => message,
            // Whoever opens the stream again tells anew what was in it.
            None => return Ok(()),
            Some(Err(error)) => {
                tracing::debug!(%node, %error, "a message was passed over");
                continue;
            }
        };
        if message.kind() == MessageKind::Record {
            peers.received(node, Kind::Record, crossed);
        }
        drive.received(site, message, permit);
    }
    Ok(())
}

/// A long one is read beside the runtime's threads: some thousand records take milliseconds, in which clients would wait. None if
/// that came to no end.
async fn read(frame: Vec<u8>) -> Option<Result<Message, super::PeerError>> {
    let open = |frame| Ok(Message::decode(&packed::open(frame)?)?);
    if packed::plain_length(&frame) < packed::ASIDE_BYTES {
        return Some(open(frame));
    }
    let read = tokio::task::spawn_blocking(move || open(frame)).await;
    read.inspect_err(|error| {
        if error.is_panic() {
            tracing::error!(%error, "reading a message panicked");
        }
    })
    .ok()
}
