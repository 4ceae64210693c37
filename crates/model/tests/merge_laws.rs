//! The laws of merging: the same set of records gives the same tables in any order, with repeats, and what the
//! tables say is what the definition says over all records at once.

#![expect(clippy::unwrap_used, reason = "tests")]

#[path = "laws/oracle.rs"]
mod oracle;
#[path = "laws/world.rs"]
mod world;

use std::collections::BTreeMap;

use proptest::prelude::*;
use skerry_base::{Dot, Hlc, NodeId, Origin, SiteId, Vector};
use skerry_model::record::{HomeDecision, Kept, Scope};
use skerry_model::write::Ask;
use skerry_model::{Entry, Object, Record, Statement, Versioning};
use world::{BUCKET, KEYS, Replica, Shuffle, World};

/// One thing that happens: what, where, with what.
type Deed = (u8, u8, u8, u8);

fn act(world: &mut World, (what, site, key, choice): Deed) {
    let count = world.sites.len();
    let (at, other) = (usize::from(site) % count, usize::from(choice) % count);
    // The first site is the home of the bucket, and decides a third of what is written there.
    world.decides = at == 0 && (key ^ choice) % 3 == 0;
    let key = KEYS[usize::from(key) % KEYS.len()];
    match what % 24 {
        0..=5 => drop(world.put(at, key, choice % 7)),
        6 | 7 => drop(world.write(at, key, Ask::Delete)),
        8 | 9 => drop(world.aim(at, key, choice, false)),
        10 => drop(world.aim(at, key, choice, true)),
        11 | 12 => world.version(at, choice),
        13..=15 => drop(world.pull(other, at, 300)),
        16 => world.pull_all(other, at),
        17 | 18 => world.read(other, at, key),
        19 => world.restart(at),
        20 => world.back_up(at),
        21 if choice < 40 => world.burn(at),
        21 => world.restore(at),
        22 if choice < 40 => world.clone_disk(other, at),
        22 => world.list(at),
        _ => world.wait(choice % 20),
    }
}

fn deeds(most: usize) -> impl Strategy<Value = Vec<Deed>> {
    proptest::collection::vec(any::<Deed>(), 1..most)
}

/// Delivers the records in an order of the seed's, each up to three times.
fn deliver(records: &BTreeMap<Dot, Record>, seed: u64) -> Replica {
    let mut shuffle = Shuffle(seed);
    let mut order: Vec<&Record> = Vec::new();
    for record in records.values() {
        order.extend(std::iter::repeat_n(record, 1 + shuffle.below(3)));
    }
    shuffle.order(&mut order);
    let mut replica = Replica::default();
    for record in order {
        replica.apply(&Entry::Record(Box::new(record.clone())));
    }
    replica
}

/// A record that no honest site would write: any context, any keeps, any target.
fn odd_record() -> impl Strategy<Value = Record> {
    let origin = |n: u8| Origin { node: NodeId([n; 16]), incarnation: 1 };
    let dot = (0u8..3, 1u64..5).prop_map(move |(n, seq)| Dot { origin: origin(n), seq });
    let context = proptest::collection::vec(0u64..5, 3).prop_map(move |seqs| {
        seqs.into_iter().zip(0u8..).map(|(seq, n)| (origin(n), seq)).collect::<Vector>()
    });
    let keeps = proptest::collection::vec(dot.clone(), 0..3);
    let home = (0u64..3, 0u64..3).prop_map(|(epoch, n)| (epoch > 0).then_some(HomeDecision { epoch, n }));
    let shape = (0u8..10, dot.clone(), 0u8..3, 0u64..4, home);
    (dot, context, keeps, shape).prop_map(|(dot, context, keeps, (what, target, versioning, clock, home))| {
        let object = Object { etag: format!("e{}", clock % 2), ..Object::default() };
        let statement = match what {
            0..=5 => Statement::Put(Box::new(object)),
            6 | 7 => Statement::Delete,
            8 => Statement::Erase { target },
            _ => Statement::Note { target, topic: 1, content: bytes::Bytes::new() },
        };
        let versioning =
            [Versioning::Off, Versioning::Enabled, Versioning::Suspended][usize::from(versioning)];
        let keeps = keeps.into_iter().map(|dot| Kept { dot, since: Hlc(1) }).collect();
        Record {
            bucket: BUCKET,
            dot,
            key: "k".into(),
            clock: Hlc(clock),
            context,
            versioning,
            keeps,
            scope: Scope::Node,
            home,
            placement: None,
            writer: String::new(),
            site: SiteId([0; 16]),
            statement,
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(256), failure_persistence: None, ..ProptestConfig::default() })]

    /// Histories of honest sites: any order of delivery, with repeats, of any part of what was written.
    #[test]
    fn any_order_gives_the_same_tables(deeds in deeds(60), seed in any::<u64>(), part in any::<u64>()) {
        let mut world = World::new(3);
        deeds.into_iter().for_each(|deed| act(&mut world, deed));
        let mut shuffle = Shuffle(part);
        let mut records = world.written.clone();
        if part % 2 == 0 {
            records.retain(|_, _| shuffle.below(4) > 0);
        }
        let first = deliver(&records, seed);
        first.check(&records);
        for other in 1..4 {
            prop_assert_eq!(deliver(&records, seed ^ (other << 40)).image(true), first.image(true));
        }
    }

    /// Records that contradict each other in every way: still the same everywhere, and as defined.
    #[test]
    fn any_records_give_the_same_tables(list in proptest::collection::vec(odd_record(), 1..9), seed in any::<u64>()) {
        let records: BTreeMap<Dot, Record> =
            list.into_iter().filter(|record| record.check().is_ok()).map(|record| (record.dot, record)).collect();
        let first = deliver(&records, seed);
        first.check(&records);
        for other in 1..4 {
            prop_assert_eq!(deliver(&records, seed ^ (other << 40)).image(true), first.image(true));
        }
    }

    /// What a site covers it has, or what replaced it: at any time, whatever was brought ahead of feeds, and wherever.
    #[test]
    fn tables_say_what_is_known(deeds in deeds(60)) {
        let mut world = World::new(3);
        for (what, site, key, choice) in deeds {
            // Nothing is lost and nothing is put back.
            act(&mut world, (what % 20, site, key, choice));
            for site in &world.sites {
                site.replica.check(&site.replica.known(&world.written));
            }
        }
    }

    /// Feeds bring all sites to the same tables, which are those of all records that survived.
    #[test]
    fn feeds_converge(deeds in deeds(80)) {
        let mut world = World::new(4);
        deeds.into_iter().for_each(|deed| act(&mut world, deed));
        let surviving = world.surviving();
        world.heal();
        let first = world.sites[0].replica.image(true);
        for site in &world.sites {
            site.replica.check(&surviving);
            prop_assert_eq!(site.replica.image(true), first.clone());
        }
    }

    /// Tombstones are dropped when all have seen them, sites come back from old backups: no delete comes back,
    /// and nothing else goes.
    #[test]
    fn no_delete_comes_back(deeds in deeds(80), drops in any::<u64>()) {
        let mut world = World::new(3);
        let mut shuffle = Shuffle(drops);
        for deed in deeds {
            act(&mut world, deed);
            match shuffle.below(9) {
                0 => world.heal(),
                1 | 2 => (0..1 + shuffle.below(3)).for_each(|at| world.retire(at)),
                _ => {}
            }
        }
        let surviving = world.surviving();
        world.heal();
        let first = world.sites[0].replica.image(true);
        for site in &world.sites {
            site.replica.check_objects(&surviving);
            prop_assert_eq!(site.replica.image(true), first.clone());
        }
    }
}

/// Dropping must happen, or the law above says nothing.
#[test]
fn tombstones_are_dropped_when_all_have_seen_them() {
    let mut world = World::new(3);
    world.put(0, "a", 1);
    world.heal();
    world.write(1, "a", Ask::Delete);
    world.pull_all(1, 0);
    world.retire(0);
    assert_eq!(world.dropped, 0, "site 2 has not seen it");
    world.heal();
    world.wait(1);
    (0..3).for_each(|at| world.retire(at));
    assert_eq!(world.dropped, 3);
    assert!(world.sites.iter().all(|site| site.replica.dots().is_empty()));
    assert_eq!(world.put(2, "a", 1).map(|dot| dot.seq), Some(1));
    world.heal();
    world.sites[0].replica.check_objects(&world.surviving());
}

/// A delete that the home decided goes before a put that had not seen it, also after all have seen both.
#[test]
fn what_the_home_deleted_does_not_come_back_by_a_put_that_lost() {
    let mut world = World::new(3);
    world.put(0, "a", 1);
    world.heal();
    world.put(1, "a", 2);
    world.decides = true;
    world.write(0, "a", Ask::Delete);
    // One that has everything but the put drops nothing either: the put is on its way.
    world.pull_all(0, 2);
    world.heal();
    world.wait(2);
    (0..3).for_each(|at| world.retire(at));
    world.heal();
    for site in &world.sites {
        site.replica.check(&world.written.clone());
    }
    assert_eq!(world.dropped, 0);
    // The next write has seen both, and ends both.
    world.put(2, "a", 3);
    world.heal();
    assert!(world.sites.iter().all(|site| site.replica.dots().len() <= 2));
    world.sites[0].replica.check_objects(&world.surviving());
}

/// What was read as a single object, and was deleted and forgotten at the source since, goes with the feed.
#[test]
fn a_feed_takes_what_is_dead_at_its_source() {
    let mut world = World::new(2);
    world.put(0, "a", 1);
    let kept = world.put(0, "b/c", 1).unwrap();
    world.read(0, 1, "a");
    world.read(0, 1, "b/c");
    let dots = vec![world.write(0, "a", Ask::Delete).unwrap()];
    world.sites[0].replica.apply(&Entry::Drop { bucket: BUCKET, dots });
    assert!(world.pull(0, 1, 1) || world.sites[1].replica.dots().len() == 1);
    world.pull_all(0, 1);
    assert_eq!(world.sites[1].replica.dots(), [kept].into());
}

/// That all have seen a tombstone is not enough: nobody's vector covers what it killed, so a backup would bring it
/// back.
#[test]
fn tombstones_wait_until_all_have_seen_what_they_kill() {
    let mut world = World::new(3);
    world.put(1, "a", 1);
    world.back_up(1);
    world.read(1, 0, "a");
    world.write(0, "a", Ask::Delete);
    world.pull_all(0, 1);
    world.pull_all(0, 2);
    world.wait(1);
    (0..3).for_each(|at| world.retire(at));
    world.restore(1);
    let surviving = world.surviving();
    world.heal();
    world.sites.iter().for_each(|site| site.replica.check_objects(&surviving));
    assert_eq!(world.dropped, 0);
}

/// A record that keeps what another had killed: the kill stands, whichever comes first.
#[test]
fn a_late_keep_does_not_bring_back_the_dead() {
    let dot = |n: u8| Dot { origin: Origin { node: NodeId([n; 16]), incarnation: 1 }, seq: 1 };
    let record = |n: u8, seen: &[u8], keeps: &[u8]| Record {
        bucket: BUCKET,
        dot: dot(n),
        key: "k".into(),
        clock: Hlc(n.into()),
        context: seen.iter().map(|&n| (dot(n).origin, 1)).collect(),
        versioning: Versioning::Off,
        keeps: keeps.iter().map(|&n| Kept { dot: dot(n), since: Hlc(1) }).collect(),
        scope: Scope::Node,
        home: None,
        placement: None,
        writer: String::new(),
        site: SiteId([0; 16]),
        statement: Statement::Put(Box::default()),
    };
    let list = [record(1, &[], &[]), record(2, &[1], &[]), record(3, &[1, 2], &[1])];
    let records: BTreeMap<Dot, Record> = list.iter().map(|record| (record.dot, record.clone())).collect();
    let first = deliver(&records, 0);
    for seed in 0..40 {
        let replica = deliver(&records, seed);
        replica.check(&records);
        assert_eq!(replica.image(true), first.image(true));
    }
}

/// A source that burns in the middle of a round takes along what it had yet to send. Who heard only that an older
/// version was replaced must not take that version from who still has it.
#[test]
fn a_source_that_burns_while_it_feeds_takes_nothing_older_along() {
    let mut world = World::new(3);
    world.put(0, "a", 1);
    let older = world.put(0, "b/c", 2).unwrap();
    world.pull_all(0, 2);
    world.put(0, "b/c", 3);
    assert!(world.pull(0, 1, 1), "the round goes on");
    world.burn(0);
    let surviving = world.surviving();
    world.heal();
    for site in &world.sites {
        site.replica.check(&surviving);
        assert!(site.replica.dots().contains(&older));
    }
}

/// A version that another killed from beyond the vector of who feeds is not passed over without it.
#[test]
fn a_feed_brings_what_killed_ahead_of_it() {
    let mut world = World::new(3);
    let first = world.put(0, "a", 1).unwrap();
    world.read(0, 1, "a");
    world.read(0, 2, "a");
    let second = world.put(2, "a", 2).unwrap();
    world.read(2, 0, "a");
    assert_eq!(world.sites[1].replica.dots(), [first].into());
    world.pull_all(0, 1);
    assert_eq!(world.sites[1].replica.dots(), [second].into(), "neither it nor what replaced it");
    assert!(world.sites[1].replica.vector().covers(first) && !world.sites[1].replica.vector().covers(second));
}

/// A reader has the only copy left; what an unfinished round has passed over does not stay with who reads it.
#[test]
fn a_record_that_its_origin_lost_passes_from_reader_to_reader() {
    let mut world = World::new(3);
    world.put(0, KEYS[0], 1);
    world.put(0, KEYS[1], 2);
    world.read(0, 1, KEYS[1]);
    world.burn(0);
    world.pull_all(1, 2);
    let covered = world.sites[2].replica.vector();
    world.gather(1, 2);
    world.gather(2, 0);
    for site in &world.sites {
        assert_eq!(site.replica.dots().len(), 1);
        assert_eq!(site.replica.dots(), world.sites[1].replica.dots());
    }
    assert_eq!(world.sites[2].replica.vector(), covered, "vectors leave loose records alone");
}

#[test]
fn what_a_round_has_passed_over_does_not_stay() {
    let mut world = World::new(3);
    world.put(0, KEYS[0], 1);
    world.read(0, 2, KEYS[0]);
    world.put(0, KEYS[0], 2);
    for content in 0..9 {
        world.put(0, KEYS[1 + usize::from(content) % 2], content);
    }
    world.write(0, KEYS[0], Ask::Delete);
    world.retire(0);
    let first = *world.sites[2].replica.dots().first().unwrap();
    // Half a round, then the dead record comes from somebody who read it long ago.
    assert!(world.pull(0, 1, 100));
    world.read(2, 1, KEYS[0]);
    assert!(world.sites[1].replica.dots().contains(&first));
    world.pull_all(0, 1);
    assert!(!world.sites[1].replica.dots().contains(&first));
}

/// `SKERRY_CASES` sets the number of cases for long runs.
#[expect(clippy::disallowed_methods, reason = "a test's size is set from outside")]
fn cases(usual: u32) -> u32 {
    std::env::var("SKERRY_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}
