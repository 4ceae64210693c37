//! When deletes of the index are merged away.
//!
//! Why here: the library merges by size alone. What was deleted stays, and is gone over by everybody who lists across it, until enough is
//! written beside it: 300,000 keys deleted next to each other made a page of a listing cost a hundred pages. A level with many deletes
//! is merged into the next one below, and in the last one they go.
//!
//! It is done when a scan has gone over so many that it took some milliseconds, and not for their number alone: each overwrite deletes
//! rows as well, among others that live, and with merges for those the index wrote three times as much.
//!
//! Invariants: what is rewritten is at most [`WORTH`] bytes for each delete, and [`MOST`] at once; deletes that a merge could not drop
//! (somebody reads what was before them) are no reason for another.

/// Bytes rewritten for each delete that moves down, at most: as much as writing it costs on its way through the levels.
const WORTH: u64 = 4 << 10;
/// Fewer are passed over in no time.
const LEAST: u64 = 4096;
/// What is rewritten at once, at most: whole levels are, and flushes wait.
const MOST: u64 = 1 << 30;

/// Of one level.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Level {
    pub(super) deletes: u64,
    pub(super) bytes: u64,
}

/// A level that is to be merged, and into which: the last one into itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pull {
    pub(super) from: u8,
    pub(super) to: u8,
    /// Bytes that it reads, and writes at most.
    pub(super) bytes: u64,
}

/// What is worth it, the topmost level first. `kept`: deletes that the last merge of the last level could not drop.
pub(super) fn pull(levels: &[Level], kept: u64) -> Option<Pull> {
    let last = levels.len().checked_sub(1)?;
    levels.iter().enumerate().find_map(|(from, level)| {
        let below = levels.iter().enumerate().skip(from + 1).find(|(_, level)| level.bytes > 0);
        let (to, bytes) = below.map_or((last, 0), |(to, below)| (to, below.bytes));
        let deletes = if from == last { level.deletes.saturating_sub(kept) } else { level.deletes };
        let bytes = bytes + level.bytes;
        let is_worth = deletes >= LEAST && bytes <= MOST.min(deletes.saturating_mul(WORTH));
        Some(Pull { from: u8::try_from(from).ok()?, to: u8::try_from(to).ok()?, bytes }).filter(|_| is_worth)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: Level = Level { deletes: 0, bytes: 0 };

    fn level(deletes: u64, bytes: u64) -> Level {
        Level { deletes, bytes }
    }

    #[test]
    fn many_deletes_go_down_level_by_level() {
        let large = level(0, 400 << 20);
        let of = |levels: &[Level]| pull(levels, 0).map(|pull| (pull.from, pull.to, pull.bytes));
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[level(LEAST - 1, 1), EMPTY, large]), None, "few");
        assert_eq!(
            of(&[level(100_000, 9 << 20), EMPTY, large]),
            None,
            "more would be rewritten than they are worth"
        );
        assert_eq!(of(&[level(300_000, 9 << 20), EMPTY, large]), Some((0, 2, 409 << 20)));
        assert_eq!(of(&[EMPTY, level(LEAST, 1 << 20), level(0, 1 << 20), large]), Some((1, 2, 2 << 20)));
        assert_eq!(of(&[EMPTY, level(LEAST, 1 << 20), EMPTY]), Some((1, 2, 1 << 20)), "nothing lies below");
        assert_eq!(of(&[EMPTY, EMPTY, level(LEAST, 1 << 20)]), Some((2, 2, 1 << 20)), "they are in the last");
        assert_eq!(of(&[level(u64::MAX, 1), EMPTY, level(0, MOST)]), None, "too much for one merge");
    }

    #[test]
    fn what_could_not_be_dropped_is_no_reason_for_another_merge() {
        let levels = [EMPTY, level(9_000, 1 << 20)];
        assert!(pull(&levels, 0).is_some());
        assert_eq!(pull(&levels, 9_000), None);
        assert!(pull(&[EMPTY, level(9_000 + LEAST, 1 << 20)], 9_000).is_some());
    }
}
