//! The services in memory: the double that the conformance suite runs against in seconds.
//!
//! Why here: whoever serves S3 must agree with it, so it is faithful where S3 can be seen (conditions,
//! versions, pages, multipart) and plain everywhere else: one lock, whole bodies, one site.

mod admin;
mod buckets;
mod listing;
mod objects;
mod state;
mod uploads;
mod versions;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use skerry_base::WallTime;

use self::state::State;
use crate::service::Services;

/// The double; clones share their state.
#[derive(Clone)]
pub struct Memory {
    state: Arc<Mutex<State>>,
    clock: Arc<dyn Fn() -> WallTime + Send + Sync>,
}

impl Memory {
    /// Empty, with one access key of the owner `owner`.
    pub fn new(access_key: &str, secret: &str, clock: impl Fn() -> WallTime + Send + Sync + 'static) -> Self {
        let memory = Self { state: Arc::default(), clock: Arc::new(clock) };
        memory.lock().add_key(access_key, secret, "owner", "first", (memory.clock)());
        memory
    }

    /// The services over it.
    pub fn services(&self) -> Services {
        let shared = Arc::new(self.clone());
        Services {
            objects: Arc::clone(&shared) as Arc<_>,
            buckets: Arc::clone(&shared) as Arc<_>,
            credentials: Arc::clone(&shared) as Arc<_>,
            admin: shared,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> WallTime {
        (self.clock)()
    }
}

impl core::fmt::Debug for Memory {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Memory")
    }
}
