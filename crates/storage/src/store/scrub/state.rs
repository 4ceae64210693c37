//! What the scrub remembers, and how it is stored.

use serde::{Deserialize, Serialize};
use skerry_base::codec::Versioned;
use skerry_base::{BucketId, ChunkId, WallTime};

/// Damaged chunks that are kept on the list; more are counted, and found again by the next round.
pub(super) const LISTED: usize = 1024;
/// Bytes that the file may have: about the list at its longest, with reasons.
pub(super) const FILE_BYTES: u64 = 1 << 20;

/// A chunk whose bytes are not what they were.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DamagedChunk {
    /// Deduplication domain.
    pub domain: BucketId,
    /// The chunk.
    pub id: ChunkId,
    /// Whether it names other chunks.
    pub tree: bool,
    /// Its bytes.
    pub stored: u32,
    /// What is wrong.
    pub why: String,
}

/// A journal segment that does not read. What it said is in the index still, and the collector writes it into a new base:
/// else the next rebuild would lack it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DamagedSegment {
    /// Its number.
    pub segment: u32,
    /// What is wrong.
    pub why: String,
}

/// Where the scrub is and what it found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScrubState {
    /// Rests until told otherwise.
    pub paused: bool,
    /// Whether a round is under way.
    pub running: bool,
    /// Rounds begun.
    pub round: u64,
    /// When the last one was begun.
    pub started: Option<WallTime>,
    /// When the last one was finished.
    pub finished: Option<WallTime>,
    /// Chunks read in the last round.
    pub chunks: u64,
    /// Bytes read in the last round.
    pub bytes: u64,
    /// Damaged chunks found since the store was made.
    pub found: u64,
    /// Of them mended.
    pub mended: u64,
    /// Those that still are damaged, at most some hundreds.
    pub damaged: Vec<DamagedChunk>,
    /// Damaged chunks that the list had no room for.
    pub unlisted: u64,
    /// Damaged journal segments found by the last round.
    pub segments: Vec<DamagedSegment>,
}

/// What one step did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScrubStep {
    /// Whether there was anything to do: a round is under way and not paused.
    pub worked: bool,
    /// Whether the round ended with this step.
    pub finished: bool,
    /// Chunks read.
    pub chunks: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Evictable copies found torn: they are fetched again when somebody asks.
    pub torn_copies: u64,
    /// Damaged chunks.
    pub damaged: Vec<DamagedChunk>,
    /// Damaged journal segments.
    pub segments: Vec<DamagedSegment>,
    /// What is wrong with the base of the journal; looked at when everything is read at once.
    pub base: Option<String>,
}

/// How far a round is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Cursor {
    /// No round is under way.
    #[default]
    Idle,
    /// Chunks behind this key of the index are next.
    Chunks(Vec<u8>),
    /// Journal segments behind this number are next.
    Journal(u32),
}

/// The content of the file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Saved {
    pub(super) state: ScrubState,
    pub(super) cursor: Cursor,
}

impl Versioned for Saved {
    const NAME: &'static str = "scrub position";
    const VERSION: u8 = 1;
}

impl Saved {
    /// Takes in what a step did; true if something new was found that must be kept.
    pub(super) fn note(&mut self, step: &ScrubStep) -> bool {
        let state = &mut self.state;
        state.chunks += step.chunks;
        state.bytes += step.bytes;
        let mut new = !step.segments.is_empty();
        let room = LISTED.saturating_sub(state.segments.len());
        state.segments.extend(step.segments.iter().take(room).cloned());
        for chunk in &step.damaged {
            let known =
                state.damaged.iter().any(|other| (other.domain, other.id) == (chunk.domain, chunk.id));
            if known {
                continue;
            }
            new = true;
            state.found += 1;
            if state.damaged.len() < LISTED {
                state.damaged.push(chunk.clone());
            } else {
                state.unlisted += 1;
            }
        }
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use skerry_base::codec::encode;

    /// Fixture of version 1: must be read for ever.
    #[test]
    fn position_v1_fixture() {
        let damaged = DamagedChunk {
            domain: BucketId([1; 16]),
            id: ChunkId([2; 32]),
            tree: true,
            stored: 300,
            why: "x".into(),
        };
        let state = ScrubState {
            running: true,
            round: 3,
            started: Some(WallTime(5)),
            chunks: 7,
            found: 1,
            damaged: vec![damaged],
            ..ScrubState::default()
        };
        let saved = Saved { state, cursor: Cursor::Journal(9) };
        let bytes = encode(&saved);
        let hex = skerry_base::hex::text(&bytes);
        let (domain, id) = ("01".repeat(16), "02".repeat(32));
        assert_eq!(hex, format!("010001030105000700010001{domain}{id}01ac02017800000209"));
        assert_eq!(skerry_base::codec::decode::<Saved>(&bytes), Ok(saved));
    }

    #[test]
    fn the_list_is_bounded_and_names_each_chunk_once() {
        let mut saved = Saved::default();
        let chunk = |n: usize| DamagedChunk {
            domain: BucketId([1; 16]),
            id: ChunkId::of(&n.to_le_bytes()),
            tree: false,
            stored: 1,
            why: "checksum of a block does not match".into(),
        };
        let step = ScrubStep { damaged: (0..LISTED + 5).map(chunk).collect(), ..ScrubStep::default() };
        assert!(saved.note(&step));
        let state = &saved.state;
        assert_eq!((state.damaged.len(), state.unlisted, state.found), (LISTED, 5, LISTED as u64 + 5));
        let again = ScrubStep { damaged: vec![chunk(0), chunk(1)], ..ScrubStep::default() };
        assert!(!saved.note(&again), "known already");
        assert!((encode(&saved).len() as u64) < FILE_BYTES);
    }
}
