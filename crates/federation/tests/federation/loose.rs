//! Records that their origin has lost: held by a reader, beyond every vector.

use bytes::Bytes;
use skerry_base::Dot;
use skerry_federation::Fingerprint;
use skerry_federation::message::{Gather, Gathered, Message};
use skerry_federation::{FeedItem, Input, Loose, Report, Span};

use crate::memory::Memory;
use crate::world::{World, bucket, millis, seconds, site_id};

/// Sites that follow the bucket and are caught up.
fn calm(count: usize) -> World {
    let mut world = World::new(count, 7, millis(30));
    world.start();
    (0..count).for_each(|n| world.join(n, bucket(1)));
    world.run(seconds(30));
    world
}

impl World {
    /// A read of one object: a record comes without its feed.
    fn read(&mut self, from: usize, to: usize, dot: Dot) {
        let record = self.sites[from].store.held(bucket(1)).live[&dot].clone();
        self.sites[to].store.held(bucket(1)).store(dot, record);
    }

    /// The disk is gone, the site begins anew.
    fn burn(&mut self, n: usize) {
        self.sites[n].store = Memory::default();
        self.restart(n);
    }

    fn talk(&self, of: &str) -> Vec<String> {
        self.said.iter().filter(|line| line.contains(of)).cloned().collect()
    }
}

/// Site 0 writes what only site 1 reads, and burns.
fn orphans(count: usize, records: u32, payload: usize) -> World {
    let mut world = calm(count);
    world.isolate(0);
    world.run(seconds(20));
    let payload = Bytes::from(vec![7; payload]);
    let dots: Vec<Dot> =
        (0..records).map(|key| world.write(0, bucket(1), key, false, payload.clone())).collect();
    // The first is never read: what lies before the others stays unknown.
    dots.iter().skip(1).for_each(|dot| world.read(0, 1, *dot));
    world.history.remove(&(bucket(1), dots[0]));
    world.burn(0);
    world.said.clear();
    world
}

/// What killed something may be what lies beyond the vector, and who is told of the dead cannot see whether it has that.
#[test]
fn who_holds_anything_beyond_its_vector_tells_nobody_what_is_dead() {
    let mut world = calm(3);
    (0..5).for_each(|key| world.put(0, bucket(1), key));
    world.run(seconds(30));
    (0..5).for_each(|key| world.delete(0, bucket(1), key));
    world.run(seconds(30));
    // A store that dropped tombstones on its own.
    world.sites[1].store.forget_tombstones(bucket(1));
    world.isolate(0);
    world.run(seconds(20));
    let dot = world.write(0, bucket(1), 9, false, Bytes::from_static(b"read once"));
    world.read(0, 1, dot);
    let tombstones = |world: &mut World| {
        world.sites[2].store.held(bucket(1)).live.values().filter(|record| record.tombstone).count()
    };
    let compares = |world: &mut World| {
        world.reports.clear();
        world.input(1, Input::Reconcile { bucket: bucket(1), with: site_id(2) });
        world.run(seconds(30));
        let is_end = |(_, report): &(usize, Report)| matches!(report, Report::Reconciled { told: 5, .. });
        assert!(world.reports.iter().any(is_end), "{:?}", world.reports);
    };
    compares(&mut world);
    assert_eq!(tombstones(&mut world), 5);
    world.heal_all();
    world.run(seconds(60));
    compares(&mut world);
    assert_eq!(tombstones(&mut world), 0, "it has come with its feed");
    world.assert_converged(bucket(1), &[0, 1, 2]);
}

#[test]
fn what_a_reader_has_left_reaches_all() {
    let mut world = orphans(5, 3, 5);
    world.heal_all();
    world.run(seconds(900));
    world.assert_converged(bucket(1), &[0, 1, 2, 3, 4]);
    assert_eq!(world.sites[4].store.visible(bucket(1)).len(), 2);
    for site in &mut world.sites {
        let held = site.store.held(bucket(1));
        assert!(held.live.keys().all(|dot| !held.vector.covers(*dot)), "a vector covers what may be missing");
    }
}

#[test]
fn a_loose_record_that_is_refused_keeps_back_no_other() {
    let mut world = calm(3);
    world.isolate(0);
    world.run(seconds(20));
    let mut dots = Vec::new();
    for key in [1, 3] {
        world.put(0, bucket(1), key);
        let dot = world.write(0, bucket(1), key + 1, false, Bytes::from_static(b"read"));
        world.read(0, 1, dot);
        dots.push(dot);
        world.restart(0);
    }
    world.burn(0);
    world.sites[2].store.unwanted.insert(dots[0]);
    world.heal_all();
    world.run(seconds(900));
    assert_eq!(world.sites[0].store.visible(bucket(1)).len(), 2);
    assert_eq!(world.sites[2].store.visible(bucket(1)), [dots[1]].into());
}

#[test]
fn who_joins_later_gets_it_too() {
    let mut world = orphans(3, 3, 5);
    world.leave(2, bucket(1));
    world.heal_all();
    world.run(seconds(300));
    world.join(2, bucket(1));
    world.run(seconds(600));
    world.assert_converged(bucket(1), &[0, 1, 2]);
}

#[test]
fn equal_loose_records_cost_nothing_at_rest() {
    let mut world = orphans(3, 500, 5);
    world.heal_all();
    world.run(seconds(1800));
    world.assert_converged(bucket(1), &[0, 1, 2]);
    world.said.clear();
    world.run(seconds(3600));
    assert_eq!(world.talk("loose"), [""; 0]);
    assert_eq!(world.talk("gather"), [""; 0]);
}

#[test]
fn many_cross_each_link_once() {
    let (records, payload) = (20_000, 300);
    let mut world = orphans(3, records, payload);
    world.heal_all();
    let before = world.sent_bytes();
    world.run(seconds(1200));
    world.assert_converged(bucket(1), &[0, 1, 2]);
    let bytes = world.sent_bytes() - before;
    let once = u64::from(records) * (payload as u64 + 60);
    println!("{records} loose records to two sites: {bytes} bytes, {:.2} copies", bytes as f64 / once as f64);
    assert!(bytes < once * 5 / 2, "{bytes}");
}

#[test]
fn what_a_feed_will_bring_is_not_told() {
    let mut world = calm(3);
    world.cut(0, 2);
    world.run(seconds(20));
    // Site 1 reads ahead of its feed, whose source is there: nobody needs to hear of it.
    world.silence(0, 1);
    world.put(0, bucket(1), 1);
    let dot = world.write(0, bucket(1), 2, false, Bytes::new());
    world.read(0, 1, dot);
    world.said.clear();
    world.heal_all();
    world.run(seconds(600));
    assert_eq!(world.talk("gather"), [""; 0]);
    world.assert_converged(bucket(1), &[0, 1, 2]);
}

#[test]
fn a_successor_wins_over_a_loose_record_wherever_they_meet() {
    let mut world = orphans(4, 4, 5);
    // A reader writes over one of them and deletes another.
    world.put(1, bucket(1), 1);
    world.delete(1, bucket(1), 2);
    world.heal_all();
    world.run(seconds(900));
    world.assert_converged(bucket(1), &[0, 1, 2, 3]);
    assert_eq!(world.sites[3].store.visible(bucket(1)).len(), 2);
}

#[test]
fn storms_end_in_agreement_over_loose_records() {
    for seed in 0..6 {
        let mut world = orphans(4, 40, 20);
        world.weather = crate::world::Weather::STORM;
        world.heal_all();
        for _ in 0..30 {
            let (a, b) = (world.draw(4), world.draw(4));
            match world.draw(6) + seed % 2 {
                0 if a != b => world.cut(a, b),
                1 | 2 if a != b => world.heal(a, b),
                3 if a != 1 => world.restart(a),
                4 => world.put(a, bucket(1), b as u32 + 2),
                _ => {}
            }
            world.run(seconds(7));
        }
        world.weather = crate::world::Weather::CALM;
        world.heal_all();
        world.run(seconds(1800));
        world.assert_converged(bucket(1), &[0, 1, 2, 3]);
    }
}

#[test]
fn what_was_not_asked_for_is_not_taken() {
    let mut world = orphans(3, 3, 5);
    world.heal_all();
    world.run(seconds(600));
    let (id, before) = (bucket(1), world.sites[2].store.visible(bucket(1)));
    let strange = *before.first().unwrap();
    let item = |seq| FeedItem { dot: Dot { seq, ..strange }, record: Bytes::new(), bodies: Vec::new() };
    let span = Span { origin: strange.origin, first: 5, last: 9 };
    let loose = Loose { origin: strange.origin, covered: 0, print: Fingerprint::default() };
    let gather = Gather { ticket: 1, bucket: id, span, have: vec![0, 0], max_bytes: 1 };
    let messages = [
        Message::Gathered(Gathered { ticket: 1, bucket: id, items: vec![item(77)], upto: 99 }),
        Message::Gather(gather.clone()),
        Message::Gather(Gather { have: vec![9], ..gather }),
        Message::Loose { bucket: bucket(9), answer: true, loose: vec![loose] },
    ];
    world.reports.clear();
    for message in messages {
        world.input(2, Input::Received { from: site_id(1), message });
    }
    world.run(seconds(30));
    assert_eq!(world.sites[2].store.visible(id), before);
    let refused = |(site, report): &&(usize, Report)| *site == 2 && matches!(report, Report::Refused { .. });
    assert_eq!(world.reports.iter().filter(refused).count(), 2, "{:?}", world.reports);
}
