//! Journeys of the true binary: what a person at a terminal and a script in a pipe see.

#![expect(clippy::unwrap_used, reason = "tests")]

mod bench;
mod boxes;
mod command_line;
mod demo;
mod island;
mod nodes;
