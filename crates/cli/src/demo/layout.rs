//! A demo's directory: `demo.json` (sites, ports, credentials), `federation/` (the root key, on no site) and
//! one directory per site.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::exit::{Failure, Outcome};
use crate::files;

/// Where a demo lives if nothing is said.
pub(crate) const DEFAULT_DIRECTORY: &str = "skerry-demo";
const NOTES: &str = "demo.json";
/// Version of `demo.json`.
const VERSION: u32 = 1;

/// A demo as it is written down.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Layout {
    version: u32,
    /// The S3 port of the first site.
    pub(crate) port: u16,
    /// The peer port of the first site: it stays, because the sites know each other by it.
    pub(crate) peer_port: u16,
    /// The sites in order.
    pub(crate) sites: Vec<Site>,
    /// Credentials of the user.
    pub(crate) access_key: String,
    pub(crate) secret_key: String,
    /// Where it lies.
    #[serde(skip)]
    pub(crate) directory: PathBuf,
}

/// One site of a demo.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Site {
    pub(crate) name: String,
    pub(crate) endpoint: String,
}

impl Layout {
    /// A demo that is not written down yet.
    pub(crate) fn new(directory: &Path) -> Self {
        Self {
            version: VERSION,
            port: 0,
            peer_port: 0,
            sites: Vec::new(),
            access_key: String::new(),
            secret_key: String::new(),
            directory: directory.to_path_buf(),
        }
    }

    /// Reads a demo's notes; none if the directory holds none.
    pub(crate) fn load(directory: &Path) -> Outcome<Option<Self>> {
        let path = directory.join(NOTES);
        // Where one may not look nobody knows whether it is there.
        let unreadable = |failure: Failure| Failure {
            message: format!("cannot read {}: {}", directory.display(), failure.message),
            ..failure
        };
        let Some(text) = files::read(&path).map_err(unreadable)? else { return Ok(None) };
        let layout: Self = serde_json::from_str(&text)
            .map_err(|error| Failure::failed(format!("{}: {error}", path.display())))?;
        if layout.version != VERSION {
            let known = format!("this release reads version {VERSION}");
            return Err(Failure::failed(format!("{}: version {}; {known}", path.display(), layout.version)));
        }
        Ok(Some(Self { directory: directory.to_path_buf(), ..layout }))
    }

    /// Writes them; they hold the secret key, so only the owner may read them.
    pub(crate) fn store(&self) -> Outcome<()> {
        let text = serde_json::to_string_pretty(self).map_err(|error| Failure::failed(error.to_string()))?;
        files::write_secret(&self.directory.join(NOTES), &(text + "\n"))
    }

    /// The directory of a site.
    pub(crate) fn site_directory(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Where the root key lies.
    pub(crate) fn federation_directory(&self) -> PathBuf {
        self.directory.join("federation")
    }
}
