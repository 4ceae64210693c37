//! Bad input: each a precise error, nothing silently ignored, nothing lost.

use super::client::Ask;
use super::suite::{Checked, Suite, expect, holds, refused, same};
use crate::s3::operation::{Level, SUBRESOURCES, carries_out};

/// Every sub-resource, over every method that does not carry it out.
pub(super) async fn sub_resources(suite: &Suite) -> Checked {
    let place = suite.place().await?;
    for name in SUBRESOURCES {
        for method in ["GET", "PUT", "POST", "DELETE"] {
            let asks = [
                (Level::Bucket, place.about(method, &format!("?{name}"))),
                (Level::Object, place.ask(method, "key", &format!("?{name}"))),
            ];
            for (level, ask) in asks {
                if !carries_out(method, level, name) {
                    let within = |what| format!("{method} {level:?} ?{name}: {what}");
                    refused(&place.send(ask).await?, 501, "NotImplemented").map_err(within)?;
                }
            }
        }
    }
    place.clean().await
}

/// Headers that ask for what is not done.
pub(super) async fn headers(suite: &Suite) -> Checked {
    let place = suite.place().await?;
    for (name, value) in [
        ("x-amz-acl", "public-read"),
        ("x-amz-grant-read", "id=1"),
        ("x-amz-tagging", "a=b"),
        ("x-amz-storage-class", "GLACIER"),
        ("x-amz-server-side-encryption", "AES256"),
        ("x-amz-server-side-encryption-customer-algorithm", "AES256"),
        ("x-amz-object-lock-mode", "GOVERNANCE"),
        ("x-amz-object-lock-legal-hold", "ON"),
        ("x-amz-website-redirect-location", "/x"),
        ("x-amz-write-offset-bytes", "5"),
        ("x-amz-expected-bucket-owner", "123456789012"),
        ("x-amz-request-payer", "requester"),
        ("x-amz-security-token", "t"),
        ("x-amz-checksum-sha512", "x"),
        ("x-amz-something-new", "x"),
        ("if-modified-since", "Thu, 01 Jan 2015 00:00:00 GMT"),
        ("if-unmodified-since", "Thu, 01 Jan 2015 00:00:00 GMT"),
        ("x-skerry-unknown", "x"),
    ] {
        let answer = place.send(place.ask("PUT", "k", "").body("x").header(name, value)).await?;
        refused(&answer, 501, "NotImplemented").map_err(|what| format!("{name}: {what}"))?;
    }
    let purge = place.ask("DELETE", "k", "").header("x-minio-force-delete", "true");
    refused(&place.send(purge).await?, 501, "NotImplemented")?;
    let class = place.ask("PUT", "k", "").body("x").header("x-amz-storage-class", "PAPER");
    refused(&place.send(class).await?, 400, "InvalidStorageClass")?;
    refused(&place.get("k").await?, 404, "NoSuchKey")?;
    let fine = place
        .ask("PUT", "k", "")
        .body("x")
        .header("x-amz-acl", "private")
        .header("x-amz-storage-class", "STANDARD");
    expect(&place.send(fine).await?, 200)?;
    place.clean().await
}

/// A key of 1025 bytes, a key that is not UTF-8.
pub(super) async fn keys(suite: &Suite) -> Checked {
    let place = suite.place().await?;
    let long = place.ask("PUT", &"k".repeat(1025), "").body("x");
    refused(&place.send(long).await?, 400, "KeyTooLongError")?;
    let invalid = Ask::new("PUT", format!("/{}/%FF%FE", place.name)).body("x");
    refused(&place.send(invalid).await?, 400, "InvalidURI")?;
    place.clean().await
}

/// Documents that are none.
pub(super) async fn malformed_xml(suite: &Suite) -> Checked {
    let place = suite.place().await?;
    for body in
        ["", "nonsense", "<Delete>", "<Other/>", "<Delete><Object></Object></Delete>", "<Delete/><Delete/>"]
    {
        let answer = place.send(place.about("POST", "?delete").body(body)).await?;
        holds(body, answer.status == 400 || answer.status == 501)?;
    }
    refused(&place.send(place.about("POST", "?delete").body("<Delete>")).await?, 400, "MalformedXML")?;
    refused(&place.send(place.about("PUT", "?versioning").body("<<")).await?, 400, "MalformedXML")?;
    let raw = "<Delete><Object><Key>a\u{1}</Key></Object></Delete>";
    refused(&place.send(place.about("POST", "?delete").body(raw)).await?, 400, "MalformedXML")?;
    place.put("k", "x").await?;
    let split = place.ask("GET", "k", "?response-content-type=a%0D%0Ab:c");
    refused(&place.send(split).await?, 400, "InvalidArgument")?;
    let hidden = "<Delete><Object><Key>a<![CDATA[b]]></Key></Object></Delete>";
    refused(&place.send(place.about("POST", "?delete").body(hidden)).await?, 400, "MalformedXML")?;
    let large = place.about("POST", "?delete").body(" ".repeat((2 << 20) + 1));
    refused(&place.send(large).await?, 400, "MaxMessageLengthExceeded")?;
    place.clean().await
}

/// A body that ends before its announced length stores nothing.
pub(super) async fn short_body(suite: &Suite) -> Checked {
    let place = suite.place().await?;
    let ask = Ask {
        payload: Some("UNSIGNED-PAYLOAD"),
        ..place.ask("PUT", "k", "").header("content-length", "1000")
    };
    let answer = suite.client.send_raw(ask, b"only this").await?;
    holds("refused, or closed", answer.is_empty() || answer.contains("IncompleteBody"))?;
    refused(&place.get("k").await?, 404, "NoSuchKey")?;
    place.clean().await
}

/// A body without a length.
pub(super) async fn missing_length(suite: &Suite) -> Checked {
    let place = suite.place().await?;
    let ask = Ask {
        payload: Some("UNSIGNED-PAYLOAD"),
        ..place.ask("PUT", "k", "").header("transfer-encoding", "chunked")
    };
    let answer = suite.client.send_raw(ask, b"5\r\nhello\r\n0\r\n\r\n").await?;
    holds("411", answer.starts_with("HTTP/1.1 411") && answer.contains("MissingContentLength"))?;
    place.clean().await
}

/// More than 5 GiB in one PUT, refused before a byte is read.
pub(super) async fn too_large(suite: &Suite) -> Checked {
    let place = suite.place().await?;
    let length = (5_u64 << 30) + 1;
    let ask = place.ask("PUT", "k", "").header("content-length", length.to_string());
    let answer = suite.client.send_raw(Ask { payload: Some("UNSIGNED-PAYLOAD"), ..ask }, b"").await?;
    holds("EntityTooLarge", answer.contains("EntityTooLarge"))?;
    place.clean().await
}

/// Part numbers that are none.
pub(super) async fn part_numbers(suite: &Suite) -> Checked {
    let place = suite.place().await?;
    for number in ["0", "10001", "-1", "x", ""] {
        let ask = place.ask("PUT", "k", &format!("?partNumber={number}&uploadId=u")).body("x");
        refused(&place.send(ask).await?, 400, "InvalidArgument")?;
    }
    place.clean().await
}

/// Methods that S3 does not have.
pub(super) async fn methods(suite: &Suite) -> Checked {
    let place = suite.place().await?;
    let answer = place.send(place.ask("PATCH", "k", "").body("x")).await?;
    refused(&answer, 405, "MethodNotAllowed")?;
    same("Allow", answer.header("allow"), "DELETE, GET, HEAD, PUT")?;
    let answer = place.send(Ask::new("DELETE", "/")).await?;
    refused(&answer, 405, "MethodNotAllowed")?;
    same("Allow", answer.header("allow"), "GET")?;
    refused(&place.send(place.about("POST", "").body("x")).await?, 501, "NotImplemented")?;
    place.clean().await
}

/// Every refusal names itself, what it is about, and the request.
pub(super) async fn errors_have_ids(suite: &Suite) -> Checked {
    let place = suite.place().await?;
    let answer = place.get("no/such key").await?;
    refused(&answer, 404, "NoSuchKey")?;
    same("type", answer.header("content-type"), "application/xml")?;
    same("id", answer.element("RequestId").as_str(), answer.header("x-amz-request-id"))?;
    same("resource", answer.element("Resource"), format!("/{}/no/such key", place.name))?;
    holds("host id", !answer.element("HostId").is_empty() && !answer.element("Message").is_empty())?;
    let other = place.get("no/such key").await?;
    holds("ids differ", other.header("x-amz-request-id") != answer.header("x-amz-request-id"))?;
    place.clean().await
}
