//! What a node tells of itself: metrics in one registry, and log lines.
//!
//! The names and labels of the metrics here are contract: dashboards and tests read them. Values that live
//! elsewhere (bytes on the wire, memory of the process) are read when somebody asks, not counted twice.

use std::sync::Arc;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;
use skerry_gateway::service::AreaCopies;

mod areas;
mod cache;
mod circuits;
mod clones;
mod credentials;
mod homes;
pub mod log;
mod losses;
mod others;
mod panics;
mod peers;
mod process;
pub(crate) mod room;
mod scrub;
pub(crate) mod seldom;
mod surplus;
mod uplink;
mod wan;

pub use areas::Areas;
pub use cache::Cache;
pub use circuits::Circuits;
pub use clones::Clones;
pub use credentials::Credentials;
pub use homes::Homes;
pub use losses::Losses;
pub use others::Others;
pub use panics::Panics;
pub use peers::{FeedLag, PeerLabels};
pub use scrub::Scrub;
pub use surplus::Surplus;
pub use uplink::Uplink;
pub use wan::{Kind, Wan, WanPeer};

/// Buckets that get a series of their own; the rest are summed as `other`.
pub const METRIC_BUCKETS: usize = 256;

/// A fraction.
pub type FloatGauge = Gauge<f64, std::sync::atomic::AtomicU64>;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ClassLabel {
    class: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct BucketLabel {
    bucket: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct BucketAreaLabel {
    bucket: String,
    area: String,
}

/// The contract metrics of a node; the S3 ones are the gateway's, in the same registry.
#[derive(Debug, Clone)]
pub struct Telemetry {
    /// Bytes between sites.
    pub wan: Arc<Wan>,
    /// How far feeds are behind.
    pub feed_lag: FeedLag,
    /// Bytes that no other site has yet.
    pub unsent_bytes: Gauge,
    /// Keys with a conflict.
    pub conflicts: Gauge,
    /// Buckets that appear under another name than theirs.
    pub name_conflicts: Gauge,
    /// This clock minus the median of the peers'.
    pub clock_offset_seconds: FloatGauge,
    /// How long syncs took.
    pub sync_seconds: Histogram,
    /// Prefixes that are followed.
    pub followed: Gauge,
    /// Those of which more may be elsewhere.
    pub followed_behind: Gauge,
    /// How often a bucket was looked at for others that follow a prefix of it.
    pub followed_looks: Counter,
    /// Bytes answered before they were on disk.
    pub unsynced_bytes: Gauge,
    /// Payload segments that are kept because the disk could not read a part of them.
    pub unread_segments: Gauge,
    /// 1 where part of the index does not read.
    pub index_damaged: Gauge,
    /// Seconds for which a sync has not come back.
    pub sync_waits: Gauge,
    /// Conditional writes of which it is not known whether they were decided.
    pub undecided_writes: Gauge,
    /// Bytes of their bodies.
    pub undecided_bytes: Gauge,
    /// Whether that may happen.
    pub sync_os: Gauge,
    /// Bytes of payload written again to get space back.
    pub moved_bytes: Counter,
    /// What the scrub found.
    pub scrub: Scrub,
    /// The metered link.
    pub uplink: Uplink,
    /// What is carried for others.
    pub circuits: Circuits,
    /// What copies saved and what went.
    pub cache: Cache,
    /// How this site finds others.
    pub areas: Areas,
    /// Sites that are lost, and what was asked for of them.
    pub losses: Losses,
    /// Credential keys.
    pub credentials: Credentials,
    /// Homes that came to this node.
    pub homes: Homes,
    /// Processes that run beside another with the same key.
    pub clones: Clones,
    /// Copies too many.
    pub surplus: Surplus,
    /// What is held for others.
    pub others: Others,
    /// Workers that panicked.
    pub panics: Panics,
    disk_bytes: Family<ClassLabel, Gauge>,
    unprotected_bytes: Family<BucketLabel, Gauge>,
    area_lacking_bytes: Family<BucketAreaLabel, Gauge>,
}

impl Telemetry {
    /// Registers all metrics of a node that was built from this commit; empty if that is not known.
    pub fn register(registry: &mut Registry, commit: &'static str) -> Self {
        let labels = Arc::new(PeerLabels::default());
        let sync_seconds = Histogram::new([
            0.0001, 0.0003, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0,
        ]);
        let telemetry = Self {
            wan: Arc::new(Wan::new(labels.clone())),
            feed_lag: FeedLag::new(labels),
            unsent_bytes: Gauge::default(),
            conflicts: Gauge::default(),
            name_conflicts: Gauge::default(),
            clock_offset_seconds: FloatGauge::default(),
            sync_seconds,
            followed: Gauge::default(),
            followed_behind: Gauge::default(),
            followed_looks: Counter::default(),
            unsynced_bytes: Gauge::default(),
            unread_segments: Gauge::default(),
            index_damaged: Gauge::default(),
            sync_waits: Gauge::default(),
            undecided_writes: Gauge::default(),
            undecided_bytes: Gauge::default(),
            sync_os: Gauge::default(),
            moved_bytes: Counter::default(),
            scrub: Scrub::default(),
            cache: Cache::default(),
            uplink: Uplink::default(),
            circuits: Circuits::default(),
            areas: Areas::default(),
            losses: Losses::default(),
            credentials: Credentials::default(),
            homes: Homes::default(),
            clones: Clones::default(),
            surplus: Surplus::default(),
            others: Others::default(),
            panics: Panics::default(),
            disk_bytes: Family::default(),
            unprotected_bytes: Family::default(),
            area_lacking_bytes: Family::default(),
        };
        telemetry.enter(registry, commit);
        telemetry
    }

    fn enter(&self, registry: &mut Registry, commit: &'static str) {
        let release = env!("CARGO_PKG_VERSION");
        let build =
            Info::new(vec![("version", release), ("commit", commit), ("arch", std::env::consts::ARCH)]);
        registry.register("skerry_build", "The release that runs", build);
        self.feed_lag.register(registry);
        registry.register(
            "skerry_unsent_bytes",
            "Bytes of records and payload that no other site has yet",
            self.unsent_bytes.clone(),
        );
        registry.register(
            "skerry_conflicts",
            "Keys with versions that lost against a concurrent one",
            self.conflicts.clone(),
        );
        registry.register(
            "skerry_name_conflicts",
            "Buckets that appear as NAME--SITE because another owner keeps the name",
            self.name_conflicts.clone(),
        );
        registry.register(
            "skerry_clock_offset_seconds",
            "This clock minus the median of the other sites' clocks",
            self.clock_offset_seconds.clone(),
        );
        self.enter_disk(registry);
        self.enter_followed(registry);
        registry.register(
            "skerry_unprotected_bytes",
            "Bytes by bucket, of what this site sees to, that one site only is known to hold",
            self.unprotected_bytes.clone(),
        );
        registry.register(
            "skerry_area_lacking_bytes",
            "Bytes by bucket and area that lack copies which the bucket wants there",
            self.area_lacking_bytes.clone(),
        );
        self.scrub.register(registry);
        self.cache.register(registry);
        self.uplink.register(registry);
        self.circuits.register(registry);
        self.areas.register(registry);
        self.losses.register(registry);
        self.credentials.register(registry);
        self.homes.register(registry);
        self.clones.register(registry);
        self.surplus.register(registry);
        self.others.register(registry);
        self.panics.register(registry);
        registry.register_collector(Box::new(self.wan.clone()));
        registry.register_collector(Box::new(process::Process));
    }

    fn enter_disk(&self, registry: &mut Registry) {
        registry.register(
            "skerry_disk_bytes",
            "Bytes on disk by class: journal, payload, cache, index, dead, free",
            self.disk_bytes.clone(),
        );
        registry.register(
            "skerry_sync_seconds",
            "Time of syncs to disk that answers waited for",
            self.sync_seconds.clone(),
        );
        registry.register(
            "skerry_sync_os",
            "1 where plain writes are answered before they are on disk (storage.sync = os), else 0",
            self.sync_os.clone(),
        );
        registry.register(
            "skerry_unread_segments",
            "Payload segments that are kept because the disk could not read a part of them",
            self.unread_segments.clone(),
        );
        registry.register(
            "skerry_index_damaged",
            "1 where part of the index does not read, which the next start builds anew, else 0",
            self.index_damaged.clone(),
        );
        registry.register(
            "skerry_sync_waits_seconds",
            "Seconds for which a sync that is under way has not come back from the disk, 0 if none is",
            self.sync_waits.clone(),
        );
        registry.register(
            "skerry_undecided_writes",
            "Conditional writes of which it is not known whether their bucket's home decided them; their bodies are kept",
            self.undecided_writes.clone(),
        );
        registry.register(
            "skerry_undecided_bytes",
            "Bytes of the bodies of such writes",
            self.undecided_bytes.clone(),
        );
        registry.register(
            "skerry_unsynced_bytes",
            "Bytes answered before they were on disk: what a power cut would lose now",
            self.unsynced_bytes.clone(),
        );
        registry.register(
            "skerry_disk_moved_bytes",
            "Bytes of payload and of bodies in the journal written again to get space back",
            self.moved_bytes.clone(),
        );
    }

    fn enter_followed(&self, registry: &mut Registry) {
        registry.register(
            "skerry_followed_prefixes",
            "Prefixes that this site follows without being a member of their buckets",
            self.followed.clone(),
        );
        registry.register(
            "skerry_followed_prefixes_behind",
            "Those of which more may be at members: not taken whole yet, or no member answers",
            self.followed_behind.clone(),
        );
        registry.register(
            "skerry_followed_looks",
            "Looks at buckets of this member for sites that follow a prefix of them and wait for changes",
            self.followed_looks.clone(),
        );
    }

    /// Sets the bytes of a class of the disk.
    pub fn disk_bytes(&self, class: &str, bytes: u64) {
        let gauge = self.disk_bytes.get_or_create(&ClassLabel { class: class.into() });
        gauge.set(signed(bytes));
    }

    /// Sets the unprotected bytes of all buckets: the largest [`METRIC_BUCKETS`] by name, the rest summed as
    /// `other`. Buckets that are not named any more vanish.
    pub fn unprotected_bytes(&self, mut buckets: Vec<(String, u64)>) {
        buckets.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        let rest = buckets.split_off(buckets.len().min(METRIC_BUCKETS));
        if !rest.is_empty() {
            buckets.push(("other".into(), rest.iter().map(|(_, bytes)| bytes).sum()));
        }
        self.unprotected_bytes.clear();
        for (bucket, bytes) in buckets {
            self.unprotected_bytes.get_or_create(&BucketLabel { bucket }).set(signed(bytes));
        }
    }

    /// Sets what areas lack of buckets that want copies there: the [`METRIC_BUCKETS`] that lack most.
    pub(crate) fn area_lacking(&self, mut areas: Vec<AreaCopies>) {
        areas.sort_by_key(|area| std::cmp::Reverse(area.lacking_bytes));
        self.area_lacking_bytes.clear();
        for AreaCopies { bucket, area, lacking_bytes, .. } in areas.into_iter().take(METRIC_BUCKETS) {
            let label = BucketAreaLabel { bucket, area };
            self.area_lacking_bytes.get_or_create(&label).set(signed(lacking_bytes));
        }
    }
}

fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
