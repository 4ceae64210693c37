//! The whole way of a packet in virtual time: round trips add up, rates hold, cuts cut, bytes are counted.

#![expect(clippy::unwrap_used, reason = "tests")]

use super::super::packet::tests::tcp_frame;
use super::*;

const MS: u64 = 1_000_000;
const TOPOLOGY: &str = r#"
version = 1
[[site]]
name = "a"
hosts = 2
[[site]]
name = "b"
[matrix]
rtt_ms = [[0, 50], [70, 0]]
[site_lan]
rtt_ms = 1
rate_mbit = 8000
[access]
rtt_ms = 20
rate_mbit = 8000
"#;
const A1: [u8; 4] = [10, 64, 0, 1];
const A2: [u8; 4] = [10, 64, 0, 2];
const B1: [u8; 4] = [10, 64, 1, 1];
const A_CLIENT: [u8; 4] = [10, 64, 0, 129];
const B_CLIENT: [u8; 4] = [10, 64, 1, 129];

fn network(text: &str) -> Network {
    let topology = Topology::parse("t.toml", text).unwrap();
    let plan = Plan::new(&topology);
    Network::new(&topology, plan, 1)
}

fn enter(network: &mut Network, now: u64, from: [u8; 4], to: [u8; 4], payload: usize, per_segment: u16) {
    let host = network.plan.at(from.into()).unwrap();
    network.enter(now, host, &tcp_frame(from, to, payload, per_segment));
}

/// Runs until all is quiet; what was delivered, when.
fn drain(network: &mut Network) -> Vec<(u64, usize)> {
    let mut seen = Vec::new();
    while let Some(now) = network.next_step().into_iter().chain(network.next_delivery()).min() {
        network.advance(now);
        while let Some(delivery) = network.due(now) {
            seen.push((now, delivery.host));
        }
    }
    seen
}

/// One way in tenths of a millisecond.
fn way(from: [u8; 4], to: [u8; 4]) -> u64 {
    let mut network = network(TOPOLOGY);
    enter(&mut network, 0, from, to, 0, 0);
    let seen = drain(&mut network);
    assert_eq!(seen.len(), 1);
    seen[0].0 / (MS / 10)
}

#[test]
fn round_trips_add_up_as_the_papers_have_them() {
    assert_eq!(way(A1, A2), 5, "half of the LAN");
    assert_eq!((way(A1, B1), way(B1, A1)), (250, 350));
    assert_eq!((way(A_CLIENT, A1), way(A1, A_CLIENT)), (100, 100), "half of the access");
    assert_eq!((way(A_CLIENT, B1), way(B1, A_CLIENT)), (350, 450), "access and link");
    assert_eq!(way(A_CLIENT, B_CLIENT), 450, "both accesses and the link");
}

#[test]
fn strangers_and_liars_get_nowhere() {
    let mut network = network(TOPOLOGY);
    for to in [[8, 8, 8, 8], [10, 64, 9, 1], [255, 255, 255, 255], [224, 0, 0, 1], A1] {
        enter(&mut network, 0, A1, to, 10, 0);
    }
    network.enter(0, 0, &tcp_frame(B1, A2, 10, 0));
    network.enter(0, 0, &[0; 3]);
    assert_eq!(network.counts.strays, 7);
    assert!(drain(&mut network).is_empty());
}

#[test]
fn a_link_has_its_rate_and_drops_its_tail() {
    let text = format!("{TOPOLOGY}[link]\nrate_mbit = 8\nqueue_ms = 100\n");
    let mut network = network(&text);
    // 1000 bytes of IP per packet, a millisecond each: the first passes, a hundred wait, the rest is too late.
    for _ in 0..200 {
        enter(&mut network, 0, A1, B1, 960, 0);
    }
    let seen = drain(&mut network);
    assert!((100..=102).contains(&seen.len()), "{}", seen.len());
    let spaced = seen.windows(2).all(|two| two[1].0 - two[0].0 == MS);
    assert!(spaced, "{seen:?}");
    let flow = network.pairs[0][1].flow;
    assert_eq!((flow.packets, flow.delivered_packets), (200, seen.len() as u64));
    assert_eq!(flow.lost_packets, 200 - seen.len() as u64);
    assert_eq!(network.counts.queue_drops, flow.lost_packets);
}

#[test]
fn two_senders_share_a_link_and_a_slow_one_does_not_hold_the_other() {
    let text = format!("{TOPOLOGY}[link]\nrate_mbit = 80\n");
    let mut network = network(&text);
    for _ in 0..100 {
        enter(&mut network, 0, A1, B1, 960, 0);
        enter(&mut network, 0, A2, B1, 960, 0);
    }
    let seen = drain(&mut network);
    assert_eq!(seen.len(), 200);
    assert!(seen[199].0.abs_diff(25 * MS + 20 * MS) < MS / 10, "{}", seen[199].0);
}

#[test]
fn a_receivers_card_takes_what_all_send_only_at_its_rate() {
    let text = TOPOLOGY.replace("rtt_ms = 1\nrate_mbit = 8000", "rtt_ms = 1\nrate_mbit = 8\nqueue_ms = 1000");
    let mut network = network(&text);
    for _ in 0..50 {
        enter(&mut network, 0, A1, B1, 960, 0);
        enter(&mut network, 0, A2, B1, 960, 0);
    }
    let seen = drain(&mut network);
    assert_eq!(seen.len(), 100);
    assert!(seen[99].0.abs_diff(125 * MS) < 2 * MS, "{}", seen[99].0);
}

#[test]
fn a_cut_loses_what_is_under_way_and_one_way_is_one_way() {
    let mut network = network(TOPOLOGY);
    enter(&mut network, 0, A1, B1, 10, 0);
    enter(&mut network, 0, B1, A1, 10, 0);
    network.advance(MS);
    network.set_cut(0, 1, true);
    enter(&mut network, 2 * MS, A1, B1, 10, 0);
    network.set_cut(0, 1, false);
    enter(&mut network, 3 * MS, A1, B1, 10, 0);
    let seen: Vec<_> = drain(&mut network).into_iter().map(|(at, host)| (at / MS, host)).collect();
    assert_eq!(seen, [(28, 2), (35, 0)]);
    assert_eq!(network.pairs[0][1].flow.lost_packets, 2);
    assert_eq!(network.pairs[1][0].flow.lost_packets, 0);
}

#[test]
fn super_packets_are_cut_for_slow_and_for_lossy_links_only() {
    let pieces = |extra: &str| {
        let mut network = network(&format!("{TOPOLOGY}{extra}"));
        enter(&mut network, 0, A1, B1, 20_000, 1000);
        let pieces = drain(&mut network).len();
        let flow = network.pairs[0][1].flow;
        assert_eq!((flow.packets, flow.bytes), (20, 20_000 + 20 * 40), "bytes as on the wire, however cut");
        pieces
    };
    assert_eq!(pieces(""), 1);
    assert_eq!(pieces("[link]\nloss = 0.000001\n"), 20);
    assert_eq!(pieces("[link]\nrate_mbit = 8\n"), 20);
    assert_eq!(pieces("[link]\nrate_mbit = 100\n"), 7, "three segments take 250 µs");
}

#[test]
fn bytes_are_counted_per_pair_and_host() {
    let mut network = network(TOPOLOGY);
    enter(&mut network, 0, A1, B1, 960, 0);
    enter(&mut network, 0, A2, B1, 960, 0);
    enter(&mut network, 0, A1, A2, 60, 0);
    drain(&mut network);
    let traffic = network.traffic(&["a".into(), "b".into()]);
    assert_eq!((traffic.pairs[0][1].bytes, traffic.pairs[0][1].delivered_bytes), (2000, 2000));
    assert_eq!((traffic.pairs[0][0].bytes, traffic.pairs[1][0].bytes), (100, 0));
    assert_eq!((traffic.hosts["a-1"].sent_bytes, traffic.hosts["a-1"].sent_packets), (1100, 2));
    assert_eq!((traffic.hosts["b-1"].received_bytes, traffic.hosts["b-1"].received_packets), (2000, 2));
    assert_eq!(traffic.between_sites(), 2000);
}

#[test]
fn memory_under_way_is_bounded_and_comes_back() {
    let mut network = network(TOPOLOGY);
    let frame = tcp_frame(A1, B1, 65_000, 1000);
    let fit = UNDER_WAY_MAX / frame.len() as u64;
    for _ in 0..fit + 2 {
        network.enter(0, 0, &frame);
    }
    assert_eq!(network.counts.memory_drops, 2 * 65);
    drain(&mut network);
    assert_eq!(network.under_way, 0);
    assert!(network.slots.iter().all(Option::is_none));
}
