//! Sources that give nothing: they hold up nobody but themselves.

use std::collections::BTreeSet;

use bytes::Bytes;
use skerry_base::{Dot, NodeId, Origin, Vector};
use skerry_federation::message::Pull;
use skerry_federation::{Input, Message};

use crate::world::{World, bucket, millis, seconds, site_id};

const BUCKETS: u8 = 60;

/// Three sites that follow many buckets; the second will be silent.
fn three() -> World {
    let mut world = World::new(3, 1, millis(20));
    world.plain.extend(0..3);
    (0..3).for_each(|n| world.restart(n));
    world.start();
    for n in 0..3 {
        (1..=BUCKETS).for_each(|id| world.join(n, bucket(id)));
    }
    world.run(seconds(5));
    world
}

fn has_all(world: &mut World, site: usize, buckets: std::ops::RangeInclusive<u8>) -> bool {
    buckets.into_iter().all(|id| world.sites[site].store.visible(bucket(id)).len() == 1)
}

/// The second site is linked and tells news of many buckets, but gives none of it.
fn told_and_silent(world: &mut World) {
    world.silence(1, 0);
    let life = world.sites[1].life;
    let origin = Origin { node: NodeId(site_id(1).0), incarnation: life };
    for id in 1..=BUCKETS / 2 {
        let vector = Vector::from_iter([(origin, 1)]);
        let message = Message::News { bucket: bucket(id), vector };
        world.input(0, Input::Received { from: site_id(1), message });
    }
}

#[test]
fn a_silent_source_keeps_nobody_from_pulling_from_others() {
    let mut world = three();
    told_and_silent(&mut world);
    for round in 0..20 {
        world.run(seconds(7));
        let id = BUCKETS / 2 + 1 + round;
        world.put(2, bucket(id), 1);
        world.run(seconds(1));
        assert!(has_all(&mut world, 0, id..=id), "bucket {id} waits for a silent site");
    }
}

/// What the first says does not arrive at the second, which goes on telling: until the link is dead nobody says so.
#[test]
fn who_has_it_too_is_asked_where_nothing_comes() {
    let mut world = three();
    world.silence(0, 1);
    world.put(1, bucket(1), 1);
    world.run(seconds(3));
    assert!(has_all(&mut world, 0, 1..=1));
}

/// Whoever is asked needs longer than that: nobody is given up for one that failed itself.
#[test]
fn who_is_silent_is_waited_for_where_the_other_is_silent_too() {
    let mut world = three();
    for other in [1, 2] {
        world.silence(0, other);
    }
    world.put(1, bucket(1), 1);
    world.put(2, bucket(1), 2);
    let before = world.sites[0].machine.stats().pulls;
    world.run(seconds(9));
    assert_eq!(world.sites[0].machine.stats().pulls - before, 2, "one is given up, the other is waited for");
    world.run(seconds(40));
    assert!(world.sites[0].machine.stats().pulls - before <= 6, "and then each as long as ever");
    world.heal(0, 1);
    world.heal(0, 2);
    world.run(seconds(70));
    world.assert_converged(bucket(1), &[0, 1, 2]);
}

#[test]
fn nobody_is_given_up_where_no_other_has_more() {
    let mut world = three();
    world.cut(1, 2);
    world.silence(0, 1);
    world.put(2, bucket(1), 1);
    world.run(seconds(1));
    let failed = world.sites[0].machine.stats().pulls_failed;
    world.put(1, bucket(1), 2);
    world.run(seconds(9));
    assert_eq!(world.sites[0].machine.stats().pulls_failed, failed);
    world.heal(0, 1);
    world.run(seconds(10));
    assert_eq!(world.sites[0].store.visible(bucket(1)).len(), 2);
}

#[test]
fn a_silent_source_is_asked_seldom_however_many_buckets_it_has_news_of() {
    let mut world = three();
    let before = world.sites[0].machine.stats().pulls;
    told_and_silent(&mut world);
    world.run(seconds(1200));
    let pulls = world.sites[0].machine.stats().pulls - before;
    assert!((5..40).contains(&pulls), "{pulls} pulls in twenty minutes");
}

#[test]
fn what_a_source_was_silent_of_comes_when_it_answers_again() {
    let mut world = three();
    world.silence(1, 0);
    (1..=BUCKETS).for_each(|id| world.put(1, bucket(id), 1));
    world.run(seconds(600));
    world.heal(1, 0);
    // The third has it all and was asked instead.
    assert!(has_all(&mut world, 0, 1..=BUCKETS));
    world.cut(0, 2);
    world.cut(1, 2);
    world.silence(1, 0);
    (1..=BUCKETS).for_each(|id| world.put(1, bucket(id), 2));
    let life = world.sites[1].life;
    let origin = Origin { node: NodeId(site_id(1).0), incarnation: life };
    for id in 1..=BUCKETS {
        let message = Message::News { bucket: bucket(id), vector: Vector::from_iter([(origin, 2)]) };
        world.input(0, Input::Received { from: site_id(1), message });
    }
    world.run(seconds(600));
    world.heal(1, 0);
    world.run(seconds(65));
    let came = (1..=BUCKETS).filter(|id| world.sites[0].store.visible(bucket(*id)).len() == 2).count();
    assert_eq!(came, usize::from(BUCKETS), "one pull that is answered lets all others go");
}

#[test]
fn nothing_is_given_or_asked_for_over_a_spent_link_and_who_asks_hears_so() {
    let mut world = three();
    world.cut(0, 2);
    world.cut(1, 2);
    world.input(1, Input::Spent(BTreeSet::from([site_id(0)])));
    let (asked, before) = (world.sites[1].machine.stats().pulls, world.sites[0].machine.stats().pulls);
    (1..=BUCKETS).for_each(|id| world.put(1, bucket(id), 1));
    (1..=BUCKETS).for_each(|id| world.put(0, bucket(id), 2));
    let items = world.sites[1].machine.stats().items_out;
    world.run(seconds(1200));
    assert_eq!(world.sites[1].machine.stats().items_out, items);
    assert_eq!(world.sites[1].machine.stats().pulls, asked, "what comes counts, too");
    let pulls = world.sites[0].machine.stats().pulls - before;
    assert!((5..40).contains(&pulls), "{pulls} pulls in twenty minutes");
    world.input(1, Input::Spent(BTreeSet::new()));
    world.run(seconds(65));
    for id in 1..=BUCKETS {
        world.assert_converged(bucket(id), &[0, 1]);
    }
}

/// Each question carries a vector over the link that is to be spared.
#[test]
fn who_has_nothing_left_to_spend_is_asked_once_an_hour_until_it_says_otherwise() {
    let mut world = World::new(2, 1, millis(20));
    world.metered.insert(1, seconds(3600));
    world.start();
    (0..2).for_each(|n| (1..=BUCKETS).for_each(|id| world.join(n, bucket(id))));
    world.run(seconds(60));
    world.input(1, Input::Spent(BTreeSet::from([site_id(0)])));
    (1..=BUCKETS).for_each(|id| world.put(1, bucket(id), 1));
    let before = world.sites[0].machine.stats().pulls;
    world.run(seconds(86_400));
    let pulls = world.sites[0].machine.stats().pulls - before;
    assert!((10..=60).contains(&pulls), "{pulls} pulls in a day");
    world.input(1, Input::Spent(BTreeSet::new()));
    world.run(seconds(65));
    (1..=BUCKETS).for_each(|id| world.assert_converged(bucket(id), &[0, 1]));
}

/// Many lives of many sites: what a batch says beside its records leaves them less room.
#[test]
fn a_batch_is_cut_to_what_a_message_takes_beside_its_vectors() {
    let mut world = World::new(2, 1, millis(20));
    for n in 0..45_000_u64 {
        // Before those of the writer: the batch passes them all.
        let dot = Dot { origin: Origin { node: NodeId([0; 16]), incarnation: n << 40 }, seq: 1 };
        let held = world.sites[0].store.held(bucket(1));
        held.vector.add(dot);
        held.horizon.add(dot);
    }
    for key in 0..3000 {
        world.write(0, bucket(1), key, false, Bytes::from(vec![7; 1000]));
    }
    world.start();
    world.join(0, bucket(1));
    world.run(seconds(1));
    let items = world.sites[0].machine.stats().items_out;
    let pull = Pull { ticket: 9, bucket: bucket(1), seen: Vector::new(), max_bytes: 1 << 20, batches: 1 };
    // What is longer than a message is refused by the world.
    world.input(0, Input::Received { from: site_id(1), message: Message::Pull(pull) });
    assert!(world.sites[0].machine.stats().items_out > items, "something is given");
}
