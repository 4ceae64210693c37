//! How machines hang on their site: how many there are, the network inside the site, the clients' access.
//!
//! Only the lab reads this; the simulator's sites are one machine each. Round-trip times are what ping prints.

use std::time::Duration;

use serde::Deserialize;
use toml::Spanned;

use super::{Fault, rate_of, span_of};

/// Machines of one kind in one site: bounds the lab's name spaces.
pub(super) const MACHINES_MAX: u32 = 64;

/// A network that machines are attached to: a site's own, or the access of its clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attachment {
    /// There and back: between two machines of the site, or between a client and a machine of its own site.
    pub rtt: Duration,
    /// Bytes per second of each machine's card, in each direction; 0 is no limit of its own.
    pub rate: u64,
    /// How much may wait at a receiving card; what would wait longer is dropped.
    pub queue: Duration,
}

impl Default for Attachment {
    fn default() -> Self {
        Self { rtt: Duration::ZERO, rate: 0, queue: Duration::from_millis(50) }
    }
}

/// What one machine has, where that matters.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Machine {
    /// Memory in MB; no limit if not said.
    pub memory_mb: Option<u64>,
    /// Processors it may use, as 0.5; no limit if not said.
    pub cpu_share: Option<f64>,
    /// Bytes per second of its card, in each direction, clients too; 0 is what the site's network has.
    pub rate: u64,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(super) struct AttachmentEntry {
    pub(super) rtt_ms: Option<Spanned<f64>>,
    rate_mbit: Option<Spanned<f64>>,
    queue_ms: Option<Spanned<f64>>,
}

impl AttachmentEntry {
    /// What it says, on top of `basis`.
    pub(super) fn over(&self, mut basis: Attachment) -> Result<Attachment, Fault> {
        if let Some(rtt) = &self.rtt_ms {
            basis.rtt = span_of(rtt, "rtt_ms")?;
        }
        if let Some(rate) = &self.rate_mbit {
            basis.rate = rate_of(rate)?;
        }
        if let Some(queue) = &self.queue_ms {
            basis.queue = span_of(queue, "queue_ms")?;
        }
        Ok(basis)
    }
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(super) struct MachineEntry {
    memory_mb: Option<Spanned<u64>>,
    cpu_share: Option<Spanned<f64>>,
    rate_mbit: Option<Spanned<f64>>,
}

impl MachineEntry {
    pub(super) fn checked(&self) -> Result<Machine, Fault> {
        let memory_mb = match &self.memory_mb {
            Some(mb) if *mb.get_ref() < 16 => {
                return Err((mb.span(), format!("memory_mb is at least 16, not {}", mb.get_ref())));
            }
            given => given.as_ref().map(|mb| *mb.get_ref()),
        };
        let cpu_share = match &self.cpu_share {
            Some(share) if !(0.01..=1024.0).contains(share.get_ref()) => {
                let reason = format!("cpu_share is processors, from 0.01 to 1024, not {}", share.get_ref());
                return Err((share.span(), reason));
            }
            given => given.as_ref().map(|share| *share.get_ref()),
        };
        let rate = self.rate_mbit.as_ref().map_or(Ok(0), rate_of)?;
        Ok(Machine { memory_mb, cpu_share, rate })
    }
}

/// A number of machines, checked.
pub(super) fn machines(count: &Option<Spanned<u32>>, field: &str, default: u32) -> Result<u32, Fault> {
    let Some(count) = count else { return Ok(default) };
    let value = *count.get_ref();
    if value > MACHINES_MAX {
        return Err((count.span(), format!("{field} is at most {MACHINES_MAX}, not {value}")));
    }
    Ok(value)
}
