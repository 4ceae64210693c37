//! What to do: phases of work, as files and the lab's clients carry them (serde; unknown fields are refused).
//!
//! Everything but a phase's name and end has a default, so that a phase in a file is a few lines:
//!
//! ```toml
//! [[phases]]
//! name = "write"
//! mix = { put = 1 }
//! workers = 100
//! operations = 100
//! arrival = { spread_ms = 1000 }
//! keys = { count = 100, order = "sequential" }
//! sizes = [{ bytes = "1MB" }]
//! ```

use serde::{Deserialize, Serialize};
pub use skerry_scenario::workload_load::Arrival;
use skerry_scenario::workload_size::ObjectSize;

use crate::target::Operation;

/// A whole run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// What people call it.
    #[serde(default)]
    pub name: String,
    /// All choices and all bytes come from it. Readers of what others wrote need the seed of the writers.
    #[serde(default = "one")]
    pub seed: u64,
    /// Number of this client among those that run at the same time: goes into samples and `{client}`.
    #[serde(default)]
    pub client: u64,
    /// How often all phases are run.
    #[serde(default = "one")]
    pub trials: u64,
    /// Wait for this wall time (milliseconds since 1970) before the first phase, so that clients begin together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begin_wall_ms: Option<u64>,
    /// In order.
    pub phases: Vec<Phase>,
}

/// A part of a run that is measured by itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// What people call it: `write`, `read`.
    pub name: String,
    /// Weights of the operations.
    pub mix: Mix,
    /// Requests at once, at most.
    #[serde(default = "one")]
    pub workers: u64,
    /// When operations begin.
    #[serde(default)]
    pub arrival: Arrival,
    /// Ends after so many operations (warm-up not counted)…
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operations: Option<u64>,
    /// … or begins none after so many seconds (warm-up not counted). At least one of the two is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// Operations begun in the first so many seconds are marked as warm-up and left out of the figures.
    #[serde(default)]
    pub warm_up_seconds: f64,
    /// Pause of a worker after an answer, drawn from this range.
    #[serde(default)]
    pub think_ms: [u64; 2],
    /// Buckets, used in turn; `{trial}` and `{client}` stand for their numbers.
    #[serde(default = "default_buckets")]
    pub buckets: Vec<String>,
    /// Which keys.
    #[serde(default)]
    pub keys: Keys,
    /// Sizes of objects: a function of seed and key, so that readers know them.
    #[serde(default = "default_sizes")]
    pub sizes: Vec<SizeRange>,
    /// How closely to look at what was read.
    #[serde(default)]
    pub verify: Verify,
    /// Whether connections are kept.
    #[serde(default)]
    pub connections: Connections,
    /// When to give up an operation.
    #[serde(default = "default_timeout")]
    pub timeout_seconds: f64,
    /// Ask the caller of the engine to drop caches before this phase.
    #[serde(default)]
    pub drop_caches: bool,
    /// Rest before this phase.
    #[serde(default)]
    pub pause_seconds: f64,
    /// For listings: they follow all pages and must show exactly `keys.count` keys.
    #[serde(default)]
    pub list_all: bool,
}

/// Weights of operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct Mix {
    /// Make the buckets.
    pub create_bucket: u64,
    /// Write.
    pub put: u64,
    /// Read.
    pub get: u64,
    /// Ask whether it is there.
    pub head: u64,
    /// List.
    pub list: u64,
    /// Delete an object.
    pub delete: u64,
    /// Delete the buckets.
    pub delete_bucket: u64,
}

impl Mix {
    /// In the order of [`Operation::ALL`].
    pub const fn weights(&self) -> [u64; 7] {
        [self.create_bucket, self.put, self.get, self.head, self.list, self.delete, self.delete_bucket]
    }

    /// Nothing but this.
    pub fn only(operation: Operation) -> Self {
        let mut mix = Self::default();
        *match operation {
            Operation::CreateBucket => &mut mix.create_bucket,
            Operation::Put => &mut mix.put,
            Operation::Get => &mut mix.get,
            Operation::Head => &mut mix.head,
            Operation::List => &mut mix.list,
            Operation::Delete => &mut mix.delete,
            Operation::DeleteBucket => &mut mix.delete_bucket,
        } = 1;
        mix
    }
}

/// Which keys are asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Keys {
    /// How many.
    pub count: u64,
    /// Number of the first.
    pub first: u64,
    /// What names begin with; `{trial}` and `{client}` stand for their numbers.
    pub prefix: String,
    /// Folders they lie in; 0 for none.
    pub folders: u64,
    /// In which order or how often.
    pub order: Order,
    /// Exponent of the zipfian order.
    pub theta: f64,
}

impl Default for Keys {
    fn default() -> Self {
        Self {
            count: 1000,
            first: 0,
            prefix: "key-".into(),
            folders: 0,
            order: Order::Sequential,
            theta: 0.99,
        }
    }
}

/// In which order keys are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// One after the other, then again from the first.
    #[default]
    Sequential,
    /// Each exactly once, shuffled; the phase ends with the last one.
    Once,
    /// All alike.
    Uniform,
    /// The n-th with weight 1/n^theta.
    #[serde(alias = "zipfian")]
    Zipf,
    /// A tenth of them gets nine tenths of the requests.
    Hot,
}

/// Sizes from `bytes` to `to`, all alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SizeRange {
    /// The size, or the smallest one.
    pub bytes: ObjectSize,
    /// The largest one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<ObjectSize>,
    /// How often this range is drawn.
    #[serde(default = "one")]
    pub weight: u64,
    /// How sizes lie in the range.
    #[serde(default)]
    pub shape: Shape,
}

/// How sizes lie in a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Shape {
    /// All alike.
    #[default]
    Uniform,
    /// As many between 1 and 2 kB as between 1 and 2 MB.
    Log,
}

/// How closely to look at what was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verify {
    /// Not at all.
    None,
    /// How many bytes they are.
    Length,
    /// Every byte.
    #[default]
    Bytes,
    /// The MD5 sum of what was read and, where the store shows one, of what was written: costs CPU.
    Md5,
}

/// Whether connections are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Connections {
    /// One for each worker, kept.
    #[default]
    Keep,
    /// A new one for each operation.
    New,
}

const fn one() -> u64 {
    1
}

fn default_buckets() -> Vec<String> {
    vec!["bench".into()]
}

fn default_sizes() -> Vec<SizeRange> {
    vec![SizeRange { bytes: ObjectSize(1_000_000), to: None, weight: 1, shape: Shape::Uniform }]
}

const fn default_timeout() -> f64 {
    60.0
}

impl Phase {
    /// A phase of one operation with the defaults of files.
    pub fn new(name: impl Into<String>, operation: Operation) -> Self {
        Self {
            name: name.into(),
            mix: Mix::only(operation),
            workers: 1,
            arrival: Arrival::AtOnce,
            operations: None,
            seconds: None,
            warm_up_seconds: 0.0,
            think_ms: [0, 0],
            buckets: default_buckets(),
            keys: Keys::default(),
            sizes: default_sizes(),
            verify: Verify::default(),
            connections: Connections::default(),
            timeout_seconds: default_timeout(),
            drop_caches: false,
            pause_seconds: 0.0,
            list_all: false,
        }
    }
}
