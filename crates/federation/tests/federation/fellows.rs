//! The nodes of one site: none of them hears of what another has written before it has the body.

use std::collections::BTreeSet;

use bytes::Bytes;
use skerry_base::{Dot, Vector, limits};
use skerry_federation::message::{Batch, Message, Pull};
use skerry_federation::{FeedItem, Input, Output, Report};

use crate::world::{World, bucket, millis, seconds, site_id};

const LONG: usize = limits::JOURNAL_BODY_BYTES;

fn body(len: usize) -> Bytes {
    vec![7; len].into()
}

/// Nodes 0 to 2 of one site, a millisecond apart, and a site elsewhere; all follow a bucket.
fn world(seed: u64) -> World {
    let mut world = World::new(4, seed, millis(1));
    (0..3).for_each(|node| world.set_rtt(node, 3, millis(40)));
    world.fellows = BTreeSet::from([0, 1, 2]);
    world.start();
    (0..4).for_each(|site| world.join(site, bucket(1)));
    world.run(seconds(2));
    world
}

/// Versions that a node knows of another one, and of which nobody but the writer has the body.
fn bare(world: &World, written: &[(usize, Dot)]) -> Vec<(usize, Dot)> {
    let lies = |node: usize, dot: &Dot| world.sites[node].store.bodies.contains_key(dot);
    let is_known = |node: usize, dot: &Dot| {
        let held = world.sites[node].store.buckets.get(&bucket(1));
        held.is_some_and(|held| held.live.contains_key(dot))
    };
    let is_bare = |(writer, dot): &&(usize, Dot)| {
        let others = || (0..3).filter(|node| node != writer);
        others().any(|node| is_known(node, dot)) && !others().any(|node| lies(node, dot))
    };
    written.iter().filter(is_bare).copied().collect()
}

/// Whatever is cut off and whenever: if the writer were lost in any of these moments, who knows of the version can read it. Nobody
/// is asked to hold anything here, so feeds alone see to it. The site elsewhere, which has no bodies, comes later: a version that
/// only it had heard of from a node that the others do not reach comes from there without one.
#[test]
fn who_hears_of_a_version_of_another_node_has_its_body() {
    for seed in 0..12 {
        let mut world = world(seed);
        world.isolate(3);
        let mut written = Vec::new();
        for turn in 0..150 {
            let (node, key) = (world.draw(3), world.draw(40) as u32);
            let len = [0, 200, 257, 300, 1000][world.draw(5)];
            match world.draw(12) {
                0 => world.isolate(node),
                1 => [(0, 1), (0, 2), (1, 2)].into_iter().for_each(|(a, b)| world.heal(a, b)),
                2 => world.restart(node),
                _ => written.push((node, world.write_body(node, bucket(1), key, body(len)))),
            }
            world.run(millis([0, 1, 3, 30, 200][turn % 5]));
            assert_eq!(bare(&world, &written), [], "seed {seed}, turn {turn}");
        }
        world.heal_all();
        world.run(seconds(120));
        world.assert_converged(bucket(1), &[0, 1, 2, 3]);
        let all = world.sites[0].store.visible(bucket(1));
        for (node, site) in world.sites.iter().enumerate() {
            let lens = all.iter().map(|dot| site.store.bodies.get(dot).map_or(0, Bytes::len));
            let longest = lens.max().unwrap();
            assert!(node == 3 || longest > limits::FEED_BODY_BYTES, "seed {seed}");
            assert!(node < 3 || longest <= limits::FEED_BODY_BYTES, "bodies went to another site");
        }
    }
}

/// Messages are as long as they were, whatever goes along.
#[test]
fn bodies_count_among_the_bytes_of_a_batch() {
    let mut world = world(1);
    world.isolate(0);
    let written: Vec<(usize, Dot)> =
        (0..400).map(|key| (0, world.write_body(0, bucket(1), key, body(LONG)))).collect();
    world.heal_all();
    world.run(seconds(20));
    for node in [1, 2] {
        assert!(written.iter().all(|(_, dot)| world.sites[node].store.bodies.contains_key(dot)));
    }
    let longest = world.longest;
    assert!(longest <= limits::FEED_BATCH_BYTES + 2 * LONG, "{longest}");
    let twice = 2 * 400 * LONG as u64;
    assert!(world.sites[0].sent_bytes < twice + twice / 10, "once to each node, and to nobody else");
}

/// News are told at once, and what may go with them is read for each listener.
#[test]
fn a_body_is_read_for_the_answer_that_it_goes_along_with_and_for_nothing_else() {
    let mut world = world(4);
    world.isolate(3);
    for key in 0..20 {
        world.write_body(0, bucket(1), key, body([300, LONG][key as usize % 2]));
        world.run(seconds(1));
    }
    let given = world.sites[0].store.long_read.get();
    assert_eq!(given, 2 * 20, "each once for each other node");
    let fresh = |world: &World| world.sites[1].machine.stats().fresh_in;
    assert_eq!(fresh(&world), 0, "told as news");
    let short = world.write_body(0, bucket(1), 99, body(200));
    world.run(seconds(1));
    assert!(world.sites[1].store.bodies.contains_key(&short));
    assert_eq!(fresh(&world), 1, "with the news of it");
}

/// Asks node 0 as somebody who marks his question, or does not; what came along.
fn came(world: &mut World, from: usize, marks: u8) -> usize {
    let id = bucket(1);
    let pull =
        |ticket| Pull { ticket, bucket: id, seen: Vector::new(), max_bytes: 1 << 20, batches: 1 | marks };
    let ticket = u64::from(marks) << 8 | from as u64;
    let message = Message::Pull(pull(ticket));
    let now = world.now;
    let crate::world::Site { machine, store, .. } = &mut world.sites[0];
    let mut out = Vec::new();
    machine.handle(Input::Received { from: site_id(from), message }, now, &*store, &mut out);
    let items = out.into_iter().filter_map(|output| match output {
        Output::Send { message: Message::Batch(batch), .. } if batch.ticket == ticket => Some(batch.items),
        _ => None,
    });
    let lens = items.flatten().flat_map(|item| item.bodies).map(|body| body.len());
    lens.sum()
}

/// A node of a release before does not say that it takes them, and another site may say so in vain.
#[test]
fn who_does_not_ask_for_bodies_or_is_of_another_site_gets_short_ones_only() {
    let mut world = world(2);
    world.write_body(0, bucket(1), 1, body(LONG));
    world.write_body(0, bucket(1), 2, body(200));
    for (from, marks, bytes) in
        [(1, Pull::WHOLE, LONG + 200), (1, 0, 200), (1, Pull::AHEAD, 200), (3, Pull::WHOLE, 200)]
    {
        assert_eq!(came(&mut world, from, marks), bytes, "{from} {marks}");
    }
}

/// What was not asked for is refused: also in the answer of a site elsewhere.
#[test]
fn long_bodies_of_another_site_are_refused() {
    let mut world = world(3);
    world.write_body(3, bucket(1), 1, body(LONG));
    let origin = world.sites[3].store.origin;
    let dot = Dot { origin, seq: 1 };
    let record: Bytes = postcard::to_stdvec(&world.history[&(bucket(1), dot)]).unwrap().into();
    let batch = |ticket| Batch {
        ticket,
        bucket: bucket(1),
        source: origin,
        index: 0,
        last: true,
        items: vec![FeedItem { dot, record: Bytes::clone(&record), bodies: vec![body(LONG)] }],
        upto: Vector::from_iter([(origin, 1)]),
        end: true,
        vector: Vector::from_iter([(origin, 1)]),
        horizon: Vector::new(),
        doubt: Vector::new(),
    };
    let now = world.now;
    let crate::world::Site { machine, store, .. } = &mut world.sites[0];
    let mut out = Vec::new();
    let news = Message::News { bucket: bucket(1), vector: Vector::from_iter([(origin, 1)]) };
    machine.handle(Input::Received { from: site_id(3), message: news }, now, &*store, &mut out);
    let asked = out.drain(..).find_map(|output| match output {
        Output::Send { message: Message::Pull(pull), .. } => Some(pull),
        _ => None,
    });
    let asked = asked.unwrap();
    assert_eq!(asked.batches & Pull::WHOLE, 0);
    let message = Message::Batch(batch(asked.ticket));
    let read = Message::decode(&message.encode());
    machine.handle(Input::Received { from: site_id(3), message: read.unwrap() }, now, &*store, &mut out);
    let is_refused = |output: &Output| matches!(output, Output::Report(Report::Refused { reason, .. }) if reason.contains("too long"));
    assert!(out.iter().any(is_refused), "{out:?}");
    assert!(!out.iter().any(|output| matches!(output, Output::Apply(_))));
    // Nor can it be said where nobody asked.
    let pushed = Message::Batch(batch(Batch::FRESH));
    assert!(Message::decode(&pushed.encode()).is_err());
}
