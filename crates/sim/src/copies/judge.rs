//! Who judges copies.
//!
//! `protected`: what a site reported as protected outlives its fire. `copies`: once healed and quiet, every living
//! version has as many durable bodies as its bucket asks for. `claims`: what a site believes of another is so.

use std::collections::BTreeSet;

use super::{BUCKET, World};
use skerry_base::Dot;

impl World {
    fn violated(&mut self, checker: &'static str, what: String) {
        self.outcome.violations.push((checker, what));
    }

    fn is_dead(&self, dot: Dot) -> bool {
        self.sites.iter().any(|site| site.dead.contains(&dot))
    }

    /// Just before the disk of a site is gone.
    pub(super) fn judge_fire(&mut self, site: usize) {
        let bodies: Vec<Dot> = self.sites[site].bodies.iter().copied().collect();
        for dot in bodies {
            if self.is_dead(dot)
                || self
                    .sites
                    .iter()
                    .enumerate()
                    .any(|(other, place)| other != site && place.bodies.contains(&dot))
            {
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

    /// In the end.
    pub(super) fn judge(&mut self) {
        let wanted = self.wanted();
        let all: BTreeSet<Dot> = self.sites.iter().flat_map(|site| site.records.keys().copied()).collect();
        for dot in all {
            if self.is_dead(dot) || self.excused.contains(&dot) {
                continue;
            }
            let held = self.sites.iter().filter(|site| site.bodies.contains(&dot)).count();
            if held < wanted {
                self.violated("copies", format!("{dot} has {held} of {wanted}"));
            }
            self.count("covered");
        }
        for site in (0..self.sites.len()).filter(|site| !self.gone.contains(site)).collect::<Vec<_>>() {
            self.judge_claims(site);
        }
    }

    fn judge_claims(&mut self, site: usize) {
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
        wrong.into_iter().for_each(|what| self.violated("claims", what));
    }
}
