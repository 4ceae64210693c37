//! The world in one thread: clocks, a net, disks and sites that run the production machines unchanged.
//!
//! Why: what goes wrong between islands takes months and a storm to happen once. Here a storm costs
//! milliseconds and is repeated exactly by its number. One seed draws the whole environment (how many sites,
//! which faults, how much work); checkers that keep a history of their own judge the run.
//!
//! Invariants: one thread, virtual time only, every draw from the seed, no iteration in an order that
//! depends on a hash; two runs of a seed tell the same story to the byte.

pub mod areas;
pub mod arrivals;
pub mod canary;
pub mod checkers;
pub mod circuits;
pub mod clones;
pub mod copies;
pub mod credentials;
pub mod detours;
pub mod disk;
pub mod environment;
pub mod followed;
pub mod goings;
pub mod histories;
pub mod history;
pub mod ledger;
pub mod locality;
pub mod memory;
pub mod net;
pub mod nodes;
pub mod outcome;
pub mod queue;
pub mod replaced;
pub mod scale;
pub mod site;
pub mod standing;
pub mod swarm;
pub mod trace;
pub mod verdict;
pub mod world;
