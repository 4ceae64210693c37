//! Among conditional operations that expect the same state of a key, at most one wins.
//!
//! Bodies are drawn, so no state of a key comes twice: a second win from the same state means that two sites decided,
//! or that one forgot.

use std::collections::BTreeMap;

use skerry_base::Dot;

use super::Violation;
use crate::history::Place;

/// The state that a conditional operation expects of a key: the ETag of its object, none for no object.
pub type Expected = Option<String>;

/// Who won what.
#[derive(Debug, Clone, Default)]
pub struct Races {
    wins: BTreeMap<(Place, Expected), Dot>,
}

impl Races {
    /// A conditional operation was answered as done. Who won before counts as long as that was not lost, with a backup or a journal
    /// that rots.
    pub fn won(
        &mut self,
        site: usize,
        (place, expected, dot): (&Place, &Expected, Dot),
        is_lost: impl Fn(Dot) -> bool,
    ) -> Option<Violation> {
        let winner = self.wins.entry((place.clone(), expected.clone())).or_insert(dot);
        if is_lost(*winner) {
            *winner = dot;
        }
        let first = *winner;
        let what = format!("{place:?}: {dot} won from {expected:?}, as {first} had");
        (first != dot).then(|| Violation::at("races", site, what))
    }
}
