//! How often a site that is emptied looks what is lacking.
//!
//! Before: [`super`], after each look. Invariants: looks take a bounded part of the time; while the same is lacking and nothing
//! is on its way they are ever further apart, up to a bound.

use std::time::Duration;

use skerry_federation::drain::Lacking;

/// Between two looks once the site is empty.
const REST: Duration = Duration::from_secs(10);
/// A look that cost so long is repeated after this many times as long; what it asked for is handed over meanwhile.
const SHARE: u32 = 4;
/// While the same is lacking, nothing is on its way and nothing changes here, looks are so far apart and twice as far each time:
/// what it waits for is a link, an upload that ends, or room elsewhere.
const STUCK: Duration = Duration::from_millis(500);
const STUCK_AT_MOST: Duration = Duration::from_secs(60);
/// The longest rest between two looks.
const REST_AT_MOST: Duration = Duration::from_secs(300);

/// How long after a look the next one is due. What it asked for is handed over in that time, and costs nothing of it.
pub(super) fn rest_after(look: Duration, is_empty: bool) -> Duration {
    let pause = if is_empty { REST.max(look * SHARE * SHARE) } else { look * SHARE };
    pause.min(REST_AT_MOST)
}

/// What is lacking now, and how often it was the same.
pub(super) fn stuck(before: Option<(Lacking, u32)>, lacks: Option<Lacking>) -> Option<(Lacking, u32)> {
    let lacks = lacks?;
    let times = before.filter(|(same, _)| *same == lacks).map_or(0, |(_, times)| times.saturating_add(1));
    Some((lacks, times))
}

/// How long nothing is asked for that.
pub(super) fn stuck_for(stuck: Option<(Lacking, u32)>) -> Duration {
    let twice = |times: u32| STUCK.saturating_mul(1 << times.min(16)).min(STUCK_AT_MOST);
    stuck.filter(|(_, times)| *times > 0).map_or(Duration::ZERO, |(_, times)| twice(times))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_handed_over_does_not_make_the_rest_longer() {
        let look = Duration::from_millis(200);
        assert_eq!(rest_after(look, false), look * SHARE);
        assert_eq!(rest_after(Duration::ZERO, true), REST);
        assert_eq!(rest_after(Duration::from_secs(600), false), REST_AT_MOST);
    }

    #[test]
    fn what_waits_for_the_same_is_looked_at_ever_more_seldom() {
        let lacks = |others| Some(Lacking { others, ..Lacking::default() });
        let (mut now, mut looks, mut at) = (stuck(None, lacks(1)), 1, Duration::ZERO);
        assert_eq!(stuck_for(now), Duration::ZERO, "the next look may find less");
        while at < Duration::from_secs(20) {
            now = stuck(now, lacks(1));
            (looks, at) = (looks + 1, at + stuck_for(now));
        }
        assert!(looks < 10, "{looks}");
        for _ in 0..100 {
            now = stuck(now, lacks(1));
        }
        assert_eq!(stuck_for(now), STUCK_AT_MOST);
        assert_eq!(stuck_for(stuck(now, lacks(2))), Duration::ZERO, "something came nearer");
        assert_eq!(stuck_for(stuck(now, None)), Duration::ZERO, "something is on its way");
    }
}
