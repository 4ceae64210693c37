//! What should be true, straight from the definition, over all records of a key at once.

use std::collections::{BTreeMap, BTreeSet};

use skerry_base::Dot;
use skerry_model::{Record, Statement, Versioning};

/// What the definition says of one key.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Truth {
    pub(crate) alive: BTreeSet<Dot>,
    pub(crate) heads: BTreeSet<Dot>,
    pub(crate) current: Option<Dot>,
    pub(crate) conflict: bool,
}

fn kills(y: &Record, x: &Record) -> bool {
    let subject = match x.statement {
        Statement::Erase { .. } => return false,
        Statement::Note { target, .. } => target,
        _ => x.dot,
    };
    let null = y.versioning != Versioning::Enabled && x.versioning != Versioning::Enabled;
    let kept = y.keeps.iter().any(|kept| kept.dot == subject);
    let covers = null && y.context.covers(subject) && !kept;
    match y.statement {
        Statement::Note { .. } => false,
        Statement::Erase { target } => target == subject || covers,
        Statement::Put(_) | Statement::Delete => covers,
    }
}

fn says(record: &Record) -> String {
    match &record.statement {
        Statement::Put(object) => {
            let mut object = object.clone();
            object.modified = skerry_base::WallTime(0);
            format!("{object:?}")
        }
        other => format!("{other:?}"),
    }
}

/// The truth about each key of these records.
pub(crate) fn truth(records: &BTreeMap<Dot, Record>) -> BTreeMap<String, Truth> {
    let mut keys: BTreeMap<String, Vec<&Record>> = BTreeMap::new();
    for record in records.values() {
        keys.entry(record.key.clone()).or_default().push(record);
    }
    keys.into_iter().map(|(key, records)| (key, of_key(&records))).collect()
}

fn of_key(records: &[&Record]) -> Truth {
    let version = |record: &Record| matches!(record.statement, Statement::Put(_) | Statement::Delete);
    let killed = |x: &Record| records.iter().any(|y| y.dot != x.dot && kills(y, x));
    let alive: Vec<&Record> = records.iter().filter(|x| version(x) && !killed(x)).copied().collect();
    let superseded = |x: &Record| alive.iter().any(|y| y.dot != x.dot && y.context.covers(x.dot));
    let heads: Vec<&Record> = alive.iter().filter(|x| !superseded(x)).copied().collect();
    let rank = |x: &Record| (x.home, matches!(x.statement, Statement::Put(_)), x.clock, x.dot);
    let current = heads.iter().max_by_key(|x| rank(x)).map(|x| x.dot);
    let said: BTreeSet<String> = heads.iter().map(|x| says(x)).collect();
    let kept = |x: &Record| {
        let keeper =
            |y: &&&Record| y.versioning != Versioning::Enabled && y.keeps.iter().any(|k| k.dot == x.dot);
        x.versioning != Versioning::Enabled && superseded(x) && alive.iter().any(|y| keeper(&y))
    };
    let conflict = current.is_some() && (said.len() > 1 || alive.iter().any(|x| kept(x)));
    let dots = |list: &[&Record]| list.iter().map(|x| x.dot).collect();
    Truth { alive: dots(&alive), heads: dots(&heads), current, conflict }
}
