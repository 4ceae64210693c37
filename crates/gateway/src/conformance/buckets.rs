//! Buckets.

use super::client::Ask;
use super::suite::{Checked, Suite, expect, holds, refused, same};

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
    let body = "<CreateBucketConfiguration xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\
                <LocationConstraint>eu-west-1</LocationConstraint></CreateBucketConfiguration>";
    expect(&suite.send(Ask::new("PUT", format!("/{name}")).body(body)).await?, 200)?;
    expect(&suite.send(Ask::new("DELETE", format!("/{name}"))).await?, 204)
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
