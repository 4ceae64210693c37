//! Makes a server host as small as a small machine: memory and processor by control groups (v1).
//!
//! Invariants: a group is named after the run and removed when dropped (its processes have ended by then); what the
//! machine refuses is a warning of the result, never silence; what a limit did is read back from the machine.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::result::HostLimit;
use crate::systems::Running;

const ROOT: &str = "/sys/fs/cgroup";
/// Microseconds over which a share of processors is granted.
const PERIOD: u64 = 100_000;

/// Groups that hold the processes of a run.
#[derive(Debug, Default)]
pub(super) struct Limits {
    /// By host and kind.
    groups: BTreeMap<(String, &'static str), PathBuf>,
    /// What was refused.
    pub(super) refused: Vec<String>,
}

impl Limits {
    /// Puts every process of the system into the group of its host.
    pub(super) fn apply(running: &Running, memory_mb: Option<u64>, cpu_share: Option<f64>) -> Self {
        let mut limits = Self::default();
        for process in running.processes() {
            if let Some(memory) = memory_mb {
                let bytes = (memory * 1_000_000).to_string();
                limits.put("memory", &process.host, process.pid, &[("memory.limit_in_bytes", bytes)]);
            }
            if let Some(share) = cpu_share {
                let quota = ((share * PERIOD as f64) as u64).to_string();
                let values = [("cpu.cfs_period_us", PERIOD.to_string()), ("cpu.cfs_quota_us", quota)];
                limits.put("cpu", &process.host, process.pid, &values);
            }
        }
        limits.refused.sort();
        limits.refused.dedup();
        limits
    }

    /// What the limits did so far, host by host. With `reset` peaks are counted afresh from now on.
    pub(super) fn read(&self, reset: bool) -> Vec<HostLimit> {
        let mut hosts: BTreeMap<&str, HostLimit> = BTreeMap::new();
        for ((host, kind), group) in &self.groups {
            let number = |file: &str| number(&fs::read_to_string(group.join(file)).unwrap_or_default());
            let limit = hosts.entry(host).or_default();
            limit.host.clone_from(host);
            if *kind == "memory" {
                limit.memory_bytes = number("memory.limit_in_bytes");
                limit.memory_peak_bytes = number("memory.max_usage_in_bytes");
                limit.memory_hits = number("memory.failcnt");
                if reset {
                    // A peak that cannot be reset is that of the whole run: larger, never smaller.
                    let _ = fs::write(group.join("memory.max_usage_in_bytes"), "0");
                }
            } else {
                let stat = fs::read_to_string(group.join("cpu.stat")).unwrap_or_default();
                limit.cpu_share = number("cpu.cfs_quota_us") as f64 / PERIOD as f64;
                limit.cpu_throttled_seconds = field(&stat, "throttled_time") as f64 / 1e9;
            }
        }
        hosts.into_values().collect()
    }

    fn put(&mut self, kind: &'static str, host: &str, pid: u32, values: &[(&str, String)]) {
        let group = Path::new(ROOT).join(kind).join(format!("skerry-lab-{}-{host}", std::process::id()));
        let made = match fs::create_dir(&group) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
            other => other,
        };
        if made.is_ok() {
            self.groups.insert((host.to_owned(), kind), group.clone());
        }
        let written = made.and_then(|()| {
            values.iter().try_for_each(|(file, value)| fs::write(group.join(file), value))?;
            fs::write(group.join("cgroup.procs"), pid.to_string())
        });
        if let Err(error) = written {
            self.refused.push(format!("no {kind} limit: {}: {error}", group.display()));
        }
    }
}

/// The number that a file consists of; 0 if it is none.
fn number(text: &str) -> u64 {
    text.trim().parse().unwrap_or(0)
}

/// The number after a name in a file of names and numbers.
fn field(text: &str, name: &str) -> u64 {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')).map_or(0, number)
}

/// What limits did between two readings.
pub(super) fn since(now: Vec<HostLimit>, before: &[HostLimit]) -> Vec<HostLimit> {
    let less = |mut limit: HostLimit| {
        if let Some(before) = before.iter().find(|before| before.host == limit.host) {
            limit.memory_hits = limit.memory_hits.saturating_sub(before.memory_hits);
            limit.cpu_throttled_seconds -= before.cpu_throttled_seconds;
        }
        limit
    };
    now.into_iter().map(less).collect()
}

impl Drop for Limits {
    fn drop(&mut self) {
        for group in self.groups.values() {
            // A group that still has a process stays until `skerry-lab clean`.
            let _ = fs::remove_dir(group);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_the_machine_are_read_and_subtracted() {
        let stat = "nr_periods 12\nnr_throttled 3\nthrottled_time 2500000000\n";
        assert_eq!(
            (field(stat, "throttled_time"), field(stat, "throttled"), number(" 17\n")),
            (2_500_000_000, 0, 17)
        );
        let at = |hits, seconds| HostLimit {
            host: "site-1-1".into(),
            memory_hits: hits,
            cpu_throttled_seconds: seconds,
            ..HostLimit::default()
        };
        assert_eq!(since(vec![at(5, 3.0)], &[at(2, 1.0)]), [at(3, 2.0)]);
    }
}
