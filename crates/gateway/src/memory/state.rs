//! What the double holds, and what wins in it.

use std::collections::BTreeMap;

use bytes::Bytes;
use skerry_base::WallTime;

use crate::service::{
    ChecksumKind, ChecksumShape, CreateUpload, Credential, DeleteOutcome, ErrorKind, KeyStatus, ObjectInfo,
    Outcome, Principal, PutOutcome, RequestContext, ServiceError, StoredPart, UplinkBudget, VERSION,
    VersionId, Versioning,
};

/// Everything.
#[derive(Default)]
pub(super) struct State {
    pub(super) buckets: BTreeMap<String, Bucket>,
    pub(super) keys: BTreeMap<String, (Credential, KeyStatus)>,
    /// Answers of completions that succeeded, by upload.
    pub(super) completed: BTreeMap<String, PutOutcome>,
    pub(super) cut: bool,
    pub(super) uplink: Option<UplinkBudget>,
    /// Whether the scrub, of which there is none, was paused.
    pub(super) paused: bool,
    drawn: u64,
}

/// A bucket.
pub(super) struct Bucket {
    pub(super) owner: String,
    pub(super) created: WallTime,
    pub(super) location: Option<String>,
    pub(super) versioning: Versioning,
    /// Versions of each key, the newest last; never empty.
    pub(super) keys: BTreeMap<String, Vec<Version>>,
    /// Uploads by key and id.
    pub(super) uploads: BTreeMap<String, BTreeMap<String, Upload>>,
}

/// A version or a delete marker.
#[derive(Clone)]
pub(super) struct Version {
    pub(super) id: VersionId,
    pub(super) delete_marker: bool,
    pub(super) info: ObjectInfo,
    pub(super) owner: String,
    pub(super) body: Bytes,
}

/// An upload.
pub(super) struct Upload {
    pub(super) request: CreateUpload,
    pub(super) initiated: WallTime,
    pub(super) principal: Principal,
    pub(super) parts: BTreeMap<u32, Part>,
}

/// A part.
#[derive(Clone)]
pub(super) struct Part {
    pub(super) stored: StoredPart,
    pub(super) modified: WallTime,
    pub(super) body: Bytes,
}

impl State {
    /// A name nobody else has; later ones are smaller, as version ids of S3 need no order.
    pub(super) fn draw(&mut self, prefix: &str) -> String {
        self.drawn += 1;
        format!("{prefix}{:08x}", self.drawn)
    }

    pub(super) fn add_key(
        &mut self,
        id: &str,
        secret: &str,
        owner: &str,
        name: &str,
        now: WallTime,
    ) -> KeyStatus {
        let principal = Principal { access_key: id.into(), owner: owner.into() };
        let status = KeyStatus {
            version: VERSION,
            id: id.into(),
            name: name.into(),
            owner: owner.into(),
            created_ms: now.0,
            enabled: true,
            known_to: Vec::new(),
        };
        self.keys.insert(id.into(), (Credential { secret: secret.into(), principal }, status.clone()));
        status
    }

    /// A bucket of the caller's.
    pub(super) fn bucket(&mut self, context: &RequestContext, name: &str) -> Outcome<&mut Bucket> {
        match self.buckets.get_mut(name) {
            Some(bucket) if bucket.owner == context.principal.owner => Ok(bucket),
            Some(_) => Err(ServiceError::new(ErrorKind::AccessDenied, "the bucket belongs to somebody else")),
            None => Err(ServiceError::no_such_bucket(name)),
        }
    }
}

impl Bucket {
    pub(super) fn new(owner: &str, created: WallTime, location: Option<String>) -> Self {
        Self {
            owner: owner.into(),
            created,
            location,
            versioning: Versioning::Off,
            keys: BTreeMap::new(),
            uploads: BTreeMap::new(),
        }
    }

    /// The current object of a key.
    pub(super) fn current(&self, key: &str) -> Option<&Version> {
        self.keys.get(key)?.last().filter(|version| !version.delete_marker)
    }

    /// The version asked for, or the current one.
    pub(super) fn find(&self, key: &str, version: Option<&VersionId>) -> Outcome<&Version> {
        let versions = self.keys.get(key).map(Vec::as_slice).unwrap_or_default();
        match version {
            None => match versions.last() {
                Some(last) if last.delete_marker => Err(marked(ServiceError::no_such_key(key), last)),
                Some(last) => Ok(last),
                None => Err(ServiceError::no_such_key(key)),
            },
            Some(id) => match versions.iter().find(|one| one.id == *id) {
                Some(found) if found.delete_marker => Err(marked(
                    ServiceError::new(ErrorKind::MethodNotAllowed, "this version is a delete marker"),
                    found,
                )),
                Some(found) => Ok(found),
                None => Err(ServiceError::new(
                    ErrorKind::NoSuchVersion,
                    format!("the key {key} has no version {id}; list its versions"),
                )),
            },
        }
    }

    /// Adds a version by the rules of the versioning state; answers the id to show.
    pub(super) fn add(&mut self, key: &str, mut version: Version, drawn: String) -> Option<VersionId> {
        version.id =
            if self.versioning == Versioning::Enabled { VersionId(drawn) } else { VersionId::null() };
        let shown = (self.versioning != Versioning::Off).then(|| version.id.clone());
        version.info.version.clone_from(&shown);
        let versions = self.keys.entry(key.into()).or_default();
        versions.retain(|one| one.id != version.id);
        versions.push(version);
        shown
    }

    /// Erases a version; of what is not there, too.
    pub(super) fn erase(&mut self, key: &str, id: &VersionId) -> DeleteOutcome {
        let Some(versions) = self.keys.get_mut(key) else {
            return DeleteOutcome { version: Some(id.clone()), ..DeleteOutcome::default() };
        };
        let delete_marker = versions.iter().any(|one| one.id == *id && one.delete_marker);
        versions.retain(|one| one.id != *id);
        if versions.is_empty() {
            self.keys.remove(key);
        }
        DeleteOutcome { delete_marker, version: Some(id.clone()), ..DeleteOutcome::default() }
    }

    /// An upload by its names.
    pub(super) fn upload(&mut self, key: &str, id: &str) -> Outcome<&mut Upload> {
        self.uploads
            .get_mut(key)
            .and_then(|uploads| uploads.get_mut(id))
            .ok_or_else(|| ServiceError::no_such_upload(id))
    }

    /// Forgets an upload.
    pub(super) fn forget(&mut self, key: &str, id: &str) {
        if let Some(uploads) = self.uploads.get_mut(key) {
            uploads.remove(id);
            if uploads.is_empty() {
                self.uploads.remove(key);
            }
        }
    }
}

impl Upload {
    /// The checksum it was begun with.
    pub(super) const fn checksum(&self) -> (ChecksumKind, ChecksumShape) {
        (self.request.checksum, self.request.shape)
    }
}

fn marked(error: ServiceError, marker: &Version) -> ServiceError {
    let error = error.with_header("x-amz-delete-marker", "true");
    match &marker.info.version {
        Some(version) => error.with_header("x-amz-version-id", version.0.clone()),
        None => error,
    }
}
