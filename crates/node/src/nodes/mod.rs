//! The nodes of this site, where it has several: the machine of its view ([`skerry_federation::site_view`]) on this
//! node's disk, clock and links.
//!
//! To the federation every node is a member of its own, with its own id, name and records; an admin key has said that
//! some of them fill seats of one site ([`crate::trust::seat`]), and who fills which is in the roster. [`memory`] is what
//! lies on the disk, [`run`] steps the machine, [`talk`] carries its words, [`word`] is how they are written, [`met`] tells
//! a disk that was rolled back or cloned from an honest one. On the view rest [`writes`] of scope `site`, which the others
//! are [asked](ask) to [hold](holding); what a node [fetches](catch_up) before it counts; and who may answer
//! [reads](leases) for the site. On those together rest [decisions](settled) of homes among the nodes. A node that
//! [cannot hold](refusing) what others write leaves the view for as long as that is so.
//!
//! Invariants: with `site.seats = 1` nothing of this runs; what follows a store waits until that is durable; what the
//! machine says is said after it is shown, so that who reads or holds beside it goes by nothing that is over; time is
//! `CLOCK_BOOTTIME`, which goes on while a machine sleeps.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use skerry_base::{BucketId, Instant, NodeId, SiteId};
use skerry_federation::site_view::{
    Durable, Gaps, Input, Said, Seat, Seats, SiteView, Standing, View, limits,
};
use tokio::sync::{Semaphore, mpsc, watch};

mod aside;
pub(crate) mod ask;
mod beside;
mod bodies;
mod catch_up;
mod gaps;
mod holding;
mod invite;
mod lately;
mod leases;
mod memory;
mod met;
mod refusing;
mod report;
mod run;
mod settled;
mod talk;
pub(crate) mod uploads;
mod word;
mod writes;

pub(crate) use aside::Aside;
pub(crate) use beside::remembered;
pub(crate) use holding::Fence;
pub(crate) use invite::offer;
pub(crate) use leases::{heads, page};
pub(crate) use refusing::hindrance;
pub(crate) use report::report;
pub(crate) use run::{Start, Unready, run, start};
pub(crate) use talk::{hear, hold_ahead};
pub(crate) use word::is_word;
pub(crate) use writes::{Load, Unsettled, settle};

#[cfg(test)]
use skerry_federation::site_view::Ballot;

use crate::telemetry::seldom::Seldom;
use lately::Lately;
use met::Met;
use refusing::Refusing;
use settled::{Settled, Unkept};
use writes::Writes;

/// Words that wait for the machine; who says more waits in its stream.
const WAITING: usize = 256;
/// Words that wait for one other node; more are lost, as on a wire.
const LEAVING: usize = 64;
/// Questions of other nodes that are answered at once; more wait in their streams.
const ANSWERED: usize = 256;

/// What the machine is told.
#[derive(Debug)]
enum Event {
    /// By another node.
    Said(Box<Said>),
    /// Another node remembers more of this one than its own disk does.
    Disowned,
    /// By what rests on it here.
    Input(Box<Input>),
}

/// What is shown of the machine.
#[derive(Debug, Clone, Copy)]
struct Shown {
    standing: Standing,
    view: Option<View>,
    /// The epoch in which this node holds what others write.
    holds_in: Option<u64>,
    /// Until when this node reads for the site.
    reads_until: Option<Instant>,
    /// Who says that it cannot hold what others write, and which of them the view cannot go on without.
    refusing: Seats,
    stuck: Seats,
    /// When each seat was heard last.
    heard: [Option<Instant>; limits::SEATS],
}

/// The other end of a seat's words, and what its node last said against this one.
#[derive(Debug, Default)]
struct Door {
    words: Option<mpsc::Sender<Said>>,
    refused: Option<String>,
}

/// The seats of this site as others use them.
#[derive(Debug)]
pub(crate) struct Nodes {
    /// The site: the id of its first node.
    site: SiteId,
    me: Seat,
    all: Seats,
    /// Drawn at start: tells a restart from a clone.
    process: u64,
    /// None with one seat.
    events: Option<mpsc::Sender<Event>>,
    shown: Mutex<Shown>,
    /// The epoch, for who waits for another one.
    turned: watch::Sender<Option<u64>>,
    /// What is durable of the machine.
    memory: Mutex<Option<Durable>>,
    doors: Mutex<[Door; limits::SEATS]>,
    /// Who was not listened to lately, as far as that was said.
    unheard: Seldom,
    met: Mutex<Met>,
    /// Own writes that wait for the other nodes.
    writes: Mutex<Writes>,
    /// What others said lately that they hold of them.
    lately: Mutex<Lately>,
    /// Room for what waits at once.
    room: Semaphore,
    /// Of whom it is being fetched what they hold, and in which epoch.
    fetching: Mutex<BTreeMap<Seat, u64>>,
    /// Whether this process has held a lease.
    has_caught_up: AtomicBool,
    /// Buckets that this node does not read for the site.
    gaps: Mutex<Gaps>,
    /// Those that its disk knows of.
    stored_gaps: tokio::sync::Mutex<BTreeSet<BucketId>>,
    /// What is known to be the site's.
    settled: Mutex<Settled>,
    /// Buckets in which a node of the site keeps decisions from being made.
    unkept: Mutex<Unkept>,
    /// One home passes at a time.
    passing: tokio::sync::Mutex<()>,
    /// One naming of the register goes after the other.
    naming: tokio::sync::Mutex<()>,
    /// Homes that came to this node since its start.
    taken_over: AtomicU64,
    /// Room for questions of other nodes.
    asked: Arc<Semaphore>,
    /// What keeps this node from holding what others write.
    refusing: Refusing,
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Event {
    fn input(input: Input) -> Self {
        Self::Input(Box::new(input))
    }
}

impl Nodes {
    /// Whether this site has several seats.
    pub(crate) const fn are_several(&self) -> bool {
        self.events.is_some()
    }

    fn send(&self, to: Seat, said: Said) {
        if let Some(words) = lock(&self.doors).get(to.index()).and_then(|door| door.words.as_ref()) {
            words.try_send(said).ok();
        }
    }

    fn show(&self, machine: &SiteView, now: Instant) {
        let (standing, view) = (machine.standing(now), machine.view().copied());
        let mut shown = lock(&self.shown);
        if (shown.standing, shown.view) != (standing, view) {
            let (epoch, live) = (view.map(|view| view.epoch), view.map(|view| view.live));
            tracing::info!(?standing, epoch, ?live, "the view of this site");
        }
        (shown.standing, shown.view) = (standing, view);
        (shown.holds_in, shown.reads_until) = (machine.holds_in(), machine.reads_until());
        drop(shown);
        if standing == Standing::Leased {
            self.has_caught_up.store(true, Ordering::Release);
        }
        let epoch = view.map(|view| view.epoch);
        self.turned.send_if_modified(|known| std::mem::replace(known, epoch) != epoch);
    }

    fn show_refusing(&self, refusing: Seats, stuck: Seats) {
        let mut shown = lock(&self.shown);
        (shown.refusing, shown.stuck) = (refusing, stuck);
    }

    /// The view, if so many are live that writes can be the site's and this node holds them.
    fn holders(&self) -> Option<View> {
        let view = lock(&self.shown).view?;
        (view.is_quorate(self.all) && view.holders().contains(self.me)).then_some(view)
    }

    /// Whether this node may let in, and answer for, what was asked for in an epoch.
    fn may_hold(&self, epoch: u64) -> bool {
        lock(&self.shown).holds_in == Some(epoch)
    }

    /// Returns when this node is in an epoch, or after this time: who asks may have heard of it a moment earlier.
    async fn turns(&self, epoch: u64, within: Duration) {
        let mut turned = self.turned.subscribe();
        let comes = async {
            turned.wait_for(|now| now.is_some_and(|now| now >= epoch)).await.ok();
        };
        tokio::time::timeout(within, comes).await.ok();
    }

    /// What is durable of the view that was accepted last, as it lies in the journal.
    #[cfg(test)]
    pub(crate) fn accepted(&self) -> Option<Vec<u8>> {
        let memory = (*lock(&self.memory))?;
        let (whole, changed) = (memory.encode(), Durable { promised: Ballot::default(), ..memory }.encode());
        let same =
            whole.iter().rev().zip(changed.iter().rev()).take_while(|(one, other)| one == other).count();
        Some(whole[whole.len() - same.min(20)..].to_vec())
    }

    /// Whether this node is in an epoch.
    fn is_in(&self, epoch: u64) -> bool {
        lock(&self.shown).view.is_some_and(|view| view.epoch == epoch)
    }

    /// What another node has against this one, for people; none: it listens.
    fn refused(&self, by: Seat, reason: Option<String>) {
        if let Some(door) = lock(&self.doors).get_mut(by.index()) {
            if let Some(reason) = reason.as_ref().filter(|reason| door.refused.as_ref() != Some(reason)) {
                tracing::error!(seat = by.index(), reason, "another node of this site does not listen");
            }
            door.refused = reason;
        }
    }
}

/// Whether a node fills a seat of a site now.
fn holds(site: &crate::site::Site, of: SiteId, seat: Seat, node: NodeId) -> bool {
    site.peers.roster.holder(of, seat).is_some_and(|(_, holder)| holder == node)
}

/// The seat that a node fills now, and its id.
fn seat_of(site: &crate::site::Site, node: NodeId) -> Option<(Seat, SiteId)> {
    let nodes = &site.nodes;
    let fills = |seat: Seat| {
        let (member, holder) = site.peers.roster.holder(nodes.site, seat)?;
        (holder == node).then_some((seat, member))
    };
    nodes.all.without(nodes.me).iter().find_map(fills)
}
