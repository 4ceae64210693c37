//! Administration of memberships: joining a bucket, leaving it, and when a read makes this site a member.
//!
//! Invariant: answered from this site alone; what takes time goes on without the one who asked for it.

use std::sync::Arc;

use skerry_gateway::service::{
    ErrorKind, FollowRequest, JoinRequest, JoiningBucket, MembershipState, Outcome, ServiceError, VERSION,
};
use skerry_model::bucket::Joins;

use crate::following;
use crate::leaving;
use crate::paths::bucket::Bucket;
use crate::site::Site;

/// Reads when a site becomes a member.
pub(crate) fn parse(text: &str) -> Outcome<Joins> {
    Joins::of_name(text).ok_or_else(|| {
        let message = format!("join is on-read, always, manual or never, not {text}");
        ServiceError::new(ErrorKind::InvalidArgument, message)
    })
}

/// What this site is to a bucket.
pub(crate) async fn state(site: &Arc<Site>, name: &str) -> Outcome<MembershipState> {
    let bucket = site.known(name).await?;
    let note = site.leaving.note(bucket.id);
    let standing = match &note {
        Some(_) => "leaving",
        None => standing(site, &bucket),
    };
    let mut note = note.unwrap_or_default();
    if standing == "joining" {
        note.reason = site.leaving.waits(bucket.id).unwrap_or_default();
    }
    Ok(MembershipState {
        version: VERSION,
        bucket: bucket.name.clone(),
        site: site.called(),
        standing: standing.into(),
        join: site.joins(&bucket).name().into(),
        join_here: site.joins_here(bucket.id).is_some(),
        reason: note.reason,
        versions: note.versions,
        bytes: note.bytes,
        sweeping: site.leaving.sweeps(bucket.id),
        prefixes: following::status(site, bucket.id).await?,
    })
}

/// In one word.
pub(crate) fn standing(site: &Site, bucket: &Bucket) -> &'static str {
    if site.leaving.note(bucket.id).is_some() {
        "leaving"
    } else if site.is_complete(bucket.id) {
        "member"
    } else if site.is_member(bucket.id) {
        "joining"
    } else {
        "none"
    }
}

/// Buckets that are named at most in one status.
const NAMED: usize = 16;

/// Those of which this site can take nothing for want of somebody who has all.
pub(crate) async fn waiting(site: &Site) -> Outcome<Vec<JoiningBucket>> {
    let incomplete = site.incomplete();
    let waits = site.leaving.all_waits().into_iter().filter(|(bucket, _)| incomplete.contains(bucket));
    let mut found = Vec::new();
    for (bucket, reason) in waits.take(NAMED) {
        let name = site.claim_of(bucket).await?.map_or_else(|| bucket.to_string(), |claim| claim.name);
        found.push(JoiningBucket { bucket: name, reason });
    }
    Ok(found)
}

/// Becomes a member, or says when.
pub(crate) async fn join(site: &Arc<Site>, name: &str, request: JoinRequest) -> Outcome<MembershipState> {
    let bucket = site.known(name).await?;
    match request.when.as_deref() {
        None => leaving::join(site, &bucket).await?,
        Some("bucket") => leaving::set_joins(site, bucket.id, None).await?,
        Some(when) => leaving::set_joins(site, bucket.id, Some(parse(when)?)).await?,
    }
    state(site, name).await
}

/// Begins to follow a prefix of it, or ends that.
pub(crate) async fn follow(site: &Arc<Site>, name: &str, request: FollowRequest) -> Outcome<MembershipState> {
    following::act(site, &site.known(name).await?, request).await?;
    state(site, name).await
}

/// Begins to leave.
pub(crate) async fn leave(site: &Arc<Site>, name: &str) -> Outcome<MembershipState> {
    leaving::begin(site, &site.known(name).await?).await?;
    state(site, name).await
}
