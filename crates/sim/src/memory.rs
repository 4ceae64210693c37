//! What one site's disk holds, as plain sets: by key, what lives and what is dead.
//!
//! It is [`crate::verdict`] record by record: killing is for ever, so what dies when a record comes stays
//! dead whatever comes later.

use std::collections::{BTreeMap, BTreeSet};

use skerry_base::{BucketId, Dot};

use crate::history::{Place, Write, Writes};
use crate::verdict;

/// The records of one key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Held {
    alive: BTreeSet<Dot>,
    dead: BTreeSet<Dot>,
    erases: BTreeSet<Dot>,
    /// Removed because another site said that they are dead.
    dropped: BTreeSet<Dot>,
}

/// The records of a site.
#[derive(Debug, Clone, Default)]
pub struct Memory(BTreeMap<Place, Held>);

static NOTHING: Held =
    Held { alive: BTreeSet::new(), dead: BTreeSet::new(), erases: BTreeSet::new(), dropped: BTreeSet::new() };

impl Memory {
    /// Whether a record was stored here, and not removed on another site's word.
    pub fn holds(&self, place: &Place, dot: Dot) -> bool {
        self.of(place).holds(dot)
    }

    /// Whether a record was ever stored here.
    pub fn knows(&self, place: &Place, dot: Dot) -> bool {
        self.holds(place, dot) || self.of(place).dropped.contains(&dot)
    }

    /// The records of a key.
    pub fn of(&self, place: &Place) -> &Held {
        self.0.get(place).unwrap_or(&NOTHING)
    }

    /// All keys.
    pub fn places(&self) -> impl Iterator<Item = (&Place, &Held)> {
        self.0.iter()
    }

    pub(crate) fn add(&mut self, place: &Place, write: &Write, writes: &Writes) {
        self.0.entry(place.clone()).or_default().take(write, writes);
    }

    pub(crate) fn remove(&mut self, place: &Place, dot: Dot) {
        if let Some(held) = self.0.get_mut(place) {
            held.alive.remove(&dot);
            held.dead.remove(&dot);
            held.erases.remove(&dot);
        }
    }

    /// Of this bucket only what is stored, and what that has killed: very many versions of one key go in parts.
    pub(crate) fn keep_of(&mut self, bucket: BucketId, stored: &BTreeSet<Dot>, writes: &Writes) {
        let places: Vec<Place> = self.0.keys().filter(|place| place.0 == bucket).cloned().collect();
        for place in places {
            let found = self.found_of(&place, stored, writes);
            self.0.remove(&place);
            self.merge(found);
        }
        self.0.retain(|place, held| place.0 != bucket || held.all().next().is_some());
    }

    /// What a disk holds of a key that has lost part of what it had: what is stored, and what that has killed.
    pub(crate) fn found_of(&self, place: &Place, stored: &BTreeSet<Dot>, writes: &Writes) -> Self {
        let before = self.of(place);
        // That something was removed may be lost as well.
        let (back, dropped) = before.dropped.iter().copied().partition(|dot| stored.contains(dot));
        let mut held = Held { dropped, ..Held::default() };
        let back: BTreeSet<Dot> = back;
        let here = before.all().chain(back).filter(|dot| stored.contains(dot));
        here.filter_map(|dot| writes.get(&dot)).for_each(|write| held.take(write, writes));
        let killed = |write: &&Write| {
            let mut killers = held.all().filter_map(|dot| writes.get(&dot));
            killers.any(|by| verdict::kills(by, write, writes))
        };
        let dead = before.all().filter(|dot| !stored.contains(dot)).filter_map(|dot| writes.get(&dot));
        let dead: BTreeSet<Dot> = dead.filter(killed).map(|write| write.dot).collect();
        held.dead.extend(dead);
        Self([(place.clone(), held)].into())
    }

    /// Vectors were taken back: what had been removed on another site's word is known as gone no more, and may come again.
    pub(crate) fn take_back(&mut self) {
        self.0.values_mut().for_each(|held| held.dropped.clear());
    }

    /// What lives and is dead all the same.
    pub(crate) fn bury(&mut self, is_dead: impl Fn(&Place, Dot) -> bool) {
        for (place, held) in &mut self.0 {
            let dead: Vec<Dot> = held.alive.iter().copied().filter(|dot| is_dead(place, *dot)).collect();
            held.alive.retain(|dot| !dead.contains(dot));
            held.dead.extend(dead);
        }
    }

    /// The records of other keys as well.
    pub(crate) fn merge(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    pub(crate) fn drop(&mut self, place: &Place, dot: Dot) {
        self.0.entry(place.clone()).or_default().drop(dot);
    }
}

impl Held {
    /// Whether it was stored, and not removed on another site's word.
    pub fn holds(&self, dot: Dot) -> bool {
        self.alive.contains(&dot) || self.dead.contains(&dot) || self.erases.contains(&dot)
    }

    /// Everything stored.
    pub fn all(&self) -> impl Iterator<Item = Dot> {
        self.alive.iter().chain(&self.dead).chain(&self.erases).copied()
    }

    /// Versions that live.
    pub const fn alive(&self) -> &BTreeSet<Dot> {
        &self.alive
    }

    /// Erases.
    pub fn erases(&self) -> impl Iterator<Item = Dot> {
        self.erases.iter().copied()
    }

    /// Versions that are dead.
    pub const fn dead(&self) -> &BTreeSet<Dot> {
        &self.dead
    }

    /// A record comes.
    pub fn take(&mut self, write: &Write, writes: &Writes) {
        if self.holds(write.dot) || self.dropped.contains(&write.dot) {
            return;
        }
        let victims = self.alive.iter().filter_map(|victim| writes.get(victim));
        let killed: Vec<Dot> =
            victims.filter(|victim| verdict::kills(write, victim, writes)).map(|victim| victim.dot).collect();
        for victim in killed {
            self.alive.remove(&victim);
            self.dead.insert(victim);
        }
        let kills = |killer: Dot| writes.get(&killer).is_some_and(|by| verdict::kills(by, write, writes));
        let is_dead = self.all().any(kills);
        if verdict::target(write).is_some() {
            self.erases.insert(write.dot);
        } else if is_dead {
            self.dead.insert(write.dot);
        } else {
            self.alive.insert(write.dot);
        }
    }

    /// A record goes on another site's word, and does not come again. What it has killed stays dead, and what
    /// was dead already is no news.
    pub(crate) fn drop(&mut self, dot: Dot) {
        if !self.dead.contains(&dot) {
            self.alive.remove(&dot);
            self.erases.remove(&dot);
            self.dropped.insert(dot);
        }
    }

    /// Those who live and were seen by nobody who lives.
    pub fn heads<'a>(&self, writes: &'a Writes) -> Vec<&'a Write> {
        let alive: Vec<&Write> = self.alive.iter().filter_map(|dot| writes.get(dot)).collect();
        let superseded = |write: &Write| alive.iter().any(|later| later.seen.contains(&write.dot));
        alive.iter().filter(|write| !superseded(write)).copied().collect()
    }
}
