//! `skerry reference PAGE`: prints docs/cli.md or docs/configuration.md; `cargo xtask docs` writes them with it.

use clap::{Args, ValueEnum};

use crate::exit::{Exit, Outcome};
use crate::output;
use crate::reference;

/// Print a page of the reference.
#[derive(Debug, Args)]
pub(crate) struct Reference {
    page: Page,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Page {
    Cli,
    Configuration,
}

impl Reference {
    pub(crate) fn run(&self) -> Outcome {
        let text = match self.page {
            Page::Cli => reference::command_line(),
            Page::Configuration => reference::configuration(),
        };
        output::line(text.trim_end());
        Ok(Exit::Done)
    }
}
