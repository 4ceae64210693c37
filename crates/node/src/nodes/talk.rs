//! Words between the nodes of a site: one stream to each other node, and one for each question, on the link that members of
//! the federation have.
//!
//! A stream begins with who speaks and goes on only when the other end agrees ([`super::word`]). What cannot be sent at
//! once is lost, as on a wire: beats are only worth something when they are new.
//!
//! Invariants: a word counts only from the node that the roster has in that seat; nothing that another node sends ends
//! more than its stream.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use skerry_base::codec;
use skerry_base::kv::{Table, View};
use skerry_base::{Instant, NodeId};
use skerry_federation::budget::Class;
use skerry_federation::site_view::{Said, Seat};
use skerry_model::Entry;
use tokio::io::AsyncWriteExt;
use tokio::sync::mpsc;

use super::ask::{Ask, Told, ask};
use super::memory::{MET, Unusable};
use super::met::Met;
use super::word::{Hello, Refusal, WORD_BYTES, Word, decode, is_former};
use super::{Event, Nodes, catch_up, gaps, holding, holds, leases, lock, seat_of, uploads};
use crate::net::{Stream, frame};
use crate::peers::PeerError;
use crate::peers::message::Hold;
use crate::peers::serve::ended;
use crate::site::{Site, entry};

/// How long the other end may take for a word: longer than it is listened to anyway.
const PATIENCE: Duration = Duration::from_secs(2);
/// The pause after a refusal: what is wrong takes a person, or a new record, to mend.
const REFUSED: Duration = Duration::from_secs(2);

/// Says what is in `leaving` to whoever fills a seat.
pub(super) async fn speak(site: Arc<Site>, seat: Seat, mut leaving: mpsc::Receiver<Said>) {
    // A word is said at least ten times a second: each is an occasion to look whether somebody is there.
    while leaving.recv().await.is_some() {
        let Some((_, node)) = site.peers.roster.holder(site.nodes.site, seat) else { continue };
        match converse(&site, seat, node, &mut leaving).await {
            Ok(()) => return,
            Err(Silence::Refused(refusal)) => {
                site.nodes.refused(seat, Some(refusal.to_string()));
                if refusal == Refusal::RolledBack {
                    site.nodes.disown().await;
                }
                tokio::time::timeout(REFUSED, drain(&mut leaving)).await.ok();
            }
            Err(Silence::Broken(error)) => {
                tracing::debug!(%node, %error, "no words to another node of this site")
            }
        }
    }
}

/// Throws away what is too old to be said.
async fn drain(leaving: &mut mpsc::Receiver<Said>) {
    while leaving.recv().await.is_some() {}
}

/// Why nobody listens.
#[derive(Debug, thiserror::Error)]
enum Silence {
    #[error("{0}")]
    Refused(Refusal),
    #[error("{0}")]
    Broken(#[from] PeerError),
}

async fn within<T, E: Into<PeerError>>(doing: impl Future<Output = Result<T, E>>) -> Result<T, PeerError> {
    tokio::time::timeout(PATIENCE, doing).await.map_err(|_| PeerError::Silent)?.map_err(Into::into)
}

/// Opens a stream and says everything on it; `Ok` when there is nothing more to be said, ever.
async fn converse(
    site: &Site,
    seat: Seat,
    node: NodeId,
    leaving: &mut mpsc::Receiver<Said>,
) -> Result<(), Silence> {
    let mut stream = within(site.peers.net().open(node)).await?;
    // A beat that waits behind payload is a node that is late.
    stream.rank(Class::Decision);
    let hello = codec::encode(&Word::Hello(site.nodes.hello()));
    within(frame::write(&mut stream, &hello)).await?;
    let answer = within(frame::read_capped(&mut stream, WORD_BYTES)).await?.unwrap_or_default();
    match decode(&answer).map_err(PeerError::from)? {
        Word::Welcome => site.nodes.refused(seat, None),
        Word::Refused(refusal) => return Err(Silence::Refused(refusal)),
        Word::Hello(_) | Word::Said(_) | Word::Ask(_) | Word::Told(_) => {
            return Err(PeerError::Senseless("neither welcomed nor refused").into());
        }
    }
    while leaving.try_recv().is_ok() {}
    while let Some(said) = leaving.recv().await {
        if !holds(site, site.nodes.site, seat, node) {
            return Err(PeerError::Senseless("another machine has the seat now").into());
        }
        within(frame::write(&mut stream, &codec::encode(&Word::said(&said)))).await?;
    }
    Ok(())
}

/// Serves a stream that another node of this site opened with a word.
pub(crate) async fn hear(
    site: &Arc<Site>,
    node: NodeId,
    first: &[u8],
    mut stream: Stream,
) -> Result<(), PeerError> {
    if is_former(first) {
        former(site, node);
    }
    let hello = match decode(first)? {
        Word::Hello(hello) => hello,
        Word::Ask(ask) => return answer(site, node, *ask, stream).await,
        _ => return Err(PeerError::Senseless("no hello")),
    };
    if let Err(refusal) = judge(site, node, &hello) {
        if site.nodes.unheard.is_due(node, site.clock.now()) {
            tracing::warn!(%node, seat = hello.seat.index(), %refusal, "another node of this site is not listened to");
        }
        frame::write(&mut stream, &codec::encode(&Word::Refused(refusal))).await?;
        return Ok(stream.shutdown().await?);
    }
    frame::write(&mut stream, &codec::encode(&Word::Welcome)).await?;
    let Some(events) = &site.nodes.events else { return Ok(()) };
    while let Some(bytes) = frame::read_capped(&mut stream, WORD_BYTES).await? {
        let said = decode(&bytes)?.machine()?;
        if said.from != hello.seat || !holds(site, site.nodes.site, hello.seat, node) {
            return Err(PeerError::Senseless("a word of another seat"));
        }
        let is_news = lock(&site.nodes.met).heard(hello.process, &said);
        if is_news {
            remember(site);
        }
        if events.send(Event::Said(Box::new(said))).await.is_err() {
            return Ok(());
        }
    }
    Ok(())
}

/// A node of a release that holds less for others has no view in common with this one.
fn former(site: &Site, node: NodeId) {
    if let Some((seat, _)) = seat_of(site, node) {
        let reason = "it runs an older release, whose nodes hold less for each other: update it";
        site.nodes.refused(seat, Some(reason.into()));
    }
}

/// Serves a stream on which another node of this site asks something.
async fn answer(site: &Arc<Site>, node: NodeId, ask: Ask, mut stream: Stream) -> Result<(), PeerError> {
    let Some((_, from)) = seat_of(site, node).filter(|_| site.nodes.are_several()) else {
        return Err(PeerError::Senseless("a question of a node of another site"));
    };
    // Whoever asked has gone before its turn came where this node is slow: others are asking now.
    let _permit = tokio::select! {
        permit = site.nodes.asked.clone().acquire_owned() => permit.ok(),
        ended = ended(&mut stream) => return ended,
    };
    let is_hold = matches!(ask, Ask::Hold { .. } | Ask::Have { .. });
    let told = match ask {
        Ask::Hold { epoch, is_bound, hold } => holding::hold(site, from, (epoch, is_bound), hold).await,
        Ask::Have { epoch, bucket, records } => holding::have(site, (from, epoch), bucket, records).await,
        Ask::Holdings { epoch, after, all } => catch_up::answer(site, epoch, after, all).await,
        Ask::Gaps { epoch } => gaps::answer(site, epoch).await,
        Ask::Heads { bucket, key, version } => leases::answer_heads(site, bucket, key, version).await,
        Ask::Page { list, versions } => leases::answer_page(site, list, versions).await,
        Ask::Uploads(wanted) => uploads::answer(site, wanted).await,
    };
    if is_hold {
        site.nodes.note_room(&told);
    }
    let told = told.unwrap_or_else(|error| Told::Not(error.to_string()));
    frame::write(&mut stream, &codec::encode(&Word::Told(told))).await?;
    Ok(stream.shutdown().await?)
}

/// How long a node may take to say how far it is with a large body.
const STAGED: Duration = Duration::from_secs(2);

/// Has another node hold a version ahead of its epoch, so that its payload is there; nothing if it cannot.
pub(crate) async fn hold_ahead(site: &Site, seat: Seat, mut hold: Hold) {
    let mut before = None;
    while let Some((_, node)) = site.peers.roster.holder(site.nodes.site, seat) {
        match ask(site, node, Ask::Hold { epoch: None, is_bound: false, hold: hold.clone() }, STAGED).await {
            Ok(Told::Holding(bytes)) if before.is_none_or(|before| bytes > before) => before = Some(bytes),
            Ok(Told::Held) => return,
            other => {
                tracing::debug!(%node, ?other, "a large body is not held by another node of this site");
                return;
            }
        }
        // It has those, unless it had no memory for them.
        if before.is_some_and(|before| before > 0) {
            hold.payload.clear();
        }
    }
}

fn judge(site: &Site, node: NodeId, hello: &Hello) -> Result<(), Refusal> {
    let nodes = &site.nodes;
    let seats = u8::try_from(nodes.all.len()).unwrap_or(u8::MAX);
    if !nodes.are_several() {
        return Err(Refusal::Alone);
    }
    if hello.seats != seats {
        return Err(Refusal::Seats(seats));
    }
    let is_other = hello.seat != nodes.me && nodes.all.contains(hello.seat);
    if hello.site != nodes.site || !is_other || !holds(site, nodes.site, hello.seat, node) {
        return Err(Refusal::Seat);
    }
    let is_news = lock(&nodes.met).greet(hello)?;
    if is_news {
        remember(site);
    }
    Ok(())
}

/// Writes down whom this node met. Nobody waits for it: what is lost is only a chance to find a rolled-back disk.
fn remember(site: &Site) {
    let nodes = site.nodes.clone();
    // Read when it is written, so that of two the later one is not the older.
    let write = move |_: &dyn View| {
        let value = Some(Bytes::from(codec::encode(&*lock(&nodes.met))));
        Ok(((), vec![entry(&Entry::Local { key: Bytes::from_static(MET), value })]))
    };
    let done = |result: Result<(), skerry_storage::CommitError<std::convert::Infallible>>| {
        if let Err(error) = result {
            tracing::warn!(%error, "what other nodes promised could not be stored");
        }
    };
    site.store.submit(write, done);
}

impl Met {
    /// What was stored; nothing at first.
    pub(super) fn read(view: &dyn View) -> Result<Self, Unusable> {
        let found = view.get(Table::Local, MET).map_err(|error| Unusable::Index(error.to_string()))?;
        Ok(found.map(|bytes| Self::decode(bytes.as_ref())).transpose()?.unwrap_or_default())
    }
}

impl Nodes {
    fn hello(&self) -> Hello {
        let memory = lock(&self.memory).map(|memory| (memory.start, memory.promised));
        let seats = u8::try_from(self.all.len()).unwrap_or(u8::MAX);
        Hello { site: self.site, seat: self.me, seats, process: self.process, memory }
    }

    async fn disown(&self) {
        if let Some(events) = &self.events {
            events.send(Event::Disowned).await.ok();
        }
    }

    /// When a seat was heard last.
    pub(super) fn heard(&self, seat: Seat) -> Option<Instant> {
        lock(&self.shown).heard.get(seat.index()).copied().flatten()
    }
}
