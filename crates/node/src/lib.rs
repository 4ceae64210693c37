//! The tokio shell of one site: it owns the sockets, the clocks and the tasks, and joins the pure rooms to
//! the disk and to the HTTP faces.
//!
//! Invariants: sockets between sites only in [`net`], randomness only through [`trust::entropy`], every task
//! ends when the server is told to stop.

pub mod admin_shapes;
pub mod config;
pub mod net;
pub mod telemetry;
pub mod trust;
