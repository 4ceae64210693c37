//! No delete comes back: what a site has seen replaced, deleted or erased is never shown there again, and what
//! a site shows of a key is what wins among the records it has.

use std::collections::BTreeSet;

use skerry_base::Dot;
use skerry_base::kv::View;
use skerry_model::space::SpaceError;

use super::Violation;
use crate::history::{Held, History, Place, Write};
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
    // A disk that was set back behind a delete which all had seen, and let go of, has it back: what that delete ended goes there by a
    // comparison with another site, and nothing that is here says why.
    let differ = differ.filter(|dot| shown.heads.contains(dot) || !is_ended(history, place, **dot));
    if !verdict::shows(history, place, shown.current, held) || differ.count() > 0 {
        let what = format!(
            "{place:?} shows {:?} with heads {:?}, and of what it holds {best:?} wins with heads {heads:?}",
            shown.current, shown.heads
        );
        found.push(Violation::at(NAME, site, what));
    }
    Ok(found)
}

/// Whether a tombstone that was retired ends it.
fn is_ended(history: &History, place: &Place, dot: Dot) -> bool {
    let writes = history.writes_of(place.0);
    let ends = |write: &Write| {
        history.of(place).any(|other| other.excuse.retired && verdict::kills(other, write, writes))
    };
    history.write(place.0, dot).is_some_and(ends)
}
