//! What lies on this node's disk of its site's view: the machine's memory, what it was made for, and whom it met.
//!
//! A machine without memory is not a new one: whoever finds a store that was used, in a seat that was filled, says so
//! ([`Memory::Blank`]) and is taken in by the others. Only the first start of a seat's first machine begins with nothing.
//!
//! Memory of version 1 is of another register: nobody in its views was ever asked to hold anything. The register begins
//! anew with it, as that of a site whose first node has what there is.
//!
//! Invariants: stored in one entry before the machine is made; a stored "no memory" stays one until the others took this
//! machine in; the number of seats does not change once there are several; a machine begins a register once at most.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use skerry_base::codec::{self, DecodeError, Versioned};
use skerry_base::kv::{Table, View};
use skerry_federation::site_view::{Durable, Memory, Seat};
use skerry_model::Entry;

use crate::site::entry;

/// Where the memory lies in this node's own table.
pub(super) const VIEW: &[u8] = b"view/memory";
/// And whom it met.
pub(super) const MET: &[u8] = b"view/met";

/// The stored form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ViewFile {
    /// Seats of the site; 1: it was alone, on a disk that had been emptied.
    pub(super) seats: u8,
    /// [`Durable::encode`]; none: this machine has no memory.
    pub(super) memory: Option<Vec<u8>>,
    /// Whether it is of the register that came before.
    #[serde(skip)]
    pub(super) is_former: bool,
}

/// The form before this one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct FormerFile {
    seats: u8,
    memory: Option<Vec<u8>>,
}

impl Versioned for FormerFile {
    const NAME: &'static str = "stored site view";
    const VERSION: u8 = 1;
}

impl Versioned for ViewFile {
    const NAME: &'static str = "stored site view";
    const VERSION: u8 = 2;
}

impl ViewFile {
    pub(super) fn new(seats: usize, memory: Option<&Durable>) -> Self {
        let seats = u8::try_from(seats).unwrap_or(u8::MAX);
        Self { seats, memory: memory.map(Durable::encode), is_former: false }
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        if bytes.first() != Some(&FormerFile::VERSION) {
            return codec::decode(bytes);
        }
        let FormerFile { seats, memory } = codec::decode(bytes)?;
        Ok(Self { seats, memory, is_former: true })
    }

    /// What is stored, if anything is.
    pub(super) fn read(view: &dyn View) -> Result<Option<Self>, Unusable> {
        let found = view.get(Table::Local, VIEW).map_err(|error| Unusable::Index(error.to_string()))?;
        Ok(found.map(|bytes| Self::decode(bytes.as_ref())).transpose()?)
    }

    /// As the store takes it. It frees nothing, but a full disk must not end a site's view: the entry replaces another of
    /// its size. Where the index cannot be flushed for so long that deletes are refused, it is as well.
    pub(super) fn entry(&self) -> skerry_storage::Entry {
        entry(&self.as_entry()).freeing()
    }

    pub(super) fn as_entry(&self) -> Entry {
        let value = Some(Bytes::from(codec::encode(self)));
        Entry::Local { key: Bytes::from_static(VIEW), value }
    }
}

/// Why a node cannot take its seat.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unusable {
    /// The index failed.
    #[error("{0}")]
    Index(String),
    /// Not what was stored.
    #[error("{0}")]
    Damaged(#[from] DecodeError),
    /// `site.seats` was changed.
    #[error(
        "site.seats is {now}; this site has had {before} seats since this node's first start, and changing that is not built yet: \
         set site.seats = {before}. {}",
        way_out(*seat, *now)
    )]
    Seats {
        /// Its seat.
        seat: usize,
        /// What is stored.
        before: u8,
        /// What is configured.
        now: usize,
    },
    /// A further node that is configured as a site of its own.
    #[error(
        "this node fills seat {0} of a site of several nodes: set site.seats to the number of its seats, as at its other nodes"
    )]
    Alone(usize),
    /// A seat that there is not.
    #[error("this node fills seat {seat}, and site.seats = {seats} has seats 0 to {}", seats - 1)]
    NoSeat {
        /// Its seat.
        seat: usize,
        /// What is configured.
        seats: usize,
    },
}

/// How a node gets to the number of its site's other nodes, if it was started with another one first. What it promised and
/// holds is of a site of that many seats, so only another machine in its seat begins with another number.
fn way_out(seat: usize, now: usize) -> String {
    match seat {
        0 => "If its first start was with a wrong number: the first node's seat can be given to nobody, so have all other \
              nodes count as this one does (each that was started with another number says how)"
            .into(),
        seat => format!(
            "If its first start was with a wrong number: stop it, empty its directory, say `skerry invite NEW --node-of SITE --seat \
             {seat} --replace` at another node (NEW: a name that no site has had), `skerry join` here, set site.seats = {now} \
             before it is started, and `skerry site expel` its former name"
        ),
    }
}

/// What this start knows beside the store's entry.
#[derive(Debug, Clone, Copy)]
pub(super) struct Begun {
    pub(super) seat: Seat,
    /// Machines that filled the seat before this one.
    pub(super) turn: u32,
    pub(super) seats: usize,
    /// Starts of this store before.
    pub(super) life: u64,
    /// Whether the site's directory was never started on.
    pub(super) is_unstarted: bool,
}

/// What the machine begins with; what it knows is then to be made durable first.
pub(super) fn begin(found: Option<&ViewFile>, begun: Begun, nonce: u64) -> Result<Memory, Unusable> {
    let Begun { seat, turn, seats, life, is_unstarted } = begun;
    if seat.index() > 0 && seats == 1 {
        return Err(Unusable::Alone(seat.index()));
    }
    if seat.index() >= seats {
        return Err(Unusable::NoSeat { seat: seat.index(), seats });
    }
    let Some(file) = found else {
        // A site that was one node until now is what its first node has; so is a new one.
        let is_first = turn == 0 && life == 0 && is_unstarted;
        let was_alone = seat == Seat::FOUNDER && life > 0;
        let begins = is_first || was_alone;
        return Ok(if begins { Memory::Kept(Durable::genesis().started()) } else { Memory::Blank(nonce) });
    };
    if usize::from(file.seats) != seats && file.seats != 1 {
        return Err(Unusable::Seats { seat: seat.index(), before: file.seats, now: seats });
    }
    Ok(match &file.memory {
        // Whoever has no memory of that one might have begun in this one on a disk that it lost; so might have who was in
        // the seat before.
        Some(_) if file.is_former && turn == 0 => Memory::Kept(Durable::genesis().started()),
        _ if file.is_former => Memory::Blank(nonce),
        Some(memory) => Memory::Kept(Durable::decode(memory)?.started()),
        None => Memory::Blank(nonce),
    })
}

#[cfg(test)]
#[path = "memory_tests.rs"]
mod tests;
