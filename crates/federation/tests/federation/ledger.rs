//! The share of a link that a pull took comes back, whatever ended it: an answer, a refusal, silence, the link, the source that was
//! expelled or left, the bucket that is followed no more. A share that is kept for ever would make each later pull smaller.

use std::collections::BTreeSet;

use bytes::Bytes;
use skerry_federation::{Input, Pulls, SiteEntry};

use crate::world::{SYSTEM, Weather, World, bucket, millis, seconds, site_id};

const SITES: usize = 5;
const BUCKETS: u8 = 12;

/// What ended pulls in all seeds: so that a rare one is not counted as seen.
#[derive(Debug, Default)]
struct Ends {
    /// While pulls were on their way to that site.
    cuts: u64,
    expelled: u64,
    left: u64,
    restarted: u64,
    failed: u64,
    waited: u64,
}

fn on_the_way(world: &World, n: usize, source: usize) -> Pulls {
    let [ledger, buckets] = world.sites[n].machine.pulls(site_id(source));
    assert_eq!(ledger, buckets, "site {n} of pulls from {source}");
    ledger
}

fn all(world: &World) -> Pulls {
    let pairs = (0..SITES).flat_map(|n| (0..SITES).map(move |source| (n, source)));
    pairs.map(|(n, source)| on_the_way(world, n, source)).fold(Pulls::default(), |sum, pulls| Pulls {
        count: sum.count + pulls.count,
        bytes: sum.bytes + pulls.bytes,
        waiting: sum.waiting + pulls.waiting,
    })
}

/// Pulls on their way between these two.
fn between(world: &World, a: usize, b: usize) -> u64 {
    (on_the_way(world, a, b).count + on_the_way(world, b, a).count) as u64
}

fn roster(world: &mut World, out: &BTreeSet<usize>) {
    for n in 0..SITES {
        let belong = (0..SITES).filter(|other| *other == n || !out.contains(other));
        let entries = belong.map(|other| SiteEntry { site: site_id(other), pays: false }).collect();
        world.input(n, Input::Roster(entries));
    }
}

/// Something happens.
fn strike(world: &mut World, out: &mut BTreeSet<usize>, ends: &mut Ends) {
    let (a, b) = (world.draw(SITES), world.draw(SITES));
    let id = bucket(world.draw(usize::from(BUCKETS)) as u8);
    match world.draw(20) {
        0..8 => {
            for _ in 0..20 {
                let key = world.draw(500) as u32;
                world.write(a, id, key, false, Bytes::from(vec![7; 4000]));
            }
        }
        8..10 if a != b => {
            ends.cuts += between(world, a, b);
            world.cut(a, b);
        }
        10 if a != b => world.silence(a, b),
        11..14 if a != b => world.heal(a, b),
        14 => {
            ends.restarted += all(world).count as u64;
            world.restart(a);
        }
        15 => {
            let others = (0..SITES).filter(|n| *n != a && !out.contains(&a));
            ends.expelled += others.map(|n| on_the_way(world, n, a).count as u64).sum::<u64>();
            if !out.remove(&a) {
                out.insert(a);
            }
            roster(world, out);
        }
        16 => {
            ends.left += (0..SITES).map(|n| on_the_way(world, a, n).count as u64).sum::<u64>();
            world.leave(a, id);
        }
        17..19 => world.join(a, id),
        _ => {
            let spent = BTreeSet::from([site_id(b)]);
            world.input(a, Input::Spent(if a == b { BTreeSet::new() } else { spent }));
        }
    }
}

#[test]
fn no_share_of_a_link_is_kept_by_a_pull_that_is_over() {
    let mut ends = Ends::default();
    for seed in 0..4 {
        let mut world = World::new(SITES, seed, millis(60));
        world.weather = if seed % 2 == 0 { Weather::CALM } else { Weather::STORM };
        world.rate = Some(200_000);
        world.start();
        for n in 0..SITES {
            (0..BUCKETS).for_each(|id| world.join(n, bucket(id)));
        }
        let mut out = BTreeSet::new();
        for _ in 0..150 {
            strike(&mut world, &mut out, &mut ends);
            ends.waited += all(&world).waiting as u64;
            let pause = millis(world.draw(1500) as u64);
            world.run(pause);
            all(&world);
        }
        roster(&mut world, &BTreeSet::new());
        (0..SITES).for_each(|n| world.input(n, Input::Spent(BTreeSet::new())));
        world.heal_all();
        ends.failed += world.sites.iter().map(|site| site.machine.stats().pulls_failed).sum::<u64>();
        world.run(seconds(900));
        assert_eq!(all(&world), Pulls::default(), "seed {seed}");
        world.assert_converged(SYSTEM, &[0, 1, 2, 3, 4]);
    }
    println!("{ends:?}");
    let Ends { cuts, expelled, left, restarted, failed, waited } = ends;
    assert!(
        [cuts, expelled, left, restarted, failed, waited].iter().all(|seen| *seen > 0),
        "seen too little"
    );
}
