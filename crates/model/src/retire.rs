//! Which remembered records may go: tombstones, erases, spent versions that everybody has seen.
//!
//! A record that only kills may be dropped when every member's vector covers it *and everything that it kills*:
//! whatever it would have killed is then refused by the vectors alone. To cover the record is not enough; what
//! it covers may still be on its way to somebody. A tombstone that covers a living version (a kept loser, an
//! enabled version) stays: it is what hides it. Delete markers are versions that clients see, and stay. So does what killed a spent
//! version that stays.
//!
//! So does a delete that the bucket's home decided, until a later write ends it: it goes before puts that had not seen
//! it, and hides them as long as they live. Which of those are still on their way to somebody no vector says (their
//! writers may have burned, and readers hold them), so each site would drop it at another time, and the put would be back.

use std::collections::BTreeSet;

use skerry_base::kv::View;
use skerry_base::{BucketId, Dot, Vector};

use crate::merge::kills;
use crate::record::{Record, Statement, Versioning};
use crate::space::{self, SpaceError, State};

/// How far a sweep of a bucket has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sweep {
    /// Behind this key, of those whose heads are not just one object.
    Keys(Option<String>),
    /// Behind the erases of this version.
    Erases(Option<Dot>),
}

impl Sweep {
    /// The beginning.
    pub const START: Self = Self::Keys(None);
}

/// What everybody has seen, and has [rested](crate::rest::Rest) where feeds still want the younger. No clock is asked.
#[derive(Debug, Clone, Copy)]
pub struct Settled<'a> {
    /// The minimum of all members' vectors.
    pub covered_by_all: &'a Vector,
}

impl Settled<'_> {
    fn holds(&self, record: &Record) -> bool {
        let targeted = record.target().is_none_or(|target| self.covered_by_all.covers(target));
        let seen = self.covered_by_all.covers(record.dot) && self.covered_by_all.includes(&record.context);
        seen && targeted
    }
}

/// Whether there is anything in a bucket that [`droppable`] would look at.
pub fn may_hold(view: &dyn View, bucket: BucketId) -> Result<bool, SpaceError> {
    let keys = space::keys_with_heads(view, bucket, None, 1)?;
    Ok(!keys.is_empty() || !space::aimed(view, bucket, None, 1)?.is_empty())
}

/// Some dots that [`crate::Entry::Drop`] may take, and where to go on; none at the end. Looks at `max` keys or
/// erases.
pub fn droppable(
    view: &dyn View,
    bucket: BucketId,
    settled: Settled<'_>,
    from: &Sweep,
    max: usize,
) -> Result<(Vec<Dot>, Option<Sweep>), SpaceError> {
    let mut dots = Vec::new();
    let next = match from {
        Sweep::Keys(after) => {
            let keys = space::keys_with_heads(view, bucket, after.as_deref(), max)?;
            for key in &keys {
                of_key(view, bucket, key, settled, &mut dots)?;
            }
            let last = keys.into_iter().nth(max.saturating_sub(1));
            Some(last.map_or(Sweep::Erases(None), |key| Sweep::Keys(Some(key))))
        }
        Sweep::Erases(after) => {
            let aimed = space::aimed(view, bucket, *after, max)?;
            let full = aimed.len() >= max;
            let last = aimed.last().map(|(target, _)| *target);
            for (_, record) in aimed {
                let erase = matches!(record.statement, Statement::Erase { .. });
                if erase && !record.is_null() && settled.holds(&record) {
                    dots.push(record.dot);
                }
            }
            last.filter(|_| full).map(|target| Sweep::Erases(Some(target)))
        }
    };
    Ok((dots, next))
}

fn of_key(
    view: &dyn View,
    bucket: BucketId,
    key: &str,
    settled: Settled<'_>,
    dots: &mut Vec<Dot>,
) -> Result<(), SpaceError> {
    let state = State::load(view, bucket, key)?;
    let (mut going, mut tombstones) = (Vec::new(), Vec::new());
    for stored in state.active.iter().filter(|stored| settled.holds(&stored.record)) {
        match &stored.record.statement {
            Statement::Note { .. } => {}
            _ if stored.remembered => going.push(stored.record.as_ref()),
            Statement::Delete
                if stored.record.versioning == Versioning::Off && stored.record.home.is_none() =>
            {
                tombstones.push(stored.record.as_ref());
            }
            _ => {}
        }
    }
    if !tombstones.is_empty() {
        space::for_each_alive(view, bucket, key, &mut |living| {
            tombstones.retain(|tombstone| !tombstone.context.covers(living.dot));
        })?;
    }
    going.append(&mut tombstones);
    let spent = state.active.iter().filter(|stored| stored.remembered && stored.record.is_version());
    keep_killers(&mut going, spent.map(|stored| stored.record.as_ref()).collect());
    dots.extend(going.into_iter().map(|record| record.dot));
    Ok(())
}

/// What keeps a spent version dead stays as long as that does: who takes everything anew, or is new, would be given it and nothing
/// that kills it.
fn keep_killers(going: &mut Vec<&Record>, spent: Vec<&Record>) {
    loop {
        let before = going.len();
        let gone: BTreeSet<Dot> = going.iter().map(|record| record.dot).collect();
        let staying: Vec<&Record> =
            spent.iter().copied().filter(|spent| !gone.contains(&spent.dot)).collect();
        going.retain(|killer| !staying.iter().any(|spent| kills(killer, spent)));
        if going.len() == before {
            return;
        }
    }
}
