//! Takes the streams that other sites open: control streams go to the machine, questions to the answerer,
//! strangers to the door.
//!
//! Invariants: a peer has a bounded number of questions here at once; a stream that says nothing is closed;
//! nothing a peer sends can end this loop.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use skerry_base::codec;
use skerry_base::{NodeId, SiteId};
use skerry_federation::Message;
use skerry_federation::budget::Class;
use skerry_federation::message::Kind as MessageKind;
use skerry_gateway::service::ErrorKind;
use tokio::io::AsyncWriteExt;
use tokio::sync::Semaphore;

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
/// Messages of one peer that may wait for the machine.
const WAITING: usize = 16;
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

/// Serves until the network closes.
pub(crate) async fn accept(peers: Arc<Peers>, drive: Drive, answerer: Arc<dyn Answerer>, tasks: Tasks) {
    let mut room: BTreeMap<NodeId, Arc<Semaphore>> = BTreeMap::new();
    let doors = Arc::new(Semaphore::new(STRANGERS));
    while let Some((peer, stream)) = peers.net().accept().await {
        match peer {
            Peer::Known(node) => {
                let room = room.entry(node).or_insert_with(|| Arc::new(Semaphore::new(QUESTIONS))).clone();
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
    room: Arc<Semaphore>,
    node: NodeId,
    mut stream: Stream,
) -> Result<(), super::PeerError> {
    let first = tokio::time::timeout(FIRST_WORD, frame::read(&mut stream));
    let Some(first) = first.await.map_err(|_| super::PeerError::Silent)?? else { return Ok(()) };
    if is_word(&first) {
        return answerer.fellow(node, first, stream).await;
    }
    let site = peers.roster.site(node).ok_or(super::PeerError::Senseless("the site left the roster"))?;
    let (marked, question) = mark::read(&first);
    match codec::decode(question)? {
        Request::Control => control(peers, drive, site, node, stream).await,
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
            let asked = (marked, request);
            questions((peers, &*answerer), &room, (site, node), asked, stream).await
        }
    }
}

/// Answers one question, and those that follow where one gives its stream back: for chunks and objects, one after the other.
/// Each is as urgent as it says.
async fn questions(
    (peers, answerer): (&Peers, &dyn Answerer),
    room: &Arc<Semaphore>,
    (site, node): (SiteId, NodeId),
    first: (Option<Class>, Request),
    mut stream: Stream,
) -> Result<(), super::PeerError> {
    let mut next = Some(first);
    while let Some((marked, request)) = next {
        let class = marked.or(uplink::class(&request)).unwrap_or(Class::Read);
        stream.rank(class);
        // Who says marks reads them.
        let asker = Asker { site, class, unpacks: marked.is_some() };
        let held = match peers.uplink.may_ask(node, &request, class) {
            Ok(held) => held,
            Err(message) => return refuse(&mut stream, class, message).await,
        };
        let permit = room.clone().acquire_owned().await.ok();
        let Some(kept) = answerer.answer(asker, request, stream).await? else { return Ok(()) };
        stream = kept;
        // A stream that waits takes nothing from questions that are asked.
        drop((held, permit));
        next = another(&mut stream).await?;
    }
    Ok(())
}

/// The next question for a chunk or an object; none where the asker has ended the stream, or has asked nothing for long.
async fn another(stream: &mut Stream) -> Result<Option<(Option<Class>, Request)>, super::PeerError> {
    let Ok(frame) = tokio::time::timeout(NEXT_WORD, frame::read(stream)).await else { return Ok(None) };
    let Some(frame) = frame? else { return Ok(None) };
    let (marked, question) = mark::read(&frame);
    match codec::decode(question)? {
        request @ (Request::Chunk { .. } | Request::Through(_) | Request::Tail(_) | Request::Read(_)) => {
            Ok(Some((marked, request)))
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
    peers: &Peers,
    drive: &Drive,
    site: SiteId,
    node: NodeId,
    mut stream: Stream,
) -> Result<(), super::PeerError> {
    let waiting = Arc::new(Semaphore::new(WAITING));
    // An answer to what is heard before the link is known goes nowhere.
    peers.heed.wait().await;
    while let Some(bytes) = frame::read(&mut stream).await? {
        peers.hear(site);
        let crossed = bytes.len();
        // One of a later release, or damage of its making: what comes after it may be understood.
        let message = match read(bytes) {
            Ok(message) => message,
            Err(error) => {
                tracing::debug!(%node, %error, "a message was passed over");
                continue;
            }
        };
        if message.kind() == MessageKind::Record {
            peers.received(node, Kind::Record, crossed);
        }
        let Ok(permit) = waiting.clone().acquire_owned().await else { return Ok(()) };
        drive.received(site, message, permit);
    }
    Ok(())
}

fn read(frame: Vec<u8>) -> Result<Message, super::PeerError> {
    Ok(Message::decode(&packed::open(frame)?)?)
}
