//! The nodes of this site, where it has several: the machine of its view ([`skerry_federation::site_view`]) on this
//! node's disk, clock and links.
//!
//! To the federation every node is a member of its own, with its own id, name and records; an admin key has said that
//! some of them fill seats of one site ([`crate::trust::seat`]), and who fills which is in the roster. [`memory`] is what
//! lies on the disk, [`run`] steps the machine, [`talk`] carries its words, [`word`] is how they are written, [`met`] tells
//! a disk that was rolled back or cloned from an honest one.
//!
//! Invariants: with `site.seats = 1` nothing of this runs; what follows a store waits until that is durable; time is
//! `CLOCK_BOOTTIME`, which goes on while a machine sleeps; no write has scope `site` in the sense of the view yet, so that
//! there is nothing to catch up with.

use std::sync::{Mutex, MutexGuard, PoisonError};

use skerry_base::{Instant, NodeId, SiteId};
use skerry_federation::site_view::{Durable, Input, Said, Seat, Seats, Standing, View, limits};
use tokio::sync::mpsc;

mod invite;
mod memory;
mod met;
mod report;
mod run;
mod talk;
mod word;

pub(crate) use invite::offer;
pub(crate) use report::report;
pub(crate) use run::{Start, Unready, run, start};
pub(crate) use talk::hear;
pub(crate) use word::is_word;

use met::Met;

/// Words that wait for the machine; who says more waits in its stream.
const WAITING: usize = 256;
/// Words that wait for one other node; more are lost, as on a wire.
const LEAVING: usize = 64;

/// What the machine is told.
#[derive(Debug)]
enum Event {
    /// By another node.
    Said(Box<Said>),
    /// Another node remembers more of this one than its own disk does.
    Disowned,
}

/// What is shown of the machine.
#[derive(Debug, Clone, Copy)]
struct Shown {
    standing: Standing,
    view: Option<View>,
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
    /// What is durable of the machine.
    memory: Mutex<Option<Durable>>,
    doors: Mutex<[Door; limits::SEATS]>,
    met: Mutex<Met>,
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
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

    fn show(&self, standing: Standing, view: Option<View>) {
        let mut shown = lock(&self.shown);
        if (shown.standing, shown.view) != (standing, view) {
            let (epoch, live) = (view.map(|view| view.epoch), view.map(|view| view.live));
            tracing::info!(?standing, epoch, ?live, "the view of this site");
        }
        (shown.standing, shown.view) = (standing, view);
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

/// What a machine is stepped with; kept apart for tests.
fn caught_up(from: Seat, epoch: u64) -> Input {
    // Nothing has scope `site` yet: whoever is asked has nothing that this node lacks.
    Input::CaughtUp { from, epoch }
}
