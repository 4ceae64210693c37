//! `skerry-lab`: the command line of the lab.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use skerry_lab::verbs::check::Check;
use skerry_lab::verbs::clean::Clean;
use skerry_lab::verbs::client::Client;
use skerry_lab::verbs::compare::Compare;
use skerry_lab::verbs::export::Export;
use skerry_lab::verbs::keep::Keep;
use skerry_lab::verbs::papers::Papers;
use skerry_lab::verbs::report::Report;
use skerry_lab::verbs::run::Run;
use skerry_lab::verbs::transport::Transport;
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
    Clean(Clean),
    Check(Check),
    Client(Client),
    Export(Export),
    Report(Report),
    Keep(Keep),
    Compare(Compare),
    Papers(Papers),
    Try(Try),
    Transport(Transport),
}

fn main() -> ExitCode {
    if let Some(code) = skerry_lab::sys::enter_if_asked() {
        return code;
    }
    let ending = match Arguments::parse().verb {
        Verb::Run(verb) => verb.run(),
        Verb::Clean(verb) => verb.run(),
        Verb::Check(verb) => verb.run(),
        Verb::Client(verb) => verb.run(),
        Verb::Export(verb) => verb.run(),
        Verb::Report(verb) => verb.run(),
        Verb::Keep(verb) => verb.run(),
        Verb::Compare(verb) => verb.run(),
        Verb::Papers(verb) => verb.run(),
        Verb::Try(verb) => verb.run(),
        Verb::Transport(verb) => verb.run(),
    };
    ending.unwrap_or_else(|reason| {
        eprintln!("skerry-lab: {reason}");
        ExitCode::FAILURE
    })
}
