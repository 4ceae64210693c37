//! The body of an object as chunks: composing lists into trees, and walking trees for a range of bytes.
//!
//! Why here: the shape is part of what an object is; who fetches or stores a chunk is not. Both are state
//! machines that ask for what they need.
//!
//! Invariants: a composed list is nothing, up to [`limits::RECORD_CHUNKS`] leaves, or one tree; a walk holds
//! one tree per level and refuses a tree that contradicts the reference that led to it.

use std::ops::Range;

use bytes::Bytes;
use skerry_base::chunk::Tree;
use skerry_base::codec::DecodeError;
use skerry_base::limits;
use skerry_base::{ChunkId, ChunkKind, ChunkRef};

/// A tree chunk that must be stored before a record may name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeChunk {
    /// Its name and lengths.
    pub reference: ChunkRef,
    /// What is stored.
    pub bytes: Bytes,
}

/// A chunk list as a record may carry it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Composed {
    /// For [`crate::Object::chunks`].
    pub top: Vec<ChunkRef>,
    /// Trees to store, children before parents.
    pub trees: Vec<TreeChunk>,
}

/// Folds a list of any length into one that a record may carry. Empty chunks fall away. Given the same list,
/// the trees are the same, so equal bodies share them.
pub fn compose(chunks: Vec<ChunkRef>) -> Composed {
    let mut level: Vec<ChunkRef> = chunks.into_iter().filter(|chunk| chunk.length > 0).collect();
    let mut trees = Vec::new();
    while level.len() > 1 && !is_top(&level) {
        level = level.chunks(limits::TREE_CHILDREN).map(|children| fold(children, &mut trees)).collect();
    }
    Composed { top: level, trees }
}

fn is_top(level: &[ChunkRef]) -> bool {
    level.len() <= limits::RECORD_CHUNKS && level.iter().all(|chunk| chunk.kind == ChunkKind::Leaf)
}

/// One tree above these; a single child needs none.
fn fold(children: &[ChunkRef], trees: &mut Vec<TreeChunk>) -> ChunkRef {
    if let [only] = children {
        return *only;
    }
    let tree = Tree { children: children.to_vec() };
    let bytes = tree.encode();
    let stored = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    let id = ChunkId::of(&bytes);
    let reference = ChunkRef { id, kind: ChunkKind::Tree, stored, length: tree.length() };
    trees.push(TreeChunk { reference, bytes: bytes.into() });
    reference
}

/// Gathers the leaves of a body that is still arriving: memory stays at one tree's children per level.
#[derive(Debug, Clone, Default)]
pub struct Composer {
    /// Finished children, leaves first, each level shorter than [`limits::TREE_CHILDREN`].
    levels: Vec<Vec<ChunkRef>>,
}

impl Composer {
    /// Takes the next leaf; returns trees that are full and should be stored now.
    pub fn push(&mut self, leaf: ChunkRef) -> Vec<TreeChunk> {
        let mut trees = Vec::new();
        let mut next = Some(leaf).filter(|leaf| leaf.length > 0);
        let mut at = 0;
        while let Some(chunk) = next {
            if self.levels.len() == at {
                self.levels.push(Vec::new());
            }
            let Some(level) = self.levels.get_mut(at) else { break };
            level.push(chunk);
            let full = level.len() == limits::TREE_CHILDREN;
            next = full.then(|| fold(&std::mem::take(level), &mut trees));
            at += 1;
        }
        trees
    }

    /// The end of the body: the list for the record, and the last trees to store.
    pub fn finish(self) -> Composed {
        let mut trees = Vec::new();
        let mut carried: Option<ChunkRef> = None;
        let mut levels = self.levels.into_iter().peekable();
        while let Some(mut level) = levels.next() {
            level.extend(carried.take());
            if levels.peek().is_none() {
                let last = compose(level);
                trees.extend(last.trees);
                return Composed { top: last.top, trees };
            }
            if !level.is_empty() {
                carried = Some(fold(&level, &mut trees));
            }
        }
        Composed { top: carried.into_iter().collect(), trees }
    }
}

/// What a walk wants or says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Bytes of this tree are needed; give them to [`Walk::supply`].
    Tree(ChunkRef),
    /// The next leaf, and which of the body's bytes in it are wanted, counted from its start.
    Leaf(ChunkRef, Range<u64>),
}

/// A walk over the leaves of a byte range, in order. Trees outside of the range are never asked for.
#[derive(Debug, Clone)]
pub struct Walk {
    /// Siblings still to visit, innermost last.
    stack: Vec<std::vec::IntoIter<ChunkRef>>,
    /// The tree asked for.
    wanted: Option<ChunkRef>,
    /// Where in the body the next chunk begins.
    at: u64,
    range: Range<u64>,
}

/// Why a walk cannot go on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WalkError {
    /// Not a tree.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// Nobody asked for it.
    #[error("a tree that was not asked for")]
    Unasked,
    /// Its bytes are others than its name says.
    #[error("tree {0} holds other bytes than its name says")]
    Name(ChunkId),
    /// Its children do not add up to what its parent says.
    #[error("tree {0} contradicts the reference to it")]
    Length(ChunkId),
    /// Deeper than the largest object needs.
    #[error("trees nest too deep")]
    Depth,
}

/// Levels of trees. One upload makes at most three; copies of copies by parts add one each.
const DEPTH: usize = 16;

impl Walk {
    /// Over these bytes of the body that `top` names.
    pub fn new(top: Vec<ChunkRef>, range: Range<u64>) -> Self {
        Self { stack: vec![top.into_iter()], wanted: None, at: 0, range }
    }

    /// The next step; none at the end. A wanted tree is asked for again until it is supplied.
    #[expect(clippy::should_implement_trait, reason = "not an iterator: it waits for supply")]
    pub fn next(&mut self) -> Option<Step> {
        if let Some(wanted) = self.wanted {
            return Some(Step::Tree(wanted));
        }
        while let Some(siblings) = self.stack.last_mut() {
            if self.at >= self.range.end || self.range.is_empty() {
                return None;
            }
            let Some(chunk) = siblings.next() else {
                self.stack.pop();
                continue;
            };
            let (start, end) = (self.at, self.at.saturating_add(chunk.length));
            if end <= self.range.start {
                self.at = end;
                continue;
            }
            if chunk.kind == ChunkKind::Tree {
                self.wanted = Some(chunk);
                return Some(Step::Tree(chunk));
            }
            self.at = end;
            let from = self.range.start.saturating_sub(start);
            let to = self.range.end.min(end) - start;
            return Some(Step::Leaf(chunk, from..to));
        }
        None
    }

    /// Gives the bytes of the tree asked for.
    pub fn supply(&mut self, bytes: &[u8]) -> Result<(), WalkError> {
        let wanted = self.wanted.ok_or(WalkError::Unasked)?;
        if ChunkId::of(bytes) != wanted.id {
            return Err(WalkError::Name(wanted.id));
        }
        let tree = Tree::decode(bytes)?;
        let mut lengths = tree.children.iter().map(|child| child.length);
        let sum = lengths.try_fold(0u64, u64::checked_add);
        if sum != Some(wanted.length) {
            return Err(WalkError::Length(wanted.id));
        }
        if self.stack.len() > DEPTH {
            return Err(WalkError::Depth);
        }
        self.wanted = None;
        self.stack.push(tree.children.into_iter());
        Ok(())
    }
}

#[cfg(test)]
mod tests;
