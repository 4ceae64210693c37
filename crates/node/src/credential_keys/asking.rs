//! Asks other sites for credential keys of which the records tell, and says again what they do not tell any more.
//!
//! Invariants: a site that does not tell is asked ever more seldom, one that was away as soon as it is back; what is told is kept
//! only if the document that was heard of is one of these very bytes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use skerry_base::{CredentialKeyId, Instant, SiteId};
use skerry_model::bucket::CredentialDocument;

use super::{Known, LOOK, TOGETHER, keep, known, pause, say};
use crate::peers::message::{Request, Response};
use crate::site::Site;
use crate::tasks::rest;
use crate::trust::LaterKey;

/// Sites that are asked at once.
const ASKED: usize = 8;
/// After this to twice this long who did not make a key says again what the records lack of it.
const UNSAID: Duration = Duration::from_secs(60);
/// The longest pause between two times.
const UNSAID_MOST: Duration = Duration::from_secs(3600);
/// After a look that failed.
const FAILED: Duration = Duration::from_secs(10);
/// After this long a site that did not tell a key is asked again: at first, and at most.
const AGAIN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(600));

pub(super) async fn fetch(site: &Arc<Site>) {
    let mut changes = site.changes.follow_system();
    let (mut asked, mut unsaid) = (Asked::default(), Unsaid::default());
    loop {
        changes.mark_unchanged();
        let begun = site.clock.now();
        let known = known(site).await;
        let took = site.clock.now().since(begun);
        let (next, is_done) = match known {
            Ok(known) => {
                let told = asked.ask(site, known.missing(site)).await;
                if told {
                    site.credentials.told.notify_one();
                }
                let is_said = unsaid.say(site, known).await;
                (pause(took), is_said && !told && asked.missing.is_empty())
            }
            Err(error) => {
                tracing::warn!(%error, "it was not seen which credential keys are missing; it is tried again");
                (FAILED, false)
            }
        };
        rest(next).await;
        if is_done && changes.changed().await.is_err() {
            return;
        }
    }
}

/// Documents that lie beside keys and that the records lack, and when they are said again.
#[derive(Default)]
struct Unsaid(BTreeMap<CredentialKeyId, (Instant, Duration)>);

impl Unsaid {
    /// Says those again whose time has come; whether none is left. Their maker does so at once, others each after a while of
    /// their own: the first will do.
    async fn say(&mut self, site: &Arc<Site>, known: Known) -> bool {
        let now = site.clock.now();
        self.0.retain(|id, _| known.unsaid.iter().any(|said| said.id() == *id));
        // What a site that is gone says reaches nobody.
        if known.unsaid.is_empty() || known.gone.contains(&site.id) {
            return true;
        }
        // While all is begun anew nobody knows yet what the records lack.
        if site.check_whole(site.system).is_err() {
            return false;
        }
        let own = UNSAID + UNSAID * u32::from(site.id.0[0]) / 256;
        for said in known.unsaid {
            let wait = if said.at == site.id { Duration::ZERO } else { own };
            let (at, pause) = self.0.entry(said.id()).or_insert((now.after(wait), LOOK.0));
            if *at > now {
                continue;
            }
            // Where it is written over again and again.
            (*at, *pause) = (now.after(*pause), (*pause * 2).min(UNSAID_MOST));
            if let Err(error) = say(site, vec![said]).await {
                tracing::debug!(%error, "the document of a credential key was not said again; it is tried again");
                return false;
            }
        }
        false
    }
}

/// Who was asked for what.
#[derive(Default)]
struct Asked {
    sites: BTreeMap<SiteId, Turn>,
    missing: BTreeSet<CredentialKeyId>,
}

/// When a site is asked the next time.
#[derive(Debug, Clone, Copy)]
struct Turn {
    at: Instant,
    /// How long it is left alone after that.
    pause: Duration,
    /// How often it was asked: where more is missing than fits into a question, each is for other keys.
    asked: usize,
}

impl Asked {
    /// Asks some of those that are linked; whether somebody told something. Who made what is missing comes first, then who was
    /// never asked; all are asked soon when another key is heard of, and who was cut off as soon as it is back.
    async fn ask(&mut self, site: &Arc<Site>, missing: Vec<CredentialDocument>) -> bool {
        let now = site.clock.now();
        let ids: BTreeSet<_> = missing.iter().map(CredentialDocument::id).collect();
        if !ids.is_subset(&self.missing) {
            // Those that were asked longest ago stay the first.
            let soon = |turn: &mut Turn| (turn.at, turn.pause) = (turn.at.min(now.after(AGAIN.0)), AGAIN.0);
            self.sites.values_mut().for_each(soon);
        }
        self.missing = ids;
        if missing.is_empty() {
            self.sites.clear();
            return false;
        }
        let linked: BTreeSet<SiteId> = site.boxes.linked().into_iter().collect();
        self.sites.retain(|other, _| linked.contains(other));
        let due = self.due(linked, &missing, now);
        let windows = missing.len().div_ceil(TOGETHER);
        let window = |asked: usize| missing.chunks(TOGETHER).nth(asked % windows).unwrap_or_default();
        let told = join_all(due.into_iter().map(|(other, asked)| take(site, other, window(asked)))).await;
        told.into_iter().any(|told| told)
    }

    fn due(
        &mut self,
        linked: BTreeSet<SiteId>,
        missing: &[CredentialDocument],
        now: Instant,
    ) -> Vec<(SiteId, usize)> {
        let makers: BTreeSet<SiteId> = missing.iter().map(|said| said.at).collect();
        let at = |other: &SiteId| self.sites.get(other).map(|turn| turn.at);
        let mut due: Vec<SiteId> =
            linked.into_iter().filter(|other| at(other).is_none_or(|at| at <= now)).collect();
        due.sort_by_key(|other| (!makers.contains(other), at(other)));
        due.truncate(ASKED);
        let turn = |other: SiteId| {
            let last = self.sites.get(&other).copied();
            let pause = last.map_or(AGAIN.0, |last| (last.pause * 2).min(AGAIN.1));
            let asked = last.map_or(0, |last| last.asked);
            self.sites.insert(other, Turn { at: now.after(pause), pause, asked: asked + 1 });
            (other, asked)
        };
        due.into_iter().map(turn).collect()
    }
}

/// Whether another site told some of the missing keys, and they were kept.
async fn take(site: &Arc<Site>, other: SiteId, wanted: &[CredentialDocument]) -> bool {
    let request = Request::CredentialKeys(wanted.iter().map(CredentialDocument::id).collect());
    let answer = site.peers.call(other, &request).await;
    // Away, or of a release before.
    let Ok(Response::CredentialKeys(told)) = answer.map(|answer| answer.response) else { return false };
    // Each is looked for among those asked for: no more of them than there are.
    let later = told.into_iter().take(wanted.len()).filter_map(|key| {
        let said = wanted.iter().find(|said| said.is_of(key.as_bytes()))?.clone();
        Some(LaterKey { key, said })
    });
    let later: Vec<LaterKey> = later.collect();
    let count = later.len();
    if count == 0 {
        return false;
    }
    tracing::info!(from = %site.peers.roster.name(other), count, "credential keys were told by another site");
    let kept = keep(site, later).await;
    kept.inspect_err(|error| tracing::warn!(%error, "credential keys that another site told were not kept"))
        .is_ok()
}
