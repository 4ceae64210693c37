//! What suits this machine where its operator says nothing: a board with a card and a server with fast disks are told nothing.
//!
//! Why: a sync of all that may be written and not synced takes as long as the device needs for it, and moving and scrubbing take
//! their part of what it gives. Invariants: decided from memory and kind of device alone; what an operator says counts as it
//! stands; what nobody knows of a device gets what a machine of 1 GB gets.

use std::path::Path;

use skerry_storage::Device;

use crate::config::{Config, Fit, Size};
use crate::rooms::Rooms;
use crate::server::DATA;

const MIB: u64 = 1 << 20;

/// Memory of the index, on any machine.
const INDEX: u64 = 10 * MIB;

/// What suits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fitted {
    /// What it was made from.
    pub memory: u64,
    /// What it was made from.
    pub device: Device,
    /// `storage.memory`.
    pub index: u64,
    /// `storage.dirty`.
    pub dirty: u64,
    /// `storage.pace`, in a second.
    pub moving: u64,
    /// `scrub.pace`, in a second.
    pub scrub: u64,
    /// Whether blocks of the index are packed: where writing wears the device out and reading is slow.
    pub packs_index: bool,
    /// What the first and the third may be at most, whoever says it.
    index_most: u64,
    dirty_most: u64,
}

impl Fitted {
    /// To memory that was divided so and a device of this kind.
    pub(crate) fn to(rooms: &Rooms, device: Device) -> Self {
        let (dirty, moving, scrub) = match device {
            // It writes 10 to 40 MB/s: a sync takes a second or so, and half of the least is left to clients.
            Device::Card => (16, 4, 4),
            Device::Turning | Device::Unknown => (64, 8, 8),
            Device::Solid => (64, 32, 32),
        };
        let index = INDEX.min(rooms.index);
        Self {
            memory: rooms.memory,
            device,
            index,
            dirty: rooms.dirty.min(dirty * MIB),
            moving: moving * MIB,
            scrub: scrub * MIB,
            packs_index: device == Device::Card,
            index_most: rooms.index,
            dirty_most: rooms.dirty,
        }
    }

    /// To this machine, and the device that the site of this configuration lies on or will.
    pub fn here(config: &Config) -> Self {
        let data = Path::new(&config.node.dir).join(DATA);
        Self::to(&Rooms::here(), Device::of(&data))
    }

    /// What `storage.memory` comes to.
    pub(crate) fn index_of(&self, config: &Config) -> u64 {
        config.storage.memory.of(self.index).min(self.index_most)
    }

    /// What `storage.dirty` comes to.
    pub(crate) fn dirty_of(&self, config: &Config) -> u64 {
        config.storage.dirty.of(self.dirty).min(self.dirty_most)
    }

    /// What a field comes to, where it is left to the machine or more than this has.
    pub fn value(&self, config: &Config, section: &str, field: &str) -> Option<Size> {
        let (said, comes_to) = match (section, field) {
            ("storage", "memory") => (config.storage.memory, self.index_of(config)),
            ("storage", "dirty") => (config.storage.dirty, self.dirty_of(config)),
            ("storage", "pace") => (config.storage.pace, config.storage.pace.of(self.moving)),
            ("scrub", "pace") => (config.scrub.pace, config.scrub.pace.of(self.scrub)),
            _ => return None,
        };
        (said != Fit::Bytes(Size(comes_to))).then_some(Size(comes_to))
    }

    /// Says it in the log.
    pub(crate) fn tell(&self) {
        let Self { memory, device, index, dirty, moving, scrub, packs_index, .. } = self;
        let device = device.name();
        tracing::info!(
            memory,
            device,
            index,
            packs_index,
            dirty,
            moving,
            scrub,
            "defaults fitted to the machine"
        );
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::config::kinds::Setting as _;

    const GIB: u64 = 1 << 30;

    fn fitted(memory: u64, device: Device) -> Fitted {
        Fitted::to(&Rooms::of(memory, 2), device)
    }

    #[test]
    fn what_suits_follows_from_memory_and_device() {
        for (memory, device, expected) in [
            (64 * MIB, Device::Solid, [8, 8, 32, 32]),
            (128 * MIB, Device::Card, [10, 16, 4, 4]),
            (GIB, Device::Card, [10, 16, 4, 4]),
            (GIB, Device::Turning, [10, 64, 8, 8]),
            (GIB, Device::Solid, [10, 64, 32, 32]),
            (8 * GIB, Device::Unknown, [10, 64, 8, 8]),
            (64 * GIB, Device::Solid, [10, 64, 32, 32]),
            (0, Device::Unknown, [2, 2, 8, 8]),
            (u64::MAX, Device::Card, [10, 16, 4, 4]),
        ] {
            let found = fitted(memory, device);
            let found = [found.index, found.dirty, found.moving, found.scrub];
            assert_eq!(found.map(|bytes| bytes / MIB), expected, "{memory} bytes and a {}", device.name());
            assert_eq!(fitted(memory, device).packs_index, device == Device::Card);
        }
    }

    /// Where nothing is known a store has what it has by itself.
    #[test]
    fn what_nobody_knows_of_a_device_changes_nothing() {
        let defaults = skerry_storage::Settings::default();
        let fitted = fitted(GIB, Device::Unknown);
        assert_eq!(fitted.index, defaults.memtable_bytes + defaults.index_cache_bytes);
        assert_eq!((fitted.dirty, fitted.moving), (defaults.dirty_bytes, 8 * MIB));
        assert_eq!(fitted.packs_index, defaults.packs_index);
    }

    #[test]
    fn what_an_operator_says_counts_up_to_what_the_machine_has() {
        let mut config = Config::default();
        let fitted = fitted(256 * MIB, Device::Card);
        let dirty = |config: &Config| fitted.value(config, "storage", "dirty");
        assert_eq!((dirty(&config), fitted.dirty_of(&config)), (Some(Size(16 * MIB)), 16 * MIB));
        config.storage.dirty = Fit::Bytes(Size(20 * MIB));
        assert_eq!((dirty(&config), fitted.dirty_of(&config)), (None, 20 * MIB));
        config.storage.dirty = Fit::Bytes(Size(100 * MIB));
        assert_eq!((dirty(&config), fitted.dirty_of(&config)), (Some(Size(32 * MIB)), 32 * MIB));
        assert_eq!(fitted.value(&config, "storage", "cache"), None);
        config.storage.memory = Fit::Bytes(Size(20 * MIB));
        assert_eq!(fitted.index_of(&config), 20 * MIB);
    }

    /// What is shown is what the store gets.
    #[test]
    fn the_store_is_opened_with_what_is_shown() {
        let folder = std::env::temp_dir();
        for (memory, said) in [(64 * MIB, "1 GiB"), (GIB, "24 MiB")] {
            for said in [None, Some(Fit::Bytes(Size::parse(said).unwrap()))] {
                let (mut config, rooms) = (Config::default(), Rooms::of(memory, 2));
                config.storage.memory = said.unwrap_or(Fit::Auto);
                (config.storage.dirty, config.storage.pace) = (config.storage.memory, config.storage.memory);
                let fitted = Fitted::to(&rooms, Device::of(&folder));
                let settings = crate::server::settings(&config, &folder, &rooms);
                let shown = |field: &str| {
                    let shown = fitted.value(&config, "storage", field);
                    shown.map_or_else(|| config.storage.memory.of(0), |shown| shown.0)
                };
                let index = settings.memtable_bytes + settings.index_cache_bytes;
                assert_eq!(settings.index_cache_bytes, index / 5, "for blocks that were read");
                let given = [index, settings.dirty_bytes, settings.move_bytes];
                assert_eq!(given, ["memory", "dirty", "pace"].map(shown), "{said:?} of {memory}");
            }
        }
    }
}
