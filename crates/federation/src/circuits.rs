//! Links by way of a third site, for two that cannot reach each other.
//!
//! A *circuit* is a link whose bytes a third site, the *relay*, passes on without reading them: the two ends prove their
//! keys to each other through it, as over a connection of their own. A site that lacks a link asks those that it is linked
//! with directly, nearest first, by how many sites and how long a way they would take it; the shortest answer is dialled.
//! A relay uses the link it has, which may be a circuit itself: so ways grow hop by hop and nobody keeps a map.
//!
//! Nothing is passed on in circles: who is asked is a direct neighbour, what it offers is a link that stands, and every
//! circuit ends with the links beneath it. What runs inside a carried link nobody in between can see, so a way may pass a
//! site twice for a while; it counts as the hops it has, and who has a circuit of several hops goes on asking for fewer:
//! in the end all are the shortest.
//!
//! Invariants: at most [`MOST_HOPS`] sites in between; one search per site that is missed, [`SEARCHES`] at once, and
//! nobody is asked twice in a round of one; a relay carries no more than it has room for; silence is a refusal.

use core::fmt;
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use skerry_base::{Instant, SiteId};

use crate::limits;

/// Sites between the ends of a circuit at most: each costs its uplink every byte twice.
pub const MOST_HOPS: u8 = 3;
/// How long a direct link is waited for. The end with the higher id waits longer, so that mostly one searches.
pub const PATIENCE: Duration = Duration::from_secs(2);
/// Neighbours that are asked at once.
pub const ASKED_AT_ONCE: usize = 4;
/// How long a neighbour may take to say whether it has a way.
pub const ANSWER_WAIT: Duration = Duration::from_secs(10);
/// How long a circuit may take to be made, on all hops together.
pub const DIAL_WAIT: Duration = Duration::from_secs(30);
/// First pause after nobody had a way; doubles up to [`PAUSE_MAX`].
pub const PAUSE_MIN: Duration = Duration::from_secs(2);
/// Longest pause, and how often a shorter way than several hops is looked for.
pub const PAUSE_MAX: Duration = Duration::from_secs(300);
/// The pause while nobody has heard of the site: a dead one must not be searched for by everybody all the time.
pub const PAUSE_SILENT: Duration = Duration::from_secs(3600);
/// Searches under way at once.
pub const SEARCHES: usize = 8;
/// Circuits that a site carries for others at once.
pub const CARRIED: usize = 256;
/// Of those, with one of their ends at one site: they share its link with questions.
pub const CARRIED_PER_SITE: usize = 32;

/// Why there is no way by a site.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Why {
    /// It has no link either.
    Apart,
    /// Its operator wants it to carry nothing for others.
    Off,
    /// Its link is metered, and the budget leaves nothing for this.
    Metered,
    /// It carries as much as it has room for.
    Full,
    /// Its way has too many sites.
    Far,
    /// It did not answer in time, or the way broke while it was made.
    Silent,
    /// It is of a release that carries nothing, or does not know one of the ends.
    Unable,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Apart => "has no link with it either",
            Self::Off => "carries nothing for others (peer.relay = false)",
            Self::Metered => "carries nothing now: its link is metered",
            Self::Full => "carries as much as it can",
            Self::Far => "would go by way of too many sites",
            Self::Silent => "did not answer",
            Self::Unable => "cannot carry",
        })
    }
}

/// A way that a relay has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Way {
    /// Sites between the ends, the relay included.
    pub hops: u8,
    /// The round trip from the relay on.
    pub rtt_micros: u32,
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// Ask a neighbour whether it has a way; answered by [`Circuits::answered`].
    Ask {
        /// The neighbour.
        relay: SiteId,
        /// The site that is missed.
        target: SiteId,
        /// Hops at most.
        most: u8,
    },
    /// Have a neighbour carry a link; answered by [`Circuits::dialled`], and by [`Circuits::link_up`] if it stands.
    Dial {
        /// The neighbour.
        relay: SiteId,
        /// The site that is missed.
        target: SiteId,
        /// Hops at most.
        most: u8,
    },
}

#[derive(Debug, Clone, Copy)]
struct Link {
    hops: u8,
    rtt: Duration,
}

/// Looking for a way to one site.
#[derive(Debug)]
struct Search {
    /// Nothing is done before.
    next: Instant,
    pause: Duration,
    /// Who was asked in this round.
    asked: BTreeSet<SiteId>,
    /// Who has not answered yet, and until when.
    waiting: BTreeMap<SiteId, Instant>,
    /// What was offered and not tried yet, the best first: hops, whole round trip, by whom.
    ways: BTreeSet<(u8, Duration, SiteId)>,
    dialling: Option<(SiteId, Instant)>,
    /// Why there was none by these, when they were asked last.
    tried: BTreeMap<SiteId, Why>,
}

impl Search {
    const fn new(next: Instant, pause: Duration) -> Self {
        Self {
            next,
            pause,
            asked: BTreeSet::new(),
            waiting: BTreeMap::new(),
            ways: BTreeSet::new(),
            dialling: None,
            tried: BTreeMap::new(),
        }
    }

    fn is_busy(&self) -> bool {
        self.dialling.is_some() || !self.waiting.is_empty()
    }

    fn wake(&self) -> Instant {
        let until = self.dialling.iter().map(|(_, until)| *until).chain(self.waiting.values().copied());
        until.min().unwrap_or(self.next)
    }

    /// Who is late has refused.
    fn expire(&mut self, now: Instant) {
        let late: Vec<SiteId> =
            self.waiting.iter().filter(|(_, until)| **until <= now).map(|(site, _)| *site).collect();
        for site in late {
            self.waiting.remove(&site);
            self.refused(site, Why::Silent);
        }
        if let Some((site, _)) = self.dialling.take_if(|(_, until)| *until <= now) {
            self.refused(site, Why::Silent);
        }
    }

    fn refused(&mut self, site: SiteId, why: Why) {
        if self.tried.len() < limits::SITES {
            self.tried.insert(site, why);
        }
    }

    /// The round is over: nobody is left to ask.
    fn rest(&mut self, now: Instant, least: Duration) {
        self.asked.clear();
        self.next = now.after(self.pause);
        self.pause = (self.pause * 2).min(PAUSE_MAX).max(least);
    }

    /// Something changed: look again soon, though not more often than at first.
    fn hurry(&mut self, now: Instant) {
        self.pause = PAUSE_MIN;
        if !self.is_busy() {
            self.next = self.next.min(now.after(PAUSE_MIN));
        }
    }
}

/// The circuits of one site: those it looks for, and those it carries.
#[derive(Debug)]
pub struct Circuits {
    me: SiteId,
    roster: BTreeSet<SiteId>,
    links: BTreeMap<SiteId, Link>,
    /// Sites that are missed, or reached by several hops.
    searches: BTreeMap<SiteId, Search>,
    /// Nobody has heard of them.
    silent: BTreeSet<SiteId>,
    carried: BTreeMap<u64, (SiteId, SiteId)>,
    numbers: u64,
}

impl Circuits {
    /// Of this site, which knows nobody yet.
    pub const fn new(me: SiteId) -> Self {
        Self {
            me,
            roster: BTreeSet::new(),
            links: BTreeMap::new(),
            searches: BTreeMap::new(),
            silent: BTreeSet::new(),
            carried: BTreeMap::new(),
            numbers: 0,
        }
    }

    /// Who the sites are.
    pub fn set_roster(&mut self, sites: impl IntoIterator<Item = SiteId>, now: Instant) {
        let me = self.me;
        self.roster = sites.into_iter().filter(|site| *site != me).take(limits::SITES).collect();
        let roster = &self.roster;
        self.links.retain(|site, _| roster.contains(site));
        self.silent.retain(|site| roster.contains(site));
        self.searches.retain(|site, _| roster.contains(site));
        let missed = |site: &&SiteId| !self.links.contains_key(*site) && !self.searches.contains_key(*site);
        let missed: Vec<SiteId> = self.roster.iter().filter(missed).copied().collect();
        missed.into_iter().for_each(|site| self.miss(site, now));
    }

    fn miss(&mut self, site: SiteId, now: Instant) {
        let patience = if self.me < site { PATIENCE } else { PATIENCE * 2 };
        self.searches.insert(site, Search::new(now.after(patience), PAUSE_MIN));
    }

    /// A link stands; `hops` sites carry it, none of them if it is direct.
    pub fn link_up(&mut self, site: SiteId, hops: u8, rtt: Duration, now: Instant) {
        if !self.roster.contains(&site) {
            return;
        }
        self.links.insert(site, Link { hops, rtt });
        if hops <= 1 {
            self.searches.remove(&site);
        } else {
            let search = Search::new(now.after(PAUSE_MAX), PAUSE_MAX);
            self.searches.insert(site, search);
        }
        if hops == 0 {
            // Another neighbour, who may know a way.
            self.searches.values_mut().for_each(|search| search.hurry(now));
        }
    }

    /// A link is gone.
    pub fn link_down(&mut self, site: SiteId, now: Instant) {
        if self.links.remove(&site).is_some() {
            self.miss(site, now);
        }
    }

    /// A round trip was measured.
    pub fn measured(&mut self, site: SiteId, rtt: Duration) {
        if let Some(link) = self.links.get_mut(&site) {
            link.rtt = rtt;
        }
    }

    /// Whether anybody has heard of a site.
    pub fn lives(&mut self, site: SiteId, alive: bool, now: Instant) {
        if !alive {
            if self.roster.contains(&site) {
                self.silent.insert(site);
            }
        } else if self.silent.remove(&site)
            && let Some(search) = self.searches.get_mut(&site)
        {
            search.hurry(now);
        }
    }

    /// Whether nobody has heard of a site, as far as it was told.
    pub fn is_silent(&self, site: SiteId) -> bool {
        self.silent.contains(&site)
    }

    /// Sites in between; none if there is no link.
    pub fn hops(&self, site: SiteId) -> Option<u8> {
        self.links.get(&site).map(|link| link.hops)
    }

    /// What was tried to reach a site, and why it was no way.
    pub fn tried(&self, site: SiteId) -> Vec<(SiteId, Why)> {
        let search = self.searches.get(&site);
        search.map(|search| search.tried.iter().map(|(by, why)| (*by, *why)).collect()).unwrap_or_default()
    }

    /// What is to be done now.
    pub fn step(&mut self, now: Instant, out: &mut Vec<Output>) {
        self.searches.values_mut().for_each(|search| search.expire(now));
        let due: Vec<SiteId> = self
            .searches
            .iter()
            .filter(|(_, search)| !search.is_busy() && search.next <= now)
            .map(|(site, _)| *site)
            .collect();
        for target in due {
            let busy = self.searches.values().filter(|search| search.is_busy()).count();
            if busy >= SEARCHES {
                return;
            }
            self.proceed(target, now, out);
        }
    }

    fn proceed(&mut self, target: SiteId, now: Instant, out: &mut Vec<Output>) {
        let most = self.most(target);
        let mut near: Vec<(Duration, SiteId)> = self
            .links
            .iter()
            .filter(|(site, link)| link.hops == 0 && **site != target)
            .map(|(site, link)| (link.rtt, *site))
            .collect();
        near.sort_unstable();
        let silent = self.silent.contains(&target);
        let Some(search) = self.searches.get_mut(&target) else { return };
        if let Some((_, _, relay)) = search.ways.pop_first() {
            search.dialling = Some((relay, now.after(DIAL_WAIT)));
            return out.push(Output::Dial { relay, target, most });
        }
        let next: Vec<SiteId> = near
            .into_iter()
            .map(|(_, site)| site)
            .filter(|site| !search.asked.contains(site))
            .take(ASKED_AT_ONCE)
            .collect();
        if next.is_empty() {
            return search.rest(now, if silent { PAUSE_SILENT } else { Duration::ZERO });
        }
        for relay in next {
            search.asked.insert(relay);
            search.waiting.insert(relay, now.after(ANSWER_WAIT));
            out.push(Output::Ask { relay, target, most });
        }
    }

    /// Hops that would be an improvement.
    fn most(&self, target: SiteId) -> u8 {
        self.hops(target).map_or(MOST_HOPS, |hops| hops.saturating_sub(1).min(MOST_HOPS))
    }

    /// A neighbour said whether it has a way.
    pub fn answered(&mut self, target: SiteId, relay: SiteId, answer: Result<Way, Why>, now: Instant) {
        let most = self.most(target);
        let near = self.links.get(&relay).map(|link| link.rtt);
        let Some(search) = self.searches.get_mut(&target) else { return };
        if search.waiting.remove(&relay).is_none() {
            return;
        }
        match (answer, near) {
            (Ok(way), Some(rtt)) if (1..=most).contains(&way.hops) => {
                let rtt = rtt + Duration::from_micros(way.rtt_micros.into());
                search.tried.remove(&relay);
                search.ways.insert((way.hops, rtt, relay));
            }
            (Ok(_), Some(_)) => search.refused(relay, Why::Far),
            (Ok(_), None) => search.refused(relay, Why::Silent),
            (Err(why), _) => search.refused(relay, why),
        }
        if search.waiting.is_empty() {
            search.next = now;
        }
    }

    /// How an attempt to have a link carried ended.
    pub fn dialled(&mut self, target: SiteId, relay: SiteId, result: Result<(), Why>, now: Instant) {
        let Some(search) = self.searches.get_mut(&target) else { return };
        if search.dialling.take_if(|(by, _)| *by == relay).is_none() {
            return;
        }
        search.next = now;
        match result {
            Err(why) => search.refused(relay, why),
            // That the link stands is told apart; what else was offered is not needed.
            Ok(()) => {
                search.ways.clear();
                search.rest(now, Duration::ZERO);
            }
        }
    }

    /// When [`Self::step`] must be called next at the latest.
    pub fn next_wake(&self) -> Option<Instant> {
        let busy = self.searches.values().filter(|search| search.is_busy()).count();
        let may = |search: &&Search| search.is_busy() || busy < SEARCHES;
        self.searches.values().filter(may).map(Search::wake).min()
    }

    /// The way that this site has from one neighbour to another site, if it may carry a link there. `willing` is its
    /// operator's word, and its budget's.
    pub fn way(
        &self,
        (asker, target): (SiteId, SiteId),
        most: u8,
        willing: Result<(), Why>,
    ) -> Result<Way, Why> {
        willing?;
        let known = self.roster.contains(&asker) && self.roster.contains(&target) && asker != target;
        if !known {
            return Err(Why::Unable);
        }
        let link = self.links.get(&target).ok_or(Why::Apart)?;
        // Who asks is a neighbour; what is carried to it would otherwise go by way of more sites than are counted.
        let direct = self.hops(asker) == Some(0);
        let hops = link.hops.saturating_add(1);
        if !direct || hops > most.min(MOST_HOPS) {
            return Err(Why::Far);
        }
        let ends = |site: SiteId| {
            self.carried.values().filter(|(one, other)| [*one, *other].contains(&site)).count()
        };
        if self.carried.len() >= CARRIED
            || [asker, target].into_iter().any(|site| ends(site) >= CARRIED_PER_SITE)
        {
            return Err(Why::Full);
        }
        Ok(Way { hops, rtt_micros: u32::try_from(link.rtt.as_micros()).unwrap_or(u32::MAX) })
    }

    /// Takes room for a circuit; its number is given back by [`Self::end`].
    pub fn begin(
        &mut self,
        ends: (SiteId, SiteId),
        most: u8,
        willing: Result<(), Why>,
    ) -> Result<(u64, Way), Why> {
        let way = self.way(ends, most, willing)?;
        self.numbers += 1;
        self.carried.insert(self.numbers, ends);
        Ok((self.numbers, way))
    }

    /// A circuit that was carried here is gone.
    pub fn end(&mut self, number: u64) {
        self.carried.remove(&number);
    }

    /// How many circuits are carried here.
    pub fn carried(&self) -> usize {
        self.carried.len()
    }
}

#[cfg(test)]
#[path = "circuits_tests.rs"]
mod tests;
