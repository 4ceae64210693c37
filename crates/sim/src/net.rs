//! The sea between the sites: for each ordered pair a link that delays, loses, repeats, reorders, limits
//! and is cut.
//!
//! The net plans, the world delivers: [`Net::send`] answers when copies of a message arrive (none if it is
//! lost), and [`Net::open`] is asked again at arrival, so that once a link is cut nothing more comes through.
//! A message is a whole one of any length; what a TCP connection would split and repair is seen here as
//! delay. A connection that breaks loses what was on its way, and so does a cut here.

use std::time::Duration;

use skerry_base::Instant;

use skerry_scenario::draw::Draw;
use skerry_scenario::link::Link;

/// What a direction has carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Carried {
    /// Messages handed in.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Messages that did not arrive.
    pub lost: u64,
}

#[derive(Debug, Clone, Default)]
struct Direction {
    link: Link,
    /// How many cuts lie on it: a site that is cut off and a link that is cut are healed separately.
    cuts: u32,
    busy_until: Instant,
    last_arrival: Instant,
    carried: Carried,
}

/// All links.
pub struct Net {
    sites: usize,
    directions: Vec<Direction>,
    draw: Draw,
}

impl Net {
    /// A net of so many sites; `link` says how each ordered pair begins.
    pub fn new(sites: usize, draw: Draw, link: impl Fn(usize, usize) -> Link) -> Self {
        let pairs = (0..sites).flat_map(|from| (0..sites).map(move |to| (from, to)));
        let directions =
            pairs.map(|(from, to)| Direction { link: link(from, to), ..Direction::default() }).collect();
        Self { sites, directions, draw }
    }

    fn direction(&mut self, from: usize, to: usize) -> Option<&mut Direction> {
        if from >= self.sites || to >= self.sites {
            return None;
        }
        self.directions.get_mut(from * self.sites + to)
    }

    /// Hands in a message of `bytes`; answers when its copies arrive.
    pub fn send(&mut self, now: Instant, from: usize, to: usize, bytes: usize) -> Vec<Instant> {
        let mut draw = self.draw.clone();
        let Some(direction) = self.direction(from, to) else { return Vec::new() };
        let arrivals = direction.send(now, bytes, &mut draw);
        self.draw = draw;
        arrivals
    }

    /// Whether a message that arrives now gets through.
    pub fn open(&self, from: usize, to: usize) -> bool {
        from < self.sites
            && self.directions.get(from * self.sites + to).is_some_and(|direction| direction.cuts == 0)
    }

    /// The round trip between two sites, without jitter.
    pub fn rtt(&self, one: usize, other: usize) -> Duration {
        let delay = |from: usize, to: usize| {
            self.directions.get(from * self.sites + to).map_or(Duration::ZERO, |found| found.link.delay)
        };
        delay(one, other) + delay(other, one)
    }

    /// Cuts one direction. Cuts add up; each is healed by one [`Net::heal`].
    pub fn cut(&mut self, from: usize, to: usize) {
        if let Some(direction) = self.direction(from, to) {
            direction.cuts += 1;
        }
    }

    /// Takes back one cut of a direction.
    pub fn heal(&mut self, from: usize, to: usize) {
        if let Some(direction) = self.direction(from, to) {
            direction.cuts = direction.cuts.saturating_sub(1);
        }
    }

    /// Takes back all cuts and makes every link as calm as `calm` makes it: the liveness phase begins.
    pub fn heal_all(&mut self, calm: impl Fn(Link) -> Link) {
        for direction in &mut self.directions {
            direction.cuts = 0;
            direction.link = calm(direction.link);
        }
    }

    /// What the direction has carried.
    pub fn carried(&self, from: usize, to: usize) -> Carried {
        self.directions.get(from * self.sites + to).map_or(Carried::default(), |found| found.carried)
    }

    /// The sum over all directions.
    pub fn total(&self) -> Carried {
        self.directions.iter().fold(Carried::default(), |sum, direction| Carried {
            messages: sum.messages + direction.carried.messages,
            bytes: sum.bytes + direction.carried.bytes,
            lost: sum.lost + direction.carried.lost,
        })
    }
}

impl Direction {
    fn send(&mut self, now: Instant, bytes: usize, draw: &mut Draw) -> Vec<Instant> {
        self.carried.messages += 1;
        self.carried.bytes += bytes as u64;
        let leaves = self.serialise(now, bytes);
        let lost = self.cuts > 0 || draw.chance(self.link.loss);
        let Some(leaves) = leaves.filter(|_| !lost) else {
            self.carried.lost += 1;
            return Vec::new();
        };
        let copies = if draw.chance(self.link.duplicate) { 2 } else { 1 };
        (0..copies).map(|_| self.arrival(leaves, draw)).collect()
    }

    /// First come, first served, as fast as the rate allows; none if too much waits already.
    fn serialise(&mut self, now: Instant, bytes: usize) -> Option<Instant> {
        if self.link.rate == 0 {
            return Some(now);
        }
        let starts = self.busy_until.max(now);
        if starts.since(now) > self.link.queue {
            return None;
        }
        let nanos = u128::from(bytes as u64) * 1_000_000_000 / u128::from(self.link.rate);
        self.busy_until = starts.after(Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)));
        Some(self.busy_until)
    }

    fn arrival(&mut self, leaves: Instant, draw: &mut Draw) -> Instant {
        let jitter = draw.span(Duration::ZERO..=self.link.jitter);
        let arrives = leaves.after(self.link.delay + jitter);
        if draw.chance(self.link.reorder) {
            return arrives.after(draw.span(Duration::ZERO..=self.link.hold));
        }
        self.last_arrival = self.last_arrival.max(arrives);
        self.last_arrival
    }
}

#[cfg(test)]
#[path = "net_tests.rs"]
mod tests;
