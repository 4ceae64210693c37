//! Signature V4 in all its forms, and what must not pass.

use sha2::{Digest, Sha256};
use skerry_base::hex;

use super::client::{Ask, Seal};
use super::suite::{Checked, Suite, expect, holds, pattern, refused, same};

/// A link to read.
pub(super) async fn presigned(suite: &Suite) -> Checked {
    let place = suite.place().await?;
    place.put("k ü", "hello").await?;
    let link = suite.client.presign("GET", &place.target("k ü"), 60, 0);
    same("body", suite.client.send_as_is(Ask::new("GET", &link)).await?.text().as_str(), "hello")?;
    // Who was handed a link does not choose how far it reaches.
    for (name, value) in
        [("x-skerry-read", "latest"), ("x-skerry-scope", "sites=9"), ("x-amz-checksum-mode", "ENABLED")]
    {
        let further = suite.client.send_as_is(Ask::new("GET", &link).header(name, value)).await?;
        refused(&further, 403, "AccessDenied").map_err(|what| format!("{name}: {what}"))?;
    }
    let changed = link.replace("X-Amz-Expires=60", "X-Amz-Expires=61");
    refused(&suite.client.send_as_is(Ask::new("GET", changed)).await?, 403, "SignatureDoesNotMatch")?;
    refused(&suite.client.send_as_is(Ask::new("PUT", &link).body("x")).await?, 403, "SignatureDoesNotMatch")?;
    let listed = suite.client.presign("GET", &format!("/{}?list-type=2", place.name), 60, 0);
    same("keys", suite.client.send_as_is(Ask::new("GET", listed)).await?.elements("Key"), ["k ü"])?;
    place.clean().await
}

/// A link to write.
pub(super) async fn presigned_put(suite: &Suite) -> Checked {
    let place = suite.place().await?;
    let link = suite.client.presign("PUT", &place.target("k"), 60, 0);
    let put = Ask::new("PUT", &link).body("hello").header("content-type", "text/x");
    expect(&suite.client.send_as_is(put).await?, 200)?;
    same("body", place.get("k").await?.text().as_str(), "hello")?;
    let meta = Ask::new("PUT", link).body("hello").header("x-amz-meta-a", "unsigned");
    refused(&suite.client.send_as_is(meta).await?, 403, "AccessDenied")?;
    place.clean().await
}

/// A link that is over, and one that would live too long.
pub(super) async fn expired(suite: &Suite) -> Checked {
    let place = suite.place().await?;
    place.put("k", "x").await?;
    let old = suite.client.presign("GET", &place.target("k"), 60, -120);
    let answer = suite.client.send_as_is(Ask::new("GET", old)).await?;
    refused(&answer, 403, "AccessDenied")?;
    same("message", answer.element("Message").as_str(), "Request has expired")?;
    let long = suite.client.presign("GET", &place.target("k"), 604_801, 0);
    refused(
        &suite.client.send_as_is(Ask::new("GET", long)).await?,
        400,
        "AuthorizationQueryParametersError",
    )?;
    place.clean().await
}

/// A clock an hour off.
pub(super) async fn skewed(suite: &Suite) -> Checked {
    for ahead in [-3600, 3600] {
        let answer = suite.send(Ask { ahead, ..Ask::new("GET", "/") }).await?;
        refused(&answer, 403, "RequestTimeTooSkewed")?;
    }
    expect(&suite.send(Ask { ahead: 600, ..Ask::new("GET", "/") }).await?, 200)
}

/// The right key with the wrong secret.
pub(super) async fn wrong_secret(suite: &Suite) -> Checked {
    let client = suite.client.with(suite.client.access_key(), "not the secret");
    refused(&client.send(Ask::new("GET", "/")).await?, 403, "SignatureDoesNotMatch")
}

/// A key nobody has.
pub(super) async fn unknown_key(suite: &Suite) -> Checked {
    let client = suite.client.with("NOSUCHKEY", suite.client.secret());
    refused(&client.send(Ask::new("GET", "/")).await?, 403, "InvalidAccessKeyId")
}

/// No signature at all.
pub(super) async fn anonymous(suite: &Suite) -> Checked {
    refused(&suite.client.send_as_is(Ask::new("GET", "/")).await?, 403, "AccessDenied")?;
    refused(&suite.client.send_as_is(Ask::new("PUT", "/some-bucket")).await?, 403, "AccessDenied")?;
    // What browsers send by themselves is never signed.
    let form = Ask::new("POST", "/some-bucket").header("content-type", "multipart/form-data; boundary=x");
    refused(&suite.client.send_as_is(form).await?, 501, "NotImplemented")?;
    refused(&suite.client.send_as_is(Ask::new("OPTIONS", "/some-bucket/key")).await?, 501, "NotImplemented")
}

/// A body in signed chunks.
fn sealed_chunks(seal: &Seal, chunks: &[&[u8]]) -> Vec<u8> {
    let empty = hex::text(&Sha256::digest([]));
    let (mut body, mut previous) = (Vec::new(), seal.signature.clone());
    for chunk in chunks.iter().chain([&&[][..]]) {
        let hash = hex::text(&Sha256::digest(chunk));
        let text =
            format!("AWS4-HMAC-SHA256-PAYLOAD\n{}\n{}\n{previous}\n{empty}\n{hash}", seal.stamp, seal.scope);
        previous = seal.key.sign(&text);
        body.extend(format!("{:x};chunk-signature={previous}\r\n", chunk.len()).into_bytes());
        body.extend_from_slice(chunk);
        body.extend_from_slice(b"\r\n");
    }
    body
}

fn chunked(place: &super::suite::Place<'_>, length: usize) -> Ask {
    let ask = place
        .ask("PUT", "k", "")
        .header("content-encoding", "aws-chunked")
        .header("x-amz-decoded-content-length", length.to_string());
    Ask { payload: Some("STREAMING-AWS4-HMAC-SHA256-PAYLOAD"), ..ask }
}

/// Every chunk signed.
pub(super) async fn signed_chunks(suite: &Suite) -> Checked {
    let place = suite.place().await?;
    let body = pattern(150_000);
    let mut ask = chunked(&place, body.len());
    let seal = suite.client.seal(&mut ask);
    ask.body = sealed_chunks(&seal, &[&body[..65_536], &body[65_536..131_072], &body[131_072..]]).into();
    expect(&suite.client.send_as_is(ask).await?, 200)?;
    holds("the bytes are the same", place.get("k").await?.body == body)?;
    place.clean().await
}

/// No chunk signed, and one chunk for all.
pub(super) async fn unsigned_chunks(suite: &Suite) -> Checked {
    let place = suite.place().await?;
    let body = pattern(3 << 20);
    let mut framed = format!("{:x}\r\n", body.len()).into_bytes();
    framed.extend_from_slice(&body);
    framed.extend_from_slice(b"\r\n0\r\n\r\n");
    let ask = Ask { payload: Some("STREAMING-UNSIGNED-PAYLOAD-TRAILER"), ..chunked(&place, body.len()) };
    expect(&suite.send(ask.body(framed)).await?, 200)?;
    holds("the bytes are the same", place.get("k").await?.body == body)?;
    place.clean().await
}

/// A chunk changed on the way, a chunk too few, a length that is not true.
pub(super) async fn tampered_chunk(suite: &Suite) -> Checked {
    let place = suite.place().await?;
    let body = pattern(1000);
    let attempt = async |length: usize, change: fn(Vec<u8>) -> Vec<u8>| {
        let mut ask = chunked(&place, length);
        let seal = suite.client.seal(&mut ask);
        ask.body = change(sealed_chunks(&seal, &[&body])).into();
        suite.client.send_as_is(ask).await
    };
    let flip = |mut bytes: Vec<u8>| {
        if let Some(byte) = bytes.get_mut(500) {
            *byte ^= 1;
        }
        bytes
    };
    refused(&attempt(1000, flip).await?, 403, "SignatureDoesNotMatch")?;
    refused(&attempt(1001, |bytes| bytes).await?, 400, "IncompleteBody")?;
    refused(&attempt(999, |bytes| bytes).await?, 400, "IncompleteBody")?;
    refused(&attempt(1000, |bytes| bytes[..bytes.len() - 88].to_vec()).await?, 400, "IncompleteBody")?;
    refused(&place.get("k").await?, 404, "NoSuchKey")?;
    place.clean().await
}

/// Signature V2 is not taken.
pub(super) async fn old_version(suite: &Suite) -> Checked {
    let header = Ask::new("GET", "/").header("authorization", "AWS KEY:c2lnbmF0dXJl");
    refused(&suite.client.send_as_is(header).await?, 400, "InvalidRequest")?;
    let query = Ask::new("GET", "/?AWSAccessKeyId=K&Signature=s&Expires=9999999999");
    refused(&suite.client.send_as_is(query).await?, 400, "InvalidRequest")
}

/// A header added after signing.
pub(super) async fn unsigned_header(suite: &Suite) -> Checked {
    let mut ask = Ask::new("GET", "/");
    suite.client.seal(&mut ask);
    let ask = ask.header("x-amz-acl", "public-read");
    refused(&suite.client.send_as_is(ask).await?, 403, "AccessDenied")
}

/// The time of a request in `Date`, where there is no `x-amz-date`.
pub(super) async fn by_date(suite: &Suite) -> Checked {
    let place = suite.place().await?;
    expect(&place.send(place.ask("PUT", "k", "").body("x").header("date", "")).await?, 200)?;
    let skewed = Ask { ahead: 3600, ..place.ask("GET", "k", "").header("date", "") };
    refused(&place.send(skewed).await?, 403, "RequestTimeTooSkewed")?;
    place.clean().await
}
