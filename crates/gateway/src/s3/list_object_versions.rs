//! ListObjectVersions.
//!
//! Versions and delete markers stand in one order, by key and newest first, as S3 writes them: clients that put things back as they
//! were (`mc undo`) read what belongs together by what stands together. So the document is written here: s3s has a list of each.

use s3s::{dto, xml};

use super::documents::{Naming, algorithm, count, page_size, shape};
use super::reply::{Reply, etag, owner, timestamp};
use super::{Call, headers};
use crate::service::{
    ErrorKind, Outcome, ServiceError, Services, VersionEntry, VersionId, VersionQuery, VersionSummary,
};

/// One page of versions and delete markers.
pub(super) async fn run(services: &Services, call: Call) -> Outcome<Reply> {
    headers::check_optional(&call.headers)?;
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
    let head = dto::ListObjectVersionsOutput {
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
    let document = Document { head, naming, entries: &page.entries };
    Ok(Reply::xml(&document)?.with_receipt(&page.receipt))
}

/// A page as it is written.
struct Document<'a> {
    /// All but the entries.
    head: dto::ListObjectVersionsOutput,
    naming: Naming,
    entries: &'a [VersionEntry],
}

impl xml::Serialize for Document<'_> {
    fn serialize<W: std::io::Write>(&self, out: &mut xml::Serializer<W>) -> xml::SerResult {
        out.content_with_ns("ListVersionsResult", "http://s3.amazonaws.com/doc/2006-03-01/", self)
    }
}

impl xml::SerializeContent for Document<'_> {
    fn serialize_content<W: std::io::Write>(&self, out: &mut xml::Serializer<W>) -> xml::SerResult {
        self.head.serialize_content(out)?;
        for entry in self.entries {
            match entry {
                VersionEntry::Version(one) if one.delete_marker => {
                    out.content("DeleteMarker", &marker(self.naming, one))?;
                }
                VersionEntry::Version(one) => out.content("Version", &version(self.naming, one))?,
                VersionEntry::Prefix(_) => {}
            }
        }
        for entry in self.entries {
            if let VersionEntry::Prefix(name) = entry {
                out.content("CommonPrefixes", &self.naming.prefix(name))?;
            }
        }
        Ok(())
    }
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
