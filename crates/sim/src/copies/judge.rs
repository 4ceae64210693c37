//! Who judges copies.
//!
//! `protected`: what a site reported as protected outlives its fire. `copies`: once healed and quiet, every living
//! version has as many durable bodies as its bucket asks for. `claims`: what a site believes of another is so.
//! `reads`, `losses`: see [`super::reads`]. `drained`: what a site that says that it is empty held is at others, record
//! and body; once healed and quiet every drain ends. `own`: see [`super::nodes`]. `scopes`: see [`super::scopes`]. `trimmed`, `surplus`: see [`super::trim`]. `caps`: see [`super::caps`].

use std::collections::BTreeSet;

use super::{BUCKET, World};
use skerry_base::{Dot, Instant};
use skerry_federation::placement::Verdict;
use skerry_scenario::clock::seconds;

impl World {
    fn violated(&mut self, checker: &'static str, what: String) {
        self.outcome.violations.push((checker, what));
    }

    pub(super) fn is_dead(&self, dot: Dot) -> bool {
        self.sites.iter().any(|site| site.dead.contains(&dot))
    }

    /// Just before the disk of a site is gone.
    pub(super) fn judge_fire(&mut self, site: usize) {
        // Nobody misses what is dead, though who knows of the death may burn, now or later.
        let known: Vec<Dot> = self.sites[site].bodies.union(&self.sites[site].dead).copied().collect();
        for dot in known {
            let elsewhere =
                |(other, place): (usize, &super::Site)| other != site && place.bodies.contains(&dot);
            if self.sites.iter().enumerate().any(elsewhere) {
                continue;
            }
            if self.is_dead(dot) {
                self.excused.insert(dot);
                continue;
            }
            // The number that status and metric show counts what no other site is known to hold.
            if self.sites[site].machine.holders(BUCKET, dot).next().is_some() {
                self.violated("protected", format!("site-{site} reported {dot} as held by others"));
            }
            self.count("lost unprotected");
            self.excused.insert(dot);
        }
    }

    /// A site says that it may be switched off.
    pub(super) fn judge_emptied(&mut self, site: usize) {
        let lives = |dot: &Dot| !self.is_dead(*dot);
        let records: Vec<Dot> = self.sites[site].records.keys().copied().filter(lives).collect();
        let mut lost = Vec::new();
        // Who said that it is empty may be switched off as well.
        let goes = |other: &usize| *other == site || self.emptied.contains(other);
        let others = || self.sites.iter().enumerate().filter(|(other, _)| !goes(other));
        for dot in records {
            let had = self.sites[site].bodies.contains(&dot);
            if !others().any(|(_, place)| place.records.contains_key(&dot)) {
                lost.push(format!("only site-{site} has the record of {dot}"));
            } else if had && !others().any(|(_, place)| place.bodies.contains(&dot)) {
                lost.push(format!("only site-{site} holds {dot}"));
            }
        }
        let only_here = |dot: &&Dot| !others().any(|(_, place)| place.dead.contains(dot));
        let dead = self.sites[site].dead.iter().filter(only_here);
        lost.extend(dead.map(|dot| format!("only site-{site} knows that {dot} is dead")));
        lost.into_iter().for_each(|what| self.violated("drained", what));
    }

    /// In the end.
    pub(super) fn judge(&mut self) {
        // Where all that are left are to be emptied nobody can take it over.
        if self.somebody_stays() {
            for site in self.unfinished() {
                self.violated("drained", format!("site-{site} is not empty yet"));
            }
        }
        let wanted = self.wanted();
        let all: BTreeSet<Dot> = self.sites.iter().flat_map(|site| site.records.keys().copied()).collect();
        for dot in all {
            if self.is_dead(dot) || self.excused.contains(&dot) {
                continue;
            }
            let held = self.held(dot);
            if held < wanted {
                self.violated("copies", format!("{dot} has {held} of {wanted}"));
            }
            self.judge_own(dot, wanted);
            self.count("covered");
            self.judge_areas(dot);
        }
        for site in (0..self.sites.len()).filter(|site| !self.gone.contains(site)).collect::<Vec<_>>() {
            self.judge_claims(site);
            self.judge_losses(site);
        }
        if self.trims() {
            self.judge_surplus();
        }
    }

    /// Somebody was told that a body is gone.
    pub(super) fn judge_gone(&mut self, site: usize, dot: Dot) {
        let has =
            |other: &usize| self.sites[*other].bodies.contains(&dot) && !self.sites[site].is_lost(*other);
        if let Some(other) = (0..self.sites.len()).find(has) {
            self.violated("reads", format!("site-{site} calls {dot} gone, site-{other} has it"));
        }
    }

    /// All agree on who is lost, and what can be read is read.
    fn judge_losses(&mut self, site: usize) {
        let lost: BTreeSet<usize> =
            (0..self.sites.len()).filter(|other| self.sites[site].is_lost(*other)).collect();
        if lost != self.gone {
            self.violated("losses", format!("site-{site} takes {lost:?} for lost, {:?} are", self.gone));
        }
        let living: Vec<Dot> = self.sites[site].records.keys().copied().collect();
        for dot in living.into_iter().filter(|dot| !self.is_dead(*dot)).collect::<Vec<_>>() {
            let held = self.sites.iter().any(|other| other.bodies.contains(&dot));
            let known = !self.sites[site].lost.is_empty();
            let expected = match (held, known) {
                (true, _) => Verdict::Readable,
                (false, true) => Verdict::Gone,
                (false, false) => Verdict::Unreachable(BTreeSet::new()),
            };
            let verdict = self.verdict(site, dot);
            if verdict != expected {
                self.violated(
                    "reads",
                    format!("site-{site} answers {verdict:?} for {dot}, not {expected:?}"),
                );
            }
        }
    }

    /// A site was told that another one holds a version.
    pub(super) fn judge_held(&mut self, site: usize, by: usize, dot: Dot) {
        let burned = self.fire > Instant(0) && self.queue.now() < self.fire.after(seconds(3));
        if !burned && !self.is_dead(dot) && !self.sites[by].bodies.contains(&dot) {
            self.violated("claims", format!("site-{by} tells site-{site} that it holds {dot}"));
        }
    }

    /// Whether nobody believes in what is not there.
    pub(super) fn all_claims_are_so(&self) -> bool {
        (0..self.sites.len()).all(|site| self.untrue_claims(site).is_empty())
    }

    fn judge_claims(&mut self, site: usize) {
        self.untrue_claims(site).into_iter().for_each(|what| self.violated("claims", what));
    }

    fn untrue_claims(&self, site: usize) -> Vec<String> {
        let place = &self.sites[site];
        let mut wrong = Vec::new();
        // What a lost site is believed to hold counts for nothing.
        let there = |number: &usize| *number != site && !self.gone.contains(number);
        for (number, other) in self.sites.iter().enumerate().filter(|(number, _)| there(number)) {
            let Some(spans) = place.machine.known(BUCKET, other.id) else { continue };
            let living = place.records.keys().filter(|dot| !self.is_dead(**dot));
            let untrue = living.filter(|dot| spans.contains(**dot) && !other.bodies.contains(dot));
            wrong.extend(untrue.map(|dot| format!("site-{site} believes that site-{number} holds {dot}")));
        }
        wrong
    }
}
