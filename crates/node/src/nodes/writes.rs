//! Writes of this node on their way to scope `site`: who waits for them, and what is asked of whom.
//!
//! A write is durable here before the machine hears of it; so this node's own copy is answered for at once. The machine
//! says whom to ask in which epoch, and asks again; an answer counts in the epoch of its question.
//!
//! What a decision rests on is bound to the view that it was made in: it is durable at all holders of that one, or it is
//! not said to be.
//!
//! Invariants: what nobody waits for any more is given up, at the latest when the machine asks for it again; of one
//! question one exchange is on its way at a time; what waits at once is bounded in bytes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use skerry_base::limits::FEED_BODY_BYTES;
use skerry_base::{BucketId, Dot, Instant};
use skerry_federation::site_view::{Input, Seat};
use skerry_model::Record;
use tokio::sync::{SemaphorePermit, oneshot};

use super::ask::{Ask, Told, ask};
use super::refusing::hindrance;
use super::{Event, Nodes, lock};
use crate::peers::message::Hold;
use crate::site::Site;

/// How long a write waits for the site: what the limits of the machine keep a stall below.
pub(crate) const STALL: Duration = Duration::from_secs(2);
/// Bytes of writes that wait at once: a tenth of a second of a LAN of 100 Mbit/s. More wait in order, so that a burst
/// makes nobody late.
const ROOM: usize = 1 << 20;
/// What room is counted in.
const UNIT: usize = 1 << 10;

/// How many units of room there are.
pub(super) const UNITS: usize = ROOM / UNIT;

/// What the other nodes are to have.
#[derive(Debug, Clone)]
pub(crate) enum Load {
    /// A version, record and payload.
    Version(Hold),
    /// Records alone.
    Records(BucketId, Vec<Bytes>),
}

impl Load {
    fn bytes(&self) -> usize {
        match self {
            Self::Version(hold) => hold.record.len() + hold.payload.iter().map(Bytes::len).sum::<usize>(),
            Self::Records(_, records) => records.iter().map(Bytes::len).sum(),
        }
    }

    /// What it is, if a feed would bring its body along.
    fn version(&self) -> Option<(BucketId, Dot)> {
        let Self::Version(hold) = self else { return None };
        let bytes = hold.payload.iter().map(Bytes::len).sum::<usize>();
        let record = Record::admit(&hold.record).ok().filter(|_| bytes > FEED_BODY_BYTES)?;
        Some((record.bucket, record.dot))
    }

    fn question(self, epoch: u64, is_bound: bool) -> Ask {
        match self {
            Self::Version(hold) => Ask::Hold { epoch: Some(epoch), is_bound, hold },
            Self::Records(bucket, records) => Ask::Have { epoch, bucket, records },
        }
    }
}

/// Why something does not become the site's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unsettled {
    /// There is no room for it.
    #[error("too many writes wait for the site's other nodes")]
    Full,
    /// What it was bound to is over.
    #[error("the view of the site changed")]
    Turned,
    /// A node does not keep what it is about.
    #[error("{0}")]
    Never(String),
    /// It would wait for nodes that cannot hold what others write.
    #[error("{0}")]
    Refused(String),
    /// Not in time; who kept it waiting.
    #[error("{0}")]
    Late(String),
    /// The process ends.
    #[error("the server is stopping")]
    Stopping,
}

/// One write.
#[derive(Debug)]
struct Open {
    load: Load,
    /// The version, if its body is one that travels on feeds within the site.
    version: Option<(BucketId, Dot)>,
    /// Whether it is bound to its view.
    is_bound: bool,
    end: oneshot::Sender<Result<(), Unsettled>>,
    /// Who is being asked, and in which epoch.
    asked: BTreeMap<Seat, u64>,
    /// Why somebody did not hold it when last asked.
    reasons: BTreeMap<Seat, String>,
}

/// All of them, by the number that the machine knows.
#[derive(Debug, Default)]
pub(super) struct Writes {
    last: u64,
    open: BTreeMap<u64, Open>,
}

/// What is to be done about a question of the machine.
pub(super) enum Question {
    /// Nobody waits for that write any more.
    Over,
    /// It is being asked already.
    OnItsWay,
    /// Ask it.
    Ask(Box<Ask>),
}

/// A write that waits; given up when it is dropped.
struct Waiting<'a> {
    nodes: &'a Nodes,
    number: u64,
    _room: Option<SemaphorePermit<'a>>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if lock(&self.nodes.writes).open.remove(&self.number).is_some()
            && let Some(events) = &self.nodes.events
        {
            // If there is no room for it the machine is told when it asks again.
            events.try_send(Event::input(Input::GiveUp(self.number))).ok();
        }
    }
}

impl Nodes {
    async fn begin(
        &self,
        load: Load,
        bound: Option<u64>,
    ) -> Option<(Waiting<'_>, oneshot::Receiver<Result<(), Unsettled>>)> {
        let units = u32::try_from((load.bytes() / UNIT + 1).min(UNITS)).unwrap_or(1);
        let room = self.room.acquire_many(units).await.ok();
        let (end, ended) = oneshot::channel();
        let number = {
            let mut writes = lock(&self.writes);
            writes.last += 1;
            let number = writes.last;
            let is_bound = bound.is_some();
            let version = load.version();
            let open =
                Open { load, version, is_bound, end, asked: BTreeMap::new(), reasons: BTreeMap::new() };
            writes.open.insert(number, open);
            number
        };
        let waiting = Waiting { nodes: self, number, _room: room };
        let begins = Event::input(Input::Write { write: number, bound });
        self.events.as_ref()?.send(begins).await.ok()?;
        Some((waiting, ended))
    }

    /// What becomes of a question of the machine.
    pub(super) fn question(&self, write: u64, to: Seat, epoch: u64) -> Question {
        let mut writes = lock(&self.writes);
        let Some(open) = writes.open.get_mut(&write) else { return Question::Over };
        if to == self.me {
            return Question::OnItsWay;
        }
        match open.asked.insert(to, epoch) {
            Some(before) if before == epoch => Question::OnItsWay,
            _ => Question::Ask(Box::new(open.load.clone().question(epoch, open.is_bound))),
        }
    }

    fn answered(&self, (write, to, epoch): (u64, Seat, u64), reason: Option<String>, now: Instant) {
        let mut writes = lock(&self.writes);
        let Some(open) = writes.open.get_mut(&write) else { return };
        if open.asked.get(&to) == Some(&epoch) {
            open.asked.remove(&to);
        }
        match reason {
            Some(reason) => open.reasons.insert(to, reason),
            None => {
                if let Some(version) = open.version {
                    self.note_held(epoch, to, version, now);
                }
                open.reasons.remove(&to)
            }
        };
    }

    /// The machine has done with a write.
    pub(super) fn end(&self, write: u64, end: Result<(), Unsettled>) {
        if let Some(open) = lock(&self.writes).open.remove(&write) {
            open.end.send(end).ok();
        }
    }

    /// Nobody need wait: a node that cannot hold is in the view, and the view cannot go on without it.
    pub(super) fn end_all(&self, why: &str) {
        for (_, open) in std::mem::take(&mut lock(&self.writes).open) {
            open.end.send(Err(Unsettled::Refused(why.to_owned()))).ok();
        }
    }

    fn reasons(&self, write: u64) -> BTreeMap<Seat, String> {
        let writes = lock(&self.writes);
        let Some(open) = writes.open.get(&write) else { return BTreeMap::new() };
        let silent = open.asked.keys().map(|seat| (*seat, "it does not answer".to_owned()));
        let mut reasons: BTreeMap<Seat, String> = silent.collect();
        reasons.extend(open.reasons.clone());
        reasons
    }
}

/// Asks another node to hold a write, and tells the machine if it does.
pub(super) async fn have_held(site: Arc<Site>, to: Seat, (write, epoch): (u64, u64), question: Ask) {
    let nodes = &site.nodes;
    let told = match site.peers.roster.holder(nodes.site, to) {
        None => Err("nobody fills its seat".to_owned()),
        Some((_, node)) => ask(&site, node, question, STALL).await.map_err(|error| error.to_string()),
    };
    if let Ok(Told::Never(why)) = told {
        // At once: else the machine would find that node late, and leave it out.
        nodes.end(write, Err(Unsettled::Never(format!("{}: {why}", name(&site, to)))));
        if let Some(events) = &nodes.events {
            events.send(Event::input(Input::GiveUp(write))).await.ok();
        }
        return;
    }
    let reason = match told {
        Ok(Told::Held) => None,
        Ok(Told::Holding(bytes)) => Some(format!("it has {bytes} bytes of it so far")),
        Ok(Told::Not(why)) => Some(why),
        Ok(_) => Some("it answered something else".into()),
        Err(why) => Some(why),
    };
    let is_held = reason.is_none();
    nodes.answered((write, to, epoch), reason, site.clock.now());
    if let Some(events) = nodes.events.as_ref().filter(|_| is_held) {
        events.send(Event::input(Input::Held { write, epoch, by: to })).await.ok();
    }
}

/// Waits until what is durable here is durable at all live nodes of the site, those of one view if it is bound to that; or
/// says who kept it waiting.
pub(crate) async fn settle(site: &Arc<Site>, load: Load, bound: Option<u64>) -> Result<(), Unsettled> {
    if let Some(why) = hindrance(site) {
        return Err(Unsettled::Refused(why));
    }
    let mut began = None;
    let ending = async {
        let (waiting, ended) = site.nodes.begin(load, bound).await?;
        began = Some(waiting);
        ended.await.ok()
    };
    match tokio::time::timeout(STALL, ending).await {
        Ok(ended) => ended.unwrap_or(Err(Unsettled::Stopping)),
        Err(_) => Err(Unsettled::Late(match began {
            Some(waiting) => said(site, &site.nodes.reasons(waiting.number)),
            None => "too many bytes of other writes wait for the site's nodes".into(),
        })),
    }
}

fn name(site: &Site, seat: Seat) -> String {
    let holder = site.peers.roster.holder(site.nodes.site, seat);
    holder.map_or_else(|| format!("seat {}", seat.index()), |(member, _)| site.peers.roster.name(member))
}

fn said(site: &Site, reasons: &BTreeMap<Seat, String>) -> String {
    let all: BTreeSet<String> =
        reasons.iter().map(|(seat, why)| format!("{}: {why}", name(site, *seat))).collect();
    match all.is_empty() {
        true => "no majority of the site's nodes agrees on who counts".into(),
        false => all.into_iter().collect::<Vec<_>>().join("; "),
    }
}
