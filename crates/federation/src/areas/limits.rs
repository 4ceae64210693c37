//! The bounds of this module, each with its reason.

use core::time::Duration;

/// Sites of a view. What the simulator has shown; beyond it entries are refused.
pub const SITES: usize = 16_384;
/// Landmarks of one bunch. Four times what 10,000 sites need; beyond it the farthest below the top level are left out.
pub const BUNCH: usize = 512;
/// Landmarks that left the bunch and are still told and asked. Beyond it the longest gone are let go.
pub const LEAVING: usize = 512;
/// How long a landmark that left the bunch is still told and asked: longer than gossip needs to cross 10,000 sites.
pub const TRANSITION: Duration = Duration::from_secs(600);
/// Changes of sites and distances are gathered for this long before the bunch is drawn anew.
pub const SETTLE: Duration = Duration::from_secs(1);
/// Round-trip samples whose median counts: one or two outliers in a row move nothing.
pub const SAMPLES: usize = 5;
/// A distance counts as moved when it differs by this much …
pub const MOVED_MIN: Duration = Duration::from_millis(2);
/// … and by one part in so many.
pub const MOVED_PART: u32 = 8;
/// A distance is taken for this long until something is known.
pub const UNKNOWN: Duration = Duration::from_millis(200);
/// A round trip longer than this is refused as a sample: it measures a pause, not a distance.
pub const LONGEST: Duration = Duration::from_secs(60);
/// Sites that a view asks to be measured at once.
pub const MEASURE: usize = 8;
/// An estimated site is measured when this many eighths of its estimate …
pub const MEASURE_EIGHTHS: u32 = 6;
/// … less this would be in the bunch: estimates of near sites are wrong by more than their share.
pub const MEASURE_LESS: Duration = Duration::from_millis(3);
/// A site that trusts its own coordinate less than this measures whoever seems nearest.
pub const LOST: f32 = 0.4;
