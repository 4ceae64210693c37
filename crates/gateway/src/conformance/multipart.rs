//! Multipart uploads.

use bytes::Bytes;

use super::client::{Answer, Ask};
use super::suite::{Checked, Place, Suite, expect, holds, pattern, refused, same};

/// The least size of a part but the last.
const PART: usize = 5 << 20;

/// Begins an upload.
pub(super) async fn begin(place: &Place<'_>, key: &str) -> Result<String, String> {
    let answer = place.send(place.ask("POST", key, "?uploads")).await?;
    expect(&answer, 200)?;
    let id = answer.element("UploadId");
    holds("an upload id", !id.is_empty())?;
    Ok(id)
}

/// The request that stores a part.
pub(super) fn part(place: &Place<'_>, key: &str, id: &str, number: u32, body: Bytes) -> Ask {
    place.ask("PUT", key, &format!("?partNumber={number}&uploadId={id}")).body(body)
}

/// Stores a part that must be taken; answers its ETag.
async fn store(place: &Place<'_>, key: &str, id: &str, number: u32, body: Bytes) -> Result<String, String> {
    let answer = place.send(part(place, key, id, number, body)).await?;
    expect(&answer, 200)?;
    Ok(answer.header("etag").to_owned())
}

/// The request that completes.
pub(super) fn completion(place: &Place<'_>, key: &str, id: &str, parts: &[(u32, &str)]) -> Ask {
    let part = |(number, etag): &(u32, &str)| {
        format!("<Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag></Part>")
    };
    let parts: String = parts.iter().map(part).collect();
    let body = format!("<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>");
    place.ask("POST", key, &format!("?uploadId={id}")).body(body)
}

async fn complete(place: &Place<'_>, key: &str, id: &str, parts: &[(u32, &str)]) -> Result<Answer, String> {
    place.send(completion(place, key, id, parts)).await
}

/// Two parts, out of order, one replaced: the object, its ETag, its headers.
pub(super) async fn whole(suite: &Suite) -> Checked {
    let place = suite.place().await?;
    let begun =
        place.ask("POST", "big", "?uploads").header("content-type", "text/x").header("x-amz-meta-a", "1");
    let id = place.send(begun).await?.element("UploadId");
    let body = pattern(PART + 1000);
    let second = store(&place, "big", &id, 7, body.slice(PART..)).await?;
    store(&place, "big", &id, 2, pattern(10)).await?;
    let first = store(&place, "big", &id, 2, body.slice(..PART)).await?;
    refused(&place.get("big").await?, 404, "NoSuchKey")?;
    let done = complete(&place, "big", &id, &[(2, &first), (7, &second)]).await?;
    expect(&done, 200)?;
    holds("an ETag of two parts", done.element("ETag").ends_with("-2\""))?;
    same("key", done.element("Key").as_str(), "big")?;
    let got = place.get("big").await?;
    holds("the bytes are the same", got.body == body)?;
    same("ETag", got.header("etag"), done.element("ETag").as_str())?;
    same("type", got.header("content-type"), "text/x")?;
    same("metadata", got.header("x-amz-meta-a"), "1")?;
    let range = format!("bytes={}-{}", PART - 5, PART + 4);
    let got = place.send(place.ask("GET", "big", "").header("range", range)).await?;
    holds("a range across parts", body.get(PART - 5..PART + 5) == Some(&got.body[..]))?;
    place.clean().await
}

/// GET and HEAD of one part.
pub(super) async fn parts_by_number(suite: &Suite) -> Checked {
    let place = suite.place().await?;
    let id = begin(&place, "p").await?;
    let body = pattern(PART + 10);
    let first = store(&place, "p", &id, 1, body.slice(..PART)).await?;
    let second = store(&place, "p", &id, 2, body.slice(PART..)).await?;
    expect(&complete(&place, "p", &id, &[(1, &first), (2, &second)]).await?, 200)?;
    let got = place.send(place.ask("GET", "p", "?partNumber=2")).await?;
    expect(&got, 206)?;
    holds("its bytes", body.get(PART..) == Some(&got.body[..]))?;
    same("parts", got.header("x-amz-mp-parts-count"), "2")?;
    let head = place.send(place.ask("HEAD", "p", "?partNumber=1")).await?;
    same("length", head.header("content-length"), PART.to_string().as_str())?;
    refused(&place.send(place.ask("GET", "p", "?partNumber=3")).await?, 416, "InvalidPartNumber")?;
    refused(&place.send(place.ask("GET", "p", "?partNumber=0")).await?, 400, "InvalidArgument")?;
    place.clean().await
}

/// Completions that must fail leave the upload as it was.
pub(super) async fn refusals(suite: &Suite) -> Checked {
    let place = suite.place().await?;
    let id = begin(&place, "r").await?;
    let one = store(&place, "r", &id, 1, pattern(100)).await?;
    let two = store(&place, "r", &id, 2, pattern(100)).await?;
    let check = async |parts: &[(u32, &str)], code: &str| {
        refused(&complete(&place, "r", &id, parts).await?, 400, code)
    };
    check(&[(1, &one), (2, &two)], "EntityTooSmall").await?;
    check(&[(2, &two), (1, &one)], "InvalidPartOrder").await?;
    check(&[(1, &one), (1, &one)], "InvalidPartOrder").await?;
    check(&[(1, &one), (3, &two)], "InvalidPart").await?;
    check(&[(1, "\"00000000000000000000000000000000\"")], "InvalidPart").await?;
    check(&[], "MalformedXML").await?;
    check(&[(0, &one)], "MalformedXML").await?;
    check(&[(10_001, &one)], "MalformedXML").await?;
    refused(&complete(&place, "r", "no-such-upload", &[(1, &one)]).await?, 404, "NoSuchUpload")?;
    refused(&place.send(part(&place, "r", "no-such-upload", 1, pattern(9))).await?, 404, "NoSuchUpload")?;
    let sized = completion(&place, "r", &id, &[(1, &one)]).header("x-amz-mp-object-size", "99");
    refused(&place.send(sized).await?, 400, "InvalidRequest")?;
    expect(&complete(&place, "r", &id, &[(1, &one)]).await?, 200)?;
    place.clean().await
}

/// Parts from objects, whole and by range.
pub(super) async fn copy_part(suite: &Suite) -> Checked {
    let place = suite.place().await?;
    let body = pattern(PART + 50);
    place.put("from", body.clone()).await?;
    let id = begin(&place, "to").await?;
    let copy = |number: u32, range: &str| {
        place
            .ask("PUT", "to", &format!("?partNumber={number}&uploadId={id}"))
            .header("x-amz-copy-source", place.target("from"))
            .header("x-amz-copy-source-range", range)
    };
    let first = place.send(copy(1, &format!("bytes=0-{}", PART - 1))).await?;
    expect(&first, 200)?;
    let second = place.send(copy(2, &format!("bytes={PART}-{}", PART + 49))).await?;
    let beyond = place.send(copy(3, &format!("bytes=0-{}", PART + 50))).await?;
    refused(&beyond, 416, "InvalidRange")?;
    refused(&place.send(copy(3, "bytes=5-")).await?, 400, "InvalidArgument")?;
    let (first, second) = (first.element("ETag"), second.element("ETag"));
    expect(&complete(&place, "to", &id, &[(1, &first), (2, &second)]).await?, 200)?;
    holds("the bytes are the same", place.get("to").await?.body == body)?;
    place.clean().await
}

/// ListParts and ListMultipartUploads in pages.
pub(super) async fn lists(suite: &Suite) -> Checked {
    let place = suite.place().await?;
    let id = begin(&place, "a/1").await?;
    for number in [1, 3, 5] {
        store(&place, "a/1", &id, number, pattern(number as usize)).await?;
    }
    let parts =
        async |query: &str| place.send(place.ask("GET", "a/1", &format!("?uploadId={id}{query}"))).await;
    let all = parts("").await?;
    same("numbers", all.elements("PartNumber"), ["1", "3", "5"])?;
    same("sizes", all.elements("Size"), ["1", "3", "5"])?;
    let two = parts("&max-parts=2").await?;
    same("page", two.elements("PartNumber"), ["1", "3"])?;
    same("next", two.element("NextPartNumberMarker").as_str(), "3")?;
    same("rest", parts("&part-number-marker=3").await?.elements("PartNumber"), ["5"])?;
    let others = [begin(&place, "a/1").await?, begin(&place, "b").await?];
    let uploads = async |query: &str| place.send(place.about("GET", &format!("?uploads{query}"))).await;
    same("keys", uploads("").await?.elements("Key"), ["a/1", "a/1", "b"])?;
    let page = uploads("&max-uploads=1").await?;
    let next = format!("&key-marker=a%2F1&upload-id-marker={}", page.element("NextUploadIdMarker"));
    same("within a key", uploads(&next).await?.elements("Key"), ["a/1", "b"])?;
    same("after a key", uploads("&key-marker=a%2F1").await?.elements("Key"), ["b"])?;
    let folded = uploads("&delimiter=%2F").await?;
    same("folded", folded.elements("Key"), ["b"])?;
    let prefix = "<CommonPrefixes><Prefix>a/</Prefix></CommonPrefixes>";
    same("a prefix comes once", folded.text().matches("<CommonPrefixes>").count(), 1)?;
    holds("it is a/", folded.text().contains(prefix))?;
    let first = uploads("&delimiter=%2F&max-uploads=1").await?;
    same("it is one entry", (first.elements("Key").len(), first.text().matches(prefix).count()), (0, 1))?;
    same("there is more", first.element("IsTruncated").as_str(), "true")?;
    let rest = uploads("&delimiter=%2F&max-uploads=1&key-marker=a%2F").await?;
    same("behind it", rest.elements("Key"), ["b"])?;
    same("that is all", rest.element("IsTruncated").as_str(), "false")?;
    same("prefix", uploads("&prefix=b").await?.elements("UploadId"), [others[1].as_str()])?;
    for (key, upload) in [("a/1", &id), ("a/1", &others[0]), ("b", &others[1])] {
        let abort = place.ask("DELETE", key, &format!("?uploadId={upload}"));
        expect(&place.send(abort).await?, 204)?;
    }
    same("none left", uploads("").await?.elements("Key").len(), 0)?;
    place.clean().await
}

/// What was given up is gone.
pub(super) async fn abort(suite: &Suite) -> Checked {
    let place = suite.place().await?;
    let id = begin(&place, "k").await?;
    let etag = store(&place, "k", &id, 1, pattern(9)).await?;
    let abort = || place.ask("DELETE", "k", &format!("?uploadId={id}"));
    expect(&place.send(abort()).await?, 204)?;
    refused(&place.send(abort()).await?, 404, "NoSuchUpload")?;
    refused(&complete(&place, "k", &id, &[(1, &etag)]).await?, 404, "NoSuchUpload")?;
    refused(&place.send(place.ask("GET", "k", &format!("?uploadId={id}"))).await?, 404, "NoSuchUpload")?;
    place.clean().await
}

/// A completion repeated answers the same: the first answer may have been lost.
pub(super) async fn again(suite: &Suite) -> Checked {
    let place = suite.place().await?;
    let id = begin(&place, "k").await?;
    let etag = store(&place, "k", &id, 1, pattern(9)).await?;
    let first = complete(&place, "k", &id, &[(1, &etag)]).await?;
    let second = complete(&place, "k", &id, &[(1, &etag)]).await?;
    expect(&second, 200)?;
    same("ETag", second.element("ETag"), first.element("ETag"))?;
    let other = complete(&place, "k", &id, &[(1, &etag), (2, &etag)]).await?;
    refused(&other, 404, "NoSuchUpload")?;
    place.clean().await
}

/// A condition on the completion.
pub(super) async fn conditional(suite: &Suite) -> Checked {
    let place = suite.place().await?;
    place.put("k", "x").await?;
    let id = begin(&place, "k").await?;
    let etag = store(&place, "k", &id, 1, pattern(9)).await?;
    let ask = || completion(&place, "k", &id, &[(1, &etag)]);
    refused(&place.send(ask().header("if-none-match", "*")).await?, 412, "PreconditionFailed")?;
    same("it stayed", place.get("k").await?.text().as_str(), "x")?;
    expect(&place.send(ask().header("if-match", super::client::etag_of(b"x"))).await?, 200)?;
    place.clean().await
}
