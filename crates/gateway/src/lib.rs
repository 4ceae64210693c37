//! The HTTP faces of a node: S3 at `/`, administration under `/_skerry/`, and the traits behind them.
//!
//! Why here: only this crate says HTTP. What a request *does* stands behind the traits of [`service`], which
//! the node implements over storage and federation and [`memory`] implements in memory.
//!
//! Invariants: no S3 library type leaves `s3/`; bodies stream through and are never held whole; a request
//! that is not carried out in full is refused by name, nothing is silently ignored.

pub mod admin;
#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
pub mod http;
pub mod memory;
pub mod s3;
pub mod service;
pub mod telemetry;
