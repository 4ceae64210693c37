//! Catching up uses the link, however far.

use std::collections::BTreeSet;

use bytes::Bytes;
use skerry_base::{Instant, NodeId, Origin, Vector};
use skerry_federation::message::{Batch, Pull, Refusal};
use skerry_federation::{Input, Message, Output, limits};

use crate::world::{World, bucket, millis, seconds, site_id};

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

/// A pull of site 1 that needs several batches.
fn pull(ticket: u64, batches: u8) -> Input {
    let (seen, max_bytes) = (Vector::new(), limits::BATCH_BYTES_MIN);
    let message = Message::Pull(Pull { ticket, bucket: bucket(1), seen, max_bytes, batches });
    Input::Received { from: site_id(1), message }
}

/// A site with more than one answer holds, and one that says nothing of its own.
fn asked() -> World {
    let mut world = World::new(2, 1, millis(100));
    for key in 0..500 {
        world.write(0, bucket(1), key, false, Bytes::from(vec![7; 500]));
    }
    world.join(0, bucket(1));
    world.start();
    world.run(seconds(2));
    world
}

/// What site 0 says to this; and when it goes on, if that is at once.
fn hear(world: &mut World, now: Instant, input: Input) -> (Vec<Message>, Option<Instant>) {
    let (site, mut out) = (&mut world.sites[0], Vec::new());
    site.machine.handle(input, now, &site.store, &mut out);
    let next = site.machine.next_wake().filter(|at| at.since(now) <= limits::SERVE_PAUSE);
    let said = |output| match output {
        Output::Send { message, .. } => Some(message),
        _ => None,
    };
    (out.into_iter().filter_map(said).collect(), next)
}

fn batches(said: Vec<Message>) -> Vec<Batch> {
    let batch = |message| match message {
        Message::Batch(batch) => Some(batch),
        _ => None,
    };
    said.into_iter().filter_map(batch).collect()
}

/// Ticket and index of each batch.
fn marks(said: Vec<Message>) -> Vec<(u64, u8)> {
    batches(said).iter().map(|batch| (batch.ticket, batch.index)).collect()
}

#[test]
fn a_long_answer_goes_batch_by_batch_and_whoever_asks_meanwhile_is_heard() {
    let mut world = asked();
    let mut now = world.now;
    let (given, mut next) = hear(&mut world, now, pull(1, 4));
    let mut all = marks(given);
    assert_eq!(all, [(1, 0)], "one batch, and no more before it was sent");
    while let Some(at) = next {
        now = at;
        let (given, then) = hear(&mut world, now, Input::Wake);
        let given = marks(given);
        assert!(given.len() <= 1, "{given:?}");
        all.extend(given);
        next = then;
    }
    assert_eq!(all, [(1, 0), (1, 1), (1, 2), (1, 3)], "all that was asked for, in order");
    // Who asks anew has given up what is left of the answer before; who is gone is given nothing.
    hear(&mut world, now, pull(2, 4));
    let (given, next) = hear(&mut world, now, pull(3, 4));
    assert_eq!(marks(given), [(3, 0)]);
    let now = next.unwrap();
    assert_eq!(marks(hear(&mut world, now, Input::Wake).0), [(3, 1)]);
    let (given, next) = hear(&mut world, now, Input::LinkDown(site_id(1)));
    assert!(batches(given).is_empty() && next.is_none(), "{next:?}");
}

#[test]
fn whoever_waits_for_the_rest_of_an_answer_hears_that_the_bucket_was_left() {
    let mut world = asked();
    let now = world.now;
    let (given, next) = hear(&mut world, now, pull(1, 4));
    assert_eq!((marks(given), next.is_some()), (vec![(1, 0)], true));
    let (said, next) = hear(&mut world, now, Input::Leave { bucket: bucket(1) });
    let refused = |message: &Message| {
        matches!(message, Message::PullRefused { ticket: 1, reason: Refusal::NotMember, .. })
    };
    assert_eq!(said.iter().filter(|message| refused(message)).count(), 1);
    assert!(next.is_none(), "{next:?}");
}

#[test]
fn an_answer_goes_on_over_what_is_written_between_its_batches() {
    let mut world = asked();
    let (mut now, mut all, mut key) = (world.now, Vec::new(), 0);
    let (given, mut next) = hear(&mut world, now, pull(1, 60));
    all.extend(batches(given));
    while let Some(at) = next {
        // One that was given, one that is still to come, and one that is new.
        for (key, tombstone) in [(key, false), (450 - key, true), (1000 + key, false)] {
            let (node, incarnation) = (NodeId(site_id(0).0), world.sites[0].life);
            let what = (key, tombstone, Bytes::from_static(b"value"));
            let (dot, record) = world.sites[0].store.write(bucket(1), Origin { node, incarnation }, what);
            world.history.insert((bucket(1), dot), record);
        }
        (now, key) = (at, key + 1);
        let (given, then) = hear(&mut world, now, Input::Wake);
        all.extend(batches(given));
        next = then;
    }
    assert!(all.len() > 4, "{}", all.len());
    let (mut upto, mut given) = (Vector::new(), BTreeSet::new());
    for (index, batch) in all.iter().enumerate() {
        assert_eq!((usize::from(batch.index), batch.last), (index, index + 1 == all.len()));
        assert!(batch.items.iter().all(|item| !upto.covers(item.dot)), "twice, or out of order");
        upto.merge(&batch.upto);
        given.extend(batch.items.iter().map(|item| item.dot));
    }
    let lost: Vec<_> = world
        .expected(bucket(1))
        .into_iter()
        .filter(|dot| upto.covers(*dot) && !given.contains(dot))
        .collect();
    assert!(lost.is_empty(), "covered, alive and not given: {lost:?}");
}

/// A site that begins to follow many buckets, over a link that is faster than its store.
#[test]
fn what_waits_for_the_store_is_bounded_over_all_buckets() {
    let waiting = |buckets: u8| {
        let mut world = World::new(2, 1, millis(10));
        (world.rate, world.commit) = (Some(125_000_000), seconds(8));
        let payload = Bytes::from(vec![7; 64 << 10]);
        for id in 1..=buckets {
            for key in 0..480 {
                world.write(0, bucket(id), key, false, payload.clone());
            }
            (0..2).for_each(|n| world.join(n, bucket(id)));
        }
        world.start();
        let mut most = 0;
        for _ in 0..1600 {
            world.run(millis(50));
            most = most.max(world.uncommitted());
        }
        most >> 20
    };
    let most = [1, 4, 12].map(waiting);
    assert!(most[2] <= 40, "{most:?} MiB, of 1, 4 and 12 buckets");
}
