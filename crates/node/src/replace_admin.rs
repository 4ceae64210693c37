//! A new machine takes the place of a site that is gone for ever, by an operator's word at any other site.
//!
//! Before: the admin face. After: `roster_watch.rs` at every site that hears of it, `workers/replace.rs` at the newcomer,
//! `workers/replaced_homes.rs` where the register of names is kept. Invariants: said once, in one commit; who answers is not
//! gone; what was said is not said otherwise later.

use std::time::Duration;

use skerry_base::SiteId;
use skerry_base::kv::View;
use skerry_gateway::service::{Outcome, RenameRequest, ReplaceRequest, ReplacedSite, ServiceError, VERSION};
use skerry_model::bucket::{self as model, ReplaceRefusal, SiteDocument, SiteState};

use crate::admin::{Admin, WRITER};
use crate::credential_keys;
use crate::paths::bucket::Declared;
use crate::peers::message::Request;
use crate::roster_watch;
use crate::site::unreadable;
use crate::sites_admin::{one, refuse_several};
use crate::trust::{seat, verify_site_document};
use crate::workers::replaced_homes;

/// How long a site that is said to be gone may take to answer all the same.
const ANSWERS: Duration = Duration::from_secs(3);

/// The two sites that are meant.
struct Meant {
    gone: (SiteId, SiteDocument),
    by: (SiteId, SiteDocument),
}

/// Says that a site is gone and who takes its place.
pub(crate) async fn replace(admin: &Admin, name: &str, request: ReplaceRequest) -> Outcome<ReplacedSite> {
    let Meant { gone, by } = meant(admin, name, &request.by).await?;
    check(admin, &gone, &by).await?;
    let (gone, by, old_name) = (gone.0, by.0, gone.1.name);
    let site = &admin.site;
    let (system, me) = (site.system, site.id);
    let names = site.peers.roster.all();
    let decide = move |view: &dyn View, wall| {
        let refuse = |error| match error {
            ReplaceRefusal::Space(error) => unreadable(error),
            ReplaceRefusal::By(before) => {
                let by = names.get(&before).map_or_else(|| before.to_string(), |known| known.name.clone());
                ServiceError::refused(format!(
                    "its place was taken by {by} already; if {by} is gone as well: `skerry site replace {by} --by NEW`"
                ))
            }
            other => ServiceError::refused(other.to_string()),
        };
        let documents = model::replace_site(view, system, (gone, by), me, wall).map_err(refuse)?;
        let said = !documents.is_empty();
        Ok((said, said.then_some(Declared { documents, join: None, ends: Vec::new() })))
    };
    let exposed_keys = credential_keys::exposed_to(site, gone).await?;
    if site.declare(WRITER, decide).await? {
        tracing::warn!(
            site = old_name,
            by = site.peers.roster.name(by),
            "the place of a site is taken by another"
        );
    }
    roster_watch::refresh(site, admin.door.trust.root).await?;
    let name_kept = match request.keep_name {
        true => String::new(),
        false => take_name(admin, by, old_name).await,
    };
    if let Err(error) = credential_keys::sealer(site).await {
        tracing::warn!(%error, "a credential key that it does not have is made with the next access key");
    }
    let site = one(admin, &gone.to_string()).await?;
    let homes_wait = crate::sites_admin::homes_wait(admin, gone).await?;
    Ok(ReplacedSite {
        version: VERSION,
        by: one(admin, &by.to_string()).await?,
        site,
        name_kept,
        homes_wait,
        exposed_keys,
    })
}

/// The newcomer is called as the gone one was; else why not.
async fn take_name(admin: &Admin, by: SiteId, name: String) -> String {
    // Somebody may know of a bucket that is named as the gone site's own.
    if let Err(error) = replaced_homes::all_heard(&admin.site).await {
        return format!("{}; say this once more then", error.message());
    }
    let renamed = crate::moves_admin::rename(admin, &by.to_string(), RenameRequest { name }).await;
    renamed.err().map(|error| error.message().to_owned()).unwrap_or_default()
}

/// A site with who stands where it stood.
type Standing = (SiteId, SiteDocument, Option<SiteId>);

/// Which sites are meant. Said once more, the newcomer may be called as the gone one was meanwhile.
async fn meant(admin: &Admin, name: &str, by: &str) -> Outcome<Meant> {
    let (site, root) = (&admin.site, admin.door.trust.root);
    let system = site.system;
    let read = move |view: &dyn View| {
        let mut found: Vec<Standing> = Vec::new();
        for (id, document) in model::sites(view, system).map_err(unreadable)? {
            let stands = model::successor(view, system, id).map_err(unreadable)?;
            found.push((id, document, stands));
        }
        Ok(found)
    };
    let all = site.read(read).await?;
    let is = |(id, document, _): &Standing, name: &str| document.name == name || id.to_string() == name;
    let was = |(id, document, _): &&Standing| {
        let called = |admission: &bytes::Bytes| {
            verify_site_document(&root, admission).is_ok_and(|statement| statement.name == by)
        };
        let took = |gone: &Standing| {
            is(gone, name) && matches!(gone.1.state, SiteState::Replaced(_)) && gone.2 == Some(*id)
        };
        all.iter().any(took) && document.admissions.iter().any(called)
    };
    let members = || all.iter().filter(|(_, document, _)| document.state == SiteState::Member);
    let called = |name: &str| members().filter(|site| is(site, name)).map(|(id, ..)| *id).collect::<Vec<_>>();
    refuse_several(by, called(by).iter().map(ToString::to_string))?;
    let found = members().find(|site| is(site, by)).or_else(|| members().find(was));
    let (new, of_new, _) = found.ok_or_else(|| ServiceError::no_such_site(by))?;
    let others = called(name).into_iter().filter(|id| id != new);
    refuse_several(name, others.map(|id| id.to_string()))?;
    let mut named: Vec<_> = all.iter().filter(|site| is(site, name)).collect();
    named.sort_by_key(|(id, document, _)| (id == new, document.state != SiteState::Member));
    let (gone, of_gone, _) = named.first().ok_or_else(|| ServiceError::no_such_site(name))?;
    Ok(Meant { gone: (*gone, of_gone.clone()), by: (*new, of_new.clone()) })
}

/// What a word alone does not tell.
async fn check(
    admin: &Admin,
    (gone, of_gone): &(SiteId, SiteDocument),
    (by, of_by): &(SiteId, SiteDocument),
) -> Outcome<()> {
    let site = &admin.site;
    for (id, document) in [(gone, of_gone), (by, of_by)] {
        let seated = document.admissions.iter().any(|admission| seat::is_seat(admission));
        let has_more =
            site.peers.roster.all().iter().any(|(other, known)| known.place.site == *id && other != id);
        if seated || has_more {
            return Err(ServiceError::refused(format!(
                "{} is a node of a site of several: another machine is given its seat by `skerry invite NAME --node-of \
                 SITE --seat N --replace`",
                document.name
            )));
        }
    }
    if site.copies.losses().get(by).is_some_and(|loss| loss.is_lost) {
        return Err(ServiceError::refused(format!(
            "{0} is declared lost: `skerry site declare-found {0}` first, or name another site",
            of_by.name
        )));
    }
    if site.duties.of(*by).leaves() {
        return Err(ServiceError::refused(format!(
            "{0} is being emptied: `skerry site resume {0}` first, or name another site",
            of_by.name
        )));
    }
    if gone != by && *gone != site.id && site.linked(*gone) {
        let size = Request::Size { bucket: site.system };
        let answer = tokio::time::timeout(ANSWERS, site.peers.call(*gone, &size)).await;
        if answer.is_ok_and(|answer| answer.is_ok()) {
            return Err(ServiceError::refused(format!(
                "{0} is not gone: it answers. To switch it off without losing anything: `skerry site drain {0}`; if it \
                 is in wrong hands: `skerry site expel {0}`, then this",
                of_gone.name
            )));
        }
    }
    Ok(())
}
