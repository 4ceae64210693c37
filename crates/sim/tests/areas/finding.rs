//! Machines find what others hold, in the time that the bunches promise, and say honestly what they do not know.

use core::time::Duration;

use skerry_sim::areas::Input;
use skerry_sim::areas::ask::{Found, Mode};

use crate::matrix::{Kind, Matrix, mix};
use crate::proof::{self, Looker, id};
use crate::world::{World, bucket};

const SEED: u64 = 11;
const HOLDER: usize = 2;

/// One site holds the bucket, everybody has been told.
fn world(n: usize, k: u8) -> World {
    let mut world = World::new(Matrix::new(Kind::Metric, n, SEED), SEED, k);
    world.run(Duration::from_secs(5));
    world.give(HOLDER, Input::Hold(bucket(1), true));
    world.run(Duration::from_secs(5));
    assert!(world.machines.iter().all(|machine| machine.view().k() == k));
    world
}

fn settled(world: &World) {
    for machine in &world.machines {
        assert_eq!(machine.publisher().settled(), machine.publisher().count());
    }
}

/// The machines take exactly the times computed from the bunches, which keep the bound.
#[test]
fn machines_take_the_times_of_the_proof() {
    for (n, k) in [(3, 1), (16, 1), (60, 2), (260, 3)] {
        let mut world = world(n, k);
        settled(&world);
        let matrix = Matrix::new(Kind::Metric, n, SEED);
        let bunches = proof::exact(&matrix, &vec![true; n], k, SEED);
        let askers = (0..n).filter(|u| *u != HOLDER).step_by(1 + n / 40);
        let (mut at_once, mut waves) = (0, 0);
        for u in askers {
            let promised = Looker::new(&matrix, &bunches, u).find(HOLDER).unwrap();
            let d = matrix.rtt(u, HOLDER);
            for (mode, promised) in [(Mode::AtOnce, promised.at_once), (Mode::Waves, promised.waves)] {
                let end = world.find(u, bucket(1), mode);
                assert_eq!(end.found, Found::At(id(HOLDER)));
                assert_eq!(end.after.as_micros() as u64, promised, "{u} of {n}, {mode:?}");
                let bound = if mode == Mode::Waves { d * 3 / 2 } else { d };
                assert!(end.after <= bound * u32::from(k));
                *if mode == Mode::Waves { &mut waves } else { &mut at_once } += end.messages;
            }
        }
        assert!(waves <= at_once, "{waves} questions in waves, {at_once} at once");
        assert_eq!(world.refused, 0);
    }
}

#[test]
fn a_dead_landmark_delays_but_does_not_hide() {
    let mut world = world(60, 2);
    let matrix = Matrix::new(Kind::Metric, 60, SEED);
    let bunches = proof::exact(&matrix, &[true; 60], 2, SEED);
    for u in (0..60).filter(|u| *u != HOLDER) {
        let promised = Looker::new(&matrix, &bunches, u).find(HOLDER).unwrap();
        if [u, HOLDER].contains(&promised.landmark) {
            continue;
        }
        world.deaf = [promised.landmark].into();
        let end = world.find(u, bucket(1), Mode::AtOnce);
        assert_eq!(end.found, Found::At(id(HOLDER)));
        assert!(end.after.as_micros() as u64 <= promised.without_best, "{u} by way of {}", promised.landmark);
    }
}

#[test]
fn a_silent_holder_gives_way_to_the_next() {
    let mut world = world(60, 2);
    for holder in [9, 17] {
        world.give(holder, Input::Hold(bucket(1), true));
    }
    world.run(Duration::from_secs(5));
    world.deaf = [HOLDER, 9].into();
    for u in (0..60).filter(|u| ![HOLDER, 9, 17].contains(u)) {
        let end = world.find(u, bucket(1), Mode::Waves);
        assert_eq!(end.found, Found::At(id(17)), "asker {u}");
    }
    world.deaf.insert(17);
    let end = world.find(30, bucket(1), Mode::Waves);
    let Found::Silent(sites) = end.found else { unreachable!("{end:?}") };
    assert!(sites.iter().all(|site| [HOLDER, 9, 17].map(id).contains(site)));
    assert!(end.after <= skerry_sim::areas::limits::FIND_TIMEOUT + Duration::from_millis(10));
}

#[test]
fn nobody_is_said_only_by_who_heard_everybody() {
    let mut world = world(60, 2);
    assert_eq!(world.find(20, bucket(7), Mode::Waves).found, Found::Nobody);
    // All landmarks of the top restart; nobody has noticed.
    let tops: Vec<usize> = (0..60).filter(|site| world.machines[*site].view().is_top()).collect();
    assert!(tops.len() >= 5 && !tops.contains(&HOLDER));
    tops.iter().for_each(|top| world.restart(*top));
    let asker = (0..60).find(|site| !tops.contains(site) && *site != HOLDER).unwrap();
    assert_eq!(world.find(asker, bucket(7), Mode::AtOnce).found, Found::NotYetKnown);
    for u in (0..60).filter(|u| *u != HOLDER) {
        let found = world.find(u, bucket(1), Mode::AtOnce).found;
        assert!(found == Found::At(id(HOLDER)) || found == Found::NotYetKnown, "{u}: {found:?}");
    }
    // One site is unheard of: still nobody may say no. It returns: all is known again.
    world.deaf.insert(40);
    for site in 0..60 {
        tops.iter().filter(|top| **top != site).for_each(|top| world.give(site, Input::Returned(id(*top))));
    }
    world.run(Duration::from_secs(10));
    assert_eq!(world.find(20, bucket(1), Mode::Waves).found, Found::At(id(HOLDER)));
    assert_eq!(world.find(20, bucket(7), Mode::Waves).found, Found::NotYetKnown);
    world.deaf.clear();
    world.run(Duration::from_secs(300));
    assert_eq!(world.find(20, bucket(7), Mode::Waves).found, Found::Nobody);
}

#[test]
fn who_asks_too_early_is_served_when_it_is_published() {
    let mut world = world(60, 2);
    let asker = 20;
    world.give(asker, Input::Find { ticket: u64::MAX, bucket: bucket(8), mode: Mode::AtOnce });
    world.run(Duration::from_millis(5));
    world.give(HOLDER, Input::Hold(bucket(8), true));
    // The second question of the same site waits for the same publication.
    let end = world.find(asker, bucket(8), Mode::AtOnce);
    assert_eq!(end.found, Found::At(id(HOLDER)));
}

#[test]
fn what_is_left_is_deleted_and_many_buckets_come_in_pieces() {
    let mut world = world(60, 2);
    world.give(HOLDER, Input::Hold(bucket(1), false));
    for n in 10..=255u8 {
        world.give(HOLDER, Input::Hold(bucket(n), true));
    }
    world.run(Duration::from_secs(30));
    settled(&world);
    assert_eq!(world.find(20, bucket(1), Mode::Waves).found, Found::Nobody);
    assert_eq!(world.find(20, bucket(255), Mode::Waves).found, Found::At(id(HOLDER)));
    let before = world.sent["publish"];
    world.run(Duration::from_secs(3600));
    assert_eq!(world.sent["publish"], before, "at rest nothing is said");
}

/// A landmark that left the bunch is told so when the transition is over, and forgets.
#[test]
fn a_former_landmark_forgets_after_the_transition() {
    let mut world = world(60, 2);
    let top = |world: &World, site: usize| world.machines[site].view().level(id(site)) > 0;
    let told: Vec<usize> = (0..60).filter(|site| *site != HOLDER && !top(&world, *site)).collect();
    let holds = |world: &World, site: usize| world.machines[site].table().holders(bucket(1)).next().is_some();
    let former = told.into_iter().find(|site| holds(&world, *site)).unwrap();
    for _ in 0..skerry_federation::areas::limits::SAMPLES {
        world.give(HOLDER, Input::Measured(id(former), Duration::from_secs(2)));
    }
    world.run(Duration::from_secs(10));
    assert!(holds(&world, former), "old and new are told for a while");
    world.run(skerry_federation::areas::limits::TRANSITION + Duration::from_secs(30));
    assert!(!holds(&world, former));
    assert!(world.machines[former].table().cluster().all(|site| site != id(HOLDER)));
}

#[test]
fn strangers_and_nonsense_are_refused() {
    let mut world = world(16, 1);
    let from = skerry_base::SiteId([0xEE; 16]);
    world.give(0, Input::Message(from, skerry_sim::areas::Message::Cancel { ticket: 1 }));
    assert_eq!(world.refused, 1);
    // Every kind of message, from a known site, about things that never were.
    for turn in 0..200u64 {
        let site = id((1 + mix(turn, 1, 2) % 15) as usize);
        let ticket = mix(turn, 2, 2) % 50;
        let message = match turn % 5 {
            0 => skerry_sim::areas::Message::Published { ticket, life: 9, digest: turn },
            1 => skerry_sim::areas::Message::NotMember { bucket: bucket(1) },
            2 => skerry_sim::areas::Message::PassOn { ticket, bucket: bucket(2), asker: id(0) },
            3 => skerry_sim::areas::Message::Cancel { ticket },
            _ => skerry_sim::areas::Message::Answer {
                ticket,
                bucket: bucket(1),
                said: skerry_sim::areas::Said::PassedOn(vec![id(5); 90]),
            },
        };
        world.give(0, Input::Message(site, message));
    }
    world.run(Duration::from_secs(5));
    assert_eq!(world.find(4, bucket(1), Mode::AtOnce).found, Found::At(id(HOLDER)));
}
