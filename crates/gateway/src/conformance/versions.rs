//! Versioning.

use super::suite::{Checked, Suite, expect, holds, refused, same};

/// Each write makes a version, and each can be read.
pub(super) async fn lifetimes(suite: &Suite) -> Checked {
    let place = suite.place().await?;
    let plain = place.put("k", "0").await?;
    same("no version while off", plain.header("x-amz-version-id"), "")?;
    place.versioning("Enabled").await?;
    let one = place.put("k", "1").await?.header("x-amz-version-id").to_owned();
    let two = place.put("k", "2").await?.header("x-amz-version-id").to_owned();
    holds("versions differ", !one.is_empty() && one != two && two != "null")?;
    let current = place.get("k").await?;
    same("current", (current.text().as_str(), current.header("x-amz-version-id")), ("2", two.as_str()))?;
    for (version, body) in [(one.as_str(), "1"), (two.as_str(), "2"), ("null", "0")] {
        let got = place.send(place.ask("GET", "k", &format!("?versionId={version}"))).await?;
        same("body", got.text().as_str(), body)?;
    }
    let copied = place
        .ask("PUT", "copy", "")
        .header("x-amz-copy-source", format!("{}?versionId={one}", place.target("k")));
    let copied = place.send(copied).await?;
    same("source", copied.header("x-amz-copy-source-version-id"), one.as_str())?;
    same("copied", place.get("copy").await?.text().as_str(), "1")?;
    place.clean().await
}

/// A delete makes a marker; erasing the marker brings the object back.
pub(super) async fn markers(suite: &Suite) -> Checked {
    let place = suite.place().await?;
    place.versioning("Enabled").await?;
    place.put("k", "1").await?;
    let deleted = place.send(place.ask("DELETE", "k", "")).await?;
    expect(&deleted, 204)?;
    same("marked", deleted.header("x-amz-delete-marker"), "true")?;
    let marker = deleted.header("x-amz-version-id").to_owned();
    let got = place.get("k").await?;
    refused(&got, 404, "NoSuchKey")?;
    same("marked", got.header("x-amz-delete-marker"), "true")?;
    let named = place.send(place.ask("GET", "k", &format!("?versionId={marker}"))).await?;
    refused(&named, 405, "MethodNotAllowed")?;
    let list = place.send(place.about("GET", "?list-type=2")).await?;
    same("hidden", list.elements("Key").len(), 0)?;
    refused(&place.send(place.about("DELETE", "")).await?, 409, "BucketNotEmpty")?;
    let erased = place.send(place.ask("DELETE", "k", &format!("?versionId={marker}"))).await?;
    same("erased a marker", erased.header("x-amz-delete-marker"), "true")?;
    same("back", place.get("k").await?.text().as_str(), "1")?;
    place.clean().await
}

/// Suspended: the null version is replaced, others stay.
pub(super) async fn suspended(suite: &Suite) -> Checked {
    let place = suite.place().await?;
    place.versioning("Enabled").await?;
    let kept = place.put("k", "kept").await?.header("x-amz-version-id").to_owned();
    place.versioning("Suspended").await?;
    same("null", place.put("k", "a").await?.header("x-amz-version-id"), "null")?;
    place.put("k", "b").await?;
    let versions = place.send(place.about("GET", "?versions")).await?;
    same("two", versions.elements("VersionId").len(), 2)?;
    let got = place.send(place.ask("GET", "k", &format!("?versionId={kept}"))).await?;
    same("kept", got.text().as_str(), "kept")?;
    let deleted = place.send(place.ask("DELETE", "k", "")).await?;
    same("a null marker", deleted.header("x-amz-version-id"), "null")?;
    let versions = place.send(place.about("GET", "?versions")).await?;
    same("one and a marker", versions.text().matches("<DeleteMarker>").count(), 1)?;
    same("the marker took the null version's place", versions.elements("VersionId").len(), 2)?;
    place.clean().await
}

/// Versions newest first, in pages that go on within a key.
pub(super) async fn listing(suite: &Suite) -> Checked {
    let place = suite.place().await?;
    place.versioning("Enabled").await?;
    let mut made = Vec::new();
    for key in ["a", "a", "a", "b/1", "b/2", "c"] {
        let version = place.put(key, "the same").await?.header("x-amz-version-id").to_owned();
        made.push((key.to_owned(), version));
    }
    let mut wanted = vec![made[2].clone(), made[1].clone(), made[0].clone()];
    wanted.extend(made[3..].iter().cloned());
    for size in 1..=7 {
        let (mut found, mut from) = (Vec::new(), String::new());
        loop {
            let page = place.send(place.about("GET", &format!("?versions&max-keys={size}{from}"))).await?;
            expect(&page, 200)?;
            found.extend(page.elements("Key").into_iter().zip(page.elements("VersionId")));
            if page.element("IsTruncated") != "true" {
                break;
            }
            let (key, version) = (page.element("NextKeyMarker"), page.element("NextVersionIdMarker"));
            same("the marker", Some((&key, &version)), found.last().map(|(key, version)| (key, version)))?;
            from = format!("&key-marker={}&version-id-marker={version}", key.replace('/', "%2F"));
        }
        same("joined", &found, &wanted)?;
    }
    let all = place.send(place.about("GET", "?versions")).await?;
    same("latest", all.elements("IsLatest"), ["true", "false", "false", "true", "true", "true"])?;
    let folded = place.send(place.about("GET", "?versions&delimiter=%2F")).await?;
    same("folded", folded.elements("Key"), ["a", "a", "a", "c"])?;
    refused(&place.send(place.about("GET", "?versions&version-id-marker=x")).await?, 400, "InvalidArgument")?;
    // The marked key is outside of the prefix, or folded: none of its other versions is listed.
    for (key, query, keys) in [("a", "prefix=b", vec!["b/1", "b/2"]), ("b/1", "delimiter=%2F", vec!["c"])] {
        let (_, version) = made.iter().rev().find(|(made, _)| made == key).ok_or("made")?;
        let marks = format!("&key-marker={}&version-id-marker={version}", key.replace('/', "%2F"));
        let page = place.send(place.about("GET", &format!("?versions&{query}{marks}"))).await?;
        same(query, page.elements("Key"), keys)?;
    }
    place.clean().await
}

/// Versions and delete markers in one order: clients put back what stands together.
pub(super) async fn order(suite: &Suite) -> Checked {
    let place = suite.place().await?;
    place.versioning("Enabled").await?;
    for key in ["a", "b"] {
        place.put(key, "1").await?;
        expect(&place.send(place.ask("DELETE", key, "")).await?, 204)?;
        place.put(key, "2").await?;
    }
    expect(&place.send(place.ask("DELETE", "b", "")).await?, 204)?;
    let wanted = "vmv mvmv";
    for size in [1000, 2, 3] {
        let (mut found, mut from) = (String::new(), String::new());
        loop {
            let page = place.send(place.about("GET", &format!("?versions&max-keys={size}{from}"))).await?;
            expect(&page, 200)?;
            let text = page.text();
            let tags = text.split('<').filter_map(|tag| tag.split_once('>'));
            let kinds = tags.filter_map(|(tag, _)| match tag {
                "Version" => Some('v'),
                "DeleteMarker" => Some('m'),
                _ => None,
            });
            found.extend(kinds);
            if page.element("IsTruncated") != "true" {
                break;
            }
            let (key, version) = (page.element("NextKeyMarker"), page.element("NextVersionIdMarker"));
            from = format!("&key-marker={key}&version-id-marker={version}");
        }
        same("in order", found, wanted.replace(' ', ""))?;
    }
    let all = place.send(place.about("GET", "?versions")).await?;
    same("keys", all.elements("Key").join(""), "aaabbbb".to_owned())?;
    place.clean().await
}

/// A version that is named and empty is none, with versioning or without.
pub(super) async fn unnamed(suite: &Suite) -> Checked {
    let place = suite.place().await?;
    place.put("k", "x").await?;
    for status in ["", "Enabled"] {
        if !status.is_empty() {
            place.versioning(status).await?;
        }
        for method in ["GET", "DELETE"] {
            let answer = place.send(place.ask(method, "k", "?versionId=")).await?;
            refused(&answer, 400, "InvalidArgument")?;
        }
        expect(&place.send(place.ask("HEAD", "k", "?versionId=")).await?, 400)?;
        let copy = place.ask("PUT", "c", "");
        let copy = copy.header("x-amz-copy-source", format!("{}?versionId=", place.target("k")));
        refused(&place.send(copy).await?, 400, "InvalidArgument")?;
        same("it is there", place.get("k").await?.text().as_str(), "x")?;
    }
    place.clean().await
}

/// Each PUT makes a version, also of the bytes that are there already.
pub(super) async fn same_bytes(suite: &Suite) -> Checked {
    let place = suite.place().await?;
    place.versioning("Enabled").await?;
    let mut made = Vec::new();
    for _ in 0..3 {
        made.push(place.put("k", "x").await?.header("x-amz-version-id").to_owned());
    }
    made.reverse();
    let versions = place.send(place.about("GET", "?versions")).await?;
    same("all of them, the newest first", versions.elements("VersionId"), made)?;
    place.clean().await
}

/// What was erased is gone, and erasing again is fine.
pub(super) async fn erased(suite: &Suite) -> Checked {
    let place = suite.place().await?;
    place.versioning("Enabled").await?;
    let one = place.put("k", "1").await?.header("x-amz-version-id").to_owned();
    place.put("k", "2").await?;
    for _ in 0..2 {
        expect(&place.send(place.ask("DELETE", "k", &format!("?versionId={one}"))).await?, 204)?;
    }
    refused(&place.send(place.ask("GET", "k", &format!("?versionId={one}"))).await?, 404, "NoSuchVersion")?;
    let body = format!(
        "<Delete><Object><Key>k</Key></Object><Object><Key>k</Key><VersionId>{one}</VersionId></Object></Delete>"
    );
    let many = place.send(place.about("POST", "?delete").body(body)).await?;
    same("a marker", many.element("DeleteMarker").as_str(), "true")?;
    holds("with its version", !many.element("DeleteMarkerVersionId").is_empty())?;
    same("the current one is hidden", place.get("k").await?.status, 404)?;
    place.clean().await
}
