//! Machines of many sites against each other, in one thread, over a net that loses, repeats, reorders and cuts.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod absence;
mod convergence;
mod location;
mod memory;
mod quiet;
mod throughput;
mod world;
