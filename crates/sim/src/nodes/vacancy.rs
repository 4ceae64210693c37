//! Machines that are gone for good, and an operator who says so of some of them before another one has their seat.

use std::collections::BTreeSet;

use skerry_federation::site_view::{Input, Seats, SiteView};
use skerry_scenario::clock::{millis, seconds};
use skerry_scenario::draw::Draw;

use super::faults::Mend;
use super::{Event, Mistake, What, World, Write};

/// Who was expelled, and nobody has the seat.
#[derive(Debug)]
pub(super) struct Vacancy {
    draw: Draw,
    gone: Seats,
}

impl Vacancy {
    /// Draws of its own: worlds in which nobody burns are what they were.
    pub(super) fn new(seed: u64) -> Self {
        Self { draw: Draw::from_seed(seed).fork("vacancy"), gone: Seats::NONE }
    }
}

impl World {
    /// Whether the site survives that a node burns: one at a time, and of two one that counts is left.
    pub(super) fn survives(&self, node: usize) -> bool {
        let seat = self.nodes[node].seat;
        let have_disks =
            self.site().filter(|other| *other != node).all(|other| self.nodes[other].memory.is_some());
        let view = self.views.last_key_value().map(|(_, view)| view);
        have_disks && view.is_some_and(|view| !view.live.without(seat).is_empty())
    }

    /// A node that the view went on without, as one that is gone, begins as a stranger.
    pub(super) fn forget_if_fenced(&mut self, node: usize) {
        let place = &mut self.nodes[node];
        if place.machine.as_ref().is_some_and(SiteView::is_fenced) {
            self.count("nodes that were fenced");
            self.kill(node);
            self.nodes[node].memory = None;
            self.start(node);
        }
    }

    /// What a home document said that no disk has was said to nobody.
    pub(super) fn forget_what_burned(&mut self) {
        let kept = |write: &u64| self.nodes.iter().any(|node| node.kept.held.contains(write));
        let said = |(number, write): (&u64, &Write)| match &write.what {
            What::Home { named, .. } if kept(number) => Some((write.bucket, named.epoch)),
            _ => None,
        };
        let said: BTreeSet<(usize, u64)> = self.writes.iter().filter_map(said).collect();
        self.named.retain(|of, _| said.contains(of));
    }

    /// A disk burned. Of some machines an operator says so, and it takes a while until another one is there.
    pub(super) fn replace_later(&mut self, node: usize) {
        if self.vacancy.draw.below(2) == 0 {
            return self.plan(millis(100)..=seconds(6), Event::Mend(Mend::Start(node)));
        }
        let wait = self.vacancy.draw.span(seconds(3)..=seconds(12));
        self.plan(wait..=wait, Event::Mend(Mend::Start(node)));
        let after = self.vacancy.draw.span(millis(0)..=seconds(3));
        self.plan(after..=after, Event::Expel { node });
    }

    /// The word reaches every node that runs; the others with their start.
    pub(super) fn expel(&mut self, node: usize) {
        if self.nodes[node].machine.is_none() {
            self.count("machines expelled");
            self.vacancy.gone = self.vacancy.gone.with(self.nodes[node].seat);
            self.site().for_each(|other| self.tell_gone(other));
        }
    }

    pub(super) fn tell_gone(&mut self, node: usize) {
        if self.all.len() > 1 {
            self.give(node, Input::Gone(self.vacancy.gone));
        }
    }

    /// A machine takes a seat: all know it before they hear it.
    pub(super) fn seated_anew(&mut self, node: usize) {
        let seat = self.nodes[node].seat;
        if self.vacancy.gone.contains(seat) {
            self.vacancy.gone = self.vacancy.gone.without(seat);
            self.site().for_each(|other| self.tell_gone(other));
        }
    }

    /// Who wrongly takes silence for the end of a machine.
    pub(super) fn believe_silence(&mut self, node: usize) {
        if self.mistake == Some(Mistake::SilenceIsEnd) {
            let silent = Seats::of(self.nodes[node].seat);
            for other in self.site() {
                let gone = if other == node { self.all.minus(silent) } else { silent };
                self.give(other, Input::Gone(gone));
            }
        }
    }

    /// How many disks must have what is acknowledged by a node.
    pub(super) fn voters_needed(&self, node: usize) -> usize {
        let view = self.nodes[node].machine.as_ref().and_then(|machine| machine.view());
        view.map_or(self.all, |view| view.voters(self.all)).majority()
    }
}
