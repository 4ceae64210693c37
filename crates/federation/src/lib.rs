//! Who and where: liveness, feeds, reconciliation and location, as pure machines.
//!
//! One [`Federation`] per node. It is driven from outside: everything that happens is an [`Input`], everything
//! it wants done is an [`Output`], time is an argument and chance is a seed. The same machine runs in the
//! simulator and under tokio.
//!
//! ```text
//! loop { federation.handle(input, now, &replica, &mut out); carry out `out`; sleep until next_wake() }
//! ```
//!
//! Why here: this room says which site is asked, told, trusted to be near, and when to try again. It does not
//! know what an object is: a record is bytes with a dot.
//!
//! Invariants: no files, sockets, clocks, threads or randomness of its own; nothing iterates in an order that
//! depends on a hash; every queue has a bound in [`limits`]; what peers send is refused and counted, never
//! asserted on; own state is checked on every transition and reported as [`Output::Violation`].

pub mod absence;
pub mod alone;
pub mod anew;
pub mod areas;
pub mod budget;
pub mod circuits;
pub mod clones;
mod config;
mod context;
pub mod departure;
pub mod detour;
pub mod drain;
mod federation;
mod feed;
pub mod flow;
mod input;
pub mod limits;
mod location;
mod membership;
pub mod message;
mod metered;
mod output;
mod peers;
pub mod placement;
mod places;
mod reconcile;
pub mod replace;
mod replica;
pub mod rest;
pub mod scope;
pub mod site_view;
mod stats;
pub mod subflows;
mod together;
pub mod turns;
pub mod undecided;
mod waits;

pub use config::Config;
pub use federation::Federation;
pub use input::{Input, SiteEntry, Ticket};
pub use message::Message;
pub use output::{Answer, Apply, Drop, Fresh, Keep, Output, Report};
pub use replica::{FeedBatch, FeedItem, Fingerprint, Loose, Replica, Share, Span, Unreadable};
pub use stats::{AreasReport, Gaps, Near, Pulls, Stats};
pub use together::Together;
