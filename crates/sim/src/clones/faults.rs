//! What strikes: copies are made and started, processes die, wires are cut, backups are put back; and what an operator does
//! about two copies in the end.

use super::{ALONE, COPIES, Clones, Disk, Event, Instant, Process, World, seconds};
use std::collections::{BTreeMap, BTreeSet};

impl World {
    pub(super) fn strike(&mut self) {
        if self.resting {
            return;
        }
        let number = self.draw.below(self.processes.len() as u64) as usize;
        match self.draw.below(if self.calm { 1 } else { 8 }) {
            0 => self.copy(number),
            1 | 2 => {
                self.count("kills");
                self.kill(number);
                self.plan(seconds(1)..=seconds(300), Event::Start(number));
            }
            3..=5 => self.cut(number),
            6 => self.processes[number].backup = Some(self.processes[number].disk.clone()),
            _ => self.put_back(number),
        }
        self.plan(seconds(10)..=seconds(200), Event::Strike);
    }

    /// The disk of a process, running or not, is copied, and the copy is started somewhere.
    fn copy(&mut self, number: usize) {
        let key = self.processes[number].key;
        // One key at least is never copied.
        let own = self.processes.iter().filter(|process| process.key == key).count();
        if own >= COPIES || key == 0 {
            return;
        }
        self.count("copies");
        let process = Process {
            key,
            disk: self.processes[number].disk.clone(),
            backup: None,
            up: false,
            life: 0,
            machine: Clones::default(),
            links: BTreeMap::new(),
            copied: BTreeSet::new(),
            ask_at: Instant(0),
        };
        self.processes.push(process);
        let copy = self.processes.len() - 1;
        // On an island of its own, or with one half of the others.
        if !self.calm && self.draw.below(2) == 0 {
            self.count("copies apart");
            for other in 0..copy {
                if self.draw.below(2) == 0 {
                    self.block(copy, other);
                }
            }
        }
        self.plan(seconds(0)..=seconds(120), Event::Start(copy));
    }

    fn cut(&mut self, one: usize) {
        let other = self.draw.below(self.processes.len() as u64) as usize;
        if one != other && self.processes[one].key != self.processes[other].key {
            self.count("cuts");
            self.block(one, other);
        }
    }

    fn block(&mut self, one: usize, other: usize) {
        let pair = (one.min(other), one.max(other));
        self.blocked.insert(pair);
        let key = self.processes[other].key;
        if self.peer(one, key).is_some_and(|(end, _)| end == other)
            && let Some(link) = self.processes[one].links.get(&key).copied()
        {
            self.lose(link);
        }
        self.plan(seconds(20)..=seconds(900), Event::Heal(pair.0, pair.1));
    }

    /// A backup is put back, while no copy of it runs: that is no clone, and must not be taken for one.
    fn put_back(&mut self, number: usize) {
        let key = self.processes[number].key;
        let is_alone = self.processes.iter().filter(|process| process.key == key).count() == 1;
        let Some(backup) = self.processes[number].backup.clone().filter(|_| is_alone) else { return };
        self.count("backups put back");
        self.kill(number);
        let before = std::mem::replace(&mut self.processes[number].disk, backup);
        self.excuse(&before);
        self.plan(seconds(1)..=seconds(60), Event::Start(number));
    }

    /// What was on that disk alone is gone with it.
    fn excuse(&mut self, before: &Disk) {
        for dot in before.records.keys() {
            if !self.processes.iter().any(|process| process.disk.records.contains_key(dot)) {
                self.acknowledged.remove(dot);
            }
        }
    }

    /// Nothing strikes any more; every copy runs.
    pub(super) fn rest(&mut self) {
        self.resting = true;
        self.blocked.clear();
        for process in 0..self.processes.len() {
            self.start(process);
        }
    }

    /// An operator stops all copies, lets each run alone for a while, so that what it wrote comes to the others, and leaves
    /// the first running.
    pub(super) fn take_turns(&mut self) {
        if !self.outcome.violations.is_empty() {
            return;
        }
        // What is written while a copy is about to be stopped is not waited for.
        self.quiet = true;
        for turn in (0..COPIES).rev() {
            for key in 0..self.keys {
                let own: Vec<usize> =
                    (0..self.processes.len()).filter(|number| self.processes[*number].key == key).collect();
                let runs = own.get(turn.min(own.len() - 1)).copied();
                for number in own.iter().filter(|number| Some(**number) != runs) {
                    self.kill(*number);
                }
                if let Some(number) = runs.filter(|number| !self.processes[*number].up || own.len() > 1) {
                    self.kill(number);
                    self.start(number);
                }
            }
            self.go_for(ALONE);
            self.judge_alone();
        }
    }
}
