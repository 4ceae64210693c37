//! What wins: which records of a key live, which are heads, which one is current.
//!
//! Why here: the one place that says it; the incremental state of [`crate::space`] must equal this, and the
//! property tests compare both with the definition over all records ever.
//!
//! The definition. A null-version is killed by a null-type version that covers it and does not keep it; an
//! `Erase` kills its target, and takes its target's place as a killer (its context, keeps and versioning are
//! the target's), so that what the target had replaced stays dead. Enabled versions are killed only by
//! `Erase`. A note is killed by what kills its target. Killing is for ever, also when the killer is killed.
//!
//! Forgetting. A killed record is forgotten when some record that kills it also kills everything that it
//! would ([`subsumes`]); this is a strict partial order, so what is left is a function of the set of records.
//! A killed record that nobody subsumes stays as *spent*: without payload, only to kill what comes late.
//!
//! Invariants: pure functions of records; nothing here depends on the order of arrival.

use std::cmp::Ordering;

use skerry_base::{Dot, Hlc};

use crate::record::{HomeDecision, Record, Statement};

/// Whether `killer` ends the life of `victim` (of the same key).
pub fn kills(killer: &Record, victim: &Record) -> bool {
    let (subject, same_key) = (victim.subject(), killer.key == victim.key);
    if !same_key || matches!(victim.statement, Statement::Erase { .. }) {
        return false;
    }
    match killer.statement {
        Statement::Note { .. } => false,
        Statement::Erase { target } if target == subject => true,
        _ => {
            let null = killer.is_null() && victim.is_null();
            null && killer.context.covers(subject) && !killer.keeps(subject)
        }
    }
}

/// Whether `killer`, which kills `victim`, also kills whatever `victim` would kill.
pub fn subsumes(killer: &Record, victim: &Record) -> bool {
    if !victim.is_version() || !victim.is_null() {
        return true;
    }
    killer.is_null()
        && killer.context.includes(&victim.context)
        && killer.keeps.iter().all(|kept| !victim.context.covers(kept.dot) || victim.keeps(kept.dot))
}

/// Whether two records say the same to a client: then they are no conflict.
pub fn same_statement(one: &Record, other: &Record) -> bool {
    match (&one.statement, &other.statement) {
        (Statement::Put(one), Statement::Put(other)) => one.same_content(other),
        (Statement::Delete, Statement::Delete) => true,
        _ => false,
    }
}

/// What decides between concurrent heads: a home's decision, then a write before a delete (a delete hides only
/// what it has seen), then the clock, then the dot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank {
    home: Option<HomeDecision>,
    is_put: bool,
    clock: Hlc,
    dot: Dot,
}

impl Rank {
    /// The rank of a version.
    pub fn of(record: &Record) -> Self {
        let is_put = record.object().is_some();
        Self { home: record.home, is_put, clock: record.clock, dot: record.dot }
    }
}

/// Highest rank first.
pub fn by_rank(one: &Record, other: &Record) -> Ordering {
    Rank::of(other).cmp(&Rank::of(one))
}

/// The losers among `heads` (highest rank first): heads that say something else than the current one, one for
/// each thing said.
pub fn losers<'a>(heads: &[&'a Record]) -> Vec<&'a Record> {
    let mut distinct: Vec<&Record> = Vec::new();
    for &head in heads {
        if !distinct.iter().any(|seen| same_statement(seen, head)) {
            distinct.push(head);
        }
    }
    distinct.into_iter().skip(1).collect()
}
