//! Whether a body can be had from anybody, from what sites answer who were asked for it.
//!
//! A pure machine: the shell names the chunks that are not here, whom it asks and who cannot be asked; it tells what
//! each says. The verdict that nobody has it is the only one that lets a reader be shown something else, so it needs
//! the word of every site that may have it, but for those that are declared lost: they are believed if they answer
//! (the disk is there again), and not waited for.
//!
//! Invariants: silence is no word; a site that is lost neither proves nor disproves anything by being silent; a verdict
//! does not change by further answers but to the better, when a chunk turns up.

use std::collections::BTreeSet;

use skerry_base::{ChunkId, SiteId};

/// What is known in the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// All of it is at sites that answered, or here.
    Readable,
    /// These may have it and did not answer; nobody else has it. Empty: nobody has it, and no loss explains that.
    Unreachable(BTreeSet<SiteId>),
    /// Everybody who may have it, but for lost sites, said that they do not.
    Gone,
}

/// A search for the chunks of one body.
#[derive(Debug, Clone)]
pub struct Whereabouts {
    missing: BTreeSet<ChunkId>,
    asked: BTreeSet<SiteId>,
    silent: BTreeSet<SiteId>,
    lost: BTreeSet<SiteId>,
    explained: bool,
}

impl Whereabouts {
    /// These chunks are not here. `asked` are being asked, lost ones among them if they have a link; `silent` cannot be.
    /// `explained`: a site that may have had it was declared lost at some time.
    pub fn new(
        missing: BTreeSet<ChunkId>,
        (asked, silent): (BTreeSet<SiteId>, BTreeSet<SiteId>),
        lost: BTreeSet<SiteId>,
        explained: bool,
    ) -> Self {
        Self { missing, asked, silent, lost, explained }
    }

    /// A site has these of them, and not the others.
    pub fn answered(&mut self, site: SiteId, has: impl IntoIterator<Item = ChunkId>) {
        if self.asked.remove(&site) {
            for chunk in has {
                self.missing.remove(&chunk);
            }
        }
    }

    /// A site that was asked says nothing, or nothing that can be understood.
    pub fn failed(&mut self, site: SiteId) {
        if self.asked.remove(&site) {
            self.silent.insert(site);
        }
    }

    /// Who has not answered yet.
    pub const fn asked(&self) -> &BTreeSet<SiteId> {
        &self.asked
    }

    /// Who could not be asked, or did not answer.
    pub const fn silent(&self) -> &BTreeSet<SiteId> {
        &self.silent
    }

    /// What nobody was found to have so far.
    pub const fn missing(&self) -> &BTreeSet<ChunkId> {
        &self.missing
    }

    /// The verdict; none while somebody who was asked may still answer.
    pub fn verdict(&self) -> Option<Verdict> {
        if self.missing.is_empty() {
            return Some(Verdict::Readable);
        }
        if !self.asked.is_empty() {
            return None;
        }
        let silent: BTreeSet<SiteId> = self.silent.difference(&self.lost).copied().collect();
        let gone = silent.is_empty() && self.explained;
        Some(if gone { Verdict::Gone } else { Verdict::Unreachable(silent) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(number: u8) -> SiteId {
        SiteId([number; 16])
    }

    fn sites(numbers: &[u8]) -> BTreeSet<SiteId> {
        numbers.iter().copied().map(site).collect()
    }

    fn chunk(number: u8) -> ChunkId {
        ChunkId([number; 32])
    }

    fn search(asked: &[u8], silent: &[u8], lost: &[u8]) -> Whereabouts {
        let missing = [chunk(1), chunk(2)].into();
        Whereabouts::new(missing, (sites(asked), sites(silent)), sites(lost), !lost.is_empty())
    }

    #[test]
    fn gone_needs_everybody_s_word_but_the_lost_one_s() {
        let mut search = search(&[2, 3], &[4], &[4]);
        assert_eq!(search.verdict(), None);
        search.answered(site(2), []);
        assert_eq!(search.verdict(), None, "3 may have it");
        search.answered(site(3), [chunk(1)]);
        assert_eq!(search.verdict(), Some(Verdict::Gone), "half a body is none");
        assert_eq!(search.missing().len(), 1);
    }

    #[test]
    fn silence_is_no_word() {
        let mut search = search(&[2, 3], &[4, 5], &[4]);
        search.answered(site(2), []);
        search.failed(site(3));
        assert_eq!(search.verdict(), Some(Verdict::Unreachable(sites(&[3, 5]))));
    }

    #[test]
    fn several_sites_have_it_together_and_who_is_lost_is_believed() {
        let mut search = search(&[2, 4], &[5], &[4]);
        search.answered(site(2), [chunk(1)]);
        search.answered(site(4), [chunk(2), chunk(9)]);
        assert_eq!(search.verdict(), Some(Verdict::Readable), "whoever else is silent");
    }

    #[test]
    fn what_no_loss_explains_is_not_gone() {
        let mut search = search(&[2], &[], &[]);
        search.answered(site(2), []);
        assert_eq!(search.verdict(), Some(Verdict::Unreachable(BTreeSet::new())));
        search.answered(site(2), [chunk(1), chunk(2)]);
        assert_eq!(search.missing().len(), 2, "nobody answers twice");
    }
}
