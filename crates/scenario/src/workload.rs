//! What clients ask for: a TOML file that the simulator and the lab read alike, or a draw of the swarm.
//!
//! ```toml
//! version = 1
//! name = "photo shop"
//! clients = 4              # at each site, each one request at a time
//! think_ms = [5, 500]      # pause after an answer
//! buckets = 2
//! versioned = 0.5          # share of buckets with versioning on
//!
//! [mix]                    # weights
//! put = 50
//! get = 30
//! list = 5
//! delete = 10
//! erase = 2                # delete one version for good
//! bucket = 0               # delete a bucket, or make it again
//!
//! [keys]
//! count = 100
//! distribution = "zipf"    # or "uniform", "hot" (a tenth of the keys gets nine tenths), "sequential", "once"
//! folders = 3
//!
//! [[size]]
//! bytes = [0, 256]         # or ["1kB", "1MB"]: decimal, KiB and MiB are binary
//! weight = 10
//! ```
//!
//! Whoever measures real time reads a section `[load]`, too: [`crate::workload_load`]. "sequential" and "once" (each key
//! once, shuffled) are orders of one queue of operations, which the simulator's clients do not have: it draws such keys
//! uniformly.
//!
//! An error names the line; fields that nobody knows are refused.

use std::ops::RangeInclusive;
use std::time::Duration;

use serde::Deserialize;
use toml::Spanned;

use crate::clock::millis;
use crate::draw::{Draw, Ppm};
use crate::refusal::{Refusal, parse};
use crate::workload_load::{Load, LoadEntry};
use crate::workload_size::ObjectSize;

/// What a client may ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Act {
    /// Write a key.
    Put,
    /// Read a key.
    Get,
    /// List a bucket.
    List,
    /// Delete a key.
    Delete,
    /// Delete one version for good.
    Erase,
    /// Delete a bucket, or make it again.
    Bucket,
}

/// All acts, in the order of their weights.
pub const ACTS: [Act; 6] = [Act::Put, Act::Get, Act::List, Act::Delete, Act::Erase, Act::Bucket];

/// Which keys are asked for how often.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Spread {
    /// All alike.
    Uniform,
    /// The n-th key with weight 1/n.
    #[serde(alias = "zipfian")]
    Zipf,
    /// A tenth of the keys gets nine tenths of the requests.
    Hot,
    /// One after the other; uniform in the simulator.
    Sequential,
    /// Each exactly once, shuffled; uniform in the simulator.
    Once,
}

/// Work for a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Workload {
    /// What people call it.
    pub name: String,
    /// Clients at each site.
    pub clients: u64,
    /// Pause of a client after an answer.
    pub think: RangeInclusive<Duration>,
    /// Buckets.
    pub buckets: u64,
    /// Share of buckets with versioning on.
    pub versioned: Ppm,
    /// Weights of [`ACTS`].
    pub mix: [u64; 6],
    /// Keys of a bucket.
    pub keys: u64,
    /// Which of them.
    pub spread: Spread,
    /// Folders they lie in.
    pub folders: u64,
    /// Sizes of bodies with their weights.
    pub sizes: Vec<(RangeInclusive<u64>, u64)>,
    /// What only those need who measure real time.
    pub load: Load,
}

impl Workload {
    /// The next act.
    pub fn act(&self, draw: &mut Draw) -> Act {
        ACTS.get(draw.weighted(&self.mix)).copied().unwrap_or(Act::Put)
    }

    /// A key.
    pub fn key(&self, draw: &mut Draw) -> String {
        let number = match self.spread {
            Spread::Uniform | Spread::Sequential | Spread::Once => draw.below(self.keys),
            Spread::Hot if draw.chance(Ppm::percent(90)) => draw.below(self.keys.div_ceil(10)),
            Spread::Hot => draw.below(self.keys),
            Spread::Zipf => self.zipf(draw),
        };
        if self.folders == 0 {
            return format!("key-{number:04}");
        }
        format!("folder-{}/key-{number:04}", number % self.folders)
    }

    /// Halving the range each time with equal chance gives weight 1/n up to a factor of two, without floats.
    fn zipf(&self, draw: &mut Draw) -> u64 {
        let levels = u64::from(self.keys.max(1).ilog2()) + 1;
        let level = draw.below(levels);
        let low = (1 << level) - 1;
        let high = ((1 << (level + 1)) - 2).min(self.keys.saturating_sub(1));
        draw.between(low..=high)
    }

    /// The length of a body.
    pub fn size(&self, draw: &mut Draw) -> u64 {
        let weights: Vec<u64> = self.sizes.iter().map(|(_, weight)| *weight).collect();
        self.sizes.get(draw.weighted(&weights)).map_or(0, |(range, _)| draw.between(range.clone()))
    }

    /// Any work that a small run can do: what the swarm uses.
    pub fn sample(draw: &mut Draw) -> Self {
        let spreads = [Spread::Uniform, Spread::Zipf, Spread::Hot];
        let think = millis(draw.between(20..=300))..=millis(draw.between(600..=4_000));
        let mut sizes = vec![(0..=0, 2), (1..=256, 20), (257..=4096, 10)];
        if draw.chance(Ppm::percent(50)) {
            sizes.push((4097..=32_768, 4));
        }
        if draw.chance(Ppm::percent(30)) {
            sizes.push((32_769..=150_000, 2));
        }
        let rare = |draw: &mut Draw, weight| if draw.chance(Ppm::percent(50)) { weight } else { 0 };
        let mix = [draw.between(20..=60), 20, 4, draw.between(0..=30), rare(draw, 8), rare(draw, 2)];
        Self {
            name: "drawn".into(),
            clients: draw.between(1..=2),
            think,
            buckets: draw.between(1..=3),
            versioned: Ppm::percent(draw.between(0..=100) as u32),
            mix,
            keys: draw.between(1..=30),
            spread: draw.pick(&spreads).copied().unwrap_or(Spread::Uniform),
            folders: draw.between(0..=3),
            sizes,
            load: Load::default(),
        }
    }

    /// Reads a file; `path` is only for the error.
    pub fn parse(path: &str, text: &str) -> Result<Self, Refusal> {
        let file: File = parse(path, text)?;
        file.check().map_err(|(span, reason)| Refusal::at(path, text, span, reason))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    version: Spanned<u32>,
    #[serde(default)]
    name: String,
    clients: Spanned<u64>,
    think_ms: Spanned<[u64; 2]>,
    buckets: Spanned<u64>,
    #[serde(default)]
    versioned: Option<Spanned<f64>>,
    mix: Spanned<MixEntry>,
    keys: KeysEntry,
    size: Vec<SizeEntry>,
    #[serde(default)]
    load: LoadEntry,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct MixEntry {
    put: u32,
    get: u32,
    list: u32,
    delete: u32,
    erase: u32,
    bucket: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KeysEntry {
    count: Spanned<u64>,
    distribution: Spread,
    #[serde(default)]
    folders: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SizeEntry {
    bytes: Spanned<[ObjectSize; 2]>,
    weight: u32,
}

type Fault = (std::ops::Range<usize>, String);

/// Refuses a number outside the bounds that keep a run finite.
fn within(value: &Spanned<u64>, range: RangeInclusive<u64>, field: &str) -> Result<u64, Fault> {
    if range.contains(value.get_ref()) {
        return Ok(*value.get_ref());
    }
    let reason = format!("{field} is from {} to {}, not {}", range.start(), range.end(), value.get_ref());
    Err((value.span(), reason))
}

fn ordered(range: &Spanned<[u64; 2]>, field: &str) -> Result<RangeInclusive<u64>, Fault> {
    let [low, high] = *range.get_ref();
    if low <= high {
        Ok(low..=high)
    } else {
        Err((range.span(), format!("{field} is [from, to], and {low} is above {high}")))
    }
}

impl File {
    fn check(self) -> Result<Workload, Fault> {
        if *self.version.get_ref() != 1 {
            return Err((self.version.span(), "this release reads version 1".into()));
        }
        let think = ordered(&self.think_ms, "think_ms")?;
        let mix = self.mix.get_ref();
        let mix = [mix.put, mix.get, mix.list, mix.delete, mix.erase, mix.bucket].map(u64::from);
        if mix == [0; 6] {
            return Err((self.mix.span(), "the mix asks for nothing".into()));
        }
        Ok(Workload {
            clients: within(&self.clients, 1..=1000, "clients")?,
            think: millis(*think.start())..=millis(*think.end()),
            buckets: within(&self.buckets, 1..=1000, "buckets")?,
            versioned: share(self.versioned.as_ref())?,
            mix,
            keys: within(&self.keys.count, 1..=10_000_000, "count")?,
            spread: self.keys.distribution,
            folders: self.keys.folders,
            sizes: self.size.iter().map(SizeEntry::check).collect::<Result<_, _>>()?,
            name: self.name,
            load: self.load.check()?,
        })
    }
}

fn share(share: Option<&Spanned<f64>>) -> Result<Ppm, Fault> {
    match share {
        None => Ok(Ppm::NEVER),
        Some(found) if (0.0..=1.0).contains(found.get_ref()) => Ok(Ppm::fraction(*found.get_ref())),
        Some(found) => Err((found.span(), "versioned is a share from 0 to 1".into())),
    }
}

impl SizeEntry {
    fn check(&self) -> Result<(RangeInclusive<u64>, u64), Fault> {
        let bytes = Spanned::new(self.bytes.span(), self.bytes.get_ref().map(|size| size.0));
        Ok((ordered(&bytes, "bytes")?, u64::from(self.weight)))
    }
}

#[cfg(test)]
#[path = "workload_tests.rs"]
mod tests;
