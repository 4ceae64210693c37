//! What is bounded: how much there is of each thing, and how much of it is taken now.
//!
//! Why: a bound that is reached is seen by clients as 503, or as waiting; which it was must be told. Invariants: nothing is counted
//! for this, what keeps a bound is asked when somebody asks for metrics; one name is one bound, here and among the reasons of
//! `skerry_refused_requests`; who is asked is not kept alive by it.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use skerry_gateway::service::Bound;

use crate::machine;
use crate::paths::forward::TAKEN_AT_ONCE;
use crate::site::Site;

type Source = Box<dyn Fn() -> Vec<Bound> + Send + Sync>;

/// Who is asked. Clones are the same.
#[derive(Clone, Default)]
pub(crate) struct Bounds(Arc<Mutex<Vec<Source>>>);

impl Bounds {
    /// One more is asked from now on.
    pub(crate) fn ask(&self, source: impl Fn() -> Vec<Bound> + Send + Sync + 'static) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(source));
    }

    fn told(&self) -> Vec<Bound> {
        let sources = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sources.iter().flat_map(|source| source()).collect()
    }
}

/// Asks when somebody asks it.
struct Rooms {
    memory: u64,
    bounds: Bounds,
    site: Weak<Site>,
}

impl fmt::Debug for Rooms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Rooms")
    }
}

/// Tells of the bounds of a site, made out of so many bytes of memory, and of those that are added.
pub(crate) fn watch(registry: &mut Registry, site: &Arc<Site>, memory: u64) -> Bounds {
    let (bounds, site) = (Bounds::default(), Arc::downgrade(site));
    let of = site.clone();
    bounds.ask(move || of.upgrade().map(|site| bounds_of(&site)).unwrap_or_default());
    registry.register_collector(Box::new(Rooms { memory, bounds: bounds.clone(), site }));
    bounds
}

fn bounds_of(site: &Site) -> Vec<Bound> {
    let store = site.store.bounds();
    let bytes = |of, bound: skerry_storage::Level| Bound::bytes(of, bound.most, bound.taken);
    let entries = |of, bound: skerry_storage::Level| Bound { is_bytes: false, ..bytes(of, bound) };
    let used = |most: usize, room: &tokio::sync::Semaphore| most.saturating_sub(room.available_permits());
    let mut all = vec![
        site.incoming.bound("incoming"),
        site.outgoing.bound("outgoing"),
        site.arriving.bound("arriving"),
        site.holding.bound("holding"),
        site.bringing.bound("bringing"),
        site.staging.bound("staging"),
        bytes("memtables", store.memtables),
        bytes("index_cache", store.index_cache),
        bytes("dirty", store.dirty),
        entries("commits", store.commits),
        entries("commits_behind", store.commits_behind),
        Bound::places("writing", machine::writes(), used(machine::writes(), &site.writing)),
        Bound::places("forwards", TAKEN_AT_ONCE, used(TAKEN_AT_ONCE, &site.taken)),
    ];
    let backlog = site.peers.net().backlog();
    all.extend(backlog.map(|(most, taken)| Bound::bytes("backlog", most as u64, taken as u64)));
    all.extend(site.parts.bounds());
    all.extend(site.boxes.bounds());
    all
}

impl Collector for Rooms {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let help =
            "Memory found at the start, of the machine and its control groups; bounds are made out of it";
        let found = encoder.encode_descriptor("skerry_memory_found_bytes", help, None, MetricType::Gauge)?;
        ConstGauge::new(super::signed(self.memory)).encode(found)?;
        let bounds = self.bounds.told();
        for (name, help, is_bytes, value) in [
            ("skerry_room_bytes", "Memory set aside, by use", true, most as fn(&Bound) -> u64),
            ("skerry_room_taken_bytes", "Of that, taken now", true, taken),
            ("skerry_places", "How many there may be at once, by what is bounded", false, most),
            ("skerry_places_taken", "Of these, taken now", false, taken),
        ] {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for bound in bounds.iter().filter(|bound| bound.is_bytes == is_bytes) {
                let gauge = ConstGauge::new(super::signed(value(bound)));
                gauge.encode(family.encode_family(&[("of", bound.of)])?)?;
            }
        }
        let dropped = self.site.upgrade().map_or(0, |site| site.boxes.dropped());
        let help = "Messages to other sites that were dropped because too much waited for a link; what matters of them is asked for again";
        let encoder = encoder.encode_descriptor("skerry_outbox_dropped", help, None, MetricType::Counter)?;
        ConstCounter::new(dropped).encode(encoder)
    }
}

const fn most(bound: &Bound) -> u64 {
    bound.most
}

const fn taken(bound: &Bound) -> u64 {
    bound.taken
}
