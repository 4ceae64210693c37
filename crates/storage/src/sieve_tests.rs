//! The policy alone: what it keeps of made-up and of random workloads, against what simpler ones keep.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use proptest::prelude::*;

use super::*;
use crate::disk::faulty::Chance;

/// A cache of so many copies of one grain each, in a log that only grows.
struct Cache {
    sieve: Sieve,
    most: usize,
    tail: u64,
    at: BTreeMap<u64, At>,
    log: BTreeMap<At, u64>,
    pinned: BTreeSet<u64>,
    passes: usize,
}

const PER_SEGMENT: u64 = 16;

impl Cache {
    fn new(most: usize) -> Self {
        Self {
            sieve: Sieve::new(most as u64 * GRAIN),
            most,
            tail: 0,
            at: BTreeMap::new(),
            log: BTreeMap::new(),
            pinned: BTreeSet::new(),
            passes: 0,
        }
    }

    /// Whether it was there; brings it if not.
    fn read(&mut self, object: u64) -> bool {
        let hit = self.at.contains_key(&object);
        if !hit {
            let at = ((self.tail / PER_SEGMENT) as u32, self.tail % PER_SEGMENT * GRAIN);
            self.tail += 1;
            self.at.insert(object, at);
            self.log.insert(at, object);
            while self.at.len() > self.most && self.evict(at) {}
        }
        if let Some(&at) = self.at.get(&object) {
            self.sieve.touch(at);
        }
        hit
    }

    /// As the store does it: from the hand on, around, until one goes; what has just come is not met.
    fn evict(&mut self, newest: At) -> bool {
        for _ in 0..4 * self.log.len() + 1 {
            self.passes += 1;
            let from = self.sieve.hand().min(newest);
            let next = self.log.range(from..newest).next().or_else(|| self.log.range(..newest).next());
            let Some((&at, &object)) = next else { return false };
            self.sieve.set_hand((at.0, at.1 + 1));
            if !self.pinned.contains(&object) && self.sieve.pass(at) {
                self.log.remove(&at);
                self.at.remove(&object);
                return true;
            }
        }
        false
    }
}

/// Hits of the least recently used going first.
fn hits_of_lru(reads: &[u64], most: usize) -> usize {
    let mut order: VecDeque<u64> = VecDeque::new();
    let mut hits = 0;
    for read in reads {
        if let Some(found) = order.iter().position(|object| object == read) {
            order.remove(found);
            hits += 1;
        }
        order.push_back(*read);
        if order.len() > most {
            order.pop_front();
        }
    }
    hits
}

/// Reads of objects whose popularity falls as one over their rank.
fn skewed(seed: u64, objects: u64, count: usize) -> Vec<u64> {
    let weights: Vec<u64> = (1..=objects).map(|rank| 1_000_000 / rank).collect();
    let sum: u64 = weights.iter().sum();
    let mut chance = Chance(seed);
    let one = |mut at: u64| {
        weights.iter().position(|weight| {
            let found = at < *weight;
            at = at.saturating_sub(*weight);
            found
        })
    };
    (0..count).map(|_| one(chance.below(sum)).unwrap_or_default() as u64).collect()
}

fn hits(reads: &[u64], most: usize) -> usize {
    let mut cache = Cache::new(most);
    reads.iter().filter(|read| cache.read(**read)).count()
}

#[test]
fn what_is_read_often_survives_a_scan_that_would_wash_out_an_lru() {
    let mut reads = Vec::new();
    for round in 0..50 {
        // Twenty that are read twice a round, and two hundred that are read once.
        reads.extend((0..20).chain(0..20));
        reads.extend(1000 + round * 200..1200 + round * 200);
    }
    let (ours, lru) = (hits(&reads, 60), hits_of_lru(&reads, 60));
    assert_eq!(lru, 20 * 50, "the scan is longer than the cache: only the second of each two hits");
    assert!(ours > 20 * 95, "{ours} of {}", 20 * 99);
}

#[test]
fn skewed_reads_hit_at_least_as_often_as_in_an_lru() {
    let (mut ours, mut lru) = (0, 0);
    for seed in 1..6 {
        let reads = skewed(seed, 2000, 20_000);
        ours += hits(&reads, 100);
        lru += hits_of_lru(&reads, 100);
    }
    assert!(ours > lru, "{ours} against {lru}");
}

#[test]
fn what_was_loved_long_ago_goes() {
    let mut cache = Cache::new(50);
    for _ in 0..10 {
        (0..50).for_each(|object| _ = cache.read(object));
    }
    for _ in 0..10 {
        (100..150).for_each(|object| _ = cache.read(object));
    }
    let old = cache.at.keys().filter(|object| **object < 50).count();
    assert!(old < 10, "{old} of the old are left");
}

#[test]
fn the_memory_is_bounded_however_large_the_cache() {
    for cap in [0, 1 << 20, 4 << 30, 1 << 40, 1 << 50] {
        let mut sieve = Sieve::new(cap);
        // The last place of each of a thousand segments that make up the cap.
        let segment = cap / 1000;
        (0..1000).for_each(|number| _ = sieve.touch((number, segment)));
        let bytes: usize = sieve.counts.values().map(Vec::len).sum();
        assert!(bytes <= (512 << 10), "{bytes} bytes for {cap}");
    }
}

#[test]
fn a_file_of_another_grain_is_let_go() {
    let mut sieve = Sieve::new(4 << 30);
    sieve.touch((3, GRAIN));
    assert_eq!(Sieve::resume(sieve.clone(), 4 << 30), sieve);
    assert_eq!(Sieve::resume(sieve, 1 << 40), Sieve::new(1 << 40));
}

proptest! {
    /// Whatever is read: the cap holds, a pinned one stays, the hand never goes round more than four times.
    #[test]
    fn the_cap_holds_and_what_is_pinned_stays(
        reads in prop::collection::vec((0_u64..60, 0_u8..12), 1..400),
        most in 1_usize..30,
    ) {
        let mut cache = Cache::new(most);
        for (object, act) in reads {
            let pins = cache.pinned.len();
            if act == 0 && pins < most / 2 {
                cache.read(object);
                cache.pinned.insert(object);
            }
            let (before, had) = (cache.passes, cache.log.len());
            cache.read(object);
            prop_assert!(cache.at.len() <= most, "{} of {}", cache.at.len(), most);
            prop_assert!(cache.passes - before <= 4 * (had + 1) + 1);
            for pinned in &cache.pinned {
                prop_assert!(cache.at.contains_key(pinned), "{pinned} was evicted");
            }
            prop_assert_eq!(cache.at.len(), cache.log.len());
        }
    }

    /// Counters of neighbours do not touch each other, and none passes its most.
    #[test]
    fn counters_are_independent(touches in prop::collection::vec((0_u32..3, 0_u64..40), 0..300)) {
        let mut sieve = Sieve::new(0);
        let mut counts: BTreeMap<At, u8> = BTreeMap::new();
        for (segment, index) in touches {
            let at = (segment, index * GRAIN);
            let count = counts.entry(at).or_default();
            prop_assert_eq!(sieve.touch(at), *count >= 1);
            *count = (*count + 1).min(MOST);
        }
        for segment in 0..3 {
            let heat: u64 = counts.iter().filter(|(at, _)| at.0 == segment).map(|(_, count)| u64::from(*count)).sum();
            prop_assert_eq!(sieve.heat(segment), heat);
            for index in 0..40 {
                let at = (segment, index * GRAIN);
                prop_assert_eq!(sieve.count(at), counts.get(&at).copied().unwrap_or(0));
            }
        }
    }
}
