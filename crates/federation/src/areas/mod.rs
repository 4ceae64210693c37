//! Areas: which few sites are told who holds what, and which are asked, so that near is found near.
//!
//! Thorup–Zwick bunches over round trips. Every site has a draw for life ([`level`]); A_i are the sites of level i
//! and above. The bunch of a site ([`bunch`]) are the landmarks that are nearer than the nearest one of the next
//! level. A site that holds a bucket tells the landmarks of its bunch; a site that looks for one asks those of its
//! own; two bunches share a landmark whose detour is bounded by the distance of the two sites; a landmark passes the
//! question on. Distances are measured where a connection is in use and estimated by network coordinates elsewhere
//! ([`distance`], [`coordinate`]). [`View`] follows sites that come, go and move, and says who the landmarks of a live
//! site are; `location` tells and asks them. The proof that this finds near what is near, at sizes that whole sites do
//! not reach, is the simulator's (docs/areas.md).
//!
//! Invariants: all sites that know the same roster and the same K give everybody the same level; levels depend on
//! integers only; the top level is in every bunch, whole, so that two sites always share a landmark, however much
//! their views differ; every table has a bound in [`limits`].

pub mod bunch;
pub mod coordinate;
pub mod distance;
pub mod level;
pub mod limits;
pub mod ring;
pub mod view;

pub use bunch::{Bunch, Landmark};
pub use coordinate::Coordinate;
pub use view::{Entry, Turn, View};
