//! Network coordinates: where a site is, so that n sites need not measure n² round trips.
//!
//! Vivaldi with heights: five dimensions for the core of the network, a height for the access link that every
//! path of the site crosses, and a relative error that says how far to trust it. 28 bytes on gossip.
//!
//! Robust by four things: samples come as medians ([`super::distance`]); a site with a large error moves others
//! little; one sample moves a site by a part of the distance at most; what is not finite or absurd is refused.
//!
//! Invariants: every number is finite, heights are at least [`HEIGHT_MIN`], errors lie in `ERROR_MIN..=1`.

use core::time::Duration;

use serde::{Deserialize, Serialize};
use skerry_base::SiteId;

/// Dimensions beside the height.
pub const DIMENSIONS: usize = 5;
/// Bytes on the wire.
pub const BYTES: usize = 4 * (DIMENSIONS + 2);
/// Milliseconds that the shortest access link is taken for.
pub const HEIGHT_MIN: f32 = 0.05;
/// Milliseconds from the origin at most: light needs less time to the Moon and back, thrice.
const FARTHEST: f32 = 10_000.0;
/// No site is surer than this.
const ERROR_MIN: f32 = 0.01;
/// How fast the error follows a sample.
const ERROR_GAIN: f32 = 0.1;
/// How far a sample moves a site that trusts itself as little as possible.
const MOVE_GAIN: f32 = 0.25;

/// A place in milliseconds of round trip.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Coordinate {
    place: [f32; DIMENSIONS],
    height: f32,
    error: f32,
}

/// Bytes that are no coordinate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a coordinate is {BYTES} bytes of finite numbers within ±{FARTHEST} ms, with an error within 0..1")]
pub struct NoCoordinate;

impl Default for Coordinate {
    fn default() -> Self {
        Self { place: [0.0; DIMENSIONS], height: HEIGHT_MIN, error: 1.0 }
    }
}

impl Coordinate {
    /// 0 knows nothing, 1 is never reached.
    pub fn confidence(&self) -> f32 {
        1.0 - self.error
    }

    /// In the core of the network, in milliseconds.
    pub const fn place(&self) -> [f32; DIMENSIONS] {
        self.place
    }

    /// What every way to here crosses, in milliseconds.
    pub const fn height(&self) -> f32 {
        self.height
    }

    /// The estimated round trip.
    pub fn distance(&self, other: &Self) -> Duration {
        Duration::from_micros((self.milliseconds(other) * 1000.0) as u64)
    }

    fn milliseconds(&self, other: &Self) -> f32 {
        self.flat(other) + self.height + other.height
    }

    fn flat(&self, other: &Self) -> f32 {
        let squares = self.place.iter().zip(&other.place).map(|(a, b)| (a - b) * (a - b));
        squares.sum::<f32>().sqrt()
    }

    /// Takes a round trip to a site that says it is at `other`; `peer` gives the direction if both are at one place.
    pub fn sample(&mut self, peer: SiteId, rtt: Duration, other: &Self) {
        let rtt = (rtt.as_secs_f32() * 1000.0).clamp(2.0 * HEIGHT_MIN, FARTHEST);
        let estimate = self.milliseconds(other);
        let wrong = ((estimate - rtt).abs() / rtt).min(1.0);
        let weight = self.error / (self.error + other.error);
        let gain = ERROR_GAIN * weight;
        self.error = (wrong * gain + self.error * (1.0 - gain)).clamp(ERROR_MIN, 1.0);
        // No sample moves this site by more than it says is between them, however wrong the estimate was.
        let force = (MOVE_GAIN * weight * (rtt - estimate)).clamp(-rtt, rtt);
        self.push(peer, force, other);
    }

    /// Moves away from `other`: by place and by height in the proportion in which they make up the distance.
    fn push(&mut self, peer: SiteId, force: f32, other: &Self) {
        let direction = self.direction(peer, other);
        let flat = self.flat(other);
        let whole = flat + self.height + other.height;
        let share = if flat > 0.0 { flat / whole } else { 0.5 };
        for (own, along) in self.place.iter_mut().zip(direction) {
            *own = (*own + along * force * share).clamp(-FARTHEST, FARTHEST);
        }
        let height = self.height + force * (1.0 - share);
        self.height = height.clamp(HEIGHT_MIN, FARTHEST);
    }

    fn direction(&self, peer: SiteId, other: &Self) -> [f32; DIMENSIONS] {
        let flat = self.flat(other);
        let mut along = [0.0; DIMENSIONS];
        if flat > 1e-3 {
            for (index, along) in along.iter_mut().enumerate() {
                *along =
                    (self.place.get(index).unwrap_or(&0.0) - other.place.get(index).unwrap_or(&0.0)) / flat;
            }
            return along;
        }
        for (along, byte) in along.iter_mut().zip(peer.0) {
            *along = f32::from(byte) - 127.5;
        }
        let length = along.iter().map(|part| part * part).sum::<f32>().sqrt();
        along.map(|part| part / length)
    }

    /// As on gossip: little-endian, place, height, error.
    pub fn to_bytes(self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        let numbers = self.place.iter().chain([&self.height, &self.error]);
        for (into, number) in bytes.chunks_exact_mut(4).zip(numbers) {
            into.copy_from_slice(&number.to_le_bytes());
        }
        bytes
    }

    /// Refuses what no site could have said honestly.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, NoCoordinate> {
        let bytes: &[u8; BYTES] = bytes.try_into().map_err(|_| NoCoordinate)?;
        let (parts, _) = bytes.as_chunks::<4>();
        let mut numbers = parts.iter().map(|part| f32::from_le_bytes(*part));
        let mut found = Self::default();
        for own in &mut found.place {
            *own = numbers.next().ok_or(NoCoordinate)?;
        }
        found.height = numbers.next().ok_or(NoCoordinate)?;
        found.error = numbers.next().ok_or(NoCoordinate)?;
        found.checked()
    }

    /// Itself, if it is one; for coordinates that came in another encoding.
    pub fn checked(self) -> Result<Self, NoCoordinate> {
        let placed = self.place.iter().all(|part| part.is_finite() && part.abs() <= FARTHEST);
        let high = (HEIGHT_MIN..=FARTHEST).contains(&self.height);
        let sure = (ERROR_MIN..=1.0).contains(&self.error);
        if placed && high && sure { Ok(self) } else { Err(NoCoordinate) }
    }

    /// Whether it differs from what was `said` so much that others should hear of it: gossip stays quiet else.
    pub fn has_moved(&self, said: &Self) -> bool {
        let away = self.flat(said) + (self.height - said.height).abs();
        away > 1.0 + 0.05 * (self.height + self.place.iter().map(|part| part.abs()).sum::<f32>() / 5.0)
            || (self.error - said.error).abs() > 0.1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::unwrap_used, reason = "tests")]
    fn bytes_come_back_and_nonsense_is_refused() {
        let mut at = Coordinate::default();
        at.sample(SiteId([3; 16]), Duration::from_millis(80), &Coordinate::default());
        let bytes = at.to_bytes();
        assert!(bytes.len() <= 32);
        assert_eq!(Coordinate::from_bytes(&bytes), Ok(at));
        assert_eq!(Coordinate::from_bytes(bytes.get(1..).unwrap()), Err(NoCoordinate));
        for (index, bad) in [(0, f32::NAN), (1, f32::INFINITY), (2, 1e9), (5, -1.0), (6, 0.0), (6, 1.5)] {
            let mut broken = bytes;
            broken.get_mut(index * 4..index * 4 + 4).unwrap().copy_from_slice(&bad.to_le_bytes());
            assert_eq!(Coordinate::from_bytes(&broken), Err(NoCoordinate), "{index} {bad}");
        }
    }

    #[test]
    fn one_liar_moves_a_sure_site_little() {
        let sure = Coordinate { error: 0.05, ..Coordinate::default() };
        let liar = Coordinate { place: [5000.0; 5], error: 1.0, ..Coordinate::default() };
        let mut moved = sure;
        moved.sample(SiteId([9; 16]), Duration::from_millis(10), &liar);
        assert!(moved.milliseconds(&sure) < 12.0, "{moved:?}");
    }
}
