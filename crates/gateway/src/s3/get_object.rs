//! GetObject.

use hyper::StatusCode;
use hyper::header::HeaderValue;

use super::reply::Reply;
use super::{Call, headers};
use crate::http::body::stream;
use crate::service::{
    ByteRange, ErrorKind, GetObject, ObjectInfo, Outcome, Selection, ServiceError, Services, date,
};

/// Reads an object, a range or a part of it.
pub(super) async fn run(services: &Services, call: Call) -> Outcome<Reply> {
    let read = services.objects.get(&call.context, request(&call)?).await?;
    Ok(reply(&call, &read.info, &read.selection).with_body(stream(read.body)))
}

/// What GET and HEAD ask.
pub(super) fn request(call: &Call) -> Outcome<GetObject> {
    check_overrides(call)?;
    Ok(GetObject {
        bucket: call.bucket.clone(),
        key: call.key.clone(),
        version: call.version()?,
        // As HTTP has it, a range that cannot be read is as if it were not there.
        range: headers::text(&call.headers, "range")?.and_then(|text| ByteRange::parse(&text)),
        part: call.part_number()?,
        conditions: headers::read_conditions(&call.headers, "")?,
        if_range: headers::if_range(&call.headers)?,
    })
}

/// Headers of the answer that the query may say.
const OVERRIDES: [&str; 6] = [
    "response-content-type",
    "response-cache-control",
    "response-content-disposition",
    "response-content-encoding",
    "response-content-language",
    "response-expires",
];

/// Refuses one that no header can be.
fn check_overrides(call: &Call) -> Outcome<()> {
    let is_wrong =
        |name: &&str| call.query.text(name).is_some_and(|text| HeaderValue::from_str(&text).is_err());
    match OVERRIDES.iter().find(|name| is_wrong(name)) {
        None => Ok(()),
        Some(name) => {
            let message = format!("the parameter {name} has characters that no header can have");
            Err(ServiceError::new(ErrorKind::InvalidArgument, message))
        }
    }
}

/// What is asked of what there is to know of an object: no bytes, so no range of them.
pub(super) fn about(call: &Call) -> Outcome<GetObject> {
    Ok(GetObject { range: None, part: None, if_range: None, ..request(call)? })
}

/// What GET and HEAD answer, apart from the bytes.
pub(super) fn reply(call: &Call, info: &ObjectInfo, selection: &Selection) -> Reply {
    let status = if selection.partial { StatusCode::PARTIAL_CONTENT } else { StatusCode::OK };
    let kept = &info.headers;
    let overridden = |name: &str, value: &Option<String>| call.query.text(name).or_else(|| value.clone());
    let content_type = overridden("response-content-type", &kept.content_type);
    let summed = call.headers.contains_key("x-amz-checksum-mode") && selection.bytes == (0..info.size);
    Reply::empty(status)
        .with("accept-ranges", "bytes")
        .with("content-length", selection.length().to_string())
        .with_some("content-range", selection.content_range())
        .with("content-type", content_type.unwrap_or_else(|| "binary/octet-stream".into()))
        .with_some("cache-control", overridden("response-cache-control", &kept.cache_control))
        .with_some(
            "content-disposition",
            overridden("response-content-disposition", &kept.content_disposition),
        )
        .with_some("content-encoding", overridden("response-content-encoding", &kept.content_encoding))
        .with_some("content-language", overridden("response-content-language", &kept.content_language))
        .with_some("expires", overridden("response-expires", &kept.expires))
        .with("last-modified", date::http(info.modified))
        .with_some("x-amz-mp-parts-count", selection.parts.map(|count| count.to_string()))
        .with_etag(&info.etag)
        .with_version(info.version.as_ref())
        .with_checksums(if summed { &info.checksums } else { &[] })
        .with_metadata(&info.user_metadata)
        .with_receipt(&info.receipt)
}
