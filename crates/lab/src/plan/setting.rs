//! The parameters of a cell. A scenario's `[setting]` gives them, a scale overrides them, a sweep varies them.
//!
//! Every time between two machines is a round-trip time in milliseconds.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use skerry_scenario::workload_size::ObjectSize;
use toml::Spanned;

/// The parameters; what is not set is none.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Setting {
    /// How many sites, called `site-1` and so on; or say `topology`.
    pub sites: Option<u64>,
    /// A file in `crates/lab/topologies`, instead of the fields from `sites` to `core_jitter_ms`.
    pub topology: Option<String>,
    /// A workload file, for the operations `fill` and `workload`.
    pub workload: Option<String>,
    /// Server hosts at each site, of which a client asks one by the hash of worker, operation and key; one if not set.
    pub nodes: Option<u64>,
    /// Between hosts of a site.
    pub lan_rtt_ms: Option<f64>,
    /// Rate of a host's card within its site.
    pub lan_rate_mbit: Option<f64>,
    /// Between a client and its own site (the papers' `LFog`, there one way).
    pub access_rtt_ms: Option<f64>,
    /// Rate of a client's access.
    pub access_rate_mbit: Option<f64>,
    /// Between sites (the papers' `LCore`, there one way).
    pub core_rtt_ms: Option<f64>,
    /// Rate between two sites, each way.
    pub core_rate_mbit: Option<f64>,
    /// Jitter between sites.
    pub core_jitter_ms: Option<f64>,
    /// Client hosts at each site.
    pub clients: Option<u64>,
    /// Memory of a server host.
    pub memory_mb: Option<u64>,
    /// Processors of a server host; 0.5 is half of one.
    pub cpu_share: Option<f64>,
    /// `must`: a machine that refuses the limits of memory and processor ends the run; else that is a warning.
    pub limits: Option<Demand>,
    /// The site whose machines, its clients among them, have a processor of their own; all else has the others.
    pub own_processor: Option<String>,
    /// Objects of each client.
    pub objects: Option<u64>,
    /// Size of each object, as `256kB` (decimal) or `4KiB`.
    pub size: Option<ObjectSize>,
    /// Requests of a client at once; as many as it has objects if not set.
    pub threads: Option<u64>,
    /// `at-once`, or `spread` over one second.
    pub arrival: Option<Arrival>,
    /// `new` for each operation, or `keep`.
    pub connections: Option<Connections>,
    /// What a write waits for: `site`, `sites=3`.
    pub scope: Option<String>,
    /// Whether each site's clients work in a bucket that was made there; as the system's file says if not set.
    pub bucket_per_site: Option<bool>,
    /// An erasure code, as `6+3`.
    pub code: Option<String>,
    /// Pairs of writer and reader.
    pub pairs: Option<u64>,
    /// How often everything is repeated with new objects.
    pub trials: Option<u64>,
    /// Caches of the machine are dropped before each phase that says `fresh`.
    pub drop_caches: Option<bool>,
    /// After each phase the network is watched until it is quiet, so many seconds at most.
    pub settle_s: Option<f64>,
    /// A phase that takes longer has failed.
    pub timeout_s: Option<u64>,
    /// An operation that takes longer has failed; a minute if nothing is said.
    pub operation_timeout_s: Option<u64>,
    /// What varies, in a scale: tables whose lists are combined with each other.
    #[serde(skip_serializing)]
    pub(super) sweep: Vec<Sweep>,
}

/// Fields and the values that they take, with their places in the file.
pub(super) type Sweep = BTreeMap<String, Spanned<toml::Value>>;

/// When the operations of a phase begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arrival {
    /// All at the start, or as soon as a thread is free.
    AtOnce,
    /// Each at a random moment of the first second.
    Spread,
}

/// How much is made of what the machine may refuse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Demand {
    /// Without it the figures would mean nothing.
    Must,
    /// They would mean less.
    Wish,
}

/// What becomes of a connection after an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Connections {
    /// Each operation opens its own, and its time contains that.
    New,
    /// Each thread keeps one.
    Keep,
}

/// Fields that tell cells of a result apart; the others are the scenario's own business.
const LABELS: [&str; 17] = [
    "sites",
    "nodes",
    "topology",
    "workload",
    "core_rtt_ms",
    "core_rate_mbit",
    "access_rtt_ms",
    "access_rate_mbit",
    "clients",
    "objects",
    "size",
    "threads",
    "scope",
    "code",
    "memory_mb",
    "cpu_share",
    "own_processor",
];

impl Setting {
    /// As a table, only with what is set.
    pub(super) fn table(&self) -> toml::Table {
        toml::Table::try_from(self).unwrap_or_default()
    }

    /// The labels of a cell.
    pub fn labels(&self) -> BTreeMap<String, String> {
        let table = self.table();
        let known = LABELS.iter().filter_map(|name| Some(((*name).to_owned(), words(table.get(*name)?))));
        let mut labels: BTreeMap<String, String> = known.collect();
        if let Some(size) = self.size {
            labels.insert("size".into(), size_label(size));
        }
        labels
    }

    /// Bytes of an object.
    pub fn bytes(&self) -> u64 {
        self.size.map_or(0, |size| size.0)
    }

    /// Objects of each client.
    pub fn object_count(&self) -> u64 {
        self.objects.unwrap_or(1)
    }

    /// Requests of a client at once.
    pub fn thread_count(&self) -> u64 {
        self.threads.unwrap_or_else(|| self.object_count()).max(1)
    }

    /// What a write waits for.
    pub fn scope(&self) -> &str {
        self.scope.as_deref().unwrap_or("site")
    }

    /// What is wrong with a value that has the right type.
    pub(super) fn check(&self) -> Result<(), String> {
        let counts = [("sites", self.sites), ("objects", self.objects), ("threads", self.threads)];
        let more = [("clients", self.clients), ("pairs", self.pairs), ("trials", self.trials)];
        if self.nodes.is_some_and(|nodes| !(1..=64).contains(&nodes)) {
            return Err("nodes is from 1 to 64".into());
        }
        for (name, value) in counts.into_iter().chain(more) {
            if value.is_some_and(|value| !(1..=100_000).contains(&value)) {
                return Err(format!("{name} is from 1 to 100000"));
            }
        }
        let times = [
            ("lan_rtt_ms", self.lan_rtt_ms),
            ("access_rtt_ms", self.access_rtt_ms),
            ("core_rtt_ms", self.core_rtt_ms),
            ("core_jitter_ms", self.core_jitter_ms),
        ];
        for (name, value) in times {
            if value.is_some_and(|value| !(0.0..=60_000.0).contains(&value)) {
                return Err(format!("{name} is from 0 to 60000"));
            }
        }
        if self.cpu_share.is_some_and(|share| !(0.01..=1024.0).contains(&share)) {
            return Err("cpu_share is from 0.01 to 1024 processors".into());
        }
        Ok(())
    }

    /// What is wrong with values that are right by themselves.
    pub(super) fn check_together(&self) -> Result<(), String> {
        if self.limits == Some(Demand::Must) && self.memory_mb.is_none() && self.cpu_share.is_none() {
            return Err("limits = \"must\" needs memory_mb or cpu_share beside it".into());
        }
        Ok(())
    }
}

/// A value as labels have it.
pub(super) fn words(value: &toml::Value) -> String {
    match value {
        toml::Value::String(text) => text.clone(),
        toml::Value::Float(number) => number.to_string(),
        other => other.to_string(),
    }
}

/// As papers write sizes: decimal where that is whole, else binary.
pub(super) fn size_label(size: ObjectSize) -> String {
    let units: [(&str, u64); 6] = [
        ("GB", 1_000_000_000),
        ("MB", 1_000_000),
        ("kB", 1_000),
        ("GiB", 1 << 30),
        ("MiB", 1 << 20),
        ("KiB", 1 << 10),
    ];
    match units.into_iter().find(|(_, factor)| size.0 > 0 && size.0.is_multiple_of(*factor)) {
        Some((unit, factor)) => format!("{}{unit}", size.0 / factor),
        None => format!("{}B", size.0),
    }
}
