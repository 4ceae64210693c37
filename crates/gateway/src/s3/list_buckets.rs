//! ListBuckets.

use s3s::dto;

use super::Call;
use super::reply::{Reply, owner, timestamp};
use crate::service::{BucketInfo, ErrorKind, Outcome, ServiceError, Services};

/// Buckets of a page at most.
const MOST: usize = 10_000;

/// How many buckets are asked for.
fn page_size(call: &Call) -> Outcome<usize> {
    let asked = call.query.text("max-buckets").and_then(|text| text.parse().ok());
    asked.filter(|asked| (1..=MOST).contains(asked)).ok_or_else(|| {
        let message = format!("the parameter max-buckets must be a number between 1 and {MOST}");
        ServiceError::new(ErrorKind::InvalidArgument, message)
    })
}

/// Pages through the caller's buckets by name.
pub(super) async fn run(services: &Services, call: Call) -> Outcome<Reply> {
    let limit = match call.query.has("max-buckets") {
        true => page_size(&call)?,
        false => usize::MAX,
    };
    let prefix = call.query.text("prefix").unwrap_or_default();
    let after = call.query.text("continuation-token").unwrap_or_default();
    let all = services.buckets.list(&call.context).await?;
    let wanted = call.query.text("bucket-region");
    let is_there = |one: &BucketInfo| {
        wanted.as_ref().is_none_or(|wanted| *wanted == call.region_of(one.location.clone()))
    };
    let is_asked = |one: &BucketInfo| one.name.starts_with(&prefix) && one.name > after && is_there(one);
    let mut left = all.into_iter().filter(is_asked);
    let page: Vec<_> = left.by_ref().take(limit).collect();
    let next = page.last().filter(|_| left.next().is_some()).map(|last| last.name.clone());
    let buckets = page.into_iter().map(|bucket| dto::Bucket {
        name: Some(bucket.name),
        creation_date: timestamp(bucket.created),
        bucket_region: Some(call.region_of(bucket.location)),
    });
    Reply::xml(&dto::ListBucketsOutput {
        buckets: Some(buckets.collect()),
        owner: owner(&call.context.principal.owner),
        continuation_token: next,
        prefix: call.query.text("prefix"),
    })
}
