//! Makes a server host as small as a small machine: memory and processor by control groups, version 1 or 2.
//!
//! Invariants: a group is named after the run and removed when dropped (its processes have ended by then); what the
//! machine refuses is said, never silence; what a limit did is read back from the machine.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::result::HostLimit;
use crate::systems::Running;

const ROOT: &str = "/sys/fs/cgroup";
/// Microseconds over which a share of processors is granted.
const PERIOD: u64 = 100_000;

/// Which files a machine's control groups have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    /// A tree for each kind.
    One,
    /// One tree.
    Two,
}

impl Version {
    /// That of the tree at this place.
    fn at(root: &Path) -> Self {
        if root.join("cgroup.controllers").is_file() { Self::Two } else { Self::One }
    }
}

/// What `statfs` says of a file system whose files lie in memory.
const TMPFS: u64 = 0x0102_1994;

/// Why so much memory cannot be measured with sites' directories there: files in memory count against it, and the kernel ends
/// a site that is as small as it should be.
pub(super) fn unfit(work: &Path, memory_mb: Option<u64>) -> Option<String> {
    let memory_mb = memory_mb?;
    let found = rustix::fs::statfs(work).ok()?;
    (u64::try_from(found.f_type).ok()? == TMPFS).then(|| {
        format!(
            "the sites' directories would lie in memory ({} is a tmpfs) and count against memory_mb = {memory_mb}: \
             choose --out on a disk",
            work.display()
        )
    })
}

/// Groups that hold the processes of a run.
#[derive(Debug)]
pub(super) struct Limits {
    root: PathBuf,
    version: Version,
    /// By host and kind.
    groups: BTreeMap<(String, &'static str), PathBuf>,
    /// What was refused.
    pub(super) refused: Vec<String>,
}

impl Limits {
    /// Puts every process of the system into the group of its host.
    pub(super) fn apply(running: &Running, memory_mb: Option<u64>, cpu_share: Option<f64>) -> Self {
        let mut limits = Self::new(Path::new(ROOT));
        for process in running.processes() {
            limits.limit(&process.host, process.pid, memory_mb, cpu_share);
        }
        limits.refused.sort();
        limits.refused.dedup();
        limits
    }

    fn new(root: &Path) -> Self {
        let version = Version::at(root);
        Self { root: root.to_owned(), version, groups: BTreeMap::new(), refused: Vec::new() }
    }

    fn limit(&mut self, host: &str, pid: u32, memory_mb: Option<u64>, cpu_share: Option<f64>) {
        if let Some(memory) = memory_mb {
            let bytes = (memory * 1_000_000).to_string();
            let file = match self.version {
                Version::One => "memory.limit_in_bytes",
                Version::Two => "memory.max",
            };
            self.put("memory", host, pid, &[(file, bytes)]);
        }
        if let Some(share) = cpu_share {
            let quota = (share * PERIOD as f64) as u64;
            let values = match self.version {
                Version::One => {
                    vec![("cpu.cfs_period_us", PERIOD.to_string()), ("cpu.cfs_quota_us", quota.to_string())]
                }
                Version::Two => vec![("cpu.max", format!("{quota} {PERIOD}"))],
            };
            self.put("cpu", host, pid, &values);
        }
    }

    /// What the limits did so far, host by host. With `reset` peaks are counted afresh from now on.
    pub(super) fn read(&self, reset: bool) -> Vec<HostLimit> {
        let mut hosts: BTreeMap<&str, HostLimit> = BTreeMap::new();
        for ((host, kind), group) in &self.groups {
            let limit = hosts.entry(host).or_default();
            limit.host.clone_from(host);
            match (*kind, self.version) {
                ("memory", Version::One) => {
                    memory(limit, group, ["memory.limit_in_bytes", "memory.max_usage_in_bytes"], reset);
                    limit.memory_hits = number(&text(group, "memory.failcnt"));
                }
                ("memory", Version::Two) => {
                    memory(limit, group, ["memory.max", "memory.peak"], reset);
                    limit.memory_hits = field(&text(group, "memory.events"), "max");
                }
                (_, Version::One) => {
                    let stat = text(group, "cpu.stat");
                    limit.cpu_share = number(&text(group, "cpu.cfs_quota_us")) as f64 / PERIOD as f64;
                    limit.cpu_throttled_seconds = field(&stat, "throttled_time") as f64 / 1e9;
                }
                (_, Version::Two) => {
                    let max = text(group, "cpu.max");
                    let quota = max.split_ascii_whitespace().next().unwrap_or_default();
                    limit.cpu_share = number(quota) as f64 / PERIOD as f64;
                    let stat = text(group, "cpu.stat");
                    limit.cpu_throttled_seconds = field(&stat, "throttled_usec") as f64 / 1e6;
                }
            }
        }
        hosts.into_values().collect()
    }

    fn put(&mut self, kind: &'static str, host: &str, pid: u32, values: &[(&str, String)]) {
        let name = format!("skerry-lab-{}-{host}", std::process::id());
        let group = match self.version {
            Version::One => self.root.join(kind).join(name),
            Version::Two => self.root.join(name),
        };
        let made = self.granted(kind).and_then(|()| match fs::create_dir(&group) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            other => other,
        });
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

    /// In version 2 a kind is handed down to groups only if the one above says so.
    fn granted(&self, kind: &str) -> io::Result<()> {
        let file = self.root.join("cgroup.subtree_control");
        let has = |text: &str| text.split_ascii_whitespace().any(|word| word == kind);
        if self.version == Version::One || has(&fs::read_to_string(&file)?) {
            return Ok(());
        }
        fs::write(file, format!("+{kind}"))
    }
}

/// Reads a limit of memory and the peak below it.
fn memory(limit: &mut HostLimit, group: &Path, [most, peak]: [&str; 2], reset: bool) {
    limit.memory_bytes = number(&text(group, most));
    limit.memory_peak_bytes = number(&text(group, peak));
    if reset {
        // A peak that cannot be reset is that of the whole run: larger, never smaller.
        let _ = fs::write(group.join(peak), "0");
    }
}

/// What a file of a group says; nothing if there is none.
fn text(group: &Path, file: &str) -> String {
    fs::read_to_string(group.join(file)).unwrap_or_default()
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
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    /// A directory that looks like a machine's control groups; the files of a group are made by who writes them.
    fn machine(version: Version) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        match version {
            Version::One => ["cpu", "memory"].map(|kind| fs::create_dir(root.path().join(kind)).unwrap()),
            Version::Two => ["cgroup.controllers", "cgroup.subtree_control"]
                .map(|file| fs::write(root.path().join(file), "memory").unwrap()),
        };
        root
    }

    #[test]
    fn memory_is_not_measured_where_files_lie_in_memory() {
        // As every system with glibc has it; what is none of that kind is refused nothing.
        let memory = Path::new("/dev/shm");
        if memory.is_dir() {
            assert!(unfit(memory, Some(64)).unwrap().contains("choose --out on a disk"));
        }
        assert_eq!(unfit(memory, None), None);
        assert_eq!(unfit(Path::new("/proc"), Some(64)), None);
    }

    #[test]
    fn both_versions_are_written_and_read_back() {
        for version in [Version::One, Version::Two] {
            let root = machine(version);
            let mut limits = Limits::new(root.path());
            assert_eq!(limits.version, version);
            limits.limit("site-1-1", 7, Some(64), Some(0.25));
            assert_eq!(limits.refused, Vec::<String>::new());
            let cpu = limits.groups.get(&("site-1-1".to_owned(), "cpu")).unwrap();
            assert_eq!(fs::read_to_string(cpu.join("cgroup.procs")).unwrap(), "7");
            let stat = match version {
                Version::One => "nr_throttled 3\nthrottled_time 2500000000\n",
                Version::Two => "nr_throttled 3\nthrottled_usec 2500000\n",
            };
            fs::write(cpu.join("cpu.stat"), stat).unwrap();
            let read = limits.read(false);
            assert_eq!((read.len(), read[0].memory_bytes), (1, 64_000_000), "{version:?}");
            assert!((read[0].cpu_share - 0.25).abs() < 1e-9, "{version:?} {read:?}");
            assert!((read[0].cpu_throttled_seconds - 2.5).abs() < 1e-9, "{version:?} {read:?}");
            if version == Version::Two {
                let handed = fs::read_to_string(root.path().join("cgroup.subtree_control")).unwrap();
                assert_eq!(handed, "+cpu", "what is handed down already is not asked for");
            }
        }
    }

    #[test]
    fn what_the_machine_refuses_is_named() {
        let root = tempfile::tempdir().unwrap();
        let mut limits = Limits::new(root.path());
        limits.limit("site-1-1", 7, None, Some(0.25));
        assert!(limits.refused[0].starts_with("no cpu limit: "), "{:?}", limits.refused);
        assert!(limits.groups.is_empty() && limits.read(false).is_empty());
    }

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
