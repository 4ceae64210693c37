//! ListObjectVersions.

use s3s::dto;

use super::Call;
use super::documents::{Naming, algorithm, count, page_size, shape};
use super::reply::{Reply, etag, owner, timestamp};
use crate::service::{
    ErrorKind, Outcome, ServiceError, Services, VersionEntry, VersionId, VersionQuery, VersionSummary,
};

/// One page of versions and delete markers.
pub(super) async fn run(services: &Services, call: Call) -> Outcome<Reply> {
    let naming = Naming::of(&call)?;
    let limit = page_size(&call, "max-keys")?;
    let page = services.objects.list_versions(&call.context, query(&call, limit)?).await?;
    let truncated = page.more && limit > 0;
    let (next_key, next_version) = match (page.next.as_ref(), page.entries.last()) {
        _ if !truncated => (None, None),
        (Some((key, version)), _) => {
            (Some(naming.write(key)), version.as_ref().map(|version| version.0.clone()))
        }
        (None, None) => (None, None),
        (None, Some(VersionEntry::Prefix(prefix))) => (Some(naming.write(prefix)), None),
        (None, Some(VersionEntry::Version(last))) => {
            (Some(naming.write(&last.object.key)), Some(last.version.0.clone()))
        }
    };
    let mut output = dto::ListObjectVersionsOutput {
        prefix: Some(naming.echo(&call, "prefix").unwrap_or_default()),
        key_marker: Some(naming.echo(&call, "key-marker").unwrap_or_default()),
        version_id_marker: Some(call.query.text("version-id-marker").unwrap_or_default()),
        delimiter: naming.echo(&call, "delimiter"),
        max_keys: count(limit),
        is_truncated: Some(truncated),
        next_key_marker: next_key,
        next_version_id_marker: next_version,
        encoding_type: naming.element(),
        name: Some(call.bucket),
        ..dto::ListObjectVersionsOutput::default()
    };
    for entry in &page.entries {
        match entry {
            VersionEntry::Prefix(name) => {
                output.common_prefixes.get_or_insert_default().push(naming.prefix(name));
            }
            VersionEntry::Version(one) if one.delete_marker => {
                output.delete_markers.get_or_insert_default().push(marker(naming, one));
            }
            VersionEntry::Version(one) => output.versions.get_or_insert_default().push(version(naming, one)),
        }
    }
    Ok(Reply::xml(&output)?.with_receipt(&page.receipt))
}

fn query(call: &Call, limit: usize) -> Outcome<VersionQuery> {
    let after_version = call.query.text("version-id-marker").map(VersionId);
    let after = call.query.text("key-marker").unwrap_or_default();
    if after_version.is_some() && after.is_empty() {
        return Err(ServiceError::new(
            ErrorKind::InvalidArgument,
            "A version-id marker cannot be specified without a key marker.",
        ));
    }
    Ok(VersionQuery {
        bucket: call.bucket.clone(),
        prefix: call.query.text("prefix").unwrap_or_default(),
        delimiter: call.query.text("delimiter"),
        after,
        after_version,
        limit,
    })
}

fn marker(naming: Naming, one: &VersionSummary) -> dto::DeleteMarkerEntry {
    dto::DeleteMarkerEntry {
        key: Some(naming.write(&one.object.key)),
        is_latest: Some(one.latest),
        last_modified: timestamp(one.object.modified),
        owner: owner(&one.object.owner),
        version_id: Some(one.version.0.clone()),
    }
}

fn version(naming: Naming, one: &VersionSummary) -> dto::ObjectVersion {
    let sum = one.object.checksums.first();
    dto::ObjectVersion {
        key: Some(naming.write(&one.object.key)),
        e_tag: etag(&one.object.etag),
        size: i64::try_from(one.object.size).ok(),
        is_latest: Some(one.latest),
        last_modified: timestamp(one.object.modified),
        owner: owner(&one.object.owner),
        version_id: Some(one.version.0.clone()),
        storage_class: Some(dto::ObjectVersionStorageClass::from_static(
            dto::ObjectVersionStorageClass::STANDARD,
        )),
        checksum_algorithm: sum.map(|sum| vec![algorithm(sum.kind)]),
        checksum_type: sum.map(|sum| shape(sum.shape)),
        restore_status: None,
    }
}
