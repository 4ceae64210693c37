//! CreateMultipartUpload.

use s3s::dto;

use super::reply::Reply;
use super::{Call, headers};
use crate::service::{ChecksumKind, ChecksumShape, CreateUpload, ErrorKind, Outcome, ServiceError, Services};

/// Begins an upload.
pub(super) async fn run(services: &Services, call: Call) -> Outcome<Reply> {
    headers::check_new(&call.headers)?;
    let named = headers::algorithm(&call.headers, "x-amz-checksum-algorithm")?;
    let (checksum, shape) = checksum(named, headers::shape(&call.headers)?)?;
    let request = CreateUpload {
        bucket: call.bucket.clone(),
        key: call.key.clone(),
        headers: headers::object_headers(&call.headers)?,
        user_metadata: headers::user_metadata(&call.headers)?,
        checksum,
        shape,
        declared: named.is_some(),
    };
    let created = services.objects.create_upload(&call.context, request).await?;
    let reply = Reply::echo(&dto::CreateMultipartUploadOutput {
        bucket: Some(call.bucket),
        key: Some(call.key),
        upload_id: Some(created.upload),
        ..dto::CreateMultipartUploadOutput::default()
    })?;
    Ok(reply
        .with_some("x-amz-checksum-algorithm", named.map(ChecksumKind::name))
        .with_some("x-amz-checksum-type", named.map(|_| shape.name())))
}

/// Which checksum, in which shape: CRC64NVME over the whole by default, others over the parts.
fn checksum(
    named: Option<ChecksumKind>,
    shape: Option<ChecksumShape>,
) -> Outcome<(ChecksumKind, ChecksumShape)> {
    let kind = named.unwrap_or(ChecksumKind::Crc64Nvme);
    let usual = if kind == ChecksumKind::Crc64Nvme { ChecksumShape::Full } else { ChecksumShape::Composite };
    let shape = shape.unwrap_or(usual);
    if !kind.allows(shape) {
        return Err(ServiceError::new(
            ErrorKind::InvalidRequest,
            format!("the checksum {} cannot be of the type {}", kind.name(), shape.name()),
        ));
    }
    Ok((kind, shape))
}
