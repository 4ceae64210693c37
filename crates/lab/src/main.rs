//! `skerry-lab`: the command line of the lab.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use skerry_lab::verbs::run::Run;
use skerry_lab::verbs::trial::Try;

/// A wide-area network on one machine, and the papers' experiments on it
#[derive(Debug, Parser)]
#[command(name = "skerry-lab", version)]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Run(Run),
    Try(Try),
}

fn main() -> ExitCode {
    let ending = match Arguments::parse().verb {
        Verb::Run(verb) => verb.run(),
        Verb::Try(verb) => verb.run(),
    };
    ending.unwrap_or_else(|reason| {
        eprintln!("skerry-lab: {reason}");
        ExitCode::FAILURE
    })
}
