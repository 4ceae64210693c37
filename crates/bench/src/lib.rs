//! A load generator: workers that ask a target for operations, and time each of them.
//!
//! Why a library: `skerry bench` and the clients of the lab must measure alike. A [`plan::Plan`] says what to ask for,
//! a [`target::Target`] asks (S3 is [`s3::S3Target`]; the lab adds others), [`engine::run`] runs the one against the
//! other, and [`summary`] makes figures of the samples.
//!
//! Invariants: failures are counted, never dropped; every body is a function of its key and the seed, so that each byte
//! read can be verified; a fixed rate is kept without coordinated omission (a latency counts from the intended start);
//! nothing here reads a file, the environment or a random number: all of it comes in.

mod board;
pub mod body;
pub mod engine;
pub mod from_workload;
mod pace;
pub mod plan;
mod plan_check;
pub mod plot;
pub mod progress;
pub mod rows;
pub mod s3;
pub mod sample;
mod schedule;
pub mod six;
pub mod summary;
pub mod target;
mod words;
mod zipf;
