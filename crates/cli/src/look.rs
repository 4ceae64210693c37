//! What an act is about, looked up before the act: for a dry run, and for a question that says what follows.
//!
//! Invariants: nothing is changed; what is not there is refused here with the exit code that the act itself would end with. What
//! only the act can find out (an admin key that is lacking, a link that is down) is not found out here.

use skerry_node::admin_shapes::{BucketStatus, KeyList, KeyStatus, SiteList, SiteStatus};

use crate::admin::segment;
use crate::arguments::Globals;
use crate::exit::{Failure, Outcome};
use crate::output;
use crate::place::Site;

/// Whether this is a dry run: then what the act is about was looked at, and the act is named.
pub(crate) async fn dry_run(
    globals: &Globals,
    act: &str,
    about: impl Future<Output = Outcome<()>>,
) -> Outcome<bool> {
    if globals.dry_run {
        about.await?;
    }
    output::dry_run(globals.dry_run, act, globals.json)
}

/// A site that was ever admitted.
pub(crate) async fn site(asked: &Site, name: &str) -> Outcome<SiteStatus> {
    asked.client.get(&format!("/_skerry/v1/sites/{}", segment(name))).await
}

/// A site that belongs.
pub(crate) async fn member(asked: &Site, name: &str) -> Outcome<SiteStatus> {
    let found = site(asked, name).await?;
    match found.state.as_str() {
        "member" => Ok(found),
        state => Err(Failure::refused(format!(
            "{}: {} is {state}: it is no site of the federation any more",
            asked.client.endpoint, found.name
        ))),
    }
}

/// That no site is called so, but the one that is meant.
pub(crate) async fn free_name(asked: &Site, name: &str, meant: Option<&SiteStatus>) -> Outcome<()> {
    let list: SiteList = asked.client.get("/_skerry/v1/sites").await?;
    let is_other = |site: &SiteStatus| meant.is_none_or(|meant| meant.site != site.site);
    let mut members = list.sites.iter().filter(|site| site.state == "member" && is_other(site));
    match members.find(|site| site.name == name) {
        Some(_) => Err(Failure::usage(format!(
            "{}: there is a site named {name} already; choose another name",
            asked.client.endpoint
        ))),
        None => Ok(()),
    }
}

/// A bucket.
pub(crate) async fn bucket(asked: &Site, name: &str) -> Outcome<BucketStatus> {
    asked.client.get(&bucket_path(name)).await
}

/// That no bucket is called so.
pub(crate) async fn no_bucket(asked: &Site, name: &str) -> Outcome<()> {
    match asked.client.find::<BucketStatus>(&bucket_path(name)).await? {
        Some(_) => {
            Err(Failure::refused(format!("{}: there is a bucket {name} already", asked.client.endpoint)))
        }
        None => Ok(()),
    }
}

fn bucket_path(name: &str) -> String {
    format!("/_skerry/v1/buckets/{}", segment(name))
}

/// All access keys.
pub(crate) async fn keys(asked: &Site) -> Outcome<Vec<KeyStatus>> {
    let list: KeyList = asked.client.get("/_skerry/v1/keys").await?;
    Ok(list.keys)
}

/// The access keys that work.
pub(crate) async fn working_keys(asked: &Site) -> Outcome<Vec<String>> {
    Ok(keys(asked).await?.into_iter().filter(|key| key.enabled).map(|key| key.id).collect())
}

/// An access key.
pub(crate) async fn key(asked: &Site, id: &str) -> Outcome<KeyStatus> {
    let missing = || {
        let why = "it was never made, or word of it has not arrived yet";
        Failure::refused(format!("{}: the access key {id} is not known here; {why}", asked.client.endpoint))
    };
    keys(asked).await?.into_iter().find(|key| key.id == id).ok_or_else(missing)
}
