//! Makes a server host as small as a small machine: memory and processor by control groups (v1).
//!
//! Invariants: a group is named after the run and removed when dropped (its processes have ended by then); what the
//! machine refuses is a warning of the result, never silence.

use std::fs;
use std::path::{Path, PathBuf};

use crate::systems::Running;

const ROOT: &str = "/sys/fs/cgroup";
/// Microseconds over which a share of processors is granted.
const PERIOD: u64 = 100_000;

/// Groups that hold the processes of a run.
#[derive(Debug, Default)]
pub(super) struct Limits {
    groups: Vec<PathBuf>,
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

    fn put(&mut self, kind: &str, host: &str, pid: u32, values: &[(&str, String)]) {
        let group = Path::new(ROOT).join(kind).join(format!("skerry-lab-{}-{host}", std::process::id()));
        let made = match fs::create_dir(&group) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
            other => {
                self.groups.push(group.clone());
                other
            }
        };
        let written = made.and_then(|()| {
            values.iter().try_for_each(|(file, value)| fs::write(group.join(file), value))?;
            fs::write(group.join("cgroup.procs"), pid.to_string())
        });
        if let Err(error) = written {
            self.refused.push(format!("no {kind} limit: {}: {error}", group.display()));
        }
    }
}

impl Drop for Limits {
    fn drop(&mut self) {
        for group in &self.groups {
            // A group that still has a process stays until `skerry-lab clean`.
            let _ = fs::remove_dir(group);
        }
    }
}
