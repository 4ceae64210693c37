//! One step of bringing a system up, as its file says it.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::template::Template;

/// Which hosts a step is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Default)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Reach {
    /// Every server host.
    #[default]
    Each,
    /// The first of all.
    First,
    /// All but the first.
    Others,
    /// The first host of every site.
    Sites,
    /// The first host of every site but the first.
    OtherSites,
    /// All hosts but the first of every site.
    Nodes,
}

/// What to do.
#[derive(Debug, Clone)]
pub(super) enum Action {
    /// Write a file that only its owner may read.
    Write { path: Template, lines: Vec<Template> },
    /// Run a program to its end.
    Run { command: Vec<Template> },
    /// Start a process that stays.
    Start {
        name: String,
        command: Vec<Template>,
        /// Keep its standard input open as long as it is to run.
        hold_stdin: bool,
    },
    /// Wait until it is ready.
    Ready(Ready),
}

/// When something is ready.
#[derive(Debug, Clone)]
pub(super) enum Ready {
    /// It answers with one of these, or with anything below 500 if none is named.
    Http { url: Template, status: Vec<u16> },
    /// It accepts a connection.
    Tcp { address: Template },
    /// A program says so by ending well.
    Run { command: Vec<Template> },
}

/// A step.
#[derive(Debug, Clone)]
pub(super) struct Step {
    /// What it is for, in messages.
    pub(super) say: String,
    /// For which hosts.
    pub(super) on: Reach,
    /// Carried out at the first host, with the values of the host it is for.
    pub(super) at_first: bool,
    /// How many hosts at the same time.
    pub(super) at_once: usize,
    /// What to do.
    pub(super) action: Action,
    /// Keep what was printed as a value, whole or at a JSON pointer.
    pub(super) capture: Option<(String, Option<String>)>,
    /// Variables beside those of the file.
    pub(super) environment: BTreeMap<String, Template>,
    /// How long it may take.
    pub(super) seconds: u64,
}

impl Step {
    /// What it is, for messages.
    pub(super) fn title(&self) -> String {
        if !self.say.is_empty() {
            return self.say.clone();
        }
        match &self.action {
            Action::Write { .. } => "writing a file".into(),
            Action::Run { .. } => "a command".into(),
            Action::Start { name, .. } => format!("starting {name}"),
            Action::Ready(_) => "waiting until it is ready".into(),
        }
    }
}
