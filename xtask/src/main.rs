//! The project's own tool: `cargo xtask gate | test | linear | docs | measure | count | arm`.
//!
//! `gate` is every rule a machine can check; `test` is the gate, the tests of the workspace and the journeys of
//! real clients, and is all that CI runs. A developer sees red here before a server does. Nothing but std,
//! serde_json and toml: it must build in seconds on an empty machine.

mod again;
mod arm;
mod bans;
mod callgrind;
mod checks;
mod count;
mod counted;
mod docs;
mod gate;
mod journeys;
mod limits;
mod linear;
mod metadata;
mod prerequisites;
mod run;
mod source;
mod test;

use std::process::ExitCode;

const USAGE: &str = "cargo xtask COMMAND

gate                what a machine can check: format, lints, arrows, purity, dependencies, budgets, drift
gate --only NAME    one of them
test                prerequisites, gate, the tests of the workspace, the journeys of real clients
journeys [NAME..]   only the journeys (arguments after -- go to them, e.g. -- --rounds 20)
linear [N [FIRST]]  histories of N seeds of the simulator, judged by a checker that is not ours (needs Go)
measure [-- ARGS]   the figures of a release build as a Markdown table (minutes; 10 GB of disk)
count [OPTIONS]     what one operation costs, in instructions (valgrind) or with --cpu in CPU time; --top N functions,
                    --binary FILE instead of a release build, --check | --write against docs/counts.tsv,
                    --signed bodies, --threads N, --dir DIR
arm [NAME..]        the binary for 64-bit Arm, its size, and journeys against it under an emulator (--build-only, --register)
docs                writes docs/cli.md, docs/configuration.md, the table of docs/limits.md and the clippy.toml files again";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (command, rest) = match arguments.split_first() {
        Some((command, rest)) => (command.as_str(), rest),
        None => ("help", [].as_slice()),
    };
    let outcome = match command {
        "gate" => gate::command(rest),
        "test" => test::command(),
        "journeys" => journeys::command(rest),
        "linear" => linear::command(rest),
        "measure" => journeys::measure(rest),
        "count" => count::command(rest),
        "arm" => arm::command(rest),
        "docs" => docs::write(),
        _ => {
            println!("{USAGE}");
            return ExitCode::from(if command == "help" { 0 } else { 2 });
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("xtask: {reason}");
            ExitCode::FAILURE
        }
    }
}
