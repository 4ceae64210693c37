//! CompleteMultipartUpload.

use s3s::dto;
use skerry_base::limits;

use super::documents::shape;
use super::put_object::with_outcome;
use super::reply::{Reply, etag, read_xml, value_of};
use super::{Call, documents, headers};
use crate::service::{
    ChecksumKind, CompleteUpload, CompletedPart, ErrorKind, Outcome, ServiceError, Services,
};

/// The elements that we carry out.
const ELEMENTS: &[&str] = &[
    "CompleteMultipartUpload",
    "Part",
    "PartNumber",
    "ETag",
    "ChecksumCRC32",
    "ChecksumCRC32C",
    "ChecksumCRC64NVME",
    "ChecksumSHA1",
    "ChecksumSHA256",
];

/// Makes the object of its parts.
pub(super) async fn run(services: &Services, call: Call) -> Outcome<Reply> {
    let request = CompleteUpload {
        target: call.upload_target(),
        parts: parts(&call.document)?,
        checksum: headers::checksum_value(&call.headers)?,
        shape: headers::shape(&call.headers)?,
        size: headers::object_size(&call.headers)?,
        condition: headers::write_condition(&call.headers)?,
    };
    let outcome = services.objects.complete_upload(&call.context, request).await?;
    let sums = &outcome.checksums;
    let reply = Reply::echo(&dto::CompleteMultipartUploadOutput {
        bucket: Some(call.bucket),
        key: Some(call.key),
        location: Some(call.location),
        e_tag: etag(&outcome.etag),
        checksum_crc32: value_of(sums, ChecksumKind::Crc32),
        checksum_crc32c: value_of(sums, ChecksumKind::Crc32c),
        checksum_crc64nvme: value_of(sums, ChecksumKind::Crc64Nvme),
        checksum_sha1: value_of(sums, ChecksumKind::Sha1),
        checksum_sha256: value_of(sums, ChecksumKind::Sha256),
        checksum_type: sums.first().map(|sum| shape(sum.shape)),
        ..dto::CompleteMultipartUploadOutput::default()
    })?;
    Ok(with_outcome(reply, &outcome))
}

fn parts(document: &[u8]) -> Outcome<Vec<CompletedPart>> {
    documents::check_elements(document, ELEMENTS)?;
    let asked: dto::CompletedMultipartUpload = read_xml(document)?;
    let parts = asked.parts.unwrap_or_default();
    if parts.is_empty() || parts.len() > limits::PARTS as usize {
        return Err(malformed());
    }
    parts.into_iter().map(part).collect()
}

fn part(part: dto::CompletedPart) -> Outcome<CompletedPart> {
    let number = part.part_number.and_then(|number| u32::try_from(number).ok());
    let number = number.filter(|number| (1..=limits::PARTS).contains(number)).ok_or_else(malformed)?;
    let etag = part.e_tag.ok_or_else(malformed)?.value().to_owned();
    let sums = [
        (ChecksumKind::Crc32, part.checksum_crc32),
        (ChecksumKind::Crc32c, part.checksum_crc32c),
        (ChecksumKind::Crc64Nvme, part.checksum_crc64nvme),
        (ChecksumKind::Sha1, part.checksum_sha1),
        (ChecksumKind::Sha256, part.checksum_sha256),
    ];
    // Older releases of minio-go write an element of each kind, and nothing into those that they have not.
    let said = |value: &String| !value.is_empty();
    let checksums = sums.into_iter().filter_map(|(kind, value)| Some((kind, value.filter(said)?))).collect();
    Ok(CompletedPart { number, etag, checksums })
}

fn malformed() -> ServiceError {
    ServiceError::new(
        ErrorKind::MalformedXml,
        "The XML you provided did not validate: 1 to 10000 parts, each with a number and an ETag",
    )
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn an_empty_checksum_is_none() {
        let document = "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>e</ETag>\
                        <ChecksumCRC32></ChecksumCRC32><ChecksumCRC32C>yZRlqg==</ChecksumCRC32C><ChecksumSHA1/>\
                        </Part></CompleteMultipartUpload>";
        let parts = parts(document.as_bytes()).unwrap();
        assert_eq!(parts[0].checksums, [(ChecksumKind::Crc32c, "yZRlqg==".to_owned())]);
    }
}
