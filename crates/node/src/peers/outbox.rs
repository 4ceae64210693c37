//! Control streams to other sites: two per link, fed by the federation machine. One is for signs of life alone: behind a
//! heap of records on a slow link they would come too late to be any.
//!
//! Invariants: sending never waits, what does not fit within the link's bounds is dropped (every message is
//! idempotent and asked for again); the machine is told of a link only when its outbox stands.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use skerry_base::codec;
use skerry_base::{NodeId, SiteId};
use skerry_federation::budget::Class;
use skerry_federation::message::Kind as MessageKind;
use skerry_federation::{Input, Message};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::message::Request;
use super::packed::packed;
use super::{Peers, Speech};
use crate::drive::Drive;
use crate::net::{LinkEvent, frame};
use crate::tasks::Tasks;
use crate::telemetry::Kind;

/// Bytes that may wait for one link: eight full batches.
const WAITING_BYTES: usize = 8 << 20;
/// Bytes of signs of life that may wait beside them: a heap of records keeps none out.
const SIGNS_BYTES: usize = 64 << 10;
/// Messages that may wait for one link.
const WAITING_MESSAGES: usize = 1024;
/// How often round trips are told to the machine.
const RTT_PERIOD: std::time::Duration = std::time::Duration::from_secs(10);

type Waiting = (Vec<u8>, MessageKind, OwnedSemaphorePermit);

/// What waits for one stream, and room for it.
struct Queue {
    waiting: mpsc::Sender<Waiting>,
    room: Arc<Semaphore>,
}

impl Queue {
    fn of(bytes: usize) -> (Self, mpsc::Receiver<Waiting>) {
        let (waiting, queued) = mpsc::channel(WAITING_MESSAGES);
        (Self { waiting, room: Arc::new(Semaphore::new(bytes)) }, queued)
    }
}

struct Outbox {
    records: Queue,
    /// For what is worth nothing when it is late.
    signs: Queue,
    node: NodeId,
    /// Counts links: another number means that there was none in between.
    number: u64,
}

/// The outboxes by site.
#[derive(Default)]
pub(crate) struct Outboxes(Mutex<BTreeMap<SiteId, Outbox>>, AtomicU64);

impl Outboxes {
    /// Sends if there is room; false if it was dropped.
    pub(crate) fn send(&self, to: SiteId, message: &Message) -> bool {
        let boxes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(outbox) = boxes.get(&to) else { return false };
        let bytes = message.encode();
        let weight = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let queue = if message.is_datagram() { &outbox.signs } else { &outbox.records };
        let Ok(permit) = queue.room.clone().try_acquire_many_owned(weight) else { return false };
        queue.waiting.try_send((bytes, message.kind(), permit)).is_ok()
    }

    /// Sites with a link.
    pub(crate) fn linked(&self) -> Vec<SiteId> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).keys().copied().collect()
    }

    /// The same with the number of each link.
    pub(crate) fn links(&self) -> BTreeMap<SiteId, u64> {
        let boxes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        boxes.iter().map(|(site, outbox)| (*site, outbox.number)).collect()
    }

    fn put(&self, site: SiteId, outbox: Outbox) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(site, outbox);
    }

    fn remove(&self, node: NodeId) -> Option<SiteId> {
        let mut boxes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let site = boxes.iter().find(|(_, outbox)| outbox.node == node).map(|(site, _)| *site)?;
        boxes.remove(&site);
        Some(site)
    }
}

/// Follows the links until the network closes: makes outboxes, tells the machine.
pub(crate) async fn follow(peers: Arc<Peers>, boxes: Arc<Outboxes>, drive: Drive, tasks: Tasks) {
    let mut links = peers.net().links();
    let mut ticks = tokio::time::interval(RTT_PERIOD);
    loop {
        tokio::select! {
            event = links.next() => match event {
                Some(LinkEvent::Up(node)) => up(&peers, &boxes, &drive, &tasks, node),
                Some(LinkEvent::Down(node)) => down(&peers, &boxes, &drive, node),
                None => return,
            },
            _ = ticks.tick() => boxes.linked().into_iter().for_each(|site| tell_rtt(&peers, &drive, site)),
        }
    }
}

fn tell_rtt(peers: &Peers, drive: &Drive, site: SiteId) {
    let rtt = peers.roster.node(site).and_then(|node| peers.net().rtt(node));
    if let Some(rtt) = rtt {
        drive.tell(Input::Rtt { site, rtt });
    }
}

fn up(peers: &Arc<Peers>, boxes: &Outboxes, drive: &Drive, tasks: &Tasks, node: NodeId) {
    let Some(site) = peers.roster.site(node) else { return };
    let (records, waiting) = Queue::of(WAITING_BYTES);
    let (signs, urgent) = Queue::of(SIGNS_BYTES);
    let number = boxes.1.fetch_add(1, Ordering::Relaxed);
    boxes.put(site, Outbox { records, signs, node, number });
    let peers = peers.clone();
    let speech = peers.meet(node);
    tell_rtt(&peers, drive, site);
    drive.tell(Input::LinkUp(site));
    let (asking, drive, heard) = (peers.clone(), drive.clone(), speech.clone());
    tasks.spawn(async move {
        if let Some(dialect) = asking.dialect(site).await {
            heard.set(dialect);
            drive.tell(Input::Speaks { site, dialect });
        }
    });
    for (class, waiting) in [(Class::Decision, urgent), (Class::Record, waiting)] {
        let (peers, speech) = (peers.clone(), speech.clone());
        tasks.spawn(async move {
            if let Err(error) = pour(&peers, (node, class), &speech, waiting).await {
                tracing::debug!(%node, %error, "control stream ended");
            }
        });
    }
}

fn down(peers: &Peers, boxes: &Outboxes, drive: &Drive, node: NodeId) {
    peers.part(node);
    if let Some(site) = boxes.remove(node) {
        drive.tell(Input::LinkDown(site));
    }
}

async fn pour(
    peers: &Peers,
    (node, class): (NodeId, Class),
    speech: &Speech,
    mut waiting: mpsc::Receiver<Waiting>,
) -> Result<(), super::PeerError> {
    let mut stream = peers.net().open(node).await?;
    stream.rank(class);
    frame::write(&mut stream, &codec::encode(&Request::Control)).await?;
    while let Some((bytes, kind, permit)) = waiting.recv().await {
        // Signs of life hold little but names, and those are random bytes.
        let packs = class == Class::Record && speech.has_marks();
        let bytes = if packs { packed(bytes).await } else { bytes.into() };
        frame::write(&mut stream, &bytes).await?;
        if kind == MessageKind::Record {
            peers.sent(node, Kind::Record, bytes.len());
        }
        drop(permit);
    }
    Ok(())
}
