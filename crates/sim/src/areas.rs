//! Areas as one machine: telling landmarks, asking them, being one, over the federation's own bunches and views.
//!
//! Why: what runs is `location` in the federation, over [`View`](skerry_federation::areas::View). This is the same exchange
//! without links, lives that fall or feeds: the proof at sizes that whole sites do not reach (docs/areas.md says what is wired).
//! A site that holds a bucket tells the landmarks of its bunch ([`publish`]); a site that looks for one asks those of its own
//! ([`ask`]); a landmark passes the question on ([`landmark`]); [`Areas`] is all of it.
//!
//! Invariants: nothing here runs at a site; every table has a bound in [`limits`].

pub mod ask;
pub mod landmark;
pub mod limits;
mod machine;
mod message;
pub mod publish;

pub use machine::{Areas, Config, Input, Output};
pub use message::{Membership, Message, Publish, Said};
