//! What the emulator counted, and what makes a measurement over it doubtful.
//!
//! Invariants: every count only grows while a [`super::Wan`] lives, so callers subtract snapshots; bytes are those
//! of IP packets as a wire would carry them (each wire segment of a super-packet with its headers).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Packets and bytes since the network was built.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traffic {
    /// Names of the sites, in the order of the matrix.
    pub sites: Vec<String>,
    /// `pairs[from][to]`; the diagonal is what stays within a site.
    pub pairs: Vec<Vec<Flow>>,
    /// Per host.
    pub hosts: BTreeMap<String, HostTraffic>,
}

/// From one site to another.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flow {
    /// Wire packets that the source sent.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Wire packets that arrived.
    pub delivered_packets: u64,
    /// Their bytes.
    pub delivered_bytes: u64,
    /// Wire packets that were lost: drawn, a full queue, or a cut.
    pub lost_packets: u64,
    /// What of `bytes` the devices saw: a super-packet there has one header.
    pub device_bytes: u64,
    /// What of `delivered_bytes` the devices saw.
    pub device_delivered_bytes: u64,
}

/// One host's network device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostTraffic {
    /// Wire packets.
    pub sent_packets: u64,
    /// Bytes.
    pub sent_bytes: u64,
    /// Wire packets.
    pub received_packets: u64,
    /// Bytes.
    pub received_bytes: u64,
}

impl Traffic {
    /// What was added since an earlier snapshot of the same network.
    pub fn since(&self, earlier: &Self) -> Self {
        let mut delta = self.clone();
        for (row, old) in delta.pairs.iter_mut().zip(&earlier.pairs) {
            for (flow, old) in row.iter_mut().zip(old) {
                *flow = flow.minus(old);
            }
        }
        for (name, host) in &mut delta.hosts {
            if let Some(old) = earlier.hosts.get(name) {
                *host = host.minus(old);
            }
        }
        delta
    }

    /// Bytes that sites sent to other sites.
    pub fn between_sites(&self) -> u64 {
        let off_diagonal = |(from, row): (usize, &Vec<Flow>)| -> u64 {
            row.iter().enumerate().filter(|(to, _)| *to != from).map(|(_, flow)| flow.bytes).sum()
        };
        self.pairs.iter().enumerate().map(off_diagonal).sum()
    }
}

impl Flow {
    const fn minus(&self, old: &Self) -> Self {
        Self {
            packets: self.packets.saturating_sub(old.packets),
            bytes: self.bytes.saturating_sub(old.bytes),
            delivered_packets: self.delivered_packets.saturating_sub(old.delivered_packets),
            delivered_bytes: self.delivered_bytes.saturating_sub(old.delivered_bytes),
            lost_packets: self.lost_packets.saturating_sub(old.lost_packets),
            device_bytes: self.device_bytes.saturating_sub(old.device_bytes),
            device_delivered_bytes: self.device_delivered_bytes.saturating_sub(old.device_delivered_bytes),
        }
    }
}

impl HostTraffic {
    const fn minus(&self, old: &Self) -> Self {
        Self {
            sent_packets: self.sent_packets.saturating_sub(old.sent_packets),
            sent_bytes: self.sent_bytes.saturating_sub(old.sent_bytes),
            received_packets: self.received_packets.saturating_sub(old.received_packets),
            received_bytes: self.received_bytes.saturating_sub(old.received_bytes),
        }
    }
}

/// How well the emulator kept up. All counts since the network was built.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    /// Packets that a host's device dropped because the shuttle did not fetch them.
    pub ring_drops: u64,
    /// Packets dropped because too many bytes were under way.
    pub memory_drops: u64,
    /// Packets that the kernel refused on delivery.
    pub write_errors: u64,
    /// Packets to addresses that are no host (broadcasts, IPv6, the outside); they go nowhere.
    pub strays: u64,
    /// Packets dropped at a full queue of a link or card: part of the emulation, no fault.
    pub queue_drops: u64,
    /// 99 in 100 packets were delivered at most so late.
    pub late_p99_us: u64,
    /// The latest.
    pub late_max_us: u64,
    /// The smallest one-way delay of the topology that is not zero; 0 if all are.
    pub smallest_delay_us: u64,
    /// Whether the shuttle runs with real-time priority.
    pub realtime: bool,
    /// How TCP in the hosts finds its speed: `cubic` where the kernel lets us choose.
    #[serde(default)]
    pub congestion: String,
}

/// Lateness below this is no reason for doubt: half of the accuracy that `skerry-lab check` asks for.
const LATE_ALLOWED_US: u64 = 150;

impl Health {
    /// Why a measurement is not valid; empty if it is.
    pub fn doubts(&self) -> Vec<String> {
        let mut doubts = Vec::new();
        if self.ring_drops > 0 {
            doubts.push(format!(
                "devices dropped {} packets that the emulator did not fetch in time",
                self.ring_drops
            ));
        }
        if self.memory_drops > 0 {
            doubts.push(format!(
                "{} packets were dropped because too many bytes were under way",
                self.memory_drops
            ));
        }
        if self.write_errors > 0 {
            doubts.push(format!("the kernel refused {} packets", self.write_errors));
        }
        let allowed = LATE_ALLOWED_US.max(self.smallest_delay_us / 10);
        if self.late_p99_us > allowed {
            doubts.push(format!(
                "1 in 100 packets was more than {} µs late ({allowed} µs allowed): the machine is too busy",
                self.late_p99_us
            ));
        }
        doubts
    }
}

/// Lateness in powers of 2^(1/4) microseconds: percentiles within 19 %.
#[derive(Debug, Clone)]
pub(super) struct Lateness {
    buckets: [u64; 128],
    total: u64,
    max_ns: u64,
}

impl Default for Lateness {
    fn default() -> Self {
        Self { buckets: [0; 128], total: 0, max_ns: 0 }
    }
}

impl Lateness {
    pub(super) fn add(&mut self, late_ns: u64) {
        self.total += 1;
        self.max_ns = self.max_ns.max(late_ns);
        if let Some(bucket) = self.buckets.get_mut(bucket_of(late_ns / 1000)) {
            *bucket += 1;
        }
    }

    pub(super) const fn max_us(&self) -> u64 {
        self.max_ns / 1000
    }

    /// The upper end of the bucket below which `percent` in a hundred lie.
    pub(super) fn percentile_us(&self, percent: u64) -> u64 {
        let wanted = (self.total * percent).div_ceil(100);
        let mut seen = 0;
        for (index, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= wanted && *count > 0 {
                return upper_us(index).min(self.max_us());
            }
        }
        0
    }
}

/// Four buckets per doubling; the first eight microseconds one each.
fn bucket_of(us: u64) -> usize {
    if us < 8 {
        return us as usize;
    }
    let doubling = us.ilog2() as usize;
    let quarter = (us >> (doubling - 2)) as usize & 3;
    (8 + (doubling - 3) * 4 + quarter).min(127)
}

fn upper_us(index: usize) -> u64 {
    if index < 8 {
        return index as u64;
    }
    let doubling = (index - 8) / 4 + 3;
    let quarter = (index - 8) % 4;
    ((5 + quarter as u64) << (doubling - 2)) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_of_lateness_are_within_a_bucket() {
        let mut late = Lateness::default();
        (1..=1000u64).for_each(|us| late.add(us * 1000));
        let p99 = late.percentile_us(99);
        assert!((990..=1000).contains(&p99), "{p99}");
        let p50 = late.percentile_us(50);
        assert!((500..=600).contains(&p50), "{p50}");
        assert_eq!(late.max_us(), 1000);
        assert_eq!(Lateness::default().percentile_us(99), 0);
    }

    #[test]
    fn every_bucket_holds_what_it_says() {
        for us in (0..5000).chain([65_535, 1_000_000, 9_999_999]) {
            let index = bucket_of(us);
            assert!(us <= upper_us(index), "{us}");
            assert!(index == 0 || us > upper_us(index - 1), "{us}");
        }
    }

    #[test]
    fn doubts_name_what_went_wrong() {
        let good = Health { late_p99_us: 150, smallest_delay_us: 250, ..Health::default() };
        assert!(good.doubts().is_empty());
        let calm = Health { late_p99_us: 900, smallest_delay_us: 10_000, ..Health::default() };
        assert!(calm.doubts().is_empty());
        let bad =
            Health { ring_drops: 1, memory_drops: 1, write_errors: 1, late_p99_us: 151, ..Health::default() };
        assert_eq!(bad.doubts().len(), 4);
    }

    #[test]
    fn snapshots_subtract() {
        let flow = |bytes| Flow { bytes, packets: bytes / 10, ..Flow::default() };
        let matrix = |bytes| Traffic {
            sites: vec!["a".into(), "b".into()],
            pairs: vec![vec![flow(1000), flow(bytes)], vec![flow(0), flow(0)]],
            hosts: [("a-1".to_owned(), HostTraffic { sent_bytes: bytes, ..HostTraffic::default() })].into(),
        };
        let delta = matrix(500).since(&matrix(200));
        assert_eq!(delta.pairs[0][1], flow(300));
        assert_eq!(delta.pairs[0][0], flow(0));
        assert_eq!(delta.hosts["a-1"].sent_bytes, 300);
        assert_eq!(delta.between_sites(), 300);
    }
}
