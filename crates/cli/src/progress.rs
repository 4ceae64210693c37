//! Progress on a terminal: a spinner while something is awaited. Where nobody watches nothing is shown, or, of what may
//! wait for long, a line when the reason changes.

use std::cell::RefCell;
use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::output;

/// A spinner with a text; invisible without a terminal or with `--json`. It vanishes when dropped.
pub(crate) struct Waiting {
    bar: ProgressBar,
    /// What was said last, where lines take the place of the spinner.
    told: Option<RefCell<String>>,
}

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
        Self { bar, told: None }
    }

    /// The same for what may wait for ever: without a terminal it says what for, in lines.
    pub(crate) fn telling(what: &str, json: bool) -> Self {
        let mut waiting = Self::new(what, json);
        waiting.told = (!std::io::stderr().is_terminal()).then(RefCell::default);
        waiting
    }

    /// Says what is awaited now.
    pub(crate) fn say(&self, what: String) {
        if let Some(told) = &self.told
            && *told.borrow() != what
        {
            output::note(&what);
            told.replace(what.clone());
        }
        self.bar.set_message(what);
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// A style from a template of ours; a mistake in one falls back to the plain spinner.
pub(crate) fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner())
}
