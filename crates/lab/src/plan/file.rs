//! A scenario's file: what it is about, its parameters, its steps, and the paper's numbers.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use serde::Deserialize;
use skerry_scenario::refusal::{Refusal, parse};
use skerry_scenario::workload_size::ObjectSize;
use toml::Spanned;

use super::cell::{self, PlannedCell, Source};
use super::phase::{self, Action, Phase, Whose};
use super::setting::{size_label, words};
use super::statistic::Statistic;
use super::{Scale, Setting, places};
use crate::result::PaperRow;

/// A scenario, checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    /// Its file.
    pub path: PathBuf,
    /// As `F-S7`.
    pub id: String,
    /// What it is about.
    pub title: String,
    /// The paper.
    pub paper: String,
    /// Its figures and tables.
    pub figures: Vec<String>,
    /// What the product lacks for it, as `edges`.
    pub needs: Option<String>,
    /// What of the paper it cannot show.
    pub cannot_reproduce: Vec<String>,
    /// Minutes that the paper's scale is expected to take here.
    pub paper_minutes: f64,
    /// Its steps.
    pub phases: Vec<Phase>,
    /// Its cells at small scale.
    small: Vec<PlannedCell>,
    /// Its cells at the paper's scale.
    large: Vec<PlannedCell>,
    /// The paper's numbers.
    pub rows: Vec<PaperRow>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    version: Spanned<u32>,
    id: String,
    title: String,
    publication: String,
    figures: Vec<String>,
    needs: Option<String>,
    #[serde(default)]
    cannot_reproduce: Vec<String>,
    #[serde(default)]
    paper_minutes: f64,
    setting: Spanned<Setting>,
    #[serde(default)]
    phase: Vec<phase::Entry>,
    scale: Scales,
    #[serde(default)]
    paper: Vec<Spanned<RowEntry>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Scales {
    small: Spanned<Setting>,
    paper: Spanned<Setting>,
}

/// A number of the paper as the file has it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RowEntry {
    figure: String,
    #[serde(default)]
    system: String,
    what: String,
    value: f64,
    unit: String,
    statistic: Spanned<String>,
    #[serde(default)]
    phase: Option<Spanned<String>>,
    #[serde(default)]
    select: BTreeMap<String, toml::Value>,
    #[serde(default)]
    better: String,
    #[serde(default)]
    note: String,
}

impl Scenario {
    /// A file, or one of the lab's own by id.
    pub fn load(name: &str) -> Result<Self, String> {
        let path = places::find("scenarios", name)?;
        let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let scenario =
            Self::parse(&path.display().to_string(), &text).map_err(|refusal| refusal.to_string())?;
        Ok(Self { path, ..scenario })
    }

    /// Reads a file; `path` is only for the error.
    pub fn parse(path: &str, text: &str) -> Result<Self, Refusal> {
        let file: File = parse(path, text)?;
        let source = Source { path, text };
        if *file.version.get_ref() != 1 {
            return Err(source.refuse(file.version.span(), "this release reads version 1".into()));
        }
        let setting = file.setting.get_ref();
        for part in [&file.setting, &file.scale.small, &file.scale.paper] {
            part.get_ref().check().map_err(|reason| source.refuse(part.span(), reason))?;
        }
        let small = cell::cells(setting, file.scale.small.get_ref(), source)?;
        let large = cell::cells(setting, file.scale.paper.get_ref(), source)?;
        let phases = steps(file.phase, source)?;
        let rows = rows(&file.paper, &phases, source)?;
        Ok(Self {
            path: PathBuf::from(path),
            id: file.id,
            title: file.title,
            paper: file.publication,
            figures: file.figures,
            needs: file.needs,
            cannot_reproduce: file.cannot_reproduce,
            paper_minutes: file.paper_minutes,
            phases,
            small,
            large,
            rows,
        })
    }

    /// Its cells.
    pub fn cells(&self, scale: Scale) -> &[PlannedCell] {
        match scale {
            Scale::Small => &self.small,
            Scale::Paper => &self.large,
        }
    }

    /// Puts another topology or workload file in the place of the scenario's own.
    pub fn point_to(&mut self, topology: Option<&str>, workload: Option<&str>) {
        for cell in self.small.iter_mut().chain(&mut self.large) {
            if let Some(file) = topology {
                let setting = &mut cell.setting;
                setting.topology = Some(file.to_owned());
                // What the file says now must not be a label with another value.
                (setting.sites, setting.core_rtt_ms, setting.core_rate_mbit) = (None, None, None);
                (setting.access_rtt_ms, setting.access_rate_mbit, setting.clients) = (None, None, None);
            }
            if let Some(file) = workload {
                cell.setting.workload = Some(file.to_owned());
            }
            cell.labels = cell.setting.labels();
        }
    }

    /// Refuses steps that name a site which a topology does not have.
    pub fn check_sites(&self, sites: &[String]) -> Result<(), String> {
        for phase in &self.phases {
            let of = match &phase.objects {
                Whose::Own => None,
                Whose::Site(site) => Some(site.as_str()),
            };
            let events = phase.events.iter().flat_map(|event| event.deed.reach.sites());
            let mut named = phase
                .clients
                .iter()
                .map(String::as_str)
                .chain(phase.endpoint.as_deref())
                .chain(of)
                .chain(events);
            if let Some(site) = named.find(|site| !sites.iter().any(|known| known == site)) {
                let (path, name) = (self.path.display(), &phase.name);
                return Err(format!(
                    "{path}: phase {name:?} names {site:?}; the sites are {}",
                    sites.join(", ")
                ));
            }
        }
        Ok(())
    }
}

fn steps(entries: Vec<phase::Entry>, source: Source<'_>) -> Result<Vec<Phase>, Refusal> {
    let mut steps = Vec::new();
    for entry in entries {
        let step = entry.check(source, &steps)?;
        steps.push(step);
    }
    Ok(steps)
}

fn rows(
    entries: &[Spanned<RowEntry>],
    phases: &[Phase],
    source: Source<'_>,
) -> Result<Vec<PaperRow>, Refusal> {
    entries.iter().map(|entry| row(entry.get_ref(), phases, source)).collect()
}

fn row(entry: &RowEntry, phases: &[Phase], source: Source<'_>) -> Result<PaperRow, Refusal> {
    if let Err(reason) = Statistic::parse(entry.statistic.get_ref()) {
        return Err(source.refuse(entry.statistic.span(), reason));
    }
    // Pairs make three steps of one; without any step (a scenario that waits) every name is right.
    let made = ["write", "read", "write+read"];
    let pairs = phases.iter().any(|phase| phase.action == Action::Pairs);
    let known = |name: &str| {
        phases.is_empty() || phases.iter().any(|phase| phase.name == name) || pairs && made.contains(&name)
    };
    if let Some(phase) = &entry.phase
        && let Some(name) = phase.get_ref().split('/').find(|name| !known(name))
    {
        return Err(source.refuse(phase.span(), format!("no phase is called {name:?}")));
    }
    Ok(PaperRow {
        figure: entry.figure.clone(),
        system: entry.system.clone(),
        what: entry.what.clone(),
        value: entry.value,
        unit: entry.unit.clone(),
        statistic: entry.statistic.get_ref().clone(),
        phase: entry.phase.as_ref().map(|phase| phase.get_ref().clone()).unwrap_or_default(),
        select: entry.select.iter().map(|(name, value)| (name.clone(), label(name, value))).collect(),
        better: entry.better.clone(),
        note: entry.note.clone(),
    })
}

/// As cells have it: a size is the same however it is written.
fn label(name: &str, value: &toml::Value) -> String {
    let text = words(value);
    match text.parse::<ObjectSize>() {
        Ok(size) if name == "size" => size_label(size),
        _ => text,
    }
}
