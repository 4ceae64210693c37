//! Writes of this node on their way to scope `site`: who waits for them, and what is asked of whom.
//!
//! A write is durable here before the machine hears of it; so this node's own copy is answered for at once. The machine
//! says whom to ask in which epoch, and asks again; an answer counts in the epoch of its question.
//!
//! Invariants: what nobody waits for any more is given up, at the latest when the machine asks for it again; of one
//! question one exchange is on its way at a time; what waits at once is bounded in bytes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use skerry_federation::site_view::{Input, Seat};
use tokio::sync::{SemaphorePermit, oneshot};

use super::ask::{Ask, Told, ask};
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

/// One write.
#[derive(Debug)]
struct Open {
    hold: Hold,
    end: oneshot::Sender<bool>,
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
    Ask(Hold),
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
    async fn begin(&self, hold: Hold) -> Option<(Waiting<'_>, oneshot::Receiver<bool>)> {
        let bytes: usize = hold.record.len() + hold.payload.iter().map(bytes::Bytes::len).sum::<usize>();
        let units = u32::try_from((bytes / UNIT + 1).min(UNITS)).unwrap_or(1);
        let room = self.room.acquire_many(units).await.ok();
        let (end, ended) = oneshot::channel();
        let number = {
            let mut writes = lock(&self.writes);
            writes.last += 1;
            let number = writes.last;
            let open = Open { hold, end, asked: BTreeMap::new(), reasons: BTreeMap::new() };
            writes.open.insert(number, open);
            number
        };
        let waiting = Waiting { nodes: self, number, _room: room };
        let begins = Event::input(Input::Write { write: number, bound: None });
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
            _ => Question::Ask(open.hold.clone()),
        }
    }

    fn answered(&self, (write, to, epoch): (u64, Seat, u64), reason: Option<String>) {
        let mut writes = lock(&self.writes);
        let Some(open) = writes.open.get_mut(&write) else { return };
        if open.asked.get(&to) == Some(&epoch) {
            open.asked.remove(&to);
        }
        match reason {
            Some(reason) => open.reasons.insert(to, reason),
            None => open.reasons.remove(&to),
        };
    }

    /// The machine has done with a write.
    pub(super) fn end(&self, write: u64, is_settled: bool) {
        if let Some(open) = lock(&self.writes).open.remove(&write) {
            open.end.send(is_settled).ok();
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
pub(super) async fn have_held(site: Arc<Site>, to: Seat, (write, epoch): (u64, u64), hold: Hold) {
    let nodes = &site.nodes;
    let told = match site.peers.roster.holder(nodes.site, to) {
        None => Err("nobody fills its seat".to_owned()),
        Some((_, node)) => {
            let question = Ask::Hold { epoch: Some(epoch), hold };
            ask(&site, node, question, STALL).await.map_err(|error| error.to_string())
        }
    };
    let reason = match told {
        Ok(Told::Held) => None,
        Ok(Told::Holding(bytes)) => Some(format!("it has {bytes} bytes of it so far")),
        Ok(Told::Not(why)) => Some(why),
        Ok(_) => Some("it answered something else".into()),
        Err(why) => Some(why),
    };
    let is_held = reason.is_none();
    nodes.answered((write, to, epoch), reason);
    if let Some(events) = nodes.events.as_ref().filter(|_| is_held) {
        events.send(Event::input(Input::Held { write, epoch, by: to })).await.ok();
    }
}

/// Waits until a version that is durable here is durable at all live nodes of the site; or says who kept it waiting.
pub(crate) async fn settle(site: &Arc<Site>, hold: Hold) -> Result<(), String> {
    let mut began = None;
    let ending = async {
        let (waiting, ended) = site.nodes.begin(hold).await?;
        began = Some(waiting);
        ended.await.ok()
    };
    match tokio::time::timeout(STALL, ending).await {
        Ok(Some(true)) => Ok(()),
        Ok(Some(false)) => Err("too many writes wait for the site's other nodes".into()),
        Ok(None) => Err("the server is stopping".into()),
        Err(_) => Err(match began {
            Some(waiting) => said(site, &site.nodes.reasons(waiting.number)),
            None => "too many bytes of other writes wait for the site's nodes".into(),
        }),
    }
}

fn said(site: &Site, reasons: &BTreeMap<Seat, String>) -> String {
    let name = |seat: &Seat| {
        let holder = site.peers.roster.holder(site.nodes.site, *seat);
        holder.map_or_else(|| format!("seat {}", seat.index()), |(member, _)| site.peers.roster.name(member))
    };
    let all: BTreeSet<String> = reasons.iter().map(|(seat, why)| format!("{}: {why}", name(seat))).collect();
    match all.is_empty() {
        true => "no majority of the site's nodes agrees on who counts".into(),
        false => all.into_iter().collect::<Vec<_>>().join("; "),
    }
}
