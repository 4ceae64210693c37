//! From any start, over any net: the same set everywhere, nothing lost, nothing dead back.

use crate::world::{SYSTEM, Weather, World, bucket, millis, seconds};

/// Draws an hour of writes, deletes, cuts, mutes, restarts and forgotten tombstones; then peace.
fn storm(seed: u64) -> World {
    let mut world = World::new(3 + seed as usize % 4, seed, millis(40));
    let count = world.sites.len();
    world.weather = if seed.is_multiple_of(3) { Weather::CALM } else { Weather::STORM };
    world.start();
    let shared = bucket(1);
    (0..count).for_each(|n| world.join(n, shared));
    for _ in 0..300 {
        let (a, b, dice) = (world.draw(count), world.draw(count), world.draw(100));
        let id = if world.draw(2) == 0 { shared } else { SYSTEM };
        let key = world.draw(12) as u32;
        match dice {
            0..50 => world.put(a, id, key),
            50..70 => world.delete(a, id, key),
            70..76 if a != b => world.cut(a, b),
            76..80 if a != b => world.silence(a, b),
            80..88 if a != b => world.heal(a, b),
            88..90 => world.restart(a),
            90..93 => world.isolate(a),
            93..97 => world.sites[a].store.forget_tombstones(id),
            _ => {}
        }
        let pause = millis(world.draw(20_000) as u64);
        world.run(pause);
    }
    world.heal_all();
    world.run(seconds(1800));
    world
}

#[test]
fn storms_end_in_agreement() {
    // Beyond the first, seeds that once found something.
    for seed in (0..24).chain([75]) {
        let mut world = storm(seed);
        let all: Vec<usize> = (0..world.sites.len()).collect();
        for id in [SYSTEM, bucket(1)] {
            assert_eq!(world.difference(id, &all), None, "seed {seed}");
            world.assert_converged(id, &all);
        }
    }
}

#[test]
fn two_runs_of_a_seed_are_the_same_byte_for_byte() {
    for seed in [3, 4, 5] {
        assert_eq!(storm(seed).trace.finalize(), storm(seed).trace.finalize());
    }
    assert_ne!(storm(3).trace.finalize(), storm(4).trace.finalize());
}

#[test]
fn a_record_passes_where_its_writer_cannot() {
    let mut world = World::new(3, 1, millis(20));
    world.start();
    (0..3).for_each(|n| world.join(n, bucket(1)));
    world.run(seconds(5));
    world.cut(0, 2);
    world.run(seconds(1));
    world.put(0, bucket(1), 7);
    world.run(seconds(1));
    world.assert_converged(bucket(1), &[0, 1, 2]);
}

#[test]
fn a_record_arrives_within_one_and_a_half_round_trips() {
    let mut world = World::new(3, 1, millis(100));
    world.start();
    (0..3).for_each(|n| world.join(n, bucket(1)));
    world.run(seconds(700));
    world.put(0, bucket(1), 7);
    world.run(millis(170));
    world.assert_converged(bucket(1), &[0, 1, 2]);
}

#[test]
fn catching_up_starts_with_the_link() {
    let mut world = World::new(3, 1, millis(50));
    world.start();
    (0..3).for_each(|n| world.join(n, bucket(1)));
    world.run(seconds(5));
    world.isolate(2);
    world.run(seconds(400));
    for key in 0..50 {
        world.put(0, bucket(1), key);
        world.put(2, bucket(1), 100 + key);
        world.run(seconds(1));
    }
    world.heal(1, 2);
    world.run(millis(500));
    world.assert_converged(bucket(1), &[0, 1, 2]);
}

#[test]
fn one_deaf_direction_does_not_stop_the_feed() {
    let mut world = World::new(3, 1, millis(20));
    world.start();
    (0..3).for_each(|n| world.join(n, bucket(1)));
    world.run(seconds(5));
    world.silence(0, 1);
    world.put(0, bucket(1), 1);
    world.run(seconds(60));
    world.assert_converged(bucket(1), &[0, 1, 2]);
}

#[test]
fn news_leave_a_cluster_of_near_sites() {
    let mut world = World::new(12, 1, millis(200));
    for a in 0..12 {
        for b in a + 1..12 {
            if a / 4 == b / 4 {
                world.set_rtt(a, b, millis(2));
            }
        }
    }
    world.start();
    world.run(seconds(3600));
    world.put(0, SYSTEM, 1);
    world.run(seconds(400));
    let all: Vec<usize> = (0..12).collect();
    world.assert_converged(SYSTEM, &all);
}
