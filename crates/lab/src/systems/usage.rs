//! What processes have used, from /proc: CPU time, memory, bytes written.
//!
//! Invariant: a figure covers the whole process group that a step started, so that a wrapper script hides nothing.
//! A process that has ended takes its figures with it; readers take them while it runs.

use std::collections::BTreeMap;

/// What a process group has used since it started.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Usage {
    /// CPU seconds, of children that have ended as well.
    pub cpu_seconds: f64,
    /// Resident memory now.
    pub rss_bytes: u64,
    /// The most it was; with several processes the sum of each one's most.
    pub peak_rss_bytes: u64,
    /// Bytes it caused to be written to disks.
    pub written_bytes: u64,
    /// Bytes it caused to be read from disks.
    pub read_bytes: u64,
}

/// The usage of all process groups that have one of these leaders.
pub(super) fn of_groups(leaders: &[u32]) -> BTreeMap<u32, Usage> {
    let mut groups: BTreeMap<u32, Usage> = leaders.iter().map(|leader| (*leader, Usage::default())).collect();
    for pid in pids() {
        let Some((group, ticks)) = read(pid, "stat").as_deref().and_then(stat) else { continue };
        let Some(usage) = groups.get_mut(&group) else { continue };
        usage.cpu_seconds += ticks as f64 / rustix::param::clock_ticks_per_second() as f64;
        let status = read(pid, "status").unwrap_or_default();
        usage.rss_bytes += field(&status, "VmRSS:").unwrap_or(0) * 1024;
        usage.peak_rss_bytes += field(&status, "VmHWM:").unwrap_or(0) * 1024;
        let io = read(pid, "io").unwrap_or_default();
        usage.written_bytes += field(&io, "write_bytes:").unwrap_or(0);
        usage.read_bytes += field(&io, "read_bytes:").unwrap_or(0);
    }
    groups
}

/// Starts the count of peak memory afresh. Refused by some kernels: then the peak is that of the whole life.
pub(super) fn reset_peak(leaders: &[u32]) {
    for pid in pids() {
        if read(pid, "stat").as_deref().and_then(stat).is_some_and(|(group, _)| leaders.contains(&group)) {
            let _ = std::fs::write(format!("/proc/{pid}/clear_refs"), "5");
        }
    }
}

/// The processes of groups that still run.
pub(super) fn members(leaders: &[u32]) -> Vec<u32> {
    let lives = |pid: &u32| {
        let stat = read(*pid, "stat");
        stat.as_deref().and_then(self::stat).is_some_and(|(group, _)| leaders.contains(&group))
    };
    pids().filter(lives).collect()
}

fn pids() -> impl Iterator<Item = u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn read(pid: u32, file: &str) -> Option<String> {
    let bytes = std::fs::read(format!("/proc/{pid}/{file}")).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Process group and ticks of a line of /proc/PID/stat; none for one that has ended and waits to be noticed.
fn stat(line: &str) -> Option<(u32, u64)> {
    // The name stands in parentheses and may hold anything, parentheses too.
    let (_, after) = line.rsplit_once(") ")?;
    let fields: Vec<&str> = after.split_ascii_whitespace().collect();
    if matches!(*fields.first()?, "Z" | "X") {
        return None;
    }
    let group = fields.get(2)?.parse().ok()?;
    let ticks = fields.get(11..15)?.iter().filter_map(|field| field.parse::<u64>().ok()).sum();
    Some((group, ticks))
}

fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn a_name_may_hold_parentheses() {
        let line = "42 (a) b) S 1 77 77 0 -1 4194304 10 0 0 0 150 50 7 3 20 0 1 0 100 1000 10";
        assert_eq!(stat(line), Some((77, 210)));
        assert_eq!(stat(&line.replace(") S", ") Z")), None);
        assert_eq!(stat("nonsense"), None);
    }

    #[test]
    fn fields_are_found_by_name() {
        let io = "rchar: 5\nread_bytes: 4096\nwrite_bytes: 8192\ncancelled_write_bytes: 1\n";
        assert_eq!(field(io, "write_bytes:"), Some(8192));
        assert_eq!(field("VmHWM:\t   1024 kB\n", "VmHWM:"), Some(1024));
        assert_eq!(field(io, "none:"), None);
    }

    #[test]
    fn our_own_group_uses_memory() {
        let group = u32::try_from(rustix::process::getpgrp().as_raw_nonzero().get()).unwrap();
        let usage = of_groups(&[group]);
        assert!(usage.get(&group).unwrap().peak_rss_bytes > 100_000);
        assert!(members(&[group]).contains(&std::process::id()));
    }
}
