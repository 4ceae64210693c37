//! A wide-area network on one machine, the papers' experiments as scenarios, rivals, and reports.
//!
//! Invariants: whatever the lab makes (namespaces, devices, processes, files) it removes, also after a crash.

mod layout;
pub mod plan;
pub mod report;
pub mod result;
pub mod rivals;
pub mod run;
pub mod sys;
pub mod systems;
pub mod verbs;
pub mod wan;
