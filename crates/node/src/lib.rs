//! The tokio shell of one site: it owns the sockets, the clocks and the tasks, and joins the pure rooms to
//! the disk and to the HTTP faces.
//!
//! Invariants: sockets between sites only in [`net`], randomness only through [`trust::entropy`], every task
//! ends when the server is told to stop.

mod admin;
pub mod admin_shapes;
mod areas;
mod bulk;
pub mod changes;
pub mod check;
pub mod clock;
pub mod config;
mod copies;
mod drive;
mod faces;
mod growth;
pub mod init;
mod leaving;
mod membership_admin;
pub mod net;
mod paths;
mod peers;
mod pins;
mod quick;
mod roster_watch;
pub mod server;
mod site;
pub mod space_used;
mod tasks;
pub mod telemetry;
pub mod trust;
mod uplink_admin;
mod welcome;
mod workers;

#[cfg(test)]
mod tests;
