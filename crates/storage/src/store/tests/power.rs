//! The power goes at every operation of a run, or at many drawn moments of many runs.

use std::sync::Arc;

use super::model::Client;
use super::world::{self, open};
use crate::Settings;
use crate::disk::Disk;
use crate::disk::faulty::{Chance, FaultyDisk};
use crate::store::Store;

const ACTS: usize = 90;

/// What a run is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// An index in memory, rebuilt at each open.
    Rebuilt,
    /// An index that is as it was at its last checkpoint.
    Lagging,
    /// The same on a file system without holes, so that what lives is moved.
    Moving,
    /// Answers before the sync.
    Lazy,
    /// The same with an index that is rebuilt.
    LazyRebuilt,
    /// Batches are fed beside it, in steps.
    Fed,
}

const KINDS: [Kind; 6] =
    [Kind::Rebuilt, Kind::Lagging, Kind::Moving, Kind::Lazy, Kind::LazyRebuilt, Kind::Fed];

impl Kind {
    const fn is_lazy(self) -> bool {
        matches!(self, Self::Lazy | Self::LazyRebuilt)
    }

    fn settings(self) -> Settings {
        let settings = match self {
            Self::Rebuilt | Self::LazyRebuilt => world::small(),
            _ => world::kept(),
        };
        // Small, so that segments are emptied within a short run.
        let payload_segment_bytes = if self == Self::Moving { 128 << 10 } else { 256 << 10 };
        // Little, so that most batches are cut into several groups.
        let group_behind = if self == Self::Fed { 3 } else { settings.group_behind };
        Settings { lazy: self.is_lazy(), payload_segment_bytes, group_behind, ..settings }
    }

    fn client(self, seed: u64) -> Client {
        match self {
            Self::Lazy | Self::LazyRebuilt => Client::lazy(seed),
            Self::Fed => Client::fed(seed),
            _ => Client::new(seed),
        }
    }

    fn disk(self) -> FaultyDisk {
        if self == Self::Moving { FaultyDisk::without_holes() } else { FaultyDisk::default() }
    }
}

/// Works until the power goes (or the acts end); returns how many operations there were.
fn live(client: &mut Client, disk: &FaultyDisk, settings: &Settings, cut_at: Option<u64>) -> u64 {
    disk.cut_at(cut_at);
    let reducer = Arc::new(world::Keys);
    if let Ok((store, _)) = Store::open(Arc::new(disk.clone()), reducer, settings.clone()) {
        client.check(&store);
        for _ in 0..ACTS {
            client.act(&store);
            if disk.is_cut() {
                break;
            }
        }
        client.pump(&store);
    }
    disk.ops()
}

/// A run that is not cut: its operations, and the disk at its end.
fn whole(kind: Kind, seed: u64) -> (u64, FaultyDisk) {
    let disk = kind.disk();
    let total = live(&mut kind.client(seed), &disk, &kind.settings(), None);
    assert!(total > 100, "the run is too short to mean something: {total} operations");
    (total, disk)
}

/// Said when the run fails.
struct Told(String);

impl Drop for Told {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("in the run {}", self.0);
        }
    }
}

/// A run that is cut at one operation, checked, cut again while it recovers, and goes on. Answers how often the power
/// went and how many writes were acknowledged.
fn cut_short(kind: Kind, seed: u64, cut: u64, loses_index: bool) -> (u64, usize) {
    let _told = Told(format!("{kind:?}, seed {seed}, cut at {cut}"));
    let settings = kind.settings();
    let (mut client, mut disk) = (kind.client(seed), kind.disk());
    live(&mut client, &disk, &settings, Some(cut));
    if cut % 4 < 2 {
        // The process was killed there, and another goes on with what it left before the power goes.
        disk = disk.killed();
        live(&mut client, &disk, &settings, Some(30 + cut % 100));
    }
    let mut cuts = 0;
    // The power goes again at once or a little later, also while recovering.
    for again in 0..3 {
        disk = disk.power_cut(cut * 31 + again);
        cuts += 1;
        if again < 2 {
            live(&mut client, &disk, &settings, Some(3 + (cut + again * 7) % 40));
        }
    }
    if let Some(kept) = settings.kept.as_ref().filter(|_| loses_index) {
        // The index goes as well; what was built anew meets the next power cut before it was flushed.
        kept.lose();
        live(&mut client, &disk, &settings, Some(60));
        disk = disk.power_cut(cut * 31 + 5);
        cuts += 1;
    }
    let (store, recovery) = open(&disk, &settings);
    assert_eq!(recovery.damage, vec![], "{kind:?}, seed {seed}, cut at {cut}");
    client.check(&store);
    for _ in 0..20 {
        client.act(&store);
    }
    client.pump(&store);
    drop(store);
    let (store, _) = open(&disk, &settings);
    client.check(&store);
    (cuts, client.acknowledged)
}

/// Cuts the power at every `step`-th operation.
fn sweep(kind: Kind, seed: u64, step: u64) -> bool {
    let (total, disk) = whole(kind, seed);
    for cut in (0..total).step_by(step as usize) {
        cut_short(kind, seed, cut, (cut / step).is_multiple_of(3));
    }
    // Whether it was cut while the journal got a base, too.
    disk.list(".").is_ok_and(|names| names.iter().any(|name| name == "base"))
}

#[test]
fn every_operation_with_a_memory_index() {
    let based = (0..3).filter(|&seed| sweep(Kind::Rebuilt, seed, 3)).count();
    assert!(based > 0, "no run got as far as a base of the journal");
}

#[test]
fn every_operation_with_an_index_that_lags() {
    let based = (10..14).filter(|&seed| sweep(Kind::Lagging, seed, 3)).count();
    assert!(based > 0, "no run got as far as a base of the journal");
}

#[test]
fn every_operation_while_the_living_move() {
    let moved = |seed| {
        let (disk, settings) = (Kind::Moving.disk(), Kind::Moving.settings());
        let (store, _) = open(&disk, &settings);
        let mut client = Client::new(seed);
        (0..ACTS).for_each(|_| client.act(&store));
        store.usage().moved
    };
    assert!((30..33).any(|seed| moved(seed) > 0), "no run got as far as moving something");
    for seed in 30..33 {
        sweep(Kind::Moving, seed, 4);
    }
}

#[test]
fn every_operation_with_answers_before_the_sync() {
    for seed in 40..42 {
        sweep(Kind::Lazy, seed, 4);
        sweep(Kind::LazyRebuilt, seed, 4);
    }
}

#[test]
fn every_operation_while_batches_are_fed() {
    for seed in 50..53 {
        sweep(Kind::Fed, seed, 4);
    }
}

/// Answers before the sync do get lost when the power goes: else the runs above would prove nothing.
#[test]
fn a_power_cut_loses_what_no_sync_has_covered_and_a_killed_process_nothing() {
    let settings = Settings { lazy: true, ..world::kept() };
    let (mut lost, mut kept) = (0, 0);
    for seed in 0..20 {
        let disk = FaultyDisk::default();
        let (store, _) = open(&disk, &settings);
        let put = |key: &str, number, lazy: bool| {
            let entry = world::small_put(key, number, &world::body(number, 3000));
            world::commit(&store, vec![if lazy { entry.lazy() } else { entry }]).unwrap();
        };
        put("before", 1, true);
        put("synced", 2, false);
        assert_eq!(store.usage().unsynced, 0, "a sync covers all before it");
        put("after", 3, true);
        assert!(store.usage().unsynced > 3000);
        let cut = disk.power_cut(seed);
        drop(store);
        // As after kill -9: what the system had is there.
        let (store, recovery) = open(&disk, &settings);
        assert_eq!((world::keys(&store.view()).len(), recovery.damage), (3, vec![]));
        drop(store);
        settings.kept.as_ref().unwrap().lose();
        let (store, recovery) = open(&cut, &settings);
        let keys = world::keys(&store.view());
        assert!(keys.contains_key(b"before".as_slice()) && keys.contains_key(b"synced".as_slice()));
        assert_eq!(recovery.damage, vec![]);
        *(if keys.len() == 3 { &mut kept } else { &mut lost }) += 1;
        drop(store);
        settings.kept.as_ref().unwrap().lose();
    }
    assert!(lost > 0 && kept > 0, "{lost} lost, {kept} kept");
}

/// What is done now and then makes it last, payload and index included.
#[test]
fn a_step_of_the_collector_syncs_what_was_answered_before_it() {
    let settings = Settings { lazy: true, ..world::kept() };
    for seed in 0..10 {
        let disk = FaultyDisk::default();
        let (store, _) = open(&disk, &settings);
        let bytes = world::body(5, 90_000);
        let domain = world::DOMAIN;
        let kind = skerry_base::ChunkKind::Leaf;
        let pin = store.put_chunk(domain, crate::Class::Payload, kind, &bytes).unwrap();
        world::commit(&store, vec![world::say_put("a", 1, pin.id()).lazy()]).unwrap();
        assert!(store.usage().unsynced > 90_000);
        store.collect(skerry_base::WallTime(1)).unwrap();
        assert_eq!(store.usage().unsynced, 0);
        let cut = disk.power_cut(seed);
        settings.kept.as_ref().unwrap().lose();
        let (store, _) = open(&cut, &settings);
        assert_eq!(store.read_chunk(domain, skerry_base::ChunkId::of(&bytes), 0..u32::MAX).unwrap(), bytes);
        settings.kept.as_ref().unwrap().lose();
    }
}

/// `SKERRY_POWER_CUTS=10000 cargo test --release -p skerry-storage --lib -- --ignored --nocapture power::many_drawn_cuts`
#[test]
#[ignore = "minutes: ten thousand power cuts"]
#[expect(clippy::disallowed_methods, reason = "how much is tried is said on the command line of the tests")]
fn many_drawn_cuts() {
    let asked = std::env::var("SKERRY_POWER_CUTS").ok();
    let wanted: u64 = asked.map_or(10_000, |text| text.parse().unwrap());
    let (mut cuts, mut runs, mut acknowledged) = (0, 0, 0);
    for seed in 1000.. {
        for kind in KINDS {
            let (total, _) = whole(kind, seed);
            let mut chance = Chance(seed);
            for turn in 0..8 {
                let (cut, written) = cut_short(kind, seed, chance.below(total), turn % 3 == 0);
                (cuts, acknowledged) = (cuts + cut, acknowledged + written);
            }
            runs += 1;
        }
        if cuts >= wanted {
            break;
        }
    }
    println!(
        "{cuts} power cuts over {runs} random runs of {} kinds, {acknowledged} writes that were acknowledged and found: \
         0 lost, 0 came back, 0 wrong bytes served, 0 reported damaged",
        KINDS.len()
    );
}

/// An extent of which the index had never heard but by the note that lets go of it, beside a body of the same bytes in the journal that
/// went on to count; and the index was lost.
#[test]
fn a_body_that_counts_outlives_an_extent_of_the_same_bytes() {
    cut_short(Kind::Lagging, 1002, 143, true);
}

/// What a tree lists was torn with it, and came back with the third index of that disk.
#[test]
fn a_torn_leaf_does_not_outlive_the_tree_that_lists_it() {
    cut_short(Kind::Moving, 1028, 221, true);
}

#[test]
#[ignore = "minutes: every operation of many runs"]
fn wide() {
    for seed in 100..140 {
        for kind in KINDS {
            sweep(kind, seed, 1);
        }
    }
}
