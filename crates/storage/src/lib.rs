//! The disk of one node: journal, payload and cache segments, index, recovery, space.
//!
//! Why here: this is the only room that opens files. It does not know what an object is (journal entries are
//! opaque and go to a [`skerry_base::kv::Reducer`]), nor that other sites exist. Everything blocks; there is
//! no runtime, and below it all lies the trait [`Disk`], so that the simulator can take the real one's place.
//!
//! Invariants: the journal is the truth and the index can be thrown away; nothing is visible or answered before
//! it is durable; a body is served only after its checksum was verified; a store that failed to write or sync
//! its journal never writes again until it is opened anew.

mod buffers;
mod checksum;
mod chunks;
pub mod disk;
mod error;
mod fields;
mod index;
mod journal;
mod meter;
mod payload;
mod settings;
mod side_file;
mod sieve;
mod space;
mod store;

pub use buffers::Buffer;
pub use disk::{Disk, File, device::Device, real::RealDisk};
pub use error::{CommitError, ReadError, StorageError};
pub use settings::{Engine, Progress, Settings, Stage, Watch};
pub use store::{
    Bounds, CacheStats, Class, ClassUsage, Collected, Committer, Damage, DamagedChunk, DamagedSegment, Entry,
    IndexState, Level, OpenChunk, PIECE_BLOCKS, Pin, Recovery, ScrubState, ScrubStep, SmallBody, Stands,
    Step, Store, StoreView, Strange, SyncStats, TornTail, Usage,
};
