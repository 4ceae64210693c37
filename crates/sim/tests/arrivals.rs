//! A small record is at the other sites half a round trip after it was written.

use std::time::Duration;

use skerry_sim::arrivals::measure;

#[test]
fn a_record_arrives_after_half_a_round_trip() {
    let delay = Duration::from_millis(50);
    let (fresh, pulled) = (measure(0..1, delay, true), measure(0..1, delay, false));
    assert!(fresh.took.len() > 50, "{}", fresh.took.len());
    assert!(fresh.percentile(50) < delay * 3 / 2, "{:?}", fresh.percentile(50));
    assert!(pulled.percentile(50) >= delay * 3, "{:?}", pulled.percentile(50));
    assert!(fresh.bytes_each < pulled.bytes_each, "{} {}", fresh.bytes_each, pulled.bytes_each);
}
