//! Who was away for longer than tombstones are kept: no dead dot comes back, no key is without its value.

use skerry_federation::{Input, Report};

use crate::world::{World, bucket, millis, seconds, site_id};

const SHARED: skerry_base::BucketId = bucket_const();

const fn bucket_const() -> skerry_base::BucketId {
    skerry_base::BucketId([1; 16])
}

fn three() -> World {
    let mut world = World::new(3, 9, millis(30));
    world.start();
    (0..3).for_each(|n| world.join(n, SHARED));
    world.run(seconds(5));
    world
}

#[test]
fn what_died_during_a_long_absence_stays_dead() {
    assert_eq!(SHARED, bucket(1));
    let mut world = three();
    (0..2000).for_each(|key| world.put(0, SHARED, key));
    world.run(seconds(30));
    world.assert_converged(SHARED, &[0, 1, 2]);
    world.isolate(2);
    world.run(seconds(10));
    (0..300).for_each(|key| world.delete(0, SHARED, key * 5));
    world.run(seconds(30));
    // A new life at the returning site writes, so that both sides have news.
    (0..2).for_each(|n| world.sites[n].store.forget_tombstones(SHARED));
    world.put(2, SHARED, 9_999);
    world.put(1, SHARED, 8_888);
    world.heal_all();
    world.run(seconds(60));
    world.assert_converged(SHARED, &[0, 1, 2]);
    let dropped = world.reports.iter().filter_map(|(site, report)| match report {
        Report::Reconciled { dropped, .. } if *site == 2 => Some(*dropped),
        _ => None,
    });
    assert_eq!(dropped.sum::<u64>(), 300);
}

#[test]
fn a_crash_while_in_doubt_forgets_nothing() {
    for pause in [5, 20, 40, 60, 80, 100, 120, 150, 200] {
        let mut world = three();
        (0..100).for_each(|key| world.put(0, SHARED, key));
        world.run(seconds(30));
        world.isolate(2);
        world.run(seconds(10));
        (0..50).for_each(|key| world.delete(0, SHARED, key));
        world.run(seconds(30));
        (0..2).for_each(|n| world.sites[n].store.forget_tombstones(SHARED));
        world.heal_all();
        world.run(millis(pause));
        world.restart(2);
        world.run(seconds(120));
        world.assert_converged(SHARED, &[0, 1, 2]);
    }
}

#[test]
fn a_key_that_was_written_over_is_never_without_a_value() {
    let mut world = three();
    (0..40).for_each(|key| world.put(0, SHARED, key));
    world.run(seconds(30));
    world.isolate(2);
    world.run(seconds(10));
    (0..40).for_each(|key| world.put(0, SHARED, key));
    (40..60).for_each(|key| world.put(0, SHARED, key));
    (40..60).for_each(|key| world.delete(0, SHARED, key));
    world.run(seconds(30));
    (0..2).for_each(|n| world.sites[n].store.forget_tombstones(SHARED));
    world.heal_all();
    for _ in 0..3000 {
        world.run(millis(1));
        let keys = &world.sites[2].store.held(SHARED).keys;
        assert!((0..40).all(|key| keys.get(&key).is_some_and(|dots| !dots.is_empty())));
    }
    world.assert_converged(SHARED, &[0, 1, 2]);
}

/// Whoever returns lacks what it has let go of, and covers what it said at the step before no more.
#[test]
fn who_left_between_two_steps_of_a_comparison_and_returned_calls_nothing_dead() {
    for pause in (0..300).step_by(3) {
        let mut world = three();
        (0..40).for_each(|key| world.put(0, SHARED, key));
        world.run(seconds(30));
        world.isolate(2);
        world.run(seconds(10));
        (30..40).for_each(|key| world.delete(0, SHARED, key));
        world.run(seconds(30));
        (0..2).for_each(|n| world.sites[n].store.forget_tombstones(SHARED));
        world.heal(1, 2);
        world.run(millis(pause / 2));
        // Of what replaces these the one that is asked may know, and not who asks.
        (10..20).for_each(|key| world.put(0, SHARED, key));
        world.run(millis(pause - pause / 2));
        world.let_go_and_return(1, SHARED);
        for _ in 0..300 {
            world.run(millis(1));
            let keys = &world.sites[2].store.held(SHARED).keys;
            let has = |key: &u32| keys.get(key).is_some_and(|dots| !dots.is_empty());
            assert_eq!((0..30).find(|key| !has(key)), None, "after {pause} ms");
        }
        world.heal_all();
        world.run(seconds(900));
        world.assert_converged(SHARED, &[0, 1, 2]);
    }
}

#[test]
fn who_hears_from_one_in_doubt_is_in_doubt() {
    let mut world = World::new(4, 3, millis(30));
    world.start();
    (0..4).for_each(|n| world.join(n, SHARED));
    world.run(seconds(5));
    (0..100).for_each(|key| world.put(0, SHARED, key));
    world.run(seconds(30));
    // Two come back after the tombstones are gone; one of them only ever talks to the other at first.
    world.isolate(2);
    world.isolate(3);
    world.run(seconds(10));
    (0..50).for_each(|key| world.delete(0, SHARED, key));
    world.run(seconds(30));
    (0..2).for_each(|n| world.sites[n].store.forget_tombstones(SHARED));
    world.heal(0, 2);
    world.heal(2, 3);
    world.run(seconds(300));
    world.assert_converged(SHARED, &[0, 1, 2, 3]);
}

#[test]
fn an_explicit_comparison_finds_nothing_among_equals_in_one_round() {
    let mut world = three();
    (0..5000).for_each(|key| world.put(0, SHARED, key));
    world.run(seconds(60));
    world.reports.clear();
    let before = world.sent_bytes();
    world.input(1, Input::Reconcile { bucket: SHARED, with: site_id(2) });
    world.run(seconds(5));
    let expected = Report::Reconciled { bucket: SHARED, with: site_id(2), dropped: 0, told: 0, rounds: 1 };
    assert!(world.reports.contains(&(1, expected)), "{:?}", world.reports);
    let bytes = world.sent_bytes() - before;
    println!("5,000 equal records compare in {bytes} bytes");
    assert!(bytes < 2_000, "{bytes}");
}

#[test]
fn an_explicit_comparison_goes_both_ways() {
    let mut world = three();
    (0..3000).for_each(|key| world.put(0, SHARED, key));
    world.run(seconds(60));
    // A store that dropped a tombstone on its own: the others are told.
    (0..10).for_each(|key| world.delete(0, SHARED, key));
    world.run(seconds(30));
    world.sites[1].store.forget_tombstones(SHARED);
    world.reports.clear();
    world.input(1, Input::Reconcile { bucket: SHARED, with: site_id(2) });
    world.run(seconds(30));
    let told = world.reports.iter().find_map(|(_, report)| match report {
        Report::Reconciled { told, rounds, .. } => Some((*told, *rounds)),
        _ => None,
    });
    println!("10 differences among 3,000: {told:?} (told, rounds)");
    assert!(matches!(told, Some((10, rounds)) if rounds <= 5), "{told:?}");
    assert_eq!(world.sites[2].store.held(SHARED).live.values().filter(|record| record.tombstone).count(), 0);
    world.assert_converged(SHARED, &[0, 1, 2]);
}

/// Records that are written meanwhile were killed by nothing that is doubted: what was compared stays compared.
#[test]
fn a_doubt_of_all_members_settles_while_writes_go_on() {
    let mut world = three();
    (0..50).for_each(|key| world.put(0, SHARED, key));
    world.run(seconds(30));
    let doubt = world.sites[0].store.held(SHARED).vector.clone();
    for n in 0..3 {
        world.sites[n].store.held(SHARED).doubt = doubt.clone();
        world.restart(n);
    }
    for key in 100..340 {
        world.put(key as usize % 3, SHARED, key);
        world.run(millis(500));
    }
    for n in 0..3 {
        assert!(world.sites[n].store.held(SHARED).doubt.is_empty(), "site {n} doubts for ever");
    }
    world.run(seconds(30));
    world.assert_converged(SHARED, &[0, 1, 2]);
}

/// The source of a doubt burns with what nobody else has of it: what was deleted meanwhile is found to be dead by whoever
/// has seen the tombstones, and the doubt ends.
#[test]
fn a_doubt_settles_though_its_source_burned_with_what_only_it_had() {
    let mut world = three();
    (0..100).for_each(|key| world.put(0, SHARED, key));
    world.run(seconds(30));
    world.isolate(2);
    world.run(seconds(10));
    (0..50).for_each(|key| world.delete(0, SHARED, key));
    world.run(seconds(30));
    (0..2).for_each(|n| world.sites[n].store.forget_tombstones(SHARED));
    world.cut(0, 1);
    world.run(seconds(1));
    for key in 0..400 {
        world.write(0, SHARED, 1000 + key, false, bytes::Bytes::from(vec![7; 2048]));
    }
    let last = world.sites[0].store.held(SHARED).vector.clone();
    world.rate = Some(200_000);
    world.heal(0, 2);
    let is_on_its_way = |world: &mut World| {
        let held = world.sites[2].store.held(SHARED);
        !held.doubt.is_empty() && !held.vector.includes(&last)
    };
    for _ in 0..60_000 {
        world.run(millis(1));
        if is_on_its_way(&mut world) {
            break;
        }
    }
    assert!(is_on_its_way(&mut world), "in doubt, and not caught up");
    world.stop(0);
    world.rate = None;
    world.heal(1, 2);
    world.run(seconds(900));
    assert_eq!(world.sites[1].store.visible(SHARED), world.sites[2].store.visible(SHARED));
    for n in [1, 2] {
        assert!(world.sites[n].store.held(SHARED).doubt.is_empty(), "site {n} is still in doubt");
    }
}

/// What is written goes on to be fed: a site that has seen all that another doubts is not put in doubt by it.
#[test]
fn doubt_does_not_spread_to_who_has_seen_all_of_it() {
    let mut world = three();
    (0..100).for_each(|key| world.put(0, SHARED, key));
    world.run(seconds(30));
    world.isolate(2);
    world.run(seconds(10));
    (0..50).for_each(|key| world.delete(0, SHARED, key));
    world.run(seconds(30));
    (0..2).for_each(|n| world.sites[n].store.forget_tombstones(SHARED));
    world.heal(0, 2);
    for _ in 0..1000 {
        world.run(millis(1));
        if !world.sites[2].store.held(SHARED).doubt.is_empty() {
            break;
        }
    }
    assert!(!world.sites[2].store.held(SHARED).doubt.is_empty());
    world.cut(0, 2);
    world.put(2, SHARED, 9_999);
    world.heal(1, 2);
    for _ in 0..10_000 {
        world.run(millis(1));
        assert!(world.sites[1].store.held(SHARED).doubt.is_empty(), "it doubts what it has seen");
    }
    world.heal_all();
    world.run(seconds(60));
    world.assert_converged(SHARED, &[0, 1, 2]);
}
