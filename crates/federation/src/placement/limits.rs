//! The bounds of placement, each with its reason.

use core::time::Duration;

/// Ranges of one set: beyond, copies of one site are scattered over very many others. 1.2 MB encoded at most.
pub const RANGES: usize = 262_144;
/// Versions of one bucket that wait to be asked for; further ones are found by the next look at the records.
pub const QUEUE: usize = 2048;
/// Versions that wait in all, beyond which no bucket is looked through: some 200 bytes each.
pub const QUEUE_OF_ALL: usize = 4 * QUEUE;
/// Versions on their way at once: fills 100 ms of a link with small ones.
pub const ASKS_AT_ONCE: usize = 48;
/// Versions of a bucket whose sites are busy, after which the next bucket is looked at, and of all.
pub const PASSED_OVER: usize = 16;
/// Of all buckets: what one turn may cost.
pub const PASSED_OVER_IN_ALL: usize = 64 * PASSED_OVER;
/// Questions at once to one site: it answers 64 of one peer, clients' among them.
pub const ASKS_OF_ONE_SITE: usize = 24;
/// Bytes on their way at once, one version at least: a second of 94 Mbit/s, and what a holder keeps in memory.
pub const BYTES_AT_ONCE: u64 = 12 << 20;
/// Bytes on their way at once to a site of which nothing is known yet, one version at least.
pub const WINDOW_FIRST: u64 = 4 << 20;
/// The least, again one version at least: what comes in a moment over any link.
pub const WINDOW_MIN: u64 = 1 << 20;
/// What a site took in so many seconds lately may be on its way to it: its slow link then brings one body or two at a time,
/// whole, and other sites' copies have the rest of [`BYTES_AT_ONCE`].
pub const WINDOW_SECONDS: f64 = 16.0;
/// A site is taken for so many times what it took before at most.
pub const WINDOW_GROWTH: u64 = 4;
/// How long a site that could not take a copy (full, silent, an old release) is left alone.
pub const REST: Duration = Duration::from_secs(30);
/// Bytes that a version counts at least: a question and its record.
pub const ASK_BYTES: u64 = 1024;
/// Versions that a site lets go of in one round: what others are asked about fits a page, and its end a commit.
pub const TRIMMED_AT_ONCE: usize = 256;
/// How long a round about copies too many may wait for answers.
pub const TRIM_ROUND: Duration = Duration::from_secs(60);
/// How long a site that holds as much for others as it is to is left alone, for bodies of the size that it refused.
pub const CAPPED: Duration = Duration::from_secs(300);
/// Twice as long each time that it says so again, at most this: what is deleted there makes room for others within it.
pub const CAPPED_AT_MOST: Duration = Duration::from_secs(3600);
/// What was asked for has this long to land before it is looked at again.
pub const LOOK_AGAIN: Duration = Duration::from_secs(2);
/// The longest rest between two looks at what cannot be placed; a new link ends it.
pub const LOOK_REST: Duration = Duration::from_secs(300);
/// A look at what lacked holders is repeated after this many times as long as it took.
pub const LOOK_SHARE: u32 = 20;
/// Bodies that are remembered because their way to a site broke off.
pub const LATE: usize = 1024;
