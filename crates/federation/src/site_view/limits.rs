//! The bounds and times of a site of several nodes, each with its reason.
//!
//! Together they bound a stall: [`LATE`] + a stagger + [`LEASE`] + two exchanges on the LAN and a beat are below 2 s. So is what
//! takes [`PAUSE`] in the place of [`LEASE`], and one more stagger: a round that came to nothing though who began it is heard.

use core::time::Duration;

/// Nodes of a site. More machines are more sites: a view is agreed on by all, and a set of seats is one byte.
pub const SEATS: usize = 4;
/// Between two beats to each other node: a few losses in a row stay below [`SILENCE`].
pub const BEAT: Duration = Duration::from_millis(100);
/// A node that has not answered a beat sent within this time is not connected: what it says is too old to count.
pub const SILENCE: Duration = Duration::from_millis(400);
/// A node to which fewer than a majority answer within this is slow itself, or its wire is: it leaves judging others, and
/// changing the view, to those who are not.
pub const PROMPT: Duration = Duration::from_millis(100);
/// How long a promiser keeps its word, by its own clock, from when the question arrived.
pub const LEASE: Duration = Duration::from_millis(800);
/// How long the holder counts on it, by its own clock, from when it asked: a tenth less. So within one lease a
/// promiser's clock may run up to a ninth faster than the holder's.
pub const HELD: Duration = Duration::from_millis(720);
/// Two clocks are compared over at least this: two milliseconds of round trip are then two in a thousand.
pub const COMPARED: Duration = Duration::from_secs(1);
/// Readings of another clock are at least this far apart.
pub const READINGS_APART: Duration = Duration::from_millis(150);
/// A promiser whose clock may run faster than the holder's by more than one part in so many does not count. The other
/// half of the tenth above is for what changes while a lease lasts.
pub const FASTER_PART: u32 = 20;
/// A member of the view that does not trust its own clock for so long leaves: longer than a start needs to compare.
pub const UNSTEADY: Duration = Duration::from_millis(1600);
/// A node that has not made a write durable after this is late, and the view goes on without it. Longer than an
/// ordinary pause of an SD card, short enough for the 2 s.
pub const LATE: Duration = Duration::from_millis(500);
/// After a promise of a higher ballot nobody is granted or asks for a lease for so long, nor does who promised propose anything:
/// longer than [`LEASE`], so that a change that must wait for one to end gets its chance.
pub const PAUSE: Duration = Duration::from_millis(1000);
/// A change of view that takes longer is begun anew with a higher ballot.
pub const ROUND: Duration = Duration::from_millis(1500);
/// Each connected member with a lower seat is given this much time to propose a change first.
pub const STAGGER: Duration = Duration::from_millis(60);
/// After a round that failed: so long, and [`STAGGER`] twice for each lower seat, so that two do not fail each other.
pub const BACKOFF: Duration = Duration::from_millis(120);
/// A node that just started listens for so long before it asks the register itself.
pub const LISTEN: Duration = Duration::from_millis(300);
/// What was not answered is asked again after this.
pub const AGAIN: Duration = Duration::from_millis(200);
/// A node that the view went on without asks to come back after this; twice as long each time, up to …
pub const AWAY_MIN: Duration = Duration::from_secs(1);
/// … this: a node that is slow for good costs the site one stall in a minute.
pub const AWAY_MAX: Duration = Duration::from_secs(64);
/// A member for so long begins at [`AWAY_MIN`] again.
pub const STEADY_MEMBER: Duration = Duration::from_secs(60);
/// Writes of this node that wait for the others at once; further ones go on in scope `node`.
pub const WRITES: usize = 4096;
