//! What wins, from the history's plain sets: the independent twin of `model::merge`.
//!
//! Naive on purpose; it must be so simple that it is obviously what the design says (§3).
//!
//! - A version without versioning dies when a later one without versioning has seen it and does not keep it.
//! - An erase kills its target; what the target had killed stays dead.
//! - What lives and was seen by nobody who lives is a head; the best head is current: what a home decided, the
//!   later first; then a put before a delete (a delete hides only what it has seen), then the later clock, then
//!   the higher dot.

use skerry_base::{Dot, Hlc};
use skerry_model::record::HomeDecision;

use crate::history::{History, Place, Said, Write, Writes};
use crate::memory::Held;

/// Whether one record ends another one of its key. An erase ends its target, and what its target had ended.
pub fn kills(killer: &Write, victim: &Write, writes: &Writes) -> bool {
    match target(killer) {
        Some(aim) => aim == victim.dot || writes.get(&aim).is_some_and(|gone| replaces(gone, victim)),
        None => replaces(killer, victim),
    }
}

/// Whether a version ends another one by having seen it.
fn replaces(killer: &Write, victim: &Write) -> bool {
    let versions = target(killer).is_none() && target(victim).is_none();
    let null = killer.null && victim.null;
    versions && null && killer.seen.contains(&victim.dot) && !killer.keeps.contains(&victim.dot)
}

/// Whether it is a put.
pub const fn is_put(write: &Write) -> bool {
    matches!(write.said, Said::Put(_))
}

/// The version that an erase aims at.
pub const fn target(write: &Write) -> Option<Dot> {
    match write.said {
        Said::Erase(target) => Some(target),
        Said::Put(_) | Said::Delete => None,
    }
}

/// What decides between concurrent heads.
pub const fn rank(write: &Write) -> (Option<HomeDecision>, bool, Hlc, Dot) {
    (write.home, is_put(write), write.clock, write.dot)
}

/// The judgement over all writes of a key that happened anywhere.
pub fn of_all(history: &History, place: &Place) -> Held {
    let mut held = Held::default();
    for write in history.of(place).filter(|write| history.exists(write)) {
        held.take(write, history.writes_of(place.0));
    }
    held
}

/// Whether a site shows what it should.
pub fn shows(history: &History, place: &Place, shown: Option<Dot>, held: &Held) -> bool {
    admits(&held.heads(history.writes_of(place.0)), shown)
}

/// Of these heads a site shows the best of those that are kept everywhere, or one that was retired, or lost, and goes before it. Each
/// site drops retired ones for itself, and takes them again from who has not; what was lost may lie where nobody counts it: any of
/// them may be there and any not.
fn admits(heads: &[&Write], shown: Option<Dot>) -> bool {
    let kept = heads.iter().filter(|write| !write.is_excused()).max_by_key(|write| rank(write));
    let lingers = |write: &&&Write| write.is_excused() && kept.is_none_or(|kept| rank(kept) < rank(write));
    shown == kept.map(|write| write.dot) || heads.iter().filter(lingers).any(|write| shown == Some(write.dot))
}

/// The best of the heads.
pub fn current<'a>(history: &'a History, place: &Place, held: &Held) -> Option<&'a Write> {
    held.heads(history.writes_of(place.0)).into_iter().max_by_key(|write| rank(write))
}

#[cfg(test)]
#[path = "verdict_tests.rs"]
mod tests;
