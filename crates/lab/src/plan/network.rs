//! The topology of a cell, as text that the emulator and the simulator read alike.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use super::Setting;
use super::places;

/// Round-trip times that replace a scenario's: rows of numbers.
#[derive(Debug, Clone, PartialEq)]
pub struct Matrix {
    /// `rows[from][to]` in milliseconds.
    pub rows: Vec<Vec<f64>>,
}

impl Matrix {
    /// Reads rows of numbers between spaces, commas or brackets; `#` begins a comment. What is missing in one
    /// direction must not be: a matrix is square.
    pub fn read(path: &Path) -> Result<Self, String> {
        let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        Self::parse(&path.display().to_string(), &text)
    }

    /// The same from text; `path` is only for the error.
    pub fn parse(path: &str, text: &str) -> Result<Self, String> {
        let mut rows: Vec<(usize, Vec<f64>)> = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default();
            let words =
                line.split(|c: char| c.is_whitespace() || ",;[]".contains(c)).filter(|word| !word.is_empty());
            let row: Result<Vec<f64>, _> = words.map(str::parse).collect();
            match row {
                Ok(row) if row.is_empty() => {}
                Ok(row) if row.iter().all(|ms| (0.0..=60_000.0).contains(ms)) => rows.push((number + 1, row)),
                Ok(_) => {
                    return Err(format!("{path}:{}: a round-trip time is from 0 to 60000 ms", number + 1));
                }
                Err(error) => return Err(format!("{path}:{}: {error}", number + 1)),
            }
        }
        let sites = rows.len();
        if let Some((line, row)) = rows.iter().find(|(_, row)| row.len() != sites) {
            return Err(format!("{path}:{line}: {} columns in a matrix of {sites} rows", row.len()));
        }
        if sites == 0 {
            return Err(format!("{path}:1: no row of numbers"));
        }
        Ok(Self { rows: rows.into_iter().map(|(_, row)| row).collect() })
    }
}

/// The topology of these parameters.
pub fn topology(name: &str, setting: &Setting, matrix: Option<&Matrix>) -> Result<String, String> {
    if let (Some(file), None) = (&setting.topology, matrix) {
        let path = places::find("topologies", file)?;
        let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        return Ok(text);
    }
    let sites = matrix.map_or(setting.sites.unwrap_or(1), |matrix| matrix.rows.len() as u64);
    let mut text = format!("# Round-trip times in milliseconds.\nversion = 1\nname = {name:?}\n");
    for site in 1..=sites {
        let _ = write!(text, "\n[[site]]\nname = \"site-{site}\"\n");
        let machines = [("hosts", setting.nodes), ("clients", setting.clients)];
        for (name, count) in machines.into_iter().filter_map(|(name, count)| Some((name, count?))) {
            let _ = writeln!(text, "{name} = {count}");
        }
    }
    table(&mut text, "site_lan", &[("rtt_ms", setting.lan_rtt_ms), ("rate_mbit", setting.lan_rate_mbit)]);
    table(&mut text, "access", &[("rtt_ms", setting.access_rtt_ms), ("rate_mbit", setting.access_rate_mbit)]);
    if let Some(matrix) = matrix {
        rows(&mut text, matrix);
    }
    let core = if matrix.is_some() { None } else { setting.core_rtt_ms };
    let (jitter, rate) = (setting.core_jitter_ms, setting.core_rate_mbit);
    table(&mut text, "link", &[("rtt_ms", core), ("jitter_ms", jitter), ("rate_mbit", rate)]);
    Ok(text)
}

fn table(text: &mut String, name: &str, fields: &[(&str, Option<f64>)]) {
    if fields.iter().any(|(_, value)| value.is_some()) {
        let _ = write!(text, "\n[{name}]\n");
    }
    for (field, value) in fields.iter().filter_map(|(field, value)| Some((field, (*value)?))) {
        let _ = writeln!(text, "{field} = {value}");
    }
}

fn rows(text: &mut String, matrix: &Matrix) {
    text.push_str("\n[matrix]\nrtt_ms = [\n");
    for row in &matrix.rows {
        let numbers: Vec<String> = row.iter().map(f64::to_string).collect();
        let _ = writeln!(text, "    [{}],", numbers.join(", "));
    }
    text.push_str("]\n");
}
