//! Who judges clones.
//!
//! Copies of several sites that were made together may be linked among themselves: that is an island, whose sites were all
//! told.
//!
//! `innocent`: nobody is turned away, or found, that did not run beside another with its key. `one`: once nothing strikes, all
//! sites are linked with the same process of each key, all with all; the others of that key are linked with nobody and have
//! been told. `first`: where nothing but copies was started, that is the one that ran first. `alone`: a copy that runs alone is
//! served by all, whatever was found before. `dots`: no two writes have one name. `kept`: once each copy has run alone for a
//! while, everything that any of them acknowledged is everywhere.

use super::World;

impl World {
    pub(super) fn violated(&mut self, checker: &'static str, what: String) {
        let at = self.queue.now().0 / 1_000_000;
        self.outcome.violations.push((checker, format!("at {at} ms: {what}")));
    }

    /// Whether two lives were there at once.
    fn met_in_time(&self, one: u64, other: u64) -> bool {
        let (Some(one), Some(other)) = (self.lived.get(&one), self.lived.get(&other)) else { return false };
        let before_end = |start, end: Option<_>| end.is_none_or(|end| start <= end);
        one.0 == other.0 && before_end(one.1, other.2) && before_end(other.1, one.2)
    }

    pub(super) fn judge_pair(&mut self, one: u64, other: u64) {
        if !self.met_in_time(one, other) {
            self.violated("innocent", format!("{one:x} and {other:x} never ran at once"));
        }
    }

    pub(super) fn judge_innocent(&mut self, life: u64) {
        if !self.lived.keys().any(|other| *other != life && self.met_in_time(life, *other)) {
            self.violated("innocent", format!("{life:x} was turned away, and ran beside nobody"));
        }
    }

    /// Those that are linked with somebody who was not told that he is a copy.
    fn served(&self, key: usize) -> Vec<usize> {
        let own = (0..self.processes.len()).filter(|number| self.processes[*number].key == key);
        let is_served = |number: &usize| {
            let process = &self.processes[*number];
            let is_told = |other: usize| !self.processes[other].copied.is_empty();
            let peers = || process.links.keys().filter_map(|key| self.peer(*number, *key));
            process.up && peers().any(|(peer, _)| !is_told(*number) || !is_told(peer))
        };
        own.filter(is_served).collect()
    }

    /// Every two of these are linked, as both see it.
    fn judge_whole(&mut self, checker: &'static str, served: &[usize]) {
        for &one in served {
            for &other in served.iter().filter(|other| **other != one) {
                let seen = self.peer(one, self.processes[other].key);
                if seen != Some((other, self.processes[other].life)) {
                    self.violated(checker, format!("{one} is linked with {seen:?}, not with {other}"));
                }
            }
        }
    }

    pub(super) fn judge_steady(&mut self) {
        if !self.outcome.violations.is_empty() {
            return;
        }
        let mut served = Vec::new();
        for key in 0..self.keys {
            let here = self.served(key);
            match here[..] {
                [one] => served.push(one),
                _ => self.violated("one", format!("of key {key} {here:?} are linked")),
            }
            let own: Vec<usize> =
                (0..self.processes.len()).filter(|number| self.processes[*number].key == key).collect();
            if own.len() > 1 {
                self.count("keys with copies");
            }
            if self.calm && here[..] != own[..1] {
                self.violated("first", format!("of key {key} {here:?} is served, not {:?}", own.first()));
            }
            for number in own.into_iter().filter(|number| !here.contains(number)) {
                if self.processes[number].copied.is_empty() {
                    self.violated("one", format!("{number} is linked with nobody and was told nothing"));
                }
            }
        }
        self.judge_whole("one", &served);
    }

    pub(super) fn judge_alone(&mut self) {
        let running: Vec<usize> = (0..self.processes.len()).filter(|one| self.processes[*one].up).collect();
        self.judge_whole("alone", &running);
    }

    pub(super) fn judge_end(&mut self) {
        if !self.outcome.violations.is_empty() {
            return;
        }
        let running: Vec<usize> = (0..self.processes.len()).filter(|one| self.processes[*one].up).collect();
        for number in running {
            let here = &self.processes[number].disk.records;
            let lost = self.acknowledged.iter().find(|(dot, value)| here.get(*dot) != Some(*value));
            if let Some((dot, _)) = lost {
                self.violated("kept", format!("{number} lacks {dot:x?}"));
            }
        }
    }
}
