//! The system bucket: what every site holds. Sites, claims on bucket names, access keys; nothing else.
//!
//! Each is a record whose object carries a small versioned document instead of a body.

use std::ops::ControlFlow;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use skerry_base::codec::{self, Versioned};
use skerry_base::kv::View;
use skerry_base::{BucketId, CredentialKeyId, NodeId, SiteId, WallTime};

use crate::object::Object;
use crate::record::Record;
use crate::space::{self, Cursor, SpaceError};

/// The system bucket of a federation, named by the federation's id (of any form).
pub fn system_bucket(federation: &[u8]) -> BucketId {
    let mut hasher = blake3::Hasher::new();
    hasher.update(b"skerry system");
    hasher.update(federation);
    let mut id = [0; 16];
    id.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    BucketId(id)
}

/// What a key of the system bucket names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SystemKey {
    /// A site: [`SiteDocument`].
    Site(SiteId),
    /// A claim: [`super::ClaimDocument`].
    Claim {
        /// The name claimed.
        name: String,
        /// For this incarnation.
        bucket: BucketId,
    },
    /// An access key: [`KeyDocument`].
    AccessKey(String),
    /// Who decides the conditional operations of a bucket: [`super::HomeDocument`].
    Home(BucketId),
    /// Whether the disks of a site are gone: [`super::LossDocument`]. Releases before pass over it.
    Loss(SiteId),
    /// What a site is there for: [`super::DutyDocument`].
    Duty(SiteId),
    /// What it says to that: [`super::DutyReport`].
    DutyReport(SiteId),
    /// Where it is dialled by an operator's word: [`super::AddressDocument`].
    Address(SiteId),
    /// Which area it stands in: [`super::AreaDocument`]. Releases before pass over it.
    Area(SiteId),
    /// What the nodes of a home's site agree on: [`super::TenureDocument`]. Releases before pass over it.
    Tenure(BucketId),
    /// What the register of names is about to name: [`super::NamingDocument`]. Releases before pass over it.
    Namings,
    /// Whether it pays for what crosses its link: [`super::MeteredDocument`]. Releases before pass over it.
    Metered(SiteId),
    /// What was seen of a bucket, as far as others have no room for it: [`super::SeenDocument`]. Releases before pass over it.
    Seen(BucketId, u64),
    /// A later credential key: [`super::CredentialDocument`]. Releases before pass over it.
    Credential(CredentialKeyId),
}

impl SystemKey {
    /// Reads a key; none if it names nothing this release knows.
    pub fn parse(key: &str) -> Option<Self> {
        let (kind, rest) = key.split_once('/')?;
        match kind {
            "site" => rest.parse().ok().map(Self::Site),
            "home" => rest.parse().ok().map(Self::Home),
            "loss" => rest.parse().ok().map(Self::Loss),
            "duty" => rest.parse().ok().map(Self::Duty),
            "address" => rest.parse().ok().map(Self::Address),
            "area" => rest.parse().ok().map(Self::Area),
            "tenure" => rest.parse().ok().map(Self::Tenure),
            "report" => rest.parse().ok().map(Self::DutyReport),
            "metered" => rest.parse().ok().map(Self::Metered),
            "naming" => (rest == "register").then_some(Self::Namings),
            "seen" => {
                let (bucket, name) = rest.split_once('/')?;
                let name =
                    u64::from_str_radix(name, 16).ok().filter(|found| format!("{found:016x}") == name)?;
                Some(Self::Seen(bucket.parse().ok()?, name))
            }
            "key" => Some(Self::AccessKey(rest.to_owned())),
            "credential" => {
                let id: CredentialKeyId = rest.parse().ok()?;
                (id.to_string() == rest).then_some(Self::Credential(id))
            }
            "claim" => {
                let (name, bucket) = rest.split_once('/')?;
                Some(Self::Claim { name: name.to_owned(), bucket: bucket.parse().ok()? })
            }
            _ => None,
        }
    }
}

impl core::fmt::Display for SystemKey {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Site(site) => write!(f, "site/{site}"),
            Self::Claim { name, bucket } => write!(f, "claim/{name}/{bucket}"),
            Self::AccessKey(key) => write!(f, "key/{key}"),
            Self::Home(bucket) => write!(f, "home/{bucket}"),
            Self::Loss(site) => write!(f, "loss/{site}"),
            Self::Duty(site) => write!(f, "duty/{site}"),
            Self::Address(site) => write!(f, "address/{site}"),
            Self::Area(site) => write!(f, "area/{site}"),
            Self::Tenure(bucket) => write!(f, "tenure/{bucket}"),
            Self::DutyReport(site) => write!(f, "report/{site}"),
            Self::Namings => f.write_str("naming/register"),
            Self::Metered(site) => write!(f, "metered/{site}"),
            Self::Credential(id) => write!(f, "credential/{id}"),
            Self::Seen(bucket, name) => write!(f, "seen/{bucket}/{name:016x}"),
        }
    }
}

/// A site of the roster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SiteDocument {
    /// Its name, unique in the federation.
    pub name: String,
    /// Its nodes.
    pub nodes: Vec<NodeEntry>,
    /// Signatures of admin keys over what they admitted.
    pub admissions: Vec<Bytes>,
    /// Whether it still belongs.
    pub state: SiteState,
    /// When it joined.
    pub joined: WallTime,
}

impl Versioned for SiteDocument {
    const NAME: &'static str = "site document";
    const VERSION: u8 = 1;
}

/// A node of a site.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeEntry {
    /// Derived from the key.
    pub node: NodeId,
    /// Ed25519.
    pub key: [u8; 32],
    /// `host:port`, best first.
    pub addresses: Vec<String>,
}

/// Whether a site belongs to the federation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum SiteState {
    /// It does.
    #[default]
    Member,
    /// It was expelled.
    Expelled,
    /// Another site took its place.
    Replaced(SiteId),
}

impl SiteState {
    /// Which of two holds that were said without knowing of each other.
    fn stricter(self, other: Self) -> Self {
        match (self, other) {
            (Self::Member, _) => other,
            (Self::Expelled, Self::Replaced(_)) => other,
            (Self::Replaced(one), Self::Replaced(another)) => Self::Replaced(one.min(another)),
            (Self::Expelled | Self::Replaced(_), _) => self,
        }
    }
}

/// An access key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyDocument {
    /// The secret, sealed to the sites in scope.
    pub secret: Bytes,
    /// Whose buckets it makes and opens.
    pub owner: String,
    /// Whether it works.
    pub status: KeyStatus,
    /// When it was made.
    pub created: WallTime,
    /// When it ends.
    pub expires: Option<WallTime>,
    /// Sites where it works; empty for all.
    pub sites: Vec<SiteId>,
    /// May do everything, at every owner's buckets.
    pub admin: bool,
    /// Buckets it is limited to, by name.
    pub buckets: Option<Vec<String>>,
    /// May read and list.
    pub read: bool,
    /// May write and delete.
    pub write: bool,
    /// A policy of a later release: this one refuses what it does not understand.
    pub policy: String,
    /// For people.
    pub description: String,
}

impl Versioned for KeyDocument {
    const NAME: &'static str = "access key document";
    const VERSION: u8 = 1;
}

/// Whether an access key works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum KeyStatus {
    /// It does.
    #[default]
    Active,
    /// It was disabled.
    Disabled,
}

/// The object that carries a document.
pub fn document_object<T: Versioned>(document: &T, modified: WallTime) -> Object {
    Object { document: Some(codec::encode(document).into()), modified, ..Object::default() }
}

/// The document that a record carries; none for a deleted one.
pub fn document<T: Versioned>(record: &Record) -> Result<Option<T>, SpaceError> {
    let bytes = record.object().and_then(|object| object.document.as_ref());
    Ok(bytes.map(|bytes| codec::decode(bytes)).transpose()?)
}

/// All sites ever admitted, in order of their ids.
pub fn sites(view: &dyn View, system: BucketId) -> Result<Vec<(SiteId, SiteDocument)>, SpaceError> {
    let mut found = Vec::new();
    each_document(view, system, "site/", &mut |key, _| {
        if let SystemKey::Site(id) = key
            && let Some(site_document) = site(view, system, id)?
        {
            found.push((id, site_document));
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(found)
}

/// One site. Whoever says that it belongs no longer wins, whatever it says of itself meanwhile; of these, who says by whom it
/// was replaced; of two such, the lesser id.
pub fn site(view: &dyn View, system: BucketId, id: SiteId) -> Result<Option<SiteDocument>, SpaceError> {
    let mut found: Option<SiteDocument> = None;
    for head in space::heads(view, system, &SystemKey::Site(id).to_string())? {
        let Some(said) = document::<SiteDocument>(&head)? else { continue };
        match &mut found {
            Some(known) => known.state = known.state.stricter(said.state),
            None => found = Some(said),
        }
    }
    Ok(found)
}

/// All access keys, in order.
pub fn keys(view: &dyn View, system: BucketId) -> Result<Vec<(String, KeyDocument)>, SpaceError> {
    let mut found = Vec::new();
    each_document(view, system, "key/", &mut |key, record| {
        if let (SystemKey::AccessKey(id), Some(key_document)) = (key, document(&record)?) {
            found.push((id, key_document));
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(found)
}

type VisitDocument<'a> = dyn FnMut(SystemKey, Record) -> Result<ControlFlow<()>, SpaceError> + 'a;

/// Visits the current records below a prefix of the system bucket.
pub(super) fn each_document(
    view: &dyn View,
    system: BucketId,
    prefix: &str,
    visit: &mut VisitDocument<'_>,
) -> Result<(), SpaceError> {
    let mut after: Option<String> = None;
    loop {
        let cursor = Cursor { prefix, start_after: after.as_deref(), max: 256, ..Cursor::default() };
        let page = space::list_current(view, system, cursor)?;
        for (key, _) in page.keys {
            let Some(parsed) = SystemKey::parse(&key) else { continue };
            let Some(record) = space::current(view, system, &key)? else { continue };
            if visit(parsed, record)?.is_break() {
                return Ok(());
            }
        }
        match page.next {
            Some(next) => after = Some(next),
            None => return Ok(()),
        }
    }
}
