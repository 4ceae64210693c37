//! Who judges circuits.
//!
//! `whole`: once quiet, every two sites that a way of willing sites joins have a link. `shortest`: by as few sites as can
//! be. `direct`: who can connect does, and by nobody. `paths`: a circuit has no more sites in between than may be,
//! however it was made. `unwilling`: nobody carries whose operator does not want it. `quiet`: at rest next to nothing is
//! asked.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};

use skerry_federation::circuits::{MOST_HOPS, Why};

use super::{Link, QUIET, World, id, number};

impl World {
    fn violated(&mut self, checker: &'static str, what: String) {
        let at = self.queue.now().0 / 1_000_000;
        self.outcome.violations.push((checker, format!("at {at} ms: {what}")));
    }

    pub(super) fn judge_circuit(&mut self, link: &Link) {
        if link.hops() > usize::from(MOST_HOPS) {
            self.violated("paths", format!("{:?}", link.path));
        }
        let mut sorted = link.path.clone();
        sorted.sort_unstable();
        sorted.dedup();
        if sorted.len() != link.path.len() {
            self.count("circuits that pass a site twice");
        }
        let between = link.path.get(1..link.path.len().saturating_sub(1)).unwrap_or_default();
        if let Some(relay) = between.iter().find(|relay| !self.sites[**relay].willing) {
            let text = format!("site {relay} carries {:?}", link.path);
            self.violated("unwilling", text);
        }
    }

    /// Sites between this one and each other, by willing ones.
    fn ways(&self, from: usize) -> BTreeMap<usize, usize> {
        let (mut found, mut queue) = (BTreeMap::from([(from, 0)]), VecDeque::from([from]));
        while let Some(site) = queue.pop_front() {
            if site != from && !self.sites[site].willing {
                continue;
            }
            let steps = found.get(&site).copied().unwrap_or_default() + 1;
            for next in (0..self.sites.len()).filter(|next| *next != site && self.may_meet(site, *next)) {
                if let Entry::Vacant(entry) = found.entry(next) {
                    entry.insert(steps);
                    queue.push_back(next);
                }
            }
        }
        found.into_iter().filter(|(_, steps)| *steps > 0).map(|(site, steps)| (site, steps - 1)).collect()
    }

    fn tried(&self, one: usize, other: usize) -> Vec<(usize, Why)> {
        let tried = self.sites[one].machine.tried(id(other));
        tried.into_iter().map(|(by, why)| (number(by), why)).collect()
    }

    fn standing(&self) -> Vec<&[usize]> {
        self.links.values().map(|link| &link.path[..]).collect()
    }

    pub(super) fn judge_end(&mut self) {
        if !self.outcome.violations.is_empty() {
            return;
        }
        let count = self.sites.len();
        for one in 0..count {
            let ways = self.ways(one);
            for other in one + 1..count {
                let least = ways.get(&other).copied().filter(|hops| *hops <= usize::from(MOST_HOPS));
                let stands = self.between(one, other).map(|(_, link)| link.hops());
                match (least, stands) {
                    (Some(0), Some(0)) => {}
                    (Some(0), stands) => self.violated("direct", format!("{one} and {other}: {stands:?}")),
                    (Some(least), None) => {
                        let text = format!("{one} and {other} have no link; {least} could carry it");
                        let tried = [(one, other), (other, one)].map(|(one, other)| self.tried(one, other));
                        self.violated("whole", format!("{text}; {tried:?}; {:?}", self.standing()));
                    }
                    (Some(least), Some(hops)) if hops != least => {
                        self.violated(
                            "shortest",
                            format!("{one} and {other}: {hops} in between, not {least}"),
                        );
                    }
                    (Some(_), Some(_)) => self.count("pairs by way of others"),
                    (None, Some(hops)) => {
                        self.violated(
                            "whole",
                            format!("{one} and {other} by {hops}, though nothing joins them"),
                        );
                    }
                    (None, None) => self.count("pairs that stay apart"),
                }
            }
        }
        // Each searches for each at most once in the longest pause, and asks every neighbour then.
        let rounds = QUIET.as_secs() / skerry_federation::circuits::PAUSE_MAX.as_secs() + 1;
        let most = (count * count * count) as u64 * rounds;
        if self.asks > most {
            self.violated("quiet", format!("{} questions at rest, at most {most} are due", self.asks));
        }
    }
}
