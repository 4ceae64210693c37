//! UploadPartCopy.

use s3s::dto;

use super::reply::{Reply, etag, timestamp, value_of};
use super::{Call, headers};
use crate::service::{ByteRange, ChecksumKind, CopyPart, Outcome, Services};

/// Stores a part from an object.
pub(super) async fn run(services: &Services, call: Call) -> Outcome<Reply> {
    let request = CopyPart {
        target: call.upload_target(),
        number: call.required_part()?,
        source: headers::source(&call.headers)?,
        range: range(&call)?,
    };
    let outcome = services.objects.copy_part(&call.context, request).await?;
    let result = dto::CopyPartResult {
        e_tag: etag(&outcome.etag),
        last_modified: timestamp(outcome.modified),
        checksum_crc32: value_of(&outcome.checksums, ChecksumKind::Crc32),
        checksum_crc32c: value_of(&outcome.checksums, ChecksumKind::Crc32c),
        checksum_crc64nvme: value_of(&outcome.checksums, ChecksumKind::Crc64Nvme),
        checksum_sha1: value_of(&outcome.checksums, ChecksumKind::Sha1),
        checksum_sha256: value_of(&outcome.checksums, ChecksumKind::Sha256),
    };
    let source = outcome.source_version.map(|version| version.0);
    Ok(Reply::xml(&result)?.with_some("x-amz-copy-source-version-id", source))
}

/// First and last byte; nothing else is a range here.
fn range(call: &Call) -> Outcome<Option<(u64, u64)>> {
    const NAME: &str = "x-amz-copy-source-range";
    let Some(text) = headers::text(&call.headers, NAME)? else { return Ok(None) };
    match ByteRange::parse(&text) {
        Some(ByteRange::Between { first, last }) => Ok(Some((first, last))),
        _ => Err(headers::argument(NAME, "must be bytes=first-last")),
    }
}
