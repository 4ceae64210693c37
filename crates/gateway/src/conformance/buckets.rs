//! Buckets.

use super::client::Ask;
use super::multipart;
use super::suite::{Checked, Suite, expect, holds, pattern, refused, same};

/// Made, found, listed, made again, deleted, gone.
pub(super) async fn life(suite: &Suite) -> Checked {
    let place = suite.place().await?;
    expect(&place.send(place.about("HEAD", "")).await?, 200)?;
    let list = suite.send(Ask::new("GET", "/")).await?;
    holds("it is listed", list.elements("Name").contains(&place.name))?;
    holds("its date is a date", list.element("CreationDate").ends_with('Z'))?;
    refused(&place.send(place.about("PUT", "")).await?, 409, "BucketAlreadyOwnedByYou")?;
    expect(&place.send(place.about("DELETE", "")).await?, 204)?;
    expect(&place.send(place.about("HEAD", "")).await?, 404)?;
    refused(&place.send(place.about("DELETE", "")).await?, 404, "NoSuchBucket")?;
    let list = suite.send(Ask::new("GET", "/")).await?;
    holds("it is not listed", !list.elements("Name").contains(&place.name))
}

/// What is no name is refused by name.
pub(super) async fn names(suite: &Suite) -> Checked {
    for name in ["ab", "UPPER", "under_score", "-dash", "dash-", "dot..dot", "10.0.0.1", "xn--a"] {
        refused(&suite.send(Ask::new("PUT", format!("/{name}"))).await?, 400, "InvalidBucketName")?;
    }
    let long = suite.send(Ask::new("PUT", format!("/{}", "a".repeat(64)))).await?;
    refused(&long, 400, "InvalidBucketName")
}

/// A location is answered as it was asked, or empty.
pub(super) async fn location(suite: &Suite) -> Checked {
    let place = suite.place().await?;
    let answer = place.send(place.about("GET", "?location")).await?;
    expect(&answer, 200)?;
    holds("the document is a location", answer.text().contains("<LocationConstraint"))?;
    place.clean().await?;
    let name = suite.name();
    let make = |location: &str| {
        let body = format!(
            "<CreateBucketConfiguration xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\
             <LocationConstraint>{location}</LocationConstraint></CreateBucketConfiguration>"
        );
        suite.send(Ask::new("PUT", format!("/{name}")).body(body))
    };
    for odd in ["not a region", &"r".repeat(65)] {
        refused(&make(odd).await?, 400, "InvalidLocationConstraint")?;
    }
    expect(&make("eu-west-1").await?, 200)?;
    let asked = suite.send(Ask::new("GET", format!("/{name}?location"))).await?;
    holds("its location is the one asked for", asked.text().contains(">eu-west-1</LocationConstraint>"))?;
    let head = suite.send(Ask::new("HEAD", format!("/{name}"))).await?;
    same("region", head.header("x-amz-bucket-region"), "eu-west-1")?;
    expect(&suite.send(Ask::new("DELETE", format!("/{name}"))).await?, 204)
}

/// Uploads in parts that nobody finished end with their bucket, and are not those of the next one of its name.
pub(super) async fn unfinished(suite: &Suite) -> Checked {
    let place = suite.place().await?;
    let mut ids = Vec::new();
    for key in ["a", "b", "b"] {
        let id = multipart::begin(&place, key).await?;
        expect(&place.send(multipart::part(&place, key, &id, 1, pattern(100_000))).await?, 200)?;
        ids.push((key, id));
    }
    expect(&place.send(place.about("DELETE", "")).await?, 204)?;
    refused(&place.send(place.about("GET", "?uploads")).await?, 404, "NoSuchBucket")?;
    expect(&place.send(place.about("PUT", "")).await?, 200)?;
    let list = place.send(place.about("GET", "?uploads")).await?;
    same("none", list.elements("UploadId").len(), 0)?;
    for (key, id) in &ids {
        let target = format!("?uploadId={id}");
        refused(&place.send(place.ask("GET", key, &target)).await?, 404, "NoSuchUpload")?;
        refused(&place.send(place.ask("DELETE", key, &target)).await?, 404, "NoSuchUpload")?;
    }
    place.clean().await
}

/// Off is silent, then on, then suspended.
pub(super) async fn versioning_states(suite: &Suite) -> Checked {
    let place = suite.place().await?;
    let status =
        async || place.send(place.about("GET", "?versioning")).await.map(|answer| answer.element("Status"));
    same("off", status().await?, "")?;
    for state in ["Enabled", "Suspended", "Enabled"] {
        place.versioning(state).await?;
        same("state", status().await?, state)?;
    }
    let off = "<VersioningConfiguration><Status>Off</Status></VersioningConfiguration>";
    refused(&place.send(place.about("PUT", "?versioning").body(off)).await?, 400, "MalformedXML")?;
    place.clean().await
}

/// ListBuckets by prefix and in pages.
pub(super) async fn list_pages(suite: &Suite) -> Checked {
    let (one, two) = (suite.place().await?, suite.place().await?);
    let prefix = "conformance-";
    let first = suite.send(Ask::new("GET", format!("/?prefix={prefix}&max-buckets=1"))).await?;
    same("one name", first.elements("Name").len(), 1)?;
    let token = first.element("ContinuationToken");
    holds("there is more", !token.is_empty())?;
    let second = suite.send(Ask::new("GET", format!("/?prefix={prefix}&continuation-token={token}"))).await?;
    for wrong in ["0", "10001", "x"] {
        refused(
            &suite.send(Ask::new("GET", format!("/?max-buckets={wrong}"))).await?,
            400,
            "InvalidArgument",
        )?;
    }
    holds("the page goes on", !second.elements("Name").contains(&first.element("Name")))?;
    one.clean().await?;
    two.clean().await
}

/// A bucket with an object stays.
pub(super) async fn not_empty(suite: &Suite) -> Checked {
    let place = suite.place().await?;
    place.put("k", "x").await?;
    refused(&place.send(place.about("DELETE", "")).await?, 409, "BucketNotEmpty")?;
    place.clean().await
}

/// Everything about a bucket that is not there.
pub(super) async fn unknown(suite: &Suite) -> Checked {
    let name = suite.name();
    for (method, rest) in [
        ("GET", ""),
        ("GET", "?list-type=2"),
        ("GET", "?location"),
        ("GET", "?versions"),
        ("GET", "?uploads"),
        ("GET", "/key"),
        ("PUT", "/key"),
        ("DELETE", "/key"),
        ("POST", "/key?uploads"),
    ] {
        let answer = suite.send(Ask::new(method, format!("/{name}{rest}"))).await?;
        refused(&answer, 404, "NoSuchBucket").map_err(|what| format!("{method} {rest}: {what}"))?;
    }
    Ok(())
}
