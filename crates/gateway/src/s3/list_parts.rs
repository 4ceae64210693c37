//! ListParts.

use s3s::dto;

use super::Call;
use super::documents::{algorithm, count, page_size, shape};
use super::reply::{Reply, etag, owner, timestamp, value_of};
use crate::service::{ChecksumKind, ErrorKind, ListParts, Outcome, PartSummary, ServiceError, Services};

/// One page of an upload's parts.
pub(super) async fn run(services: &Services, call: Call) -> Outcome<Reply> {
    let limit = page_size(&call, "max-parts")?;
    let after = call.query.text("part-number-marker").map_or(Ok(0), |text| text.parse::<u32>());
    let Some(after) = after.ok().filter(|number| i32::try_from(*number).is_ok()) else {
        return Err(ServiceError::new(ErrorKind::InvalidArgument, "part-number-marker must be a number"));
    };
    let target = call.upload_target();
    let page = services.objects.list_parts(&call.context, ListParts { target, after, limit }).await?;
    let truncated = page.more && limit > 0;
    let last = page.parts.last().and_then(|part| i32::try_from(part.number).ok());
    Reply::echo(&dto::ListPartsOutput {
        upload_id: call.query.text("uploadId"),
        part_number_marker: i32::try_from(after).ok(),
        next_part_number_marker: last.filter(|_| truncated),
        max_parts: count(limit),
        is_truncated: Some(truncated),
        parts: Some(page.parts.iter().map(part).collect()),
        initiator: Some(dto::Initiator {
            id: Some(page.initiator.clone()),
            display_name: Some(page.initiator.clone()),
        }),
        owner: owner(&page.owner),
        storage_class: Some(dto::StorageClass::from_static(dto::StorageClass::STANDARD)),
        checksum_algorithm: page.checksum.map(|(kind, _)| algorithm(kind)),
        checksum_type: page.checksum.map(|(_, kind)| shape(kind)),
        bucket: Some(call.bucket),
        key: Some(call.key),
        ..dto::ListPartsOutput::default()
    })
}

fn part(one: &PartSummary) -> dto::Part {
    dto::Part {
        part_number: i32::try_from(one.number).ok(),
        e_tag: etag(&one.etag),
        size: i64::try_from(one.size).ok(),
        last_modified: timestamp(one.modified),
        checksum_crc32: value_of(&one.checksums, ChecksumKind::Crc32),
        checksum_crc32c: value_of(&one.checksums, ChecksumKind::Crc32c),
        checksum_crc64nvme: value_of(&one.checksums, ChecksumKind::Crc64Nvme),
        checksum_sha1: value_of(&one.checksums, ChecksumKind::Sha1),
        checksum_sha256: value_of(&one.checksums, ChecksumKind::Sha256),
    }
}
