//! ListObjects, the first version.

use s3s::dto;

use super::documents::{Naming, count, page_size};
use super::reply::Reply;
use super::{Call, headers};
use crate::service::{ListEntry, ListPage, ListQuery, Outcome, Services};

/// One page of current objects, after a marker.
pub(super) async fn run(services: &Services, call: Call) -> Outcome<Reply> {
    headers::check_optional(&call.headers)?;
    let naming = Naming::of(&call)?;
    let limit = page_size(&call, "max-keys")?;
    let page = services.objects.list(&call.context, query(&call, "marker", limit)).await?;
    let truncated = page.more && limit > 0;
    let delimited = call.query.text("delimiter").is_some();
    let last = page.entries.last().map(|entry| naming.write(entry.name()));
    let (contents, common_prefixes) = split(naming, &page, true);
    let reply = Reply::xml(&dto::ListObjectsOutput {
        prefix: Some(naming.echo(&call, "prefix").unwrap_or_default()),
        marker: Some(naming.echo(&call, "marker").unwrap_or_default()),
        delimiter: naming.echo(&call, "delimiter"),
        max_keys: count(limit),
        is_truncated: Some(truncated),
        contents: Some(contents),
        common_prefixes: Some(common_prefixes),
        next_marker: last.filter(|_| truncated && delimited),
        encoding_type: naming.element(),
        request_charged: None,
        name: Some(call.bucket),
    })?;
    Ok(reply.with_receipt(&page.receipt))
}

/// The query of either version; `marker` is the parameter that says where to go on.
pub(super) fn query(call: &Call, marker: &str, limit: usize) -> ListQuery {
    ListQuery {
        bucket: call.bucket.clone(),
        prefix: call.query.text("prefix").unwrap_or_default(),
        delimiter: call.query.text("delimiter"),
        after: call.query.text(marker).unwrap_or_default(),
        limit,
    }
}

/// Objects and common prefixes of a page.
pub(super) fn split(
    naming: Naming,
    page: &ListPage,
    owners: bool,
) -> (Vec<dto::Object>, Vec<dto::CommonPrefix>) {
    let (mut objects, mut prefixes) = (Vec::new(), Vec::new());
    for entry in &page.entries {
        match entry {
            ListEntry::Object(object) => objects.push(naming.object(object, owners)),
            ListEntry::Prefix(prefix) => prefixes.push(naming.prefix(prefix)),
        }
    }
    (objects, prefixes)
}
