//! Losses: an operator's word that the disks of a site are gone, and that word taken back.
//!
//! Why here: every site must find the same sites lost once it has heard the same words, in whatever order they came.
//! A site has one document that counts how often that was said and taken back; the highest count wins. Saying what is
//! already so writes nothing, so two operators who say the same during a cut have said it once.
//!
//! Invariants: the count never falls; an odd one means lost, an even one found; nothing is deleted by it, so that what
//! was lost is there again when the disk is.

use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};
use skerry_base::codec::Versioned;
use skerry_base::kv::View;
use skerry_base::{BucketId, SiteId, WallTime};

use super::system::{SiteState, SystemKey, document, document_object, each_document, site};
use crate::merge::Rank;
use crate::object::Object;
use crate::space::{self, SpaceError};

/// Lives that a declaration names at most: 64 numbers are about 640 bytes.
pub const LIVES_NAMED: usize = 64;

/// What was said last of a site's disks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LossDocument {
    /// How often it was said and taken back; odd: lost.
    pub count: u64,
    /// When it was declared lost last, by the clock of the site that was told.
    pub since: WallTime,
    /// When this was said, by the clock of the site that wrote it.
    pub said: WallTime,
    /// The site that wrote it.
    pub by: SiteId,
    /// Incarnations of its node that were known when it was declared lost: a disk that has lived one of them is the
    /// one that was meant, or a backup of it.
    pub lives: Vec<u64>,
    /// Who says so.
    pub cause: LossCause,
}

/// Why a loss was declared or taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum LossCause {
    /// An operator's word.
    Said,
    /// The site itself is there again with the disk that was meant.
    Returned,
}

impl Versioned for LossDocument {
    const NAME: &'static str = "loss document";
    const VERSION: u8 = 1;
}

impl LossDocument {
    /// Whether the site is lost now.
    pub const fn is_lost(&self) -> bool {
        self.count % 2 == 1
    }

    /// Whether a disk that has lived these lives is the one that was declared lost.
    pub fn means(&self, lives: impl IntoIterator<Item = u64>) -> bool {
        lives.into_iter().any(|life| self.lives.contains(&life))
    }
}

/// The next count when somebody says that a site is lost, or found; none if that is so already.
pub const fn next_count(known: u64, lost: bool) -> Option<u64> {
    if (known % 2 == 1) == lost { None } else { Some(known.saturating_add(1)) }
}

/// Why nothing is declared.
#[derive(Debug, Clone, thiserror::Error)]
pub enum LossRefusal {
    /// Not a site that was ever admitted.
    #[error("there is no such site in the federation")]
    NoSite,
    /// The site that is asked.
    #[error("this site is not lost: it answers you; ask another")]
    Myself,
    /// It belongs no more, whatever its disks hold.
    #[error("the site was expelled or replaced: its copies count no more, for good")]
    Gone,
    /// The tables could not be read.
    #[error(transparent)]
    Space(#[from] SpaceError),
}

/// A document to be written: `Ask::Put(object)` at `key` of the system bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LossWord {
    /// What it says.
    pub document: LossDocument,
    /// Key in the system bucket.
    pub key: String,
    /// What to put there.
    pub object: Object,
}

impl LossWord {
    fn new(of: SiteId, document: LossDocument, wall: WallTime) -> Self {
        let object = document_object(&document, wall);
        Self { document, key: SystemKey::Loss(of).to_string(), object }
    }
}

/// What was said last of a site: the highest count that is known here.
pub fn loss(view: &dyn View, system: BucketId, of: SiteId) -> Result<Option<LossDocument>, SpaceError> {
    let mut best: Option<(u64, Rank, LossDocument)> = None;
    for head in space::heads(view, system, &SystemKey::Loss(of).to_string())? {
        let Some(found) = document::<LossDocument>(&head)? else { continue };
        let rank = Rank::of(&head);
        if best.as_ref().is_none_or(|(count, known, _)| (found.count, rank) > (*count, *known)) {
            best = Some((found.count, rank, found));
        }
    }
    Ok(best.map(|(_, _, found)| found))
}

/// All sites of which anything was ever said, in order.
pub fn losses(view: &dyn View, system: BucketId) -> Result<Vec<(SiteId, LossDocument)>, SpaceError> {
    let mut found = Vec::new();
    each_document(view, system, "loss/", &mut |key, _| {
        if let SystemKey::Loss(of) = key
            && let Some(said) = loss(view, system, of)?
        {
            found.push((of, said));
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(found)
}

/// An operator says at `me` that the disks of a site are gone, or that they are not. None: that is known already.
pub fn declare_loss(
    view: &dyn View,
    system: BucketId,
    (of, lost): (SiteId, bool),
    me: SiteId,
    wall: WallTime,
) -> Result<Option<LossWord>, LossRefusal> {
    let known = site(view, system, of)?.ok_or(LossRefusal::NoSite)?;
    if known.state != SiteState::Member {
        return Err(LossRefusal::Gone);
    }
    if lost && of == me {
        return Err(LossRefusal::Myself);
    }
    let before = loss(view, system, of)?;
    let Some(count) = next_count(before.as_ref().map_or(0, |said| said.count), lost) else { return Ok(None) };
    let lives = match (&before, lost) {
        (Some(before), false) => before.lives.clone(),
        _ => lives_of(view, system, of)?,
    };
    let since = if lost { wall } else { before.map_or(wall, |said| said.since) };
    let document = LossDocument { count, since, said: wall, by: me, lives, cause: LossCause::Said };
    Ok(Some(LossWord::new(of, document, wall)))
}

/// A site that was declared lost is there again, with a disk that has lived these lives. None if it is not lost, or
/// if the disk is another one: then only an operator's word makes it count again.
pub fn take_back_loss(
    view: &dyn View,
    system: BucketId,
    me: SiteId,
    lives: impl IntoIterator<Item = u64>,
    wall: WallTime,
) -> Result<Option<LossWord>, SpaceError> {
    let Some(said) = loss(view, system, me)?.filter(LossDocument::is_lost) else { return Ok(None) };
    if !said.means(lives) {
        return Ok(None);
    }
    let count = said.count.saturating_add(1);
    let document = LossDocument { count, said: wall, by: me, cause: LossCause::Returned, ..said };
    Ok(Some(LossWord::new(me, document, wall)))
}

/// The lives of a site's nodes that have left a record in the system bucket.
pub fn lives_of(view: &dyn View, system: BucketId, of: SiteId) -> Result<Vec<u64>, SpaceError> {
    let nodes = site(view, system, of)?.map(|known| known.nodes).unwrap_or_default();
    let is_its = |node| nodes.iter().any(|known| known.node == node);
    let vector = space::vector(view, system)?;
    let its = vector.iter().filter(|(origin, _)| is_its(origin.node));
    Ok(its.map(|(origin, _)| origin.incarnation).take(LIVES_NAMED).collect())
}

#[cfg(test)]
#[path = "loss_tests.rs"]
mod tests;
