//! The contract metrics are there under their names, and the bytes add up.

#![expect(clippy::unwrap_used, reason = "tests")]

use prometheus_client::encoding::text::encode;
use skerry_base::{NodeId, limits};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;
use crate::net::memory::MemoryWorld;
use crate::net::{Net, PeerAddress};
use crate::trust::Identity;

fn told(registry: &Registry) -> String {
    let mut text = String::new();
    encode(&mut text, registry).unwrap();
    text
}

fn value(text: &str, series: &str) -> f64 {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(series))
        .unwrap_or_else(|| unreachable!("{series} in {text}"));
    line.trim().parse().unwrap()
}

fn node(n: usize) -> NodeId {
    NodeId((n as u128).to_be_bytes())
}

#[test]
fn every_contract_metric_is_there() {
    let mut registry = Registry::default();
    let telemetry = Telemetry::register(&mut registry, "0123abc");
    telemetry.disk_bytes("journal", 5);
    telemetry.feed_lag.set(node(1), "south", 3, 1.5);
    telemetry.sync_seconds.observe(0.004);
    telemetry.unprotected_bytes(vec![("photos".into(), 9)]);
    telemetry.losses.set([1, 3], [2, 3]);
    telemetry.losses.set([1, 4], [2, 5]);
    telemetry.homes.set(2);
    telemetry.homes.set(3);
    telemetry.wan.peer(node(1), "south").sent(Kind::Record, 10);
    let text = told(&registry);
    assert!(
        text.contains(&format!(
            "skerry_build_info{{version=\"{}\",commit=\"0123abc\"",
            env!("CARGO_PKG_VERSION")
        )),
        "{text}"
    );
    assert_eq!(value(&text, "skerry_feed_lag_records{peer=\"south\"}"), 3.0);
    assert_eq!(value(&text, "skerry_feed_lag_seconds{peer=\"south\"}"), 1.5);
    assert_eq!(value(&text, "skerry_unsent_bytes "), 0.0);
    assert_eq!(value(&text, "skerry_conflicts "), 0.0);
    assert_eq!(value(&text, "skerry_clock_offset_seconds "), 0.0);
    assert_eq!(value(&text, "skerry_disk_bytes{class=\"journal\"}"), 5.0);
    assert_eq!(value(&text, "skerry_sync_seconds_count "), 1.0);
    assert_eq!(value(&text, "skerry_unprotected_bytes{bucket=\"photos\"}"), 9.0);
    assert_eq!(value(&text, "skerry_lost_sites "), 1.0);
    assert_eq!(value(&text, "skerry_gone_sites "), 4.0);
    assert_eq!(value(&text, "skerry_lost_reads_total{answer=\"older\"}"), 2.0);
    assert_eq!(value(&text, "skerry_lost_reads_total{answer=\"none\"}"), 5.0);
    assert_eq!(value(&text, "skerry_homes_taken_over_total "), 3.0);
    let wan = "skerry_wan_bytes_total{peer=\"south\",direction=\"sent\",kind=\"record\"}";
    assert_eq!(value(&text, wan), 10.0);
    assert!(value(&text, "process_resident_memory_bytes ") > 100_000.0);
    assert!(value(&text, "process_threads ") >= 1.0);
    assert!(value(&text, "process_cpu_seconds_total ") >= 0.0);
}

#[tokio::test]
async fn control_is_what_the_wire_carried_besides() {
    let world = MemoryWorld::new();
    let keys = [0; 2].map(|_| Identity::generate().unwrap().public());
    let [a, b] = keys.map(|key| world.node(key));
    let peer = |key| vec![PeerAddress { key, addresses: Vec::new() }];
    let [first, second] = keys;
    a.set_peers(peer(second));
    b.set_peers(peer(first));
    let mut registry = Registry::default();
    let telemetry = Telemetry::register(&mut registry, "0123abc");
    let net: Arc<dyn Net> = a.clone();
    telemetry.wan.watch(&net);
    let counted = telemetry.wan.peer(b.node(), "south");
    let mut stream = a.open(b.node()).await.unwrap();
    stream.write_all(&[0; 100]).await.unwrap();
    counted.sent(Kind::Payload, 60);
    counted.sent(Kind::Record, 10);
    let series =
        |kind| format!("skerry_wan_bytes_total{{peer=\"south\",direction=\"sent\",kind=\"{kind}\"}}");
    assert_eq!(value(&told(&registry), &series("control")), 30.0);
    // Counted before it is on the wire: control waits, it does not fall.
    counted.sent(Kind::Payload, 25);
    let text = told(&registry);
    assert_eq!((value(&text, &series("payload")), value(&text, &series("control"))), (85.0, 30.0));
    // A peer that leaves the set keeps what it had.
    a.set_peers(Vec::new());
    assert_eq!(value(&told(&registry), &series("control")), 30.0);
    let (_, mut theirs) = b.accept().await.unwrap();
    theirs.read_u8().await.unwrap_err();
}

#[test]
fn peers_and_buckets_beyond_the_limit_are_summed() {
    let mut registry = Registry::default();
    let telemetry = Telemetry::register(&mut registry, "0123abc");
    for n in 0..limits::METRIC_PEERS + 3 {
        let name = format!("site-{n}");
        telemetry.feed_lag.set(node(n), &name, 2, n as f64);
        telemetry.wan.peer(node(n), &name).received(Kind::Payload, 7);
    }
    telemetry.unprotected_bytes((0..METRIC_BUCKETS + 2).map(|n| (format!("b{n}"), 1)).collect());
    let text = told(&registry);
    assert_eq!(value(&text, "skerry_feed_lag_records{peer=\"other\"}"), 6.0);
    assert_eq!(value(&text, "skerry_feed_lag_seconds{peer=\"other\"}"), (limits::METRIC_PEERS + 2) as f64);
    let series = "skerry_wan_bytes_total{peer=\"other\",direction=\"received\",kind=\"payload\"}";
    assert_eq!(value(&text, series), 21.0);
    assert_eq!(value(&text, "skerry_unprotected_bytes{bucket=\"other\"}"), 2.0);
    telemetry.unprotected_bytes(vec![("b0".into(), 4)]);
    assert_eq!(told(&registry).matches("skerry_unprotected_bytes{").count(), 1);
}
