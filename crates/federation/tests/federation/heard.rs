//! Who has seen what: learned in turn by who waits for it, and in days of rounds of checks else.

use skerry_base::BucketId;
use skerry_federation::{Input, limits};

use crate::world::{SYSTEM, World, bucket, millis, seconds, site_id};

/// Members that a site does not know to have all that it has.
fn unheard(world: &mut World, n: usize, id: BucketId) -> usize {
    let mine = world.sites[n].store.held(id).vector.clone();
    world.sites[n].machine.seen(id).iter().filter(|(_, seen)| !seen.includes(&mine)).count()
}

/// Somebody waits at a site until all have what it has.
fn wait(world: &mut World, n: usize, id: BucketId) {
    let upto = world.sites[n].store.held(id).vector.clone();
    world.input(n, Input::Hear { bucket: id, upto });
}

const SITES: usize = 40;

/// Forty members of two buckets, in which something was deleted; all have it, and each has heard of few that they do.
fn deleted() -> World {
    let mut world = World::new(SITES, 5, millis(30));
    world.start();
    for n in 0..SITES {
        [1, 2].into_iter().for_each(|id| world.join(n, bucket(id)));
    }
    // Until nobody is told news any more by whom it greeted.
    world.run(seconds(1500));
    for id in [1, 2] {
        world.put(3, bucket(id), 1);
        world.delete(3, bucket(id), 1);
    }
    world.run(seconds(1200));
    world
}

fn sent(world: &World) -> u64 {
    world.sites.iter().map(|site| site.sent).sum()
}

#[test]
fn who_waits_for_all_members_hears_them_in_turn_and_nobody_twice() {
    let mut world = deleted();
    let before = [1, 2].map(|id| unheard(&mut world, 7, bucket(id)));
    assert!(before.iter().all(|unheard| *unheard > 20), "{before:?}");
    let begun = sent(&world);
    world.run(seconds(900));
    let rest = sent(&world) - begun;
    for _ in 0..15 {
        [1, 2].into_iter().for_each(|id| wait(&mut world, 7, bucket(id)));
        world.run(seconds(60));
    }
    assert_eq!([1, 2].map(|id| unheard(&mut world, 7, bucket(id))), [0, 0], "{before:?} before");
    let beyond = (sent(&world) - begun - rest).saturating_sub(rest);
    println!("{before:?} of {SITES} unheard; both buckets heard in {beyond} messages beyond {rest}");
    // One each way for both buckets together, and what checks differ by.
    assert!(beyond < 2 * SITES as u64 + 20, "{beyond}");
}

/// All ask at once: two that ask each other say it once, and it ends.
#[test]
fn all_that_wait_at_once_hear_all_and_are_silent_then() {
    let mut world = deleted();
    (0..SITES).for_each(|n| wait(&mut world, n, bucket(1)));
    world.run(seconds(1000));
    let open: Vec<usize> = (0..SITES).map(|n| unheard(&mut world, n, bucket(1))).collect();
    assert_eq!(open, [0; SITES]);
    let begun = sent(&world);
    world.run(seconds(300));
    let rest = sent(&world) - begun;
    (0..SITES).for_each(|n| wait(&mut world, n, bucket(1)));
    world.run(limits::HEAR_AGAIN);
    let begun = sent(&world);
    world.run(seconds(300));
    // SWIM draws whom it asks.
    assert!(sent(&world) - begun <= rest + rest / 10, "{} after {rest}", sent(&world) - begun);
}

/// Who is away is asked once it is back, and who is behind says so.
#[test]
fn who_is_away_or_behind_is_not_taken_for_one_that_has_all() {
    let mut world = deleted();
    world.isolate(9);
    world.put(3, bucket(1), 2);
    world.run(seconds(60));
    wait(&mut world, 7, bucket(1));
    world.run(seconds(1200));
    assert_eq!(unheard(&mut world, 7, bucket(1)), 1);
    let said = |world: &World| {
        world.sites[7].machine.seen(bucket(1)).into_iter().find(|(site, _)| *site == site_id(9))
    };
    let mine = world.sites[7].store.held(bucket(1)).vector.clone();
    assert!(said(&world).is_some_and(|(_, seen)| !seen.includes(&mine)));
    world.heal_all();
    world.run(limits::HEAR_AGAIN);
    wait(&mut world, 7, bucket(1));
    world.run(seconds(60));
    assert_eq!(unheard(&mut world, 7, bucket(1)), 0);
}

/// A site among 160 that starts anew each day: how many it has not heard an hour later and so on, while it waits and while it does not.
#[test]
#[ignore = "a day of 160 sites, twice: minutes of an optimised build"]
fn who_starts_daily_hears_all_within_the_day() {
    for waits in [true, false] {
        let mut world = World::new(160, 7, millis(30));
        world.start();
        world.run(seconds(600));
        world.put(3, SYSTEM, 1);
        world.run(seconds(60));
        world.restart(9);
        world.run(seconds(60));
        println!("waits {waits}: {} of 159 unheard after a minute", unheard(&mut world, 9, SYSTEM));
        for hour in 1..24 {
            for _ in 0..60 {
                if waits && unheard(&mut world, 9, SYSTEM) > 0 {
                    wait(&mut world, 9, SYSTEM);
                }
                world.run(seconds(60));
            }
            println!("waits {waits}: {} unheard after {hour} h", unheard(&mut world, 9, SYSTEM));
        }
        assert_eq!(waits, unheard(&mut world, 9, SYSTEM) == 0);
    }
}
