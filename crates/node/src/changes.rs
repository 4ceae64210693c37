//! Tells those who wait that something durable changed: no polling by sleeping.
//!
//! Invariant: a waiter that looks, and then waits with what it saw, misses nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use skerry_base::BucketId;
use tokio::sync::watch;

/// Buckets that changed, for who brings deleted ones back.
#[derive(Default)]
struct Dirty {
    buckets: BTreeSet<BucketId>,
    /// Of these own writes count as well.
    watched: BTreeSet<BucketId>,
}

/// Counts changes of this node's state. Cheap to clone.
#[derive(Clone)]
pub struct Changes {
    count: watch::Sender<u64>,
    dirty: Arc<Mutex<Dirty>>,
    system: watch::Sender<u64>,
    belonging: watch::Sender<u64>,
    system_bucket: BucketId,
    /// Buckets that somebody follows apart from all others.
    apart: Arc<Mutex<BTreeMap<BucketId, watch::Sender<u64>>>>,
}

impl Changes {
    /// Nothing happened yet. Changes of the system bucket are also told apart.
    pub fn new(system_bucket: BucketId) -> Self {
        let [count, system, belonging] = [0, 0, 0].map(watch::Sender::new);
        Self { count, dirty: Arc::default(), system, belonging, system_bucket, apart: Arc::default() }
    }

    /// An own write of this bucket is durable.
    pub fn happened(&self, bucket: BucketId) {
        if bucket == self.system_bucket {
            self.system.send_modify(|count| *count += 1);
        }
        let mut dirty = self.dirty();
        if dirty.watched.contains(&bucket) {
            dirty.buckets.insert(bucket);
        }
        drop(dirty);
        let mut apart = self.apart.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = apart.get(&bucket) {
            count.send_modify(|count| *count += 1);
            // Who followed it has gone.
            if count.receiver_count() == 0 {
                apart.remove(&bucket);
            }
        }
        drop(apart);
        self.world();
    }

    /// Records of others are durable here.
    pub fn fed(&self, bucket: BucketId) {
        self.dirty().buckets.insert(bucket);
        self.happened(bucket);
    }

    /// Something changed that is not of a bucket: links, liveness.
    pub fn world(&self) {
        self.count.send_modify(|count| *count += 1);
    }

    /// Who belongs, what they are there for or who counts is known anew: told when it can be seen, which is later than the
    /// records that say so.
    pub fn belonging(&self) {
        self.belonging.send_modify(|count| *count += 1);
        self.world();
    }

    /// How often that was told.
    pub fn belonging_count(&self) -> u64 {
        *self.belonging.borrow()
    }

    /// Follows that.
    pub fn follow_belonging(&self) -> watch::Receiver<u64> {
        self.belonging.subscribe()
    }

    /// Follows every change.
    pub fn follow(&self) -> watch::Receiver<u64> {
        self.count.subscribe()
    }

    /// Follows changes of one bucket.
    pub fn follow_bucket(&self, bucket: BucketId) -> watch::Receiver<u64> {
        let mut apart = self.apart.lock().unwrap_or_else(PoisonError::into_inner);
        // A bucket in which nothing happens any more would be kept for ever.
        apart.retain(|of, count| *of == bucket || count.receiver_count() > 0);
        apart.entry(bucket).or_insert_with(|| watch::Sender::new(0)).subscribe()
    }

    /// How often the system bucket changed.
    pub fn system_count(&self) -> u64 {
        *self.system.borrow()
    }

    /// Follows changes of the system bucket.
    pub fn follow_system(&self) -> watch::Receiver<u64> {
        self.system.subscribe()
    }

    /// Buckets that others changed since this was last asked, and those watched that were written to here.
    pub fn take_dirty(&self) -> BTreeSet<BucketId> {
        std::mem::take(&mut self.dirty().buckets)
    }

    /// From now on own writes of these buckets count there as well, and of no others.
    pub fn watch(&self, buckets: BTreeSet<BucketId>) {
        self.dirty().watched = buckets;
    }

    fn dirty(&self) -> MutexGuard<'_, Dirty> {
        self.dirty.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
