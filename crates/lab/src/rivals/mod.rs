//! Targets that do not speak S3, for the same engine, schedules and figures: kubo's HTTP API and Cassandra's native
//! protocol; and the file by which a client process is told which target it is to load.

mod answer;
mod cassandra;
mod cql;
mod ipfs;
mod names;

use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use skerry_bench::s3::{Addressing, Choose, S3Config, S3Target};
use skerry_bench::target::Target;

pub use cassandra::{CassandraConfig, CassandraTarget};
pub use ipfs::{IpfsConfig, IpfsTarget, Write as IpfsWrite};

use crate::systems::{Kind, Running};

/// A target as a client process is told of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum TargetConfig {
    /// An S3 endpoint.
    S3(S3Config),
    /// kubo's HTTP API.
    Ipfs(IpfsConfig),
    /// Cassandra.
    Cassandra(CassandraConfig),
}

impl TargetConfig {
    /// Where clients of a site of a running system go; none if it has no such site. Of several nodes any is asked over
    /// S3, as behind one name, and the first otherwise. `shared` is a directory that all clients of the run can write.
    pub fn of(running: &Running, site: usize, shared: PathBuf) -> Option<Self> {
        let mut nodes = running.endpoints.iter().filter(|endpoint| endpoint.site == site).peekable();
        let endpoint = *nodes.peek()?;
        let url = endpoint.url.clone();
        let keys = running.credentials().clone();
        Some(match running.kind() {
            Kind::S3 => Self::S3(S3Config {
                endpoints: nodes.map(|node| node.url.clone()).collect(),
                access_key: keys.access_key,
                secret_key: keys.secret_key,
                region: keys.region,
                choose: Choose::Hash,
                addressing: Addressing::default(),
                sign_payload: false,
                authorities_pem: None,
            }),
            Kind::Ipfs => {
                Self::Ipfs(IpfsConfig { endpoint: url, names: shared, write: running.setting("write") })
            }
            Kind::Cassandra => Self::Cassandra(CassandraConfig {
                endpoint: url,
                replication: running.setting("replication"),
                consistency: running.setting("consistency"),
                site: endpoint.site_name.clone(),
            }),
        })
    }

    /// One for each node of the site, that asks only this one.
    pub fn each(self) -> Vec<Self> {
        match self {
            Self::S3(config) => {
                let one =
                    |url: &String| Self::S3(S3Config { endpoints: vec![url.clone()], ..config.clone() });
                config.endpoints.iter().map(one).collect()
            }
            one => vec![one],
        }
    }

    /// Makes the target; connects to nothing yet.
    pub fn build(&self) -> Result<Arc<dyn Target>, String> {
        Ok(match self {
            Self::S3(config) => Arc::new(S3Target::new(config.clone()).map_err(|error| error.to_string())?),
            Self::Ipfs(config) => Arc::new(IpfsTarget::new(config.clone())?),
            Self::Cassandra(config) => Arc::new(CassandraTarget::new(config.clone())?),
        })
    }
}
