//! One direction between two sites: its link as it is now, whether it is cut, what passed.
//!
//! Invariants: packets leave in the order in which they came, unless `reorder` chose one; a lost packet has used
//! the wire, as on a real link; every draw comes from the pair's own generator.

use std::ops::RangeInclusive;
use std::time::Duration;

use skerry_scenario::draw::{Draw, Ppm};
use skerry_scenario::link::Link;

use super::figures::Flow;
use super::line::{Line, Stretch};
use super::packet::Shape;

pub(super) struct Pair {
    link: Link,
    line: Line,
    is_cut: bool,
    /// How often it was cut: a packet remembers it, so that what was under way then is lost though healed since.
    cuts: u64,
    last_exit: u64,
    draw: Draw,
    pub(super) flow: Flow,
}

/// What a link does with a packet.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// Chance took it.
    Lost,
    /// No room.
    QueueFull,
    /// It comes out.
    Once(Stretch),
    /// Two come out.
    Twice(Stretch),
}

impl Pair {
    pub(super) const fn new(link: Link, draw: Draw) -> Self {
        let flow = Flow {
            packets: 0,
            bytes: 0,
            delivered_packets: 0,
            delivered_bytes: 0,
            lost_packets: 0,
            device_bytes: 0,
            device_delivered_bytes: 0,
        };
        Self { link, line: Line::new(link.rate), is_cut: false, cuts: 0, last_exit: 0, draw, flow }
    }

    /// Whether something befalls single packets, so that super-packets must be cut into them.
    pub(super) fn is_chancy(&self) -> bool {
        let chances = [self.link.loss, self.link.duplicate, self.link.reorder];
        chances.iter().any(|chance| *chance > Ppm::NEVER) || self.link.jitter > Duration::ZERO
    }

    pub(super) const fn rate(&self) -> u64 {
        self.link.rate
    }

    pub(super) const fn is_cut(&self) -> bool {
        self.is_cut
    }

    pub(super) const fn cuts(&self) -> u64 {
        self.cuts
    }

    /// Whether a packet that entered after so many cuts is still under way.
    pub(super) const fn holds(&self, cuts: u64) -> bool {
        !self.is_cut && self.cuts == cuts
    }

    pub(super) const fn cut(&mut self) {
        if !self.is_cut {
            self.is_cut = true;
            self.cuts += 1;
        }
    }

    pub(super) const fn heal(&mut self) {
        self.is_cut = false;
    }

    /// From now on it is another link; what is under way goes on as it was.
    pub(super) const fn set(&mut self, link: Link) {
        self.link = link;
        self.line.set_rate(link.rate);
    }

    pub(super) const fn count_sent(&mut self, shape: &Shape) {
        self.flow.packets += shape.segments;
        self.flow.bytes += shape.wire_bytes;
        self.flow.device_bytes += shape.device_bytes;
    }

    /// Lets a packet through: rate and buffer, chance, delay.
    pub(super) fn carry(&mut self, incoming: Stretch, bytes: u64) -> Fate {
        if self.line.is_full(incoming.first, self.link.queue) {
            return Fate::QueueFull;
        }
        let passed = self.line.pass(incoming, bytes);
        if self.draw_chance(self.link.loss) {
            return Fate::Lost;
        }
        let jitter = self.draw_span(Duration::ZERO..=self.link.jitter);
        let mut exit = passed.last + nanos(self.link.delay) + jitter;
        if self.draw_chance(self.link.reorder) {
            exit += self.draw_span(Duration::ZERO..=self.link.hold);
        } else {
            exit = exit.max(self.last_exit);
            self.last_exit = exit;
        }
        let out = passed.later(exit - passed.last);
        if self.draw_chance(self.link.duplicate) { Fate::Twice(out) } else { Fate::Once(out) }
    }

    fn draw_chance(&mut self, chance: Ppm) -> bool {
        chance > Ppm::NEVER && self.draw.chance(chance)
    }

    fn draw_span(&mut self, range: RangeInclusive<Duration>) -> u64 {
        if range.end().is_zero() { 0 } else { nanos(self.draw.span(range)) }
    }
}

pub(super) fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX / 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn pair(link: Link) -> Pair {
        Pair::new(link, Draw::from_seed(7).fork("pair"))
    }

    fn exits(pair: &mut Pair, count: u64, spacing: u64) -> Vec<u64> {
        let carried = (0..count).map(|number| pair.carry(Stretch::at(number * spacing), 1500));
        carried
            .filter_map(
                |fate| if let Fate::Once(out) | Fate::Twice(out) = fate { Some(out.last) } else { None },
            )
            .collect()
    }

    #[test]
    fn delay_is_exact_and_jitter_keeps_the_order() {
        let mut calm = pair(Link { delay: Duration::from_millis(25), ..Link::default() });
        assert_eq!(exits(&mut calm, 3, MS), [25 * MS, 26 * MS, 27 * MS]);
        let jitter = Duration::from_millis(10);
        let mut shaky = pair(Link { delay: Duration::from_millis(25), jitter, ..Link::default() });
        let out = exits(&mut shaky, 1000, MS);
        assert!(out.is_sorted());
        assert!(out.iter().enumerate().all(|(at, exit)| (25..=36).contains(&((exit - at as u64 * MS) / MS))));
        assert!(out.iter().enumerate().any(|(at, exit)| exit - at as u64 * MS > 30 * MS));
    }

    #[test]
    fn chances_are_met() {
        let mut lossy = pair(Link { loss: Ppm::percent(10), ..Link::default() });
        let arrived = exits(&mut lossy, 10_000, MS).len();
        assert!((8_800..=9_200).contains(&arrived), "{arrived}");
        let mut twin = pair(Link { duplicate: Ppm::percent(10), ..Link::default() });
        let twins =
            (0..10_000).filter(|at| matches!(twin.carry(Stretch::at(at * MS), 100), Fate::Twice(_))).count();
        assert!((800..=1_200).contains(&twins), "{twins}");
        let hold = Duration::from_millis(20);
        let mut mixed = pair(Link { reorder: Ppm::percent(10), hold, ..Link::default() });
        let out = exits(&mut mixed, 1000, MS);
        let overtaken = out.windows(2).filter(|two| two[0] > two[1]).count();
        assert!((50..=150).contains(&overtaken), "{overtaken}");
    }

    #[test]
    fn a_full_buffer_drops_the_tail_and_the_rest_has_the_rate() {
        let queue = Duration::from_millis(12);
        let mut slow = pair(Link { rate: 125_000, queue, ..Link::default() });
        // 1500 bytes take 12 ms: one passes, one waits, then a wait of more than 12 ms is refused.
        let out = exits(&mut slow, 5, 0);
        assert_eq!(out, [12 * MS, 24 * MS]);
        assert_eq!(
            slow.carry(Stretch::at(12 * MS), 1500),
            Fate::Once(Stretch { first: 24 * MS, last: 36 * MS })
        );
    }

    #[test]
    fn what_was_under_way_at_a_cut_is_lost_though_healed() {
        let mut pair = pair(Link::default());
        let before = pair.cuts();
        assert!(pair.holds(before));
        pair.cut();
        pair.cut();
        assert!(!pair.holds(before));
        pair.heal();
        assert!(!pair.holds(before) && pair.holds(pair.cuts()));
    }

    #[test]
    fn a_link_changes_while_it_runs() {
        let mut pair = pair(Link { delay: Duration::from_millis(50), ..Link::default() });
        assert_eq!(pair.carry(Stretch::at(0), 125), Fate::Once(Stretch::at(50 * MS)));
        pair.set(Link {
            delay: Duration::from_millis(1),
            rate: 125_000,
            queue: Duration::from_secs(1),
            ..Link::default()
        });
        // Order holds across the change.
        let Fate::Once(out) = pair.carry(Stretch::at(0), 125) else { return assert!(pair.is_cut(), "lost") };
        assert_eq!(out.last, 50 * MS);
        let Fate::Once(out) = pair.carry(Stretch::at(60 * MS), 125) else {
            return assert!(pair.is_cut(), "lost");
        };
        assert_eq!(out.last, 62 * MS);
    }
}
