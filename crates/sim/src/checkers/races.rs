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
    /// A conditional operation was answered as done.
    pub fn won(&mut self, site: usize, place: &Place, expected: &Expected, dot: Dot) -> Option<Violation> {
        let first = *self.wins.entry((place.clone(), expected.clone())).or_insert(dot);
        let what = format!("{place:?}: {dot} won from {expected:?}, as {first} had");
        (first != dot).then(|| Violation::at("races", site, what))
    }
}
