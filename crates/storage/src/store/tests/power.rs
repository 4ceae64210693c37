//! The power goes at every operation of a run.

use std::sync::Arc;

use super::model::Client;
use super::world::{self, open};
use crate::Settings;
use crate::disk::Disk;
use crate::disk::faulty::FaultyDisk;
use crate::store::Store;

const ACTS: usize = 90;

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

/// Cuts the power at every `step`-th operation, checks, works on, cuts again while recovering.
fn sweep(seed: u64, step: u64, settings: impl Fn() -> Settings) -> bool {
    let whole = FaultyDisk::default();
    let total = live(&mut Client::new(seed), &whole, &settings(), None);
    assert!(total > 100, "the run is too short to mean something: {total} operations");
    for cut in (0..total).step_by(step as usize) {
        let settings = settings();
        let (mut client, mut disk) = (Client::new(seed), FaultyDisk::default());
        live(&mut client, &disk, &settings, Some(cut));
        // The power goes again at once or a little later, also while recovering.
        for again in 0..3 {
            disk = disk.power_cut(cut * 31 + again);
            if again < 2 {
                live(&mut client, &disk, &settings, Some(3 + (cut + again * 7) % 40));
            }
        }
        if let Some(kept) = settings.kept.as_ref().filter(|_| (cut / step).is_multiple_of(3)) {
            // The index goes as well; what was built anew meets the next power cut before it was flushed.
            kept.lose();
            live(&mut client, &disk, &settings, Some(60));
            disk = disk.power_cut(cut * 31 + 5);
        }
        let (store, recovery) = open(&disk, &settings);
        assert_eq!(recovery.damage, vec![], "seed {seed}, cut at {cut}");
        client.check(&store);
        for _ in 0..20 {
            client.act(&store);
        }
        client.pump(&store);
        drop(store);
        let (store, _) = open(&disk, &settings);
        client.check(&store);
    }
    // Whether it was cut while the journal got a base, too.
    whole.list(".").is_ok_and(|names| names.iter().any(|name| name == "base"))
}

#[test]
fn every_operation_with_a_memory_index() {
    let based = (0..3).filter(|&seed| sweep(seed, 3, world::small)).count();
    assert!(based > 0, "no run got as far as a base of the journal");
}

#[test]
fn every_operation_with_an_index_that_lags() {
    let based = (10..14).filter(|&seed| sweep(seed, 3, world::kept)).count();
    assert!(based > 0, "no run got as far as a base of the journal");
}

#[test]
#[ignore = "minutes: every operation of many runs"]
fn wide() {
    for seed in 100..140 {
        sweep(seed, 1, world::small);
        sweep(seed, 1, world::kept);
    }
}
