//! ListMultipartUploads.

use s3s::dto;

use super::Call;
use super::documents::{Naming, count, page_size};
use super::reply::{Reply, owner, timestamp};
use crate::service::{Outcome, Services, UploadEntry, UploadQuery, UploadSummary};

/// One page of the uploads begun and not ended.
pub(super) async fn run(services: &Services, call: Call) -> Outcome<Reply> {
    let naming = Naming::of(&call)?;
    let limit = page_size(&call, "max-uploads")?;
    let after = call.query.text("key-marker").unwrap_or_default();
    // Without a key marker S3 does not look at the upload-id marker.
    let after_upload = call.query.text("upload-id-marker").filter(|_| !after.is_empty());
    let query = UploadQuery {
        bucket: call.bucket.clone(),
        prefix: call.query.text("prefix").unwrap_or_default(),
        delimiter: call.query.text("delimiter"),
        after,
        after_upload,
        limit,
    };
    let page = services.objects.list_uploads(&call.context, query).await?;
    let truncated = page.more && limit > 0;
    let (next_key, next_upload) = match page.entries.last().filter(|_| truncated) {
        None => (None, None),
        Some(UploadEntry::Prefix(prefix)) => (Some(naming.write(prefix)), None),
        Some(UploadEntry::Upload(last)) => (Some(naming.write(&last.key)), Some(last.upload.clone())),
    };
    let (mut uploads, mut prefixes) = (Vec::new(), Vec::new());
    for entry in &page.entries {
        match entry {
            UploadEntry::Prefix(name) => prefixes.push(naming.prefix(name)),
            UploadEntry::Upload(one) => uploads.push(upload(naming, one)),
        }
    }
    Reply::xml(&dto::ListMultipartUploadsOutput {
        prefix: Some(naming.echo(&call, "prefix").unwrap_or_default()),
        key_marker: Some(naming.echo(&call, "key-marker").unwrap_or_default()),
        upload_id_marker: Some(call.query.text("upload-id-marker").unwrap_or_default()),
        delimiter: naming.echo(&call, "delimiter"),
        max_uploads: count(limit),
        is_truncated: Some(truncated),
        next_key_marker: next_key,
        next_upload_id_marker: next_upload,
        encoding_type: naming.element(),
        uploads: Some(uploads),
        common_prefixes: Some(prefixes),
        bucket: Some(call.bucket),
        request_charged: None,
    })
}

fn upload(naming: Naming, one: &UploadSummary) -> dto::MultipartUpload {
    dto::MultipartUpload {
        key: Some(naming.write(&one.key)),
        upload_id: Some(one.upload.clone()),
        initiated: timestamp(one.initiated),
        initiator: Some(dto::Initiator {
            id: Some(one.initiator.clone()),
            display_name: Some(one.initiator.clone()),
        }),
        owner: owner(&one.owner),
        storage_class: Some(dto::StorageClass::from_static(dto::StorageClass::STANDARD)),
        checksum_algorithm: None,
        checksum_type: None,
    }
}
