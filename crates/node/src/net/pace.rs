//! The one place where the network reads a clock: for deadlines, pauses and round trips, never for records.

#![expect(
    clippy::disallowed_methods,
    reason = "the network is the shell: its deadlines are on tokio's clock, which tests can move"
)]

use std::time::Duration;

use tokio::time::Instant;

/// Now, on the clock of the runtime.
pub(super) fn now() -> Instant {
    Instant::now()
}

/// Ends after `span`: pauses between tries and deadlines, never a substitute for an event.
pub(super) async fn pause(span: Duration) {
    tokio::time::sleep_until(now() + span).await;
}
