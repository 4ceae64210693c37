//! `skerry completions SHELL`: prints the script that a shell loads.

use clap::{Args, CommandFactory};

use crate::arguments::CommandLine;
use crate::exit::{Exit, Outcome};
use crate::output;

/// Print completions, as in `skerry completions bash > /etc/bash_completion.d/skerry`.
#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// For which shell
    shell: clap_complete::Shell,
}

impl Completions {
    pub(crate) fn run(&self) -> Outcome {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut CommandLine::command(), "skerry", &mut script);
        output::line(String::from_utf8_lossy(&script).trim_end());
        Ok(Exit::Done)
    }
}
