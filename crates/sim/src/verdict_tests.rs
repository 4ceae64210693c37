//! The law of the design in small cases, and that the order of arrival does not matter.

use std::collections::{BTreeMap, BTreeSet};

use skerry_base::{BucketId, ChunkId, NodeId, Origin};

use super::*;
use crate::history::{Body, Excuse, Outcome};
use skerry_scenario::draw::Draw;

fn dot(seq: u64) -> Dot {
    Dot { origin: Origin { node: NodeId([1; 16]), incarnation: 1 }, seq }
}

fn write(seq: u64, said: Said, null: bool, seen: &[u64]) -> Write {
    Write {
        dot: dot(seq),
        place: (BucketId([1; 16]), "key".into()),
        site: 0,
        said,
        null,
        seen: seen.iter().map(|seq| dot(*seq)).collect(),
        keeps: BTreeSet::new(),
        clock: Hlc(seq),
        home: None,
        outcome: Outcome::Acknowledged,
        excuse: Excuse::default(),
    }
}

fn put(seq: u64, null: bool, seen: &[u64]) -> Write {
    write(seq, Said::Put(Body { hash: ChunkId::of(b""), length: 0 }), null, seen)
}

/// Dead versions, heads, and the best head.
type Judgement = (BTreeSet<u64>, BTreeSet<u64>, Option<u64>);

fn judge_in_order(writes: &[Write], order: &[usize]) -> Judgement {
    let index: BTreeMap<Dot, Write> = writes.iter().map(|write| (write.dot, write.clone())).collect();
    let mut held = Held::default();
    order.iter().for_each(|at| held.take(&writes[*at], &index));
    let heads = held.heads(&index);
    let best = heads.iter().max_by_key(|write| rank(write)).map(|write| write.dot.seq);
    let dead = held.dead().iter().map(|dot| dot.seq).collect();
    (dead, heads.iter().map(|write| write.dot.seq).collect(), best)
}

/// In every order (drawn), with repeats: one judgement.
fn judge(writes: &[Write]) -> Judgement {
    let straight: Vec<usize> = (0..writes.len()).collect();
    let judgement = judge_in_order(writes, &straight);
    let mut draw = Draw::from_seed(1);
    for _ in 0..50 {
        let mut order = straight.clone();
        order.extend((0..3).map(|_| draw.below(writes.len() as u64) as usize));
        for at in (1..order.len()).rev() {
            order.swap(at, draw.below(at as u64 + 1) as usize);
        }
        assert_eq!(judge_in_order(writes, &order), judgement, "in the order {order:?}");
    }
    judgement
}

fn set(seqs: &[u64]) -> BTreeSet<u64> {
    seqs.iter().copied().collect()
}

#[test]
fn a_later_null_version_replaces_and_a_concurrent_one_does_not() {
    let writes = [put(1, true, &[]), put(2, true, &[1]), put(3, true, &[1])];
    assert_eq!(judge(&writes), (set(&[1]), set(&[2, 3]), Some(3)));
}

#[test]
fn a_delete_hides_only_what_it_has_seen() {
    let delete = |seen: &[u64]| write(3, Said::Delete, true, seen);
    let writes = [put(1, true, &[]), put(2, true, &[])];
    let concurrent = [writes.as_slice(), &[delete(&[1])]].concat();
    assert_eq!(judge(&concurrent), (set(&[1]), set(&[2, 3]), Some(2)));
    let later = [writes.as_slice(), &[delete(&[1, 2])]].concat();
    assert_eq!(judge(&later), (set(&[1, 2]), set(&[3]), Some(3)));
}

#[test]
fn what_a_home_decided_goes_before_what_had_not_seen_it() {
    let decided = |n, mut write: Write| {
        write.home = Some(HomeDecision { epoch: 1, n });
        write
    };
    let delete = decided(1, write(2, Said::Delete, true, &[1]));
    let writes = [put(1, true, &[]), delete.clone(), put(3, true, &[1])];
    assert_eq!(judge(&writes), (set(&[1]), set(&[2, 3]), Some(2)), "also a delete");
    let writes = [delete, decided(2, put(3, true, &[])), put(4, true, &[])];
    assert_eq!(judge(&writes), (set(&[]), set(&[2, 3, 4]), Some(3)), "the later decision");
}

#[test]
fn versions_live_until_they_are_erased() {
    let erase = write(3, Said::Erase(dot(2)), false, &[1, 2]);
    let writes = [put(1, false, &[]), put(2, false, &[1]), erase];
    assert_eq!(judge(&writes), (set(&[2]), set(&[1]), Some(1)), "the version before it shows again");
}

#[test]
fn what_an_erased_version_had_replaced_stays_dead() {
    let erase = write(3, Said::Erase(dot(2)), true, &[1, 2]);
    let writes = [put(1, true, &[]), put(2, true, &[1]), erase];
    assert_eq!(judge(&writes), (set(&[1, 2]), set(&[]), None));
}

#[test]
fn a_kept_loser_lives_beside_what_covers_it() {
    let mut later = put(3, true, &[1, 2]);
    later.keeps.insert(dot(1));
    let writes = [put(1, true, &[]), put(2, true, &[]), later];
    assert_eq!(judge(&writes), (set(&[2]), set(&[3]), Some(3)));
}

#[test]
fn an_erase_stands_for_its_target_though_that_never_came() {
    let target = put(2, true, &[1]);
    let erase = write(3, Said::Erase(dot(2)), true, &[1, 2]);
    let writes = [put(1, true, &[]), target, erase];
    assert_eq!(judge_in_order(&writes, &[0, 2]), (set(&[1]), set(&[]), None));
    assert_eq!(judge_in_order(&writes, &[2, 0]), (set(&[1]), set(&[]), None));
}

#[test]
fn any_retired_head_that_goes_before_what_is_kept_may_be_shown() {
    let delete = |seq| {
        let mut write = write(seq, Said::Delete, true, &[]);
        write.excuse.retired = true;
        write
    };
    let (early, late, kept) = (delete(2), delete(4), write(3, Said::Delete, true, &[]));
    let admitted = |heads: &[&Write]| {
        let shown = [None, Some(1), Some(2), Some(3), Some(4)];
        shown.into_iter().filter(|seq| admits(heads, seq.map(dot))).collect::<Vec<_>>()
    };
    assert_eq!(admitted(&[]), [None]);
    assert_eq!(
        admitted(&[&early, &late]),
        [None, Some(2), Some(4)],
        "of two halves, each has retired its own"
    );
    assert_eq!(admitted(&[&early, &late, &kept]), [Some(3), Some(4)]);
    let put = put(1, true, &[]);
    assert_eq!(admitted(&[&early, &late, &put]), [Some(1)], "a put goes before deletes");
}
