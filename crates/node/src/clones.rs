//! Processes that run beside another with the same key: a directory, a card or a machine was copied, and both run.
//!
//! What is decided is decided by [`skerry_federation::clones`]; here it is asked, remembered and carried out. The network
//! turns a clone away at the greeting when the process that is linked answers; what nobody sees at one place is found by
//! asking one other site now and then whom it is linked with.
//!
//! Invariants: what was found is stored before it counts here; nothing is found without three answers that follow one
//! another; a process that is told that it is the copy, and is linked with nobody, takes no writes: what it would
//! acknowledge might be thrown away with it. It begins to take them again when somebody links it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use skerry_base::codec;
use skerry_base::kv::{Table, View};
use skerry_base::{Instant, NodeId, SiteId};
use skerry_federation::clones::{Clones as Machine, Findings, Linked, Suspicion, Word};
use skerry_gateway::service::Outcome;
use skerry_model::Entry;

use crate::net::Meeting;
use crate::peers::message::{Request, Response};
use crate::site::{Site, entry};
use crate::tasks::rest;
use crate::trust::entropy;

/// Its name in this node's own table.
const KEY: &[u8] = b"clones";
/// How often it is seen who is linked, and who says what of this process.
const LOOK: Duration = Duration::from_millis(250);
/// How often one other site is asked whom it is linked with.
const ASK: Duration = Duration::from_secs(300);
/// The same where what crosses is paid for.
const ASK_PAID: Duration = Duration::from_secs(6 * 3600);
/// The first time, and after another life of a node was linked: for who has just met somebody it is news.
const SOON: Duration = Duration::from_secs(20);
/// A clone that was turned away so long ago is gone: one that runs comes again every half minute.
const RECENT: Duration = Duration::from_secs(600);

/// What this site knows of clones.
pub(crate) struct Clones {
    machine: Mutex<Machine>,
    /// When somebody turned a clone of this very node away, as others said.
    own: Mutex<Option<Instant>>,
    /// When somebody is asked next.
    ask_at: Mutex<Instant>,
}

impl Clones {
    /// A process begins, with what was found before.
    pub(crate) fn resume(me: NodeId, view: &dyn View) -> Result<Self, skerry_model::space::SpaceError> {
        let stored = view.get(Table::Local, KEY)?;
        let findings = match stored.map(|bytes| codec::decode::<Findings>(&bytes)).transpose() {
            Ok(findings) => findings.unwrap_or_default(),
            Err(error) => {
                tracing::warn!(%error, "what was found of clones cannot be read: it is found again");
                Findings::default()
            }
        };
        let machine = Mutex::new(Machine::resume(me, findings));
        Ok(Self { machine, own: Mutex::default(), ask_at: Mutex::new(Instant(0).after(SOON)) })
    }

    fn machine(&self) -> MutexGuard<'_, Machine> {
        self.machine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ask_by(&self, at: Instant) {
        let mut ask_at = self.ask_at.lock().unwrap_or_else(PoisonError::into_inner);
        *ask_at = at.min(*ask_at);
    }

    /// Lives that are refused, of all nodes.
    pub(crate) fn refused(&self) -> BTreeMap<NodeId, BTreeSet<u64>> {
        self.machine().all_refused()
    }
}

/// How long ago a clone of a node was turned away, here or, of this very node, anywhere; none if that is long ago.
pub(crate) fn turned_away(site: &Site, node: NodeId) -> Option<Duration> {
    let ago = if node == site.stamps.origin.node {
        let own = *site.clones.own.lock().unwrap_or_else(PoisonError::into_inner);
        own.map(|at| site.clock.now().since(at))
    } else {
        site.peers.net().turned_away().get(&node).copied()
    };
    ago.filter(|ago| *ago < RECENT)
}

/// Nodes of which a clone was turned away lately.
pub(crate) fn copied(site: &Site) -> usize {
    let away = site.peers.net().turned_away();
    away.values().filter(|ago| **ago < RECENT).count()
}

/// Answers who is linked here.
pub(crate) fn word(site: &Site) -> Word {
    let away = site.peers.net().turned_away();
    let away = away.into_iter().filter(|(_, ago)| *ago < RECENT);
    let away = away.map(|(node, ago)| (node, u64::try_from(ago.as_millis()).unwrap_or(u64::MAX)));
    site.clones.machine().word(&away.collect(), site.clock.now())
}

/// Runs until the server stops.
pub(crate) async fn work(site: Arc<Site>) {
    site.peers.net().set_refused(site.clones.refused());
    tokio::join!(look(&site), ask(&site));
}

async fn look(site: &Arc<Site>) {
    loop {
        let net = site.peers.net();
        let lives = net.lives();
        let is_out = lives.is_empty() && !net.copied_by().is_empty();
        site.duties.set_copied(is_out);
        let now = site.clock.now();
        if site.clones.machine().set_linked(&lives, now) {
            site.clones.ask_by(now.after(SOON));
        }
        for meeting in net.meetings() {
            if let Err(error) = met(site, meeting).await {
                tracing::warn!(%error, "what was found of a clone could not be stored");
            }
        }
        rest(LOOK).await;
    }
}

async fn ask(site: &Arc<Site>) {
    loop {
        rest(LOOK).await;
        let now = site.clock.now();
        let is_due = *site.clones.ask_at.lock().unwrap_or_else(PoisonError::into_inner) <= now;
        if !is_due {
            continue;
        }
        let (linked, pause) = asked_next(site.boxes.linked(), |other| site.peers.is_paid(other));
        *site.clones.ask_at.lock().unwrap_or_else(PoisonError::into_inner) = now.after(pause);
        let drawn = (entropy::share() * linked.len() as f64) as usize;
        if let Some(other) = linked.get(drawn)
            && let Err(error) = hear(site, *other).await
        {
            tracing::warn!(%error, "what was found of a clone could not be stored");
        }
    }
}

/// Of whom one is asked, and how long it is until the next is. An answer names all links of who gives it: where somebody pays
/// for it that is much, so others are asked, if there are any. Where nobody is linked nothing was asked.
fn asked_next(linked: Vec<SiteId>, is_paid: impl Fn(SiteId) -> bool) -> (Vec<SiteId>, Duration) {
    let free: Vec<SiteId> = linked.iter().copied().filter(|other| !is_paid(*other)).collect();
    match free.is_empty() && !linked.is_empty() {
        true => (linked, ASK_PAID),
        false => (free, ASK),
    }
}

/// A clone was turned away at the door. Before it is decided which of the two is served the others are asked: this site may
/// have been started a moment ago.
async fn met(site: &Arc<Site>, meeting: Meeting) -> Outcome<()> {
    let Meeting { node, stood, came } = meeting;
    let mut there = Linked { life: came, for_ms: 0 };
    for other in site.boxes.linked() {
        let Some(word) = asked(site, other).await else { continue };
        take(site, &word).await?;
        let known = word.linked.iter().filter(|(of, linked)| *of == node && linked.life == came);
        there.for_ms = known.map(|(_, linked)| linked.for_ms).fold(there.for_ms, u64::max);
    }
    let here = site.clones.machine().linked(node, site.clock.now()).filter(|here| here.life == stood);
    // It answered a moment ago; if its link broke since it counts as just met.
    let here = here.unwrap_or(Linked { life: stood, for_ms: 0 });
    decide(site, node, here, there).await
}

/// Asks one site whom it is linked with, and proves what that lets suspect.
pub(crate) async fn hear(site: &Arc<Site>, other: SiteId) -> Outcome<()> {
    let Some(word) = asked(site, other).await else { return Ok(()) };
    for Suspicion { node, here, there } in take(site, &word).await? {
        let net = site.peers.net();
        let is_proven = net.answers(node, here.life).await
            && confirmed(site, other, (node, there.life)).await
            && net.answers(node, here.life).await;
        if is_proven {
            decide(site, node, here, there).await?;
        }
    }
    Ok(())
}

async fn asked(site: &Site, other: SiteId) -> Option<Word> {
    match site.peers.call(other, &Request::Lives).await.map(|answer| answer.response) {
        Ok(Response::Lives(word)) => Some(*word),
        // Away, or of a release before.
        _ => None,
    }
}

async fn confirmed(site: &Site, other: SiteId, (node, life): (NodeId, u64)) -> bool {
    let answer = site.peers.call(other, &Request::IsLive { node, life }).await;
    matches!(answer.map(|answer| answer.response), Ok(Response::IsLive(true)))
}

/// Takes over what another site says.
async fn take(site: &Arc<Site>, word: &Word) -> Outcome<Vec<Suspicion>> {
    let (me, now) = (site.stamps.origin.node, site.clock.now());
    if let Some((_, ago)) = word.turned_away.iter().find(|(node, _)| *node == me) {
        let at = Instant(now.0.saturating_sub(ago.saturating_mul(1_000_000)));
        let mut own = site.clones.own.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = own.is_none_or(|own| now.since(own) > RECENT);
        *own = Some(own.map_or(at, |own| own.max(at)));
        drop(own);
        if is_new {
            tracing::warn!(
                "another process runs with this site's key, and was turned away elsewhere: stop one of the two"
            );
        }
    }
    let (suspicions, is_news) = site.clones.machine().hear(word, now);
    if is_news {
        remember(site).await?;
    }
    Ok(suspicions)
}

async fn decide(site: &Arc<Site>, node: NodeId, here: Linked, there: Linked) -> Outcome<()> {
    if site.clones.machine().prove(node, here, there) {
        let name = site.peers.roster.node_name(node);
        let is_kept = !site.clones.machine().refused(node).contains(&here.life);
        tracing::warn!(
            event = "clone",
            peer = name,
            kept = if is_kept { "the one linked here" } else { "the other one" },
            "two processes run with the key of this site: its directory or disk was copied and both were started; stop one"
        );
        remember(site).await?;
    }
    Ok(())
}

/// Stores what was found, then lets it count.
async fn remember(site: &Arc<Site>) -> Outcome<()> {
    let findings = site.clones.machine().findings();
    let value = Some(Bytes::from(codec::encode(&findings)));
    let store =
        move |_: &dyn View| Ok(((), vec![entry(&Entry::Local { key: Bytes::from_static(KEY), value })]));
    site.commit(site.system, (), store).await?;
    site.peers.net().set_refused(site.clones.refused());
    // Others are to hear it, and what they say of it is to be heard.
    site.clones.ask_by(site.clock.now().after(SOON));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_pays_is_asked_seldom_and_only_where_nobody_else_is() {
        let [one, two] = [SiteId([1; 16]), SiteId([2; 16])];
        assert_eq!(asked_next(vec![one, two], |other| other == one), (vec![two], ASK));
        assert_eq!(asked_next(vec![one, two], |_| true), (vec![one, two], ASK_PAID));
        // Cut off from all: soon again, not after hours.
        assert_eq!(asked_next(Vec::new(), |_| true), (Vec::new(), ASK));
    }
}
