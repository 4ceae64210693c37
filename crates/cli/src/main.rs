//! `skerry`: the one binary. Parses the command line, hands it to a verb, turns the outcome into an exit code.
//!
//! One file per verb under `verbs/`; what they share is the grammar ([`arguments`]), the place they act on
//! ([`place`]), the admin client ([`admin`]), the way they print ([`output`]) and the exit codes ([`exit`]).

mod admin;
mod arguments;
mod demo;
mod exit;
mod files;
mod output;
mod place;
mod progress;
mod reach;
mod reference;
mod site_files;
mod verbs;
mod words;

use std::process::ExitCode;

use clap::Parser;

use arguments::CommandLine;

fn main() -> ExitCode {
    let line = match CommandLine::try_parse() {
        Ok(line) => line,
        Err(error) => {
            // Nothing can be done about a closed standard error.
            let _ = error.print();
            return if error.use_stderr() { exit::Exit::Usage.into() } else { exit::Exit::Done.into() };
        }
    };
    let json = line.globals.json;
    match verbs::run(line) {
        Ok(exit) => exit.into(),
        Err(failure) => {
            output::failure(&failure, json);
            failure.exit.into()
        }
    }
}
