//! CreateBucket.

use hyper::StatusCode;
use s3s::dto;

use super::reply::{Reply, read_xml};
use super::{Call, documents, headers};
use crate::service::{CreateBucket, ErrorKind, Outcome, ServiceError, Services};

/// Bytes of a location.
const LOCATION_BYTES: usize = 64;

/// Creates a bucket; the only configuration taken is its location.
pub(super) async fn run(services: &Services, call: Call) -> Outcome<Reply> {
    headers::check_acl(&call.headers)?;
    match headers::text(&call.headers, "x-amz-bucket-object-lock-enabled")?.as_deref() {
        None | Some("false" | "False") => {}
        Some(_) => return Err(ServiceError::not_implemented("object lock")),
    }
    match headers::text(&call.headers, "x-amz-object-ownership")?.as_deref() {
        // As everything is here: who owns the bucket owns what is in it, and there are no ACLs.
        None | Some("BucketOwnerEnforced") => {}
        Some(owner) => return Err(ServiceError::not_implemented(&format!("the object ownership {owner}"))),
    }
    let location = if call.document.is_empty() { None } else { location(&call.document)? };
    let request = CreateBucket { name: call.bucket, location };
    let created = services.buckets.create(&call.context, request).await?;
    let reply = Reply::empty(StatusCode::OK).with("location", format!("/{}", created.name));
    Ok(reply.with_receipt(&created.receipt))
}

fn location(document: &[u8]) -> Outcome<Option<String>> {
    documents::check_elements(document, &["CreateBucketConfiguration", "LocationConstraint"])?;
    let configuration: dto::CreateBucketConfiguration = read_xml(document)?;
    let constraint = configuration.location_constraint.map(|constraint| constraint.as_str().to_owned());
    let constraint = constraint.filter(|name| !name.is_empty());
    match constraint.as_deref().is_none_or(is_location) {
        true => Ok(constraint),
        false => Err(ServiceError::new(
            ErrorKind::InvalidLocationConstraint,
            "The specified location-constraint is not valid: letters, digits and -_.:, 64 of them at most",
        )),
    }
}

/// Whether it can be the name of a region: it is kept with the bucket at every site, and comes back in a header.
fn is_location(name: &str) -> bool {
    name.len() <= LOCATION_BYTES
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte))
}
