//! One step of a scenario: who asks for what, where, and what happens to the network meanwhile.

use serde::Deserialize;
use skerry_scenario::workload_size::ObjectSize;
use toml::Spanned;

use super::cell::Source;
use super::deed::{self, EventEntry, Timed};
use skerry_scenario::refusal::Refusal;

/// Operations that a client begins in a second, at most.
const RATE: f64 = 100_000.0;

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
    /// Objects of each client, if this step differs.
    pub count: Option<u64>,
    /// Size of each object, if this step differs.
    pub size: Option<ObjectSize>,
    /// The set of objects that it works on: steps that name none share one.
    pub set: Option<String>,
    /// Operations that a client begins in a second, whether the ones before have ended or not.
    pub rate_per_s: Option<f64>,
    /// The step that it goes on beside, until that one ends.
    pub beside: Option<String>,
    /// Whether it begins anew with its first object when it has done all.
    pub again: bool,
    /// For [`Action::Converge`]: sites whose clients wrote the set; all if empty.
    pub writers: Vec<String>,
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
    /// List the set again and again until its own site shows all that was written to it anywhere.
    Converge,
}

impl Action {
    /// Whether it is one operation on each object.
    pub const fn is_on_objects(self) -> bool {
        matches!(self, Self::Put | Self::Get | Self::Head | Self::Delete)
    }
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
    objects: Option<Spanned<u64>>,
    #[serde(default)]
    size: Option<ObjectSize>,
    #[serde(default)]
    set: Option<Spanned<String>>,
    #[serde(default)]
    rate_per_s: Option<Spanned<f64>>,
    #[serde(default)]
    beside: Option<Spanned<String>>,
    #[serde(default)]
    again: Option<Spanned<bool>>,
    #[serde(default)]
    events: Vec<Spanned<EventEntry>>,
}

impl Entry {
    /// Checks it against the file it stands in and the steps before it.
    pub(super) fn check(self, source: Source<'_>, before: &[Phase]) -> Result<Phase, Refusal> {
        let name = self.name.get_ref().clone();
        if name.is_empty() || name.contains('/') || before.iter().any(|other| other.name == name) {
            let reason = format!("phase name {name:?} is empty, contains a slash, or is used twice");
            return Err(source.refuse(self.name.span(), reason));
        }
        self.own_objects(source)?;
        self.stands_beside(source, before)?;
        let set = self.set.map(Spanned::into_inner);
        let count = self.objects.map(Spanned::into_inner);
        let writers = match self.operation {
            Action::Converge => writers(&set, count, before)
                .map_err(|reason| source.refuse(self.name.span(), format!("phase {name:?}: {reason}")))?,
            _ => Vec::new(),
        };
        let events = deed::all(source, &self.events)?;
        Ok(Phase {
            name,
            action: self.operation,
            clients: self.clients,
            objects: self.objects_of.map_or(Whose::Own, Whose::Site),
            endpoint: self.endpoint,
            fresh: self.fresh,
            threads: self.threads,
            count,
            size: self.size,
            set,
            rate_per_s: self.rate_per_s.map(Spanned::into_inner),
            again: self.again.is_some_and(Spanned::into_inner),
            beside: self.beside.map(Spanned::into_inner),
            writers,
            events,
        })
    }

    /// What a step may say of the objects it works on, and how fast.
    fn own_objects(&self, source: Source<'_>) -> Result<(), Refusal> {
        if let Some(set) = &self.set
            && (set.get_ref().is_empty()
                || !set.get_ref().chars().all(|c| c.is_ascii_alphanumeric() || c == '-'))
        {
            return Err(source.refuse(set.span(), "a set is called by letters, digits and hyphens".into()));
        }
        if let Some(objects) =
            self.objects.as_ref().filter(|objects| !(1..=100_000).contains(objects.get_ref()))
        {
            return Err(source.refuse(objects.span(), "objects is from 1 to 100000".into()));
        }
        let Some(rate) = &self.rate_per_s else { return Ok(()) };
        if !self.operation.is_on_objects() {
            return Err(source.refuse(rate.span(), "rate_per_s is for put, get, head and delete".into()));
        }
        if !(*rate.get_ref() > 0.0 && *rate.get_ref() <= RATE) {
            return Err(source.refuse(rate.span(), format!("rate_per_s is above 0 and {RATE} at most")));
        }
        Ok(())
    }

    /// A step beside another stands right after it and is nothing but load.
    fn stands_beside(&self, source: Source<'_>, before: &[Phase]) -> Result<(), Refusal> {
        let Some(beside) = &self.beside else {
            return match &self.again {
                Some(again) => Err(source.refuse(
                    again.span(),
                    "again is for steps beside another, which ends them: this one would not end".into(),
                )),
                None => Ok(()),
            };
        };
        let refuse = |reason: String| Err(source.refuse(beside.span(), reason));
        let leader = before.iter().rev().find(|other| other.beside.is_none());
        let Some(leader) = leader.filter(|leader| leader.name == *beside.get_ref()) else {
            return refuse(format!(
                "beside {:?}: a step stands beside the one right before it, and others beside the same one follow",
                beside.get_ref()
            ));
        };
        if leader.action == Action::Pairs {
            return refuse("nothing is played beside pairs".into());
        }
        if !self.operation.is_on_objects() || self.fresh || !self.events.is_empty() {
            return refuse(
                "beside another step there is put, get, head or delete, without fresh and without events"
                    .into(),
            );
        }
        Ok(())
    }
}

/// Sites whose clients wrote a set in steps before.
fn writers(set: &Option<String>, count: Option<u64>, before: &[Phase]) -> Result<Vec<String>, String> {
    let wrote = |other: &&Phase| other.action == Action::Put && other.set == *set;
    let steps: Vec<&Phase> = before.iter().filter(wrote).collect();
    if steps.is_empty() {
        return Err("no step before it writes the set that it waits for".into());
    }
    if steps.iter().any(|step| step.count != count) {
        return Err("it needs the same objects as the steps that write its set".into());
    }
    if steps.iter().any(|step| step.clients.is_empty()) {
        return Ok(Vec::new());
    }
    let mut sites: Vec<String> = steps.iter().flat_map(|step| step.clients.clone()).collect();
    sites.sort();
    sites.dedup();
    Ok(sites)
}
