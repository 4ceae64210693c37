//! Settings that no bucket has: read as none, deleted as gone, refused where they are set. And what is known of an object, as a
//! document.

use super::client::etag_of;
use super::suite::{Checked, Suite, expect, holds, pattern, refused, same};

/// Sub-resource and code of what S3 answers for a bucket without it.
const MISSING: [(&str, &str); 11] = [
    ("cors", "NoSuchCORSConfiguration"),
    ("encryption", "ServerSideEncryptionConfigurationNotFoundError"),
    ("lifecycle", "NoSuchLifecycleConfiguration"),
    ("object-lock", "ObjectLockConfigurationNotFoundError"),
    ("ownershipControls", "OwnershipControlsNotFoundError"),
    ("policy", "NoSuchBucketPolicy"),
    ("policyStatus", "NoSuchBucketPolicy"),
    ("publicAccessBlock", "NoSuchPublicAccessBlockConfiguration"),
    ("replication", "ReplicationConfigurationNotFoundError"),
    ("tagging", "NoSuchTagSet"),
    ("website", "NoSuchWebsiteConfiguration"),
];
/// Those of them that cannot be deleted in S3 either.
const KEPT: [&str; 2] = ["object-lock", "policyStatus"];

/// None is there, taking it away succeeds, setting it is refused; of a bucket that is not there nothing is said.
pub(super) async fn none(suite: &Suite) -> Checked {
    let place = suite.place().await?;
    for (name, code) in MISSING {
        let query = format!("?{name}");
        let within = |what: String| format!("?{name}: {what}");
        refused(&place.send(place.about("GET", &query)).await?, 404, code).map_err(within)?;
        refused(&place.send(place.about("PUT", &query)).await?, 501, "NotImplemented").map_err(within)?;
        let deleted = place.send(place.about("DELETE", &query)).await?;
        match KEPT.contains(&name) {
            true => refused(&deleted, 501, "NotImplemented").map_err(within)?,
            false => expect(&deleted, 204).map_err(within)?,
        }
    }
    for (name, element) in [
        ("accelerate", "AccelerateConfiguration"),
        ("logging", "BucketLoggingStatus"),
        ("notification", "NotificationConfiguration"),
    ] {
        let answer = place.send(place.about("GET", &format!("?{name}"))).await?;
        expect(&answer, 200)?;
        holds("the document is empty", answer.element(element).is_empty())?;
        holds("it is the document", answer.text().contains(element))?;
    }
    let payer = place.send(place.about("GET", "?requestPayment")).await?;
    same("payer", payer.element("Payer").as_str(), "BucketOwner")?;
    place.clean().await?;
    for query in ["?policy", "?acl", "?logging"] {
        refused(&place.send(place.about("GET", query)).await?, 404, "NoSuchBucket")?;
    }
    refused(&place.send(place.about("DELETE", "?policy")).await?, 404, "NoSuchBucket")
}

/// All is private to its owner; only that can be asked for.
pub(super) async fn acls(suite: &Suite) -> Checked {
    let place = suite.place().await?;
    place.put("k", "x").await?;
    for ask in [place.about("GET", "?acl"), place.ask("GET", "k", "?acl")] {
        let answer = place.send(ask).await?;
        expect(&answer, 200)?;
        let ids = answer.elements("ID");
        holds("the owner has the one grant", ids.len() == 2 && ids[0] == ids[1] && !ids[0].is_empty())?;
        same("permissions", answer.elements("Permission"), vec!["FULL_CONTROL".to_owned()])?;
    }
    for key in [None, Some("k")] {
        let ask = || key.map_or_else(|| place.about("PUT", "?acl"), |key| place.ask("PUT", key, "?acl"));
        for acl in ["private", "bucket-owner-full-control"] {
            expect(&place.send(ask().header("x-amz-acl", acl)).await?, 200)?;
        }
        let public = place.send(ask().header("x-amz-acl", "public-read")).await?;
        refused(&public, 501, "NotImplemented")?;
        refused(&place.send(ask()).await?, 501, "NotImplemented")?;
        let both = ask().header("x-amz-acl", "private").body("<AccessControlPolicy/>");
        refused(&place.send(both).await?, 501, "NotImplemented")?;
    }
    refused(&place.send(place.ask("GET", "no", "?acl")).await?, 404, "NoSuchKey")?;
    let absent = place.ask("PUT", "no", "?acl").header("x-amz-acl", "private");
    refused(&place.send(absent).await?, 404, "NoSuchKey")?;
    // There is no lock to pass over.
    let bypass = place.ask("DELETE", "k", "").header("x-amz-bypass-governance-retention", "true");
    expect(&place.send(bypass).await?, 204)?;
    expect(&place.send(place.ask("DELETE", "k", "?tagging")).await?, 404)?;
    place.put("k", "x").await?;
    expect(&place.send(place.ask("DELETE", "k", "?tagging")).await?, 204)?;
    place.clean().await
}

/// GetObjectAttributes.
pub(super) async fn attributes(suite: &Suite) -> Checked {
    let place = suite.place().await?;
    let body = pattern(5000);
    place.put("k", body.clone()).await?;
    let ask = |names: &str| place.ask("GET", "k", "?attributes").header("x-amz-object-attributes", names);
    let all = place.send(ask("ETag,Checksum,ObjectParts, StorageClass,ObjectSize")).await?;
    expect(&all, 200)?;
    same("ETag without quotes", all.element("ETag"), etag_of(&body).trim_matches('"').to_owned())?;
    same("size", all.element("ObjectSize").as_str(), "5000")?;
    same("class", all.element("StorageClass").as_str(), "STANDARD")?;
    holds("the checksum that every object has", !all.element("ChecksumCRC64NVME").is_empty())?;
    holds("an object in one piece has no parts", !all.text().contains("ObjectParts"))?;
    holds("it has a date", all.header("last-modified").ends_with("GMT"))?;
    let one = place.send(ask("ObjectSize")).await?;
    holds("only what was asked for", !one.text().contains("ETag") && !one.text().contains("StorageClass"))?;
    let page = |size: &str| {
        ask("ObjectParts").header("x-amz-max-parts", size).header("x-amz-part-number-marker", "0")
    };
    expect(&place.send(page("1000")).await?, 200)?;
    refused(&place.send(page("many")).await?, 400, "InvalidArgument")?;
    refused(&place.send(ask("Colour")).await?, 400, "InvalidArgument")?;
    refused(&place.send(ask(" ,")).await?, 400, "InvalidArgument")?;
    refused(&place.send(place.ask("GET", "k", "?attributes")).await?, 400, "InvalidArgument")?;
    place.clean().await
}
