//! Shows how far a run is: a bar on a terminal, a line per phase elsewhere.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// Where progress is shown.
#[derive(Debug)]
pub struct Screen {
    bar: Option<ProgressBar>,
    quiet: bool,
    place: String,
}

impl Screen {
    /// On standard error.
    pub fn new() -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(0);
            // A template that is wrong shows the plain bar.
            if let Ok(style) = ProgressStyle::with_template("{elapsed_precise} {wide_bar} {pos}/{len} {msg}")
            {
                bar.set_style(style);
            }
            bar.enable_steady_tick(Duration::from_millis(200));
            bar
        });
        Self { bar, quiet: false, place: String::new() }
    }

    /// Nowhere, for tests.
    pub fn none() -> Self {
        Self { bar: None, quiet: true, place: String::new() }
    }

    /// Where the run is now.
    pub(super) fn place(&mut self, place: String) {
        if let Some(bar) = &self.bar {
            bar.set_message(place.clone());
        }
        self.place = place;
    }

    /// Something is done before or after phases.
    pub(super) fn note(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.set_message(format!("{} {text}", self.place)),
            None if !self.quiet => eprintln!("{} {text}", self.place),
            None => {}
        }
    }

    /// A phase begins.
    pub(super) fn phase(&self, name: &str, operations: u64) {
        if let Some(bar) = &self.bar {
            bar.set_length(operations);
            bar.set_position(0);
        }
        self.note(name);
    }

    /// So many operations have ended.
    pub(super) fn at(&self, operations: u64) {
        if let Some(bar) = &self.bar {
            bar.set_position(operations);
        }
    }

    /// Takes the bar away.
    pub fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

impl Default for Screen {
    fn default() -> Self {
        Self::new()
    }
}
