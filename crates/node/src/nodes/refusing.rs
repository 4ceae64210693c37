//! Whether this node can hold what others write, and what is said while a node of the site cannot.
//!
//! Before: the duties of this site, the store, what was asked to be held. After: the machine, which says so to the others;
//! writes and conditions, which are answered at once where they could only wait. Invariants: what an operator forbids is
//! looked at with every step; a disk that was full counts as such until a margin has come free on it, so that a few bytes do
//! not bring the node back for a moment; a disk that hangs is found by this node itself, which goes on beating: others would
//! find it by a write of theirs only; that it cannot hold is never a reason to answer for what it does not have.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use skerry_base::Instant;
use skerry_federation::site_view::{Input, Seat, Seats};
use skerry_gateway::service::{ErrorKind, Outcome};
use skerry_model::bucket::Duty;
use skerry_storage::Store;

use super::{Event, Nodes, lock};
use crate::duties::{Act, Duties};
use crate::site::Site;

/// How often a full disk is asked whether there is room again: it looks through its segments.
const ROOM: Duration = Duration::from_secs(1);

/// How long the store may take to come by a question that changes nothing, until its disk counts as one that hangs.
const HANGS: Duration = Duration::from_secs(1);
/// How often it is asked.
const ASKED_EVERY: Duration = Duration::from_millis(250);

/// What was found to keep this node from holding.
#[derive(Debug, Default)]
pub(super) struct Refusing {
    /// It found no room, and not yet enough of it again.
    is_full: AtomicBool,
    /// It leaves its homes to the others.
    is_aside: AtomicBool,
}

/// Whether the view of a site goes on without a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GoesOn {
    /// It does.
    Yes,
    /// It would, if one with a higher seat did not say at the same time that it cannot hold, which may be for the same reason.
    ButForLater,
    /// It does not.
    No,
}

/// Whether it refuses, from one look to the next.
#[derive(Debug, Default)]
pub(super) struct Look {
    refuses: bool,
    asked_at: Option<Instant>,
    /// When the store was asked for a sign of life, and whether it has given it.
    sign: Option<(Instant, Arc<AtomicBool>)>,
}

impl Look {
    /// Looks again; what is to be told if it is news.
    pub(super) fn again(
        &mut self,
        nodes: &Nodes,
        (duties, store): (&Duties, &Store),
        now: Instant,
    ) -> Option<Input> {
        let is_full = self.is_full(&nodes.refusing.is_full, store, now);
        let hangs = self.hangs(store, now);
        let is_aside = nodes.refusing.is_aside.load(Ordering::Acquire);
        let refuses = is_full || hangs || is_aside || !duties.allows(Act::Hold);
        if std::mem::replace(&mut self.refuses, refuses) == refuses {
            return None;
        }
        match (refuses, is_full) {
            (true, _) if hangs => {
                tracing::error!(
                    "the disk of this node hangs: it holds nothing for the others of its site until it answers"
                );
            }
            (true, false) if is_aside => {
                tracing::warn!(
                    "this node lost entries and leaves the view of its site until its homes have passed on"
                );
            }
            (true, true) => tracing::warn!("this node has no room for what the others of its site write"),
            (true, false) => tracing::warn!("this node holds nothing more for the others of its site"),
            _ => tracing::info!("this node can hold what the others of its site write again"),
        }
        Some(Input::Refuses(refuses))
    }

    /// Whether the store has not come by what was asked of it for too long. All that is let in goes by the same thread.
    fn hangs(&mut self, store: &Store, now: Instant) -> bool {
        if let Some((since, _)) = self.sign.as_ref().filter(|(_, given)| !given.load(Ordering::Acquire)) {
            return now.since(*since) >= HANGS;
        }
        if self.sign.as_ref().is_none_or(|(since, _)| now.since(*since) >= ASKED_EVERY) {
            let given = Arc::new(AtomicBool::new(false));
            self.sign = Some((now, given.clone()));
            store.submit(
                |_| Ok::<_, Infallible>(((), Vec::new())),
                move |_| given.store(true, Ordering::Release),
            );
        }
        false
    }

    fn is_full(&mut self, found: &AtomicBool, store: &Store, now: Instant) -> bool {
        let is_found = found.load(Ordering::Acquire);
        if !is_found && !store.is_full() {
            self.asked_at = None;
            return false;
        }
        // What was refused has not gone yet; what only looked full a moment ago may be making room with copies.
        let since = *self.asked_at.get_or_insert(now);
        if now.since(since) < ROOM {
            return is_found;
        }
        let has_room = store.has_room_again();
        found.store(!has_room, Ordering::Release);
        self.asked_at = (!has_room).then_some(now);
        !has_room
    }
}

impl Nodes {
    /// Notes what became of something that was to be held here: the others are told at once if there was no room.
    pub(super) fn note_room<T>(&self, outcome: &Outcome<T>) {
        let is_full = outcome.as_ref().is_err_and(|error| error.kind() == ErrorKind::StorageFull);
        if is_full
            && !self.refusing.is_full.swap(true, Ordering::AcqRel)
            && let Some(events) = &self.events
        {
            // If there is no room for it, the next beat looks.
            events.try_send(Event::input(Input::Wake)).ok();
        }
    }

    /// This node leaves its homes to the others, or has.
    pub(crate) fn stand_aside(&self, is_aside: bool) {
        self.refusing.is_aside.store(is_aside, Ordering::Release);
    }

    /// Whether so many others are heard, and can hold, that the view goes on without this node.
    pub(super) fn goes_on_without_me(&self, now: Instant) -> GoesOn {
        let near: Seats =
            self.all.iter().filter(|seat| *seat != self.me && self.is_near(*seat, now)).collect();
        let (view, refusing) = {
            let shown = lock(&self.shown);
            (shown.view, shown.refusing)
        };
        let is_live = view.is_some_and(|view| view.live.contains(self.me));
        let later: Seats = near.and(refusing).iter().filter(|seat| *seat > self.me).collect();
        let voters = view.map_or(self.all, |view| view.voters(self.all));
        let is_enough = |seats: Seats| seats.and(voters).len() >= voters.majority();
        match is_enough(near.minus(refusing)) {
            true => GoesOn::Yes,
            false if is_live && is_enough(near.minus(refusing).or(later)) => GoesOn::ButForLater,
            false => GoesOn::No,
        }
    }

    /// Whether a node said that it cannot hold.
    pub(super) fn does_refuse(&self, seat: Seat) -> bool {
        lock(&self.shown).refusing.contains(seat)
    }

    /// Without whom the view cannot go on, and who cannot hold.
    fn stuck(&self) -> Seats {
        lock(&self.shown).stuck
    }
}

/// Why what is written here cannot become the site's as long as this is so; then nobody need wait for it.
pub(crate) fn hindrance(site: &Site) -> Option<String> {
    let nodes = &site.nodes;
    let stuck = nodes.stuck();
    if !stuck.is_empty() {
        let whys: Vec<String> = stuck.iter().filter_map(|seat| why(site, seat)).collect();
        return Some(format!("{}; no majority of the site's nodes is left without it", whys.join("; ")));
    }
    let is_out = nodes.does_refuse(nodes.me) && nodes.holders().is_none();
    is_out.then(|| why(site, nodes.me)).flatten()
}

/// Why a node cannot hold, in words, if it said so.
pub(super) fn why(site: &Site, seat: Seat) -> Option<String> {
    if !site.nodes.does_refuse(seat) {
        return None;
    }
    let member = match seat == site.nodes.me {
        true => Some(site.id),
        false => site.peers.roster.holder(site.nodes.site, seat).map(|(member, _)| member),
    };
    let name =
        member.map_or_else(|| format!("seat {}", seat.index()), |member| site.peers.roster.name(member));
    Some(match member.map(|member| site.duties.of(member).duty) {
        Some(Duty::Freeze) => format!("{name} is frozen for maintenance (skerry site resume {name})"),
        Some(Duty::Drain) => format!("{name} is being emptied"),
        _ => format!(
            "{name} has no room for what others write, its disk does not answer, or it lost entries and leaves its homes to the others"
        ),
    })
}
