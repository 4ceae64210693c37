//! Many links: what they cost together at rest and when a site comes back, that who is silent is found as soon as among few, and
//! that what a cut kept apart comes together though most new links are passed over.

use std::collections::BTreeMap;
use std::time::Duration;

use skerry_base::{Instant, SiteId};
use skerry_federation::{Config, Federation, Input, Message, Output, Report, SiteEntry, limits, rest};

use crate::memory::Memory;
use crate::world::{SYSTEM, World, millis, seconds, site_id};

/// How long each link rests as the shell is told, and whether it is paid for.
type Rests = BTreeMap<SiteId, (Option<Duration>, bool)>;

/// One machine among many.
struct One {
    machine: Federation,
    store: Memory,
    rests: Rests,
    /// Sites of its rosters that were too many.
    left_out: Vec<usize>,
}

impl One {
    /// With so many links, all of which stand.
    fn linked(links: usize) -> Self {
        let machine = Federation::new(Config::new(site_id(0), 1, 1).with_system(SYSTEM));
        let mut one = Self { machine, store: Memory::default(), rests: Rests::new(), left_out: Vec::new() };
        one.roster(links);
        (1..=links).for_each(|n| one.input(Input::LinkUp(site_id(n))));
        one
    }

    fn roster(&mut self, others: usize) {
        self.input(Input::Roster(
            (0..=others).map(|n| SiteEntry { site: site_id(n), pays: false }).collect(),
        ));
    }

    fn input(&mut self, input: Input) {
        let mut out = Vec::new();
        self.machine.handle(input, Instant(1), &self.store, &mut out);
        for output in out {
            match output {
                Output::Rests { site, every, paid } => {
                    self.rests.insert(site, (every, paid));
                }
                Output::Report(Report::RosterCut { left_out }) => self.left_out.push(left_out),
                Output::Violation(what) => assert_eq!(what, ""),
                _ => {}
            }
        }
    }

    /// What all its links ask in a second, both directions, with what carries it.
    fn asked(&self) -> u64 {
        let span = Duration::from_secs(86_400);
        let of =
            |(every, _): &(Option<Duration>, bool)| rest::keep_alives(1, every.unwrap_or(rest::OFTEN), span);
        self.rests.values().map(of).sum::<u64>() / span.as_secs()
    }
}

#[test]
fn all_links_together_cost_no_more_than_some() {
    for (links, every) in [(60, None), (300, Some(seconds(90))), (1000, Some(seconds(280)))] {
        let one = One::linked(links);
        assert_eq!(one.rests.len(), links);
        assert!(one.rests.values().all(|rest| *rest == (every, false)), "{links}: {:?}", one.rests);
        println!("{links} links: each after {every:?}, {} B/s in both directions", one.asked());
        assert!(one.asked() <= rest::TOGETHER, "{links}: {}", one.asked());
    }
}

#[test]
fn links_rest_longer_as_sites_come_and_less_as_they_go() {
    let mut one = One::linked(140);
    let told = |one: &One| one.rests.values().map(|(every, _)| *every).collect::<Vec<_>>();
    assert_eq!(told(&one), [None; 140]);
    one.roster(300);
    assert_eq!(told(&one), [Some(seconds(90)); 140], "as all sites count, linked or not yet");
    one.roster(140);
    assert_eq!(told(&one), [None; 140]);
}

/// As many as there may be are told nothing; of more it is said how many count as none.
#[test]
fn a_roster_that_is_too_long_is_said_to_be() {
    let mut one = One::linked(limits::SITES);
    assert!(one.left_out.is_empty(), "{:?}", one.left_out);
    one.roster(limits::SITES + 3);
    assert_eq!(one.left_out, [3]);
    one.roster(limits::SITES - 1);
    assert_eq!(one.left_out, [3]);
}

#[test]
fn the_longer_of_both_reasons_counts() {
    let mut one = One::linked(300);
    let payer = site_id(7);
    one.input(Input::Speaks { site: payer, dialect: limits::DIALECT });
    for (every_secs, rests) in [(3600, (3600, true)), (50, (90, true)), (0, (90, false))] {
        one.input(Input::Received { from: payer, message: Message::Metered { every_secs } });
        assert_eq!(one.rests[&payer], (Some(seconds(rests.0)), rests.1));
    }
    assert_eq!(one.rests[&site_id(8)], (Some(seconds(90)), false));
}

/// Nothing stands in for the answers of a site whose link rests only because there are many.
#[test]
fn who_is_silent_among_many_is_dead_as_soon() {
    let mut world = World::new(160, 7, millis(30));
    (4..160).for_each(|n| world.isolate(n));
    world.start();
    world.run(seconds(60));
    assert_eq!(world.rests[&(0, 3)], Some(seconds(50)));
    assert!((1..4).all(|n| world.sites[0].machine.is_alive(site_id(n))));
    (0..3).for_each(|n| {
        world.silence(3, n);
        world.silence(n, 3);
    });
    world.run(seconds(120));
    assert!((0..3).all(|n| !world.sites[n].machine.is_alive(site_id(3))));
}

const MANY: usize = 160;

/// So many sites, all linked, that have met.
fn many() -> World {
    let mut world = World::new(MANY, 7, millis(30));
    world.start();
    world.run(seconds(120));
    world
}

/// Sites that do not count another as alive, each of these by all the others and all the others by each of them.
fn missed(world: &World, of: &[usize]) -> Vec<(usize, usize)> {
    let pairs = of.iter().flat_map(|n| (0..MANY).flat_map(|other| [(*n, other), (other, *n)]));
    pairs.filter(|(at, n)| !world.sites[*at].machine.is_alive(site_id(*n))).collect()
}

/// Bytes and messages of a site that comes back, and of all the others together, beyond what all say at rest.
#[test]
fn who_comes_back_among_many_neither_asks_all_nor_is_asked_by_all() {
    let mut world = many();
    let said = |world: &World| {
        let back = (world.sites[9].sent_bytes, world.sites[9].sent);
        let all = |of: fn(&crate::world::Site) -> u64| world.sites.iter().map(of).sum::<u64>();
        [back.0, back.1, all(|site| site.sent_bytes) - back.0, all(|site| site.sent) - back.1]
    };
    world.stop(9);
    world.run(seconds(150));
    assert!(!world.sites[3].machine.is_alive(site_id(9)));
    let begun = said(&world);
    world.run(seconds(60));
    let rest = said(&world);
    world.restart(9);
    world.run(seconds(60));
    let after = said(&world);
    let beyond = [0, 1, 2, 3].map(|n| (after[n] - rest[n]).saturating_sub(rest[n] - begun[n]));
    println!(
        "back: {} bytes in {} messages; the others: {} in {}",
        beyond[0], beyond[1], beyond[2], beyond[3]
    );
    assert_eq!(missed(&world, &[9]), [], "not heard of");
    assert!(beyond[0] < 60_000 && beyond[2] < 180_000, "{beyond:?}");
}

/// Each is known by all in the life that it has ended, and nobody may take it for dead because of that.
#[test]
fn who_is_back_before_it_was_missed_is_never_taken_for_dead() {
    let mut world = many();
    let back: Vec<usize> = (0..MANY).step_by(4).collect();
    back.iter().for_each(|n| world.restart(*n));
    world.run(seconds(20));
    for second in 20..240 {
        world.run(seconds(1));
        assert_eq!(missed(&world, &back), [], "after {second} s");
    }
}

#[test]
fn what_halves_wrote_apart_comes_together_as_they_meet() {
    let mut world = many();
    let halves =
        || (0..MANY).flat_map(|a| (a + 1..MANY).map(move |b| (a, b))).filter(|(a, b)| a % 2 != b % 2);
    halves().for_each(|(a, b)| world.cut(a, b));
    for n in [4, 7] {
        world.put(n, SYSTEM, n as u32);
    }
    world.run(seconds(200));
    let all: Vec<usize> = (0..MANY).collect();
    assert!(world.difference(SYSTEM, &all).is_some());
    world.heal_all();
    world.run(seconds(3));
    world.assert_converged(SYSTEM, &all);
    world.run(seconds(60));
    assert_eq!(missed(&world, &all), []);
}

/// Each of the others draws 32 links of its own to check: hardly one of these. What they are told by a check of this site they lack.
#[test]
fn what_sites_of_few_links_wrote_while_away_is_found_as_they_come_back() {
    let mut world = World::new(MANY, 7, millis(30));
    let few: Vec<usize> = (10..18).collect();
    few.iter().for_each(|n| world.isolate(*n));
    let links = || few.iter().flat_map(|n| [(*n, n + 20), (*n, n + 60)]);
    links().for_each(|(n, other)| world.heal(n, other));
    world.start();
    world.run(seconds(120));
    links().for_each(|(n, other)| world.cut(n, other));
    few.iter().for_each(|n| world.put(*n, SYSTEM, *n as u32));
    world.run(seconds(200));
    world.said.clear();
    links().for_each(|(n, other)| world.heal(n, other));
    world.run(seconds(5));
    world.assert_converged(SYSTEM, &(0..MANY).collect::<Vec<_>>());
}
