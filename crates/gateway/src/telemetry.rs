//! What is measured of requests: `skerry_s3_requests_total` and `skerry_s3_request_duration_seconds` by
//! operation and status, and `skerry_http_requests_in_flight` of all faces.
//!
//! Why here: the faces know operation and status; the registry belongs to the node and is handed in.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use crate::service::Reason;

/// Upper bounds in seconds: from a local read of a small object to a transfer over a slow line.
const BUCKETS: [f64; 14] =
    [0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0, 300.0];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    operation: &'static str,
    code: u32,
}

/// The measures of requests; clones share them.
#[derive(Debug, Clone)]
pub struct Telemetry {
    requests: Family<Labels, Counter>,
    duration: Family<Labels, Histogram, fn() -> Histogram>,
    in_flight: Gauge,
    refused: Family<ReasonLabel, Counter>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabel {
    reason: &'static str,
}

impl Telemetry {
    /// Registers them.
    pub fn register(registry: &mut Registry) -> Self {
        let histogram: fn() -> Histogram = || Histogram::new(BUCKETS);
        let measures = Self {
            requests: Family::default(),
            duration: Family::new_with_constructor(histogram),
            in_flight: Gauge::default(),
            refused: Family::default(),
        };
        registry.register(
            "skerry_s3_requests",
            "Requests by operation and HTTP status; 0 if the client left before the answer",
            measures.requests.clone(),
        );
        registry.register_with_unit(
            "skerry_s3_request_duration",
            "Time from the head of a request to the last byte of its answer",
            Unit::Seconds,
            measures.duration.clone(),
        );
        registry.register(
            "skerry_http_requests_in_flight",
            "Requests whose answer is not yet sent, those of administration too",
            measures.in_flight.clone(),
        );
        // All from the start: what first appears with a 1 has not risen, for who looks at the rise.
        for reason in Reason::ALL {
            drop(measures.refused.get_or_create(&ReasonLabel { reason: reason.name() }));
        }
        registry.register(
            "skerry_refused_requests",
            "Requests that were told to come back later (503), by the bound that had no more, or another reason",
            measures.refused.clone(),
        );
        measures
    }

    /// A request is told to come back later.
    pub(crate) fn refused(&self, reason: Reason) {
        self.refused.get_or_create(&ReasonLabel { reason: reason.name() }).inc();
    }

    pub(crate) fn begin(&self) {
        self.in_flight.inc();
    }

    /// A request is over; only those of S3 have an operation.
    pub(crate) fn end(&self, operation: Option<&'static str>, status: u16, time: Duration) {
        self.in_flight.dec();
        let Some(operation) = operation else { return };
        let labels = Labels { operation, code: status.into() };
        self.requests.get_or_create(&labels).inc();
        self.duration.get_or_create(&labels).observe(time.as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn the_names_are_those_of_the_contract() {
        let mut registry = Registry::default();
        let telemetry = Telemetry::register(&mut registry);
        telemetry.begin();
        telemetry.end(Some("GetObject"), 206, Duration::from_millis(3));
        telemetry.begin();
        telemetry.end(None, 200, Duration::ZERO);
        telemetry.begin();
        telemetry.refused(Reason::Commits);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        for line in [
            "skerry_s3_requests_total{operation=\"GetObject\",code=\"206\"} 1\n",
            "skerry_s3_request_duration_seconds_count{operation=\"GetObject\",code=\"206\"} 1\n",
            "skerry_s3_request_duration_seconds_bucket{le=\"0.005\",operation=\"GetObject\",code=\"206\"} 1\n",
            "skerry_http_requests_in_flight 1\n",
            "skerry_refused_requests_total{reason=\"commits\"} 1\n",
            "skerry_refused_requests_total{reason=\"documents\"} 0\n",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
    }
}
