//! The store as a whole, over a disk that loses power and over the real one.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod collecting;
mod compacting;
mod flips;
mod full;
mod journeys;
mod model;
mod power;
mod quick;
mod releasing;
mod scrubbing;
mod wear;
mod world;
