//! One step of a scenario: who asks for what, where, and what happens to the network meanwhile.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use toml::Spanned;

use skerry_scenario::refusal::Refusal;

/// A step, checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Phase {
    /// Its name.
    pub name: String,
    /// What is asked for.
    pub action: Action,
    /// Sites whose clients take part; all if empty.
    pub clients: Vec<String>,
    /// Whose objects.
    pub objects: Whose,
    /// The site that is asked; the client's own if none.
    pub endpoint: Option<String>,
    /// Whether the machine's caches are dropped before it.
    pub fresh: bool,
    /// Requests of a client at once, if this step differs.
    pub threads: Option<u64>,
    /// What is done to the network, in order of time.
    pub events: Vec<Timed>,
}

/// What a step asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// Make the bucket; one client does.
    CreateBucket,
    /// Write every object.
    Put,
    /// Read every object once.
    Get,
    /// Read the head of every object once.
    Head,
    /// List the bucket; as often as there are trials.
    List,
    /// Delete every object.
    Delete,
    /// Delete the bucket; one client does.
    DeleteBucket,
    /// Write every key of the workload file once; one client does.
    Fill,
    /// What the workload file says, every client alike and on the same keys.
    Workload,
    /// Random pairs of clients, one after the other: one writes an object, the other reads it.
    Pairs,
}

/// Whose objects a step works on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Whose {
    /// Each client its own.
    #[default]
    Own,
    /// Those of the clients of that site.
    Site(String),
}

/// Something done to the network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timed {
    /// After the step's start.
    pub at: Duration,
    /// What.
    pub deed: Deed,
}

/// What can be done to the network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Deed {
    /// Nothing passes between the site and others.
    Cut(String),
    /// It passes again.
    Heal(String),
}

impl Deed {
    /// The site.
    pub fn site(&self) -> &str {
        match self {
            Self::Cut(site) | Self::Heal(site) => site,
        }
    }
}

impl std::fmt::Display for Deed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Cut(site) => write!(f, "cut {site}"),
            Self::Heal(site) => write!(f, "heal {site}"),
        }
    }
}

/// A step as the file has it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Entry {
    name: Spanned<String>,
    operation: Action,
    #[serde(default)]
    clients: Vec<String>,
    #[serde(default)]
    objects_of: Option<String>,
    #[serde(default)]
    endpoint: Option<String>,
    #[serde(default)]
    fresh: bool,
    #[serde(default)]
    threads: Option<u64>,
    #[serde(default)]
    events: Vec<Spanned<EventEntry>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EventEntry {
    at: Spanned<String>,
    cut: Option<String>,
    heal: Option<String>,
}

impl Entry {
    /// Checks it against the file it stands in and the names used before.
    pub(super) fn check(
        self,
        path: &str,
        text: &str,
        seen: &mut BTreeMap<String, ()>,
    ) -> Result<Phase, Refusal> {
        let name = self.name.get_ref().clone();
        if name.is_empty() || name.contains('/') || seen.insert(name.clone(), ()).is_some() {
            let reason = format!("phase name {name:?} is empty, contains a slash, or is used twice");
            return Err(Refusal::at(path, text, self.name.span(), reason));
        }
        let mut events = Vec::new();
        for event in self.events {
            events.push(timed(path, text, &event)?);
        }
        events.sort_by_key(|event| event.at);
        let objects = self.objects_of.map_or(Whose::Own, Whose::Site);
        let (action, clients, endpoint) = (self.operation, self.clients, self.endpoint);
        Ok(Phase {
            name,
            action,
            clients,
            objects,
            endpoint,
            fresh: self.fresh,
            threads: self.threads,
            events,
        })
    }
}

fn timed(path: &str, text: &str, event: &Spanned<EventEntry>) -> Result<Timed, Refusal> {
    let entry = event.get_ref();
    let at = span(entry.at.get_ref()).ok_or_else(|| {
        let reason = format!("{:?} is no time; say it as 500ms or 3s", entry.at.get_ref());
        Refusal::at(path, text, entry.at.span(), reason)
    })?;
    let deed = match (&entry.cut, &entry.heal) {
        (Some(site), None) => Deed::Cut(site.clone()),
        (None, Some(site)) => Deed::Heal(site.clone()),
        _ => {
            let reason = "an event cuts or heals one site: { at = \"3s\", cut = \"site-2\" }".to_owned();
            return Err(Refusal::at(path, text, event.span(), reason));
        }
    };
    Ok(Timed { at, deed })
}

fn span(text: &str) -> Option<Duration> {
    let (number, factor) = match text.strip_suffix("ms") {
        Some(number) => (number, 1.0),
        None => (text.strip_suffix('s')?, 1000.0),
    };
    let ms = number.parse::<f64>().ok()? * factor;
    (0.0..=3_600_000.0).contains(&ms).then(|| Duration::from_micros((ms * 1000.0) as u64))
}
