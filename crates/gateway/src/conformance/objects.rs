//! Objects.

use super::client::{content_md5, etag_of};
use super::suite::{Checked, Suite, expect, holds, pattern, refused, same};

/// What goes in comes out.
pub(super) async fn round_trip(suite: &Suite) -> Checked {
    let place = suite.place().await?;
    for size in [1, 100, 32 << 10, (32 << 10) + 1, (1 << 20) + 7] {
        let body = pattern(size);
        let put = place.put("a/b c", body.clone()).await?;
        same("ETag", put.header("etag"), etag_of(&body).as_str())?;
        let got = place.get("a/b c").await?;
        expect(&got, 200)?;
        holds("the bytes are the same", got.body == body)?;
        same("ETag", got.header("etag"), etag_of(&body).as_str())?;
        same("length", got.header("content-length"), size.to_string().as_str())?;
        same("ranges", got.header("accept-ranges"), "bytes")?;
        holds("it has a date", got.header("last-modified").ends_with("GMT"))?;
        let head = place.send(place.ask("HEAD", "a/b c", "")).await?;
        expect(&head, 200)?;
        same("length of HEAD", head.header("content-length"), size.to_string().as_str())?;
    }
    place.clean().await
}

/// An object of nothing.
pub(super) async fn empty(suite: &Suite) -> Checked {
    let place = suite.place().await?;
    place.put("e", "").await?;
    let got = place.get("e").await?;
    expect(&got, 200)?;
    same("length", got.header("content-length"), "0")?;
    same("ETag", got.header("etag"), "\"d41d8cd98f00b204e9800998ecf8427e\"")?;
    let ranged = place.send(place.ask("GET", "e", "").header("range", "bytes=0-0")).await?;
    refused(&ranged, 416, "InvalidRange")?;
    place.clean().await
}

/// System headers come back.
pub(super) async fn headers(suite: &Suite) -> Checked {
    let place = suite.place().await?;
    let pairs = [
        ("content-type", "text/x-test; charset=utf-8"),
        ("cache-control", "max-age=5"),
        ("content-disposition", "attachment; filename=\"a.txt\""),
        ("content-encoding", "gzip"),
        ("content-language", "de"),
        ("expires", "Thu, 01 Dec 2033 16:00:00 GMT"),
    ];
    let put =
        pairs.iter().fold(place.ask("PUT", "h", "").body("x"), |ask, (name, value)| ask.header(name, value));
    expect(&place.send(put).await?, 200)?;
    for method in ["GET", "HEAD"] {
        let got = place.send(place.ask(method, "h", "")).await?;
        for (name, value) in pairs {
            same(name, got.header(name), value)?;
        }
    }
    place.put("plain", "x").await?;
    same("default type", place.get("plain").await?.header("content-type"), "binary/octet-stream")?;
    place.clean().await
}

/// User metadata comes back, and too much is refused.
pub(super) async fn metadata(suite: &Suite) -> Checked {
    let place = suite.place().await?;
    let put =
        place.ask("PUT", "m", "").body("x").header("x-amz-meta-one", "1").header("x-amz-meta-two-b", "a  b");
    expect(&place.send(put).await?, 200)?;
    let head = place.send(place.ask("HEAD", "m", "")).await?;
    same("one", head.header("x-amz-meta-one"), "1")?;
    same("two-b", head.header("x-amz-meta-two-b"), "a  b")?;
    let large = place.ask("PUT", "m", "").body("y").header("x-amz-meta-large", "x".repeat(2100));
    refused(&place.send(large).await?, 400, "MetadataTooLarge")?;
    let long = "x".repeat(2100);
    let large = place.ask("PUT", "m", "").body("y").header("content-disposition", &long);
    refused(&place.send(large).await?, 400, "MetadataTooLarge")?;
    let upload = place.ask("POST", "m", "?uploads").header("cache-control", &long);
    refused(&place.send(upload).await?, 400, "MetadataTooLarge")?;
    holds("nothing was stored", place.get("m").await?.body == "x")?;
    place.clean().await
}

/// Text beyond ASCII comes back as RFC 2047 has it.
pub(super) async fn unicode_metadata(suite: &Suite) -> Checked {
    let place = suite.place().await?;
    let put = place.ask("PUT", "m", "").body("x").header("x-amz-meta-name", "größe");
    expect(&place.send(put).await?, 200)?;
    let got = place.get("m").await?;
    same("name", got.header("x-amz-meta-name"), "=?UTF-8?B?Z3LDtsOfZQ==?=")?;
    place.clean().await
}

/// Keys that look like something else.
pub(super) async fn odd_keys(suite: &Suite) -> Checked {
    let place = suite.place().await?;
    let long = "k".repeat(1024);
    let keys = [
        "/",
        "//",
        "a//b",
        "/lead",
        "trail/",
        "..",
        "../x",
        "a/./b",
        "a+b",
        "a b",
        "a%20b",
        "a&b=c?d#e",
        "ü/日本/🏝",
        "\"quoted\"",
        "<tag>",
        "~tilde*(x)!'",
        long.as_str(),
    ];
    for key in keys {
        place.put(key, key.to_owned()).await.map_err(|what| format!("{key}: {what}"))?;
    }
    for key in keys {
        same("body", place.get(key).await?.text().as_str(), key)?;
    }
    let list = place.send(place.about("GET", "?list-type=2")).await?;
    let mut sorted = keys.to_vec();
    sorted.sort_unstable();
    same("listed", list.elements("Key"), sorted)?;
    place.clean().await
}

/// Ranges, from either end, beyond the end, and nonsense.
pub(super) async fn ranges(suite: &Suite) -> Checked {
    let place = suite.place().await?;
    let body = pattern(100_000);
    place.put("r", body.clone()).await?;
    for (range, bytes, said) in [
        ("bytes=0-0", 0..1, "bytes 0-0/100000"),
        ("bytes=10-99", 10..100, "bytes 10-99/100000"),
        ("bytes=65530-65550", 65_530..65_551, "bytes 65530-65550/100000"),
        ("bytes=99999-", 99_999..100_000, "bytes 99999-99999/100000"),
        ("bytes=-5", 99_995..100_000, "bytes 99995-99999/100000"),
        ("bytes=-200000", 0..100_000, "bytes 0-99999/100000"),
        ("bytes=50000-900000", 50_000..100_000, "bytes 50000-99999/100000"),
        ("bytes=99999-99999999999999999999", 99_999..100_000, "bytes 99999-99999/100000"),
    ] {
        let got = place.send(place.ask("GET", "r", "").header("range", range)).await?;
        expect(&got, 206)?;
        holds(range, body.get(bytes) == Some(&got.body[..]))?;
        same("content-range", got.header("content-range"), said)?;
        let head = place.send(place.ask("HEAD", "r", "").header("range", range)).await?;
        same("content-range of HEAD", head.header("content-range"), said)?;
    }
    for range in ["bytes=100000-", "bytes=100000-100001", "bytes=-0", "bytes=99999999999999999999-"] {
        let got = place.send(place.ask("GET", "r", "").header("range", range)).await?;
        refused(&got, 416, "InvalidRange")?;
        same("content-range", got.header("content-range"), "bytes */100000")?;
    }
    for range in ["bytes=9-5", "lines=1-2", "bytes=0-1,3-4"] {
        expect(&place.send(place.ask("GET", "r", "").header("range", range)).await?, 200)?;
    }
    place.clean().await
}

/// If-Match and its kin on GET and HEAD.
pub(super) async fn conditional_reads(suite: &Suite) -> Checked {
    let place = suite.place().await?;
    let put = place.put("c", "x").await?;
    let etag = put.header("etag").to_owned();
    let date = place.get("c").await?.header("last-modified").to_owned();
    let old = "Thu, 01 Jan 2015 00:00:00 GMT";
    for (name, value, status) in [
        ("if-match", etag.as_str(), 200),
        ("if-match", "*", 200),
        ("if-match", "\"0\"", 412),
        ("if-none-match", "\"0\"", 200),
        ("if-none-match", etag.as_str(), 304),
        ("if-none-match", "*", 304),
        ("if-modified-since", old, 200),
        ("if-modified-since", date.as_str(), 304),
        ("if-unmodified-since", date.as_str(), 200),
        ("if-unmodified-since", old, 412),
    ] {
        for method in ["GET", "HEAD"] {
            let got = place.send(place.ask(method, "c", "").header(name, value)).await?;
            expect(&got, status).map_err(|what| format!("{method} {name}: {value}: {what}"))?;
            if status == 304 {
                same("ETag of 304", got.header("etag"), etag.as_str())?;
                holds("304 has no body", got.body.is_empty())?;
            }
        }
    }
    let both = place.ask("GET", "c", "").header("if-match", &etag).header("if-unmodified-since", old);
    expect(&place.send(both).await?, 200)?;
    // As HTTP has it, a date that cannot be read is as if it were not there; Go's zero time can be.
    let zero = "Mon, 01 Jan 0001 00:00:00 GMT";
    let odd = [
        ("if-modified-since", "yesterday", 200),
        ("if-modified-since", "0", 200),
        ("if-unmodified-since", "0", 200),
        ("if-modified-since", zero, 200),
        ("if-unmodified-since", zero, 412),
    ];
    for (name, value, status) in odd {
        let got = place.send(place.ask("GET", "c", "").header(name, value)).await?;
        expect(&got, status).map_err(|what| format!("{name}: {value}: {what}"))?;
    }
    let kept = place.ask("PUT", "d", "").body("x").header("cache-control", "max-age=60");
    let etag = place.send(kept).await?.header("etag").to_owned();
    let current = place.send(place.ask("GET", "d", "").header("if-none-match", &etag)).await?;
    expect(&current, 304)?;
    same("Cache-Control of 304", current.header("cache-control"), "max-age=60")?;
    place.clean().await
}

/// If-Match and If-None-Match on PUT and DELETE.
pub(super) async fn conditional_writes(suite: &Suite) -> Checked {
    let place = suite.place().await?;
    let put = |name, value: &str| place.ask("PUT", "w", "").body("x").header(name, value);
    refused(&place.send(put("if-match", "\"0\"")).await?, 404, "NoSuchKey")?;
    expect(&place.send(put("if-none-match", "*")).await?, 200)?;
    refused(&place.send(put("if-none-match", "*")).await?, 412, "PreconditionFailed")?;
    refused(&place.send(put("if-match", "\"0\"")).await?, 412, "PreconditionFailed")?;
    let etag = etag_of(b"x");
    expect(&place.send(put("if-match", &etag)).await?, 200)?;
    refused(&place.send(put("if-none-match", &etag)).await?, 501, "NotImplemented")?;
    let delete = |value: &str| place.ask("DELETE", "w", "").header("if-match", value);
    refused(&place.send(delete("\"0\"")).await?, 412, "PreconditionFailed")?;
    expect(&place.send(delete(&etag)).await?, 204)?;
    expect(&place.get("w").await?, 404)?;
    // As S3 does it: what is not there cannot match, whether it is deleted one by one or among others.
    for test in ["*", &etag] {
        refused(&place.send(delete(test)).await?, 404, "NoSuchKey")?;
    }
    let body = format!("<Delete><Object><Key>w</Key><ETag>{etag}</ETag></Object></Delete>");
    let many = place.send(place.about("POST", "?delete").body(body)).await?;
    same("one by one", (many.element("Code").as_str(), many.elements("Deleted").len()), ("NoSuchKey", 0))?;
    expect(&place.send(put("if-none-match", "*")).await?, 200)?;
    place.clean().await
}

/// A range that only counts for a certain version.
pub(super) async fn if_range(suite: &Suite) -> Checked {
    let place = suite.place().await?;
    let put = place.put("r", "0123456789").await?;
    let get = |test: &str| place.ask("GET", "r", "").header("range", "bytes=2-3").header("if-range", test);
    same("current", place.send(get(put.header("etag"))).await?.text().as_str(), "23")?;
    same("another", place.send(get("\"0\"")).await?.text().as_str(), "0123456789")?;
    place.clean().await
}

/// Response headers that the query sets.
pub(super) async fn overrides(suite: &Suite) -> Checked {
    let place = suite.place().await?;
    place.put("o", "x").await?;
    let query = "?response-content-type=text%2Fx&response-cache-control=no-store\
                 &response-content-disposition=inline&response-content-encoding=br&response-content-language=fr\
                 &response-expires=Thu%2C%2001%20Dec%202033%2016%3A00%3A00%20GMT";
    let got = place.send(place.ask("GET", "o", query)).await?;
    for (name, value) in [
        ("content-type", "text/x"),
        ("cache-control", "no-store"),
        ("content-disposition", "inline"),
        ("content-encoding", "br"),
        ("content-language", "fr"),
        ("expires", "Thu, 01 Dec 2033 16:00:00 GMT"),
    ] {
        same(name, got.header(name), value)?;
    }
    place.clean().await
}

/// Deleting what is not there is fine.
pub(super) async fn delete_is_idempotent(suite: &Suite) -> Checked {
    let place = suite.place().await?;
    place.put("d", "x").await?;
    for _ in 0..3 {
        expect(&place.send(place.ask("DELETE", "d", "")).await?, 204)?;
        refused(&place.get("d").await?, 404, "NoSuchKey")?;
    }
    place.clean().await
}

/// A HEAD that fails has no body.
pub(super) async fn head_of_nothing(suite: &Suite) -> Checked {
    let place = suite.place().await?;
    let head = place.send(place.ask("HEAD", "nothing", "")).await?;
    expect(&head, 404)?;
    holds("no body", head.body.is_empty())?;
    holds("a request id", !head.header("x-amz-request-id").is_empty())?;
    place.clean().await
}

/// Larger than any buffer.
pub(super) async fn large_stream(suite: &Suite) -> Checked {
    let place = suite.place().await?;
    let body = pattern(20 << 20);
    let put = place.put("large", body.clone()).await?;
    same("ETag", put.header("etag"), etag_of(&body).as_str())?;
    holds("the bytes are the same", place.get("large").await?.body == body)?;
    place.clean().await
}

/// DeleteObjects: all answered, those that are not there too; quiet when asked.
pub(super) async fn many_deletes(suite: &Suite) -> Checked {
    let place = suite.place().await?;
    for key in ["a", "b&<c>", " d "] {
        place.put(key, "x").await?;
    }
    let delete = async |body: &str| {
        let ask = place
            .about("POST", "?delete")
            .body(body.to_owned())
            .header("content-md5", content_md5(body.as_bytes()));
        place.send(ask).await
    };
    let object = |key: &str| format!("<Object><Key>{key}</Key></Object>");
    let some = [object("a"), object("b&amp;&lt;c&gt;"), object("missing")].concat();
    let answer = delete(&format!("<Delete>{some}</Delete>")).await?;
    expect(&answer, 200)?;
    same("deleted", answer.elements("Key"), ["a", "b&<c>", "missing"])?;
    let quiet = delete(&format!("<Delete><Quiet>true</Quiet>{}</Delete>", object(" d "))).await?;
    same("quiet", quiet.elements("Key").len(), 0)?;
    let list = place.send(place.about("GET", "?list-type=2")).await?;
    same("left", list.elements("Key").len(), 0)?;
    for (key, written) in [("😀.jpg", "&#128512;.jpg"), ("\u{1f3dd}", "&#x1F3DD;"), ("a\rb", "a&#13;b")] {
        place.put(key, "x").await?;
        let answer = delete(&format!("<Delete>{}</Delete>", object(written))).await?;
        expect(&answer, 200)?;
        let named = if key == "a\rb" { written } else { key };
        holds(written, answer.text().contains(&format!("<Key>{named}</Key>")))?;
        refused(&place.get(key).await?, 404, "NoSuchKey")?;
    }
    place.put("v", "x").await?;
    let empty = "<Delete><Object><Key>v</Key><VersionId></VersionId></Object></Delete>";
    refused(&delete(empty).await?, 400, "InvalidArgument")?;
    // A condition that names nothing is none that could hold: least of all one that always does.
    for nothing in ["<ETag></ETag>", "<ETag/>", "<ETag>\"\"</ETag>"] {
        let body = format!("<Delete><Object><Key>v</Key>{nothing}</Object></Delete>");
        refused(&delete(&body).await?, 400, "InvalidArgument")?;
    }
    expect(&place.get("v").await?, 200)?;
    expect(&place.send(place.ask("DELETE", "v", "")).await?, 204)?;
    let too_many = object("x").repeat(1001);
    refused(&delete(&format!("<Delete>{too_many}</Delete>")).await?, 400, "MalformedXML")?;
    refused(&delete("<Delete></Delete>").await?, 400, "MalformedXML")?;
    place.clean().await
}
