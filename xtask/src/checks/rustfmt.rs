//! The sources are as rustfmt writes them.

use super::Findings;
use crate::run;

pub(crate) fn check() -> Findings {
    let output = run::cargo(&["fmt", "--all", "--check", "--", "-l"])
        .output()
        .map_err(|error| format!("cargo fmt: {error}"))?;
    if output.status.success() {
        return Ok(Vec::new());
    }
    let listed = String::from_utf8_lossy(&output.stdout);
    let mut findings: Vec<String> =
        listed.lines().map(|file| format!("{file}: run `cargo fmt --all`")).collect();
    if findings.is_empty() {
        findings.push(String::from_utf8_lossy(&output.stderr).trim().to_owned());
    }
    Ok(findings)
}
