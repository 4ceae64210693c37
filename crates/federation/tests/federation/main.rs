//! Machines of many sites against each other, in one thread, over a net that loses, repeats, reorders and cuts.
#![expect(clippy::unwrap_used, reason = "tests")]

mod absence;
mod convergence;
mod crowd;
mod equal;
mod fellows;
mod fresh;
mod heard;
mod hostile;
mod ledger;
mod levels;
mod location;
mod loose;
mod memory;
mod paying;
mod quiet;
mod seeking;
mod silent;
mod throughput;
mod transcript;
mod world;
