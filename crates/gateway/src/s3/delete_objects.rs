//! DeleteObjects.

use s3s::dto;
use skerry_base::limits;

use super::address::check_key;
use super::reply::{Reply, read_xml};
use super::{Call, documents, version_id};
use crate::service::{
    DeleteOutcome, DeleteTarget, ErrorKind, EtagTest, Outcome, ServiceError, Services, WriteCondition,
};

/// The elements that we carry out.
const ELEMENTS: &[&str] = &["Delete", "Object", "Key", "VersionId", "ETag", "Quiet"];

/// Deletes up to 1000 keys or versions; each has its own answer.
pub(super) async fn run(services: &Services, call: Call) -> Outcome<Reply> {
    documents::check_elements(&call.document, ELEMENTS)?;
    let asked: dto::Delete = read_xml(&call.document)?;
    let targets = asked.objects.into_iter().map(target).collect::<Outcome<Vec<DeleteTarget>>>()?;
    let valid = |target: &DeleteTarget| !target.key.is_empty() && check_key(&target.key).is_ok();
    if targets.len() > limits::DELETE_KEYS || !targets.iter().all(valid) {
        return Err(ServiceError::new(
            ErrorKind::MalformedXml,
            "The XML you provided did not validate: 1 to 1000 objects, each with a key of 1 to 1024 bytes",
        ));
    }
    let outcomes = services.objects.delete_many(&call.context, &call.bucket, targets.clone()).await?;
    let quiet = asked.quiet.unwrap_or(false);
    let mut output = dto::DeleteObjectsOutput::default();
    let mut receipt = None;
    for (target, outcome) in targets.into_iter().zip(outcomes) {
        match outcome {
            Ok(outcome) => {
                // That of the whole request, as all of them say.
                receipt = Some(outcome.receipt.clone());
                if !quiet {
                    output.deleted.get_or_insert_default().push(deleted(target, outcome));
                }
            }
            Err(error) => output.errors.get_or_insert_default().push(refused(target, &error)),
        }
    }
    Ok(Reply::xml(&output)?.with_receipt(&receipt.unwrap_or_default()))
}

fn target(object: dto::ObjectIdentifier) -> Outcome<DeleteTarget> {
    let etag = object.e_tag.map(|etag| EtagTest::parse(etag.value()));
    if matches!(&etag, Some(EtagTest::OneOf(etags)) if etags.iter().all(String::is_empty)) {
        let message =
            format!("the ETag of {:?} names no ETag: leave it out, or say the one that is to go", object.key);
        return Err(ServiceError::new(ErrorKind::InvalidArgument, message));
    }
    Ok(DeleteTarget {
        key: object.key,
        version: object.version_id.as_deref().map(version_id).transpose()?,
        condition: WriteCondition { absent: false, matches: etag },
    })
}

fn deleted(target: DeleteTarget, outcome: DeleteOutcome) -> dto::DeletedObject {
    let version = outcome.version.filter(|_| outcome.delete_marker).map(|version| version.0);
    dto::DeletedObject {
        key: Some(target.key),
        version_id: target.version.map(|version| version.0),
        delete_marker: outcome.delete_marker.then_some(true),
        delete_marker_version_id: version,
    }
}

fn refused(target: DeleteTarget, error: &ServiceError) -> dto::Error {
    dto::Error {
        code: Some(error.kind().code().into()),
        message: Some(error.message().into()),
        key: Some(target.key),
        version_id: target.version.map(|version| version.0),
    }
}
