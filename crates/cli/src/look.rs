//! What an act is about, looked up before the act: for a dry run, and for a question that says what follows.
//!
//! Invariants: nothing is changed; what is not there is refused here with the exit code that the act itself would end with. What
//! only the act can find out (an admin key that is lacking, a link that is down) is not found out here.

use skerry_node::admin_shapes::{
    BucketStatus, KeyList, KeyStatus, NodesReport, SiteList, SiteStatus, StatusReport,
};

use crate::admin::segment;
use crate::arguments::Globals;
use crate::exit::{Failure, Outcome};
use crate::output;
use crate::place::Site;

/// A refusal in the words of the site that would refuse the act.
pub(crate) fn refused(asked: &Site, why: impl std::fmt::Display) -> Failure {
    Failure::refused(format!("{}: {why}", asked.client.endpoint))
}

/// How much of an id is shown.
const ID_SHOWN: usize = 8;

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

/// The id of the site that is meant by a name, an id, or the beginning of an id as lists show it; else as it was said.
pub(crate) async fn meant(asked: &Site, said: &str) -> Outcome<String> {
    let list: SiteList = asked.client.get("/_skerry/v1/sites").await?;
    Ok(only_one(&list.sites, said).unwrap_or(said).to_owned())
}

fn only_one<'a>(sites: &'a [SiteStatus], said: &str) -> Option<&'a str> {
    let is_named = sites.iter().any(|site| site.name == said);
    let mut begin = sites.iter().filter(|site| !is_named && site.site.starts_with(said));
    let only = begin.next().filter(|_| said.len() >= ID_SHOWN)?;
    begin.next().is_none().then_some(only.site.as_str())
}

/// A site as it is told from others: of those that belong no more with the beginning of the id, which [`meant`] takes.
pub(crate) fn called(site: &SiteStatus) -> String {
    match site.state.as_str() {
        "member" => site.name.clone(),
        _ => format!("{} ({})", site.name, short(&site.site)),
    }
}

/// The same in a list: also members that share a name are told apart.
pub(crate) fn called_among(sites: &[SiteStatus], site: &SiteStatus) -> String {
    let is_member = |site: &&SiteStatus| site.state == "member";
    let is_shared = sites.iter().filter(is_member).filter(|other| other.name == site.name).count() > 1;
    if is_shared { format!("{} ({})", site.name, short(&site.site)) } else { called(site) }
}

/// The beginning of an id.
pub(crate) fn short(id: &str) -> String {
    id.chars().take(ID_SHOWN).collect()
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

/// That a site has a seat, and that it can be given: as far as the site that is asked knows, which is one of its nodes.
pub(crate) async fn seat(asked: &Site, of: &str, seat: u32, replace: bool) -> Outcome<()> {
    let report: StatusReport = asked.client.get("/_skerry/v1/status").await?;
    match unseated(&report.site_name, report.nodes.as_ref(), (of, seat), replace) {
        Some(why) => Err(refused(asked, why)),
        None => Ok(()),
    }
}

/// Why a seat cannot be given, in the words of the site.
fn unseated(
    asked: &str,
    nodes: Option<&NodesReport>,
    (of, seat): (&str, u32),
    replace: bool,
) -> Option<String> {
    let Some(nodes) = nodes else {
        return (asked == of).then(|| {
            format!(
                "{of} has no seat {seat}: it is one node (site.seats = 1). Set site.seats in its skerry.toml to the number of its \
                 nodes, start it anew, then invite"
            )
        });
    };
    if nodes.site_name != of {
        return None;
    }
    let Some(there) = nodes.nodes.iter().find(|node| node.seat == seat) else {
        let (seats, last) = (nodes.seats, nodes.seats.saturating_sub(1));
        return Some(format!("{of} has no seat {seat}: with site.seats = {seats} it has seats 0 to {last}"));
    };
    match (there.name.as_str(), replace) {
        ("", true) => Some(format!("seat {seat} of {of} is vacant: there is nobody to replace")),
        ("", false) | (_, true) => None,
        (holder, false) => Some(format!(
            "seat {seat} of {of} is filled by {holder}; to put another machine there, say that it replaces it (--replace)"
        )),
    }
}

/// How many sites belong.
pub(crate) async fn members(asked: &Site) -> Outcome<u64> {
    let list: SiteList = asked.client.get("/_skerry/v1/sites").await?;
    Ok(list.sites.iter().filter(|site| site.state == "member").count() as u64)
}

/// That no site is called so, but the one that is meant.
pub(crate) async fn free_name(asked: &Site, name: &str, meant: Option<&SiteStatus>) -> Outcome<()> {
    let list: SiteList = asked.client.get("/_skerry/v1/sites").await?;
    let is_other = |site: &SiteStatus| meant.is_none_or(|meant| meant.site != site.site);
    let mut members = list.sites.iter().filter(|site| site.state == "member" && is_other(site));
    match members.find(|site| site.name == name) {
        Some(_) => Err(Failure::refused(format!(
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

#[cfg(test)]
mod tests {
    use skerry_node::admin_shapes::NodeStatus;

    use super::*;

    fn site(name: &str, id: &str, state: &str) -> SiteStatus {
        SiteStatus { name: name.into(), site: id.into(), state: state.into(), ..SiteStatus::default() }
    }

    #[test]
    fn a_seat_that_is_not_there_or_filled_is_refused_before_it_is_given() {
        let node = |seat, name: &str| NodeStatus { seat, name: name.into(), ..NodeStatus::default() };
        let nodes = NodesReport {
            site_name: "lisbon".into(),
            seats: 3,
            nodes: vec![node(0, "lisbon"), node(1, "lisbon-2"), node(2, "")],
            ..NodesReport::default()
        };
        let said = |nodes: Option<&NodesReport>, seat, replace| {
            unseated("lisbon", nodes, ("lisbon", seat), replace).unwrap_or_default()
        };
        assert!(said(Some(&nodes), 3, false).contains("has no seat 3"), "beyond the last one");
        assert!(said(Some(&nodes), 1, false).contains("filled by lisbon-2"));
        assert!(said(Some(&nodes), 2, true).contains("nobody to replace"));
        assert_eq!((said(Some(&nodes), 2, false), said(Some(&nodes), 1, true)), Default::default());
        assert!(said(None, 1, false).contains("site.seats = 1"));
        assert_eq!(unseated("oslo", None, ("lisbon", 1), false), None, "only its own nodes know");
    }

    #[test]
    fn two_sites_of_one_name_are_told_apart() {
        let gone = site("barn", "dbac612c00", "replaced");
        assert_eq!(called(&gone), "barn (dbac612c)");
        let sites = [site("barn", "0123456789", "member"), gone, site("dbac612c", "ff00ff00ff", "member")];
        assert_eq!(called(&sites[0]), "barn");
        assert_eq!(only_one(&sites[..2], "dbac612c"), Some("dbac612c00"));
        assert_eq!(only_one(&sites[..2], "dbac"), None, "too little to be meant");
        assert_eq!(only_one(&sites, "dbac612c"), None, "a name goes before an id");
        let alike = [site("a", "dbac612c00", "member"), site("b", "dbac612c01", "member")];
        assert_eq!(only_one(&alike, "dbac612c"), None);
        let twins = [site("west", "0123456789", "member"), site("west", "1123456789", "member")];
        assert_eq!(called_among(&twins, &twins[1]), "west (11234567)");
        assert_eq!(called_among(&twins[..1], &twins[0]), "west");
    }
}
