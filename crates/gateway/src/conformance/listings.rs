//! Listings of current objects.

use super::suite::{Checked, Place, Suite, expect, holds, refused, same};
use crate::s3::uri::encode;

/// A bucket with these keys.
async fn with<'a>(suite: &'a Suite, keys: &[&str]) -> Result<Place<'a>, String> {
    let place = suite.place().await?;
    for key in keys {
        place.put(key, key.to_string()).await?;
    }
    Ok(place)
}

/// ListObjects with markers.
pub(super) async fn first_version(suite: &Suite) -> Checked {
    let place = with(suite, &["a", "b", "c"]).await?;
    let all = place.send(place.about("GET", "")).await?;
    expect(&all, 200)?;
    same("keys", all.elements("Key"), ["a", "b", "c"])?;
    same("size", all.element("Size").as_str(), "1")?;
    same("class", all.element("StorageClass").as_str(), "STANDARD")?;
    same("truncated", all.element("IsTruncated").as_str(), "false")?;
    holds("an owner", !all.element("Owner").is_empty())?;
    let two = place.send(place.about("GET", "?max-keys=2")).await?;
    same("first page", two.elements("Key"), ["a", "b"])?;
    same("truncated", two.element("IsTruncated").as_str(), "true")?;
    let rest = place.send(place.about("GET", "?marker=b")).await?;
    same("after the marker", rest.elements("Key"), ["c"])?;
    place.clean().await
}

/// ListObjectsV2 with its own ways.
pub(super) async fn second_version(suite: &Suite) -> Checked {
    let place = with(suite, &["a", "b", "c"]).await?;
    let all = place.send(place.about("GET", "?list-type=2")).await?;
    same("keys", all.elements("Key"), ["a", "b", "c"])?;
    same("count", all.element("KeyCount").as_str(), "3")?;
    holds("no owner", all.element("Owner").is_empty())?;
    let owned = place.send(place.about("GET", "?list-type=2&fetch-owner=true")).await?;
    holds("an owner when asked", !owned.element("Owner").is_empty())?;
    let one = place.send(place.about("GET", "?list-type=2&max-keys=1")).await?;
    let token = one.element("NextContinuationToken");
    let next = place
        .send(place.about("GET", &format!("?list-type=2&continuation-token={}", encode(&token, false))))
        .await?;
    same("after the token", next.elements("Key"), ["b", "c"])?;
    let wrong = place.send(place.about("GET", "?list-type=2&continuation-token=%21%21")).await?;
    refused(&wrong, 400, "InvalidArgument")?;
    place.clean().await
}

/// Prefix and delimiter.
pub(super) async fn delimiters(suite: &Suite) -> Checked {
    let place = with(suite, &["a/1", "a/2", "a/b/3", "b", "c/4", "cc"]).await?;
    let check = async |query: &str, keys: &[&str], prefixes: &[&str]| {
        for version in ["?list-type=2&", "?"] {
            let page = place.send(place.about("GET", &format!("{version}{query}"))).await?;
            same(query, page.elements("Key"), keys)?;
            let folded = page.text().split("<CommonPrefixes>").count() - 1;
            same("prefixes", folded, prefixes.len())?;
            for prefix in prefixes {
                let element = format!("<CommonPrefixes><Prefix>{prefix}</Prefix></CommonPrefixes>");
                holds(prefix, page.text().contains(&element))?;
            }
        }
        Ok::<(), String>(())
    };
    check("delimiter=%2F", &["b", "cc"], &["a/", "c/"]).await?;
    check("delimiter=%2F&prefix=a%2F", &["a/1", "a/2"], &["a/b/"]).await?;
    check("delimiter=%2F&prefix=c", &["cc"], &["c/"]).await?;
    check("prefix=a%2F", &["a/1", "a/2", "a/b/3"], &[]).await?;
    check("prefix=none", &[], &[]).await?;
    check("delimiter=b", &["a/1", "a/2", "c/4", "cc"], &["a/b", "b"]).await?;
    place.clean().await
}

/// Pages of every size join to the whole.
pub(super) async fn pages(suite: &Suite) -> Checked {
    let place = with(suite, &["a", "a/1", "a/2", "b/1", "b/2", "c", "d/e/f", "é"]).await?;
    let whole = ["a", "a/", "b/", "c", "d/", "é"];
    for size in 1..=7 {
        let (mut names, mut token) = (Vec::new(), String::new());
        loop {
            let from = if token.is_empty() { String::new() } else { format!("&continuation-token={token}") };
            let query = format!("?list-type=2&delimiter=%2F&max-keys={size}{from}");
            let page = place.send(place.about("GET", &query)).await?;
            expect(&page, 200)?;
            // The first prefix element is the echo of the query's.
            let mut found: Vec<String> = page.elements("Key");
            found.extend(page.elements("Prefix").into_iter().filter(|name| !name.is_empty()));
            holds("no page is too long", found.len() <= size)?;
            names.extend(found);
            token = page.element("NextContinuationToken");
            if page.element("IsTruncated") != "true" {
                break;
            }
            holds("a token", !token.is_empty())?;
        }
        names.sort();
        same("joined", names, whole)?;
    }
    place.clean().await
}

/// Byte order, not that of any language.
pub(super) async fn unicode(suite: &Suite) -> Checked {
    let keys = ["Z", "a", "ä", "é", "日本", "\u{ffff}"];
    let place = with(suite, &["é", "日本", "a", "Z", "ä", "🏝", "z"]).await?;
    let list = place.send(place.about("GET", "?list-type=2")).await?;
    same("order", list.elements("Key"), ["Z", "a", "z", "ä", "é", "日本", "🏝"])?;
    let some =
        place.send(place.about("GET", &format!("?list-type=2&prefix={}", encode("日", false)))).await?;
    same("prefix", some.elements("Key"), [keys[4]])?;
    place.clean().await
}

/// Start-after is not included and need not exist.
pub(super) async fn start_after(suite: &Suite) -> Checked {
    let place = with(suite, &["a", "c", "e"]).await?;
    for (after, keys) in
        [("a", vec!["c", "e"]), ("b", vec!["c", "e"]), ("e", vec![]), ("0", vec!["a", "c", "e"])]
    {
        let page = place.send(place.about("GET", &format!("?list-type=2&start-after={after}"))).await?;
        same(after, page.elements("Key"), keys)?;
        same("echo", page.element("StartAfter").as_str(), after)?;
    }
    for (key, after, folded) in [("d/1", "d%2F0", 1), ("d/1", "d%2F1", 1), ("d/2", "d%2F2", 0)] {
        place.put(key, "x").await?;
        place.put("d/2", "x").await?;
        let query = format!("?list-type=2&delimiter=%2F&start-after={after}");
        let page = place.send(place.about("GET", &query)).await?;
        same(after, page.text().matches("<CommonPrefixes>").count(), folded)?;
    }
    place.clean().await
}

/// Names that XML cannot carry come URL-encoded when asked.
pub(super) async fn encoding(suite: &Suite) -> Checked {
    let place = with(suite, &["a b/c+d", "x\u{1}y"]).await?;
    let list =
        place.send(place.about("GET", "?list-type=2&encoding-type=url&delimiter=%2F&prefix=a%20")).await?;
    same("type", list.element("EncodingType").as_str(), "url")?;
    same("echo", list.element("Prefix").as_str(), "a%20")?;
    holds("prefix", list.text().contains("<CommonPrefixes><Prefix>a%20b/</Prefix></CommonPrefixes>"))?;
    let list = place.send(place.about("GET", "?encoding-type=url")).await?;
    same("keys", list.elements("Key"), ["a%20b/c%2Bd", "x%01y"])?;
    refused(&place.send(place.about("GET", "?encoding-type=base64")).await?, 400, "InvalidArgument")?;
    place.clean().await
}

/// A page of none, and sizes that are none.
pub(super) async fn empty_page(suite: &Suite) -> Checked {
    let place = with(suite, &["a"]).await?;
    for query in ["?max-keys=0", "?list-type=2&max-keys=0"] {
        let page = place.send(place.about("GET", query)).await?;
        expect(&page, 200)?;
        same("keys", page.elements("Key").len(), 0)?;
        same("truncated", page.element("IsTruncated").as_str(), "false")?;
    }
    for query in ["?max-keys=-1", "?max-keys=x", "?list-type=2&max-keys=99999999999", "?list-type=3"] {
        refused(&place.send(place.about("GET", query)).await?, 400, "InvalidArgument")?;
    }
    same(
        "capped",
        place.send(place.about("GET", "?max-keys=5000")).await?.element("MaxKeys").as_str(),
        "1000",
    )?;
    place.clean().await
}

/// Mountpoint asks every listing whether objects are being restored from an archive, where none is.
pub(super) async fn restored(suite: &Suite) -> Checked {
    let place = with(suite, &["a"]).await?;
    for query in ["", "?list-type=2&delimiter=&max-keys=1000&prefix=", "?versions"] {
        let ask = |what: &str| place.about("GET", query).header("x-amz-optional-object-attributes", what);
        let page = place.send(ask("RestoreStatus")).await?;
        expect(&page, 200)?;
        same("keys", page.elements("Key"), vec!["a".to_owned()])?;
        holds("nothing is restored", !page.text().contains("RestoreStatus"))?;
        refused(&place.send(ask("Colour")).await?, 400, "InvalidArgument")?;
    }
    place.clean().await
}
