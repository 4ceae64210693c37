//! Who may name whom. Arrows point down only; a new one needs a decision record and a line here.

use super::Findings;
use crate::metadata;

/// Room → rooms it may depend on. ARCHITECTURE.md prints the same lines.
pub(crate) const ARROWS: &[(&str, &[&str])] = &[
    ("cli", &["node", "bench", "scenario", "base"]),
    ("lab", &["bench", "scenario", "gateway", "base"]),
    ("bench", &["gateway", "scenario", "base"]),
    ("node", &["gateway", "federation", "storage", "model", "base"]),
    ("gateway", &["base"]),
    ("federation", &["base"]),
    ("storage", &["base"]),
    ("model", &["base"]),
    ("sim", &["federation", "storage", "model", "scenario", "base"]),
    ("scenario", &["base"]),
    ("base", &[]),
    ("xtask", &[]),
];

/// Libraries that belong to rooms: whoever else names them has taken over a trade.
const TRADES: &[(&str, &[&str])] = &[
    ("s3s", &["gateway"]),
    ("hyper", &["gateway", "bench", "lab", "cli"]),
    ("hyper-util", &["gateway", "bench", "lab", "cli"]),
    ("foca", &["federation"]),
    ("lsm-tree", &["storage"]),
    ("redb", &["storage"]),
    // The node reads the clock that goes on while a machine sleeps, and nothing else of it.
    ("rustix", &["storage", "lab", "cli", "node"]),
    ("yamux", &["node"]),
    ("rcgen", &["node"]),
    ("tokio", &["gateway", "node", "bench", "lab", "cli"]),
    ("clap", &["cli", "sim", "lab"]),
];

/// The name of a room's package without the prefix.
fn room(package: &str) -> &str {
    package.strip_prefix("skerry-").unwrap_or(package)
}

pub(crate) fn check() -> Findings {
    let packages = metadata::load()?;
    let members: Vec<_> = packages.iter().filter(|package| package.member).collect();
    let mut findings = Vec::new();
    for package in &members {
        let from = room(&package.name);
        let Some((_, allowed)) = ARROWS.iter().find(|(name, _)| *name == from) else {
            findings.push(format!("{from}: a room without a line in xtask/src/checks/arrows.rs"));
            continue;
        };
        // A crate may name itself for its tests: with a feature that they need.
        for dependency in package.dependencies.iter().filter(|dependency| dependency.name != package.name) {
            let to = room(&dependency.name);
            let is_room = members.iter().any(|member| member.name == dependency.name);
            if is_room && !allowed.contains(&to) {
                findings.push(format!("{from} → {to}: not an arrow of the house"));
            }
            let trade = TRADES.iter().find(|(library, _)| *library == dependency.name);
            if let Some((library, rooms)) =
                trade.filter(|(_, rooms)| !dependency.dev && !rooms.contains(&from))
            {
                findings.push(format!("{from} names {library}, the trade of {}", rooms.join(" and ")));
            }
        }
    }
    for (name, _) in
        ARROWS.iter().filter(|(name, _)| !members.iter().any(|member| room(&member.name) == *name))
    {
        findings.push(format!("{name}: has arrows but is no crate"));
    }
    Ok(findings)
}
