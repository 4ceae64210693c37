//! The sites of the federation as an operator sees them, from the records and links of this site.
//!
//! Before: the admin face. Invariants: answered from this site alone, also while cut off; a site that was ever admitted
//! is shown for ever, also when it belongs no more.

use std::collections::BTreeMap;

use skerry_base::kv::View;
use skerry_base::{BucketId, SiteId};
use skerry_gateway::service::{
    DrainStatus, DutyRequest, ErrorKind, Outcome, REGISTER, RecoveryStatus, Replacing, ServiceError,
    SiteStatus, VERSION,
};
use skerry_model::bucket::{self as model, Duty, DutyDocument, DutyReport, OnDuty, SiteDocument, SiteState};

use crate::admin::{Admin, WRITER};
use crate::paths::bucket::Declared;
use crate::paths::members::{self, Unsent};
use crate::peers::roster::{Known, Place};
use crate::site::unreadable;
use crate::trust::PublicKey;
use crate::workers::drain;
use crate::{duties, roster_watch};

/// What the records of this site say of all sites.
struct Said {
    documents: Vec<(SiteId, SiteDocument)>,
    homes: BTreeMap<SiteId, Vec<String>>,
    /// Homes that were given to others because their site is gone.
    moved: BTreeMap<SiteId, u64>,
    dialled: BTreeMap<SiteId, Vec<String>>,
    areas: BTreeMap<SiteId, String>,
}

fn said(view: &dyn View, system: BucketId) -> Outcome<Said> {
    let documents = model::sites(view, system).map_err(unreadable)?;
    let (mut homes, mut moved): (BTreeMap<SiteId, Vec<String>>, BTreeMap<SiteId, u64>) = Default::default();
    let buckets = model::list_buckets(view, system, None).map_err(unreadable)?;
    let register = model::home(view, system, system).map_err(unreadable)?;
    let named = buckets.into_iter().filter_map(|bucket| bucket.home.map(|home| (bucket.name, home)));
    for (name, home) in register.map(|home| (REGISTER.to_owned(), home)).into_iter().chain(named) {
        homes.entry(home.site).or_default().push(name);
        if let model::HomeCause::Replaced(gone) = home.cause {
            *moved.entry(gone).or_default() += 1;
        }
    }
    let dialled = model::dialled(view, system).map_err(unreadable)?;
    let areas = model::areas(view, system).map_err(unreadable)?;
    Ok(Said { documents, homes, moved, dialled, areas })
}

/// All sites that were ever admitted, by name.
pub(crate) async fn all(admin: &Admin) -> Outcome<Vec<SiteStatus>> {
    let system = admin.site.system;
    let said = admin.site.read(move |view| said(view, system)).await?;
    let unsent = members::gaps(&admin.site).await?.unsent;
    let shown = |(id, document): &(SiteId, SiteDocument)| {
        shown(admin, &said, (*id, document), unsent.get(id).copied().unwrap_or_default())
    };
    let mut sites: Vec<SiteStatus> = said.documents.iter().map(shown).collect();
    sites.sort_by(|one, other| (&one.name, &one.site).cmp(&(&other.name, &other.site)));
    Ok(sites)
}

/// Refuses a name that several sites that belong have: which one is meant is not guessed.
pub(crate) fn refuse_several(name: &str, members: impl Iterator<Item = String>) -> Outcome<()> {
    let mut ids: Vec<String> = members.collect();
    if ids.len() < 2 {
        return Ok(());
    }
    ids.sort();
    let (several, ids) = (ids.len(), ids.join(", "));
    Err(ServiceError::refused(format!(
        "{several} sites are named {name}: say which by its id, {ids}; then rename one"
    )))
}

/// The site of this name or id. Of several of one name the one that belongs.
pub(crate) async fn one(admin: &Admin, name: &str) -> Outcome<SiteStatus> {
    let mut named: Vec<SiteStatus> = all(admin).await?;
    named.retain(|site| site.name == name || site.site == name);
    let members = named.iter().filter(|site| site.state == "member");
    refuse_several(name, members.map(|site| site.site.clone()))?;
    named.sort_by_key(|site| site.state != "member");
    named.into_iter().next().ok_or_else(|| ServiceError::no_such_site(name))
}

fn shown(admin: &Admin, said: &Said, (id, document): (SiteId, &SiteDocument), unsent: Unsent) -> SiteStatus {
    let duty = admin.site.duties.of(id);
    let here = id == admin.site.id;
    let loss = admin.site.copies.losses().remove(&id).filter(|loss| loss.is_lost);
    let node = document.nodes.first();
    let own = || node.map(|node| node.addresses.clone()).unwrap_or_default();
    let addresses = said.dialled.get(&id).cloned().unwrap_or_else(own);
    let name_of = |other: SiteId| {
        let found = said.documents.iter().find(|(site, _)| *site == other);
        found.map_or_else(|| other.to_string(), |(_, document)| document.name.clone())
    };
    let (state, replaced_by) = match document.state {
        SiteState::Member => ("member", String::new()),
        SiteState::Expelled => ("expelled", String::new()),
        SiteState::Replaced(by) => ("replaced", name_of(by)),
    };
    let known = node.map(|node| Known {
        name: document.name.clone(),
        key: PublicKey(node.key),
        addresses: addresses.clone(),
        place: Place::first(id),
        area: String::new(),
        pays: false,
    });
    let peer = known.filter(|_| !here).map(|known| admin.peer(id, &known, 0, unsent));
    let link = match &peer {
        _ if here => "this".into(),
        _ if document.state != SiteState::Member => "refused".into(),
        Some(peer) => peer.state.clone(),
        None => "unknown".into(),
    };
    SiteStatus {
        version: VERSION,
        site: id.to_string(),
        name: document.name.clone(),
        state: state.into(),
        replaced_by,
        lost_ms: loss.and_then(|loss| loss.since).map(|since| since.0),
        here,
        link,
        addresses,
        area: said.areas.get(&id).cloned().unwrap_or_default(),
        joined_ms: document.joined.0,
        rtt_ms: peer.as_ref().and_then(|peer| peer.rtt_ms),
        heard_ms: peer.as_ref().and_then(|peer| peer.heard_ms),
        unsent_records: if here { 0 } else { unsent.records },
        unsent_bytes: if here { 0 } else { unsent.bytes },
        homes: said.homes.get(&id).cloned().unwrap_or_default(),
        duty: duty_word(&duty).into(),
        duty_epoch: duty.epoch,
        duty_heard: duty.epoch == 0 || duty.report.is_some(),
        drain: duty.report.as_ref().filter(|_| duty.leaves()).map(drain_status),
        recovery: recovery(admin, said, id),
    }
}

/// How far this site is with the place of another.
fn recovery(admin: &Admin, said: &Said, gone: SiteId) -> Option<RecoveryStatus> {
    let shown = admin.site.replacing.of(gone)?;
    let left = said.homes.get(&gone).map_or(0, Vec::len) as u64;
    let homes_moved = said.moved.get(&gone).copied().unwrap_or_default();
    let homes_wait = why_homes_wait(admin, said, gone);
    Some(RecoveryStatus { homes_moved, homes: homes_moved + left, homes_wait, ..shown })
}

/// The places that this site takes.
pub(crate) async fn replacing(admin: &Admin) -> Outcome<Vec<Replacing>> {
    if admin.site.replacing.shown().is_empty() {
        return Ok(Vec::new());
    }
    let place =
        |site: SiteStatus| Some(Replacing { site: site.site, name: site.name, recovery: site.recovery? });
    Ok(all(admin).await?.into_iter().filter_map(place).collect())
}

/// Why homes of a gone site have not been given to others; empty if none waits.
pub(crate) async fn homes_wait(admin: &Admin, gone: SiteId) -> Outcome<String> {
    let system = admin.site.system;
    let said = admin.site.read(move |view| said(view, system)).await?;
    Ok(why_homes_wait(admin, &said, gone))
}

fn why_homes_wait(admin: &Admin, said: &Said, gone: SiteId) -> String {
    let Some(homes) = said.homes.get(&gone) else { return String::new() };
    if let Some(why) = admin.site.replacing.homes_wait().get(&gone) {
        return why.clone();
    }
    if homes.iter().any(|home| home == REGISTER) {
        return "it kept the register of names: the eldest site is to name another one".into();
    }
    let register = said.homes.iter().find(|(_, homes)| homes.iter().any(|home| home == REGISTER));
    let Some((register, _)) = register else {
        return "no site is known to keep the register of names".into();
    };
    let (name, here) = (admin.site.peers.roster.name(*register), *register == admin.site.id);
    match here || admin.site.linked(*register) {
        true => format!("{name}, which keeps the register of names, is about to give them to others"),
        false => format!(
            "{name}, which keeps the register of names, is to give them, and cannot be reached from here"
        ),
    }
}

/// Which site that is.
pub(crate) fn site_id(known: &SiteStatus) -> Outcome<SiteId> {
    known.site.parse().map_err(|_| ServiceError::invalid("the site has no id"))
}

/// What a site is there for, in a word.
pub(crate) fn duty_word(duty: &OnDuty) -> &'static str {
    if duty.is_empty() { "empty" } else { duties::word(duty.duty) }
}

fn drain_status(report: &DutyReport) -> DrainStatus {
    DrainStatus {
        records: report.records,
        bodies: report.bodies,
        bytes: report.bytes,
        homes: report.homes,
        uploads: report.uploads,
        ends_ms: report.ends.map(|ends| ends.0),
        waits_for: report.waits_for.clone(),
        said_ms: report.said.0,
    }
}

/// Says what a site is there for. When this is the site it is so when this returns: no write that was not decided by then
/// is acknowledged.
pub(crate) async fn set_duty(admin: &Admin, name: &str, request: DutyRequest) -> Outcome<SiteStatus> {
    let duty = match request.duty.as_str() {
        "serve" => Duty::Serve,
        "freeze" => Duty::Freeze,
        "drain" => Duty::Drain,
        other => return Err(ServiceError::invalid(format!("a duty is serve, freeze or drain, not {other}"))),
    };
    if request.abandon_uploads && duty != Duty::Drain {
        return Err(ServiceError::invalid("abandon_uploads goes with drain"));
    }
    let known = one(admin, name).await?;
    if known.state != "member" {
        let message = format!("{} is {}: it has no duty any more", known.name, known.state);
        return Err(ServiceError::new(ErrorKind::NoSuchSite, message));
    }
    let about = site_id(&known)?;
    let site = &admin.site;
    let (system, at) = (site.system, site.id);
    let decide = move |view: &dyn View, said| {
        let abandon_uploads = request.abandon_uploads;
        let word = DutyDocument { site: about, epoch: 0, duty, abandon_uploads, said, at };
        let next = model::assign_duty(view, system, word).map_err(unreadable)?;
        Ok((next.is_some(), next.map(|(key, object)| Declared::document(key, object))))
    };
    if site.declare(WRITER, decide).await? {
        tracing::warn!(
            site = known.name,
            duty = duties::word(duty),
            "an operator said what a site is there for"
        );
    }
    roster_watch::refresh(site, admin.door.trust.root).await?;
    let own = site.duties.own();
    if about == site.id && own.report.is_none() {
        drain::heard(site, own.epoch).await?;
        roster_watch::refresh(site, admin.door.trust.root).await?;
    }
    one(admin, name).await
}
