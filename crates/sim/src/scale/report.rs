//! From lines of CSV to figures and laws.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::bill;
use super::fit::{self, Fit};
use super::plot::{self, Goal, Series};

/// One figure: its file, its title, its unit, its column, and what is not to be exceeded.
struct Figure {
    file: &'static str,
    title: &'static str,
    unit: &'static str,
    columns: &'static [&'static str],
    goal: Option<Goal>,
}

/// Systems as they stand in figures, the first two ours.
const ORDER: [&str; 6] = ["skerry", "areas", "kademlia", "tree", "pools", "replicas"];

const KILOBYTE: Option<Goal> = Some(Goal { value: 1000.0, name: "goal: 1 kB/s" });
const FIFTY: Option<Goal> = Some(Goal { value: 50_000.0, name: "goal: 50 kB/s" });
const MEMORY: Option<Goal> = Some(Goal { value: (128u64 << 20) as f64, name: "goal: 128 MiB" });

const FIGURES: [Figure; 12] = [
    figure("rest", "Sent at rest, mean of sites", "B/s", &["rest_mean"], KILOBYTE),
    figure("rest-most", "Sent at rest, busiest site", "B/s", &["rest_most"], FIFTY),
    figure("rest-churn", "Sent at rest with churn, mean of sites", "B/s", &["rest_churn_mean"], KILOBYTE),
    figure("load", "Sent under load, mean of sites", "B/s", &["load_mean"], None),
    figure("load-most", "Sent under load, busiest site", "B/s", &["load_most"], FIFTY),
    figure("load-churn", "Sent under load with churn, mean of sites", "B/s", &["load_churn_mean"], None),
    figure("hops", "Messages one after another until found", "mean", &["hops"], None),
    figure("stretch", "Found, in round trips to the nearest holder", "p50", &["stretch_p50"], None),
    figure("stretch-p99", "Found, in round trips to the nearest holder", "p99", &["stretch_p99"], None),
    figure("found", "Time until a holder has answered", "ms, p99", &["took_p99"], None),
    figure(
        "healed",
        "After a cut of halves, until all is found and there",
        "s",
        &["healed_found", "healed_settled"],
        None,
    ),
    figure("memory", "Memory per site", "bytes", &["memory"], MEMORY),
];

const fn figure(
    file: &'static str,
    title: &'static str,
    unit: &'static str,
    columns: &'static [&'static str],
    goal: Option<Goal>,
) -> Figure {
    Figure { file, title, unit, columns, goal }
}

/// A table as it was read.
#[derive(Debug, Default)]
pub struct Table {
    /// By system and sites: columns.
    rows: BTreeMap<(String, u64), BTreeMap<&'static str, f64>>,
}

impl Table {
    /// From lines of CSV; those that begin with the name of the first column are skipped.
    pub fn read(text: &str) -> Result<Self, String> {
        let names: Vec<&'static str> = bill::HEAD.split(',').collect();
        let mut table = Self::default();
        for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.starts_with("system,")) {
            let fields: Vec<&str> = line.split(',').collect();
            let wrong = |what: &str| format!("line {}: {what}", index + 1);
            if fields.len() != names.len() {
                return Err(wrong(&format!("{} fields, not {}", fields.len(), names.len())));
            }
            let sites: u64 = fields[1].parse().map_err(|_| wrong("the number of sites is none"))?;
            let mut row = BTreeMap::new();
            for (name, field) in names.iter().zip(&fields).skip(2).filter(|(_, field)| !field.is_empty()) {
                row.insert(*name, field.parse().map_err(|_| wrong(&format!("{name} is no number")))?);
            }
            // What a process takes for itself is not the sites': with few of them it is most of it.
            let enough = sites >= if fields[0] == "areas" { 1000 } else { 60 };
            let resident = row.get("resident").filter(|_| enough);
            let counted = row.get("counted").filter(|counted| **counted > 0.0);
            let memory = counted.or(resident);
            if let Some(memory) = memory.copied() {
                row.insert("memory", memory);
            }
            table.rows.insert((fields[0].to_owned(), sites), row);
        }
        Ok(table)
    }

    /// A column of one system, over sites.
    pub fn points(&self, system: &str, columns: &[&str]) -> Vec<(f64, f64)> {
        let rows = self.rows.iter().filter(|((name, _), _)| name == system);
        let value = |row: &BTreeMap<&'static str, f64>| {
            let found: Option<Vec<f64>> = columns.iter().map(|column| row.get(column).copied()).collect();
            // Nothing, or faster than is looked at, has no place on an axis of logarithms.
            found.and_then(|found| found.into_iter().reduce(f64::max)).filter(|value| *value > 0.0)
        };
        rows.filter_map(|((_, sites), row)| Some((*sites as f64, value(row)?))).collect()
    }
}

/// The law of each figure as a table in Markdown, and the figures as (file, text).
pub fn write(table: &Table) -> (String, Vec<(String, String)>) {
    let mut laws = String::from(
        "| figure | system | law over n | slope in logarithms | at the last n |\n|---|---|---|---|---|\n",
    );
    let mut files = Vec::new();
    for Figure { file, title, unit, columns, goal } in &FIGURES {
        let mut series = Vec::new();
        for system in ORDER {
            let points = table.points(system, columns);
            let Some((last, value)) = points.last().copied() else { continue };
            let law = fit::best(&points).map_or_else(|| "too few".to_owned(), |fit: Fit| fit.to_string());
            let slope = fit::power(&points).map_or_else(String::new, |fit| format!("{:.2}", fit.b));
            let value = fit::short(value);
            let _ = writeln!(laws, "| {title}, {unit} | {system} | {law} | {slope} | {value} at {last} |");
            series.push(Series { name: system.to_owned(), points, dashed: system == "areas" });
        }
        files.push((format!("{file}.svg"), plot::draw(title, unit, &series, *goal)));
    }
    (laws, files)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(system: &str, sites: u64, rest: f64) -> String {
        let mut fields = vec![String::new(); bill::HEAD.split(',').count()];
        (fields[0], fields[1], fields[2]) = (system.into(), sites.to_string(), rest.to_string());
        fields.join(",")
    }

    #[test]
    fn figures_and_laws_come_from_lines() {
        let lines = [10, 100, 1000].map(|n| row("skerry", n, 3.0 * n as f64));
        let table = Table::read(&format!("{}\n{}\n", bill::HEAD, lines.join("\n"))).unwrap_or_default();
        assert_eq!(table.points("skerry", &["rest_mean"]), [(10.0, 30.0), (100.0, 300.0), (1000.0, 3000.0)]);
        assert!(
            table.points("skerry", &["hops"]).is_empty() && table.points("tree", &["rest_mean"]).is_empty()
        );
        let (laws, files) = write(&table);
        assert!(
            laws.contains("| Sent at rest, mean of sites, B/s | skerry |") && laws.contains("| 1.00 |"),
            "{laws}"
        );
        assert_eq!(files.len(), FIGURES.len());
    }

    #[test]
    fn a_line_that_is_none_is_named() {
        for (text, why) in [
            ("skerry,10", "line 1: 2 fields"),
            (&row("skerry", 3, f64::NAN).replace("NaN", "x"), "rest_mean"),
        ] {
            assert!(Table::read(text).is_err_and(|error| error.contains(why)), "{text}");
        }
    }
}
