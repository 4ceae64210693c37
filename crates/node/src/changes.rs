//! Tells those who wait that something durable changed: no polling by sleeping.
//!
//! Invariant: a waiter that looks, and then waits with what it saw, misses nothing.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use skerry_base::BucketId;
use tokio::sync::watch;

/// Counts changes of this node's state. Cheap to clone.
#[derive(Clone)]
pub struct Changes {
    count: watch::Sender<u64>,
    dirty: Arc<Mutex<BTreeSet<BucketId>>>,
    system: watch::Sender<u64>,
    system_bucket: BucketId,
}

impl Changes {
    /// Nothing happened yet. Changes of the system bucket are also told apart.
    pub fn new(system_bucket: BucketId) -> Self {
        let (count, system) = (watch::Sender::new(0), watch::Sender::new(0));
        Self { count, dirty: Arc::default(), system, system_bucket }
    }

    /// An own write of this bucket is durable.
    pub fn happened(&self, bucket: BucketId) {
        if bucket == self.system_bucket {
            self.system.send_modify(|count| *count += 1);
        }
        self.world();
    }

    /// Records of others are durable here.
    pub fn fed(&self, bucket: BucketId) {
        self.dirty.lock().unwrap_or_else(PoisonError::into_inner).insert(bucket);
        self.happened(bucket);
    }

    /// Something changed that is not of a bucket: links, liveness.
    pub fn world(&self) {
        self.count.send_modify(|count| *count += 1);
    }

    /// Follows every change.
    pub fn follow(&self) -> watch::Receiver<u64> {
        self.count.subscribe()
    }

    /// How often the system bucket changed.
    pub fn system_count(&self) -> u64 {
        *self.system.borrow()
    }

    /// Follows changes of the system bucket.
    pub fn follow_system(&self) -> watch::Receiver<u64> {
        self.system.subscribe()
    }

    /// Buckets that others changed since this was last asked.
    pub fn take_dirty(&self) -> BTreeSet<BucketId> {
        std::mem::take(&mut self.dirty.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
