//! From any start, over any net: the same set everywhere, nothing lost, nothing dead back.

use bytes::Bytes;
use skerry_base::{NodeId, Origin, Vector};
use skerry_federation::message::{Batch, Message, Pull};
use skerry_federation::{Input, Output, limits};

use crate::world::{SYSTEM, Weather, World, bucket, millis, seconds, site_id};

/// Draws an hour of writes, deletes, cuts, mutes, restarts and forgotten tombstones; then peace.
fn storm(seed: u64) -> World {
    storm_over(World::new(3 + seed as usize % 4, seed, millis(40)), seed)
}

/// The same over sites that find each other in some way.
pub(crate) fn storm_over(mut world: World, seed: u64) -> World {
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

/// Sends a message from site 0 to site 1 of a pair; what site 1 wants done.
fn hear(world: &mut World, message: Message) -> Vec<Output> {
    let (now, mut out) = (world.now, Vec::new());
    let site = &mut world.sites[1];
    site.machine.handle(Input::Received { from: site_id(0), message }, now, &site.store, &mut out);
    out
}

/// What else it answers, as soon as it has nothing else to do.
fn answered(world: &mut World, message: Message) -> Vec<Output> {
    let mut out = hear(world, message);
    let (mut now, site) = (world.now, &mut world.sites[1]);
    while let Some(at) = site.machine.next_wake().filter(|at| at.since(now) <= limits::SERVE_PAUSE) {
        now = at;
        site.machine.handle(Input::Wake, now, &site.store, &mut out);
    }
    world.now = now;
    out
}

/// Two sites of which the first says nothing of its own.
fn pair() -> World {
    let mut world = World::new(2, 1, millis(20));
    world.start();
    (0..2).for_each(|n| world.join(n, bucket(1)));
    world.run(seconds(5));
    world
}

#[test]
fn a_repeated_pull_is_answered_once() {
    let mut world = pair();
    for key in 0..20 {
        world.write(1, bucket(1), key, false, Bytes::from(vec![1; 5000]));
    }
    world.run(seconds(5));
    let pull = |ticket| {
        let (bucket, seen) = (bucket(1), Vector::new());
        Message::Pull(Pull { ticket, bucket, seen, max_bytes: 16 << 10, batches: 4 })
    };
    let batches = |out: Vec<Output>| {
        let batch = |output: &&Output| matches!(output, Output::Send { message: Message::Batch(_), .. });
        out.iter().filter(batch).count()
    };
    assert_eq!(batches(answered(&mut world, pull(70))), 4);
    // Answered again after more was written, its pieces would mix with those of the first answer.
    world.put(1, bucket(1), 3);
    assert_eq!(batches(answered(&mut world, pull(70))), 0);
    assert_eq!(batches(answered(&mut world, pull(71))), 4);
}

#[test]
fn an_end_that_brings_nothing_ends_the_round() {
    let mut world = pair();
    let origin = Origin { node: NodeId([9; 16]), incarnation: 1 };
    let upto = |seq| Vector::from_iter([(origin, seq)]);
    let asked = |out: &[Output]| {
        let pull = |output: &Output| match output {
            Output::Send { message: Message::Pull(pull), .. } => Some(pull.ticket),
            _ => None,
        };
        out.iter().find_map(pull).unwrap()
    };
    let applied = |out: &[Output]| {
        let apply = |output: &Output| match output {
            Output::Apply(apply) => Some((apply.more, apply.upto.clone())),
            _ => None,
        };
        out.iter().find_map(apply)
    };
    let batch = |ticket, upto, end| {
        let (bucket, vector) = (bucket(1), Vector::from_iter([(origin, 9)]));
        let (horizon, doubt) = (Vector::new(), Vector::new());
        let (items, source) = (Vec::new(), Origin::default());
        let (index, last) = (0, true);
        Message::Batch(Batch {
            ticket,
            bucket,
            source,
            index,
            last,
            items,
            upto,
            end,
            vector,
            horizon,
            doubt,
        })
    };
    let ticket = asked(&hear(&mut world, Message::News { bucket: bucket(1), vector: upto(9) }));
    let out = hear(&mut world, batch(ticket, upto(3), false));
    assert_eq!(applied(&out), Some((true, upto(3))));
    // What the source had more has come otherwise: nothing is left but to say so.
    let out = hear(&mut world, batch(asked(&out), Vector::new(), true));
    assert_eq!(applied(&out), Some((false, Vector::new())), "the vector must not wait for ever");
}
