//! ListObjectsV2.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use s3s::dto;

use super::documents::{Naming, count, page_size};
use super::list_objects::{query, split};
use super::reply::Reply;
use super::{Call, headers};
use crate::service::{ErrorKind, ListQuery, Outcome, ServiceError, Services};

/// One page of current objects, after a continuation token or a key.
pub(super) async fn run(services: &Services, call: Call) -> Outcome<Reply> {
    if call.query.get("list-type") != Some("2") {
        return Err(ServiceError::new(ErrorKind::InvalidArgument, "the only list-type is 2"));
    }
    headers::check_optional(&call.headers)?;
    let naming = Naming::of(&call)?;
    let limit = page_size(&call, "max-keys")?;
    let mut asked: ListQuery = query(&call, "start-after", limit);
    let token = call.query.get("continuation-token");
    if let Some(token) = token {
        asked.after = read_token(token)?;
    }
    let page = services.objects.list(&call.context, asked).await?;
    let truncated = page.more && limit > 0;
    let next = page.entries.last().filter(|_| truncated).map(|entry| URL_SAFE_NO_PAD.encode(entry.name()));
    let (contents, common_prefixes) = split(naming, &page, call.query.get("fetch-owner") == Some("true"));
    let reply = Reply::xml(&dto::ListObjectsV2Output {
        prefix: Some(naming.echo(&call, "prefix").unwrap_or_default()),
        delimiter: naming.echo(&call, "delimiter"),
        start_after: naming.echo(&call, "start-after"),
        max_keys: count(limit),
        key_count: count(page.entries.len()),
        is_truncated: Some(truncated),
        contents: Some(contents),
        common_prefixes: Some(common_prefixes),
        continuation_token: token.map(Into::into),
        next_continuation_token: next,
        encoding_type: naming.element(),
        request_charged: None,
        name: Some(call.bucket),
    })?;
    Ok(reply.with_receipt(&page.receipt))
}

/// A token is the name of the last entry, not to be read by clients.
fn read_token(token: &str) -> Outcome<String> {
    let bytes = URL_SAFE_NO_PAD.decode(token).ok().filter(|bytes| !bytes.is_empty());
    bytes.and_then(|bytes| String::from_utf8(bytes).ok()).ok_or_else(|| {
        ServiceError::new(ErrorKind::InvalidArgument, "The continuation token provided is incorrect")
    })
}
