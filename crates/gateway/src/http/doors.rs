//! The bounds of one listener, and how much of each is taken.
//!
//! Why apart from the listener: who tells of them is not who serves. Invariant: what is told is what is kept to, read when
//! somebody asks and counted nowhere else.

use std::sync::Arc;

use tokio::sync::Semaphore;

use super::Limits;
use super::windows::Shared;
use crate::service::Bound;

/// What the connections of a listener have together. Clones are the same.
#[derive(Debug, Clone)]
pub struct Doors {
    pub(super) limits: Limits,
    pub(super) room: Arc<Semaphore>,
    pub(super) shared: Shared,
}

impl From<Limits> for Doors {
    fn from(limits: Limits) -> Self {
        Self { limits, room: Arc::new(Semaphore::new(limits.connections)), shared: Shared::new(&limits) }
    }
}

impl Doors {
    /// Connections of clients. More of them wait in the kernel, and are not refused.
    pub fn connections(&self) -> Bound {
        let most = self.limits.connections;
        Bound::places("connections", most, most.saturating_sub(self.room.available_permits()))
    }

    /// What connections of HTTP/2 have beyond that.
    pub fn beyond(&self) -> [Bound; 2] {
        self.shared.bounds(&self.limits)
    }
}
