//! CopyObject.

use s3s::dto;

use super::documents::shape;
use super::reply::{Reply, etag, timestamp, value_of};
use super::{Call, headers};
use crate::service::{
    ChecksumKind, CopyObject, ErrorKind, MetadataDirective, Outcome, ServiceError, Services, Source,
};

/// Copies an object with its metadata, or with others.
pub(super) async fn run(services: &Services, call: Call) -> Outcome<Reply> {
    headers::check_new(&call.headers)?;
    check_tagging(&call)?;
    let source = headers::source(&call.headers)?;
    let metadata = metadata(&call)?;
    check_self(&call, &source, &metadata)?;
    let request = CopyObject {
        source,
        metadata,
        checksum: headers::algorithm(&call.headers, "x-amz-checksum-algorithm")?,
        condition: headers::write_condition(&call.headers)?,
        bucket: call.bucket,
        key: call.key,
    };
    let outcome = services.objects.copy(&call.context, request).await?;
    let sums = &outcome.put.checksums;
    let result = dto::CopyObjectResult {
        e_tag: etag(&outcome.put.etag),
        last_modified: timestamp(outcome.modified),
        checksum_crc32: value_of(sums, ChecksumKind::Crc32),
        checksum_crc32c: value_of(sums, ChecksumKind::Crc32c),
        checksum_crc64nvme: value_of(sums, ChecksumKind::Crc64Nvme),
        checksum_sha1: value_of(sums, ChecksumKind::Sha1),
        checksum_sha256: value_of(sums, ChecksumKind::Sha256),
        checksum_type: sums.first().map(|sum| shape(sum.shape)),
    };
    Ok(Reply::xml(&result)?
        .with_version(outcome.put.version.as_ref())
        .with_some("x-amz-copy-source-version-id", outcome.source_version.map(|version| version.0))
        .with_receipt(&outcome.put.receipt))
}

/// Without tags, copying them and replacing them by none is the same.
fn check_tagging(call: &Call) -> Outcome<()> {
    match headers::text(&call.headers, "x-amz-tagging-directive")?.as_deref() {
        None | Some("COPY" | "REPLACE") => Ok(()),
        Some(_) => Err(headers::argument("x-amz-tagging-directive", "is neither COPY nor REPLACE")),
    }
}

fn metadata(call: &Call) -> Outcome<MetadataDirective> {
    match headers::text(&call.headers, "x-amz-metadata-directive")?.as_deref() {
        None | Some("COPY") => Ok(MetadataDirective::Copy),
        Some("REPLACE") => Ok(MetadataDirective::Replace {
            headers: headers::object_headers(&call.headers)?,
            user_metadata: headers::user_metadata(&call.headers)?,
        }),
        Some(_) => Err(headers::argument("x-amz-metadata-directive", "is neither COPY nor REPLACE")),
    }
}

fn check_self(call: &Call, source: &Source, metadata: &MetadataDirective) -> Outcome<()> {
    let same = source.bucket == call.bucket && source.key == call.key && source.version.is_none();
    // What is said of it anew changes it, be it to what it was.
    let is_said = ["x-amz-storage-class", "x-amz-checksum-algorithm"]
        .iter()
        .any(|name| call.headers.contains_key(*name));
    if same && *metadata == MetadataDirective::Copy && !is_said {
        return Err(ServiceError::new(
            ErrorKind::InvalidRequest,
            "This copy request is illegal because it is trying to copy an object to itself without changing \
             the object's metadata, storage class or checksum.",
        ));
    }
    Ok(())
}
