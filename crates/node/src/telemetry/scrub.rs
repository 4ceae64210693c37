//! Metrics of the scrub, as the store's list says.

use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use skerry_storage::ScrubState;

use super::signed;

/// What the scrub found.
#[derive(Debug, Clone, Default)]
pub struct Scrub {
    damaged: Gauge,
    segments: Gauge,
    found: Gauge,
    mended: Gauge,
    round: Gauge,
    bytes: Gauge,
    running: Gauge,
    paused: Gauge,
    finished: Gauge,
}

impl Scrub {
    pub(super) fn register(&self, registry: &mut Registry) {
        for (name, help, gauge) in [
            (
                "skerry_scrub_damaged_chunks",
                "Damaged chunks that are not mended yet: not served",
                &self.damaged,
            ),
            (
                "skerry_scrub_damaged_segments",
                "Journal segments that the last round found damaged",
                &self.segments,
            ),
            (
                "skerry_scrub_found",
                "Damaged chunks found since the store was made, by the scrub or by a read",
                &self.found,
            ),
            ("skerry_scrub_mended", "Of them mended, by the scrub or by a read", &self.mended),
            ("skerry_scrub_round", "Rounds begun since the store was made", &self.round),
            ("skerry_scrub_bytes", "Bytes read in the last round so far", &self.bytes),
            ("skerry_scrub_running", "Whether a round is under way", &self.running),
            ("skerry_scrub_paused", "Whether it rests until told otherwise", &self.paused),
            (
                "skerry_scrub_finished_timestamp_seconds",
                "When the last round ended, in seconds since 1970; 0 if none did",
                &self.finished,
            ),
        ] {
            registry.register(name, help, gauge.clone());
        }
    }

    /// Shows this state.
    pub fn show(&self, state: &ScrubState) {
        self.damaged.set(signed(state.damaged.len() as u64 + state.unlisted));
        self.segments.set(signed(state.segments.len() as u64));
        self.found.set(signed(state.found));
        self.mended.set(signed(state.mended));
        self.round.set(signed(state.round));
        self.bytes.set(signed(state.bytes));
        self.running.set(state.running.into());
        self.paused.set(state.paused.into());
        self.finished.set(state.finished.map_or(0, |time| signed(time.0 / 1000)));
    }
}
