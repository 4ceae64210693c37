//! Lost sites: declared by an operator, heard of others, taken back by word or by the site itself.
//!
//! Before: the admin face, the system bucket. After: `copies` counts what they hold no more, so that the custodian
//! after them has copies made again; `paths/lost.rs` shows an older version of what only they had. Invariants: nothing
//! is deleted; a site that is there again with the disk that was meant takes the word back by itself, with another
//! disk only an operator does; that a site was lost once is not forgotten when it is found.

use std::collections::BTreeMap;
use std::sync::Arc;

use skerry_base::kv::View;
use skerry_base::{SiteId, WallTime};
use skerry_gateway::service::{LossState, Outcome, ServiceError, VERSION};
use skerry_model::bucket::{self as model, LossDocument, LossRefusal, SiteDocument, SiteState, list_buckets};

use super::lives;
use crate::paths::bucket::{Bucket, Declared};
use crate::site::{Site, unreadable};

/// What is known of a site that is lost, or was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Loss {
    /// What people called it.
    pub(crate) name: String,
    /// When it was declared lost last; none if it was expelled without that.
    pub(crate) since: Option<WallTime>,
    /// Whether its copies count no more now.
    pub(crate) is_lost: bool,
    /// Whether it belongs no more: for good.
    pub(crate) is_gone: bool,
    /// Whether anything of its disk had been heard where it was declared lost: without that nobody can tell it from another.
    pub(crate) knows_disk: bool,
}

/// What the site records and the words about losses say together.
pub(crate) fn known(
    documents: &[(SiteId, SiteDocument)],
    said: &[(SiteId, LossDocument)],
) -> BTreeMap<SiteId, Loss> {
    let said: BTreeMap<&SiteId, &LossDocument> =
        said.iter().map(|(site, document)| (site, document)).collect();
    let mut losses = BTreeMap::new();
    for (site, document) in documents {
        let (said, is_gone) = (said.get(site), document.state != SiteState::Member);
        if said.is_none() && !is_gone {
            continue;
        }
        let is_lost = is_gone || said.is_some_and(|said| said.is_lost());
        let (name, since) = (document.name.clone(), said.map(|said| said.since));
        let knows_disk = said.is_some_and(|said| !said.lives.is_empty());
        losses.insert(*site, Loss { name, since, is_lost, is_gone, knows_disk });
    }
    losses
}

/// How many sites are declared lost and not back, and how many belong no more. The latter count as lost for ever.
pub(crate) fn counts(losses: &BTreeMap<SiteId, Loss>) -> [usize; 2] {
    let gone = losses.values().filter(|loss| loss.is_gone).count();
    let declared = losses.values().filter(|loss| loss.is_lost && !loss.is_gone).count();
    [declared, gone]
}

/// This site hears that it is declared lost. It is not, if its disk is the one that was meant.
pub(crate) async fn come_back(site: &Site) -> Outcome<()> {
    let (system, me) = (site.system, site.id);
    let decide = move |view: &dyn View, wall| {
        let lives = lives::read(view).map_err(unreadable)?;
        let word = model::take_back_loss(view, system, me, lives, wall).map_err(unreadable)?;
        Ok((word.is_some(), word.map(|word| Declared::document(word.key, word.object))))
    };
    let is_back = site.declare("", decide).await?;
    let knows_disk = site.copies.losses().get(&me).is_none_or(|loss| loss.knows_disk);
    let name = site.called();
    match (is_back, knows_disk) {
        (true, _) => tracing::warn!("this site was declared lost; it is there with its disk, and says so"),
        (false, true) => tracing::warn!(
            site = name,
            "this site was declared lost and its disk is another one than then: its copies count once an operator says \
             `skerry site declare-found`"
        ),
        (false, false) => tracing::warn!(
            site = name,
            "this site was declared lost where nothing of its disk had been heard, so that nobody can tell whether this is that \
             disk: its copies count once an operator who knows says `skerry site declare-found`"
        ),
    }
    Ok(())
}

/// A site by its name, or by its id; one that belongs before one that does not.
pub(crate) async fn named(site: &Site, name: &str) -> Outcome<(SiteId, SiteDocument)> {
    let system = site.system;
    let all = site.read(move |view| model::sites(view, system).map_err(unreadable)).await?;
    let fits = |(id, document): &(SiteId, SiteDocument)| document.name == name || id.to_string() == name;
    let mut found: Vec<_> = all.into_iter().filter(fits).collect();
    let members = found.iter().filter(|(_, document)| document.state == SiteState::Member);
    crate::sites_admin::refuse_several(name, members.map(|(id, _)| id.to_string()))?;
    found.sort_by_key(|(_, document)| document.state != SiteState::Member);
    found.into_iter().next().ok_or_else(|| ServiceError::no_such_site(name))
}

/// Declares a site lost or found.
pub(crate) async fn declare(site: &Arc<Site>, writer: &str, name: &str, lost: bool) -> Outcome<LossState> {
    let (target, _) = named(site, name).await?;
    let (system, me) = (site.system, site.id);
    let decide = move |view: &dyn View, wall| {
        let word = model::declare_loss(view, system, (target, lost), me, wall).map_err(refused)?;
        Ok((word.is_some(), word.map(|word| Declared::document(word.key, word.object))))
    };
    if site.declare(writer, decide).await? {
        tracing::warn!(event = "loss", site = name, lost, "an operator declared a site lost or found");
    }
    refresh(site).await?;
    state(site, name).await
}

/// Takes note of what the records say now, before anybody is answered.
pub(crate) async fn refresh(site: &Site) -> Outcome<bool> {
    let system = site.system;
    let read = move |view: &dyn View| {
        let documents = model::sites(view, system).map_err(unreadable)?;
        Ok(known(&documents, &model::losses(view, system).map_err(unreadable)?))
    };
    let losses = site.read(read).await?;
    let changed = site.copies.set_losses(losses);
    if changed {
        site.changes.belonging();
    }
    Ok(changed)
}

fn refused(error: LossRefusal) -> ServiceError {
    match error {
        LossRefusal::Space(error) => unreadable(error),
        other => ServiceError::refused(other.to_string()),
    }
}

/// What was said of a site, and what depends on it beside copies.
pub(crate) async fn state(site: &Arc<Site>, name: &str) -> Outcome<LossState> {
    let (target, document) = named(site, name).await?;
    let system = site.system;
    let read = move |view: &dyn View| {
        let said = model::loss(view, system, target).map_err(unreadable)?;
        let register = model::register(view, system).map_err(unreadable)? == Some(target);
        let all = list_buckets(view, system, None).map_err(unreadable)?.into_iter().map(Bucket::of);
        let homes = all.filter(|bucket| bucket.epoch.is_some() && bucket.home == target);
        Ok((said, register, homes.map(|bucket| bucket.name).collect()))
    };
    let (said, register, homes) = site.read(read).await?;
    let gone = document.state != SiteState::Member;
    Ok(LossState {
        version: VERSION,
        site: document.name,
        lost: gone || said.as_ref().is_some_and(LossDocument::is_lost),
        expelled: gone,
        declared_ms: said.as_ref().map(|said| said.since.0),
        said_ms: said.as_ref().map(|said| said.said.0),
        said_by: said.as_ref().map(|said| site.peers.roster.name(said.by)),
        count: said.as_ref().map_or(0, |said| said.count),
        linked: target == site.id || site.linked(target),
        homes,
        register,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_expelled_is_no_alarm_that_never_ends() {
        let loss = |is_lost, is_gone| {
            let (name, since, knows_disk) = ("cabin".into(), None, true);
            Loss { name, since, is_lost, is_gone, knows_disk }
        };
        let found = (SiteId([1; 16]), loss(false, false));
        let declared = (SiteId([2; 16]), loss(true, false));
        let gone = [3, 4].map(|id| (SiteId([id; 16]), loss(true, true)));
        assert_eq!(counts(&BTreeMap::from([found.clone()])), [0, 0]);
        assert_eq!(counts(&gone.clone().into_iter().collect()), [0, 2]);
        assert_eq!(counts(&gone.into_iter().chain([found, declared]).collect()), [1, 2]);
    }
}
