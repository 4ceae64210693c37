//! CopyObject.

use super::suite::{Checked, Place, Suite, expect, holds, refused, same};
use crate::s3::uri::encode;

fn copy(place: &Place<'_>, to: &str, from: &str) -> super::client::Ask {
    place.ask("PUT", to, "").header("x-amz-copy-source", place.target(from))
}

/// Bytes, type and metadata come along.
pub(super) async fn plain(suite: &Suite) -> Checked {
    let place = suite.place().await?;
    let put = place
        .ask("PUT", "from", "")
        .body("hello")
        .header("content-type", "text/x")
        .header("x-amz-meta-a", "1");
    let etag = place.send(put).await?.header("etag").to_owned();
    let answer = place.send(copy(&place, "to", "from")).await?;
    expect(&answer, 200)?;
    same("ETag", answer.element("ETag"), etag)?;
    holds("a date", answer.element("LastModified").ends_with('Z'))?;
    let got = place.get("to").await?;
    same("body", got.text().as_str(), "hello")?;
    same("type", got.header("content-type"), "text/x")?;
    same("metadata", got.header("x-amz-meta-a"), "1")?;
    refused(&place.send(copy(&place, "to", "nothing")).await?, 404, "NoSuchKey")?;
    place.clean().await
}

/// REPLACE takes the request's metadata.
pub(super) async fn with_metadata(suite: &Suite) -> Checked {
    let place = suite.place().await?;
    let put =
        place.ask("PUT", "from", "").body("x").header("content-type", "text/x").header("x-amz-meta-a", "1");
    expect(&place.send(put).await?, 200)?;
    let replace = copy(&place, "to", "from")
        .header("x-amz-metadata-directive", "REPLACE")
        .header("x-amz-meta-b", "2")
        .header("content-type", "text/y");
    expect(&place.send(replace).await?, 200)?;
    let got = place.get("to").await?;
    same("old", got.header("x-amz-meta-a"), "")?;
    same("new", got.header("x-amz-meta-b"), "2")?;
    same("type", got.header("content-type"), "text/y")?;
    let wrong = copy(&place, "to", "from").header("x-amz-metadata-directive", "MERGE");
    refused(&place.send(wrong).await?, 400, "InvalidArgument")?;
    place.clean().await
}

/// Onto itself only with a change.
pub(super) async fn onto_itself(suite: &Suite) -> Checked {
    let place = suite.place().await?;
    place.put("k", "x").await?;
    refused(&place.send(copy(&place, "k", "k")).await?, 400, "InvalidRequest")?;
    let same_class = copy(&place, "k", "k").header("x-amz-storage-class", "STANDARD");
    expect(&place.send(same_class).await?, 200)?;
    let replace =
        copy(&place, "k", "k").header("x-amz-metadata-directive", "REPLACE").header("x-amz-meta-a", "1");
    expect(&place.send(replace).await?, 200)?;
    let got = place.get("k").await?;
    same("body", got.text().as_str(), "x")?;
    same("metadata", got.header("x-amz-meta-a"), "1")?;
    place.clean().await
}

/// Conditions on the source and on the target.
pub(super) async fn conditions(suite: &Suite) -> Checked {
    let place = suite.place().await?;
    let etag = place.put("from", "x").await?.header("etag").to_owned();
    let old = "Thu, 01 Jan 2015 00:00:00 GMT";
    for (name, value, status) in [
        ("x-amz-copy-source-if-match", etag.as_str(), 200),
        ("x-amz-copy-source-if-match", "\"0\"", 412),
        ("x-amz-copy-source-if-none-match", "\"0\"", 200),
        ("x-amz-copy-source-if-none-match", etag.as_str(), 412),
        ("x-amz-copy-source-if-modified-since", old, 200),
        ("x-amz-copy-source-if-unmodified-since", old, 412),
    ] {
        let answer = place.send(copy(&place, "to", "from").header(name, value)).await?;
        expect(&answer, status).map_err(|what| format!("{name}: {value}: {what}"))?;
    }
    let taken = copy(&place, "to", "from").header("if-none-match", "*");
    refused(&place.send(taken).await?, 412, "PreconditionFailed")?;
    place.clean().await
}

/// Sources with names that need encoding, and sources that are none.
pub(super) async fn odd_names(suite: &Suite) -> Checked {
    let place = suite.place().await?;
    for key in ["a b+c?d", "ü%20/x"] {
        place.put(key, key.to_owned()).await?;
        let source = encode(&format!("{}/{key}", place.name), false);
        let ask = place.ask("PUT", "to", "").header("x-amz-copy-source", source);
        expect(&place.send(ask).await?, 200)?;
        same("body", place.get("to").await?.text().as_str(), key)?;
    }
    for source in ["x", "/", "bucket-only/"] {
        let answer = place.send(place.ask("PUT", "to", "").header("x-amz-copy-source", source)).await?;
        holds(source, answer.status == 400)?;
    }
    place.clean().await
}
