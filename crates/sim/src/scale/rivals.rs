//! Other ways to know where things are, as small models of what their papers say, run in the same world as the machine that ships.
//!
//! Each is as lenient to its system as its source allows, and says where. Messages are counted by the fields that the source names; nobody
//! pays for copying the object itself ([`super::RECORD`] bytes to the second holder, in each of them).

pub mod kademlia;
pub mod pools;
pub mod replicas;
pub mod tree;
