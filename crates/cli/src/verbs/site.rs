//! `skerry site …`: acts about a site as a whole. One file per act below.

mod loss;

use clap::Subcommand;

use crate::arguments::Globals;
use crate::exit::Outcome;

/// Sites.
#[derive(Debug, Subcommand)]
pub(crate) enum Site {
    /// Say that the disks of a site are gone
    ///
    /// Ask another site. First it lists what no other site has: a sum, then (with --dry-run at once, else afterwards)
    /// bucket, key, version and size of each. Then everybody learns that the site is lost: its copies count no more and
    /// others are made, and a read of what only it had gets the newest older version, with the header x-skerry-lost, or
    /// 404 with the reason. Nothing is deleted. If the site comes back with its disk it takes the word back by itself.
    /// Homes are not moved: see `skerry bucket home --destroyed`.
    DeclareLost(loss::DeclareLost),
    /// Take that back: what the site holds counts again
    ///
    /// Needed only where the site came back with another disk, or where the word was wrong and the site is still away.
    DeclareFound(loss::DeclareFound),
}

impl Site {
    pub(crate) async fn run(self, globals: Globals) -> Outcome {
        match self {
            Self::DeclareLost(verb) => verb.run(globals).await,
            Self::DeclareFound(verb) => verb.run(globals).await,
        }
    }
}
