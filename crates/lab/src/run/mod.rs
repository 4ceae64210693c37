//! Plays a scenario: builds the network, starts the system, sends clients to work, collects what they saw.
//!
//! ```text
//! run ─► WAN + system + one client process per client host      (as long as the network of cells is the same)
//!         └─ cell ─► bucket ─► trial ─► phase ─► ask ─► clients  (each phase: traffic, processes, events, samples)
//! ```
//!
//! Invariants: whatever is started ends with the value that started it; a wait is bounded and watches the system's
//! processes, the clients and the user's Ctrl-C; a run that fails leaves nothing behind.

mod apart;
mod caches;
mod cell;
mod client;
mod directory;
mod error;
mod ground;
mod job;
mod limits;
mod machine;
mod pairs;
mod phase;
mod play;
mod probe;
mod screen;
pub mod talk;
mod tally;
mod watch;

pub use error::RunError;
pub use ground::Ground;
pub(crate) use machine::{commit, describe, load, rfc3339, wall_ms};
pub use play::{Builder, Options, play};
pub use screen::Screen;
pub use watch::Watch;
