//! Every list composes into a legal one, and every range of it reads back what it should.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;

use proptest::prelude::*;
use skerry_base::limits::{RECORD_CHUNKS, TREE_CHILDREN};

use super::*;
use crate::Object;

fn leaf(n: u64, length: u64) -> ChunkRef {
    ChunkRef { id: ChunkId::of(&n.to_le_bytes()), kind: ChunkKind::Leaf, stored: 1, length }
}

fn read(composed: &Composed, range: Range<u64>) -> (Vec<(ChunkRef, Range<u64>)>, usize) {
    let trees: BTreeMap<ChunkId, &[u8]> =
        composed.trees.iter().map(|tree| (tree.reference.id, &tree.bytes[..])).collect();
    let mut walk = Walk::new(composed.top.clone(), range);
    let (mut leaves, mut asked) = (Vec::new(), 0);
    while let Some(step) = walk.next() {
        match step {
            Step::Tree(tree) => {
                asked += 1;
                walk.supply(trees[&tree.id]).unwrap();
            }
            Step::Leaf(leaf, range) => leaves.push((leaf, range)),
        }
    }
    (leaves, asked)
}

/// The bytes of the range, each as (leaf, offset in it), straight from the list.
fn naive(leaves: &[ChunkRef], range: &Range<u64>) -> Vec<(ChunkRef, Range<u64>)> {
    let mut at = 0;
    let mut found = Vec::new();
    for &leaf in leaves {
        let (from, to) = (range.start.max(at), range.end.min(at + leaf.length));
        if from < to {
            found.push((leaf, from - at..to - at));
        }
        at += leaf.length;
    }
    found
}

fn check_list(leaves: &[ChunkRef], range: &Range<u64>) {
    let composed = compose(leaves.to_vec());
    let size = leaves.iter().map(|leaf| leaf.length).sum();
    let object = Object { size, chunks: composed.top.clone(), ..Object::default() };
    assert_eq!(object.check(), Ok(()));
    assert_eq!(read(&composed, range.clone()).0, naive(leaves, range));
    let mut composer = Composer::default();
    let mut trees: Vec<_> = leaves.iter().flat_map(|&leaf| composer.push(leaf)).collect();
    let streamed = composer.finish();
    trees.extend(streamed.trees);
    let streamed = Composed { top: streamed.top, trees };
    let object = Object { size, chunks: streamed.top.clone(), ..Object::default() };
    assert_eq!(object.check(), Ok(()));
    assert_eq!(read(&streamed, range.clone()).0, naive(leaves, range));
}

proptest! {
    #[test]
    fn ranges_of_short_lists(lengths in proptest::collection::vec(0u64..9, 0..12), a in 0u64..99, b in 0u64..99) {
        let leaves: Vec<_> = (0..).zip(&lengths).map(|(n, &length)| leaf(n, length)).collect();
        check_list(&leaves, &(a.min(b)..a.max(b)));
    }
}

#[test]
fn ranges_of_long_lists() {
    for count in [RECORD_CHUNKS, RECORD_CHUNKS + 1, TREE_CHILDREN, TREE_CHILDREN + 1, 2 * TREE_CHILDREN] {
        let leaves: Vec<_> = (0..count as u64).map(|n| leaf(n, 3)).collect();
        let size = 3 * count as u64;
        for range in [0..size, 0..1, size - 1..size, size / 2..size / 2 + 7, 5..5, size..size + 9] {
            check_list(&leaves, &range);
        }
    }
}

#[test]
fn parts_are_trees_of_trees_and_a_byte_costs_one_path() {
    let part = |n: u64| compose((0..5120).map(|at| leaf(n * 5120 + at, 1 << 20)).collect());
    let parts: Vec<_> = (0..10).map(part).collect();
    let mut all = compose(parts.iter().flat_map(|part| part.top.clone()).collect());
    all.trees.extend(parts.iter().flat_map(|part| part.trees.clone()));
    assert_eq!(all.top.len(), 1);
    let (leaves, asked) = read(&all, 7 << 30..(7 << 30) + 1);
    assert_eq!((leaves, asked), (vec![(leaf(7168, 1 << 20), 0..1)], 2));
}

#[test]
fn lying_trees_are_refused() {
    let composed = compose((0..9).map(|n| leaf(n, 1)).collect());
    let top = composed.top[0];
    let mut walk = Walk::new(vec![ChunkRef { length: 10, ..top }], 0..10);
    assert_eq!(walk.supply(b""), Err(WalkError::Unasked));
    assert_eq!(walk.next(), Some(Step::Tree(ChunkRef { length: 10, ..top })));
    assert_eq!(walk.supply(b"other"), Err(WalkError::Name(top.id)));
    assert_eq!(walk.supply(&composed.trees[0].bytes), Err(WalkError::Length(top.id)));
    let noise = b"no tree";
    let id = ChunkId::of(noise);
    let mut walk = Walk::new(vec![ChunkRef { id, ..top }], 0..9);
    walk.next();
    assert!(matches!(walk.supply(noise), Err(WalkError::Decode(_))));
}

#[test]
fn nesting_has_an_end() {
    let mut top = leaf(0, 1);
    let mut bytes = Vec::new();
    for _ in 0..=DEPTH + 1 {
        let tree = Tree { children: vec![top] };
        bytes.push(tree.encode());
        let id = ChunkId::of(&tree.encode());
        top = ChunkRef { id, kind: ChunkKind::Tree, stored: 1, length: 1 };
    }
    let mut walk = Walk::new(vec![top], 0..1);
    let refused = bytes.iter().rev().find_map(|bytes| {
        walk.next();
        walk.supply(bytes).err()
    });
    assert_eq!(refused, Some(WalkError::Depth));
}
