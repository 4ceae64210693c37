//! Systems under test, each told by a file: started on the emulated hosts, watched, measured, stopped.
//!
//! A file (`crates/lab/systems/*.toml`) names programs, steps, endpoint and durability; nothing here knows any
//! particular system. docs/rivals.md is the reference of the files.

mod error;
mod file;
mod log;
mod machines;
mod process;
mod programs;
mod ready;
mod running;
mod start;
mod step;
mod template;
mod usage;

pub use error::SystemError;
pub use file::{Credentials, Durability, Kind, SystemFile};
pub(crate) use log::tail as log_tail;
pub use machines::{Loopback, Machine, Machines};
pub use running::{Endpoint, ProcessStatus, Running};
pub use start::start;
pub use usage::Usage;
