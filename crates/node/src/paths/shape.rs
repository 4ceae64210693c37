//! Objects between the words of the gateway (S3) and those of the model (records).
//!
//! Why here: neither room knows the other's words in full, and both change for their own reasons.

use skerry_gateway::service::{
    Checksum, ChecksumKind, ChecksumShape, ErrorKind, ObjectHeaders, ObjectInfo, ObjectSummary, Receipt,
    ServiceError, VersionId, Versioning,
};
use skerry_model::object::{self, Headers, Object};
use skerry_model::{Record, record, space};

/// Headers to be stored.
pub(crate) fn stored_headers(headers: ObjectHeaders) -> Headers {
    Headers {
        content_type: headers.content_type,
        cache_control: headers.cache_control,
        content_disposition: headers.content_disposition,
        content_encoding: headers.content_encoding,
        content_language: headers.content_language,
        expires: headers.expires,
        website_redirect: None,
    }
}

/// Stored headers as the client gets them back.
pub(crate) fn shown_headers(headers: &Headers) -> ObjectHeaders {
    let headers = headers.clone();
    ObjectHeaders {
        content_type: headers.content_type,
        cache_control: headers.cache_control,
        content_disposition: headers.content_disposition,
        content_encoding: headers.content_encoding,
        content_language: headers.content_language,
        expires: headers.expires,
    }
}

/// A kind of checksum to be stored.
pub(crate) const fn stored_kind(kind: ChecksumKind) -> object::ChecksumKind {
    match kind {
        ChecksumKind::Crc32 => object::ChecksumKind::Crc32,
        ChecksumKind::Crc32c => object::ChecksumKind::Crc32c,
        ChecksumKind::Crc64Nvme => object::ChecksumKind::Crc64Nvme,
        ChecksumKind::Sha1 => object::ChecksumKind::Sha1,
        ChecksumKind::Sha256 => object::ChecksumKind::Sha256,
    }
}

/// A stored kind of checksum.
pub(crate) const fn shown_kind(kind: object::ChecksumKind) -> ChecksumKind {
    match kind {
        object::ChecksumKind::Crc32 => ChecksumKind::Crc32,
        object::ChecksumKind::Crc32c => ChecksumKind::Crc32c,
        object::ChecksumKind::Crc64Nvme => ChecksumKind::Crc64Nvme,
        object::ChecksumKind::Sha1 => ChecksumKind::Sha1,
        object::ChecksumKind::Sha256 => ChecksumKind::Sha256,
    }
}

/// Checksums to be stored.
pub(crate) fn stored_checksums(checksums: &[Checksum]) -> Vec<object::Checksum> {
    let stored = |sum: &Checksum| object::Checksum {
        kind: stored_kind(sum.kind),
        value: sum.value.clone(),
        composite: sum.shape == ChecksumShape::Composite,
    };
    checksums.iter().map(stored).collect()
}

/// Stored checksums.
pub(crate) fn shown_checksums(checksums: &[object::Checksum]) -> Vec<Checksum> {
    let shown = |sum: &object::Checksum| Checksum {
        kind: shown_kind(sum.kind),
        value: sum.value.clone(),
        shape: shape(sum.composite),
    };
    checksums.iter().map(shown).collect()
}

/// The shape of a checksum.
pub(crate) const fn shape(composite: bool) -> ChecksumShape {
    if composite { ChecksumShape::Composite } else { ChecksumShape::Full }
}

/// A stored versioning state.
pub(crate) const fn shown_versioning(versioning: record::Versioning) -> Versioning {
    match versioning {
        record::Versioning::Off => Versioning::Off,
        record::Versioning::Enabled => Versioning::Enabled,
        record::Versioning::Suspended => Versioning::Suspended,
    }
}

/// A versioning state to be stored.
pub(crate) const fn stored_versioning(versioning: Versioning) -> record::Versioning {
    match versioning {
        Versioning::Off => record::Versioning::Off,
        Versioning::Enabled => record::Versioning::Enabled,
        Versioning::Suspended => record::Versioning::Suspended,
    }
}

/// The id by which a client names the version of a record.
pub(crate) fn version_id(record: &Record) -> VersionId {
    if record.is_null() { VersionId::null() } else { dot_id(record) }
}

/// The id that is the version's own whatever else is there: how losers of conflicts are named.
pub(crate) fn dot_id(record: &Record) -> VersionId {
    VersionId(space::VersionId::Dot(record.dot).to_string())
}

/// The version id that a client gave.
pub(crate) fn parse_version(version: &VersionId) -> Result<space::VersionId, ServiceError> {
    version.0.parse().map_err(|_| {
        ServiceError::new(ErrorKind::InvalidArgument, format!("{version} is not a version id of this server"))
    })
}

/// What a client is told of a stored version. `versioned` says whether its bucket has or had versioning.
pub(crate) fn info(record: &Record, object: &Object, versioned: bool) -> ObjectInfo {
    ObjectInfo {
        version: versioned.then(|| version_id(record)),
        etag: object.etag.clone(),
        size: object.size,
        modified: object.modified,
        headers: shown_headers(&object.headers),
        user_metadata: object.user_metadata.clone(),
        checksums: shown_checksums(&object.checksums),
        parts: parts(object),
        receipt: Receipt::default(),
    }
}

/// A stored version as a listing shows it; a delete marker has no object.
pub(crate) fn summary(record: &Record, owner: &str) -> ObjectSummary {
    let object = record.object();
    ObjectSummary {
        key: record.key.clone(),
        etag: object.map(|object| object.etag.clone()).unwrap_or_default(),
        size: object.map_or(0, |object| object.size),
        modified: object.map_or_else(|| record.clock.wall(), |object| object.modified),
        owner: owner.into(),
        checksums: object.map(|object| shown_checksums(&object.checksums)).unwrap_or_default(),
    }
}

/// Sizes of the parts of a multipart object. Of many parts only the first and the last size are stored when
/// all but the last are equal, as clients make them.
pub(crate) fn parts(object: &Object) -> Vec<u64> {
    match (object.parts.as_slice(), object.part_count as usize) {
        ([size, last], count) if count > 2 => {
            let mut parts = vec![*size; count - 1];
            parts.push(*last);
            parts
        }
        (parts, _) => parts.to_vec(),
    }
}

/// The short form of many part sizes; nothing when they differ.
pub(crate) fn folded_parts(sizes: &[u64]) -> Vec<u64> {
    match sizes.split_last() {
        Some((last, [first, rest @ ..])) if rest.iter().all(|size| size == first) => vec![*first, *last],
        _ => Vec::new(),
    }
}
