//! Records that go with the news of them: there after half a round trip, or pulled as ever.

use skerry_federation::Report;

use crate::world::{World, bucket, millis, seconds};

fn held(world: &World, n: usize) -> usize {
    world.sites[n].store.visible(bucket(1)).len()
}

#[test]
fn a_small_record_is_there_after_half_a_round_trip() {
    let mut world = World::pair();
    world.reports.clear();
    world.put(0, bucket(1), 1);
    world.run(millis(15));
    assert_eq!(held(&world, 1), 1, "10 ms for half a round trip, 4 for the commit");
    world.put(0, bucket(1), 2);
    world.run(seconds(1));
    world.check(&["0>1 fresh 1 items upto 1 end", "0>1 fresh 1 items upto 2 end"]);
    assert_eq!(world.sites[1].machine.stats().fresh_in, 2);
    let told = |(site, report): &&(usize, Report)| *site == 1 && matches!(report, Report::CaughtUp { .. });
    assert_eq!(world.reports.iter().filter(told).count(), 2, "who waits for the end of a source is told");
    world.assert_converged(bucket(1), &[0, 1]);
}

#[test]
fn who_does_not_want_them_gets_news_and_pulls() {
    for plain in [0, 1] {
        let mut world = World::pair_of(&[plain]);
        world.put(0, bucket(1), 1);
        world.run(millis(15));
        assert_eq!(held(&world, 1), 0);
        world.run(millis(20));
        assert_eq!(held(&world, 1), 1, "after one and a half");
        let fresh = |line: &&String| line.contains("fresh");
        assert_eq!(world.said.iter().find(fresh), None);
    }
}

#[test]
fn what_does_not_follow_on_what_is_here_is_news() {
    let mut world = World::pair();
    world.silence(0, 1);
    world.put(0, bucket(1), 1);
    world.run(seconds(1));
    world.heal(0, 1);
    world.said.clear();
    world.put(0, bucket(1), 2);
    world.run(seconds(1));
    world.check(&["0>1 fresh 1 items upto 2 end", "1>0 pull seen 0", "0>1 batch 2 items upto 2 end"]);
    world.assert_converged(bucket(1), &[0, 1]);
}

/// A record that died before it was told leaves a gap that only a feed may pass over.
#[test]
fn a_gap_is_left_to_the_feed() {
    let mut world = World::pair();
    world.put(0, bucket(1), 1);
    world.put(0, bucket(1), 1);
    world.put(0, bucket(1), 1);
    world.run(seconds(1));
    world.check(&[
        "0>1 fresh 1 items upto 1 end",
        "0>1 news 3",
        "1>0 pull seen 1",
        "0>1 batch 1 items upto 3 end",
    ]);
    world.assert_converged(bucket(1), &[0, 1]);
}

#[test]
fn many_at_once_are_news() {
    let mut world = World::pair();
    (0..40).for_each(|key| world.put(0, bucket(1), key));
    world.run(seconds(1));
    world.check(&[
        "0>1 fresh 1 items upto 1 end",
        "0>1 news 40",
        "1>0 pull seen 1",
        "0>1 batch 39 items upto 40 end",
    ]);
}

/// What waits for the store counts: two in a row follow each other before the first is durable.
#[test]
fn one_follows_another_that_is_on_its_way_to_the_store() {
    let mut world = World::pair();
    world.commit = millis(100);
    world.put(0, bucket(1), 1);
    world.run(millis(21));
    world.put(0, bucket(1), 2);
    world.run(seconds(1));
    world.check(&["0>1 fresh 1 items upto 1 end", "0>1 fresh 1 items upto 2 end"]);
    world.assert_converged(bucket(1), &[0, 1]);
}

#[test]
fn a_store_that_refuses_them_is_asked_again() {
    let mut world = World::pair();
    world.sites[1].store.refuse_next = true;
    world.put(0, bucket(1), 1);
    world.run(seconds(3));
    assert_eq!(world.sites[1].machine.stats().applies_refused, 1);
    world.assert_converged(bucket(1), &[0, 1]);
}

#[test]
fn a_tombstone_that_is_gone_and_doubt_leave_it_to_the_feed() {
    let mut world = World::pair();
    world.put(0, bucket(1), 1);
    world.run(seconds(1));
    world.sites[0]
        .store
        .held(bucket(1))
        .doubt
        .add(skerry_base::Dot { seq: 1, ..skerry_base::Dot::default() });
    world.said.clear();
    world.put(0, bucket(1), 2);
    world.run(millis(9));
    world.check(&["0>1 news 2"]);
    let mut world = World::pair();
    world.put(0, bucket(1), 1);
    world.run(seconds(1));
    let origin = world.sites[0].store.origin;
    world.sites[0].store.held(bucket(1)).horizon.advance(origin, 2);
    world.said.clear();
    world.put(0, bucket(1), 2);
    world.run(millis(9));
    world.check(&["0>1 news 2"]);
}

#[test]
fn sites_in_a_storm_agree_whoever_takes_them() {
    for seed in 0..20 {
        let mut world = World::new(4, seed, millis(60));
        world.plain.insert(3);
        world.weather = crate::world::Weather::STORM;
        world.start();
        (0..4).for_each(|n| world.join(n, bucket(1)));
        world.run(seconds(5));
        for key in 0..60 {
            let n = world.draw(4);
            if world.draw(4) == 0 {
                world.delete(n, bucket(1), key % 7)
            } else {
                world.put(n, bucket(1), key % 7)
            }
            world.run(millis(17));
        }
        world.weather = crate::world::Weather::CALM;
        world.run(seconds(700));
        world.assert_converged(bucket(1), &[0, 1, 2, 3]);
        let taken: u64 = world.sites[..3].iter().map(|site| site.machine.stats().fresh_in).sum();
        assert!(taken > 0, "seed {seed}");
    }
}
