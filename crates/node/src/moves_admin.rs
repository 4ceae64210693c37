//! Sites that get another name or address, or are expelled, by an operator's word at any site.
//!
//! Before: the admin face. After: `roster_watch.rs`, at every site that hears of it. Invariants: who a site is stays: its id
//! and key; a name is believed only with an admission that an admin signed; what was expelled never belongs again.

use skerry_base::kv::View;
use skerry_base::limits::ADDRESSES;
use skerry_base::name::check_site_name;
use skerry_base::{SiteId, WallTime};
use skerry_gateway::service::{
    AddressRequest, AreaRequest, ErrorKind, ExpelRequest, Expelled, Outcome, RenameRequest, ServiceError,
    SiteStatus, VERSION,
};
use skerry_model::bucket::{self as model, AddressDocument, AreaDocument, SiteDocument, SiteState};

use crate::admin::{Admin, WRITER};
use crate::config::is_dialable;
use crate::credential_keys;
use crate::own_site::ADMISSIONS;
use crate::paths::bucket::Declared;
use crate::roster_watch;
use crate::site::unreadable;
use crate::sites_admin::{one, site_id};
use crate::trust::admission::federation_id;
use crate::trust::{PublicKey, SiteStatement, seat, verify_site_document};
use crate::welcome;

/// A site that belongs.
async fn member(admin: &Admin, name: &str) -> Outcome<SiteStatus> {
    let known = one(admin, name).await?;
    match known.state.as_str() {
        "member" => Ok(known),
        state => {
            let message = format!("{} is {state}: it is no site of the federation any more", known.name);
            Err(ServiceError::new(ErrorKind::NoSuchSite, message))
        }
    }
}

/// Gives a site another name. Only where an admin key lies: its signature is what others believe.
pub(crate) async fn rename(admin: &Admin, name: &str, request: RenameRequest) -> Outcome<SiteStatus> {
    let new = request.name;
    check_site_name(&new).map_err(|error| ServiceError::invalid(error.to_string()))?;
    let known = member(admin, name).await?;
    if known.name == new {
        return Ok(known);
    }
    let Some(key) = &admin.door.trust.admin else {
        let message = "this site holds no admin key, and a name is believed only with its signature; rename at the \
                       site that was made first";
        return Err(ServiceError::new(ErrorKind::AccessDenied, message));
    };
    let about = site_id(&known)?;
    let site = &admin.site;
    let taken = site.peers.roster.all().into_iter().any(|(id, other)| id != about && other.name == new);
    if taken {
        return Err(ServiceError::refused(format!(
            "there is a site named {new} already; choose another name"
        )));
    }
    refuse_names_of(admin, &new, Some(about)).await?;
    let system = site.system;
    let read = move |view: &dyn View| model::site(view, system, about).map_err(unreadable);
    let document = site.read(read).await?.ok_or_else(|| ServiceError::refused("the site has no record"))?;
    let node = document.nodes.first().ok_or_else(|| ServiceError::refused("the site has no node"))?;
    let root = &admin.door.trust.root;
    let statement = SiteStatement {
        federation: federation_id(root),
        site: about,
        name: new.clone(),
        node: PublicKey(node.key),
        admitted: after_all(site.clock.wall(), root, &document),
    };
    let mut admissions = vec![bytes::Bytes::from(key.admit(&statement).encode())];
    let (seats, before): (Vec<_>, Vec<_>) =
        document.admissions.iter().cloned().partition(|admission| seat::is_seat(admission));
    // The site itself keeps one for each name.
    admissions.extend(before.into_iter().take(ADMISSIONS - 1).chain(seats));
    let renamed = SiteDocument { name: new.clone(), admissions, ..document };
    declare(admin, about, renamed).await?;
    tracing::warn!(site = known.name, new, "a site was renamed");
    one(admin, &known.site).await
}

/// A name that may be given to a site, or to `about`: none that a bucket bears as if it were the site's own, and none that another
/// site bore.
pub(crate) async fn refuse_names_of(admin: &Admin, name: &str, about: Option<SiteId>) -> Outcome<()> {
    refuse_former_name(admin, name, about).await?;
    let (system, wanted) = (admin.site.system, name.to_owned());
    let read = move |view: &dyn View| {
        let all = model::list_buckets(view, system, None).map_err(unreadable)?;
        let mut names = all.into_iter().map(|found| found.claim.name);
        Ok(names.find(|bucket| model::reserved_for(bucket, |part| part == wanted).is_some()))
    };
    match admin.site.read(read).await? {
        Some(bucket) => Err(ServiceError::refused(format!(
            "the bucket {bucket} is named as if it were the site's own; choose another name than {name}"
        ))),
        None => Ok(()),
    }
}

/// A site that was called so before may have made buckets of its own name of which nobody has heard: whoever is called so next
/// would be taken for their home.
async fn refuse_former_name(admin: &Admin, name: &str, about: Option<SiteId>) -> Outcome<()> {
    let (system, root, wanted) = (admin.site.system, admin.door.trust.root, name.to_owned());
    let read = move |view: &dyn View| {
        let is_other = |id: &SiteId, known: &SiteDocument| {
            Some(*id) != about && known.state == SiteState::Member && known.name != wanted
        };
        let was = |admission: &bytes::Bytes| {
            verify_site_document(&root, admission).is_ok_and(|statement| statement.name == wanted)
        };
        let mut sites = model::sites(view, system).map_err(unreadable)?.into_iter();
        let bearer = sites.find(|(id, known)| is_other(id, known) && known.admissions.iter().any(was));
        Ok(bearer.map(|(_, known)| known.name))
    };
    match admin.site.read(read).await? {
        Some(now) => Err(ServiceError::refused(format!(
            "{now} was called {name} before, and may have buckets of that name which nobody has heard of yet; choose another name"
        ))),
        None => Ok(()),
    }
}

/// When an admission is said to be of: later than all that the document has, by whatever clock those were signed. The latest
/// names the site.
fn after_all(now: WallTime, root: &PublicKey, document: &SiteDocument) -> WallTime {
    let said = document.admissions.iter().filter_map(|admission| verify_site_document(root, admission).ok());
    let latest = said.map(|statement| statement.admitted).max();
    latest.map_or(now, |latest| now.max(WallTime(latest.0.saturating_add(1))))
}

async fn declare(admin: &Admin, about: SiteId, document: SiteDocument) -> Outcome<()> {
    welcome::declare(&admin.site, WRITER, about, document).await?;
    roster_watch::refresh(&admin.site, admin.door.trust.root).await
}

/// Says where a site is dialled, beside what it says itself.
pub(crate) async fn set_address(admin: &Admin, name: &str, request: AddressRequest) -> Outcome<SiteStatus> {
    let addresses = request.addresses;
    if addresses.len() > ADDRESSES {
        return Err(ServiceError::invalid(format!("at most {ADDRESSES} addresses")));
    }
    if let Some(wrong) = addresses.iter().find(|address| !is_dialable(address)) {
        return Err(ServiceError::invalid(format!(
            "`{wrong}` is not `host:port` or `[v6 address]:port` that can be dialled"
        )));
    }
    let known = member(admin, name).await?;
    let about = site_id(&known)?;
    let (system, at) = (admin.site.system, admin.site.id);
    let decide = move |view: &dyn View, said| {
        let word = AddressDocument { site: about, epoch: 0, addresses, said, at };
        let next = model::assign_address(view, system, word).map_err(unreadable)?;
        Ok(((), next.map(|(key, object)| Declared::document(key, object))))
    };
    admin.site.declare(WRITER, decide).await?;
    roster_watch::refresh(&admin.site, admin.door.trust.root).await?;
    one(admin, &known.site).await
}

/// Says which area a site stands in.
pub(crate) async fn set_area(admin: &Admin, name: &str, request: AreaRequest) -> Outcome<SiteStatus> {
    let area = request.area;
    if !area.is_empty() && !model::is_area_name(&area) {
        return Err(ServiceError::invalid(format!(
            "`{area}` is no name of an area: up to 32 of a-z, 0-9 and single hyphens between them, and none of each, all, \
             none, in"
        )));
    }
    let known = member(admin, name).await?;
    let about = site_id(&known)?;
    let (system, at) = (admin.site.system, admin.site.id);
    let decide = move |view: &dyn View, said| {
        let word = AreaDocument { site: about, epoch: 0, area, said, at };
        let next = model::assign_area(view, system, word).map_err(unreadable)?;
        Ok(((), next.map(|(key, object)| Declared::document(key, object))))
    };
    admin.site.declare(WRITER, decide).await?;
    roster_watch::refresh(&admin.site, admin.door.trust.root).await?;
    one(admin, &known.site).await
}

/// Expels a site: whoever hears of it refuses its certificate and counts what it held no more.
pub(crate) async fn expel(admin: &Admin, name: &str, _: ExpelRequest) -> Outcome<Expelled> {
    let known = member(admin, name).await?;
    if known.here {
        return Err(ServiceError::refused("this site cannot expel itself: say it at another one"));
    }
    let about = site_id(&known)?;
    let system = admin.site.system;
    let read = move |view: &dyn View| model::site(view, system, about).map_err(unreadable);
    let document = admin.site.read(read).await?;
    let document = document.ok_or_else(|| ServiceError::refused("the site has no record"))?;
    let exposed_keys = credential_keys::exposed_to(&admin.site, about).await?;
    declare(admin, about, SiteDocument { state: SiteState::Expelled, ..document }).await?;
    tracing::warn!(site = known.name, "a site was expelled");
    // Before it is needed: the others take a moment to be told. What is sealed looks for it again.
    if let Err(error) = credential_keys::sealer(&admin.site).await {
        tracing::warn!(%error, "a credential key that it does not have is made with the next access key");
    }
    Ok(Expelled { version: VERSION, site: one(admin, &known.site).await?, exposed_keys })
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use skerry_base::WallTime;

    use super::*;
    use crate::trust::founding::Founding;

    /// The machine of the admin key was ahead when the site joined, and was set right.
    #[test]
    fn a_rename_counts_after_what_a_clock_that_stood_ahead_had_signed() {
        let first = Founding::new("north", WallTime(2000)).unwrap().first;
        let document = |admissions: Vec<Vec<u8>>| SiteDocument {
            name: "north".into(),
            nodes: Vec::new(),
            admissions: admissions.into_iter().map(Into::into).collect(),
            state: SiteState::Member,
            joined: WallTime(2000),
        };
        let signed = document(vec![first.admission.encode()]);
        assert_eq!(after_all(WallTime(1000), &first.root, &signed), WallTime(2001));
        assert_eq!(after_all(WallTime(3000), &first.root, &signed), WallTime(3000));
        // What nobody signed does not count.
        let forged = document(vec![b"x".to_vec()]);
        assert_eq!(after_all(WallTime(1000), &first.root, &forged), WallTime(1000));
    }
}
