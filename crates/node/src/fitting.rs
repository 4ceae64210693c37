//! What suits this machine where its operator says nothing: a board with a card and a server with fast disks are told nothing.
//!
//! Why: a sync of all that may be written and not synced takes as long as the device needs for it, moving and scrubbing take their
//! part of what it gives, and an index of many objects is read again and again where its blocks find no place. Invariants: decided
//! from memory and kind of device alone; what an operator says counts as it stands; what nobody knows of a device gets what a
//! machine of 1 GB gets.

use std::path::Path;

use skerry_storage::Device;

use crate::config::{Config, Fit};
use crate::machine;
use crate::server::DATA;

const MIB: u64 = 1 << 20;

/// Memory of the index: what suits a machine of 1 GB, half for what is not flushed.
const INDEX: u64 = 16 * MIB;
/// Blocks of a large index may take one part of the memory in so many, and so many bytes at most. A small index takes what it
/// takes anywhere: the memory of a site at rest does not grow with its machine.
const CACHE: u64 = 64;
const CACHE_MOST: u64 = 256 * MIB;

/// What suits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fitted {
    /// What it was made from.
    pub memory: u64,
    /// What it was made from.
    pub device: Device,
    /// `storage.memory`.
    pub index: u64,
    /// To which the blocks of the index may grow beyond their half of that, where the index is large.
    pub cache: u64,
    /// `storage.dirty`.
    pub dirty: u64,
    /// `storage.pace`, in a second.
    pub moving: u64,
    /// `scrub.pace`, in a second.
    pub scrub: u64,
}

impl Fitted {
    /// To so much memory and a device of this kind.
    pub fn to(memory: u64, device: Device) -> Self {
        let (dirty, moving, scrub) = match device {
            // It writes 10 to 40 MB/s: a sync takes a second or so, and half of the least is left to clients.
            Device::Card => (16, 4, 4),
            Device::Turning | Device::Unknown => (64, 8, 8),
            Device::Solid => (64, 32, 32),
        };
        Self {
            memory,
            device,
            index: INDEX,
            cache: (memory / CACHE).clamp(INDEX / 2, CACHE_MOST),
            dirty: dirty * MIB,
            moving: moving * MIB,
            scrub: scrub * MIB,
        }
    }

    /// To this machine, and the device that the site of this configuration lies on or will.
    pub fn here(config: &Config) -> Self {
        let data = Path::new(&config.node.dir).join(DATA);
        Self::to(machine::memory(Path::new("/")), Device::of(&data))
    }

    /// What a field comes to, where it is left to the machine.
    pub fn value(&self, config: &Config, section: &str, field: &str) -> Option<Fit> {
        let (said, here) = match (section, field) {
            ("storage", "memory") => (config.storage.memory, self.index),
            ("storage", "dirty") => (config.storage.dirty, self.dirty),
            ("storage", "pace") => (config.storage.pace, self.moving),
            ("scrub", "pace") => (config.scrub.pace, self.scrub),
            _ => return None,
        };
        (said == Fit::Auto).then_some(Fit::Bytes(crate::config::Size(here)))
    }

    /// Says it in the log.
    pub(crate) fn tell(&self) {
        let Self { memory, device, index, cache, dirty, moving, scrub } = self;
        let device = device.name();
        tracing::info!(memory, device, index, cache, dirty, moving, scrub, "defaults fitted to the machine");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn what_suits_follows_from_memory_and_device() {
        for (memory, device, [index, cache, dirty, moving, scrub]) in [
            (128 * MIB, Device::Card, [16, 8, 16, 4, 4]),
            (GIB, Device::Card, [16, 16, 16, 4, 4]),
            (GIB, Device::Turning, [16, 16, 64, 8, 8]),
            (GIB, Device::Solid, [16, 16, 64, 32, 32]),
            (8 * GIB, Device::Unknown, [16, 128, 64, 8, 8]),
            (64 * GIB, Device::Solid, [16, 256, 64, 32, 32]),
            (0, Device::Unknown, [16, 8, 64, 8, 8]),
            (u64::MAX, Device::Card, [16, 256, 16, 4, 4]),
        ] {
            let found = Fitted::to(memory, device);
            let expected = Fitted {
                memory,
                device,
                index: index * MIB,
                cache: cache * MIB,
                dirty: dirty * MIB,
                moving: moving * MIB,
                scrub: scrub * MIB,
            };
            assert_eq!(found, expected);
        }
    }

    /// A release before had these everywhere; where nothing is known it stays so.
    #[test]
    fn what_nobody_knows_of_a_device_changes_nothing() {
        let defaults = skerry_storage::Settings::default();
        let fitted = Fitted::to(GIB, Device::Unknown);
        assert_eq!(fitted.index, defaults.memtable_bytes + defaults.index_cache_bytes);
        assert_eq!((fitted.dirty, fitted.moving), (defaults.dirty_bytes, 8 * MIB));
    }

    #[test]
    fn what_an_operator_says_counts() {
        let mut config = Config::default();
        let fitted = Fitted::to(GIB, Device::Card);
        assert_eq!(
            fitted.value(&config, "storage", "dirty"),
            Some(Fit::Bytes(crate::config::Size(16 * MIB)))
        );
        config.storage.dirty = Fit::Bytes(crate::config::Size(MIB));
        assert_eq!(fitted.value(&config, "storage", "dirty"), None);
        assert_eq!(fitted.value(&config, "storage", "cache"), None);
    }
}
