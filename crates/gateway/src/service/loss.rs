//! Administration: lost sites. The JSON shapes of `/_skerry/v1/sites/NAME/lost` and `…/only`.

use serde::{Deserialize, Serialize};

/// `POST sites/{name}/lost`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LossRequest {
    /// Whether the site's disks are gone; false takes that back.
    pub lost: bool,
}

/// What it answers, and `GET sites/{name}/lost`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LossState {
    /// Shape version.
    pub version: u32,
    /// Name of the site.
    pub site: String,
    /// Whether its copies count no more now.
    pub lost: bool,
    /// Whether it was expelled or replaced: then for good.
    pub expelled: bool,
    /// When it was declared lost last, in milliseconds since 1970; none if it never was.
    pub declared_ms: Option<u64>,
    /// When that or its end was said.
    pub said_ms: Option<u64>,
    /// Name of the site that was told.
    pub said_by: Option<String>,
    /// How often it was declared lost and found; odd: lost.
    pub count: u64,
    /// Whether the site that answers has a link to it.
    pub linked: bool,
    /// Buckets whose conditions only it decides: refused while it is away, until their home is replaced.
    pub homes: Vec<String>,
    /// Whether it keeps the register of names.
    pub register: bool,
}

/// `GET sites/{name}/only`: what nobody else has.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LossQuery {
    /// Go on after this `next`.
    #[serde(default)]
    pub after: Option<String>,
    /// At most about so many; 1000 by default and at most.
    #[serde(default)]
    pub limit: Option<usize>,
}

/// A version of which no other site that was asked has the body.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LostVersion {
    /// Name of its bucket.
    pub bucket: String,
    /// The key.
    pub key: String,
    /// The version, by the id that is its own.
    pub version_id: String,
    /// Bytes of its body.
    pub bytes: u64,
}

/// A page of them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LossPage {
    /// Shape version.
    pub version: u32,
    /// Name of the site.
    pub site: String,
    /// In the order of buckets and of writing.
    pub versions: Vec<LostVersion>,
    /// How many they are.
    pub count: u64,
    /// Bytes of their bodies.
    pub bytes: u64,
    /// Versions beside them that nobody who answers has, and the site is not known to have either: lost before.
    #[serde(default)]
    pub nowhere: u64,
    /// Bytes of their bodies.
    #[serde(default)]
    pub nowhere_bytes: u64,
    /// Versions looked at for this page.
    pub examined: u64,
    /// Names of sites that could not be asked: they may have some of it.
    pub silent: Vec<String>,
    /// Buckets that the answering site does not follow: not looked at. On the first page.
    pub unfollowed: Vec<String>,
    /// Give it as `after` for the next page; none at the end.
    pub next: Option<String>,
}
