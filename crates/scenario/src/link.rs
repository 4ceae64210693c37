//! One direction between two sites, as the simulator draws it and the lab shapes packets to it.

use std::time::Duration;

use crate::draw::Ppm;

/// One direction between two sites.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Link {
    /// One-way delay.
    pub delay: Duration,
    /// Up to so much more, drawn for each message.
    pub jitter: Duration,
    /// Messages that never arrive.
    pub loss: Ppm,
    /// Messages that arrive twice.
    pub duplicate: Ppm,
    /// Messages that are held back by up to [`Link::hold`] while later ones overtake.
    pub reorder: Ppm,
    /// How long a message that is reordered may be held.
    pub hold: Duration,
    /// Bytes per second; 0 is no limit.
    pub rate: u64,
    /// How much may wait for a limited link; what would wait longer is dropped.
    pub queue: Duration,
}
