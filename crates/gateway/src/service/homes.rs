//! Administration of homes: the shapes of `/_skerry/v1/buckets/{name}/home` and `…/register`.

use serde::{Deserialize, Serialize};

/// `POST buckets/{name}/home` and `POST register`: who decides conditions from now on, or keeps the names.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HomeRequest {
    /// Name of the site that shall.
    pub site: String,
    /// The operator's word that the former one is lost for good: its name. It is expelled.
    #[serde(default)]
    pub destroyed: Option<String>,
}

/// What they answer.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct HomeState {
    /// Shape version.
    pub version: u32,
    /// The bucket; empty for the register of names.
    pub bucket: String,
    /// Name of the site.
    pub site: String,
    /// Counts the homes of this bucket.
    pub epoch: u64,
    /// The site that was expelled for it.
    pub expelled: Option<String>,
    /// With a lost register of names: sites that did not answer. What only they have heard of names is not known to the new one
    /// until they are linked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unheard: Vec<String>,
}
