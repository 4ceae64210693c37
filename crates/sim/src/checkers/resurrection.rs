//! No delete comes back: what a site has seen replaced, deleted or erased is never shown there again, and what
//! a site shows of a key is what wins among the records it has.

use std::collections::BTreeSet;

use skerry_base::kv::View;
use skerry_model::space::SpaceError;

use super::Violation;
use crate::history::{Held, History, Place};
use crate::standing::{Shown, is_readable};
use crate::verdict;

const NAME: &str = "resurrection";

/// Judges one key at one site by what that site holds; at any time.
pub fn check(
    history: &History,
    held: &Held,
    place: &Place,
    site: usize,
    view: &dyn View,
) -> Result<Vec<Violation>, SpaceError> {
    let mut found = Vec::new();
    for &dot in held.dead() {
        if is_readable(view, place, dot)? {
            found.push(Violation::at(NAME, site, format!("{place:?} {dot} is dead and can be read")));
        }
    }
    let shown = Shown::read(view, place)?;
    let best = verdict::current(history, place, held).map(|write| write.dot);
    let heads = held.heads(history.writes_of(place.0)).iter().map(|write| write.dot).collect::<BTreeSet<_>>();
    let differ = shown.heads.symmetric_difference(&heads);
    let differ = differ.filter(|dot| history.write(place.0, **dot).is_none_or(|write| !write.is_excused()));
    if !verdict::shows(history, place, shown.current, held) || differ.count() > 0 {
        let what = format!(
            "{place:?} shows {:?} with heads {:?}, and of what it holds {best:?} wins with heads {heads:?}",
            shown.current, shown.heads
        );
        found.push(Violation::at(NAME, site, what));
    }
    Ok(found)
}
