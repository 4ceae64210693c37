//! Each property of a link by itself.

use super::*;
use skerry_scenario::clock::{millis, seconds};
use skerry_scenario::draw::Ppm;

fn net(link: Link) -> Net {
    Net::new(2, Draw::from_seed(1), |_, _| link)
}

#[test]
fn delay_and_jitter_keep_the_order() {
    let mut net = net(Link { delay: millis(20), jitter: millis(30), ..Link::default() });
    let arrivals: Vec<_> = (0..100).flat_map(|n| net.send(Instant(n), 0, 1, 100)).collect();
    assert_eq!(arrivals.len(), 100);
    assert!(arrivals.is_sorted());
    assert!(arrivals.iter().all(|at| *at >= Instant(0).after(millis(20))));
    assert!(arrivals.iter().all(|at| *at <= Instant(99).after(millis(50))));
}

#[test]
fn reordering_lets_later_messages_overtake() {
    let link = Link { delay: millis(20), reorder: Ppm::percent(30), hold: seconds(1), ..Link::default() };
    let mut net = net(link);
    let arrivals: Vec<_> = (0..100).flat_map(|n| net.send(Instant(n), 0, 1, 100)).collect();
    assert!(!arrivals.is_sorted());
}

#[test]
fn losses_and_duplicates_come_at_their_rates() {
    let mut net = net(Link { loss: Ppm::percent(30), duplicate: Ppm::percent(10), ..Link::default() });
    let counts: Vec<_> = (0..1000).map(|_| net.send(Instant(0), 0, 1, 1).len()).collect();
    let times = |n: usize| counts.iter().filter(|&&count| count == n).count();
    assert!((250..350).contains(&times(0)), "{} lost", times(0));
    assert!((40..110).contains(&times(2)), "{} twice", times(2));
    assert_eq!(net.carried(0, 1).lost, times(0) as u64);
    assert_eq!(net.carried(1, 0), Carried::default());
}

#[test]
fn a_rate_makes_bytes_wait_and_drops_what_waits_too_long() {
    let mut net = net(Link { rate: 1000, queue: seconds(3), ..Link::default() });
    let at = |n| Instant(0).after(seconds(n));
    let arrivals: Vec<_> = (0..6).flat_map(|_| net.send(Instant(0), 0, 1, 1000)).collect();
    assert_eq!(arrivals, [at(1), at(2), at(3), at(4)]);
}

#[test]
fn cuts_are_one_way_and_add_up() {
    let mut net = net(Link::default());
    net.cut(0, 1);
    net.cut(0, 1);
    assert!(net.send(Instant(0), 0, 1, 1).is_empty());
    assert_eq!(net.send(Instant(0), 1, 0, 1).len(), 1);
    net.heal(0, 1);
    assert!(!net.open(0, 1));
    net.heal(0, 1);
    net.heal(0, 1);
    assert!(net.open(0, 1));
    net.cut(0, 1);
    net.heal_all(|link| link);
    assert_eq!(net.send(Instant(0), 0, 1, 1).len(), 1);
}

#[test]
fn a_site_that_does_not_exist_hears_nothing() {
    let mut net = net(Link::default());
    assert!(net.send(Instant(0), 0, 2, 1).is_empty());
    assert!(!net.open(2, 0));
}
