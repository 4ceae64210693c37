//! Nothing acknowledged is lost: every acknowledged write is current, or a later context covers it, or it is
//! listed among the conflicts.

use skerry_base::kv::View;
use skerry_model::space::SpaceError;

use super::Violation;
use crate::history::{History, Outcome, Place};
use crate::standing::{Shown, is_readable};
use crate::verdict;

const NAME: &str = "acknowledged";

/// Judges one key at a site that has heard of everything.
pub fn check(
    history: &History,
    place: &Place,
    site: usize,
    view: &dyn View,
) -> Result<Vec<Violation>, SpaceError> {
    let mut found = Vec::new();
    let all = verdict::of_all(history, place);
    let shown = Shown::read(view, place)?;
    let acknowledged = history.of(place).filter(|write| write.outcome == Outcome::Acknowledged);
    for write in acknowledged.filter(|write| !write.is_excused() && all.alive().contains(&write.dot)) {
        if !is_readable(view, place, write.dot)? {
            found.push(Violation::at(NAME, site, format!("{place:?} {} is lost", write.dot)));
        }
    }
    found.extend(check_conflicts(history, place, site, &shown));
    Ok(found)
}

/// Heads that are puts are current, listed, counted, or say what one of those says.
fn check_conflicts(history: &History, place: &Place, site: usize, shown: &Shown) -> Vec<Violation> {
    let all = verdict::of_all(history, place);
    let heads = all.heads(history.writes_of(place.0));
    let best = verdict::current(history, place, &all).map(|write| write.dot);
    let mut found = Vec::new();
    if !verdict::shows(history, place, shown.current, &all) {
        let what = format!("{place:?} shows {:?}, and {best:?} wins", shown.current);
        found.push(Violation::at(NAME, site, what));
    }
    let visible = |write: &&&crate::history::Write| {
        Some(write.dot) == shown.current || shown.listed.contains(&write.dot)
    };
    // What a tombstone had killed that all have forgotten, or what was lost, may be found, and need not.
    for head in heads.iter().filter(|head| verdict::is_put(head) && !head.is_excused()) {
        let said_elsewhere = heads.iter().filter(visible).any(|other| other.said == head.said);
        if !visible(&head) && !said_elsewhere && shown.unlisted == 0 {
            let what = format!("{place:?} {} lost a conflict and is not listed", head.dot);
            found.push(Violation::at(NAME, site, what));
        }
    }
    found
}
