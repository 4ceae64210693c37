//! The store as a whole, over a disk that loses power and over the real one.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod collecting;
mod compacting;
mod condemning;
mod crowded;
mod failing;
mod fed;
mod flips;
mod full;
mod giving_up;
mod halves;
mod journeys;
mod kinds;
mod model;
mod pacing;
mod places;
mod power;
mod quick;
mod recovering;
mod refused;
mod releasing;
mod resting;
mod salt;
mod scrubbing;
mod sectors;
mod stripping;
mod unflushed;
mod unread;
mod unvouched;
mod wear;
mod world;
