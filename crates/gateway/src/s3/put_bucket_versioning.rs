//! PutBucketVersioning.

use hyper::StatusCode;
use s3s::dto;

use super::reply::{Reply, read_xml};
use super::{Call, documents};
use crate::service::{ErrorKind, Outcome, ServiceError, Services, Versioning};

/// Switches versioning on, or off again.
pub(super) async fn run(services: &Services, call: Call) -> Outcome<Reply> {
    documents::check_elements(&call.document, &["VersioningConfiguration", "Status", "MfaDelete"])?;
    let asked: dto::VersioningConfiguration = read_xml(&call.document)?;
    if asked.mfa_delete.is_some_and(|mfa| mfa.as_str() != dto::MFADelete::DISABLED) {
        return Err(ServiceError::not_implemented("MFA delete"));
    }
    let versioning = match asked.status.as_ref().map(dto::BucketVersioningStatus::as_str) {
        Some(dto::BucketVersioningStatus::ENABLED) => Versioning::Enabled,
        Some(dto::BucketVersioningStatus::SUSPENDED) => Versioning::Suspended,
        _ => {
            return Err(ServiceError::new(
                ErrorKind::MalformedXml,
                "the status of a versioning configuration is Enabled or Suspended",
            ));
        }
    };
    let receipt = services.buckets.set_versioning(&call.context, &call.bucket, versioning).await?;
    Ok(Reply::empty(StatusCode::OK).with_receipt(&receipt))
}
