//! The cells of a scenario: every combination of what its sweep varies.

use std::collections::BTreeMap;

use skerry_scenario::refusal::Refusal;
use toml::{Spanned, Table, Value};

use super::Setting;
use super::setting::Sweep;

/// One combination of parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedCell {
    /// What tells it from others.
    pub labels: BTreeMap<String, String>,
    /// All parameters.
    pub setting: Setting,
}

/// What is missing for a cell, if something is: the words of its status.
impl PlannedCell {
    /// Codes and scopes that nothing here can do yet are no measurement.
    pub fn missing(&self) -> Option<String> {
        self.setting.code.is_some().then(|| "needs codes: not yet".to_owned())
    }
}

/// Where errors point to.
#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    pub(super) path: &'a str,
    pub(super) text: &'a str,
}

impl Source<'_> {
    pub(super) fn refuse(self, span: std::ops::Range<usize>, reason: String) -> Refusal {
        Refusal::at(self.path, self.text, span, reason)
    }
}

/// Every combination, tables in the file's order; within one, sites and links vary slowest, so that a network is not
/// built twice.
pub(super) fn cells(
    base: &Setting,
    scale: &Setting,
    source: Source<'_>,
) -> Result<Vec<PlannedCell>, Refusal> {
    let mut start = base.table();
    start.extend(scale.table());
    let single = [Sweep::new()];
    let sweeps = if scale.sweep.is_empty() { &single[..] } else { &scale.sweep };
    let mut cells = Vec::new();
    for sweep in sweeps {
        cells.extend(combinations(&start, sweep, source)?);
    }
    cells.iter().map(|table| planned(table, source)).collect()
}

fn planned(table: &Table, source: Source<'_>) -> Result<PlannedCell, Refusal> {
    let refuse = |reason: String| source.refuse(0..0, reason);
    let setting: Setting =
        table.clone().try_into().map_err(|error: toml::de::Error| refuse(error.message().into()))?;
    setting.check().and_then(|()| setting.check_together()).map_err(refuse)?;
    Ok(PlannedCell { labels: setting.labels(), setting })
}

fn combinations(start: &Table, sweep: &Sweep, source: Source<'_>) -> Result<Vec<Table>, Refusal> {
    let mut fields: Vec<(&String, &Spanned<Value>)> = sweep.iter().collect();
    fields.sort_by_key(|(name, _)| !slow(name));
    let mut tables = vec![start.clone()];
    for (name, value) in fields {
        let choices = match value.get_ref() {
            Value::Array(values) => values.clone(),
            other => vec![other.clone()],
        };
        let mut next = Vec::new();
        for table in &tables {
            for choice in &choices {
                let mut table = table.clone();
                table.insert(name.clone(), one(name, choice, value.span(), source)?);
                next.push(table);
            }
        }
        tables = next;
    }
    Ok(tables)
}

fn slow(name: &str) -> bool {
    ["sites", "topology", "clients"].contains(&name) || name.ends_with("_ms") || name.ends_with("_mbit")
}

/// Refuses a value at its own line rather than the whole table at no line.
fn one(
    name: &str,
    value: &Value,
    span: std::ops::Range<usize>,
    source: Source<'_>,
) -> Result<Value, Refusal> {
    let alone = Table::from_iter([(name.to_owned(), value.clone())]);
    let setting: Result<Setting, toml::de::Error> = alone.try_into();
    let refuse = |reason: String| source.refuse(span.clone(), reason);
    let setting = setting.map_err(|error| refuse(format!("{name}: {}", error.message())))?;
    setting.check().map_err(refuse)?;
    // As the type has it: `100` for a time becomes 100.0, so that labels do not depend on how it was written.
    Ok(setting.table().remove(name).unwrap_or_else(|| value.clone()))
}
