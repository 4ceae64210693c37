//! Content-MD5 and the `x-amz-checksum-` headers.

use bytes::Bytes;

use super::client::{Ask, content_md5};
use super::multipart::{completion, part};
use super::suite::{Checked, Place, Suite, expect, holds, pattern, refused, same};
use crate::service::{Checksum, ChecksumKind, ChecksumShape, Hasher};

fn of(kind: ChecksumKind, bytes: &[u8]) -> String {
    let mut hasher = Hasher::new(kind);
    hasher.update(bytes);
    hasher.finish()
}

/// Each kind is taken, answered and kept.
pub(super) async fn declared(suite: &Suite) -> Checked {
    let place = suite.place().await?;
    let body = pattern(70_000);
    for kind in ChecksumKind::ALL {
        let value = of(kind, &body);
        let put = place.ask("PUT", "k", "").body(body.clone()).header(kind.header(), &value);
        let answer = place.send(put).await?;
        expect(&answer, 200)?;
        same("answered", answer.header(kind.header()), value.as_str())?;
        same("type", answer.header("x-amz-checksum-type"), "FULL_OBJECT")?;
        let head = place.send(place.ask("HEAD", "k", "").header("x-amz-checksum-mode", "ENABLED")).await?;
        same("kept", head.header(kind.header()), value.as_str())?;
    }
    // minio-go says what the sum is of, too.
    let value = of(ChecksumKind::Crc32c, &body);
    for (shape, status) in [("FULL_OBJECT", 200), ("COMPOSITE", 400)] {
        let put = place.ask("PUT", "k", "").body(body.clone()).header("x-amz-checksum-crc32c", &value);
        let put = put.header("x-amz-checksum-algorithm", "CRC32C").header("x-amz-checksum-type", shape);
        expect(&place.send(put).await?, status)?;
    }
    // The SDK for Java says with each read that it would check a digest behind the body, and what the sum of the read's own
    // body is, which is empty.
    let read = |sum: &str| {
        place.ask("GET", "k", "").header("x-amz-te", "append-md5").header("x-amz-checksum-crc32", sum)
    };
    let got = place.send(read("AAAAAA==")).await?;
    expect(&got, 200)?;
    holds("the body", got.body == body)?;
    same("nothing behind it", got.header("x-amz-transfer-encoding"), "")?;
    refused(&place.send(read("AAAAAQ==")).await?, 400, "BadDigest")?;
    place.clean().await
}

/// A wrong one is refused and nothing is stored.
pub(super) async fn wrong(suite: &Suite) -> Checked {
    let place = suite.place().await?;
    for kind in ChecksumKind::ALL {
        let put = |value: &str| place.ask("PUT", "k", "").body("hello").header(kind.header(), value);
        refused(&place.send(put(&of(kind, b"other"))).await?, 400, "BadDigest")?;
        refused(&place.send(put("nonsense")).await?, 400, "InvalidRequest")?;
    }
    let two = place
        .ask("PUT", "k", "")
        .body("hello")
        .header("x-amz-checksum-crc32", of(ChecksumKind::Crc32, b"hello"))
        .header("x-amz-checksum-sha1", of(ChecksumKind::Sha1, b"hello"));
    refused(&place.send(two).await?, 400, "InvalidRequest")?;
    refused(&place.get("k").await?, 404, "NoSuchKey")?;
    place.clean().await
}

/// Only who asks sees them, and only of the whole.
pub(super) async fn on_request(suite: &Suite) -> Checked {
    let place = suite.place().await?;
    let value = of(ChecksumKind::Sha256, b"hello");
    let put = place.ask("PUT", "k", "").body("hello").header("x-amz-checksum-sha256", &value);
    expect(&place.send(put).await?, 200)?;
    same("unasked", place.get("k").await?.header("x-amz-checksum-sha256"), "")?;
    let get = || place.ask("GET", "k", "").header("x-amz-checksum-mode", "ENABLED");
    same("asked", place.send(get()).await?.header("x-amz-checksum-sha256"), value.as_str())?;
    let part = place.send(get().header("range", "bytes=0-1")).await?;
    same("of a range", part.header("x-amz-checksum-sha256"), "")?;
    place.clean().await
}

/// Content-MD5, right, wrong and none.
pub(super) async fn md5(suite: &Suite) -> Checked {
    let place = suite.place().await?;
    let put = |value: &str| place.ask("PUT", "k", "").body("hello").header("content-md5", value);
    expect(&place.send(put(&content_md5(b"hello"))).await?, 200)?;
    refused(&place.send(put(&content_md5(b"other"))).await?, 400, "BadDigest")?;
    for value in ["", "x", "AAAA"] {
        refused(&place.send(put(value)).await?, 400, "InvalidDigest")?;
    }
    place.clean().await
}

/// Uploads two parts with a checksum of each kind and shape; answers the completion.
async fn upload(
    place: &Place<'_>,
    kind: ChecksumKind,
    shape: ChecksumShape,
    bodies: [&Bytes; 2],
    whole: Option<&str>,
) -> Result<super::client::Answer, String> {
    let begin = place
        .ask("POST", "k", "?uploads")
        .header("x-amz-checksum-algorithm", kind.name())
        .header("x-amz-checksum-type", shape.name());
    let begun = place.send(begin).await?;
    expect(&begun, 200)?;
    same("algorithm", begun.header("x-amz-checksum-algorithm"), kind.name())?;
    let id = begun.element("UploadId");
    let mut etags = Vec::new();
    for (number, body) in (1..).zip(bodies) {
        let sum = of(kind, body);
        let stored =
            place.send(part(place, "k", &id, number, body.clone()).header(kind.header(), &sum)).await?;
        expect(&stored, 200)?;
        same("of the part", stored.header(kind.header()), sum.as_str())?;
        etags.push(stored.header("etag").to_owned());
    }
    let mut ask: Ask = completion(place, "k", &id, &[(1, &etags[0]), (2, &etags[1])]);
    if let Some(value) = whole {
        ask = ask.header(kind.header(), value).header("x-amz-checksum-type", shape.name());
    }
    place.send(ask).await
}

/// CRCs of parts make that of the whole.
pub(super) async fn multipart_full(suite: &Suite) -> Checked {
    let place = suite.place().await?;
    let whole = pattern((5 << 20) + 321);
    let bodies = [&whole.slice(..5 << 20), &whole.slice(5 << 20..)];
    for kind in [ChecksumKind::Crc32, ChecksumKind::Crc32c, ChecksumKind::Crc64Nvme] {
        let value = of(kind, &whole);
        let done = upload(&place, kind, ChecksumShape::Full, bodies, Some(&value)).await?;
        expect(&done, 200)?;
        same("of the whole", done.element(&format!("Checksum{}", kind.name())), value.clone())?;
        let head = place.send(place.ask("HEAD", "k", "").header("x-amz-checksum-mode", "ENABLED")).await?;
        same("kept", head.header(kind.header()), value.as_str())?;
        same("type", head.header("x-amz-checksum-type"), "FULL_OBJECT")?;
        let wrong = upload(&place, kind, ChecksumShape::Full, bodies, Some(&of(kind, b"other"))).await?;
        refused(&wrong, 400, "BadDigest")?;
    }
    let impossible = place
        .ask("POST", "k", "?uploads")
        .header("x-amz-checksum-algorithm", "SHA256")
        .header("x-amz-checksum-type", "FULL_OBJECT");
    refused(&place.send(impossible).await?, 400, "InvalidRequest")?;
    forget_uploads(&place).await?;
    place.clean().await
}

/// Checksums of checksums, with the number of parts.
pub(super) async fn multipart_composite(suite: &Suite) -> Checked {
    let place = suite.place().await?;
    let (one, two) = (pattern(5 << 20), pattern(77));
    for kind in [ChecksumKind::Crc32, ChecksumKind::Sha1, ChecksumKind::Sha256] {
        let done = upload(&place, kind, ChecksumShape::Composite, [&one, &two], None).await?;
        expect(&done, 200)?;
        let (first, second) = (of(kind, &one), of(kind, &two));
        let parts = [(first.as_str(), one.len() as u64), (second.as_str(), two.len() as u64)];
        let wanted = Checksum::of_parts(kind, ChecksumShape::Composite, &parts).map(|sum| sum.value);
        same("composite", Some(done.element(&format!("Checksum{}", kind.name()))), wanted)?;
    }
    place.clean().await
}

/// Gives up what failed completions left.
async fn forget_uploads(place: &Place<'_>) -> Checked {
    let uploads = place.send(place.about("GET", "?uploads")).await?;
    for id in uploads.elements("UploadId") {
        expect(&place.send(place.ask("DELETE", "k", &format!("?uploadId={id}"))).await?, 204)?;
    }
    Ok(())
}

/// A checksum behind the body.
pub(super) async fn trailers(suite: &Suite) -> Checked {
    let place = suite.place().await?;
    let body = pattern(100_000);
    for kind in ChecksumKind::ALL {
        let put = |value: &str| {
            let mut chunked = format!("{:x}\r\n", body.len()).into_bytes();
            chunked.extend_from_slice(&body);
            chunked.extend(format!("\r\n0\r\n{}:{value}\r\n\r\n", kind.header()).into_bytes());
            let ask = place
                .ask("PUT", "k", "")
                .body(chunked)
                .header("content-encoding", "aws-chunked")
                .header("x-amz-decoded-content-length", body.len().to_string())
                .header("x-amz-trailer", kind.header());
            Ask { payload: Some("STREAMING-UNSIGNED-PAYLOAD-TRAILER"), ..ask }
        };
        let answer = place.send(put(&of(kind, &body))).await?;
        expect(&answer, 200)?;
        same("answered", answer.header(kind.header()), of(kind, &body).as_str())?;
        refused(&place.send(put(&of(kind, b"other"))).await?, 400, "BadDigest")?;
    }
    let got = place.get("k").await?;
    holds("the bytes are the same", got.body == body)?;
    same("the encoding of the way is not kept", got.header("content-encoding"), "")?;
    place.clean().await
}
