//! Seats: the places of a site's nodes, and sets of them.
//!
//! A seat is filled by one machine after another; which of them speaks is said by its life ([`super::Start`]).
//!
//! Invariants: a seat is below [`limits::SEATS`]; sets iterate in the order of seats.

use core::fmt;

use serde::{Deserialize, Serialize};

use super::limits;

/// One place at a site.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
pub struct Seat(u8);

impl Seat {
    /// The first: the node that was the site before there were others.
    pub const FOUNDER: Self = Self(0);

    /// The seat of this number, if a site has that many.
    pub const fn new(number: usize) -> Option<Self> {
        if number < limits::SEATS { Some(Self(number as u8)) } else { None }
    }

    /// Its number.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A set of seats.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
pub struct Seats(u8);

impl Seats {
    /// Nobody.
    pub const NONE: Self = Self(0);

    /// The seats of a site of so many nodes.
    pub const fn first(count: usize) -> Self {
        let count = if count < limits::SEATS { count } else { limits::SEATS };
        Self(((1u16 << count) - 1) as u8)
    }

    /// One.
    pub const fn of(seat: Seat) -> Self {
        Self(1 << seat.0)
    }

    /// Whether a seat is in it.
    pub const fn contains(self, seat: Seat) -> bool {
        self.0 & (1 << seat.0) != 0
    }

    /// And one more.
    #[must_use]
    pub const fn with(self, seat: Seat) -> Self {
        Self(self.0 | (1 << seat.0))
    }

    /// But for one.
    #[must_use]
    pub const fn without(self, seat: Seat) -> Self {
        Self(self.0 & !(1 << seat.0))
    }

    /// Those of either.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Those of both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Those that are not in the other.
    #[must_use]
    pub const fn minus(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether all are in the other.
    pub const fn is_within(self, other: Self) -> bool {
        self.0 & !other.0 == 0
    }

    /// How many.
    pub const fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Whether nobody is in it.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// How many are more than half of it.
    pub const fn majority(self) -> usize {
        self.len() / 2 + 1
    }

    /// Each, in the order of seats.
    pub fn iter(self) -> impl Iterator<Item = Seat> {
        (0..limits::SEATS as u8).map(Seat).filter(move |seat| self.contains(*seat))
    }
}

impl From<Seat> for u8 {
    fn from(seat: Seat) -> Self {
        seat.0
    }
}

impl TryFrom<u8> for Seat {
    type Error = &'static str;

    fn try_from(number: u8) -> Result<Self, Self::Error> {
        Self::new(usize::from(number)).ok_or("a seat that no site has")
    }
}

impl From<Seats> for u8 {
    fn from(seats: Seats) -> Self {
        seats.0
    }
}

impl TryFrom<u8> for Seats {
    type Error = &'static str;

    fn try_from(bits: u8) -> Result<Self, Self::Error> {
        let seats = Self(bits);
        if seats.is_within(Self::first(limits::SEATS)) { Ok(seats) } else { Err("seats that no site has") }
    }
}

impl FromIterator<Seat> for Seats {
    fn from_iter<I: IntoIterator<Item = Seat>>(seats: I) -> Self {
        seats.into_iter().fold(Self::NONE, Self::with)
    }
}

impl fmt::Debug for Seats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter().map(Seat::index)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_and_majorities() {
        assert_eq!([1, 2, 3, 4].map(|count| Seats::first(count).majority()), [1, 2, 2, 3]);
        assert_eq!(Seats::first(9).len(), limits::SEATS);
        assert_eq!(Seat::new(limits::SEATS), None);
        let (one, two) = (Seats::first(2), Seats::first(3).without(Seat::FOUNDER));
        assert_eq!(format!("{:?} {:?} {:?}", one.and(two), one.or(two), one.minus(two)), "{1} {0, 1, 2} {0}");
        assert!(one.and(two).is_within(one) && !one.is_within(two));
        assert_eq!(one.iter().collect::<Seats>(), one);
    }
}
