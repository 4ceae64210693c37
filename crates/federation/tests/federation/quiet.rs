//! Rest: what sites say to each other when nothing happens.

use crate::world::{World, bucket, millis, seconds, site_id};

/// Bytes per message that TLS, framing and TCP/IP add, both the packet and its acknowledgement.
const OVERHEAD: u64 = 22 + 12 + 52 + 52;

/// Bytes per site and second over an hour at rest: of messages alone, and with what carries them.
fn at_rest(count: usize, buckets: u8) -> (f64, f64) {
    let mut world = World::new(count, 7, millis(30));
    world.start();
    for n in 0..count {
        for id in 0..buckets {
            if count <= 3 || (n + usize::from(id)) % 10 == 0 {
                world.join(n, bucket(id));
            }
        }
    }
    world.put(0, bucket(0), 1);
    world.run(seconds(1500));
    let (bytes, sent) = (world.sent_bytes(), world.sent());
    world.run(seconds(3600));
    let (bytes, sent) = (world.sent_bytes() - bytes, world.sent() - sent);
    let per = |bytes: u64| bytes as f64 / 3600.0 / count as f64;
    (per(bytes), per(bytes + sent * OVERHEAD))
}

#[test]
fn three_sites_at_rest() {
    let (bare, carried) = at_rest(3, 20);
    println!("3 sites, 20 buckets, at rest: {bare:.1} B/s per site, {carried:.1} B/s with TCP and TLS");
    assert!(carried <= 100.0, "{carried}");
}

#[test]
fn sixty_sites_at_rest() {
    let (bare, carried) = at_rest(60, 20);
    println!("60 sites, 20 buckets, at rest: {bare:.1} B/s per site, {carried:.1} B/s with TCP and TLS");
    assert!(carried <= 150.0, "{carried}");
}

#[test]
fn a_dead_site_is_noticed_and_met_again() {
    let mut world = World::new(4, 7, millis(30));
    world.start();
    world.run(seconds(60));
    let all_alive =
        |world: &World| (0..4).all(|n| (0..4).all(|m| world.sites[n].machine.is_alive(site_id(m))));
    assert!(all_alive(&world));
    // A cut between two is not a death: the others vouch.
    world.cut(0, 1);
    world.run(seconds(600));
    assert!(all_alive(&world));
    world.heal(0, 1);
    world.stop(3);
    world.run(seconds(120));
    assert!((0..3).all(|n| !world.sites[n].machine.is_alive(site_id(3))));
    world.restart(3);
    world.run(seconds(60));
    assert!(all_alive(&world));
}

#[test]
fn silence_without_a_closed_link_is_noticed() {
    let mut world = World::new(3, 7, millis(30));
    world.start();
    world.run(seconds(60));
    (0..2).for_each(|n| {
        world.silence(2, n);
        world.silence(n, 2);
    });
    world.run(seconds(120));
    assert!((0..2).all(|n| !world.sites[n].machine.is_alive(site_id(2))));
    world.heal_all();
    world.run(seconds(180));
    assert!((0..3).all(|n| (0..3).all(|m| world.sites[n].machine.is_alive(site_id(m)))));
}
