//! The tokio shell of one site: it owns the sockets, the clocks and the tasks, and joins the pure rooms to
//! the disk and to the HTTP faces.
//!
//! Invariants: sockets between sites only in [`net`], randomness only through [`trust::entropy`], every task
//! ends when the server is told to stop.

mod admin;
pub mod admin_shapes;
mod anew;
mod areas;
mod buckets_admin;
mod bulk;
pub mod changes;
pub mod check;
pub mod clock;
mod clones;
pub mod config;
mod conflicts_admin;
mod copies;
mod credential_keys;
mod drive;
mod duties;
mod faces;
mod fitting;
mod following;
mod gone;
mod growth;
mod incoming;
pub mod init;
mod keys_admin;
mod leaving;
mod link_admin;
pub mod machine;
mod membership_admin;
mod moves_admin;
pub mod net;
mod nodes;
pub mod opening;
mod own_site;
mod paths;
mod peers;
mod pin_plan;
mod pins;
mod quick;
mod replace_admin;
mod replacing;
mod rooms;
mod roster_watch;
pub mod server;
mod site;
mod sites_admin;
pub mod space_used;
mod tasks;
pub mod telemetry;
pub mod trust;
mod uplink_admin;
mod welcome;
mod workers;

pub use buckets_admin::check as check_settings;
pub use keys_admin::check as check_owner;
pub use skerry_model::bucket::is_area_name;
pub use uplink_admin::check as check_budget;

#[cfg(test)]
mod tests;
