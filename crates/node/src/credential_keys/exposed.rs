//! Which access keys sites that are gone may know, and which do not open here.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use skerry_base::SiteId;
use skerry_base::kv::View;
use skerry_gateway::service::Outcome;
use skerry_model::bucket::{self as model, KeyDocument, KeyStatus, Sealer};

use super::{Known, pause};
use crate::site::{Site, unreadable};
use crate::tasks::rest;

/// All access keys, and the names of sites that are gone and may know each.
pub(crate) async fn exposed(site: &Arc<Site>) -> Outcome<Vec<(String, KeyDocument, Vec<String>)>> {
    let reader = site.clone();
    let read = move |view: &dyn View| {
        let known = Known::load(&reader, view)?;
        let mut names: BTreeMap<Sealer, Vec<String>> = BTreeMap::new();
        let keys = model::keys(view, reader.system).map_err(unreadable)?.into_iter().map(|(id, key)| {
            let known_to = known
                .sealer(&reader, &id, &key)
                .map(|sealer| names.entry(sealer).or_insert_with(|| known.names(sealer)).clone());
            (id, key, known_to.unwrap_or_default())
        });
        Ok(keys.collect())
    };
    site.read(read).await
}

/// Access keys that work and that a site may know.
pub(crate) async fn exposed_to(site: &Arc<Site>, gone: SiteId) -> Outcome<Vec<String>> {
    let reader = site.clone();
    let read = move |view: &dyn View| {
        let (known, gone) = (Known::load(&reader, view)?, [gone].into());
        let keys = model::keys(view, reader.system).map_err(unreadable)?.into_iter();
        let works = keys.filter(|(_, key)| key.status == KeyStatus::Active);
        let knows = |key: &KeyDocument| !known.keys.known_to(known.keys.of(&key.secret), &gone).is_empty();
        Ok(works.filter(|(_, key)| knows(key)).map(|(id, _)| id).collect())
    };
    site.read(read).await
}

pub(super) async fn count(site: &Arc<Site>) {
    let mut changes = site.changes.follow_system();
    loop {
        changes.mark_unchanged();
        let begun = site.clock.now();
        match counted(site).await {
            Ok(counted) => {
                for (count, now) in site.credentials.counts.iter().zip(counted) {
                    count.store(now, Ordering::Relaxed);
                }
            }
            Err(error) => tracing::warn!(%error, "access keys were not counted"),
        }
        rest(pause(site.clock.now().since(begun))).await;
        tokio::select! {
            changed = changes.changed() => if changed.is_err() {
                return;
            },
            // Which changes no record.
            () = site.credentials.told.notified() => {}
        }
    }
}

/// What [`Keys::counts`] gives back.
async fn counted(site: &Arc<Site>) -> Outcome<[usize; 2]> {
    let reader = site.clone();
    let read = move |view: &dyn View| {
        let known = Known::load(&reader, view)?;
        if known.gone.is_empty() && known.keys.latest_first().next().is_none() {
            return Ok([0, 0]);
        }
        let mut counted = [0, 0];
        for (id, key) in model::keys(view, reader.system).map_err(unreadable)? {
            let sealer = known.sealer(&reader, &id, &key);
            let is_here = |sealer| match sealer {
                Sealer::First => true,
                Sealer::Later(id) => reader.credentials.ring.has(id),
            };
            let is_missing = !sealer.is_some_and(is_here);
            let is_exposed =
                sealer.is_some_and(|sealer| !known.keys.known_to(sealer, &known.gone).is_empty());
            if key.status == KeyStatus::Active {
                counted[0] += usize::from(is_missing);
                counted[1] += usize::from(is_exposed);
            }
        }
        Ok(counted)
    };
    site.read(read).await
}
