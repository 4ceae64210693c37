//! `skerry bench`: load on any S3 service, and figures of it.
//!
//! The engine is the library `skerry-bench`, which the lab's clients use, too; here are the options, the files, the
//! progress bar and the tables.

mod aim;
mod flow;
mod mixed;
mod report;
mod six;
mod write_read;

use clap::{Args, Subcommand, ValueEnum};
use skerry_bench::plan::{Connections, Verify};
use std::path::PathBuf;

use crate::arguments::Globals;
use crate::exit::Outcome;

/// The ways to put load on a service.
#[derive(Debug, Subcommand)]
pub(crate) enum Bench {
    /// Six timed steps: create bucket, upload, list, download, erase objects, erase bucket
    ///
    /// As S3perf and ossperf do it, with the line of ossperf's results.csv on standard output. The bucket must not be
    /// there.
    Six(Box<six::SixSteps>),
    /// A mix of operations for some time or number
    ///
    /// Writes the objects first (unless --no-load), then measures the mix; `--mix get=1 --order once` reads each
    /// object exactly once. At a fixed rate (--rate) latency counts from the intended begin, also while the service
    /// stalls.
    Mixed(Box<mixed::Mixed>),
    /// Write objects all at once, then read each exactly once
    ///
    /// The papers' experiment: as many requests at once as objects, new objects in every trial.
    WriteRead(Box<write_read::WriteRead>),
}

impl Bench {
    pub(crate) async fn run(self, globals: Globals) -> Outcome {
        match self {
            Self::Six(six) => six.run(globals).await,
            Self::Mixed(mixed) => mixed.run(globals).await,
            Self::WriteRead(pairs) => pairs.run(globals).await,
        }
    }
}

/// How to measure, the same for every kind of load.
#[derive(Debug, Clone, Args)]
pub(crate) struct Measure {
    /// How closely to look at what is read
    #[arg(long, value_name = "WHAT", value_enum, default_value = "bytes")]
    verify: Look,
    /// Keep one connection for each worker, or make a new one for each operation
    #[arg(long, value_name = "HOW", value_enum, default_value = "keep")]
    connections: Wires,
    /// Drop this machine's file caches before reads; needs root
    #[arg(long)]
    drop_caches: bool,
    /// All choices and all bytes come from it
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Write every operation into this file, one line each
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Draw the latencies into this file (SVG)
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
}

/// See [`Verify`].
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Look {
    /// Every byte
    Bytes,
    /// The number of bytes
    Length,
    /// Every byte, and MD5 sums against the ETag
    Md5,
    /// Nothing
    None,
}

/// See [`Connections`].
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Wires {
    /// One for each worker
    Keep,
    /// One for each operation; the time to connect is shown apart
    New,
}

impl Measure {
    const fn verify(&self) -> Verify {
        match self.verify {
            Look::Bytes => Verify::Bytes,
            Look::Length => Verify::Length,
            Look::Md5 => Verify::Md5,
            Look::None => Verify::None,
        }
    }

    const fn connections(&self) -> Connections {
        match self.connections {
            Wires::Keep => Connections::Keep,
            Wires::New => Connections::New,
        }
    }
}
