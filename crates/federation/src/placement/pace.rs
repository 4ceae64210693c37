//! How much may be on its way to one site: what it took lately.

use core::time::Duration;

use skerry_base::Instant;

use super::limits;

/// What one site takes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    /// Bytes that may be on their way to it.
    window: u64,
    /// Bytes that are.
    flying: u64,
    /// Since when something is, and what it has taken since.
    since: Option<Instant>,
    taken: u64,
}

impl Default for Pace {
    fn default() -> Self {
        Self { window: limits::WINDOW_FIRST, flying: 0, since: None, taken: 0 }
    }
}

impl Pace {
    /// Whether so many bytes more may be on their way: one version always.
    pub(super) const fn has_room(&self, bytes: u64) -> bool {
        self.flying == 0 || self.flying.saturating_add(bytes) <= self.window
    }

    /// What they count among those of all sites: a large body on a slow link keeps the others' copies waiting no longer than
    /// what that link may have on its way.
    pub(super) fn counted(&self, bytes: u64) -> u64 {
        bytes.min(self.window)
    }

    /// They are on their way.
    pub(super) fn asked(&mut self, bytes: u64, now: Instant) {
        self.since.get_or_insert(now);
        self.flying = self.flying.saturating_add(bytes);
    }

    /// They are no more; whether the site has them.
    pub(super) fn landed(&mut self, bytes: u64, is_held: bool, now: Instant) {
        self.flying = self.flying.saturating_sub(bytes);
        if is_held {
            self.taken = self.taken.saturating_add(bytes);
            self.learn(now);
        }
        if self.flying == 0 {
            (self.since, self.taken) = (None, 0);
        }
    }

    fn learn(&mut self, now: Instant) {
        let Some(since) = self.since else { return };
        let span = now.since(since);
        // Little in a short time teaches nothing.
        if self.taken < self.window / 2 && span < Duration::from_secs_f64(limits::WINDOW_SECONDS) {
            return;
        }
        let bearable = self.taken as f64 / span.as_secs_f64().max(0.001) * limits::WINDOW_SECONDS;
        let most = self.window.saturating_mul(limits::WINDOW_GROWTH);
        self.window = (bearable as u64).min(most).clamp(limits::WINDOW_MIN, limits::BYTES_AT_ONCE);
        (self.since, self.taken) = (Some(now), 0);
    }
}
