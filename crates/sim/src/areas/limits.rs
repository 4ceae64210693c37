//! The bounds of the proof's machine, each with its reason; those of views are the federation's.

use core::time::Duration;

/// Questions of this site that are open at once.
pub const QUESTIONS: usize = 1024;
/// Times that one landmark is asked one question.
pub const TRIES: u8 = 3;
/// Silence of a landmark beyond two round trips after which it is asked again.
pub const ASK_AGAIN: Duration = Duration::from_millis(250);
/// After this a question is answered by what is known.
pub const FIND_TIMEOUT: Duration = Duration::from_secs(4);
/// How long an unmatched question waits at a landmark for a holder to be published.
pub const WAIT: Duration = Duration::from_secs(1);
/// Questions that wait at one landmark; the oldest give way.
pub const WAITING: usize = 4096;
/// Holders that did not answer, named in a repeated question.
pub const EXCEPT: usize = 4;
/// Buckets that one publisher may hold.
pub const BUCKETS: usize = 65_536;
/// Holders remembered per bucket; beyond it the nearest to the landmark stay.
pub const HOLDERS: usize = 1024;
/// Entries of one publication: 25 bytes each, so that it fits one datagram of 1,200 bytes.
pub const ENTRIES: usize = 40;
/// Landmarks that are being told something at once: the nearest first, without a burst.
pub const TELL: usize = 8;
/// First repetition of a publication, beside two round trips; doubles up to [`TELL_AGAIN_MAX`].
pub const TELL_AGAIN: Duration = Duration::from_secs(1);
/// Longest wait between repetitions.
pub const TELL_AGAIN_MAX: Duration = Duration::from_secs(60);
/// Times that a landmark is told that it is none any more.
pub const WITHDRAW_TRIES: u8 = 3;
/// After its start a landmark below the top level says "not yet": who publishes to it has noticed until then.
pub const GRACE: Duration = Duration::from_secs(120);
