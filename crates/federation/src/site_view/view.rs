//! The view of a site: which of its nodes are live, and therefore who holds what and who follows a home that is gone.
//!
//! A view is the value of the register ([`super::register`]); the next one has the next epoch. `live` nodes hold every
//! write that was acknowledged in scope `site`; `joining` nodes must make new ones durable as well while they fetch what
//! they lack. Who takes a bucket's home over follows from the view alone.
//!
//! Of two seats one whose machine is gone for good is `vacant` until another machine is live in it: until then it has no vote,
//! and the other decides without it ([`super::vacancy`]).
//!
//! Invariants: `live` and `joining` share no seat, nor do `live` and `vacant`; `live` is never empty; a view that
//! [`View::follows`] another keeps a node in `live` only if it was there or was joining.

use serde::{Deserialize, Serialize};
use skerry_base::BucketId;

use super::limits::SEATS;
use super::seat::{Seat, Seats};

/// The machine in a seat: which one in turn, and what it was admitted under.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Occupant {
    /// How many machines lost their disk in this seat before it.
    pub life: u32,
    /// What it called itself when it had no memory; 0 for the first.
    pub nonce: u64,
}

/// Which nodes count, from one agreement to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Shape", into = "Shape")]
pub struct View {
    /// Which in turn.
    pub epoch: u64,
    /// Who holds all that was acknowledged in scope `site`, and may serve under a lease.
    pub live: Seats,
    /// Who is about to.
    pub joining: Seats,
    /// Whose machine is gone for good, and nobody is live instead yet: they have no vote.
    pub vacant: Seats,
    /// By seat.
    pub occupants: [Occupant; SEATS],
}

/// As it is stored and sent: the seats that are vacant are the upper half of the byte of those that join. A release that
/// does not know them refuses such a byte, as seats that no site has.
#[derive(Serialize, Deserialize)]
struct Shape {
    epoch: u64,
    live: Seats,
    joining: u8,
    occupants: [Occupant; SEATS],
}

impl From<View> for Shape {
    fn from(view: View) -> Self {
        let View { epoch, live, joining, vacant, occupants } = view;
        Self { epoch, live, joining: u8::from(joining) | u8::from(vacant) << SEATS, occupants }
    }
}

impl TryFrom<Shape> for View {
    type Error = &'static str;

    fn try_from(shape: Shape) -> Result<Self, Self::Error> {
        let Shape { epoch, live, joining: both, occupants } = shape;
        let joining = Seats::try_from(both & u8::from(Seats::first(SEATS)))?;
        Ok(Self { epoch, live, joining, vacant: Seats::try_from(both >> SEATS)?, occupants })
    }
}

impl View {
    /// Before anything was agreed on: the founder has the data, the others have nothing yet.
    pub const fn genesis() -> Self {
        let occupants = [Occupant { life: 0, nonce: 0 }; SEATS];
        Self {
            epoch: 0,
            live: Seats::of(Seat::FOUNDER),
            joining: Seats::NONE,
            vacant: Seats::NONE,
            occupants,
        }
    }

    /// Who must have a write before it is acknowledged in scope `site`.
    pub const fn holders(&self) -> Seats {
        self.live.or(self.joining)
    }

    /// Whose promises count, at a site of `all` these seats.
    pub const fn voters(&self, all: Seats) -> Seats {
        all.minus(self.vacant)
    }

    /// Whether so many are live that no other view can be without one of them: only then scope `site` and leases exist.
    pub const fn is_quorate(&self, all: Seats) -> bool {
        self.live.len() >= self.voters(all).majority()
    }

    /// The machine that fills a seat.
    pub const fn occupant(&self, seat: Seat) -> Occupant {
        self.occupants[seat.index()]
    }

    /// The live node that takes over a bucket's home when that is gone: by highest random weight, so that only
    /// the buckets of a node that goes move, and to all others alike.
    pub fn owner(&self, bucket: BucketId) -> Option<Seat> {
        let weight = |seat: &Seat| {
            let mut hasher = blake3::Hasher::new();
            hasher.update(&bucket.0).update(&[seat.index() as u8]);
            *hasher.finalize().as_bytes()
        };
        self.live.iter().max_by_key(weight)
    }

    /// Whether this may come after `before` at a site of `all` these seats.
    pub fn follows(&self, before: &Self, all: Seats) -> bool {
        let shrinks = !before.live.is_within(self.live);
        self.epoch == before.epoch.saturating_add(1)
            && self.holders().or(self.vacant).is_within(all)
            && self.live.is_within(before.holders())
            && self.live.and(self.joining.or(self.vacant)).is_empty()
            && before.vacant.minus(self.vacant).is_within(self.live)
            && !self.live.and(before.live).is_empty()
            && (self.is_quorate(all) || !shrinks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seats(numbers: &[usize]) -> Seats {
        numbers.iter().filter_map(|number| Seat::new(*number)).collect()
    }

    fn view(epoch: u64, live: &[usize], joining: &[usize]) -> View {
        View { epoch, live: seats(live), joining: seats(joining), ..View::genesis() }
    }

    #[test]
    fn a_view_follows_only_from_who_has_the_data() {
        let all = Seats::first(3);
        let old = view(4, &[0, 1], &[2]);
        assert!(view(5, &[0, 1, 2], &[]).follows(&old, all));
        assert!(view(5, &[0, 2], &[]).follows(&old, all), "who joined takes the place of who is gone");
        assert!(!view(5, &[0], &[]).follows(&old, all), "one of three is no majority");
        assert!(!view(6, &[0, 1], &[]).follows(&old, all), "no epoch is left out");
        assert!(!view(5, &[2], &[0, 1]).follows(&old, all));
        let two = view(4, &[0, 1], &[]);
        assert!(!view(5, &[0, 2], &[]).follows(&two, all), "who never joined has not got the data");
        assert!(view(5, &[0, 1], &[2]).follows(&two, all));
        assert!(view(1, &[0], &[1, 2]).follows(&View::genesis(), all), "from one node to three");
    }

    #[test]
    fn a_vacant_seat_has_no_vote_until_somebody_is_live_in_it() {
        let all = Seats::first(2);
        let both = view(4, &[0, 1], &[]);
        let alone = View { vacant: seats(&[1]), ..view(5, &[0], &[]) };
        assert!(alone.follows(&both, all) && alone.is_quorate(all));
        assert!(!view(5, &[0], &[]).follows(&both, all), "silence is no reason");
        assert!(!View { vacant: seats(&[0, 1]), ..alone }.follows(&both, all), "who is live is not gone");
        let joins = View { vacant: seats(&[1]), ..view(6, &[0], &[1]) };
        assert!(joins.follows(&alone, all) && joins.is_quorate(all));
        assert!(!view(6, &[0], &[1]).follows(&alone, all), "it would have a vote, and might be silent");
        let whole = view(7, &[0, 1], &[]);
        assert!(whole.follows(&joins, all) && whole.voters(all) == all);
    }

    #[test]
    fn only_the_buckets_of_who_goes_move() {
        let (whole, less) = (view(1, &[0, 1, 2], &[]), view(2, &[0, 1], &[]));
        let mut owned = [0; SEATS];
        for number in 0..=255 {
            let bucket = BucketId([number; 16]);
            let (before, after) = (whole.owner(bucket), less.owner(bucket));
            if let Some(before) = before {
                owned[before.index()] += 1;
                assert!(after == Some(before) || before.index() == 2);
            }
        }
        assert!(owned[..3].iter().all(|count| *count > 50), "{owned:?}");
    }
}
