//! A load generator: workers that ask a target for operations, and time each of them.
//!
//! Invariants: failures are counted, never dropped; every body is a function of its key and the seed, so that each byte
//! read can be verified; a fixed rate is kept without coordinated omission.
