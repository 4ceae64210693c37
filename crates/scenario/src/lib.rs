//! Where the sites are and what their clients ask for: files that the simulator, the lab and the load generator
//! read alike, so that what is found in one can be played again in another.
//!
//! Invariants: a file is either understood whole or refused with the line at fault; every draw comes from a seed.

pub mod clock;
pub mod draw;
pub mod link;
pub mod refusal;
pub mod topology;
pub mod workload;
pub mod workload_load;
pub mod workload_size;
