//! What kind of device a directory lies on.
//!
//! Why here: this is the room that knows of disks; what follows from it others decide. Invariant: what the system does not say is
//! [`Device::Unknown`], never guessed. Devices made of others (encryption, volumes, arrays) are as slow as the slowest below.

use std::fs;
use std::path::{Path, PathBuf};

/// Below one another: a file system in a volume in an encrypted array has three.
const DEEP: u32 = 8;

/// The kinds that differ in what suits them, the slowest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Device {
    /// A card, or memory soldered in its place, or a stick: some 10 to 40 MB/s, and worn out by writing.
    Card,
    /// A disk that turns.
    Turning,
    /// The system does not say, or it is a device of others (a network's, a file's).
    Unknown,
    /// A solid-state disk.
    Solid,
}

impl Device {
    /// Its name in logs and settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Card => "card",
            Self::Turning => "turning disk",
            Self::Unknown => "unknown device",
            Self::Solid => "solid-state disk",
        }
    }

    /// That a directory lies on, or will.
    pub fn of(directory: &Path) -> Self {
        // A site that is not made yet will lie where its parent does.
        let stat = directory.ancestors().find_map(|place| rustix::fs::stat(or_here(place)).ok());
        let Some(stat) = stat else { return Self::Unknown };
        let number = (rustix::fs::major(stat.st_dev), rustix::fs::minor(stat.st_dev));
        Self::numbered(Path::new("/"), number)
    }

    /// The one of this number, by what is told below `root` (`/`; tests have others).
    fn numbered(root: &Path, (major, minor): (u32, u32)) -> Self {
        let link = root.join("sys/dev/block").join(format!("{major}:{minor}"));
        fs::canonicalize(link).map_or(Self::Unknown, |place| Self::at(&place, DEEP))
    }

    /// That is told of in this folder, or in the one around it if this is a partition.
    fn at(place: &Path, deep: u32) -> Self {
        let Some(disk) = place.ancestors().take(2).find(|folder| folder.join("queue").is_dir()) else {
            return Self::Unknown;
        };
        let below = parts(&disk.join("slaves"));
        let below = below.iter().filter_map(|part| fs::canonicalize(part).ok());
        // So deep there is nothing but a circle.
        let kind = |part: PathBuf| deep.checked_sub(1).map_or(Self::Unknown, |deep| Self::at(&part, deep));
        if let Some(slowest) = below.map(kind).min() {
            return slowest;
        }
        let name = disk.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let says = |file: &str| match fs::read_to_string(disk.join(file)).ok()?.trim() {
            "0" => Some(false),
            "1" => Some(true),
            _ => None,
        };
        if name.starts_with("mmcblk") || says("removable") == Some(true) {
            return Self::Card;
        }
        if ["loop", "nbd", "rbd", "ram", "zram", "drbd"].iter().any(|kind| name.starts_with(kind)) {
            return Self::Unknown;
        }
        match says("queue/rotational") {
            Some(true) => Self::Turning,
            Some(false) => Self::Solid,
            None => Self::Unknown,
        }
    }
}

/// The empty path is where the process is.
fn or_here(place: &Path) -> &Path {
    if place.as_os_str().is_empty() { Path::new(".") } else { place }
}

/// What is in a folder.
fn parts(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    entries.filter_map(|entry| Some(entry.ok()?.path())).collect()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests: a system made of files in a directory that vanishes")]
    use std::os::unix::fs::symlink;

    use super::*;

    /// A system of devices: where each lies, what its files say, and what it is made of.
    struct System(tempfile::TempDir);

    impl System {
        fn new() -> Self {
            let root = tempfile::tempdir().unwrap();
            fs::create_dir_all(root.path().join("sys/dev/block")).unwrap();
            Self(root)
        }

        fn place(&self, path: &str) -> PathBuf {
            self.0.path().join("sys/devices").join(path)
        }

        fn disk(&self, path: &str, files: &[(&str, &str)]) {
            fs::create_dir_all(self.place(path).join("queue")).unwrap();
            files.iter().for_each(|(file, says)| fs::write(self.place(path).join(file), says).unwrap());
        }

        fn numbered(&self, number: (u32, u32), path: &str) {
            fs::create_dir_all(self.place(path)).unwrap();
            let link = self.0.path().join("sys/dev/block").join(format!("{}:{}", number.0, number.1));
            symlink(self.place(path), link).unwrap();
        }

        fn made_of(&self, path: &str, parts: &[&str]) {
            let below = self.place(path).join("slaves");
            fs::create_dir_all(&below).unwrap();
            for (number, part) in parts.iter().enumerate() {
                symlink(self.place(part), below.join(number.to_string())).unwrap();
            }
        }

        fn device(&self, number: (u32, u32)) -> Device {
            Device::numbered(self.0.path(), number)
        }
    }

    const TURNS: (&str, &str) = ("queue/rotational", "1\n");
    const SOLID: (&str, &str) = ("queue/rotational", "0\n");
    const FIXED: (&str, &str) = ("removable", "0\n");

    #[test]
    fn a_disk_and_its_partitions_are_what_the_disk_says() {
        type Says = &'static [(&'static str, &'static str)];
        let cases: [(&str, Says, Device); 9] = [
            ("mmc0/block/mmcblk0", &[SOLID, FIXED], Device::Card),
            ("usb/block/sdb", &[TURNS, ("removable", "1\n")], Device::Card),
            ("ata1/block/sda", &[TURNS, FIXED], Device::Turning),
            ("ata2/block/sdc", &[SOLID, FIXED], Device::Solid),
            ("pci/nvme0/nvme0n1", &[SOLID, FIXED], Device::Solid),
            ("virtual/block/loop0", &[SOLID, FIXED], Device::Unknown),
            ("virtual/block/nbd0", &[SOLID, FIXED], Device::Unknown),
            ("odd/block/sdd", &[FIXED], Device::Unknown),
            ("odd/block/sde", &[("queue/rotational", "maybe")], Device::Unknown),
        ];
        let system = System::new();
        for (number, (path, files, device)) in (0..).zip(cases) {
            system.disk(path, files);
            system.numbered((8, number), path);
            system.numbered((9, number), &format!("{path}/part"));
            assert_eq!(system.device((8, number)), device, "{path}");
            assert_eq!(system.device((9, number)), device, "a partition of {path}");
        }
    }

    #[test]
    fn what_is_made_of_others_is_as_slow_as_the_slowest() {
        let system = System::new();
        system.disk("a/sda", &[TURNS]);
        system.disk("b/nvme0n1", &[SOLID]);
        system.disk("c/mmcblk0", &[SOLID]);
        fs::create_dir_all(system.place("c/mmcblk0/mmcblk0p2")).unwrap();
        for (number, path, parts, device) in [
            (0, "virtual/dm-0", vec!["b/nvme0n1"], Device::Solid),
            (1, "virtual/dm-1", vec!["a/sda", "b/nvme0n1"], Device::Turning),
            (2, "virtual/md0", vec!["b/nvme0n1", "c/mmcblk0/mmcblk0p2"], Device::Card),
            (3, "virtual/dm-3", vec!["virtual/dm-0", "virtual/md0"], Device::Card),
        ] {
            system.disk(path, &[SOLID]);
            system.made_of(path, &parts);
            system.numbered((253, number), path);
            assert_eq!(system.device((253, number)), device, "{path}");
        }
    }

    #[test]
    fn what_is_not_told_is_unknown_and_a_circle_ends() {
        let system = System::new();
        assert_eq!(system.device((0, 42)), Device::Unknown, "a file system without a device");
        system.disk("virtual/dm-0", &[SOLID]);
        system.made_of("virtual/dm-0", &["virtual/dm-0"]);
        system.numbered((253, 0), "virtual/dm-0");
        assert_eq!(system.device((253, 0)), Device::Unknown);
    }

    /// Whatever this machine has, and where there is nothing yet.
    #[test]
    fn a_directory_that_is_not_there_lies_where_its_parent_does() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Device::of(&folder.path().join("not/yet")), Device::of(folder.path()));
        assert_eq!(Device::of(Path::new("not-there")), Device::of(Path::new(".")));
    }
}
