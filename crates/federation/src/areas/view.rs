//! One site's view of the federation: who is there, of which level, how far, and so who its landmarks are.
//!
//! Changes are gathered for [`limits::SETTLE`]; then levels and bunch are drawn anew and compared with what was. A
//! landmark that left the bunch is still told and asked for [`limits::TRANSITION`], unless it is gone: sites learn
//! of a change one after another, and while each has either the old view or the new one, two sites always share
//! what they shared before.
//!
//! Invariants: [`View::landmarks`] contains the bunch; levels are a function of (sites, weights, seed, K); this
//! site is always in its own view.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use skerry_base::{Instant, SiteId};

use super::bunch::{self, Bunch, Landmark};
use super::coordinate::Coordinate;
use super::distance::{Distances, Source};
use super::level::{self, Draw};
use super::limits;

/// A site as its roster entry and gossip say.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Entry {
    /// Which.
    pub site: SiteId,
    /// What it can carry; see [`level::weigh`].
    pub weight: u8,
    /// Where it is, if it has said.
    pub coordinate: Option<Coordinate>,
}

/// What changed when the view was drawn anew.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Turn {
    /// Landmarks that came into the bunch, nearest first.
    pub added: Vec<SiteId>,
    /// Landmarks that left it.
    pub removed: Vec<SiteId>,
    /// Sites (there before and now) whose level changed.
    pub levels: usize,
    /// K now.
    pub k: u8,
}

/// The view of one site.
#[derive(Debug)]
pub struct View {
    me: SiteId,
    seed: [u8; 32],
    k: u8,
    /// K whatever the number of sites; for tests.
    fixed: Option<u8>,
    draws: BTreeMap<SiteId, Draw>,
    levels: BTreeMap<SiteId, u8>,
    distances: Distances,
    bunch: Bunch,
    leaving: BTreeMap<SiteId, Instant>,
    unsettled: Option<Instant>,
    /// Where this site was when the view was drawn.
    drawn_at: Coordinate,
}

impl View {
    /// Of a site that knows nobody else. `seed` is the federation's; `k` is what a peer says, 1 at the first site.
    pub fn new(me: SiteId, weight: u8, seed: [u8; 32], k: u8) -> Self {
        let draws = [(me, Draw::of(&seed, me, weight))].into();
        let own = Landmark { distance: Duration::ZERO, site: me, level: 0 };
        Self {
            me,
            seed,
            k: k.clamp(1, level::LEVELS_MAX),
            fixed: None,
            draws,
            levels: BTreeMap::new(),
            distances: Distances::new(me),
            bunch: Bunch { landmarks: vec![own], left_out: 0 },
            leaving: BTreeMap::new(),
            unsettled: None,
            drawn_at: Coordinate::default(),
        }
    }

    /// Keeps K at this, whatever the number of sites.
    #[must_use]
    pub fn with_k(mut self, k: Option<u8>) -> Self {
        self.fixed = k.map(|k| k.clamp(1, level::LEVELS_MAX));
        self.k = self.fixed.unwrap_or(self.k);
        self
    }

    /// A peer has so many levels: K has a memory, which a site that starts takes from who was there.
    pub fn heard_k(&mut self, k: u8, now: Instant) {
        let known = level::levels(self.draws.len(), k.clamp(1, level::LEVELS_MAX));
        if known > self.k {
            self.k = known;
            self.unsettle(true, now);
        }
    }

    /// A site came, came back, or says another weight or place. Refused (false) if there are too many.
    pub fn come(&mut self, entry: Entry, now: Instant) -> bool {
        if self.draws.len() >= limits::SITES && !self.draws.contains_key(&entry.site) {
            return false;
        }
        let draw = Draw::of(&self.seed, entry.site, entry.weight);
        let mut changed = self.draws.insert(entry.site, draw) != Some(draw);
        if let Some(coordinate) = entry.coordinate {
            changed |= self.distances.located(entry.site, coordinate);
        }
        self.unsettle(changed, now);
        true
    }

    /// A site left, or is taken for dead. Its draw is for life: if it comes back it is what it was.
    pub fn gone(&mut self, site: SiteId, now: Instant) {
        if site != self.me && self.draws.remove(&site).is_some() {
            self.leaving.remove(&site);
            self.unsettle(true, now);
        }
    }

    /// A site changed its address: what was measured counts no more.
    pub fn moved(&mut self, site: SiteId, now: Instant) {
        self.distances.forget(site);
        self.unsettle(true, now);
    }

    /// A round trip measured here.
    pub fn measured(&mut self, site: SiteId, rtt: Duration, now: Instant) {
        let moved = self.distances.measured(site, rtt) && self.draws.contains_key(&site);
        // If this site has moved all estimates have.
        self.unsettle(moved || self.distances.own().has_moved(&self.drawn_at), now);
    }

    /// A round trip measured at the other end.
    pub fn theirs(&mut self, site: SiteId, rtt: Duration, now: Instant) {
        let moved = self.distances.theirs(site, rtt);
        self.unsettle(moved && self.draws.contains_key(&site), now);
    }

    const fn unsettle(&mut self, changed: bool, now: Instant) {
        if changed && self.unsettled.is_none() {
            self.unsettled = Some(now.after(limits::SETTLE));
        }
    }

    /// When [`Self::settle`] has something to do.
    pub fn next_wake(&self) -> Option<Instant> {
        self.leaving.values().copied().chain(self.unsettled).min()
    }

    /// Draws the view anew if changes have rested long enough; lets go who left long ago.
    pub fn settle(&mut self, now: Instant) -> Option<Turn> {
        let before = self.leaving.len();
        self.leaving.retain(|_, until| *until > now);
        let let_go = self.leaving.len() < before;
        if self.unsettled.is_some_and(|at| at <= now) {
            return Some(self.redraw(now));
        }
        let_go.then(|| Turn { k: self.k, ..Turn::default() })
    }

    /// Draws levels and bunch from what is known now.
    pub fn redraw(&mut self, now: Instant) -> Turn {
        self.unsettled = None;
        self.distances.weigh_estimates();
        self.drawn_at = *self.distances.own();
        self.k = self.fixed.unwrap_or_else(|| level::levels(self.draws.len(), self.k));
        let levels = level::assign(self.draws.values().copied(), self.k);
        let changed = |site: &&SiteId| levels.get(*site) != self.levels.get(*site);
        let ranked: BTreeSet<&SiteId> = levels.keys().chain(self.levels.keys()).collect();
        let turned =
            ranked.iter().filter(|site| self.draws.contains_key(**site)).filter(|site| changed(site));
        let mut turn = Turn { levels: turned.count(), k: self.k, ..Turn::default() };
        self.levels = levels;
        let bunch = Bunch::of(self.k, self.sites());
        let names = |bunch: &Bunch| bunch.landmarks.iter().map(|found| found.site).collect::<BTreeSet<_>>();
        let (old, new) = (names(&self.bunch), names(&bunch));
        turn.added =
            bunch.landmarks.iter().map(|found| found.site).filter(|site| !old.contains(site)).collect();
        turn.removed = old.difference(&new).copied().collect();
        self.bunch = bunch;
        self.leave(&turn, now);
        turn
    }

    fn leave(&mut self, turn: &Turn, now: Instant) {
        for site in &turn.added {
            self.leaving.remove(site);
        }
        for site in turn.removed.iter().filter(|site| self.draws.contains_key(*site)) {
            self.leaving.insert(*site, now.after(limits::TRANSITION));
        }
        while self.leaving.len() > limits::LEAVING {
            let longest = self.leaving.iter().min_by_key(|(site, until)| (**until, **site));
            let Some(site) = longest.map(|(site, _)| *site) else { return };
            self.leaving.remove(&site);
        }
    }

    fn sites(&self) -> impl Iterator<Item = Landmark> + Clone {
        self.draws.keys().map(|site| self.landmark(*site))
    }

    fn landmark(&self, site: SiteId) -> Landmark {
        Landmark { distance: self.distances.anchor(site), site, level: self.level(site) }
    }

    /// The bunch alone.
    pub const fn bunch(&self) -> &Bunch {
        &self.bunch
    }

    /// Whom to tell and to ask: the bunch and who left it lately, nearest first by the best guess now.
    pub fn landmarks(&self) -> Vec<Landmark> {
        let leaving = self.leaving.keys().map(|site| self.landmark(*site));
        let both = self.bunch.landmarks.iter().copied().chain(leaving);
        let mut found: Vec<Landmark> =
            both.map(|found| Landmark { distance: self.distances.to(found.site).rtt, ..found }).collect();
        found.sort_unstable();
        found
    }

    /// Sites whose estimate leaves open whether they are landmarks: the nearest few, to be measured.
    pub fn doubtful(&self) -> Vec<SiteId> {
        let measured = |site| self.distances.to(site).source == Source::Measured;
        let sites = self.sites().map(|landmark| (landmark, measured(landmark.site)));
        let mut found = bunch::doubtful(self.k, self.distances.own().confidence() < limits::LOST, sites);
        found.truncate(limits::MEASURE);
        found
    }

    /// Of a site; 0 if it is not known.
    pub fn level(&self, site: SiteId) -> u8 {
        self.levels.get(&site).copied().unwrap_or(0)
    }

    /// Whether this site is in everybody's bunch.
    pub fn is_top(&self) -> bool {
        self.level(self.me) + 1 >= self.k
    }

    /// How many levels there are.
    pub const fn k(&self) -> u8 {
        self.k
    }

    /// Everybody, this site too.
    pub fn everybody(&self) -> impl Iterator<Item = SiteId> {
        self.draws.keys().copied()
    }

    /// Whether a site is in the view.
    pub fn knows(&self, site: SiteId) -> bool {
        self.draws.contains_key(&site)
    }

    /// How far everybody is.
    pub const fn distances(&self) -> &Distances {
        &self.distances
    }
}
