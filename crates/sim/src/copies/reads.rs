//! Clients that read while sites are lost: what is said to be gone must be nowhere that counts.
//!
//! `reads`: nobody is told that a body is gone while a site that is not lost has it. `losses`: in the end all agree on
//! who is lost, and nobody is whose disk is there. Who comes back with the disk that was meant says so by itself.

use std::collections::BTreeSet;

use skerry_base::{ChunkId, Dot, SiteId};
use skerry_federation::placement::{Verdict, Whereabouts};
use skerry_model::bucket::next_count;
use skerry_scenario::clock::seconds;

use super::{Event, Mistake, World};

impl World {
    /// A client reads some version.
    pub(super) fn read(&mut self, site: usize) {
        self.plan(seconds(1)..=seconds(8), Event::Read { site });
        if !self.sites[site].up {
            return;
        }
        let all: Vec<Dot> = self.sites[site].records.keys().copied().collect();
        let Some(dot) = self.draw.pick(&all).copied() else { return };
        if self.verdict(site, dot) == Verdict::Gone {
            self.count("read as gone");
            self.judge_gone(site, dot);
        }
    }

    /// What a site makes of what the others say of a body.
    pub(super) fn verdict(&self, site: usize, dot: Dot) -> Verdict {
        let place = &self.sites[site];
        let chunk = ChunkId::of(&dot.to_bytes());
        let missing: BTreeSet<ChunkId> =
            (!place.bodies.contains(&dot)).then_some(chunk).into_iter().collect();
        let others = (0..self.sites.len()).filter(|other| *other != site);
        let (asked, silent): (Vec<usize>, Vec<usize>) = others.partition(|other| self.linked(site, *other));
        let ids =
            |numbers: &[usize]| -> BTreeSet<SiteId> { numbers.iter().map(|n| self.sites[*n].id).collect() };
        let silent = if self.mistake == Some(Mistake::SilenceIsLack) { Vec::new() } else { silent };
        let who = (ids(&asked), ids(&silent));
        let lost = match self.mistake {
            Some(Mistake::DrainedIsLost) => self.uncounted_ids(site),
            _ => self.lost_ids(site),
        };
        let mut search = Whereabouts::new(missing, who, lost, !place.lost.is_empty());
        for other in asked {
            let has = self.sites[other].bodies.contains(&dot).then_some(chunk);
            search.answered(self.sites[other].id, has);
        }
        search.verdict().unwrap_or(Verdict::Unreachable(BTreeSet::new()))
    }

    /// Takes back that it is lost, if it has heard that and its disk is the one that was meant.
    pub(super) fn come_back(&mut self, site: usize) {
        let place = &mut self.sites[site];
        let Some((said, meant)) = place.lost.get(&site).copied() else { return };
        if meant == place.life
            && self.mistake != Some(Mistake::NeverBack)
            && let Some(next) = next_count(said, false)
        {
            place.lost.insert(site, (next, meant));
            self.count("back by itself");
        }
    }
}
