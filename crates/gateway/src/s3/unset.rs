//! Settings that no bucket and no object has here: answered as S3 answers for one that has none.
//!
//! Why carried out though nothing of it can be set: Terraform, Ansible, consoles and backup programs read all settings of a
//! bucket before they do anything, and "none" is the truth. Setting them is 501, but for what changes nothing: the ACL
//! `private`, and taking away what is not there.
//!
//! Invariant: nothing is answered about a bucket or an object that is not there, or is not the caller's.

use hyper::StatusCode;
use s3s::dto::{self, GetBucketAccelerateConfigurationOutput, GetBucketNotificationConfigurationOutput};
use s3s::xml;

use super::get_object::about;
use super::operation::Operation;
use super::reply::{Reply, owner};
use super::{Call, headers};
use crate::service::{ErrorKind, Outcome, ServiceError, Services};

/// Answers one of the operations that are here.
pub(super) async fn run(operation: Operation, services: &Services, call: Call) -> Outcome<Reply> {
    match operation {
        Operation::GetBucketAcl => bucket_acl(services, call).await,
        Operation::GetObjectAcl => object_acl(services, call).await,
        Operation::PutBucketAcl => put_bucket_acl(services, call).await,
        Operation::PutObjectAcl => put_object_acl(services, call).await,
        Operation::DeleteObjectTagging => untagged(services, call).await,
        Operation::GetBucketAccelerateConfiguration => {
            plain(services, call, GetBucketAccelerateConfigurationOutput::default()).await
        }
        Operation::GetBucketLogging => plain(services, call, dto::GetBucketLoggingOutput::default()).await,
        Operation::GetBucketNotificationConfiguration => {
            plain(services, call, GetBucketNotificationConfigurationOutput::default()).await
        }
        Operation::GetBucketRequestPayment => plain(services, call, payer()).await,
        other => missing_or_taken(other, services, call).await,
    }
}

/// What is not set is missing where it is read, and gone where it is deleted.
async fn missing_or_taken(operation: Operation, services: &Services, call: Call) -> Outcome<Reply> {
    let missing = match operation {
        Operation::GetBucketCors => Some(ErrorKind::NoSuchCors),
        Operation::GetBucketEncryption => Some(ErrorKind::NoSuchEncryption),
        Operation::GetBucketLifecycleConfiguration => Some(ErrorKind::NoSuchLifecycle),
        Operation::GetBucketOwnershipControls => Some(ErrorKind::NoSuchOwnershipControls),
        Operation::GetBucketPolicy | Operation::GetBucketPolicyStatus => Some(ErrorKind::NoSuchBucketPolicy),
        Operation::GetBucketReplication => Some(ErrorKind::NoSuchReplication),
        Operation::GetBucketTagging => Some(ErrorKind::NoSuchTagSet),
        Operation::GetBucketWebsite => Some(ErrorKind::NoSuchWebsite),
        Operation::GetObjectLockConfiguration => Some(ErrorKind::NoSuchObjectLock),
        Operation::GetPublicAccessBlock => Some(ErrorKind::NoSuchPublicAccessBlock),
        Operation::DeleteBucketCors
        | Operation::DeleteBucketEncryption
        | Operation::DeleteBucketLifecycle
        | Operation::DeleteBucketOwnershipControls
        | Operation::DeleteBucketPolicy
        | Operation::DeleteBucketReplication
        | Operation::DeleteBucketTagging
        | Operation::DeleteBucketWebsite
        | Operation::DeletePublicAccessBlock => None,
        other => {
            let message = format!("nobody carries out {}", other.name());
            return Err(ServiceError::new(ErrorKind::Internal, message));
        }
    };
    services.buckets.head(&call.context, &call.bucket).await?;
    match missing {
        None => Ok(Reply::empty(StatusCode::NO_CONTENT)),
        Some(kind) => Err(ServiceError::new(
            kind,
            "The bucket has no such configuration: no bucket of this server has, and none can be given one",
        )),
    }
}

/// A document that says that nothing is set.
async fn plain(services: &Services, call: Call, document: impl xml::Serialize) -> Outcome<Reply> {
    services.buckets.head(&call.context, &call.bucket).await?;
    Reply::xml(&document)
}

/// Takes away from an object the tags that it does not have.
async fn untagged(services: &Services, call: Call) -> Outcome<Reply> {
    let head = services.objects.head(&call.context, about(&call)?).await?;
    Ok(Reply::empty(StatusCode::NO_CONTENT).with_version(head.info.version.as_ref()))
}

/// The ACL that every bucket has.
async fn bucket_acl(services: &Services, call: Call) -> Outcome<Reply> {
    services.buckets.head(&call.context, &call.bucket).await?;
    private(&call)
}

/// The ACL that every object has: who owns the bucket owns it.
async fn object_acl(services: &Services, call: Call) -> Outcome<Reply> {
    let head = services.objects.head(&call.context, about(&call)?).await?;
    Ok(private(&call)?.with_version(head.info.version.as_ref()))
}

/// Makes private what is.
async fn put_bucket_acl(services: &Services, call: Call) -> Outcome<Reply> {
    check_private(&call)?;
    services.buckets.head(&call.context, &call.bucket).await?;
    Ok(Reply::empty(StatusCode::OK))
}

/// Makes private what is.
async fn put_object_acl(services: &Services, call: Call) -> Outcome<Reply> {
    check_private(&call)?;
    let head = services.objects.head(&call.context, about(&call)?).await?;
    Ok(Reply::empty(StatusCode::OK).with_version(head.info.version.as_ref()))
}

fn check_private(call: &Call) -> Outcome<()> {
    headers::check_acl(&call.headers)?;
    match call.headers.contains_key("x-amz-acl") && call.document.is_empty() {
        true => Ok(()),
        false => Err(ServiceError::not_implemented("access control lists, but for x-amz-acl: private,")),
    }
}

/// Whoever may ask is the owner: nobody else is let near a bucket.
fn private(call: &Call) -> Outcome<Reply> {
    let name = &call.context.principal.owner;
    let grantee = dto::Grantee {
        display_name: Some(name.clone()),
        email_address: None,
        id: Some(name.clone()),
        type_: dto::Type::from_static(dto::Type::CANONICAL_USER),
        uri: None,
    };
    let full = dto::Permission::from_static(dto::Permission::FULL_CONTROL);
    let grant = dto::Grant { grantee: Some(grantee), permission: Some(full) };
    Reply::xml(&dto::GetBucketAclOutput { grants: Some(vec![grant]), owner: owner(name) })
}

/// Whoever owns the bucket pays.
fn payer() -> dto::GetBucketRequestPaymentOutput {
    let payer = Some(dto::Payer::from_static(dto::Payer::BUCKET_OWNER));
    dto::GetBucketRequestPaymentOutput { payer }
}
