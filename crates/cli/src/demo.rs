//! The demo: several sites as child processes of this binary, on this machine.

pub(crate) mod assembly;
pub(crate) mod children;
pub(crate) mod layout;
pub(crate) mod ports;
pub(crate) mod prepare;
pub(crate) mod settings;
pub(crate) mod state;
