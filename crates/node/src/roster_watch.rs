//! Keeps the roster, the network's peers and the machine's view of the sites in step with the site records.
//!
//! Invariant: a site is dialled and listened to only if its record carries an admission signed under the
//! federation's root for exactly that site and key, whoever sent the record.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use skerry_base::kv::View;
use skerry_base::{SiteId, WallTime};
use skerry_federation::{Input, SiteEntry};
use skerry_gateway::service::Outcome;
use skerry_model::bucket::{SiteDocument, SiteState, areas, dialled, duties, metered, sites};

use crate::copies::loss;
use crate::init;
use crate::own_site;
use crate::paths::refusal;
use crate::peers::roster::{Known, Place, Was};
use crate::replacing;
use crate::site::{Site, unreadable};
use crate::trust::{PublicKey, seat, verify_site_document};

/// After how long what failed is tried again, though nothing changed.
const AGAIN: Duration = Duration::from_secs(10);

/// Reads the site records once and tells who needs to know.
pub(crate) async fn refresh(site: &Arc<Site>, root: PublicKey) -> Outcome<()> {
    tell(site, root).await?;
    come_back(site, &mut None).await
}

/// The same without what this site says of itself when it is declared lost.
async fn tell(site: &Arc<Site>, root: PublicKey) -> Outcome<()> {
    let _turn = site.duties.turn.lock().await;
    let system = site.system;
    let read = move |view: &dyn View| {
        let documents = sites(view, system).map_err(unreadable)?;
        let on_duty = duties(view, system).map_err(unreadable)?;
        let areas = areas(view, system).map_err(unreadable)?;
        let pay = metered(view, system).map_err(unreadable)?;
        Ok((documents, on_duty, dialled(view, system).map_err(unreadable)?, areas, pay))
    };
    let (documents, on_duty, moved, areas, pay) = site.read(read).await?;
    let is_gone = |(_, document): &&(SiteId, SiteDocument)| document.state != SiteState::Member;
    let gone =
        documents.iter().filter(is_gone).filter_map(|(id, document)| admitted(&root, *id, document, None));
    // Who is refused for it is told so: before its link is dropped.
    site.peers.net().set_gone(gone.collect());
    // Each is told once it can be seen: who waits was woken by the records before, and may have looked too early.
    if site.duties.set(on_duty) {
        site.changes.belonging();
    }
    // What a site held that belongs no more, or is declared lost, counts no more, and what it wrote is another's to care for.
    loss::refresh(site).await?;
    // Likewise one that is about to go, but for itself: it cares for what it holds to the last.
    if site.copies.set_leaving(site.duties.leaving().into_iter().filter(|id| *id != site.id).collect()) {
        site.changes.belonging();
    }
    let was = |(id, document): &(SiteId, SiteDocument)| {
        let belongs = document.state == SiteState::Member;
        Some((*id, Was { place: place_of(&root, *id, document)?, belongs }))
    };
    if site.peers.roster.set_ever(documents.iter().filter_map(was).collect()) {
        site.changes.belonging();
    }
    let known =
        |(id, document): (SiteId, SiteDocument)| trusted(&root, id, &document).map(|known| (id, known));
    let mut known: BTreeMap<SiteId, Known> = documents.into_iter().filter_map(known).collect();
    for (id, addresses) in moved {
        if let Some(known) = known.get_mut(&id) {
            known.addresses = addresses;
        }
    }
    for (id, area) in areas {
        if let Some(known) = known.get_mut(&id) {
            known.area = area;
        }
    }
    for (id, known) in &mut known {
        known.pays = pay.contains(id);
    }
    // Before the machine forgets what it heard of them.
    let going = site.peers.roster.all().into_keys().filter(|id| !known.contains_key(id)).collect();
    replacing::remember(site, going).await?;
    let entries = known.iter().map(|(site, known)| SiteEntry { site: *site, pays: known.pays }).collect();
    if site.peers.roster.replace(known) {
        site.peers.uplink.set_lan(site.peers.roster.fellows(site.id));
        // Before there can be a link to them: what somebody says is refused who is not in it.
        // Whom this site shares with it is known by then, too.
        site.drive.tell(Input::Fellows(site.peers.roster.others(site.id)));
        site.drive.tell(Input::Roster(entries));
        site.peers.net().set_paid(site.peers.roster.paid(site.id));
        site.peers.net().set_peers(site.peers.roster.peers());
        site.changes.belonging();
        init::keep_roster(site).await;
    }
    site.duties.call(site.called());
    own_site::keep(site).await
}

/// A site that is declared lost says that it is there, once for each time it is declared so: `said` is the last of them.
async fn come_back(site: &Arc<Site>, said: &mut Option<WallTime>) -> Outcome<()> {
    let lost = site.copies.losses().get(&site.id).filter(|loss| loss.is_lost && !loss.is_gone).cloned();
    let Some(since) = lost.and_then(|loss| loss.since) else { return Ok(()) };
    if *said != Some(since) {
        loss::come_back(site).await?;
        *said = Some(since);
    }
    Ok(())
}

/// Refreshes after every change of the system bucket.
pub(crate) async fn watch(site: Arc<Site>, root: PublicKey) {
    let mut changes = site.changes.follow_system();
    changes.mark_changed();
    let (mut said, mut failed) = (None, false);
    loop {
        match tokio::time::timeout(AGAIN, changes.changed()).await {
            Ok(Err(_)) => return,
            Err(_) if !failed => continue,
            Ok(Ok(())) | Err(_) => {}
        }
        let told = tell(&site, root).await;
        let told = match told {
            Ok(()) => come_back(&site, &mut said).await,
            error => error,
        };
        failed = told.is_err();
        if let Err(error) = refusal::unless_full("what this site says of itself", told) {
            tracing::error!(%error, "the site records cannot be read, or this site cannot say that it is not lost");
        }
    }
}

/// The seat that an admin key gave to a node, whether or not it still belongs; the first of its own site if none did.
fn place_of(root: &PublicKey, id: SiteId, document: &SiteDocument) -> Option<Place> {
    let key = PublicKey(document.nodes.first()?.key);
    let seated = seat::seat_in(document.admissions.iter().map(AsRef::as_ref), root, id, &key);
    Some(seated.map_or(Place::first(id), Place::of))
}

/// The key of the site's node, if an admin admitted it for exactly this site, under this name if one is given.
pub(crate) fn admitted(
    root: &PublicKey,
    id: SiteId,
    document: &SiteDocument,
    name: Option<&str>,
) -> Option<PublicKey> {
    let node = document.nodes.first()?;
    let fits = |admission: &bytes::Bytes| {
        verify_site_document(root, admission).is_ok_and(|statement| {
            let is_called = name.is_none_or(|name| statement.name == name);
            statement.site == id && statement.node.0 == node.key && is_called
        })
    };
    document.admissions.iter().any(fits).then_some(PublicKey(node.key))
}

fn trusted(root: &PublicKey, id: SiteId, document: &SiteDocument) -> Option<Known> {
    if document.state != SiteState::Member {
        return None;
    }
    let node = document.nodes.first()?;
    if admitted(root, id, document, Some(&document.name)).is_none() {
        tracing::warn!(site = %id, name = document.name, "a site record without a valid admission is ignored");
        return None;
    }
    let (name, key) = (document.name.clone(), PublicKey(node.key));
    let admissions = || document.admissions.iter().map(AsRef::as_ref);
    let seated = seat::seat_in(admissions(), root, id, &key);
    if seated.is_none() && admissions().any(seat::is_seat) {
        tracing::warn!(site = %id, name, "a site record claims a seat without a valid admission: it has none");
    }
    let place = seated.map_or(Place::first(id), Place::of);
    let addresses = node.addresses.clone();
    Some(Known { name, key, addresses, place, area: String::new(), pays: false })
}
