//! The journal: the truth of a store. Append-only segments of frames, one frame per proposal.
//!
//! Files are `journal/0000000001.seg`…, preallocated; a file whose header is blank is a spare that waits for
//! its turn. The last one that is not blank is *active*, all before it are *sealed*: cut to their length and
//! ended by a table of their frames, so that a rebuild reads no bodies.
//!
//! Invariants: frames are dense in LSN and chained by checksum over segments, so that a leftover of an earlier
//! life behind the tail is never taken for a frame; bytes before the tail are never written again, only punched.

pub(crate) mod base;
pub(crate) mod frame;
pub(crate) mod reader;
pub(crate) mod segment;
pub(crate) mod writer;

/// The folder of the segments.
pub(crate) const FOLDER: &str = "journal";

/// A place between two frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Position {
    /// Segment number.
    pub(crate) segment: u32,
    /// Offset in it.
    pub(crate) offset: u64,
    /// LSN of the frame that begins here.
    pub(crate) lsn: u64,
    /// Checksum of the frame that ends here: what that frame must name as its predecessor.
    pub(crate) previous: u32,
}

/// The file of a segment of any class.
pub(crate) fn file_name(folder: &str, number: u32) -> String {
    format!("{folder}/{number:010}.seg")
}

/// The numbers of the segments among these names.
pub(crate) fn numbers(names: &[String]) -> Vec<u32> {
    let mut found: Vec<u32> =
        names.iter().filter_map(|name| name.strip_suffix(".seg")?.parse().ok()).collect();
    found.sort_unstable();
    found
}
