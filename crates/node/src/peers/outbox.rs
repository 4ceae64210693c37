//! Control streams to other sites: two per link, fed by the federation machine. One is for signs of life alone: behind a
//! heap of records on a slow link they would come too late to be any.
//!
//! Invariants: sending never waits, what does not fit within the link's bounds is dropped (every message is
//! idempotent and asked for again); the machine is told of a link only when its outbox stands; a stream that ends while its
//! link stands is opened again, and the machine is told as of a new link: what was lost with it is asked for anew.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use skerry_base::codec;
use skerry_base::{NodeId, SiteId};
use skerry_federation::budget::Class;
use skerry_federation::limits::LINK_BYTES;
use skerry_federation::message::Kind as MessageKind;
use skerry_federation::rest::crowded;
use skerry_federation::{Input, Message};
use skerry_gateway::service::Bound;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::doubts::Doubts;
use super::message::Request;
use super::packed::packed;
use super::{Dialect, PeerError, Peers, Speech};
use crate::changes::Changes;
use crate::drive::Drive;
use crate::net::LinkEvent;
use crate::net::frame::{self, FrameError};
use crate::tasks::{Tasks, rest};
use crate::telemetry::Kind;

/// Bytes of short messages that may wait beside those: that records found no room is said all the same, or who asked for them
/// would wait until he takes them for lost.
const SHORT_BYTES: usize = 256 << 10;
/// The longest of them.
const SHORT: u32 = 4 << 10;
/// Bytes of signs of life that may wait beside them: a heap of records keeps none out.
const SIGNS_BYTES: usize = 64 << 10;
/// Messages that may wait for one link: after a cut there may be news of tens of thousands of buckets at once, and what is
/// dropped of them is told only with the next check. Their bytes are bounded beside.
const WAITING_MESSAGES: usize = 32 << 10;
/// How often round trips are told to the machine, and whether a metered link has room for records.
const RTT_PERIOD: Duration = Duration::from_secs(10);
/// Links that are asked because one broke, where there are very many. Each of them that is gone has as many asked: of a
/// thousand dead ones all are found in four rounds of what a dead path takes.
const SOME: usize = 8;
/// The pause before a stream that ended is opened again; twice as long each time that it ends at once.
const AGAIN: Duration = Duration::from_secs(1);
/// The longest such pause.
const AGAIN_AT_MOST: Duration = Duration::from_secs(60);
/// A stream that was open for so long did not end at once.
const STOOD: Duration = Duration::from_secs(60);
/// Who hung up so often on the question what it understands is taken for a release that does not know the question.
const HUNG_UP: u32 = 3;

/// What who does not know the question understands.
const OLDEST: u8 = 1;

type Waiting = (Vec<u8>, MessageKind, OwnedSemaphorePermit);

/// What waits for one stream, and room for it.
struct Queue {
    waiting: mpsc::Sender<Waiting>,
    room: Arc<Semaphore>,
    /// For what is short and found none in it.
    spare: Arc<Semaphore>,
}

impl Queue {
    fn of(bytes: usize, spare: usize) -> (Self, mpsc::Receiver<Waiting>) {
        let (waiting, queued) = mpsc::channel(WAITING_MESSAGES);
        let room = |bytes| Arc::new(Semaphore::new(bytes));
        (Self { waiting, room: room(bytes), spare: room(spare) }, queued)
    }

    /// Room for so many bytes, if there is any.
    fn room(&self, bytes: u32) -> Option<OwnedSemaphorePermit> {
        let of = |room: &Arc<Semaphore>| room.clone().try_acquire_many_owned(bytes).ok();
        of(&self.room).or_else(|| if bytes <= SHORT { of(&self.spare) } else { None })
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

/// The outboxes by site, how many links there were, and how many messages found no room.
#[derive(Default)]
pub(crate) struct Outboxes(Mutex<BTreeMap<SiteId, Outbox>>, AtomicU64, AtomicU64);

impl Outboxes {
    /// Sends if there is room; false if it was dropped.
    pub(crate) fn send(&self, to: SiteId, message: &Message) -> bool {
        let boxes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(outbox) = boxes.get(&to) else { return false };
        let bytes = message.encode();
        let weight = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let queue = if message.is_datagram() { &outbox.signs } else { &outbox.records };
        let sent = queue
            .room(weight)
            .is_some_and(|permit| queue.waiting.try_send((bytes, message.kind(), permit)).is_ok());
        if !sent {
            self.2.fetch_add(1, Ordering::Relaxed);
        }
        sent
    }

    /// How many messages to sites with a link were dropped.
    pub(crate) fn dropped(&self) -> u64 {
        self.2.load(Ordering::Relaxed)
    }

    /// What waits for the link that most waits for.
    pub(crate) fn bounds(&self) -> [Bound; 2] {
        let boxes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let records = || boxes.values().map(|outbox| &outbox.records);
        let messages = records().map(|queue| WAITING_MESSAGES.saturating_sub(queue.waiting.capacity())).max();
        let bytes = records().map(|queue| LINK_BYTES.saturating_sub(queue.room.available_permits())).max();
        [
            Bound::bytes("outbox", LINK_BYTES as u64, bytes.unwrap_or(0) as u64),
            Bound::places("outbox_messages", WAITING_MESSAGES, messages.unwrap_or(0)),
        ]
    }

    /// Sites with a link, and the node at its other end.
    fn nodes(&self) -> Vec<(SiteId, NodeId)> {
        let boxes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        boxes.iter().map(|(site, outbox)| (*site, outbox.node)).collect()
    }

    /// Sites with a link.
    pub(crate) fn linked(&self) -> Vec<SiteId> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).keys().copied().collect()
    }

    /// Whether there is a link to a site.
    pub(crate) fn is_linked(&self, site: SiteId) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains_key(&site)
    }

    /// The same with the number of each link.
    pub(crate) fn links(&self) -> BTreeMap<SiteId, u64> {
        let boxes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        boxes.iter().map(|(site, outbox)| (*site, outbox.number)).collect()
    }

    /// Whether this link to a site stands.
    fn stands(&self, site: SiteId, number: u64) -> bool {
        self.while_linked(site, number, || ())
    }

    /// Says something of a link, unless it is gone: that it is gone is said later then.
    fn while_linked(&self, site: SiteId, number: u64, say: impl FnOnce()) -> bool {
        let boxes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let stands = boxes.get(&site).is_some_and(|outbox| outbox.number == number);
        if stands {
            say();
        }
        stands
    }

    /// Takes all room that records have on the link to a site, as a heap of them would.
    #[cfg(test)]
    pub(crate) fn fill(&self, to: SiteId) -> Option<OwnedSemaphorePermit> {
        let boxes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let room = boxes.get(&to)?.records.room.clone();
        let free = u32::try_from(room.available_permits()).ok()?;
        room.try_acquire_many_owned(free).ok()
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

/// Follows the links until the network closes: makes outboxes, tells the machine, and then whoever waits.
pub(crate) async fn follow(
    peers: Arc<Peers>,
    boxes: Arc<Outboxes>,
    drive: Drive,
    (tasks, changes): (Tasks, Changes),
) {
    let (mut links, mut asked) = (peers.net().links(), peers.heed.asked());
    let mut ticks = tokio::time::interval(RTT_PERIOD);
    let (metered, spent, doubts) = (None, BTreeSet::new(), Doubts::default());
    let mut follower = Follower { peers, boxes, drive, tasks, changes, metered, spent, doubts };
    loop {
        tokio::select! {
            event = links.next() => match event {
                Some(event) => follower.happened(event),
                None => return,
            },
            _ = asked.changed() => {
                let number = *asked.borrow_and_update();
                // All that happened before it was asked.
                while let Some(event) = links.next().now_or_never() {
                    let Some(event) = event else { return };
                    follower.happened(event);
                }
                follower.peers.heed.tell(number);
            }
            _ = ticks.tick() => follower.look(),
        }
    }
}

/// What follows the links.
struct Follower {
    peers: Arc<Peers>,
    boxes: Arc<Outboxes>,
    drive: Drive,
    tasks: Tasks,
    changes: Changes,
    metered: Option<Rest>,
    spent: BTreeSet<SiteId>,
    doubts: Doubts,
}

impl Follower {
    fn happened(&mut self, event: LinkEvent) {
        let Self { peers, boxes, drive, tasks, changes, metered, doubts, .. } = self;
        match event {
            LinkEvent::Up(node) => up(peers, boxes, drive, tasks, node),
            LinkEvent::Down(node) => {
                down(peers, boxes, drive, node);
                if metered.is_none() {
                    doubt_some(peers);
                }
                doubts.broke();
                doubt(peers, metered.as_ref(), doubts);
            }
        }
        // Whoever waits for somebody to be reached looks now, not when the machine says next that a site lives.
        changes.world();
    }

    /// Now and then, whatever happens.
    fn look(&mut self) {
        let Self { peers, boxes, drive, metered, spent, doubts, .. } = self;
        boxes.linked().into_iter().for_each(|site| tell_rtt(peers, drive, site));
        let rest = rest_of(peers);
        if rest != *metered {
            let (every, free) = rest.clone().unzip();
            drive.tell(Input::Metered { every, free: free.unwrap_or_default() });
            *metered = rest;
        }
        doubt(peers, metered.as_ref(), doubts);
        let now = peers.uplink.spent(Class::Record, boxes.nodes().into_iter());
        if now != *spent {
            *spent = now;
            drive.tell(Input::Spent(spent.clone()));
        }
    }
}

/// How long a metered site's links rest, and which of them cost nothing.
type Rest = (Duration, BTreeSet<SiteId>);

/// The same for this site, if it is metered: by all sites there are, so that it does not change with each link.
fn rest_of(peers: &Peers) -> Option<Rest> {
    let me = peers.net().node();
    let others = peers.roster.all().into_iter().map(|(site, known)| (site, known.key.node()));
    peers.uplink.rest(others.filter(|(_, node)| *node != me))
}

/// A link broke where there are so many that each rests for minutes: some others are asked, so that a dead modem is found in a
/// few rounds, and a site that was switched off costs no more than that.
fn doubt_some(peers: &Peers) {
    if crowded(peers.roster.count() as u64).is_some() {
        peers.net().doubt(SOME);
    }
}

/// Asks on all links of a metered site if one of them broke, once that may be.
fn doubt(peers: &Peers, metered: Option<&Rest>, doubts: &mut Doubts) {
    match metered {
        Some((every, _)) if doubts.are_due(*every, peers.clock().now()) => peers.net().doubt(usize::MAX),
        Some(_) => {}
        None => doubts.forget(),
    }
}

fn tell_rtt(peers: &Peers, drive: &Drive, site: SiteId) {
    let rtt = peers.roster.node(site).and_then(|node| peers.net().rtt(node));
    if let Some(rtt) = rtt {
        drive.tell(Input::Rtt { site, rtt });
    }
}

fn up(peers: &Arc<Peers>, boxes: &Arc<Outboxes>, drive: &Drive, tasks: &Tasks, node: NodeId) {
    let Some(site) = peers.roster.site(node).filter(|site| !peers.kept_out.knocks(*site)) else { return };
    let (records, waiting) = Queue::of(LINK_BYTES, SHORT_BYTES);
    let (signs, urgent) = Queue::of(SIGNS_BYTES, 0);
    let number = boxes.1.fetch_add(1, Ordering::Relaxed);
    boxes.put(site, Outbox { records, signs, node, number });
    let peers = peers.clone();
    let speech = peers.meet(node);
    tell_rtt(&peers, drive, site);
    drive.tell(Input::LinkUp(site));
    let (boxes, drive) = (boxes.clone(), drive.clone());
    let line = Line { peers, boxes, drive, site, node, number, speech };
    tasks.spawn(line.clone().learn());
    for (class, waiting) in [(Class::Decision, urgent), (Class::Record, waiting)] {
        tasks.spawn(line.clone().keep_pouring(class, waiting));
    }
}

fn down(peers: &Peers, boxes: &Outboxes, drive: &Drive, node: NodeId) {
    peers.part(node);
    if let Some(site) = boxes.remove(node) {
        drive.tell(Input::LinkDown(site));
    }
}

/// One link, as its streams are kept.
#[derive(Clone)]
struct Line {
    peers: Arc<Peers>,
    boxes: Arc<Outboxes>,
    drive: Drive,
    site: SiteId,
    node: NodeId,
    number: u64,
    speech: Speech,
}

impl Line {
    /// Asks until it is known what the other end understands. A question whose stream is dropped, as where too many wait, looks
    /// like one that a release of before does not know: only who hangs up again and again is taken for such a one, and even
    /// then asked now and then.
    async fn learn(self) {
        let (mut hung_up, mut pause) = (0, AGAIN);
        while self.stands() {
            let dialect = self.peers.dialect(self.site).await;
            if !self.stands() {
                return;
            }
            match dialect {
                Dialect::Said(dialect) => {
                    self.speech.set(dialect);
                    return self.speaks(dialect);
                }
                Dialect::HungUp => hung_up += 1,
                Dialect::Unheard => {}
            }
            if dialect == Dialect::HungUp && hung_up == HUNG_UP {
                self.speaks(OLDEST);
            }
            rest(pause).await;
            pause = (pause * 2).min(AGAIN_AT_MOST);
        }
    }

    fn stands(&self) -> bool {
        self.boxes.stands(self.site, self.number)
    }

    fn speaks(&self, dialect: u8) {
        let input = Input::Speaks { site: self.site, dialect };
        self.boxes.while_linked(self.site, self.number, || self.drive.tell(input));
    }

    /// Keeps a stream open for what waits, until there is no link.
    async fn keep_pouring(self, class: Class, mut waiting: mpsc::Receiver<Waiting>) {
        let (mut pause, mut is_again) = (AGAIN, false);
        loop {
            let begun = self.peers.clock().now();
            match self.pour(class, &mut waiting, is_again).await {
                Ok(()) => return,
                Err(error) => tracing::debug!(node = %self.node, %error, "a control stream ended"),
            }
            if self.peers.clock().now().since(begun) >= STOOD {
                pause = AGAIN;
            }
            // The link may be about to be found broken: then nothing can come any more.
            if !waiting.is_closed() {
                rest(pause).await;
            }
            if waiting.is_closed() {
                return;
            }
            (pause, is_again) = ((pause * 2).min(AGAIN_AT_MOST), true);
        }
    }

    /// Opens a stream and writes what waits, until there is no link.
    async fn pour(
        &self,
        class: Class,
        waiting: &mut mpsc::Receiver<Waiting>,
        is_again: bool,
    ) -> Result<(), PeerError> {
        let mut stream = self.peers.net().open(self.node).await?;
        stream.rank(class);
        frame::write(&mut stream, &codec::encode(&Request::Control)).await?;
        if is_again && class == Class::Record {
            self.tell_anew();
        }
        while let Some((bytes, kind, permit)) = waiting.recv().await {
            // Signs of life hold little but names, and those are random bytes.
            let packs = class == Class::Record && self.speech.has_marks();
            let bytes = if packs { packed(bytes).await } else { bytes.into() };
            match frame::write(&mut stream, &bytes).await {
                Ok(()) => {}
                // Nothing of it was written: what comes after it may go.
                Err(FrameError::TooLong { length, most }) => {
                    tracing::warn!(node = %self.node, length, most, "a message was dropped: it is too long");
                    continue;
                }
                Err(error) => return Err(error.into()),
            }
            if kind == MessageKind::Record {
                self.peers.sent(self.node, Kind::Record, bytes.len());
            }
            drop(permit);
        }
        Ok(())
    }

    /// What was on its way when a stream ended is lost, and nobody knows what it was.
    fn tell_anew(&self) {
        let input = Input::LinkUp(self.site);
        self.boxes.while_linked(self.site, self.number, || self.drive.tell(input));
        if let Some(dialect) = self.speech.said() {
            self.speaks(dialect);
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn what_is_short_finds_room_where_records_find_none() {
        let (queue, _waiting) = Queue::of(64 << 10, 2 * SHORT as usize);
        let records = queue.room(64 << 10).unwrap();
        assert!(queue.room(SHORT + 1).is_none(), "not for records");
        let short = [queue.room(SHORT).unwrap(), queue.room(SHORT).unwrap()];
        assert!(queue.room(1).is_none(), "nor without end");
        drop(records);
        assert!(queue.room(SHORT + 1).is_some());
        drop(short);
        let _all = queue.room(64 << 10).unwrap();
        assert!(queue.room(SHORT).is_some(), "what was said gives its room back");
    }
}
