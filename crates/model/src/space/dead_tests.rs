//! What a key shows but for versions that died elsewhere, and which of them a node lets go of.

#![expect(clippy::unwrap_used, reason = "tests")]

use skerry_base::kv::Tables;
use skerry_base::{Dot, Hlc, Origin, Vector};

use super::super::tests::{BUCKET, apply, origin, put, store};
use super::super::{Below, Progress, Subscription, current, followed, heads};
use super::{but_for, let_go};
use crate::Entry;
use crate::record::Record;

fn dot(seq: u64) -> Dot {
    Dot { origin: origin(1), seq }
}

/// Three versions of a key, each over the one before, and one beside the last.
fn read() -> Tables {
    let mut tables = Tables::default();
    for seq in 1..=3 {
        let context = Vector::from_iter([(origin(1), seq - 1)]);
        store(&mut tables, Record { context, clock: Hlc(seq), ..put(1, seq, "key") });
    }
    let context = Vector::from_iter([(origin(1), 1)]);
    store(&mut tables, Record { context, clock: Hlc(1), ..put(2, 1, "key") });
    tables
}

fn shown(tables: &Tables, dead: &[Dot]) -> Vec<Dot> {
    let heads = but_for(tables, BUCKET, dead, |left| heads(left, BUCKET, "key")).unwrap().unwrap();
    heads.iter().map(|record| record.dot).collect()
}

#[test]
fn what_a_dead_version_covered_shows_again_and_the_tables_stay() {
    let tables = read();
    let beside = Dot { origin: origin(2), seq: 1 };
    assert_eq!(shown(&tables, &[]), [dot(3), beside]);
    assert_eq!(shown(&tables, &[dot(3)]), [dot(2), beside]);
    assert_eq!(shown(&tables, &[dot(3), dot(2), beside]), [dot(1)]);
    assert_eq!(shown(&tables, &[dot(3), dot(2), beside, dot(1), dot(9)]), [] as [Dot; 0]);
    assert_eq!(current(&tables, BUCKET, "key").unwrap().unwrap().dot, dot(3));
}

#[test]
fn only_what_is_loose_is_let_go_of() {
    let mut tables = read();
    let dots = vec![dot(3), dot(2)];
    let drop = let_go(&tables, BUCKET, "key", dots.clone()).unwrap().unwrap();
    assert_eq!(drop, Entry::Drop { bucket: BUCKET, dots: dots.clone() });
    let mut left = read();
    apply(&mut left, &drop);
    assert_eq!(current(&left, BUCKET, "key").unwrap().unwrap().dot, Dot { origin: origin(2), seq: 1 });
    let upto = Vector::from_iter([(origin(1), 2)]);
    apply(&mut tables, &Entry::Vector { bucket: BUCKET, upto });
    let drop = let_go(&tables, BUCKET, "key", dots.clone()).unwrap().unwrap();
    assert_eq!(
        drop,
        Entry::Drop { bucket: BUCKET, dots: vec![dot(3)] },
        "that it lacks it would say that it is dead"
    );
    let upto = Vector::from_iter([(origin(1), 3)]);
    apply(&mut tables, &Entry::Vector { bucket: BUCKET, upto });
    assert_eq!(let_go(&tables, BUCKET, "key", dots).unwrap(), None);
}

/// Below a followed prefix, and while a feed is being taken, what killed it comes: nothing goes before that.
#[test]
fn where_the_killer_comes_nothing_is_let_go_of() {
    let mut tables = read();
    let below = |prefix: &str| Below { bucket: BUCKET, prefix: prefix.into() };
    apply(&mut tables, &followed(&below("l"), Some(&Subscription::default())));
    assert!(let_go(&tables, BUCKET, "key", vec![dot(3)]).unwrap().is_some(), "another prefix");
    apply(&mut tables, &followed(&below("k"), Some(&Subscription::default())));
    assert_eq!(let_go(&tables, BUCKET, "key", vec![dot(3)]).unwrap(), None);
    let mut tables = read();
    let source: Origin = origin(3);
    let progress = Some(Progress { source, ..Progress::default() });
    apply(&mut tables, &Entry::Progress { bucket: BUCKET, source, progress });
    assert_eq!(let_go(&tables, BUCKET, "key", vec![dot(3)]).unwrap(), None);
}
