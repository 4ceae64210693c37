//! Own records that are on their way to the other nodes of a site: no feed brings them until they are there.

use skerry_federation::Input;

use crate::world::{World, bucket, millis, seconds};

fn held(world: &World, n: usize) -> usize {
    world.sites[n].store.visible(bucket(1)).len()
}

fn withhold(world: &mut World, from: Option<u64>) {
    world.sites[0].store.held(bucket(1)).withheld = from;
    if from.is_none() {
        world.input(0, Input::Durable { bucket: bucket(1) });
    }
}

#[test]
fn what_is_withheld_goes_with_no_news_and_later_with_them() {
    for plain in [vec![], vec![0, 1]] {
        let mut world = World::pair_of(&plain);
        world.put(0, bucket(1), 1);
        world.run(seconds(1));
        withhold(&mut world, Some(2));
        (2..5).for_each(|key| world.put(0, bucket(1), key));
        world.run(seconds(30));
        assert_eq!(held(&world, 1), 1, "{plain:?}: neither it nor what comes behind it");
        // The oldest is there: up to the next that is not.
        withhold(&mut world, Some(4));
        world.input(0, Input::Durable { bucket: bucket(1) });
        world.run(seconds(1));
        assert_eq!(held(&world, 1), 3, "{plain:?}");
        withhold(&mut world, None);
        world.run(seconds(1));
        world.assert_converged(bucket(1), &[0, 1]);
    }
}

/// More than a batch of them lies behind what is told; others' records lie behind those, whatever the order of their origins.
#[test]
fn what_is_withheld_keeps_no_pull_from_its_end() {
    let mut world = World::new(3, 7, millis(20));
    world.start();
    (0..3).for_each(|n| world.join(n, bucket(1)));
    world.run(seconds(5));
    world.isolate(2);
    (0..2_000).for_each(|key| world.put(0, bucket(1), key));
    (2_000..2_100).for_each(|key| world.put(1, bucket(1), key));
    withhold(&mut world, Some(21));
    world.run(seconds(60));
    assert_eq!((held(&world, 0), held(&world, 1)), (2_100, 120));
    world.cut(1, 2);
    for (from, to) in [(0, 2), (2, 0)] {
        world.heal(from, to);
    }
    world.run(seconds(120));
    assert_eq!(held(&world, 2), 120, "all that site 0 tells");
    let failed: u64 = world.sites.iter().map(|site| site.machine.stats().refused).sum();
    assert_eq!(failed, 0, "nobody is taken for one that breaks the rules");
    withhold(&mut world, None);
    world.run(seconds(60));
    world.assert_converged(bucket(1), &[0, 2]);
}

/// Who was away pulls all that there is, and is told digests of it: the end of that is what is told.
#[test]
fn no_pull_and_no_check_brings_it() {
    let mut world = World::pair();
    world.silence(0, 1);
    world.silence(1, 0);
    (0..40).for_each(|key| world.put(0, bucket(1), key));
    withhold(&mut world, Some(21));
    world.heal(0, 1);
    world.run(seconds(300));
    assert_eq!(held(&world, 1), 20);
    world.put(1, bucket(1), 99);
    world.run(seconds(300));
    assert_eq!((held(&world, 0), held(&world, 1)), (41, 21), "what others write is not held up");
    withhold(&mut world, None);
    world.run(seconds(10));
    world.assert_converged(bucket(1), &[0, 1]);
}
