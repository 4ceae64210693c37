//! `skerry-lab compare RESULT RESULT…`: ratios of the later results over the first.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::Ending;
use super::report::directory;
use crate::report::readings::Book;
use crate::report::{compare, html, markdown, terminal};
use crate::result::LabResult;

/// Print how results compare: ratios with their intervals
#[derive(Debug, Args)]
pub struct Compare {
    /// Results: the first is what the others are divided by
    #[arg(required = true, num_args = 2.., value_name = "RESULT")]
    pub results: Vec<PathBuf>,
    /// Print Markdown
    #[arg(long)]
    pub markdown: bool,
    /// Write a page as well
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

impl Compare {
    /// Compares them.
    pub fn run(self) -> Ending {
        let read = |path: &PathBuf| LabResult::read(path).map_err(|error| error.to_string());
        let results = self.results.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        let pairs = self.results.iter().zip(&results);
        let books: Vec<Book<'_>> = pairs.map(|(path, result)| Book::open(directory(path), result)).collect();
        let document = compare::compare(&books)?;
        if let Some(file) = &self.html {
            fs::write(file, html::render(&document))
                .map_err(|error| format!("{}: {error}", file.display()))?;
        }
        print!("{}", if self.markdown { markdown::render(&document) } else { terminal::render(&document) });
        Ok(ExitCode::SUCCESS)
    }
}
