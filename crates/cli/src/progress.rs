//! Progress on a terminal: a spinner while something is awaited, nothing when nobody watches.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// A spinner with a text; invisible without a terminal or with `--json`. It vanishes when dropped.
pub(crate) struct Waiting(ProgressBar);

impl Waiting {
    /// Starts to turn.
    pub(crate) fn new(what: &str, json: bool) -> Self {
        let bar = if json || !std::io::stderr().is_terminal() {
            ProgressBar::hidden()
        } else {
            ProgressBar::new_spinner().with_style(style("{spinner} {msg} {elapsed:.dim}"))
        };
        bar.set_message(what.to_owned());
        bar.enable_steady_tick(Duration::from_millis(100));
        Self(bar)
    }

    /// Says what is awaited now.
    pub(crate) fn say(&self, what: String) {
        self.0.set_message(what);
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// A style from a template of ours; a mistake in one falls back to the plain spinner.
pub(crate) fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner())
}
