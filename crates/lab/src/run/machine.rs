//! What a result says of the machine, the tree and the binary.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::SystemTime;

use skerry_base::time::WallTime;
use skerry_gateway::service::date;

use crate::plan::places;
use crate::result::Machine;

/// The machine, with its load now.
pub(crate) fn describe() -> Machine {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let field = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(name))?.split_once(':')?.1.trim().to_owned();
        Some(line)
    };
    let cpu = read("/proc/cpuinfo");
    let memory = field(&read("/proc/meminfo"), "MemTotal").unwrap_or_default();
    let kilobytes = memory.split_ascii_whitespace().next().and_then(|text| text.parse::<u64>().ok());
    let load = load();
    Machine {
        cpu: field(&cpu, "model name").unwrap_or_else(|| "unknown".into()),
        cores: cpu.lines().filter(|line| line.starts_with("processor")).count() as u32,
        memory_bytes: kilobytes.unwrap_or(0) * 1024,
        kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
        load_before: load,
        load_after: load,
    }
}

/// Load averages of 1, 5 and 15 minutes.
pub(crate) fn load() -> [f64; 3] {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let mut numbers = text.split_ascii_whitespace().filter_map(|word| word.parse().ok());
    std::array::from_fn(|_| numbers.next().unwrap_or(0.0))
}

/// The commit of this tree, with `+` if tracked files differ from it; `unknown` outside a checkout.
pub(crate) fn commit() -> String {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").arg("-C").arg(places::home()).args(arguments).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let Some(commit) = git(&["rev-parse", "--short=12", "HEAD"]) else { return "unknown".into() };
    let clean =
        git(&["status", "--porcelain", "--untracked-files=no"]).is_some_and(|changes| changes.is_empty());
    if clean { commit } else { commit + "+" }
}

/// BLAKE3 of a file; empty if it cannot be read.
pub(super) fn blake3(path: &Path) -> String {
    fs::read(path).map(|bytes| blake3::hash(&bytes).to_hex().to_string()).unwrap_or_default()
}

/// Milliseconds since 1970.
pub(crate) fn wall_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    since.as_millis() as u64
}

/// A time in the form of RFC 3339.
pub(crate) fn rfc3339(wall_ms: u64) -> String {
    date::iso(WallTime(wall_ms))
}
