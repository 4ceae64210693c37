//! A system under test as a TOML file: which programs, started how, ready when, reached where, durable how.
//!
//! ```toml
//! version = 1
//! name = "example"
//! kind = "s3"                                   # s3 | ipfs | cassandra
//! version_of = ["{program}", "--version"]       # its first line is noted with every result
//! endpoint = "http://{address}:9000"
//!
//! [programs]                                    # the first candidate that is there
//! program = ["{env:PROGRAM|}", "program"]
//!
//! [[step]]                                      # in this order, on every host at once
//! start = "server"
//! run = ["{program}", "--listen", "{address}:9000", "{data}"]
//!
//! [[step]]
//! ready = { http = "http://{address}:9000/" }
//! ```
//!
//! Placeholders: `template.rs`. Every field and step: docs/rivals.md.
//! Invariants: fields that nobody knows are refused; every refusal names the line; a loaded file has no unknown
//! placeholder and each of its steps does one thing.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use skerry_scenario::refusal::{Refusal, parse};
use toml::Spanned;

use super::step::{Action, Reach, Ready, Step};
use super::template::{Environment, Template};

/// Names that are there without being asked for: of the host at hand, of the run, of the machine.
pub(super) const OWN_NAMES: [&str; 8] =
    ["host", "number", "site", "site_number", "node", "node_count", "address", "data"];
pub(super) const SHARED_NAMES: [&str; 7] =
    ["dir", "root", "lab", "rivals", "host_count", "site_count", "system_dir"];
/// Names that only commands for buckets know.
const BUCKET_NAMES: [&str; 2] = ["bucket", "value"];
/// How long a step may take if the file does not say.
const SECONDS: u64 = 60;
/// Hosts that are worked on at the same time if the file does not say: enough to hide round trips, few enough for
/// two cores.
const AT_ONCE: usize = 8;
/// How long processes have to stop by themselves if the file does not say.
const STOP_SECONDS: u64 = 10;

/// What a system speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// S3 over HTTP.
    S3,
    /// kubo's HTTP API.
    Ipfs,
    /// Cassandra's native protocol.
    Cassandra,
}

/// What a system has done when it acknowledges a write: stated with every result.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Durability {
    /// Where the data is: `node`, `site`, `sites=3`.
    pub acknowledged: String,
    /// Copies at that moment.
    pub copies: u32,
    /// `replication`, or k+m.
    #[serde(default = "replication")]
    pub code: String,
    /// Whether they are on disk.
    pub synced: bool,
    /// Whether every node of a site has what its site acknowledged: then there are so many times more copies.
    #[serde(default)]
    pub every_node: bool,
    /// What else must be known to compare.
    #[serde(default)]
    pub note: String,
}

impl From<Durability> for crate::result::Durability {
    fn from(promised: Durability) -> Self {
        Self {
            acknowledged: promised.acknowledged,
            copies: promised.copies,
            code: promised.code,
            synced: promised.synced,
            later: promised.note,
        }
    }
}

fn replication() -> String {
    "replication".into()
}

/// Which hosts clients talk to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Default)]
#[serde(rename_all = "lowercase")]
enum Served {
    /// Every host serves the clients of its site.
    #[default]
    Sites,
    /// Only the first host of all serves.
    First,
}

/// Keys of the user of the bench.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub struct Credentials {
    /// Access key.
    pub access_key: String,
    /// Secret key.
    pub secret_key: String,
    /// Region of the signatures.
    #[serde(default = "region")]
    pub region: String,
}

fn region() -> String {
    "us-east-1".into()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entries {
    version: Spanned<u32>,
    name: Spanned<String>,
    #[serde(default)]
    title: String,
    kind: Kind,
    #[serde(default)]
    untested: Option<String>,
    #[serde(default)]
    install: Option<String>,
    #[serde(default)]
    version_of: Vec<Spanned<String>>,
    endpoint: Spanned<String>,
    #[serde(default)]
    served: Served,
    #[serde(default)]
    stop_seconds: Option<u64>,
    durability: Durability,
    #[serde(default)]
    credentials: Credentials,
    #[serde(default)]
    programs: BTreeMap<String, Vec<Spanned<String>>>,
    #[serde(default)]
    settings: BTreeMap<String, String>,
    #[serde(default)]
    environment: BTreeMap<String, Spanned<String>>,
    #[serde(default)]
    step: Vec<Spanned<StepEntry>>,
    #[serde(default)]
    bucket: BucketEntry,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct BucketEntry {
    create: Vec<Spanned<String>>,
    client: Option<bool>,
    per_site: bool,
    settings: BTreeMap<String, Vec<Spanned<String>>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StepEntry {
    #[serde(default)]
    say: String,
    #[serde(default)]
    on: Reach,
    #[serde(default)]
    at_first: bool,
    at_once: Option<usize>,
    start: Option<String>,
    #[serde(default)]
    run: Vec<Spanned<String>>,
    #[serde(default)]
    hold_stdin: bool,
    write: Option<Spanned<String>>,
    text: Option<Spanned<String>>,
    ready: Option<ReadyEntry>,
    capture: Option<String>,
    capture_json: Option<String>,
    #[serde(default)]
    environment: BTreeMap<String, Spanned<String>>,
    seconds: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReadyEntry {
    http: Option<Spanned<String>>,
    #[serde(default)]
    status: Vec<u16>,
    tcp: Option<Spanned<String>>,
    run: Option<Vec<Spanned<String>>>,
}

/// A system file, checked.
#[derive(Debug, Clone)]
pub struct SystemFile {
    /// Where it came from.
    pub path: PathBuf,
    /// Its short name.
    pub name: String,
    /// What people call it.
    pub title: String,
    /// What it speaks.
    pub kind: Kind,
    /// Why nobody has seen this file work, if nobody has.
    pub untested: Option<String>,
    /// What it has done when it acknowledges.
    pub durability: Durability,
    /// Keys of the user.
    pub credentials: Credentials,
    pub(super) install: Option<String>,
    pub(super) version_of: Vec<Template>,
    pub(super) endpoint: Template,
    pub(super) only_first_serves: bool,
    pub(super) stop_seconds: u64,
    pub(super) programs: BTreeMap<String, Vec<Template>>,
    pub(super) settings: BTreeMap<String, String>,
    pub(super) environment: BTreeMap<String, Template>,
    pub(super) steps: Vec<Step>,
    pub(super) bucket_create: Vec<Template>,
    pub(super) client_makes_buckets: bool,
    pub(super) bucket_per_site: bool,
    pub(super) bucket_settings: BTreeMap<String, Vec<Template>>,
}

impl SystemFile {
    /// Reads a file.
    pub fn load(path: &Path) -> Result<Self, Refusal> {
        let text = std::fs::read_to_string(path).map_err(|error| Refusal {
            path: path.display().to_string(),
            line: 0,
            reason: error.to_string(),
        })?;
        Self::parse(path, &text, &|name| std::env::var(name).ok())
    }

    pub(super) fn parse(path: &Path, text: &str, environment: Environment<'_>) -> Result<Self, Refusal> {
        let shown = path.display().to_string();
        let entries: Entries = parse(&shown, text)?;
        let names = known_names(&entries);
        let reading = Reading { path: &shown, text, environment, names };
        reading.file(path, entries)
    }

    /// Other values for settings of the file, as a scenario asks for them.
    pub fn with(mut self, settings: &BTreeMap<String, String>) -> Result<Self, Refusal> {
        for (name, value) in settings {
            let Some(setting) = self.settings.get_mut(name) else {
                let known: Vec<&str> = self.settings.keys().map(String::as_str).collect();
                let reason = format!("no setting is called {name:?}; there are: {}", known.join(", "));
                return Err(Refusal { path: self.path.display().to_string(), line: 0, reason });
            };
            value.clone_into(setting);
        }
        Ok(self)
    }
}

fn known_names(entries: &Entries) -> BTreeSet<String> {
    let built_in = OWN_NAMES.iter().chain(&SHARED_NAMES).map(|name| (*name).to_owned());
    let keys = ["access_key", "secret_key", "region"].map(str::to_owned);
    let captured = entries.step.iter().filter_map(|step| step.get_ref().capture.clone());
    let of_file = entries.programs.keys().chain(entries.settings.keys()).cloned();
    built_in.chain(keys).chain(captured).chain(of_file).collect()
}

/// One file on its way from text to [`SystemFile`].
struct Reading<'a> {
    path: &'a str,
    text: &'a str,
    environment: Environment<'a>,
    names: BTreeSet<String>,
}

impl Reading<'_> {
    fn refuse(&self, span: Range<usize>, reason: impl Into<String>) -> Refusal {
        Refusal::at(self.path, self.text, span, reason.into())
    }

    fn file(&self, path: &Path, entries: Entries) -> Result<SystemFile, Refusal> {
        if *entries.version.get_ref() != 1 {
            return Err(self.refuse(entries.version.span(), "this release reads version 1"));
        }
        let name = entries.name.get_ref().clone();
        if name.is_empty() || name.contains(['/', ' ']) {
            return Err(self.refuse(entries.name.span(), "a name is one word without a slash"));
        }
        let steps: Vec<Step> =
            entries.step.into_iter().map(|step| self.step(step)).collect::<Result<_, _>>()?;
        let title = if entries.title.is_empty() { name.clone() } else { entries.title };
        Ok(SystemFile {
            path: path.to_path_buf(),
            name,
            title,
            kind: entries.kind,
            untested: entries.untested,
            durability: entries.durability,
            credentials: entries.credentials,
            install: entries.install,
            version_of: self.templates(&entries.version_of, &[])?,
            endpoint: self.template(&entries.endpoint, &[])?,
            only_first_serves: entries.served == Served::First,
            stop_seconds: entries.stop_seconds.unwrap_or(STOP_SECONDS),
            programs: self.lists(entries.programs, &[])?,
            settings: entries.settings,
            environment: self.variables(entries.environment)?,
            steps,
            bucket_per_site: entries.bucket.per_site,
            client_makes_buckets: entries.bucket.client.unwrap_or(entries.bucket.create.is_empty()),
            bucket_create: self.templates(&entries.bucket.create, &BUCKET_NAMES)?,
            bucket_settings: self.lists(entries.bucket.settings, &BUCKET_NAMES)?,
        })
    }

    fn template(&self, entry: &Spanned<String>, more: &[&str]) -> Result<Template, Refusal> {
        let refuse = |reason: String| self.refuse(entry.span(), reason);
        self.checked(entry.get_ref(), more).map_err(refuse)
    }

    fn checked(&self, text: &str, more: &[&str]) -> Result<Template, String> {
        let template = Template::parse(text, self.environment).map_err(|unknown| unknown.0)?;
        let unknown = template.names().find(|name| !self.names.contains(*name) && !more.contains(name));
        match unknown.map(str::to_owned) {
            Some(name) => Err(format!("nothing is called {{{name}}}")),
            None => Ok(template),
        }
    }

    fn templates(&self, entries: &[Spanned<String>], more: &[&str]) -> Result<Vec<Template>, Refusal> {
        entries.iter().map(|entry| self.template(entry, more)).collect()
    }

    fn lists(
        &self,
        entries: BTreeMap<String, Vec<Spanned<String>>>,
        more: &[&str],
    ) -> Result<BTreeMap<String, Vec<Template>>, Refusal> {
        entries.into_iter().map(|(name, list)| Ok((name, self.templates(&list, more)?))).collect()
    }

    fn variables(
        &self,
        entries: BTreeMap<String, Spanned<String>>,
    ) -> Result<BTreeMap<String, Template>, Refusal> {
        entries.into_iter().map(|(name, entry)| Ok((name, self.template(&entry, &[])?))).collect()
    }

    /// The lines of a file to write, each a template, so that a line can be repeated for every host.
    fn lines(&self, entry: &Spanned<String>) -> Result<Vec<Template>, Refusal> {
        // In a multi-line string the first line of the text is the one after the opening quotes.
        let opening = self.text.get(entry.span()).unwrap_or_default();
        let skipped = usize::from(opening.starts_with("'''\n") || opening.starts_with("\"\"\"\n"));
        let mut lines = Vec::new();
        for (number, line) in entry.get_ref().lines().enumerate() {
            let template = self.checked(line, &[]).map_err(|reason| {
                let start = self.refuse(entry.span(), reason);
                Refusal { line: start.line + number + skipped, ..start }
            })?;
            lines.push(template);
        }
        Ok(lines)
    }

    fn step(&self, step: Spanned<StepEntry>) -> Result<Step, Refusal> {
        let span = step.span();
        let step = step.into_inner();
        let action = self.action(&step, &span)?;
        let capture = match (step.capture, step.capture_json) {
            (None, Some(_)) => {
                return Err(self.refuse(span, "capture_json says where, capture must say as what"));
            }
            (Some(name), pointer) => Some((name, pointer)),
            (None, None) => None,
        };
        if capture.is_some() && !matches!(action, Action::Run { .. }) {
            return Err(self.refuse(span, "only what is run to its end can be captured"));
        }
        Ok(Step {
            say: step.say,
            on: step.on,
            at_first: step.at_first,
            at_once: step.at_once.unwrap_or(AT_ONCE).max(1),
            action,
            capture,
            environment: self.variables(step.environment)?,
            seconds: step.seconds.unwrap_or(SECONDS),
        })
    }

    fn action(&self, step: &StepEntry, span: &Range<usize>) -> Result<Action, Refusal> {
        let run = self.templates(&step.run, &[])?;
        match (&step.write, &step.ready, &step.start, run.is_empty()) {
            (Some(path), None, None, true) => {
                let text = step.text.as_ref();
                let text = text.ok_or_else(|| self.refuse(span.clone(), "what is written needs a text"))?;
                Ok(Action::Write { path: self.template(path, &[])?, lines: self.lines(text)? })
            }
            (None, Some(ready), None, true) => Ok(Action::Ready(self.ready(ready, span)?)),
            (None, None, Some(name), false) => {
                Ok(Action::Start { name: name.clone(), command: run, hold_stdin: step.hold_stdin })
            }
            (None, None, None, false) => Ok(Action::Run { command: run }),
            _ => {
                let one = "a step does one thing: write with text, run, start with run, or ready";
                Err(self.refuse(span.clone(), one))
            }
        }
    }

    fn ready(&self, ready: &ReadyEntry, span: &Range<usize>) -> Result<Ready, Refusal> {
        match (&ready.http, &ready.tcp, &ready.run) {
            (Some(url), None, None) => {
                Ok(Ready::Http { url: self.template(url, &[])?, status: ready.status.clone() })
            }
            (None, Some(address), None) => Ok(Ready::Tcp { address: self.template(address, &[])? }),
            (None, None, Some(command)) => Ok(Ready::Run { command: self.templates(command, &[])? }),
            _ => Err(self.refuse(span.clone(), "ready when? one of http, tcp and run")),
        }
    }
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
