//! Payload and cache: chunks in extents of 4 KiB grain, in append-only segments.
//!
//! Files are `payload/0000000001.seg`… and `cache/…`. A segment begins with a block of its own; an extent is a
//! self-describing header and the bytes of one chunk. The highest number is active, the others are sealed and cut
//! to their length. Numbers and places are never used twice, so freeing a place twice does no harm; the last extent on the
//! disk is not punched before there is another, so that a rebuild, too, finds where to go on.

pub(crate) mod extent;
pub(crate) mod scan;
pub(crate) mod segments;

/// Grain of extents, and of what file systems punch.
pub(crate) const GRAIN: u64 = 4096;

/// The whole blocks within a place: what a hole can be punched of.
pub(crate) const fn whole_blocks(offset: u64, len: u64) -> std::ops::Range<u64> {
    offset.next_multiple_of(GRAIN)..(offset + len) & !(GRAIN - 1)
}
