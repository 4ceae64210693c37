//! Who judges detours.
//!
//! `reached`: a chunk is given where, all the time, its holder could be asked, or a willing site with a link to both. `soon`:
//! it takes no longer then than those who are silent are waited for, each once. `straight`: whose link was good all the time
//! is not gone round, however slow its disk. `again`: what was found out for one chunk is used for the next. `back`: whose link is
//! good again gives it, whoever else was asked meanwhile.

use std::collections::BTreeSet;
use std::time::Duration;

use skerry_federation::detour::{FETCHES, PATIENCE, PATIENCE_MAX, ROUND};

use super::{Fetch, Whom, World, id, pair};

/// What was good from the beginning of a fetch until now.
#[derive(Debug, Clone, Default)]
pub(super) struct Good {
    direct: bool,
    relays: BTreeSet<usize>,
    /// There was somebody who is known to have a way, and the holder has answered nothing since.
    known: Option<usize>,
    /// Another reader here waited for the same holder.
    beside: bool,
}

/// How long whoever does not answer is waited for, though it talks.
fn waited(rtt: Duration) -> Duration {
    (rtt * 4).clamp(PATIENCE, PATIENCE_MAX) * 3
}

impl World {
    fn violated(&mut self, checker: &'static str, what: String) {
        let at = self.queue.now().0 / 1_000_000;
        self.outcome.violations.push((checker, format!("at {at} ms: {what}")));
    }

    fn is_good(&self, one: usize, other: usize) -> bool {
        let clean = self.links.get(&pair(one, other)).is_some_and(super::Link::is_clean);
        clean && self.open_both((one, other))
    }

    pub(super) fn good_between(&mut self, site: usize, holder: usize) -> Good {
        let mut beside = false;
        for other in self.fetches.values_mut().filter(|fetch| (fetch.site, fetch.holder) == (site, holder)) {
            (beside, other.good.beside) = (true, true);
        }
        let is_relay = |relay: &usize| {
            *relay != site
                && *relay != holder
                && self.sites[*relay].willing
                && !self.sites[*relay].stuck
                && self.is_good(site, *relay)
                && self.is_good(*relay, holder)
        };
        let relays = (0..self.sites.len()).filter(is_relay).collect();
        let known =
            self.sites[site].detours.known(id(holder), self.came(site, holder).answers, self.queue.now());
        let known = known.map(super::number);
        Good { direct: self.is_good(site, holder), relays, known, beside }
    }

    /// A link is not good any more.
    pub(super) fn spoil(&mut self, one: usize, other: usize) {
        let ends = pair(one, other);
        for fetch in self.fetches.values_mut() {
            let (site, holder) = (fetch.site, fetch.holder);
            fetch.good.direct &= pair(site, holder) != ends;
            fetch.good.relays.retain(|relay| pair(site, *relay) != ends && pair(*relay, holder) != ends);
        }
    }

    /// A site that is asked from now on, or was, gets nowhere.
    pub(super) fn stuck(&mut self, site: usize) {
        self.sites[site].stuck = true;
        self.unwilling(site);
        for fetch in self.fetches.values_mut() {
            fetch.stuck.insert(site);
        }
    }

    /// A site carries for nobody any more.
    pub(super) fn unwilling(&mut self, site: usize) {
        self.fetches.values_mut().for_each(|fetch| fetch.good.relays.retain(|relay| *relay != site));
    }

    /// The disk of a site is slow from now on.
    pub(super) fn slow(&mut self, site: usize) {
        let disk = self.sites[site].disk;
        let held = self.fetches.values_mut().filter(|fetch| fetch.holder == site);
        held.for_each(|fetch| fetch.disk = fetch.disk.max(disk));
    }

    pub(super) fn judge_asked(&mut self, fetch: &Fetch, other: usize) {
        let is_reader = matches!(fetch.whom, Whom::Reader(_));
        if is_reader && other != fetch.holder && fetch.good.direct && fetch.asked.contains(&fetch.holder) {
            self.violated("straight", format!("{} asks {other} for what {} has", fetch.site, fetch.holder));
        }
        let known = fetch.good.known.filter(|known| fetch.good.relays.contains(known));
        if let Some(known) = known.filter(|_| is_reader && other == fetch.holder && fetch.asked.len() == 1) {
            self.violated("again", format!("{} asks {other}, not {known}", fetch.site));
        }
    }

    /// The longest that a chunk may take which somebody could give all the time.
    fn most(&self, fetch: &Fetch) -> Duration {
        let (site, holder) = (fetch.site, fetch.holder);
        let between = (0..self.sites.len()).filter(|relay| ![site, holder].contains(relay));
        // Its link here is silent, or it finds that the other one is; something may come just before.
        let detour = |relay| {
            let (near, far) = (self.rtt(site, relay), self.rtt(relay, holder));
            let stuck = if fetch.stuck.contains(&relay) { FETCHES } else { Duration::ZERO };
            let silent = waited(near).max(waited(far)) + PATIENCE + stuck;
            // Who was good all the time gives it at once.
            let waits = if fetch.good.relays.contains(&relay) { Duration::ZERO } else { silent };
            waits + (near + far) * 2
        };
        // Whoever broke off may have waited for the disk until then.
        let disks = fetch.disk * self.sites.len() as u32;
        let (direct, ways) = (self.rtt(site, holder), between.map(detour).sum::<Duration>());
        // Another may look for a way first.
        let looks = if fetch.good.beside { 2 } else { 1 };
        disks + (waited(direct) + PATIENCE + direct * 2 + ways) * looks
    }

    /// Looks since when the link with the holder is good.
    pub(super) fn note_straight(&self, fetch: &mut Fetch) {
        let since = fetch.straight_since.unwrap_or(self.queue.now());
        fetch.straight_since = self.is_good(fetch.site, fetch.holder).then_some(since);
    }

    /// Whether it is not given though its holder could have for long.
    fn judge_back(&mut self, fetch: &Fetch) {
        let (site, holder, now) = (fetch.site, fetch.holder, self.queue.now());
        let Some(since) = fetch.straight_since.filter(|_| self.is_good(site, holder)) else { return };
        // It is asked again after a round; what was said over a link that is good has arrived.
        let most = ROUND + fetch.disk * 2 + waited(self.rtt(site, holder)) * 2;
        if now.since(since) > most && matches!(fetch.whom, Whom::Reader(_)) {
            let took = now.since(since);
            self.violated(
                "back",
                format!("{site} waits for a chunk of {holder}, whose link is good for {took:?}"),
            );
        }
    }

    pub(super) fn judge_time(&mut self, fetch: &Fetch) {
        self.judge_back(fetch);
        let (took, most) = (self.queue.now().since(fetch.begun), self.most(fetch));
        let good = fetch.good.direct || !fetch.good.relays.is_empty();
        if good && took > most && matches!(fetch.whom, Whom::Reader(_)) {
            let text =
                format!("{} waited {took:?} for a chunk of {}, at most {most:?}", fetch.site, fetch.holder);
            self.violated("soon", format!("{text}; {:?}", fetch.good));
        }
    }

    pub(super) fn judge_failed(&mut self, fetch: &Fetch) {
        self.count("chunks that nobody gave");
        if fetch.good.direct || !fetch.good.relays.is_empty() {
            let text = format!("{} did not get a chunk of {}", fetch.site, fetch.holder);
            self.violated("reached", format!("{text}: {:?}, asked {:?}", fetch.good, fetch.asked));
        }
    }

    /// What is still waited for was waited for too long already.
    pub(super) fn judge_end(&mut self) {
        for fetch in std::mem::take(&mut self.fetches).into_values() {
            self.judge_time(&fetch);
        }
    }
}
