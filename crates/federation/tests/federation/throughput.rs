//! Catching up uses the link, however far.

use bytes::Bytes;

use crate::world::{World, bucket, millis, seconds};

#[test]
fn a_long_link_is_full_while_catching_up() {
    let mut world = World::new(2, 1, millis(100));
    // 100 Mbit/s, 100 ms, and a store that takes 20 ms per commit.
    world.rate = Some(12_500_000);
    world.commit = millis(20);
    let payload = Bytes::from(vec![7; 2000]);
    for key in 0..20_000 {
        world.write(0, bucket(1), key, false, payload.clone());
    }
    world.join(0, bucket(1));
    world.join(1, bucket(1));
    world.start();
    let began = world.now;
    while world.difference(bucket(1), &[1]).is_some() {
        world.run(millis(50));
        assert!(world.now.since(began) < seconds(60), "never");
    }
    let took = world.now.since(began).as_secs_f64();
    let rate = world.sites[0].sent_bytes as f64 / took / 12_500_000.0;
    assert_eq!(world.dropped, 0, "more was asked for than a link holds");
    println!("41 MB over 100 Mbit/s and 100 ms in {took:.2} s: {:.0} % of the link", rate * 100.0);
    assert!(rate > 0.7, "{rate}");
}

#[test]
fn a_slow_link_is_not_asked_for_more_than_it_carries() {
    let mut world = World::new(2, 1, millis(600));
    world.rate = Some(16_000);
    for key in 0..2000 {
        world.write(0, bucket(1), key, false, Bytes::from(vec![7; 500]));
    }
    world.join(0, bucket(1));
    world.join(1, bucket(1));
    world.start();
    world.run(seconds(300));
    world.assert_converged(bucket(1), &[0, 1]);
    let bytes = world.sites[0].sent_bytes;
    println!("1.1 MB over 128 kbit/s: {bytes} bytes sent");
    assert!(bytes < 2_500_000, "{bytes}");
}

#[test]
fn all_buckets_together_are_asked_for_no_more_than_a_link_holds() {
    let mut world = World::new(2, 1, millis(100));
    world.rate = Some(12_500_000);
    world.commit = millis(20);
    let payload = Bytes::from(vec![7; 2000]);
    for id in 1..=4 {
        for key in 0..8000 {
            world.write(0, bucket(id), key, false, payload.clone());
        }
        world.join(0, bucket(id));
        world.join(1, bucket(id));
    }
    world.start();
    let began = world.now;
    while (1..=4).any(|id| world.difference(bucket(id), &[1]).is_some()) {
        world.run(millis(50));
        assert!(world.now.since(began) < seconds(60), "never");
    }
    assert_eq!(world.dropped, 0);
    let took = world.now.since(began).as_secs_f64();
    let rate = world.sites[0].sent_bytes as f64 / took / 12_500_000.0;
    println!(
        "four buckets, 65 MB over 100 Mbit/s and 100 ms in {took:.2} s: {:.0} % of the link",
        rate * 100.0
    );
    assert!(rate > 0.7, "{rate}");
}
