//! What the machine gives this process: memory, processors, and how many threads suit them.
//!
//! Why: what fits a server kills a site on a small board or in a control group, where the kernel ends the process before
//! anybody was told to slow down. Invariant: the least of what the kernel says of the machine and of every control group
//! (version 1 or 2) around the process counts; what cannot be read bounds nothing.

use std::path::{Component, Path, PathBuf};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::trust::files;

/// Where control groups are mounted.
const GROUPS: &str = "sys/fs/cgroup";
/// Threads of the runtime that move requests; more would only take memory on a small machine.
const WORKERS: usize = 4;
/// Threads for what blocks on the disk, besides one for each worker. With two processors a site has 12 threads in all: these,
/// the workers, and one each for the start, the federation, commits and the index.
const BLOCKING: usize = 4;
/// Of those, left to others than the bodies that come in: reads, and work in the background.
const OTHERS: usize = 2;

/// Bytes of memory for this process, as found below `root` (`/`; tests have others).
pub(crate) fn memory(root: &Path) -> u64 {
    let machine = read(root.join("proc/meminfo")).and_then(|text| free(&text));
    let groups = read(root.join("proc/self/cgroup")).map(|text| groups(root, &text)).unwrap_or_default();
    groups.into_iter().chain(machine).min().unwrap_or(u64::MAX)
}

/// Processors for this process, control groups considered.
pub(crate) fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Threads of the runtime that move requests.
pub fn workers() -> usize {
    processors().min(WORKERS)
}

/// Threads of the runtime for what blocks on the disk.
pub fn blocking() -> usize {
    workers() + BLOCKING
}

/// Chunks of bodies that are written at once: so many that all processors are busy, and threads are left for reads.
pub(crate) fn writes() -> usize {
    blocking() - OTHERS
}

/// Lets this process have as many files open as it may at all: links and connections take one each, and the usual 1,024 of a
/// shell or a service are fewer than a site serves.
pub fn raise_open_files() {
    let before = getrlimit(Resource::Nofile);
    let wanted = Rlimit { current: before.maximum, maximum: before.maximum };
    if before.current != wanted.current
        && let Err(error) = setrlimit(Resource::Nofile, wanted)
    {
        tracing::warn!(%error, "the limit of open files was not raised");
    }
    tracing::info!(before = before.current, now = open_files(), "so many files may be open");
}

/// How many files this process may have open.
pub(crate) fn open_files() -> u64 {
    // None is no limit.
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

fn read(path: PathBuf) -> Option<String> {
    files::read_text(&path).ok()
}

/// What `/proc/meminfo` says can be had without swapping; kernels before 3.14 say only what there is.
fn free(text: &str) -> Option<u64> {
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
    };
    field("MemAvailable:").or_else(|| field("MemTotal:"))
}

/// The bounds of all control groups named in `/proc/self/cgroup` and of those around them.
fn groups(root: &Path, text: &str) -> Vec<u64> {
    let mounts = root.join(GROUPS);
    let mut bounds = Vec::new();
    for line in text.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        if controllers.is_empty() {
            // Version 2 lies at the mount itself, or beside version 1 in a place of its own.
            for mount in [mounts.clone(), mounts.join("unified")] {
                bounds.extend(upwards(&mount, path, &["memory.max", "memory.high"]));
            }
        } else if controllers.split(',').any(|controller| controller == "memory") {
            bounds.extend(upwards(&mounts.join("memory"), path, &["memory.limit_in_bytes"]));
        }
    }
    bounds
}

/// The numbers in these files of a group and of those above it, up to the mount. In a container the path may be that
/// outside of it: then only the mount is there.
fn upwards(mount: &Path, path: &str, names: &[&str]) -> Vec<u64> {
    let parts = Path::new(path).components().filter_map(|part| match part {
        Component::Normal(name) => Some(Path::new(name)),
        _ => None,
    });
    let mut place = mount.to_path_buf();
    let mut bounds = Vec::new();
    for part in core::iter::once(Path::new("")).chain(parts) {
        place.push(part);
        // "max" is no number and bounds nothing.
        let found = names.iter().filter_map(|name| read(place.join(name))?.trim().parse::<u64>().ok());
        bounds.extend(found);
    }
    bounds
}

#[cfg(test)]
mod tests {
    #![expect(
        clippy::unwrap_used,
        clippy::disallowed_methods,
        reason = "tests: a machine made of files in a directory that vanishes"
    )]
    use super::*;

    const MIB: u64 = 1 << 20;

    /// A machine on which these files say these things.
    fn machine(files: &[(&str, &str)]) -> u64 {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        memory(root.path())
    }

    const MEMINFO: (&str, &str) =
        ("proc/meminfo", "MemTotal: 2097152 kB\nMemFree: 4096 kB\nMemAvailable:  1048576 kB\n");

    #[test]
    fn without_groups_what_the_machine_has_free_counts() {
        assert_eq!(machine(&[MEMINFO]), 1024 * MIB);
        assert_eq!(machine(&[("proc/meminfo", "MemTotal: 2048 kB\n")]), 2 * MIB);
        assert_eq!(machine(&[]), u64::MAX, "what cannot be read bounds nothing");
    }

    #[test]
    fn a_group_of_version_1_bounds_it_and_so_do_those_around_it() {
        let at = |own, outer| {
            machine(&[
                MEMINFO,
                ("proc/self/cgroup", "5:devices:/a/b\n4:cpu,memory:/a/b\n0::/elsewhere\n"),
                ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
                ("sys/fs/cgroup/memory/a/memory.limit_in_bytes", outer),
                ("sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", own),
            ])
        };
        assert_eq!(at("134217728\n", "9223372036854771712\n"), 128 * MIB);
        assert_eq!(at("134217728\n", "67108864\n"), 64 * MIB);
        assert_eq!(at("9223372036854771712\n", "9223372036854771712\n"), 1024 * MIB);
    }

    #[test]
    fn a_group_of_version_2_bounds_it_and_so_do_those_around_it() {
        let at = |mount: &str, own: &str, high: &str, outer: &str| {
            machine(&[
                MEMINFO,
                ("proc/self/cgroup", "0::/a/b\n"),
                (&format!("{mount}/a/memory.max"), outer),
                (&format!("{mount}/a/b/memory.max"), own),
                (&format!("{mount}/a/b/memory.high"), high),
            ])
        };
        for mount in [GROUPS, "sys/fs/cgroup/unified"] {
            assert_eq!(at(mount, "134217728\n", "max\n", "max\n"), 128 * MIB);
            assert_eq!(at(mount, "max\n", "max\n", "67108864\n"), 64 * MIB);
            assert_eq!(at(mount, "134217728\n", "100663296\n", "max\n"), 96 * MIB);
            assert_eq!(at(mount, "max\n", "max\n", "max\n"), 1024 * MIB);
        }
    }

    #[test]
    fn in_a_container_the_mount_is_the_group() {
        let found = machine(&[
            MEMINFO,
            ("proc/self/cgroup", "4:memory:/docker/0123\n0::/../../x\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "134217728\n"),
        ]);
        assert_eq!(found, 128 * MIB);
    }

    #[test]
    fn threads_fit_the_machine() {
        assert!((1..=WORKERS).contains(&workers()));
        assert_eq!(blocking(), workers() + BLOCKING);
        assert!(writes() >= workers(), "all processors can be busy with what comes in");
        assert!(writes() < blocking(), "reads find a thread");
    }
}
