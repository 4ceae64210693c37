//! `skerry`: the one binary. Parses the command line, hands it to a verb, turns the outcome into an exit code.
//!
//! One file per verb under `verbs/`; what they share is the grammar ([`arguments`]), the place they act on
//! ([`place`]), the admin client ([`admin`]), the way they print ([`output`]) and the exit codes ([`exit`]).

mod admin;
mod arenas;
mod arguments;
mod demo;
mod exit;
mod files;
mod look;
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
        Err(error) => return unread(&error),
    };
    let json = line.globals.json;
    match verbs::run(line).and_then(|exit| output::check_written().map(|()| exit)) {
        Ok(exit) => exit.into(),
        Err(failure) => {
            output::failure(&failure, json);
            failure.exit.into()
        }
    }
}

/// A command line that is wrong, or that asks for help. There are no options yet to ask for JSON by: the words are
/// looked at.
fn unread(error: &clap::Error) -> ExitCode {
    if error.use_stderr() && std::env::args_os().any(|word| word == "--json") {
        let text = error.render().to_string();
        // What follows is the usage, for people.
        let said = text.split("\n\n").next().unwrap_or_default();
        let failure = exit::Failure::usage(said.trim().trim_start_matches("error: "));
        output::failure(&failure, true);
        return failure.exit.into();
    }
    // Nothing can be done about a closed standard error.
    let _ = error.print();
    if error.use_stderr() { exit::Exit::Usage.into() } else { exit::Exit::Done.into() }
}
