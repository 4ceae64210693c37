//! Memory for payload on its way: how much there is of it, and how much is taken now.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use crate::bulk::Bulk;
use crate::site::Site;

/// Asks the rooms when somebody asks it.
#[derive(Debug)]
struct Rooms {
    memory: u64,
    rooms: [(&'static str, Bulk); 5],
}

/// Tells of the rooms of a site, made out of so many bytes of memory.
pub(crate) fn watch(registry: &mut Registry, site: &Site, memory: u64) {
    let rooms = [
        ("incoming", site.incoming.clone()),
        ("outgoing", site.outgoing.clone()),
        ("arriving", site.arriving.clone()),
        ("holding", site.holding.clone()),
        ("bringing", site.bringing.clone()),
    ];
    registry.register_collector(Box::new(Rooms { memory, rooms }));
}

impl Collector for Rooms {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let help =
            "Memory found at the start, of the machine and its control groups; bounds are made out of it";
        let found = encoder.encode_descriptor("skerry_memory_found_bytes", help, None, MetricType::Gauge)?;
        ConstGauge::new(super::signed(self.memory)).encode(found)?;
        for (name, help, value) in [
            ("skerry_room_bytes", "Memory for payload on its way, by use", Bulk::bytes as fn(&Bulk) -> usize),
            ("skerry_room_taken_bytes", "Of that, taken now", Bulk::taken),
        ] {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for (of, room) in &self.rooms {
                let gauge = ConstGauge::new(super::signed(value(room) as u64));
                gauge.encode(family.encode_family(&[("of", *of)])?)?;
            }
        }
        Ok(())
    }
}
